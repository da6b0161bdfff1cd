"""An agent: a model, tools, and the rules of their runs. Knows no tokens, no device."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, overload

from typing_extensions import Unpack

from kogagent.errors import InputError, SchemaError, ToolFailed, check_takes, named_options
from kogagent.loop.compaction import Compaction
from kogagent.loop.conversation import BestOf, Conversation, History, Score
from kogagent.loop.guardrails import Guardrails
from kogagent.loop.handoff import Handoff, handoff_tool
from kogagent.loop.hooks import Hooks
from kogagent.loop.limits import Limits
from kogagent.loop.observers import Observer
from kogagent.loop.protocols import Model, ModelSource, ToolChoice
from kogagent.loop.step import Check, Invalid, Valid
from kogagent.loop.stream import AgentStream
from kogagent.loop.subagent import run_nested
from kogagent.sampling import SamplingParams
from kogagent.types import Answer, RunContext, RunResult
from kogagent.types.context import Deps
from kogagent.types.events import Out

if TYPE_CHECKING:
    from kogagent.tools.tool import Tool
    from kogagent.tools.toolbox import Approve, Toolbox

Instructions: TypeAlias = str | Callable[[Deps], str | Awaitable[str]]
T = TypeVar("T")

_PHASE_TOKENS = 64


class AgentOptions(TypedDict, Generic[Deps], total=False):
    """What an Agent takes by keyword besides output_type, for type checkers."""

    instructions: Instructions[Deps]
    plan: bool | int
    observe: bool | int
    limits: Limits | None
    tool_choice: ToolChoice
    on_tool_error: Literal["tell", "raise"]
    approve: Approve[Deps] | None
    hooks: Hooks | None
    observers: Sequence[Observer]
    guardrails: Guardrails | None
    compaction: Compaction | None
    handoffs: Iterable[Agent[Any, Any] | Handoff]
    sampling: SamplingParams | None
    priority: int
    name: str
    description: str


class Agent(Generic[Deps, Out]):
    """Runs a model and tools in a loop: plan, call, observe, until there is an answer.

    Deps is what runs are given as deps, Out what their output may be: str, or the output type and None, which
    is the output where a limit ended the run before there was one. Type checkers find both, Deps where
    instructions or approve name it; `Agent[Deps, Out]` says so where they cannot. After a hand-off the output
    is of the type of the agent that ended the run.

    model: an Engine, or anything that is a Model. tools: functions, Tools, toolkits, or a Toolbox.
    instructions: the system message, or a function of the run's deps that gives it once a run.
    plan: tokens of a short plan before each act; observe: tokens of a short text, before that, on what the
    results come to; True for 64, 0 for none. output_type: the answer is JSON of this type, validated; str for
    any text. tool_choice: "auto", "none", "required" or a tool's name, until a call was made.
    on_tool_error: "tell" the model of an exception that a tool did not mean to raise, or "raise" it.
    approve: asked before each call of a tool that needs approval, see Toolbox.
    hooks: functions that look into the run, see Hooks. observers: watch every run from outside, see
    kogagent.observe. guardrails: what may come in and leave, see Guardrails.
    compaction: how a conversation that outgrows the model is shortened, see Compaction; None: it is an error.
    handoffs: agents that may take the conversation over, see Handoff.
    sampling: how tokens are drawn, None as the model does by itself. priority: each step up doubles this
    agent's share of an engine that several ask at the same time; a waiting agent always gets its turn.
    description: a sentence of what the agent is for, which other agents' models read of it: of a hand-off to
    it, or of it as a tool.
    An agent keeps no state between runs; any number of runs may go on at once.
    """

    @overload
    def __init__(
        self: Agent[Deps, str],
        model: Model | ModelSource,
        tools: Iterable[Any] | Toolbox = (),
        *,
        output_type: type[str] | None = ...,
        **options: Unpack[AgentOptions[Deps]],
    ) -> None: ...

    @overload
    def __init__(
        self: Agent[Deps, T | None],
        model: Model | ModelSource,
        tools: Iterable[Any] | Toolbox = (),
        *,
        output_type: type[T],
        **options: Unpack[AgentOptions[Deps]],
    ) -> None: ...

    @overload
    def __init__(  # what is no class, a union say: no type checker follows
        self: Agent[Deps, Any],
        model: Model | ModelSource,
        tools: Iterable[Any] | Toolbox = (),
        *,
        output_type: Any,
        **options: Unpack[AgentOptions[Deps]],
    ) -> None: ...

    @named_options
    def __init__(
        self,
        model: Model | ModelSource,
        tools: Iterable[Any] | Toolbox = (),
        *,
        instructions: Instructions[Any] = "",
        plan: bool | int = False,
        observe: bool | int = False,
        output_type: Any = str,
        limits: Limits | None = None,
        tool_choice: ToolChoice = "auto",
        on_tool_error: Literal["tell", "raise"] = "tell",
        approve: Approve[Any] | None = None,
        hooks: Hooks | None = None,
        observers: Sequence[Observer] = (),
        guardrails: Guardrails | None = None,
        compaction: Compaction | None = None,
        handoffs: Iterable[Agent[Any, Any] | Handoff] = (),
        sampling: SamplingParams | None = None,
        priority: int = 0,
        name: str = "agent",
        description: str = "",
    ) -> None:
        """Raises InputError, SchemaError for what cannot be used."""
        from kogagent.tools.toolbox import Toolbox

        if inspect.isclass(model):
            raise InputError(f"{model!r} is a class. Pass an instance: Engine.load(…), say.")
        if not (hasattr(model, "stream") or hasattr(model, "as_model")):  # isinstance takes a while
            raise InputError(
                f"{model!r} is no model: it has neither stream() nor as_model(). Pass an Engine"
                + (f": Engine.load({model!r})." if isinstance(model, str) else ".")
            )
        if not isinstance(instructions, str):
            if not callable(instructions):
                raise InputError(f"instructions must be text or a function of deps, not {instructions!r}")
            check_takes(instructions, "instructions", "the run's deps")
        for phase, tokens in (("plan", plan), ("observe", observe)):
            if not isinstance(tokens, int) or tokens < 0:
                raise InputError(f"{phase}={tokens!r} must be True, False or a number of tokens >= 0")
        if on_tool_error not in ("tell", "raise"):
            raise InputError(f"on_tool_error={on_tool_error!r} must be 'tell' or 'raise'")
        if type(priority) is not int or not -8 <= priority <= 8:
            raise InputError(f"priority={priority!r} must be an integer in -8 .. 8")
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"name={name!r} must be a text that is not empty")
        if not isinstance(description, str):
            raise InputError(f"description={description!r} must be a text")
        if isinstance(tools, Toolbox) and approve is not None:
            raise InputError("approve belongs to the Toolbox: Toolbox([…], approve=…)")
        self.model = model
        self.name = name
        self.description = description.strip()
        self.instructions = instructions
        self.limits = _of_type(limits, Limits, "limits")
        self.hooks = _of_type(hooks, Hooks, "hooks")
        self.guardrails = _of_type(guardrails, Guardrails, "guardrails")
        self.compaction = None if compaction is None else _of_type(compaction, Compaction, "compaction")
        self.sampling = None if sampling is None else _of_type(sampling, SamplingParams, "sampling")
        self.priority = priority
        self.output_type = output_type
        self.tool_choice = tool_choice
        self.on_tool_error: Literal["tell", "raise"] = on_tool_error
        self.plan_tokens = _PHASE_TOKENS if plan is True else int(plan)
        self.observe_tokens = _PHASE_TOKENS if observe is True else int(observe)
        for option, several in (("observers", observers), ("handoffs", handoffs)):
            if isinstance(several, str) or not isinstance(several, Iterable):
                raise InputError(f"{option}={several!r} must be a list. Write {option}=[…].")
        self.observers = tuple(observers)
        for observer in self.observers:
            if not isinstance(observer, Observer) or inspect.isclass(observer):
                raise InputError(f"{observer!r} has no run_started(): no observer. See kogagent.Observer.")
        self.toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools, approve=approve)
        self.handoffs: Mapping[str, Handoff] = {}
        self.can_hand_off_to(*handoffs)
        names = [spec.name for spec in self.toolbox.specs]
        if tool_choice not in ("auto", "none", "required", *names):
            known = ", ".join(map(repr, ("auto", "none", "required", *names)))
            raise InputError(f"tool_choice={tool_choice!r} must be one of {known}")
        if tool_choice == "required" and not names:
            raise InputError("tool_choice='required' needs tools. Pass tools=[…].")
        self.check, self.output_schema = _reader(output_type)

    def can_hand_off_to(self, *handoffs: Agent[Any, Any] | Handoff) -> Agent[Deps, Out]:
        """Let these agents too take its conversations over: for agents that name each other. Returns itself.

        Each is a tool for the model. Raises InputError for what is no agent, SchemaError for a name that is
        taken.
        """
        found = dict(self.handoffs)
        taken = {spec.name for spec in self.toolbox.specs}
        tools = []
        for one in handoffs:
            if not isinstance(one, Agent | Handoff):
                raise InputError(f"handoffs holds {one!r}, which is neither an Agent nor a Handoff")
            handoff = one if isinstance(one, Handoff) else Handoff(one)
            made = handoff_tool(handoff)
            if made.name in taken:
                raise SchemaError(
                    f"two tools have the name {made.name!r}, one hands over to agent {handoff.agent.name!r}. "
                    "Give agents names that differ, Agent(name=…), or the tool another: Handoff(…, name=…).",
                    tool=made.name,
                )
            taken.add(made.name)
            tools.append(made)
            found[made.name] = handoff
        if tools:
            self.toolbox, self.handoffs = self.toolbox.extended(tools), found
        return self

    # ── runs ──

    @named_options
    def stream(
        self,
        prompt: str | None = None,
        *,
        history: History | None = None,
        deps: Deps | None = None,
        sampling: SamplingParams | None = None,
        limits: Limits | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> AgentStream[Out]:
        """The run as events; see AgentStream. Takes what `run` takes."""
        conversation = Conversation(self, history)
        return conversation.stream(
            prompt, deps=deps, sampling=sampling, limits=limits, answers=answers, alone=True
        )

    @named_options
    async def run(
        self,
        prompt: str | None = None,
        *,
        history: History | None = None,
        deps: Deps | None = None,
        sampling: SamplingParams | None = None,
        limits: Limits | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> RunResult[Out]:
        """Run to the answer.

        history: messages of an earlier run, or a Transcript, which the run appends to: it stays consistent
        and keeps what was done even when the run is cancelled or raises. Without prompt the history goes
        on. deps reaches tools through RunContext. sampling: how tokens are drawn in this run. limits: of this
        run, in place of the agent's. answers: by the ids of calls that the history left waiting, whether they
        may run or what came of them. Raises InputError before any work, ModelError or DeviceError from the
        model, GuardrailError, under on_tool_error="raise" a tool's exception.
        """
        async with Conversation(self, history) as conversation:
            return await conversation.run(
                prompt, deps=deps, sampling=sampling, limits=limits, answers=answers
            )

    @named_options
    def run_sync(
        self,
        prompt: str | None = None,
        *,
        history: History | None = None,
        deps: Deps | None = None,
        sampling: SamplingParams | None = None,
        limits: Limits | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> RunResult[Out]:
        """`run` for code without an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # and no run in here: its errors would seem to come of this one
        else:
            raise InputError("run_sync() would block the running event loop. Write: await agent.run(…)")
        return asyncio.run(
            self.run(prompt, history=history, deps=deps, sampling=sampling, limits=limits, answers=answers)
        )

    def conversation(self, history: History | None = None) -> Conversation[Deps, Out]:
        """Runs that follow each other on one history and one model, to fork, rewind and choose from."""
        return Conversation(self, history)

    async def best_of(
        self,
        n: int,
        prompt: str | None = None,
        *,
        score: Score[Out],
        history: History | None = None,
        deps: Deps | None = None,
        sampling: SamplingParams | None = None,
        limits: Limits | None = None,
    ) -> BestOf[Out]:
        """The best of n runs from one prompt, whose prefix is computed once; see Conversation.best_of."""
        async with Conversation(self, history) as conversation:
            return await conversation.best_of(
                n, prompt, score=score, deps=deps, sampling=sampling, limits=limits
            )

    def as_tool(
        self, *, name: str | None = None, description: str | None = None, timeout: float | None = None
    ) -> Tool[..., Any]:
        """This agent as a tool of another: it takes a task as text and answers with its output.

        It runs with the deps of the run that calls it. Its events are that run's `Nested` ones, its tokens
        count as that run's. Cancelling the call cancels it. name, description: the agent's own where None.
        Raises InputError where neither has a description, SchemaError for a name no tool can have.
        """
        from kogagent.tools.tool import Tool

        if description is None:
            description = self.description
            if not description:
                raise InputError(
                    f"agent {self.name!r} has no description for its callers. Write Agent(description=…) or "
                    "as_tool(description=…)."
                )

        async def ask(task: str, context: RunContext[Any]) -> Any:
            result = await run_nested(Conversation(self), task, context)
            if result.reason == "deferred":
                waiting = ", ".join(call.name for call in result.pending)
                raise ToolFailed(f"it needs permission for {waiting}, which cannot be waited for here.")
            return result.output

        made: Tool[..., Any] = Tool(ask, name=name or self.name, description=description, timeout=timeout)
        return made

    def __repr__(self) -> str:
        return f"<Agent {self.name!r} with {len(self.toolbox.specs)} tools>"


def _of_type(value: Any, kind: Any, name: str) -> Any:
    """The value, or the kind's default for None. Raises InputError for anything else."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise InputError(f"{name}={value!r} must be a kogagent.{kind.__name__}")
    return value


def _reader(output_type: Any) -> tuple[Check | None, Any]:
    """How an answer is read, and the schema it must have."""
    if output_type is str or output_type is None:
        return None, None
    from kogagent.tools import schema

    name = output_type.__name__ if inspect.isclass(output_type) else repr(output_type)
    adapter, wanted = schema.of_type(output_type, name=name)
    extra = schema.output_extra(wanted)

    def check(text: str) -> Valid | Invalid:
        try:
            return Valid(schema.read_json(adapter, text, extra))
        except ValueError as error:
            return Invalid(f"The answer cannot be used: {schema.explain(error)}. Answer with the JSON alone.")

    return check, wanted
