"""Hooks look into a run and change or stop it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kogagent import (
    Agent,
    AssistantMessage,
    Hooks,
    InputError,
    RunContext,
    RunResult,
    ToolCall,
    ToolMessage,
    ToolResult,
    Transcript,
    UserMessage,
    tool,
)
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import ScriptedModel, call

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool
async def read(path: str) -> str:
    RAN.append(path)
    return f"contents of {path}"


@tool
async def write(path: str) -> str:
    RAN.append(path)
    return "written"


def results(result: RunResult) -> list[tuple[str, str]]:
    return [(m.result.status, m.result.text) for m in result.messages if isinstance(m, ToolMessage)]


async def test_before_turn_chooses_the_tools_of_each_turn_and_others_cannot_be_called() -> None:
    async def reading_first(request: TurnRequest) -> TurnRequest:
        allowed = {"read"} if len(request.messages) == 1 else {"read", "write"}
        return replace(request, tools=[t for t in request.tools if t.name in allowed], max_tokens=7)

    model = ScriptedModel([call("write", path="a"), call("read", path="b")], call("write", path="c"), "x")
    result = await Agent(model, [read, write], hooks=Hooks(before_turn=reading_first)).run("go")
    assert [[t.name for t in r.tools] for r in model.requests] == [
        ["read"],
        ["read", "write"],
        ["read", "write"],
    ]
    assert {r.max_tokens for r in model.requests} == {7}
    assert [status for status, _ in results(result)] == ["unknown_tool", "ok", "ok"]
    assert RAN == ["b", "c"]


async def test_before_call_may_veto_with_words_for_the_model() -> None:
    def guard(call: ToolCall, context: RunContext[Any]) -> str | None:
        return "secrets are off limits" if "secret" in call.arguments else None

    model = ScriptedModel([call("read", path="secret"), call("read", path="b")], "x")
    result = await Agent(model, [read], hooks=Hooks(before_call=guard)).run("go")
    assert results(result) == [("denied", "secrets are off limits"), ("ok", "contents of b")]
    assert RAN == ["b"]


async def test_after_call_may_change_what_the_model_reads() -> None:
    async def redact(call: ToolCall, result: ToolResult) -> ToolResult:
        return ToolResult("another id", "another name", result.text.replace("contents", "[redacted]"))

    result = await Agent(
        ScriptedModel(call("read", path="a"), "x"), [read], hooks=Hooks(after_call=redact)
    ).run("go")
    assert results(result) == [("ok", "[redacted] of a")]


async def test_a_guardrail_stops_the_run_before_anything_is_acted_on() -> None:
    def guard(message: AssistantMessage) -> None:
        if any("secret" in call.arguments for call in message.calls):
            raise PermissionError("the model asked for secrets")

    transcript = Transcript()
    agent = Agent(ScriptedModel(call("read", path="secret")), [read], hooks=Hooks(after_turn=guard))
    with pytest.raises(PermissionError, match="asked for secrets"):
        await agent.run("go", history=transcript)
    assert not RAN and transcript.messages == (UserMessage("go"),)


@pytest.mark.parametrize("name", ["before_call", "after_call"])
async def test_a_hook_that_fails_in_a_call_leaves_the_history_whole(name: str) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("bug")

    transcript = Transcript()
    script = ScriptedModel([call("read", path="a"), call("read", path="b")])
    with pytest.raises(KeyError, match="bug"):
        await Agent(script, [read], hooks=Hooks(**{name: broken})).run("go", history=transcript)
    closed = [m.result.status for m in transcript.messages if isinstance(m, ToolMessage)]
    assert closed == ["cancelled", "cancelled"] and not transcript.open_calls


@pytest.mark.parametrize("name", ["before_turn", "after_turn", "before_call", "after_call"])
async def test_a_hook_that_gives_something_else_is_named(name: str) -> None:
    def odd(*_: Any) -> Any:
        return 3

    with pytest.raises(InputError, match=f"hook {name} gave 3"):
        await Agent(ScriptedModel(call("read", path="a"), "x"), [read], hooks=Hooks(**{name: odd})).run("go")


async def test_a_hook_that_gives_its_value_wrong_parts_is_named() -> None:
    def turn(request: TurnRequest) -> TurnRequest:
        return replace(request, tools=[read])  # type: ignore[list-item]

    def result(call: ToolCall, said: ToolResult) -> ToolResult:
        return replace(said, text=7)  # type: ignore[arg-type]

    for hooks, words in ((Hooks(before_turn=turn), "no ToolSpec"), (Hooks(after_call=result), "text is 7")):
        with pytest.raises(InputError, match=words):
            await Agent(ScriptedModel(call("read", path="a"), "x"), [read], hooks=hooks).run("go")


def test_what_is_no_hook_is_refused() -> None:
    odd: Any = "print"
    with pytest.raises(InputError, match=r"Hooks\.before_turn='print'"):
        Hooks(before_turn=odd)
    with pytest.raises(InputError, match=r"kogagent\.Hooks"):
        Agent(ScriptedModel("x"), hooks=odd)
