"""Conversations that pass from agent to agent, and agents that are tools of others."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kogagent import (
    Agent,
    AgentEvent,
    Approved,
    AssistantMessage,
    HandedOff,
    Handoff,
    HandOverMessage,
    InputError,
    Limits,
    Nested,
    RunContext,
    RunResult,
    SchemaError,
    SessionStore,
    SystemMessage,
    ToolFinished,
    ToolMessage,
    ToolProgress,
    TurnFinished,
    TurnStarted,
    Usage,
    UserMessage,
    tool,
)
from kogagent.testing import FunctionModel, ScriptedModel, ScriptedTurn, call


@tool
async def look_up(order: int) -> str:
    """Look an order up."""
    return f"order {order} is on its way"


def statuses(result: RunResult) -> list[str]:
    return [m.result.status for m in result.messages if isinstance(m, ToolMessage)]


async def test_another_agent_goes_on_with_its_own_instructions_tools_and_model() -> None:
    billing_model = ScriptedModel(call("look_up", order=7), "It is on its way.")
    billing = Agent(billing_model, [look_up], instructions="You know orders.", name="billing")
    front_model = ScriptedModel(call("transfer_to_billing", reason="an order"))
    front = Agent(front_model, handoffs=[billing], instructions="You greet.", name="front")
    events: list[AgentEvent] = []
    async with front.stream("Where is order 7?") as stream:
        events += [event async for event in stream]
        result = stream.result
    assert result.output == "It is on its way." and result.agent == "billing" and result.turns == 3
    assert result.messages[0] == SystemMessage("You know orders.")
    assert front_model.requests[0].messages[0] == SystemMessage("You greet.")
    shown = billing_model.requests[0]
    assert [spec.name for spec in shown.tools] == ["look_up"]
    assert shown.messages == [result.messages[0], UserMessage("Where is order 7?")]
    assert HandOverMessage("billing", ("call_1",)) in result.messages and statuses(result) == ["ok", "ok"]
    (handed,) = [event for event in events if isinstance(event, HandedOff)]
    assert (handed.source, handed.target, handed.call.name) == ("front", "billing", "transfer_to_billing")
    assert [e.agent for e in events if isinstance(e, TurnStarted)] == ["front", "billing", "billing"]
    assert [turn.agent for turn in result.per_turn] == ["front", "billing", "billing"]


async def test_calls_beside_a_hand_off_run_and_a_second_hand_off_does_not() -> None:
    others = [Agent(ScriptedModel("x"), name=name) for name in ("first", "second")]
    turn = [call("transfer_to_first"), call("look_up", order=1), call("transfer_to_second")]
    front = Agent(ScriptedModel(turn), [look_up], handoffs=others)
    result = await front.run("go")
    assert statuses(result) == ["ok", "ok", "denied"] and result.agent == "first"
    model = others[0].model
    assert isinstance(model, ScriptedModel)
    prompt, turn_left, found = model.requests[0].messages
    assert isinstance(turn_left, AssistantMessage) and [one.name for one in turn_left.calls] == ["look_up"]
    assert isinstance(found, ToolMessage) and found.result.name == "look_up" and prompt == UserMessage("go")


async def test_the_calls_of_who_goes_on_are_bounded_by_the_limits_of_who_began(
    rng: np.random.Generator,
) -> None:
    ran: list[int] = []

    async def look(n: int) -> str:
        ran.append(n)
        return f"{n} is there"

    for bound in ("max_calls", "turn_calls"):
        ran.clear()
        room = int(rng.integers(2, 6))
        turn = [call("look", n=n) for n in range(8)]
        second = Agent(
            ScriptedModel(turn, "Seen."), [look], name="second", limits=Limits(max_calls=1, turn_calls=1)
        )
        script = ScriptedModel(call("transfer_to_second"))
        result = await Agent(script, handoffs=[second]).run("go", limits=Limits(**{bound: room}))
        handed = 1 if bound == "max_calls" else 0  # the hand-over is a call of the run
        assert (result.output, len(ran)) == ("Seen.", room - handed)


async def test_agents_may_hand_back_and_forth_until_the_first_ones_limits_end_it() -> None:
    ping = Agent(
        ScriptedModel(call("transfer_to_pong"), repeat=True), name="ping", limits=Limits(max_turns=7)
    )
    pong = Agent(ScriptedModel(call("transfer_to_ping"), repeat=True), name="pong", handoffs=[ping])
    ping.can_hand_off_to(pong)
    result = await ping.run("go")
    assert result.turns == 7 and result.reason in ("max_turns", "repeated_call")


async def test_an_agent_that_gets_a_conversation_back_reads_why() -> None:
    front_model = ScriptedModel(call("transfer_to_expert", reason="too hard"), "Then I shall answer.")
    expert = Agent(ScriptedModel(call("transfer_to_front", reason="not my field")), name="expert")
    front = Agent(front_model, handoffs=[expert], name="front")
    expert.can_hand_off_to(front)
    assert (await front.run("go")).agent == "front"
    prompt, handed, answer = front_model.requests[1].messages
    assert prompt == UserMessage("go") and isinstance(answer, ToolMessage)
    assert isinstance(handed, AssistantMessage) and "not my field" in handed.calls[0].arguments


async def test_a_stored_hand_over_is_read_again_as_the_run_read_it(tmp_path: Path) -> None:
    model = ScriptedModel("On its way.", "Not at all.")
    orders = Agent(model, name="orders")
    front = Agent(
        ScriptedModel([call("look_up", order=1), call("transfer_to_orders")]), [look_up], handoffs=[orders]
    )
    with SessionStore(tmp_path / "runs.sqlite") as store:
        await front.run("Where is it?", history=store.open("ada"))
    with SessionStore(tmp_path / "runs.sqlite") as store:
        await orders.run("Thanks!", history=store.open("ada"))
    first, second = (request.messages for request in model.requests)
    assert len(first) == 3 and second[:3] == tuple(first)
    assert second[3:] == (AssistantMessage("On its way."), UserMessage("Thanks!"))


@pytest.mark.parametrize("history", ["all", "task"])
async def test_a_hand_off_beside_a_call_that_waits_leaves_both_to_be_read(history: Any) -> None:
    @tool(needs_approval=True)
    async def delete() -> str:
        return "gone"

    model = ScriptedModel("done")
    other = Agent(model, [delete], name="other", approve="defer")
    turn = [call("delete"), call("other")]
    front = Agent(
        ScriptedModel(turn),
        [delete],
        handoffs=[Handoff(other, name="other", history=history)],
        approve="defer",
    )
    async with front.conversation() as talk:
        waiting = await talk.run("go")
        assert waiting.reason == "deferred" and waiting.agent == "other"
        (asked,) = waiting.pending
        result = await talk.run(answers={asked.id: Approved()})
    assert result.output == "done" and len(model.requests[0].messages) == 4


async def test_a_hand_off_of_the_task_alone_hides_the_rest_and_keeps_it_in_the_record() -> None:
    model = ScriptedModel("done")
    specialist = Agent(model, name="specialist")
    front = Agent(
        ScriptedModel(call("look_up", order=1), call("expert", reason="too hard")),
        [look_up],
        handoffs=[Handoff(specialist, name="expert", description="Ask the expert.", history="task")],
        instructions="Greet.",
    )
    result = await front.run("Do it.")
    shown = model.requests[0].messages
    assert len(shown) == 2 and isinstance(shown[1], UserMessage)
    assert shown[1].text.startswith("Do it.") and "too hard" in shown[1].text
    assert len([m for m in result.messages if isinstance(m, ToolMessage)]) == 2
    spec = front.toolbox.specs[-1]
    assert (spec.name, spec.description) == ("expert", "Ask the expert.")


async def test_a_conversation_goes_on_with_the_agent_it_was_left_with() -> None:
    billing = Agent(ScriptedModel("first", "second"), name="billing")
    front = Agent(ScriptedModel(call("transfer_to_billing")), handoffs=[billing])
    async with front.conversation() as talk:
        assert (await talk.run("a")).output == "first"
        assert (await talk.run("b")).output == "second" and talk.agent is billing


async def test_a_vetoed_hand_off_stays() -> None:
    from kogagent import Hooks

    other = Agent(ScriptedModel("x"), name="other")
    hooks = Hooks(before_call=lambda asked, context: "stay" if asked.name.startswith("transfer") else None)
    front = Agent(ScriptedModel(call("transfer_to_other"), "I stayed."), handoffs=[other], hooks=hooks)
    result = await front.run("go")
    assert result.output == "I stayed." and statuses(result) == ["denied"] and result.agent == "agent"


def test_a_hand_off_and_an_agent_as_a_tool_are_told_by_what_the_agent_is_for() -> None:
    for said in ("Knows where orders are.", " Knows where orders are\n"):
        orders = Agent(ScriptedModel("x"), name="orders", description=said)
        described = Handoff(orders, name="ask", description="Ask for orders.")
        front = Agent(ScriptedModel("x"), [orders.as_tool()], handoffs=[orders, described])
        assert [spec.description for spec in front.toolbox.specs] == [
            said.strip(),
            "Knows where orders are. Hands the conversation over to orders.",
            "Ask for orders.",
        ]
        assert orders.as_tool(description="Asks.").spec.description == "Asks."
    with pytest.raises(InputError, match=r"agent 'agent' has no description .* Write Agent\(description=…\)"):
        Agent(ScriptedModel("x")).as_tool()
    with pytest.raises(InputError, match="description=None must be a text"):
        Agent(ScriptedModel("x"), description=None)  # type: ignore[call-overload]


def test_what_cannot_take_over_is_refused() -> None:
    with pytest.raises(InputError, match="neither an Agent nor a Handoff"):
        Agent(ScriptedModel("x"), handoffs=["billing"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="history='some'"):
        Handoff(Agent(ScriptedModel("x")), history="some")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="takes an Agent"):
        Handoff("x")  # type: ignore[arg-type]
    twice = Agent(ScriptedModel("x"), name="a b")
    with pytest.raises(SchemaError, match=r"two tools have the name 'transfer_to_a_b'.*'a-b'.*Agent\(name=…"):
        Agent(ScriptedModel("x"), handoffs=[twice, Agent(ScriptedModel("x"), name="a-b")])
    front = Agent(ScriptedModel("x"), handoffs=[twice])
    with pytest.raises(SchemaError, match="two tools have the name 'transfer_to_a_b'"):
        front.can_hand_off_to(twice)
    assert list(front.handoffs) == ["transfer_to_a_b"]


# ── agents as tools ──────────────────────────────────────────────────────────────────────────


async def test_an_agent_as_a_tool_gives_its_events_tokens_and_deps_to_the_run_that_called_it() -> None:
    seen: list[Any] = []

    async def note(context: RunContext[Any]) -> str:
        seen.append(context.deps)
        return "noted"

    inner_model = ScriptedModel(
        ScriptedTurn("", (call("note"),), usage=Usage(1, 2, 3, 4, 5)),
        ScriptedTurn("42", usage=Usage(10, 20, 30, 40, 50)),
    )
    inner = Agent(inner_model, [note], name="inner")
    outer_model = ScriptedModel(
        ScriptedTurn("", (call("inner", task="t"),), usage=Usage(100, 0, 0, 0, 1)), "done"
    )
    outer = Agent(outer_model, [inner.as_tool(description="Thinks.")])
    async with outer.stream("go", deps="deps") as stream:
        events = [event async for event in stream]
        result = stream.result
    assert seen == ["deps"] and result.usage == Usage(111, 22, 33, 44, 56)
    nested = [event for event in events if isinstance(event, Nested)]
    asked = next(m for m in result.messages if isinstance(m, ToolMessage)).result
    assert {event.call_id for event in nested} == {asked.call_id} and asked.text == "42"
    inside = [type(event.event).__name__ for event in nested]
    assert inside[0] == "TurnStarted" and inside[-1] == "RunFinished" and "ToolFinished" in inside
    turns = [event for event in events if isinstance(event, TurnFinished)]
    assert sum((turn.usage for turn in turns), Usage()) == result.usage
    assert turns[0].usage == Usage(111, 22, 33, 44, 56)


async def test_a_nested_run_that_fails_counts_what_it_used() -> None:
    used = Usage(0, 1, 2, 3, 4)
    inner = Agent(
        ScriptedModel(
            ScriptedTurn("", (call("missing"),), usage=used), ScriptedTurn(error=ValueError("bad"))
        ),
        name="inner",
    )
    outer = Agent(ScriptedModel(call("inner", task="t"), "x"), [inner.as_tool(description="d")])
    result = await outer.run("go")
    assert statuses(result) == ["failed"] and result.usage == used


async def test_cancelling_the_outer_run_cancels_the_inner_one() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    inner = Agent(ScriptedModel(call("wait")), [wait], name="inner")
    outer = Agent(ScriptedModel(call("inner", task="t")), [inner.as_tool(description="d")])
    task = asyncio.ensure_future(outer.run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_nested_run_that_waits_for_permission_is_told_as_a_failure() -> None:
    @tool(needs_approval=True)
    async def delete() -> str:
        return "gone"

    inner = Agent(ScriptedModel(call("delete")), [delete], approve="defer", name="inner")
    outer = Agent(ScriptedModel(call("inner", task="t"), "x"), [inner.as_tool(description="d")])
    result = await outer.run("go")
    assert statuses(result) == ["failed"]
    assert "needs permission for delete" in str(result.messages[2])


async def test_a_tool_reports_how_far_it_is_from_any_thread() -> None:
    async def on_loop(context: RunContext[None]) -> str:
        context.report("half")
        return "x"

    def in_thread(context: RunContext[None]) -> str:
        context.report({"done": 0.5})
        return "x"

    agent = Agent(ScriptedModel([call("on_loop"), call("in_thread")], "x"), [on_loop, in_thread])
    async with agent.stream("go") as stream:
        events = [event async for event in stream]
    told = [(e.call.name, e.value) for e in events if isinstance(e, ToolProgress)]
    assert sorted(told) == [("in_thread", {"done": 0.5}), ("on_loop", "half")]
    for name in ("on_loop", "in_thread"):
        places = [
            type(e).__name__
            for e in events
            if isinstance(e, ToolProgress | ToolFinished) and e.call.name == name
        ]
        assert places == ["ToolProgress", "ToolFinished"]


async def test_the_model_may_be_asked_for_json_of_a_hand_off() -> None:
    def ask(request: Any) -> Any:
        schema = next(t for t in request.tools if t.name == "transfer_to_other").parameters
        assert json.loads(json.dumps(schema))["properties"]["reason"]["type"] == "string"
        return call("transfer_to_other")

    other = Agent(ScriptedModel("x"), name="other")
    assert (await Agent(FunctionModel(ask), handoffs=[other]).run("go")).output == "x"
