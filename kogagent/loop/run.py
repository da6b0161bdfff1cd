"""One run: turns of a model and calls of tools until there is an answer. Knows no tokens, no device."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from kogagent.errors import ModelError
from kogagent.loop.hooks import Hooks, settled
from kogagent.loop.limits import Limits
from kogagent.loop.protocols import Model, ToolChoice, Tools, TurnRequest
from kogagent.loop.step import Act, AskAgain, Check, Finish, GiveUp, decide
from kogagent.loop.transcript import Transcript
from kogagent.types import (
    AgentEvent,
    AskedAgain,
    AssistantMessage,
    CallDelta,
    CallReady,
    CallStarted,
    JSONValue,
    ModelEvent,
    PlanDelta,
    RunContext,
    RunFinished,
    RunResult,
    StopReason,
    TextDelta,
    Timings,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolOutcome,
    ToolResult,
    ToolStarted,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    Usage,
    UserMessage,
)

_CLOSE_S = 5.0  # for a model to stop at a token border


class Sink(Protocol):
    """Where the events of a run go."""

    @property
    def full(self) -> bool: ...

    @property
    def waited_s(self) -> float: ...

    def put(self, event: AgentEvent) -> None: ...

    async def drained(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a run needs, checked.

    check and output_schema are None where any text is an answer. on_tool_error "raise": an exception of a
    tool that is neither Retry nor ToolFailed cancels the calls beside it and ends the run.
    """

    model: Model
    tools: Tools
    limits: Limits
    tool_choice: ToolChoice = "auto"
    plan_tokens: int = 0
    output_schema: Mapping[str, JSONValue] | None = None
    check: Check | None = None
    on_tool_error: Literal["tell", "raise"] = "tell"
    deps: Any = None
    hooks: Hooks = field(default_factory=Hooks)


class Run:
    """`drive()` is the loop. The transcript is consistent whenever it returns, raises or is cancelled."""

    def __init__(self, setup: Setup, transcript: Transcript, sink: Sink) -> None:
        self._setup = setup
        self._transcript = transcript
        self._sink = sink
        self._specs = setup.tools.specs
        self._started = time.perf_counter()
        self._turns = 0
        self._calls = 0
        self._usage = Usage()
        self._timings = Timings()  # of the turns; their wall time is not the run's
        self._tool_s = self._dispatch_s = self._append_s = 0.0  # of the running turn
        self._failures: list[ToolFinished] = []
        self._asked_again = 0
        self._calls_cut = False
        self._seen: set[int] = set()
        self._stale = 0
        self._shown: set[str] | None = None  # tools of the turn, where a hook chose them
        self._retries: dict[str, int] = {}
        self._last_text = ""

    async def drive(self) -> RunResult:
        """Run to the end. Raises what the model raises; under on_tool_error="raise", what a tool raises."""
        limits, clock = self._setup.limits, asyncio.timeout(self._setup.limits.max_seconds)
        try:
            async with clock:
                finish = await self._loop(limits)
        except TimeoutError:
            if not clock.expired():
                raise  # the model's own
            finish = self._stopped("max_seconds")
            self._timings += self._phases(Timings(), 0.0, 0.0)  # of the turn that was cut off
        wall = time.perf_counter() - self._started
        result = RunResult(
            finish.output,
            tuple(self._transcript.messages),
            self._usage,
            replace(self._timings, wall_s=wall),
            self._turns,
            finish.reason,
            tuple(self._failures),
        )
        self._sink.put(RunFinished(result))
        return result

    async def _loop(self, limits: Limits) -> Finish:
        while True:
            stop = limits.reached(self._turns, self._usage.completion_tokens)
            if stop is not None:
                return self._stopped(stop)
            began, waited = time.perf_counter(), self._sink.waited_s
            message, end = await self._turn(limits)
            left = limits.output_retries - self._asked_again
            step = decide(message, end.reason, self._setup.check, left)
            if isinstance(step, Act):
                await self._act(step.calls)
            self._turn_over(end, began, waited)
            if isinstance(step, Act):
                if limits.repeated_calls is not None and self._stale >= 2 * limits.repeated_calls:
                    return self._stopped("repeated_call")
            elif isinstance(step, AskAgain):
                self._asked_again += 1
                self._transcript.append(UserMessage(step.reason))
                self._sink.put(AskedAgain(step.reason))
            elif isinstance(step, GiveUp):
                raise ModelError(
                    f"no answer fits the output type after {self._asked_again + 1} attempts: {step.reason} "
                    "Make the type simpler, give room in Limits(turn_tokens=…), or use a stronger model."
                )
            else:
                return replace(step, reason="max_calls") if self._calls_cut else step

    def _turn_over(self, end: TurnEnd, began: float, waited: float) -> None:
        """Where the time since `began` went."""
        timings = self._phases(end.timings, time.perf_counter() - began, self._sink.waited_s - waited)
        self._timings += timings
        self._tool_s = self._dispatch_s = self._append_s = 0.0
        self._sink.put(TurnFinished(self._turns, end.usage, timings))

    def _phases(self, model: Timings, wall_s: float, reader_s: float) -> Timings:
        """Of the running turn."""
        return replace(
            model,
            wall_s=wall_s,
            reader_s=reader_s,
            tool_s=self._tool_s,
            dispatch_s=self._dispatch_s,
            append_s=self._append_s,
        ).fitted()

    def _stopped(self, reason: StopReason) -> Finish:
        return Finish(self._last_text if self._setup.check is None else None, reason)

    # ── the model ──

    def _request(self, limits: Limits) -> TurnRequest:
        left = None if limits.max_calls is None else limits.max_calls - self._calls
        choice: ToolChoice = self._setup.tool_choice
        if not self._specs or (left is not None and left <= 0):
            choice = "none"  # only an answer is left to give
            self._calls_cut = bool(self._specs)
        elif self._calls and choice != "none":
            choice = "auto"  # what was required has been done
        return TurnRequest(
            messages=self._transcript.messages,
            tools=self._specs,
            tool_choice=choice,
            max_tokens=limits.next_turn_tokens(self._usage.completion_tokens),
            max_calls=limits.turn_calls if left is None else min(limits.turn_calls, max(left, 1)),
            plan_tokens=self._setup.plan_tokens if choice != "none" else 0,
            output_schema=self._setup.output_schema,
        )

    async def _turn(self, limits: Limits) -> tuple[AssistantMessage, TurnEnd]:
        """One model turn, put into the transcript when it is whole. Text before a call is its plan."""
        self._turns += 1
        sink = self._sink
        said = _Said()
        end: TurnEnd | None = None
        hooks = self._setup.hooks
        request = self._request(limits)
        if hooks.before_turn is not None:
            request = await settled(hooks.before_turn(request), TurnRequest, "before_turn")
            self._shown = {tool.name for tool in request.tools}
        sink.put(TurnStarted(self._turns, request.messages))
        stream = self._setup.model.stream(request)
        try:
            async for event in stream:
                if end is not None:
                    raise ModelError(f"the model went on after the end of its turn: {event!r}")
                if isinstance(event, TurnEnd):
                    end = event
                else:
                    said.add(event)
                sink.put(event)
                if sink.full:
                    await sink.drained()
        except BaseException:
            await _close(stream)
            raise
        if end is None:
            raise ModelError("the model's stream ended without a TurnEnd: the turn may be cut anywhere")
        if end.reason == "cancelled":
            raise ModelError("the model's turn was cancelled, and not by this run. Was the engine closed?")
        message = said.message()
        if hooks.after_turn is not None:
            await settled(hooks.after_turn(message), type(None), "after_turn")
        self._usage += end.usage
        self._last_text = message.text
        began = time.perf_counter()
        self._transcript.append(message)
        self._append_s += time.perf_counter() - began
        return message, end

    # ── the tools ──

    async def _act(self, calls: tuple[ToolCall, ...]) -> None:
        """Run the calls of a turn; their results enter the transcript in the order of the calls. A call that
        did not finish, for whatever reason, gets a "cancelled" result."""
        limits = self._setup.limits
        room = limits.turn_calls
        if limits.max_calls is not None:
            room = min(room, limits.max_calls - self._calls)
        allowed, over = calls[:room], calls[room:]
        self._calls += len(allowed)
        results = {call.id: self._denied(call, limits) for call in over}
        spans: list[tuple[float, float]] = []
        began, waited = time.perf_counter(), self._sink.waited_s
        try:
            if len(allowed) == 1:
                await self._call(allowed[0], results, spans)
            elif allowed:
                await self._together(allowed, results, spans, limits.parallel_calls)
        finally:
            acted = time.perf_counter()
            for call in calls:
                if call.id in results:
                    self._transcript.append(ToolMessage(results[call.id]))
                else:
                    for result in self._transcript.close_calls(only=call.id):
                        self._sink.put(ToolFinished(call, result, 0.0))
            tool, waited = _covered(spans), self._sink.waited_s - waited
            self._tool_s += tool
            self._dispatch_s += max(acted - began - tool - waited, 0.0)
            self._append_s += time.perf_counter() - acted

    async def _together(
        self,
        calls: tuple[ToolCall, ...],
        results: dict[str, ToolResult],
        spans: list[tuple[float, float]],
        at_once: int,
    ) -> None:
        gate = asyncio.Semaphore(at_once)

        async def one(call: ToolCall) -> None:
            async with gate:
                await self._call(call, results, spans)

        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(one(call))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the first failure; it cancelled the others

    async def _call(
        self, call: ToolCall, results: dict[str, ToolResult], spans: list[tuple[float, float]]
    ) -> None:
        self._sink.put(ToolStarted(call))
        await self._sink.drained()
        context = RunContext(self._setup.deps, call, self._turns, self._transcript.messages)
        outcome = await self._outcome(call, context)
        spans.append((outcome.started, outcome.ended))
        result = results[call.id] = self._observed(call, outcome)
        finished = ToolFinished(call, result, outcome.seconds, outcome.error)
        if outcome.error is not None:
            self._failures.append(finished)
        self._sink.put(finished)
        if outcome.bug and outcome.error is not None and self._setup.on_tool_error == "raise":
            raise outcome.error

    async def _outcome(self, call: ToolCall, context: RunContext[Any]) -> ToolOutcome:
        """The call run, or what a hook put in its place."""
        hooks = self._setup.hooks
        if self._shown is not None and call.name not in self._shown:
            names = ", ".join(sorted(self._shown)) or "none"
            text = f"There is no tool named {call.name!r} now. The tools are: {names}."
            return ToolOutcome(ToolResult(call.id, call.name, text, "unknown_tool"))
        if hooks.before_call is not None:
            said = await settled(hooks.before_call(call, context), (str, type(None)), "before_call")
            if said is not None:
                return ToolOutcome(ToolResult(call.id, call.name, said, "denied"))
        outcome = await self._setup.tools.call(call, context)
        if hooks.after_call is not None:
            result = await settled(hooks.after_call(call, outcome.result), ToolResult, "after_call")
            outcome = replace(outcome, result=replace(result, call_id=call.id, name=call.name))
        return outcome

    def _denied(self, call: ToolCall, limits: Limits) -> ToolResult:
        self._calls_cut = self._calls_cut or limits.max_calls == self._calls
        text = "Not run: there were too many calls. Answer with what you have, or make fewer calls at once."
        result = ToolResult(call.id, call.name, text, "denied")
        self._sink.put(ToolFinished(call, result, 0.0))
        return result

    def _observed(self, call: ToolCall, outcome: ToolOutcome) -> ToolResult:
        """The result as the model shall read it: with a word where it goes round in circles."""
        result, limits = outcome.result, self._setup.limits
        key = hash((call.name, call.arguments, result.text))
        self._stale = self._stale + 1 if key in self._seen else 0
        self._seen.add(key)
        if limits.repeated_calls is not None and self._stale >= limits.repeated_calls - 1 > 0:
            nudge = "[The same call gave the same result before. Use it, or do something else.]"
            result = replace(result, text=f"{result.text}\n{nudge}")
        refused = self._retries.get(call.name, 0) + 1 if result.status == "retry" else 0
        self._retries[call.name] = refused
        if limits.tool_retries is not None and refused > limits.tool_retries:
            text = f"{outcome.error} This was attempt {refused}: stop calling {call.name} and go on without."
            result = replace(result, text=text, status="failed")
        return result


class _Said:
    """What a model has said in a turn so far."""

    def __init__(self) -> None:
        self._plan: list[str] = []
        self._before: list[str] = []
        self._after: list[str] = []
        self._calls: list[ToolCall] = []

    def add(self, event: ModelEvent) -> None:
        kind = type(event)  # not isinstance: this runs for every event, and deltas are most of them
        if kind is TextDelta:
            (self._after if self._calls else self._before).append(event.text)  # type: ignore[union-attr]
        elif kind is PlanDelta:
            self._plan.append(event.text)  # type: ignore[union-attr]
        elif kind is CallReady:
            call: ToolCall = event.call  # type: ignore[union-attr]
            if any(call.id == other.id for other in self._calls):
                raise ModelError(f"the model gave two calls of one turn the id {call.id!r}")
            self._calls.append(call)
        elif kind is not CallStarted and kind is not CallDelta:
            raise ModelError(f"the model yielded {event!r}, which is no ModelEvent")

    def message(self) -> AssistantMessage:
        """The turn. Text in front of a call is the plan for it."""
        if not self._calls:
            text, plan = "".join(self._before), "".join(self._plan)
            return AssistantMessage(text, "" if plan == text else plan)  # a plan that was the answer already
        return AssistantMessage(
            "".join(self._after), "".join((*self._plan, *self._before)), tuple(self._calls)
        )


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals: wall time in which at least one tool ran."""
    total, until = 0.0, float("-inf")
    for started, ended in sorted(spans):
        total += max(ended - max(started, until), 0.0)
        until = max(until, ended)
    return total


async def _close(stream: AsyncIterator[ModelEvent]) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await finish_within(asyncio.ensure_future(close()), _CLOSE_S)


async def finish_within(task: asyncio.Future[Any], limit: float) -> None:
    """Wait for a clean-up, for a bounded time, whatever cancellation arrives meanwhile; then re-raise it.

    A clean-up that fails or hangs is reported to the loop's exception handler: the error that made it
    necessary is the one to raise.
    """
    interrupted: asyncio.CancelledError | None = None
    end = time.monotonic() + limit
    while not task.done() and (left := end - time.monotonic()) > 0:
        try:
            await asyncio.wait((task,), timeout=left)
        except asyncio.CancelledError as error:
            interrupted = error
    if not task.done():
        task.cancel()
        problem: BaseException | None = TimeoutError(f"clean-up went on for {limit:g} s and was abandoned")
    else:
        problem = None if task.cancelled() else task.exception()
    if problem is not None:
        asyncio.get_running_loop().call_exception_handler(
            {"message": "clean-up after a run failed", "exception": problem, "future": task}
        )
    if interrupted is not None:
        raise interrupted
