"""One run: turns of a model and calls of tools until there is an answer. Knows no tokens, no device."""

from __future__ import annotations

import asyncio
import reprlib
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

from kogagent.errors import ContextError, InputError, ModelError
from kogagent.loop.acting import Acting
from kogagent.loop.ahead import Ahead
from kogagent.loop.cleanup import close, report
from kogagent.loop.compaction import Room
from kogagent.loop.hooks import settled
from kogagent.loop.meter import Meter
from kogagent.loop.protocols import ToolChoice, TurnRequest
from kogagent.loop.setup import Setup, Sink
from kogagent.loop.step import Act, AskAgain, Finish, GiveUp, HandOff, decide
from kogagent.loop.transcript import Transcript
from kogagent.loop.turn import hear
from kogagent.types import (
    AgentEvent,
    Answer,
    Approved,
    AskedAgain,
    AssistantMessage,
    FinishReason,
    HandedOff,
    Message,
    ModelEvent,
    Nested,
    RunContext,
    RunFinished,
    RunResult,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolProgress,
    ToolResult,
    ToolSpec,
    TurnFinished,
    TurnRetried,
    TurnStarted,
    Usage,
    UserMessage,
)
from kogagent.types.quick import maker

_turn_request, _turn_started, _turn_finished = maker(TurnRequest), maker(TurnStarted), maker(TurnFinished)
_BRIEFLY = reprlib.Repr()  # of a long text, head and tail
_BRIEFLY.maxstring = 200
_TOO_LONG = "Agent(compaction=Compaction()) has the conversation shortened where it no longer fits."
_Turn: TypeAlias = tuple[AssistantMessage, FinishReason]


class Run:
    """`drive()` is the loop. The transcript is consistent whenever it returns, raises or is cancelled.

    answers: what became of calls that wait in the transcript, by their ids. prompt: what the user says once
    they are done.
    """

    def __init__(
        self,
        setup: Setup,
        transcript: Transcript,
        sink: Sink,
        deps: Any = None,
        answers: Mapping[str, Answer] | None = None,
        prompt: str | None = None,
    ) -> None:
        self._setup = setup
        self._first = setup  # its limits hold for the whole run, whoever goes on
        self._transcript = transcript
        self._sink = sink
        self._deps = deps
        self._answers = answers or {}
        self._prompt = prompt
        self._meter = Meter()
        self._acting = Acting(transcript, sink, self._meter, deps, _Port(sink, self._meter))
        self._room = Room(transcript, sink, self._meter)
        self._turns = 0
        self._in_turn = False
        self._whose = setup.name  # the running turn's agent
        self._per_turn: list[TurnFinished] = []
        self._asked_again = 0
        self._shown: set[str] | None = None  # tools of the turn, where a hook chose them
        self._last_text = ""
        self._ahead: Ahead | None = None
        self._guarded: asyncio.Future[None] | None = None

    async def drive(self) -> RunResult:
        """Run to the end. Raises what the model raises; under on_tool_error="raise", what a tool raises."""
        clock = asyncio.timeout(self._first.limits.max_seconds)
        try:
            async with clock:
                finish = await self._loop()
        except BaseException as error:
            if not (isinstance(error, TimeoutError) and clock.expired()):  # else a model's or a tool's own
                self._flush_behind(error)
                raise
            finish = self._stopped("max_seconds")
        finally:
            await self._drop_all()
        if self._in_turn:
            self._end_turn()
        await self._transcript.settled()
        usage, timings = self._meter.whole()
        result = RunResult(
            finish.output,
            tuple(self._transcript.messages),
            usage,
            timings,
            self._turns,
            finish.reason,
            tuple(self._acting.failures),
            self._transcript.awaiting,
            tuple(self._per_turn),
            self._setup.name,
        )
        self._sink.put(RunFinished(result))
        return result

    def _flush_behind(self, error: BaseException) -> None:
        """Write the history down behind the error that ends the run. That is the one to raise, a cancellation
        above all: a failure to write goes to the loop's exception handler, unless they are the same."""
        try:
            self._transcript.flush()
        except InputError as unwritten:
            if str(unwritten) != str(error):
                report(unwritten)

    async def _loop(self) -> Finish:
        limits = self._first.limits
        if self._transcript.awaiting:
            await self._resume()
        if self._prompt is not None and not self._transcript.awaiting:
            self._transcript.post(UserMessage(self._prompt))
        if self._first.guardrails.prompt:
            check = self._first.guardrails.check_prompt(self._transcript.view)
            self._guarded = asyncio.ensure_future(check)
        while not self._transcript.deferred:
            stop = limits.reached(self._turns, self._meter.written)
            if stop is not None:
                return self._stopped(stop)
            heard = await self._turn()
            if not isinstance(heard, tuple):
                return heard
            message, reason = heard
            setup = self._setup
            left = limits.output_retries - self._asked_again
            step = decide(message, reason, setup.check, left, setup.handoffs)
            if type(step) is Act:
                if setup.hooks.predict is None:
                    await self._acting.act(setup, step.calls, self._turns, self._shown)
                else:
                    await self._act(step.calls)
                if limits.repeated_calls is not None and self._acting.stale >= 2 * limits.repeated_calls:
                    return self._stopped("repeated_call")
                self._end_turn()
                continue
            if isinstance(step, HandOff):
                await self._act(step.calls)
                await self._hand_off(step.call)
                self._end_turn()
                continue
            if isinstance(step, Finish) and step.reason == "finished" and setup.guardrails.answer:
                step = await self._judged(step, left)
            if isinstance(step, GiveUp):
                raise ModelError(
                    f"no answer fits the output type after {self._asked_again + 1} attempts: {step.reason} "
                    f"The last was {_BRIEFLY.repr(message.text)}. Bound the type's texts, lists and numbers: "
                    "Annotated[str, Field(max_length=40)], say. Or make it simpler, give room in "
                    "Limits(turn_tokens=…), or use a stronger model."
                )
            if isinstance(step, AskAgain):
                self._asked_again += 1
                self._transcript.post(UserMessage(step.reason))
                self._sink.put(AskedAgain(step.reason))
            self._end_turn()
            if isinstance(step, Finish):
                return replace(step, reason="max_calls") if self._acting.cut else step
        return self._stopped("deferred")

    def _stopped(self, reason: StopReason) -> Finish:
        return Finish(self._last_text if self._setup.check is None else None, reason)

    async def _judged(self, step: Finish, left: int) -> Finish | AskAgain:
        """An answer as the guardrails see it."""
        guardrails = self._setup.guardrails
        if left <= 0:
            await guardrails.last_word(step.output)
            return step
        why = await guardrails.why_not(step.output)
        return step if why is None else AskAgain(why)

    # ── the model ──

    def _request(self, messages: Sequence[Message]) -> TurnRequest:
        setup, limits = self._setup, self._first.limits
        calls, specs = self._acting.calls, setup.tools.specs
        left = None if limits.max_calls is None else limits.max_calls - calls
        choice: ToolChoice = setup.tool_choice
        if not specs or (left is not None and left <= 0):
            choice = "none"  # only an answer is left to give
            self._acting.cut = bool(specs)
        elif calls and choice != "none":
            choice = "auto"  # what was required has been done
        acts = choice != "none"
        observes = acts and setup.observe_tokens and isinstance(messages[-1], ToolMessage)
        return _turn_request(
            messages,
            specs,
            choice,
            limits.next_turn_tokens(self._meter.written),
            limits.turn_calls if left is None else min(limits.turn_calls, max(left, 1)),
            setup.plan_tokens if acts else 0,
            setup.output_schema,
            setup.observe_tokens if observes else 0,
            setup.sampling,
            setup.priority,
            self._transcript.next_call,
        )

    async def _turn(self) -> _Turn | Finish:
        """One turn put into the transcript when it is whole; Finish where a hook answers for a model that
        fails.

        What the guardrails of the prompt say is heard before anything is made of the turn.
        """
        self._turns += 1
        self._in_turn = True
        self._whose = self._setup.name
        setup, hooks, sink = self._setup, self._setup.hooks, self._sink
        ahead, self._ahead = self._ahead, None
        failures = 0
        while True:
            request = self._request(self._transcript.view)
            if setup.compaction is not None and ahead is None:
                await self._room.make(setup.compaction, setup.model, request)
                request = replace(request, messages=self._transcript.view)
            if hooks.before_turn is not None:
                request = await settled(hooks.before_turn(request), TurnRequest, "before_turn")
                self._shown = _names(request)
            else:
                self._shown = None
            if not failures:
                sink.put(_turn_started(self._turns, request.messages, setup.name))
            began, waited = perf_counter(), sink.waited_s
            try:
                stream: AsyncIterator[ModelEvent] = setup.model.stream(request) if ahead is None else ahead
                on_call = None
                if setup.tools.has_pure:
                    on_call = partial(self._begin_early, setup, request.messages)
                message, end = await hear(stream, sink, on_call)
                break
            except Exception as error:
                await self._acting.drop_early()
                if self._guarded is not None and self._guarded.done():
                    self._guarded.result()  # the model was asked what it should not have been
                ahead = None
                if isinstance(error, ContextError) and setup.compaction is not None and not failures:
                    failures += 1
                    if await self._room.make(setup.compaction, setup.model, request, force=True):
                        continue
                if isinstance(error, ContextError) and setup.compaction is None:
                    error.add_note(_TOO_LONG)
                answer = await self._recovered(error, request, failures)
                if isinstance(answer, str):
                    return Finish(answer)
                failures += 1
                sink.put(TurnRetried(error, failures))
        ended = perf_counter()
        self._meter.heard(end, ended - began, sink.waited_s - waited, ahead is not None)
        if self._guarded is not None or hooks.after_turn is not None:
            await self._judge_turn(message)
            ended = perf_counter()
        self._last_text = message.text
        self._room.learned(end.usage, request.messages)
        self._transcript.post(message)
        if self._transcript.journal is not None:
            await self._transcript.settled()  # safe before anything is done about it
        self._meter.append_s += perf_counter() - ended
        return message, end.reason

    async def _judge_turn(self, message: AssistantMessage) -> None:
        """Let those see what the model said who may end the run for it."""
        if self._guarded is not None:
            guarded, self._guarded = self._guarded, None
            await guarded
        hook = self._setup.hooks.after_turn
        if hook is not None:
            await settled(hook(message), type(None), "after_turn")

    def _begin_early(self, setup: Setup, messages: Sequence[Message], call: ToolCall) -> None:
        self._acting.begin_early(setup, call, self._turns, messages, self._shown)

    async def _recovered(self, error: Exception, request: TurnRequest, failures: int) -> str | None:
        """What the hook says of a failed turn: an answer, or None to make it again. Raises the error else."""
        setup = self._setup
        if setup.hooks.on_error is None or failures >= setup.limits.model_retries:
            raise error
        said = await settled(setup.hooks.on_error(error, request), (bool, str), "on_error")
        if said is False:
            raise error
        return said if isinstance(said, str) else None

    # ── the tools ──

    async def _act(self, calls: tuple[ToolCall, ...]) -> None:
        setup = self._setup
        if setup.hooks.predict is not None and setup.hooks.before_turn is None:
            await self._look_ahead(calls)
        await self._acting.act(setup, calls, self._turns, self._shown)
        if self._ahead is not None and not self._ahead.was_right(map(self._result_of, calls)):
            await self._drop_ahead()

    async def _resume(self) -> None:
        """Run the calls that waited and have their answer; the others wait on."""
        calls = tuple(call for call in self._transcript.awaiting if call.id in self._answers)
        if calls:
            approved = [call for call in calls if isinstance(self._answers[call.id], Approved)]
            if approved:
                self._transcript.begin(approved)
                await self._transcript.settled()
            await self._acting.act(self._setup, calls, self._turns, None, self._answers)
            await self._transcript.settled()

    async def _look_ahead(self, calls: tuple[ToolCall, ...]) -> None:
        """Begin the next turn on what the hook says the results will be."""
        setup, hooks, guess = self._setup, self._setup.hooks, dict[str, str]()
        assert hooks.predict is not None
        if self._acting.allowed(setup, calls) < len(calls) or not all(call.complete for call in calls):
            return
        if any(call.name in setup.handoffs for call in calls):
            return
        for call in calls:
            context = RunContext(self._deps, call, self._turns, self._transcript.view)
            said = await settled(hooks.predict(call, context), (str, type(None)), "predict")
            if said is None:
                return
            guess[call.id] = said
        expected = [ToolMessage(ToolResult(call.id, call.name, guess[call.id])) for call in calls]
        limits = self._first.limits
        if limits.reached(self._turns, self._meter.written) is not None:
            return
        self._acting.calls += len(calls)  # the request is that of the turn after these
        try:
            request = self._request((*self._transcript.view, *expected))
        finally:
            self._acting.calls -= len(calls)
        self._ahead = Ahead(setup.model, request, guess)

    async def _hand_off(self, call: ToolCall) -> None:
        """Go on as the agent that was called for, if the call came to be."""
        result = self._result_of(call)
        if result is None or result.status != "ok":
            return
        source = self._setup.name
        entered = await self._setup.handoffs[call.name].enter(self._transcript, self._deps)
        self._setup = replace(entered, limits=self._first.limits)
        self._sink.put(HandedOff(call, source, self._setup.name))

    def _result_of(self, call: ToolCall) -> ToolResult | None:
        view = self._transcript.view
        for at in range(len(view) - 1, -1, -1):
            one = view[at]
            if not isinstance(one, ToolMessage):
                return None
            if one.result.call_id == call.id:
                return one.result
        return None

    # ── the ends of things ──

    def _end_turn(self) -> None:
        self._in_turn = False
        usage, timings = self._meter.end_turn()
        finished = _turn_finished(self._turns, usage, timings, self._whose)
        self._per_turn.append(finished)
        self._sink.put(finished)

    async def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            await close(ahead)
            self._meter.spent(ahead.usage)

    async def _drop_all(self) -> None:
        """What may still run when the run ends, however it ends."""
        if self._guarded is not None:
            self._guarded.cancel()
            await asyncio.wait((self._guarded,))
        await self._acting.drop_early()
        await self._drop_ahead()


def _names(request: TurnRequest) -> set[str]:
    """The tools of a request that a hook gave. Raises InputError for what is none."""
    for one in request.tools:
        if not isinstance(one, ToolSpec):
            raise InputError(
                f"the hook before_turn gave the tool {one!r}, which is no ToolSpec. Pass its spec."
            )
    return {one.name for one in request.tools}


class _Port:
    """What the tools of a run may tell it, from any thread."""

    def __init__(self, sink: Sink, meter: Meter) -> None:
        self._sink, self._meter = sink, meter
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def progress(self, call: ToolCall, value: Any) -> None:
        self._put(ToolProgress(call, value))

    def nested(self, call: ToolCall, event: AgentEvent) -> None:
        self._put(Nested(call.id, event))

    def spent(self, usage: Usage) -> None:
        self._meter.spent(usage)

    async def drained(self) -> None:
        await self._sink.drained()

    def _put(self, event: AgentEvent) -> None:
        if threading.get_ident() == self._thread:
            self._sink.put(event)
        else:
            self._loop.call_soon_threadsafe(self._sink.put, event)
