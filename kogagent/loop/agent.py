"""An agent: a model, tools, and the rules of their runs. Knows no tokens, no device."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kogagent.errors import InputError
from kogagent.loop.channel import Channel, Nobody
from kogagent.loop.hooks import Hooks
from kogagent.loop.limits import Limits
from kogagent.loop.observers import Observer, RunInfo, Watched
from kogagent.loop.protocols import ClosingModel, Model, ModelSource, ToolChoice
from kogagent.loop.run import Run, Setup, Sink, finish_within
from kogagent.loop.step import Check, Invalid, Valid
from kogagent.loop.stream import AgentStream
from kogagent.loop.transcript import Transcript
from kogagent.types import Message, RunResult, UserMessage

if TYPE_CHECKING:
    from kogagent.tools.tool import Tool
    from kogagent.tools.toolbox import Approve, Toolbox

Instructions: TypeAlias = str | Callable[[Any], str | Awaitable[str]]
History: TypeAlias = Transcript | Sequence[Message]

_PLAN_TOKENS = 64
_CLOSE_S = 5.0


class Agent:
    """Runs a model and tools in a loop: plan, call, observe, until there is an answer.

    model: an Engine, or anything that is a Model. tools: functions, Tools, toolkits, or a Toolbox.
    instructions: the system message, or a function of the run's deps that gives it once a run.
    plan: tokens of a short plan before each act; True for 64, 0 for none. output_type: the answer is JSON of
    this type, validated; str for any text. tool_choice: "auto", "none", "required" or a tool's name, until a
    call was made. on_tool_error: "tell" the model of an exception that a tool did not mean to raise, or
    "raise" it. approve: asked before each call of a tool that needs approval, see Toolbox.
    hooks: functions that look into the run, see Hooks. observers: watch every run from outside, see
    kogagent.observe. An agent keeps no state between
    runs; any number of runs may go on at once.
    """

    def __init__(
        self,
        model: Model | ModelSource,
        tools: Iterable[Any] | Toolbox = (),
        *,
        instructions: Instructions = "",
        plan: bool | int = False,
        output_type: Any = str,
        limits: Limits | None = None,
        tool_choice: ToolChoice = "auto",
        on_tool_error: Literal["tell", "raise"] = "tell",
        approve: Approve | None = None,
        hooks: Hooks | None = None,
        observers: Sequence[Observer] = (),
        name: str = "agent",
    ) -> None:
        """Raises InputError, SchemaError for what cannot be used."""
        from kogagent.tools.toolbox import Toolbox

        if inspect.isclass(model):
            raise InputError(f"{model!r} is a class. Pass an instance: Engine.load(…), say.")
        if not isinstance(model, Model | ModelSource):
            raise InputError(
                f"{model!r} is no model: it has neither stream() nor as_model(). Pass an Engine."
            )
        if not isinstance(instructions, str) and not callable(instructions):
            raise InputError(f"instructions must be text or a function of deps, not {instructions!r}")
        if not isinstance(plan, int) or plan < 0:
            raise InputError(f"plan={plan!r} must be True, False or a number of tokens >= 0")
        if limits is not None and not isinstance(limits, Limits):
            raise InputError(f"limits={limits!r} must be a kogagent.Limits")
        if on_tool_error not in ("tell", "raise"):
            raise InputError(f"on_tool_error={on_tool_error!r} must be 'tell' or 'raise'")
        self.model = model
        if isinstance(tools, Toolbox) and approve is not None:
            raise InputError("approve belongs to the Toolbox: Toolbox([…], approve=…)")
        self.toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools, approve=approve)
        self.instructions = instructions
        self.limits = Limits() if limits is None else limits
        if hooks is not None and not isinstance(hooks, Hooks):
            raise InputError(f"hooks={hooks!r} must be a kogagent.Hooks")
        self.hooks = Hooks() if hooks is None else hooks
        for observer in observers:
            if not isinstance(observer, Observer) or inspect.isclass(observer):
                raise InputError(f"{observer!r} has no run_started(): no observer. See kogagent.Observer.")
        self.observers = tuple(observers)
        self.name = name
        self.output_type = output_type
        self.tool_choice = tool_choice
        self.on_tool_error: Literal["tell", "raise"] = on_tool_error
        self.plan_tokens = _PLAN_TOKENS if plan is True else int(plan)
        names = [spec.name for spec in self.toolbox.specs]
        if tool_choice not in ("auto", "none", "required", *names):
            known = ", ".join(map(repr, ("auto", "none", "required", *names)))
            raise InputError(f"tool_choice={tool_choice!r} must be one of {known}")
        if tool_choice == "required" and not names:
            raise InputError("tool_choice='required' needs tools. Pass tools=[…].")
        self._check, self._output_schema = _reader(output_type)

    # ── runs ──

    def stream(
        self, prompt: str | None = None, *, history: History | None = None, deps: Any = None
    ) -> AgentStream:
        """The run as events; see AgentStream. Takes what `run` takes."""
        transcript = _transcript(prompt, history)
        return AgentStream(lambda channel: self._drive(prompt, transcript, deps, channel))

    async def run(
        self, prompt: str | None = None, *, history: History | None = None, deps: Any = None
    ) -> RunResult:
        """Run to the answer.

        history: messages of an earlier run, or a Transcript, which the run appends to: it stays consistent
        and keeps what was done even when the run is cancelled or raises. Without prompt the history goes on.
        deps reaches tools through RunContext. Raises InputError before any work, ModelError or DeviceError
        from the model, under on_tool_error="raise" a tool's exception.
        """
        return await self._drive(prompt, _transcript(prompt, history), deps, Nobody())

    def run_sync(
        self, prompt: str | None = None, *, history: History | None = None, deps: Any = None
    ) -> RunResult:
        """`run` for code without an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(prompt, history=history, deps=deps))
        raise InputError("run_sync() would block the running event loop. Write: await agent.run(…)")

    def as_tool(
        self, *, name: str | None = None, description: str, timeout: float | None = None
    ) -> Tool[[str], Any]:
        """This agent as a tool of another: it takes a task as text and answers with its output."""
        from kogagent.tools.tool import Tool

        async def ask(task: str) -> Any:
            return (await self.run(task)).output

        return Tool(ask, name=name or self.name, description=description, timeout=timeout)

    async def _drive(
        self, prompt: str | None, transcript: Transcript, deps: Any, sink: Channel | Nobody
    ) -> RunResult:
        transcript.acquire()
        try:
            transcript.close_calls()
            if not self.observers:
                return await self._begin(prompt, transcript, deps, sink)
            return await self._watched(prompt, transcript, deps, sink)
        finally:
            transcript.release()

    async def _watched(self, prompt: str | None, transcript: Transcript, deps: Any, sink: Sink) -> RunResult:
        """The run, shown to the observers."""
        model = getattr(self.model, "name", None)
        if not isinstance(model, str):
            model = type(self.model).__name__
        info = RunInfo(self.name, model, prompt, self.toolbox.specs, len(transcript))
        watched = Watched(sink, self.observers, info)
        try:
            result = await self._begin(prompt, transcript, deps, watched)
        except BaseException as error:
            watched.ended(error)
            raise
        watched.ended(None)
        return result

    async def _begin(self, prompt: str | None, transcript: Transcript, deps: Any, sink: Sink) -> RunResult:
        text = self.instructions
        if not isinstance(text, str):
            given = text(deps)
            text = await given if inspect.isawaitable(given) else given
            if not isinstance(text, str):
                raise InputError(f"the instructions function gave {text!r}, not text")
        if text:
            transcript.with_system(text)
        if prompt is not None:
            transcript.append(UserMessage(prompt))
        model = self.model.as_model() if isinstance(self.model, ModelSource) else self.model
        setup = Setup(
            model=model,
            tools=self.toolbox,
            limits=self.limits,
            tool_choice=self.tool_choice,
            plan_tokens=self.plan_tokens,
            output_schema=self._output_schema,
            check=self._check,
            on_tool_error=self.on_tool_error,
            deps=deps,
            hooks=self.hooks,
        )
        try:
            return await Run(setup, transcript, sink).drive()
        finally:
            if model is not self.model and isinstance(model, ClosingModel):
                await finish_within(asyncio.ensure_future(model.aclose()), _CLOSE_S)

    def __repr__(self) -> str:
        return f"<Agent {self.name!r} with {len(self.toolbox.specs)} tools>"


def _transcript(prompt: str | None, history: History | None) -> Transcript:
    if prompt is not None and not isinstance(prompt, str):
        raise InputError(f"a prompt is text, not {prompt!r}; pass messages as history=…")
    if isinstance(history, Transcript):
        transcript = history
    else:
        if isinstance(history, str):
            raise InputError("history is a list of messages. Read JSON with kogagent.messages_from_json.")
        transcript = Transcript.repaired(history or ())
    if prompt is None and not any(isinstance(message, UserMessage) for message in transcript.messages):
        raise InputError(
            "there is nothing to answer: pass a prompt, or a history that holds a user's message"
        )
    return transcript


def _reader(output_type: Any) -> tuple[Check | None, Any]:
    """How an answer is read, and the schema it must have."""
    if output_type is str or output_type is None:
        return None, None
    from kogagent.tools import schema

    name = getattr(output_type, "__name__", None) or repr(output_type)
    adapter, wanted = schema.of_type(output_type, name=name)
    extra = schema.output_extra(wanted)

    def check(text: str) -> Valid | Invalid:
        try:
            return Valid(schema.read_json(adapter, text, extra))
        except ValueError as error:
            return Invalid(f"The answer cannot be used: {schema.explain(error)}. Answer with the JSON alone.")

    return check, wanted
