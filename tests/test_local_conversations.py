"""An engine under agents: phrases, forks of its cache, ids that come back, exact counts, turns taken
fairly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_local_model import ASK, CALL, TOOLS, Stage, said, text_of

from kogagent import (
    Agent,
    AgentEvent,
    AssistantMessage,
    Compacted,
    Compaction,
    Engine,
    Hooks,
    Limits,
    Message,
    RunResult,
    SamplingParams,
    SessionStore,
    ToolMessage,
    TurnEnd,
    TurnFinished,
    UserMessage,
    messages_from_json,
    messages_to_json,
    tool,
)
from kogagent.engine.session import Session
from kogagent.local.clip import clip
from kogagent.loop.protocols import ForkingModel, MeasuringModel, TurnRequest
from kogagent.testing.tiny import write_tiny_model
from kogagent.tokenizer import Tokenizer
from kogagent.types import ObserveDelta, PlanDelta


@tool
async def weather(city: str, unit: str) -> str:
    """The weather of a city."""
    return f"12 degrees {unit} in {city}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder)


@pytest.fixture
async def stage(tokenizer: Tokenizer) -> AsyncIterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(*turns: str) -> Stage:
        made.append(Stage(tokenizer, turns))
        return made[-1]

    yield make
    for one in made:
        await one.engine.aclose()


async def events_of(agent: Agent, prompt: str = "Is it warm in Oslo?") -> tuple[list[AgentEvent], RunResult]:
    async with agent.stream(prompt) as stream:
        return [event async for event in stream], stream.result


# ── phrases ──────────────────────────────────────────────────────────────────────────────────


async def test_what_results_come_to_is_said_before_the_next_plan(stage: Callable[..., Stage]) -> None:
    one = stage(
        f"I look it up.\n{CALL}", f"It is warm there.\nNow again.\n{CALL}", "Seen.\nNo more to do.\nWarm."
    )
    agent = Agent(one.engine, [weather], plan=40, observe=50, limits=Limits(turn_tokens=400))
    events, result = await events_of(agent)
    assert result.output == "Warm." and result.turns == 3
    messages = [m for m in result.messages if isinstance(m, AssistantMessage)]
    assert [m.plan for m in messages] == [
        *["I look it up.", "It is warm there.\nNow again.", "Seen.\nNo more to do."]
    ]
    told = [(type(e).__name__, e.text) for e in events if isinstance(e, ObserveDelta | PlanDelta)]
    assert "".join(t for name, t in told if name == "ObserveDelta") == "It is warm there.Seen."
    # Nothing was rendered anew: the phrases are in the cache as they stand in the history.
    ends = [e for e in events if isinstance(e, TurnEnd)]
    assert ends[1].usage.prefilled_tokens < 140 < ends[1].usage.reused_tokens
    model = one.engine.model()
    prompt = one.engine.chat.render(result.messages[:-1], agent.toolbox.specs)
    assert ends[2].usage.prompt_tokens == len(prompt) + len("\n\n")
    await model.aclose()


async def test_an_observation_has_its_budget_and_may_be_the_answer(stage: Callable[..., Stage]) -> None:
    one = stage(CALL, "Warm.")
    agent = Agent(one.engine, [weather], observe=40)
    events, result = await events_of(agent)
    assert result.output == "Warm." and result.messages[-1] == AssistantMessage("Warm.")
    assert "".join(e.text for e in events if isinstance(e, ObserveDelta)) == "Warm."
    two = stage(CALL, "It is rather warm over there", "x")
    events, _ = await events_of(Agent(two.engine, [weather], observe=7))
    assert "".join(e.text for e in events if isinstance(e, ObserveDelta)) == "It is r"


async def test_a_call_begun_in_the_observation_skips_the_plan(stage: Callable[..., Stage]) -> None:
    one = stage(CALL, CALL, "Done.\nReally.\nYes.")
    _, result = await events_of(Agent(one.engine, [weather], observe=40, plan=40))
    assert result.turns == 3 and len([m for m in result.messages if isinstance(m, ToolMessage)]) == 2


# ── phases ───────────────────────────────────────────────────────────────────────────────────


async def test_the_phases_of_a_real_turn_sum_to_its_wall_time(stage: Callable[..., Stage]) -> None:
    one = stage(f"I look.\n{CALL}", "Warm.")
    events, result = await events_of(Agent(one.engine, [weather], plan=30))
    turns = [e for e in events if isinstance(e, TurnFinished)]
    assert tuple(turns) == result.per_turn and len(turns) == 2
    for turn in turns:
        phases = turn.timings.phases
        assert sum(phases.values()) == pytest.approx(turn.timings.wall_s, abs=1e-9)
        assert min(phases.values()) >= -1e-9
        assert phases["sampled"] > 0 and phases["prefill"] > 0 and phases["render"] > 0
    assert turns[0].timings.forced_s > 0 and turns[1].timings.reuse_s >= 0
    assert sum(t.timings.wall_s for t in turns) <= result.timings.wall_s


# ── ids ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_transcript_holds_the_ids_its_turns_were_written_in(
    stage: Callable[..., Stage], tokenizer: Tokenizer
) -> None:
    one = stage(f"I look.\n{CALL}", "Warm.")
    _, result = await events_of(Agent(one.engine, [weather], plan=30))
    turns = [m for m in result.messages if isinstance(m, AssistantMessage)]
    for turn in turns:
        text = tokenizer.vocabulary.decode(turn.ids).decode()
        assert turn.text in text and turn.plan in text and all(c.arguments in text for c in turn.calls)
    again = messages_from_json(messages_to_json(result.messages))
    assert [m.ids for m in again if isinstance(m, AssistantMessage)] == [m.ids for m in turns]


async def test_a_session_that_comes_back_is_the_very_ids_it_was(
    stage: Callable[..., Stage], tmp_path: Path
) -> None:
    """The model wrote `warm` in other tokens than an encoder would: rendering would not give them back."""
    one = stage("It is warm.", "Yes.", "Sure.")
    path = tmp_path / "s.sqlite"
    with SessionStore(path) as store:
        await Agent(one.engine).run("Is it warm?", history=store.open("a"))
    with SessionStore(path) as store:
        agent = Agent(one.engine)
        second = await agent.run("Sure?", history=store.open("a"))
        assert second.usage.reused_tokens > second.usage.prefilled_tokens > 0
        assert second.output == "Yes."


async def test_ids_are_used_only_where_they_say_what_the_message_says(stage: Callable[..., Stage]) -> None:
    from kogagent.local.replayed import replayed

    one = stage(CALL, "Warm.")
    _, result = await events_of(Agent(one.engine, [weather]))
    chat, tokenizer, specs = one.engine.chat, one.engine.tokenizer, Agent(one.engine, [weather]).toolbox.specs
    messages = [*result.messages, UserMessage("Thanks")]
    rendered = chat.render(messages, specs)
    assert replayed(chat, tokenizer, messages, specs) == rendered
    other = [m if not isinstance(m, AssistantMessage) else _with_ids(m, m.ids[:-3]) for m in messages]
    assert replayed(chat, tokenizer, other, specs) is None, "ids of something else"
    foreign = [m if not isinstance(m, AssistantMessage) else _with_ids(m, (10**6,)) for m in messages]
    assert replayed(chat, tokenizer, foreign, specs) is None, "ids of another vocabulary"
    bare = [m if not isinstance(m, AssistantMessage) else _with_ids(m, ()) for m in messages]
    assert replayed(chat, tokenizer, bare, specs) is None


def _with_ids(message: AssistantMessage, ids: tuple[int, ...]) -> AssistantMessage:
    return AssistantMessage(message.text, message.plan, message.calls, ids)


# ── forks ────────────────────────────────────────────────────────────────────────────────────


async def test_a_fork_computes_only_what_is_its_own(stage: Callable[..., Stage]) -> None:
    one = stage("Warm.", "One.")
    agent = Agent(one.engine, instructions="Be brief.")
    async with agent.conversation() as talk:
        await talk.run("Is it warm in Oslo, and in every other town of Norway that you know of?")
        async with await talk.fork() as other:
            mine, others = await asyncio.gather(talk.run("Sure?"), other.run("Really?"))
    for result in (mine, others):
        assert result.output == "One."
        assert result.usage.reused_tokens > 4 * result.usage.prefilled_tokens / 3
        assert result.usage.prefilled_tokens < 60


async def test_several_runs_share_a_prefix_that_is_computed_once(folder: Path) -> None:
    async with Engine.load(folder, device="cpu") as engine:
        agent = Agent(engine, instructions="Say something. " * 12, limits=Limits(turn_tokens=12))
        before = engine.usage
        best = await agent.best_of(4, "Go on.", score=lambda result: len(result.output))
        runs = [one for one in best.results if isinstance(one, RunResult)]
        assert len({one.output for one in runs}) > 1, "each has a seed of its own"
        assert len(best.best.output) == max(len(one.output) for one in runs)
        prompt = runs[0].usage.prompt_tokens
        for one in runs:
            assert (
                one.usage.prefilled_tokens
                <= 2
                < one.usage.reused_tokens
                == prompt - one.usage.prefilled_tokens
            )
        assert (engine.usage.prompt_tokens - before.prompt_tokens) == 4 * prompt


async def test_a_fork_in_the_middle_of_a_turn_starts_before_it(stage: Callable[..., Stage]) -> None:
    one = stage("It is warm there, and it will be.", "x")
    model = one.engine.model()
    assert isinstance(model, ForkingModel) and isinstance(model, MeasuringModel)
    stream = model.stream(TurnRequest(ASK))
    head = await anext(stream)
    other = await model.fork()
    events = [event async for event in other.stream(TurnRequest(ASK))]
    rest = [event async for event in stream]
    assert text_of(events) == "It is warm there, and it will be."
    end = events[-1]
    assert isinstance(end, TurnEnd) and end.usage.reused_tokens >= end.usage.prompt_tokens - 1
    assert text_of([head, *rest]) == text_of(events)
    await model.aclose()
    await other.aclose()


async def test_a_right_guess_is_a_turn_that_was_computed_meanwhile(stage: Callable[..., Stage]) -> None:
    one = stage(CALL, "Warm.")
    hooks = Hooks(predict=lambda asked, context: "12 degrees c in Oslo")
    _, right = await events_of(Agent(one.engine, [weather], hooks=hooks))
    two = stage(CALL, "Warm.")
    _, plain = await events_of(Agent(two.engine, [weather]))
    assert right.messages == plain.messages and right.usage == plain.usage
    three = stage(CALL, "Warm.")
    wrong_guess = Hooks(predict=lambda asked, context: "it snows")
    _, wrong = await events_of(Agent(three.engine, [weather], hooks=wrong_guess))
    assert wrong.messages == plain.messages
    assert wrong.usage.prefilled_tokens >= plain.usage.prefilled_tokens
    assert three.engine.usage.completion_tokens == wrong.usage.completion_tokens


# ── counts ───────────────────────────────────────────────────────────────────────────────────


async def test_results_are_cut_to_exactly_so_many_tokens(
    stage: Callable[..., Stage], rng: np.random.Generator
) -> None:
    one = stage("x")
    tokenizer = one.engine.tokenizer
    letters = ["a", "é", "😀", "\n", "  ", "日本"]
    for _ in range(20):
        text = "".join(rng.choice(letters, int(rng.integers(1, 400))))
        most = int(rng.integers(60, 300))  # the line that says what is missing takes up to 40
        cut = clip(tokenizer, text, most)
        size = len(tokenizer.encode(text))
        if size <= most:
            assert cut == text
        else:
            assert most - 10 <= len(tokenizer.encode(cut)) <= most
            assert f"of {size} tokens left out" in cut and "\ufffd" not in cut
            head, _, tail = cut.partition("\n[…")
            assert text.startswith(head) and text.endswith(tail.partition("…]\n")[2])
    assert len(tokenizer.encode(clip(tokenizer, "word " * 100, 5))) <= 5

    @tool
    async def long() -> str:
        return "x" * 1000

    model = one.engine.model()
    call = '<tool_call>\n{"name": "long", "arguments": {}}\n</tool_call>'
    two = stage(call, "done")
    result = await Agent(two.engine, [long], limits=Limits(result_tokens=100)).run("go")
    (told,) = [m.result.text for m in result.messages if isinstance(m, ToolMessage)]
    assert 97 <= len(tokenizer.encode(told)) <= 100
    await model.aclose()


async def test_a_conversation_outgrows_an_engine_and_goes_on(stage: Callable[..., Stage]) -> None:
    one = stage(*[CALL] * 30, "Warm.")

    @tool
    async def weather(city: str, unit: str) -> str:
        return "warm " * 50

    limits = Limits(turn_tokens=200, repeated_calls=None)

    def turns(messages: Sequence[Message]) -> int:
        return sum(isinstance(m, AssistantMessage) for m in messages)

    agent = Agent(one.engine, [weather], limits=limits, compaction=Compaction())
    seen: list[Any] = []
    async with agent.stream("Is it warm?") as stream:
        async for event in stream:
            seen.append(event)
            if isinstance(event, TurnFinished) and event.turn == 12:
                break
    compacted = [e for e in seen if isinstance(e, Compacted)]
    assert compacted, "2,048 tokens of context were enough"
    for event in compacted:
        assert event.tokens_after <= 1024 < event.tokens_before <= 2048
    ends = [e for e in seen if isinstance(e, TurnEnd)]
    assert max(e.usage.prompt_tokens + e.usage.completion_tokens for e in ends) <= 2048
    assert any(e.usage.prompt_tokens == c.tokens_after for e in ends for c in compacted), "exact"


# ── many agents ──────────────────────────────────────────────────────────────────────────────


async def test_agents_that_share_an_engine_stream_at_their_priority_and_all_finish(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a priority is worth is the engine's: tests/engine/test_session.py.
    text = ("It is warm. " * 12).strip()
    one = stage(text)
    stream, asked = Session.stream, list[int]()

    def seen(session: Session, **options: Any) -> Any:
        asked.append(session.priority)
        return stream(session, **options)

    monkeypatch.setattr(Session, "stream", seen)
    agents = [Agent(one.engine, priority=p, instructions=f"Be {p}.") for p in (-6, 6, 0)]
    results = await asyncio.gather(*(agent.run("go") for agent in agents))
    assert [result.output.strip() for result in results] == [text] * 3
    assert sorted(asked) == [-6, 0, 6]


async def test_the_agents_own_sampling_draws_and_the_runs_wins(folder: Path) -> None:
    async with Engine.load(folder, device="cpu") as engine:
        warm = SamplingParams(temperature=1.0, seed=1)
        agent = Agent(engine, sampling=warm, limits=Limits(turn_tokens=20))
        same = [(await agent.run("go")).output for _ in range(2)]
        other = (await agent.run("go", sampling=SamplingParams(temperature=1.0, seed=2))).output
        greedy = (await Agent(engine, limits=Limits(turn_tokens=20)).run("go")).output
        assert same[0] == same[1] != other and greedy not in (same[0], other)


async def test_going_on_after_a_turn_told_in_the_loops_words(stage: Callable[..., Stage]) -> None:
    """`said` of the loop and of the model agree for every kind of turn, so that nothing is rendered twice."""
    one = stage("A.\nB.\nC.", "D.")
    events = await one.turn(ASK, plan_tokens=30, observe_tokens=30, tools=TOOLS)
    assert one.model.past is not None
    message = AssistantMessage(text_of(events), "A.\nB.")
    assert one.model.past.continues((*ASK, message, UserMessage("x")), TOOLS)
    assert not one.model.past.continues((*ASK, said(events[:1]), UserMessage("x")), TOOLS)


async def test_a_set_of_tools_and_a_clock_in_the_instructions_keep_the_prefix(
    stage: Callable[..., Stage],
) -> None:
    """The second turn computes what is new, and its counter shows it."""
    one = stage(CALL, "Warm.")
    clock = iter(range(100))

    @tool
    async def other() -> str:
        """Something else."""
        return ""

    agent = Agent(one.engine, {weather, other}, instructions=lambda deps: f"It is {next(clock)} o'clock.")
    _, result = await events_of(agent)
    first, second = (turn.usage for turn in result.per_turn)
    assert second.reused_tokens >= first.prompt_tokens + first.completion_tokens - 2
    assert 0 < second.prefilled_tokens < 100 < first.prefilled_tokens
