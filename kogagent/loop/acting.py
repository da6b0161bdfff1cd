"""Running the calls of a turn: limits, hooks, results into the history. Knows tools by their protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from kogagent.errors import InputError, Retry
from kogagent.loop.clipping import clipped
from kogagent.loop.hooks import settled
from kogagent.loop.limits import Limits
from kogagent.loop.meter import Meter
from kogagent.loop.setup import Setup, Sink
from kogagent.loop.transcript import Transcript
from kogagent.types import (
    Answer,
    Denied,
    Message,
    RunContext,
    RunPort,
    Supplied,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolOutcome,
    ToolResult,
    ToolStarted,
)
from kogagent.types.quick import maker

_context, _message = maker(RunContext), maker(ToolMessage)
_started, _finished = maker(ToolStarted), maker(ToolFinished)


class Acting:
    """The calls of one run, turn after turn. The transcript is consistent whenever `act` returns or
    raises."""

    def __init__(self, transcript: Transcript, sink: Sink, meter: Meter, deps: Any, port: RunPort) -> None:
        self._transcript, self._sink, self._meter = transcript, sink, meter
        self._deps, self._port = deps, port
        self.calls = 0  # run so far
        self.cut = False  # calls were refused for their number
        self.failures: list[ToolFinished] = []
        self.stale = 0  # calls in a row that brought nothing new
        self._seen: set[int] = set()
        self._results: dict[str, ToolResult] = {}  # of the running turn's calls, by their ids
        self._spans: list[tuple[float, float]] = []  # and when they ran
        self._retries: dict[str, int] = {}
        self._early: dict[str, asyncio.Task[ToolOutcome]] = {}

    # ── before the turn is whole ──

    def begin_early(
        self, setup: Setup, call: ToolCall, turn: int, messages: Sequence[Message], shown: set[str] | None
    ) -> None:
        """Start a call without effects while its turn is still being written."""
        room = setup.limits.turn_calls
        if setup.limits.max_calls is not None:
            room = min(room, setup.limits.max_calls - self.calls)
        if len(self._early) >= room or not setup.tools.is_pure(call.name):
            return
        self._sink.put(ToolStarted(call))
        context = RunContext(self._deps, call, turn, messages, self._port)
        task = asyncio.get_running_loop().create_task(self._outcome(setup, call, context, shown, None))
        self._early[call.id] = task

    async def drop_early(self) -> None:
        """End what was begun and is not wanted."""
        tasks, self._early = list(self._early.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.exception()

    # ── the turn ──

    def allowed(self, setup: Setup, calls: Sequence[ToolCall]) -> int:
        """How many of these calls may run."""
        limits, room = setup.limits, len(calls)
        if limits.turn_calls < room:
            room = limits.turn_calls
        if limits.max_calls is not None and limits.max_calls - self.calls < room:
            room = limits.max_calls - self.calls
        return room

    async def act(
        self,
        setup: Setup,
        calls: tuple[ToolCall, ...],
        turn: int,
        shown: set[str] | None,
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        """Run the calls of a turn; their results enter the transcript in the order of the calls, and are kept
        there as they come. A call that did not finish, for whatever reason, gets a "cancelled" result.
        Where an error is raised the results are not written down yet: the run flushes the transcript.

        shown: the tools of the turn, None for all. answers: what became of calls that were deferred.
        """
        began, waited = perf_counter(), self._sink.waited_s
        spans: list[tuple[float, float]] = []
        self._results, self._spans = {}, spans
        wanted = calls if answers is not None else self._admitted(setup, calls)
        try:
            try:
                if len(wanted) == 1:
                    await self._one(setup, wanted[0], turn, shown, answers)
                elif wanted:
                    await self._together(setup, wanted, turn, shown, answers)
            finally:
                if self._early:  # calls beyond what was allowed, or beside one that failed
                    await self.drop_early()
        except BaseException:
            appending = perf_counter()
            with contextlib.suppress(InputError):  # of a journal, which says it again when the run flushes it
                self._append(calls)
            raise
        else:
            appending = perf_counter()
            self._append(calls)
            if self._transcript.journal is not None:
                self._transcript.journal.soon()  # the next turn may take its time
        finally:
            ended = perf_counter()
            self._meter.acted(ended - began, spans, self._sink.waited_s - waited, ended - appending)

    def _append(self, calls: Sequence[ToolCall]) -> None:
        """Let the results of a turn's calls into the transcript, "cancelled" for those that have none."""
        for call in calls:
            found = self._results.get(call.id)
            if found is not None:
                self._transcript.post(_message(found))
            else:
                for result in self._transcript.close_calls(only=call.id):
                    self._sink.put(ToolFinished(call, result, 0.0))

    def _admitted(self, setup: Setup, calls: tuple[ToolCall, ...]) -> Sequence[ToolCall]:
        """The calls that are to run; the others have their results at once."""
        room = self.allowed(setup, calls)
        self.calls += room
        if room == len(calls) and not setup.handoffs:
            return calls
        for call in calls[room:]:
            self._refuse(call, setup.limits)
        if not setup.handoffs:
            return calls[:room]
        handed = [call for call in calls[:room] if call.name in setup.handoffs]
        for call in handed[1:]:
            self._tell(call, "Not run: another agent takes over already.")
        return [call for call in calls[:room] if call.id not in self._results]

    async def _together(
        self,
        setup: Setup,
        calls: Sequence[ToolCall],
        turn: int,
        shown: set[str] | None,
        answers: Mapping[str, Answer] | None,
    ) -> None:
        """Several at once. The first failure cancels the others and is raised."""
        gate, results = asyncio.Semaphore(setup.limits.parallel_calls), self._results

        def keep(call: ToolCall) -> None:  # its place in the history may be behind one that still runs
            if call.id in results:
                self._transcript.keep(results[call.id])

        async def one(call: ToolCall) -> None:
            async with gate:
                try:
                    await self._one(setup, call, turn, shown, answers)
                except BaseException:
                    with contextlib.suppress(InputError):  # as in act
                        keep(call)
                    raise
                keep(call)

        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(one(call))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the first failure; it cancelled the others

    async def _one(
        self,
        setup: Setup,
        call: ToolCall,
        turn: int,
        shown: set[str] | None,
        answers: Mapping[str, Answer] | None,
    ) -> None:
        """One call from its announcement to its result."""
        sink = self._sink
        if self._early and call.id in self._early:
            outcome = await _joined(self._early.pop(call.id))
        else:
            sink.put(_started(call))
            await sink.drained()
            context = _context(self._deps, call, turn, self._transcript.view, self._port)
            hooks = setup.hooks
            if shown is None and not answers and hooks.before_call is None and hooks.after_call is None:
                outcome = await setup.tools.call(call, context)
            else:
                answer = answers.get(call.id) if answers else None
                outcome = await self._outcome(setup, call, context, shown, answer)
        started, ended, error = outcome.started, outcome.ended, outcome.error
        self._spans.append((started, ended))
        result = self._results[call.id] = self._observed(setup, call, outcome)
        finished = _finished(call, result, ended - started, error)
        sink.put(finished)
        if error is not None:
            self.failures.append(finished)
            if outcome.bug and setup.on_tool_error == "raise":
                raise error

    async def _outcome(
        self,
        setup: Setup,
        call: ToolCall,
        context: RunContext[Any],
        shown: set[str] | None,
        answer: Answer | None,
    ) -> ToolOutcome:
        """The call run, or what a hook or an answer put in its place."""
        hooks = setup.hooks
        if isinstance(answer, Denied):
            why = f": {answer.reason}" if answer.reason else ""
            text = f"{call.name} was not run, permission was denied{why}. Go on without."
            return ToolOutcome(ToolResult(call.id, call.name, text, "denied"))
        if shown is not None and call.name not in shown:
            names = ", ".join(sorted(shown)) or "none"
            text = f"There is no tool named {call.name!r} now. The tools are: {names}."
            return ToolOutcome(ToolResult(call.id, call.name, text, "unknown_tool"))
        if hooks.before_call is not None and answer is None:
            said = await settled(hooks.before_call(call, context), (str, type(None)), "before_call")
            if said is not None:
                return ToolOutcome(ToolResult(call.id, call.name, said, "denied"))
        if isinstance(answer, Supplied):
            outcome = setup.tools.supplied(call, answer.value)
        else:
            outcome = await setup.tools.call(call, context, approved=answer is not None)
        if hooks.after_call is not None and outcome.result.status != "deferred":
            result = await settled(hooks.after_call(call, outcome.result), ToolResult, "after_call")
            if not isinstance(result.text, str):
                raise InputError(f"the hook after_call gave a result whose text is {result.text!r}, no text")
            outcome = replace(outcome, result=replace(result, call_id=call.id, name=call.name))
        return outcome

    def _refuse(self, call: ToolCall, limits: Limits) -> None:
        self.cut = self.cut or limits.max_calls == self.calls
        text = "Not run: there were too many calls. Answer with what you have, or make fewer calls at once."
        self._tell(call, text)

    def _tell(self, call: ToolCall, text: str) -> None:
        """Give a call that is not run its result."""
        result = self._results[call.id] = ToolResult(call.id, call.name, text, "denied")
        self._transcript.keep(result)
        self._sink.put(ToolFinished(call, result, 0.0))

    def _observed(self, setup: Setup, call: ToolCall, outcome: ToolOutcome) -> ToolResult:
        """The result as the model shall read it: short enough, with a word where it goes round in circles."""
        result, limits = outcome.result, setup.limits
        if result.status == "deferred":
            return result
        most = limits.result_tokens if outcome.max_tokens is None else outcome.max_tokens
        if most is not None:
            text = clipped(setup.model, result.text, most)
            if text is not result.text:
                result = replace(result, text=text)
        said = result.text
        key = hash((call.name, call.arguments, said))
        if key not in self._seen:
            self._seen.add(key)
            self.stale = 0
        else:
            self.stale += 1
            if limits.repeated_calls is not None and self.stale >= limits.repeated_calls - 1 > 0:
                nudge = "[The same call gave the same result before. Use it, or do something else.]"
                result = replace(result, text=f"{said}\n{nudge}")
        if result.status != "retry":
            if self._retries:
                self._retries.pop(call.name, None)
            return result
        refused = self._retries[call.name] = self._retries.get(call.name, 0) + 1
        if limits.tool_retries is not None and refused > limits.tool_retries:
            said = said.removesuffix(Retry.advice).rstrip()
            text = f"{said}\nThis was attempt {refused}: stop calling {call.name} and go on without."
            result = replace(result, text=text, status="failed")
        return result


async def _joined(task: asyncio.Task[ToolOutcome]) -> ToolOutcome:
    """What a task came to; cancelled with whoever waits."""
    try:
        return await task
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait((task,))
        raise
