"""What may come into a run and leave it, and what a failing model may be answered with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from kogagent import (
    Agent,
    AskedAgain,
    GuardrailError,
    Guardrails,
    Hooks,
    InputError,
    Limits,
    Message,
    ModelError,
    Retry,
    SamplingParams,
    Transcript,
    TurnRetried,
    UserMessage,
    tool,
)
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import FunctionModel, ScriptedModel, ScriptedTurn, call

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool
async def act() -> str:
    RAN.append("act")
    return "acted"


def no_secrets(messages: Sequence[Message]) -> str | None:
    last = messages[-1]
    return "secrets are off limits" if isinstance(last, UserMessage) and "secret" in last.text else None


async def polite(output: Any) -> str | None:
    await asyncio.sleep(0)
    return None if "please" in output else "Say please."


async def test_a_prompt_that_may_not_pass_ends_the_run_before_anything_is_done() -> None:
    agent = Agent(ScriptedModel(call("act"), "x"), [act], guardrails=Guardrails(prompt=[no_secrets]))
    transcript = Transcript()
    with pytest.raises(
        GuardrailError, match="'no_secrets' did not let the prompt pass: secrets are off"
    ) as caught:
        await agent.run("Tell me the secret.", history=transcript)
    assert (caught.value.guardrail, caught.value.why) == ("no_secrets", "secrets are off limits")
    assert RAN == [] and transcript.messages == (UserMessage("Tell me the secret."),)
    allowed = Agent(ScriptedModel(call("act"), "x"), [act], guardrails=Guardrails(prompt=[no_secrets]))
    assert (await allowed.run("Act.")).output == "x" and RAN == ["act"]


async def test_the_model_is_asked_while_the_guardrail_still_thinks_and_its_words_are_not_acted_on() -> None:
    model_asked = asyncio.Event()

    def say(request: TurnRequest) -> Any:
        model_asked.set()
        return call("act")

    async def slow(messages: Sequence[Message]) -> str | None:
        await model_asked.wait()  # would never come if the model waited for the guardrail
        return "no"

    agent = Agent(FunctionModel(say), [act], guardrails=Guardrails(prompt=[slow]))
    with pytest.raises(GuardrailError, match="'slow'"):
        await agent.run("go")
    assert RAN == []


async def test_a_guardrail_of_a_run_that_fails_is_stopped() -> None:
    async def endless(messages: Sequence[Message]) -> str | None:
        await asyncio.Event().wait()
        return None

    agent = Agent(ScriptedModel(ScriptedTurn(error=ModelError("broken"))), guardrails=Guardrails([endless]))
    with pytest.raises(ModelError, match="broken"):
        await agent.run("go")
    assert not [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]


async def test_an_answer_that_may_not_pass_is_asked_for_again_with_the_reason() -> None:
    model = ScriptedModel("no", "no please")
    async with Agent(model, guardrails=Guardrails(answer=[polite])).stream("go") as stream:
        events = [event async for event in stream]
    assert stream.result.output == "no please"
    assert [e.reason for e in events if isinstance(e, AskedAgain)] == ["Say please."]
    assert model.requests[1].messages[-1] == UserMessage("Say please.")


async def test_after_the_last_attempt_and_where_it_is_said_so_the_answer_is_an_error() -> None:
    agent = Agent(ScriptedModel("no", repeat=True), guardrails=Guardrails(answer=[polite]))
    with pytest.raises(GuardrailError, match="'polite' did not let the answer pass: Say please"):
        await agent.run("go")
    model = ScriptedModel("no", "please")
    strict = Agent(model, guardrails=Guardrails(answer=[polite], on_answer="raise"))
    with pytest.raises(GuardrailError):
        await strict.run("go")
    assert len(model.requests) == 1


async def test_the_guardrail_of_an_answer_gets_the_validated_value() -> None:
    class City(BaseModel):
        people: int

    def large(city: City) -> str | None:
        return None if city.people > 5 else "too small"

    model = ScriptedModel('{"people": 1}', '{"people": 9}')
    result = await Agent(model, output_type=City, guardrails=Guardrails(answer=[large])).run("go")
    assert result.output == City(people=9)


async def test_a_guardrail_may_say_why_not_by_raising_retry() -> None:
    def polite(output: str) -> None:
        if "please" not in output:
            raise Retry("Say please.")

    async def nothing(messages: Sequence[Message]) -> None:
        raise Retry

    model = ScriptedModel("no", "no please")
    assert (await Agent(model, guardrails=Guardrails(answer=[polite])).run("go")).output == "no please"
    assert model.requests[1].messages[-1] == UserMessage("Say please.")
    strict = Guardrails(answer=[polite], on_answer="raise")
    with pytest.raises(GuardrailError, match="'polite' did not let the answer pass: Say please"):
        await Agent(ScriptedModel("no"), guardrails=strict).run("go")
    with pytest.raises(GuardrailError, match="'nothing' did not let the prompt pass: Try again"):
        await Agent(ScriptedModel("no"), guardrails=Guardrails(prompt=[nothing])).run("go")


def test_what_is_no_guardrail_is_refused() -> None:
    for options, words in (
        ({"prompt": "no"}, "prompt='no' must be a list"),
        ({"answer": [3]}, "answer holds 3"),
        ({"on_answer": "shout"}, "on_answer='shout'"),
    ):
        with pytest.raises(InputError, match=words):
            Guardrails(**options)
    with pytest.raises(InputError, match="guardrails=7"):
        Agent(ScriptedModel("x"), guardrails=7)  # type: ignore[call-overload]


async def test_a_guardrail_that_says_something_else_is_named() -> None:
    agent = Agent(ScriptedModel("x"), guardrails=Guardrails(prompt=[lambda messages: False]))  # type: ignore[list-item, return-value]
    with pytest.raises(InputError, match="guardrail '<lambda>' gave False"):
        await agent.run("go")


# ── a model that fails ───────────────────────────────────────────────────────────────────────


async def test_a_hook_may_make_the_turn_again_and_nothing_of_the_failed_one_stays() -> None:
    seen: list[tuple[str, int]] = []

    def again(error: Exception, request: TurnRequest) -> bool:
        seen.append((str(error), len(request.messages)))
        return True

    broken = ScriptedTurn("half", (call("act"),), error=ModelError("broken"))
    model = ScriptedModel(broken, broken, "whole")
    async with Agent(model, [act], hooks=Hooks(on_error=again)).stream("go") as stream:
        events = [event async for event in stream]
    assert stream.result.output == "whole" and len(stream.result.messages) == 2 and RAN == []
    assert [e.attempt for e in events if isinstance(e, TurnRetried)] == [1, 2]
    assert seen == [("broken", 1), ("broken", 1)] and stream.result.turns == 1


async def test_a_hook_may_answer_for_the_model_or_let_the_error_pass() -> None:
    model = ScriptedModel(ScriptedTurn(error=ModelError("broken")), repeat=True)
    result = await Agent(model, hooks=Hooks(on_error=lambda error, request: "sorry")).run("go")
    assert result.output == "sorry" and result.reason == "finished"
    for hook in (lambda error, request: False, None):
        with pytest.raises(ModelError, match="broken"):
            await Agent(model, hooks=Hooks(on_error=hook)).run("go")
    with pytest.raises(InputError, match="hook on_error gave None"):
        await Agent(model, hooks=Hooks(on_error=lambda error, request: None)).run("go")  # type: ignore[arg-type, return-value]


async def test_retries_of_a_turn_are_bounded() -> None:
    model = ScriptedModel(ScriptedTurn(error=ModelError("broken")), repeat=True)
    hooks = Hooks(on_error=lambda error, request: True)
    with pytest.raises(ModelError, match="broken"):
        await Agent(model, hooks=hooks, limits=Limits(model_retries=4)).run("go")
    assert len(model.requests) == 5


# ── how tokens are drawn ─────────────────────────────────────────────────────────────────────


async def test_sampling_and_priority_of_the_agent_and_the_run_reach_the_model() -> None:
    model = ScriptedModel("a", "b", "c")
    warm, hot = SamplingParams(temperature=0.5), SamplingParams(temperature=1.5, seed=3)
    agent = Agent(model, sampling=warm, priority=2)
    await agent.run("go")
    await agent.run("go", sampling=hot)
    await Agent(model).run("go")
    assert [request.sampling for request in model.requests] == [warm, hot, None]
    assert [request.priority for request in model.requests] == [2, 2, 0]
    for wrong in ({"sampling": {"temperature": 1}}, {"priority": 9}, {"priority": 1.0}, {"name": " "}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Agent(model, **wrong)
