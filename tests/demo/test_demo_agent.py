"""The demo's worked examples, its agent, and one run of the real model."""

from __future__ import annotations

import re

import pytest

from benchmarks.demo_success import SETS, Question
from kogagent.demo import (
    DEFAULT_MODEL,
    DEFAULT_QUESTION,
    demo_history,
    demo_model,
    museum_agent,
    worked_examples,
)
from kogagent.demo.database import PATTERN
from kogagent.demo.examples import SHOWN, examples, nearest
from kogagent.testing.models import ScriptedModel, call
from kogagent.types import AssistantMessage, Message, ToolMessage, UserMessage


def _texts(messages: list[Message]) -> str:
    return "\n".join(
        message.result.text if isinstance(message, ToolMessage) else getattr(message, "text", "")
        for message in messages
    )


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.question)
def test_an_example_answers_from_its_results(example: object) -> None:
    from kogagent.demo.examples import Example

    assert isinstance(example, Example)
    assert not re.search(r"[{}]", example.question + example.answer), "a place was left open"
    last = example.steps[-1].result.splitlines()[0].rpartition(": ")[2].rstrip(".")
    assert last in example.answer
    for step in example.steps:
        if step.tool == "query":
            assert re.fullmatch(PATTERN, step.arguments["sql"]), "the grammar must allow what examples show"


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How heavy is Lark in pounds?", "How heavy is Maple in ounces?"),
        ("What did the Merlin expedition cost per day?", "What did the Heron expedition cost per day?"),
        ("How many posters were sold?", "How many magnets did the shop sell?"),
    ],
)
def test_the_nearest_example_comes_last(question: str, kind: str) -> None:
    shown = nearest(question)
    assert len(shown) == SHOWN
    assert shown[-1].question == kind


def test_no_example_shares_a_name_with_the_question() -> None:
    for name in ("Merlin", "Kestrel", "Onyx", "map", "maps", "shell"):
        shown = nearest(f"What about {name}?", count=20)
        assert len(shown) == 20
        assert all(example.name.rstrip("s") != name.rstrip("s") for example in shown)


@pytest.mark.parametrize(
    "question", [q for questions in SETS.values() for q in questions], ids=lambda question: question.text
)
def test_the_answer_of_a_measured_question_is_not_in_its_prompt(question: Question) -> None:
    # Short numbers and the four expeditions' names turn up by chance; they are no answer there.
    telling = [text for text in question.expected if len(text) > 2 and text not in ("Merlin", "Osprey")]
    shown = _texts(worked_examples(question.text)).lower()
    assert not [text for text in telling if re.search(rf"\b{re.escape(text.lower())}\b", shown)]


def test_the_sets_of_questions_are_thirty_each_and_disjoint() -> None:
    texts = [question.text for questions in SETS.values() for question in questions]
    assert [len(questions) for questions in SETS.values()] == [30, 30]
    assert len(set(texts)) == 60


def test_an_answer_counts_only_with_whole_words_and_numbers() -> None:
    question = Question("?", "5", "84")
    assert question.is_answered("It found 5 fossils and walked 84 miles.")
    assert not question.is_answered("It found 15 fossils and walked 84 miles.")
    assert not question.is_answered("It found 5 fossils and walked 84.5 miles.")
    assert Question("?", "2255").is_answered("2,255 euros")
    assert Question("?", "Ada Renn").is_answered("the cook was ADA RENN")


async def test_a_run_calls_tools_and_reads_their_results() -> None:
    model = ScriptedModel(
        call("search", text="how far the Kestrel team walked"),
        call("convert", value=84, unit="miles", to="kilometres"),
        "It walked 135.18 kilometres.",
    )
    history = worked_examples("How far did Kestrel walk?")
    result = await museum_agent(model).run("How far did Kestrel walk?", history=history)
    assert result.output == "It walked 135.18 kilometres."
    seen = [m.result.text for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
    assert seen[-2:] == [
        "kestrel.txt: The team walked 84 miles in all, most of it along the dry river.",
        "kilometres: 135.18",
    ]
    assert [request.tool_choice for request in model.requests] == ["required", "auto", "auto"]


async def test_the_real_model_answers_the_default_question_with_three_calls() -> None:
    from kogagent.local import Engine

    with Engine.load(DEFAULT_MODEL, device="cpu") as engine:
        agent = museum_agent(demo_model(engine))
        result = await agent.run(DEFAULT_QUESTION, history=demo_history(engine, DEFAULT_QUESTION))
    asked = result.messages.index(UserMessage(DEFAULT_QUESTION))
    own = result.messages[asked:]
    calls = [one for message in own if isinstance(message, AssistantMessage) for one in message.calls]
    results = [message.result for message in own if isinstance(message, ToolMessage)]
    assert [one.name for one in calls] == ["query", "query", "compute"]
    assert [one.text for one in results] == ["cost: 36150", "days: 63", "result: 573.81"]
    assert all(one.status == "ok" for one in results)
    for figure in ("36150", "63", "573.81"):
        assert re.search(rf"\b{re.escape(figure)}\b", str(result.output)), result.output
    assert result.usage.forced_tokens > 0 and result.usage.reused_tokens > 0
