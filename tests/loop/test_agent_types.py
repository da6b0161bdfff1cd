"""What a type checker knows of an agent. `assert_type` is the checker's to hold; the rest runs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal, assert_type

import pytest

from kogagent import (
    Agent,
    AgentStream,
    BestOf,
    Conversation,
    Limits,
    RunContext,
    RunResult,
    ToolCall,
    tool,
)
from kogagent.loop.agent import AgentOptions
from kogagent.testing import ScriptedModel, call


@dataclass
class City:
    name: str


@dataclass
class Shop:
    stock: dict[str, int]


@tool
async def count(item: str, context: RunContext[Shop]) -> int:
    """Count."""
    assert_type(context.deps, Shop)
    return context.deps.stock[item]


def instructions(shop: Shop) -> str:
    return f"There are {', '.join(shop.stock)}."


OSLO = '{"name": "Oslo"}'


async def test_the_output_of_a_run_has_the_type_that_was_asked_for() -> None:
    text = Agent(ScriptedModel("x", "x", "x"))
    assert_type(text, Agent[Any, str])
    assert_type((await text.run("go")).output, str)
    assert_type(Agent(ScriptedModel("x"), output_type=str), Agent[Any, str])

    agent = Agent(ScriptedModel(OSLO, repeat=True), output_type=City)
    assert_type(agent, Agent[Any, City | None])
    result = await agent.run("go")
    assert_type(result, RunResult[City | None])
    assert result.output is not None and result.output.name == "Oslo"
    async with agent.conversation() as talk, agent.stream("go") as events:
        assert_type(talk, Conversation[Any, City | None])
        assert_type(events, AgentStream[City | None])
        async for _ in events:
            pass
        assert_type(events.result.output, City | None)
        assert_type(await talk.run("go"), RunResult[City | None])
        async with await talk.fork() as fork:
            assert_type(fork, Conversation[Any, City | None])
        best = await talk.best_of(2, "go", score=lambda result: 0 if result.output is None else 1)
        assert_type(best, BestOf[City | None])
        assert_type(best.best.output, City | None)

    several = Agent(ScriptedModel("[3]"), output_type=list[int])
    assert_type((await several.run("go")).output, list[int] | None)
    either = Agent(ScriptedModel("3"), output_type=int | None)
    assert_type((await either.run("go")).output, Any)
    word = Agent(ScriptedModel('"a"'), output_type=Literal["a", "b"])
    assert_type((await word.run("go")).output, Any)


async def test_a_limit_that_ends_a_run_leaves_no_output_of_the_type() -> None:
    model = ScriptedModel(call("count", item="x"))
    agent = Agent(model, [count], output_type=City, limits=Limits(max_turns=1))
    result = await agent.run("go", deps=Shop({"x": 1}))
    assert result.output is None


async def test_the_deps_of_an_agent_are_those_that_its_functions_ask_for() -> None:
    agent = Agent(ScriptedModel(call("count", item="lamp"), "two"), [count], instructions=instructions)
    assert_type(agent, Agent[Shop, str])
    assert (await agent.run("go", deps=Shop({"lamp": 2}))).output == "two"
    with pytest.raises(AttributeError):
        await agent.run("go", deps=3)  # type: ignore[arg-type]

    def approve(call: ToolCall, context: RunContext[Shop]) -> bool:
        return "lamp" in context.deps.stock

    assert_type(Agent(ScriptedModel("x"), approve=approve, output_type=City), Agent[Shop, City | None])
    declared: Agent[Shop, str] = Agent(ScriptedModel("x"), [count])
    assert_type((await declared.run("go", deps=Shop({}))).output, str)
    said = Agent[Shop, City | None](ScriptedModel(OSLO), [count], output_type=City)
    assert_type(said, Agent[Shop, City | None])
    assert (await said.run("go")).output == City("Oslo")


def test_an_agent_of_whatever_types_may_be_handed_on() -> None:
    def named(agent: Agent) -> str:
        return agent.name

    typed: Agent[Any, object] = Agent(ScriptedModel("x"), output_type=City)
    assert named(Agent(ScriptedModel("x"), handoffs=[Agent(ScriptedModel("x"), output_type=City)])) == "agent"
    assert named(typed.can_hand_off_to(Agent(ScriptedModel("x"), name="b"))) == "agent"


def test_type_checkers_are_told_of_every_option() -> None:
    taken = inspect.signature(Agent.__init__).parameters.keys()
    assert AgentOptions.__annotations__.keys() == taken - {"self", "model", "tools", "output_type"}
