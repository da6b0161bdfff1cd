"""The model doubles do what they say; check_model passes a good model and fails each broken one."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from kogagent import InputError, ModelError, TextDelta, ToolCall, TurnEnd, Usage, UserMessage
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import FunctionModel, ScriptedModel, ScriptedTurn, call, check_model
from kogagent.types import CallDelta, CallReady, CallStarted, FinishReason, ModelEvent, PlanDelta

REQUEST = TurnRequest((UserMessage("go"),))


async def played(model: Any, request: TurnRequest = REQUEST) -> list[ModelEvent]:
    return [event async for event in model.stream(request)]


# ── the doubles ──────────────────────────────────────────────────────────────────────────────


async def test_a_script_is_played_turn_by_turn_and_its_requests_are_kept() -> None:
    model = ScriptedModel("one", ["two", call("ls", path="/")])
    assert await played(model) == [TextDelta("one"), TurnEnd("stop")]
    made = ToolCall("call_1", "ls", '{"path": "/"}')
    assert await played(model) == [
        TextDelta("two"),
        CallStarted("call_1", "ls"),
        CallDelta("call_1", made.arguments),
        CallReady(made),
        TurnEnd("stop"),
    ]
    assert model.requests == [REQUEST, REQUEST]
    with pytest.raises(ModelError, match=r"2 turns.* after UserMessage\(text='go'\)\. Add"):
        await played(model)


async def test_ids_differ_over_turns_and_a_repeated_script_goes_on() -> None:
    model = ScriptedModel([call("a"), call("b")], repeat=True)
    ids = [e.call.id for _ in range(3) for e in await played(model) if isinstance(e, CallReady)]
    assert ids == [f"call_{n}" for n in range(1, 7)]


async def test_an_error_of_the_script_comes_after_its_text() -> None:
    model = ScriptedModel(ScriptedTurn("a", error=ModelError("broken")))
    stream = model.stream(REQUEST)
    assert await anext(stream) == TextDelta("a")
    with pytest.raises(ModelError, match="broken"):
        await anext(stream)


async def test_a_function_may_be_sync_or_async() -> None:
    async def later(request: TurnRequest) -> str:
        return f"{len(request.messages)} later"

    assert (await played(FunctionModel(later)))[0] == TextDelta("1 later")
    assert (await played(FunctionModel(lambda request: call("ls"))))[0] == CallStarted("call_1", "ls")


def test_a_script_that_cannot_be_played_is_refused() -> None:
    with pytest.raises(InputError, match="at least one turn"):
        ScriptedModel()
    with pytest.raises(InputError, match=r"3.*kogagent\.testing\.call"):
        ScriptedModel(["x", 3])  # type: ignore[list-item]
    for wrong in ({"city": "Oslo"}, 3, b"Oslo", int):
        with pytest.raises(InputError, match=re.escape(f"{wrong!r} is no turn: pass a text")):
            ScriptedModel(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"arguments are a text\. Write values by name"):
        call("ls", {"path": "/"})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not both"):
        call("ls", "{}", path="x")


# ── the conformance suite ────────────────────────────────────────────────────────────────────


class Obedient:
    """A model that keeps to every rule, one character a token."""

    def __init__(self) -> None:
        self.known = 0

    def answer(self, request: TurnRequest) -> ScriptedTurn:
        if not request.messages:
            raise InputError("no messages")
        names = [tool.name for tool in request.tools]
        if request.tool_choice not in ("auto", "none", "required", *names):
            raise InputError("tool_choice names no tool")
        if request.tool_choice == "required" and not names:
            raise InputError("no tools to require")
        reused, prompt = self.known, sum(len(repr(message)) for message in request.messages)
        self.known = prompt
        usage = Usage(reused_tokens=reused, prefilled_tokens=max(prompt - reused, 0))
        if request.tool_choice not in ("auto", "none"):
            name = names[0] if request.tool_choice == "required" else request.tool_choice
            arguments = {"city": "Oslo"} if name == "weather" else {}
            made = ToolCall("c1", name, json.dumps(arguments))
            return ScriptedTurn(calls=(made,), usage=replace(usage, sampled_tokens=20))
        text = '{"sum": 3}' if request.output_schema else "It is three degrees."
        cut = text[: request.max_tokens]
        reason: FinishReason = "stop" if cut == text else "length"
        return ScriptedTurn(cut, reason=reason, usage=replace(usage, sampled_tokens=len(cut)))

    def events(self, request: TurnRequest) -> list[Any]:
        from kogagent.testing.models import turn_events

        return list(turn_events(self.answer(request), 1, delta=3))

    async def stream(self, request: TurnRequest) -> AsyncIterator[Any]:
        for event in self.events(request):
            yield event


async def test_a_model_that_keeps_to_the_rules_passes() -> None:
    await check_model(Obedient, reuses=True)


def broken(change: Callable[[TurnRequest, list[Any]], list[Any]]) -> Callable[[], Obedient]:
    class Broken(Obedient):
        def events(self, request: TurnRequest) -> list[Any]:
            return change(request, super().events(request))

    return Broken


def without(kind: type) -> Callable[[TurnRequest, list[Any]], list[Any]]:
    return lambda request, events: [event for event in events if not isinstance(event, kind)]


def replaced(old: Any, new: Any) -> Callable[[TurnRequest, list[Any]], list[Any]]:
    def change(request: TurnRequest, events: list[Any]) -> list[Any]:
        return [
            CallReady(replace(e.call, **new)) if isinstance(e, CallReady) and old == "call" else e
            for e in events
        ]

    return change


def forgets(request: TurnRequest, events: list[Any]) -> list[Any]:
    return [
        replace(e, usage=replace(e.usage, reused_tokens=0)) if isinstance(e, TurnEnd) else e for e in events
    ]


def eats_messages(request: TurnRequest, events: list[Any]) -> list[Any]:
    request.messages.pop()  # type: ignore[attr-defined]
    return events


def overspends(request: TurnRequest, events: list[Any]) -> list[Any]:
    return [replace(e, usage=Usage(sampled_tokens=500)) if isinstance(e, TurnEnd) else e for e in events]


def calls_anyway(request: TurnRequest, events: list[Any]) -> list[Any]:
    made = ToolCall("c9", "ping", "{}")
    extra = [CallStarted("c9", "ping"), CallDelta("c9", "{}"), CallReady(made)]
    return [*events[:-1], *extra, events[-1]] if request.tools else events


def talks_instead(request: TurnRequest, events: list[Any]) -> list[Any]:
    return [TextDelta("no"), events[-1]]


def wrong_json(request: TurnRequest, events: list[Any]) -> list[Any]:
    return [TextDelta("three"), TurnEnd("stop")] if request.output_schema else events


def plans_instead(request: TurnRequest, events: list[Any]) -> list[Any]:
    return [PlanDelta("hm"), TextDelta("hm"), TurnEnd("stop")] if request.plan_tokens else events


def plans_instead_of_json(request: TurnRequest, events: list[Any]) -> list[Any]:
    return plans_instead(request, events) if request.output_schema else events


def odd_reason(request: TurnRequest, events: list[Any]) -> list[Any]:
    odd: Any = "done"
    return [TurnEnd(odd) if isinstance(e, TurnEnd) else e for e in events]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (without(TurnEnd), "ends with TurnEnd"),
        (lambda request, events: [*events, TextDelta("x")], "nothing follows TurnEnd"),
        (lambda request, events: ["x", *events], "yields ModelEvents"),
        (lambda request, events: [TextDelta(""), *events], "whole code points"),
        (without(CallDelta), "deltas concatenate"),
        (without(CallStarted), "follows its CallStarted"),
        (without(CallReady), "becomes ready"),
        (replaced("call", {"name": "other"}), "CallStarted of its name"),
        (odd_reason, "FinishReason"),
        (calls_anyway, "tool_choice='none' allows no calls"),
        (talks_instead, "demands a call"),
        (overspends, "max_tokens=3"),
        (eats_messages, "never changes its messages"),
        (wrong_json, "must be JSON"),
        (forgets, "reuses at least"),
        (plans_instead, "after a plan too"),
        (plans_instead_of_json, "with output_schema after a plan"),
    ],
)
async def test_each_broken_rule_is_found(
    change: Callable[[TurnRequest, list[Any]], list[Any]], rule: str
) -> None:
    with pytest.raises(AssertionError, match=re.escape(rule)):
        await check_model(broken(change), reuses=True)


async def test_arguments_outside_the_schema_and_accepted_bad_requests_are_found() -> None:
    class WrongArguments(Obedient):
        def answer(self, request: TurnRequest) -> ScriptedTurn:
            turn = super().answer(request)
            return replace(turn, calls=tuple(replace(c, arguments='{"town": 3}') for c in turn.calls))

    with pytest.raises(AssertionError, match="fit their schema"):
        await check_model(WrongArguments)

    class Lenient(Obedient):
        def answer(self, request: TurnRequest) -> ScriptedTurn:
            return super().answer(request) if request.messages else ScriptedTurn("x")

    with pytest.raises(AssertionError, match="empty list of messages"):
        await check_model(Lenient)


async def test_a_turn_that_goes_on_after_its_close_is_found() -> None:
    class Deaf:
        def __init__(self, events: list[Any]) -> None:
            self.rest = iter(events)

        def __aiter__(self) -> Deaf:
            return self

        async def __anext__(self) -> Any:
            for event in self.rest:
                return event
            raise StopAsyncIteration

        async def aclose(self) -> None:
            pass

    class Model(Obedient):
        def stream(self, request: TurnRequest) -> Any:
            if not request.messages:
                raise InputError("no messages")
            return Deaf(self.events(request))

    with pytest.raises(AssertionError, match="a closed turn yields nothing more"):
        await check_model(Model)
