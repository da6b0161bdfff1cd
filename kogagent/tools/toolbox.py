"""Finds, validates, time-limits and runs tools. Knows nothing of models or turns.

Nothing a tool does reaches the caller as an exception, save cancellation and KeyboardInterrupt: the model
gets a short text that says what to do, the developer the exception with its traceback.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from kogagent import forks
from kogagent.errors import Deferred, InputError, Retry, ToolFailed, check_takes, named_options, nearest
from kogagent.tools.groups import Group
from kogagent.tools.results import Returned, clean, returned, shorten
from kogagent.tools.schema import Signature, explain
from kogagent.tools.threads import Threads
from kogagent.tools.tool import Tool, collect
from kogagent.types import ResultStatus, RunContext, ToolCall, ToolOutcome, ToolResult, ToolSpec
from kogagent.types.context import Deps
from kogagent.types.quick import maker

T = TypeVar("T")
_result, _outcome = maker(ToolResult), maker(ToolOutcome)
_log = logging.getLogger("kogagent.tools")
_ERROR_CHARS = 400
Verdict: TypeAlias = bool | str
Approve: TypeAlias = Callable[[ToolCall, RunContext[Deps]], Verdict | Awaitable[Verdict]] | Literal["defer"]


@dataclass(frozen=True, slots=True)
class _Pending:
    """An awaitable that came out of a thread."""

    value: Awaitable[Any]

    def give(self) -> Awaitable[Any]:
        return self.value


class Toolbox:
    """The tools of an agent: `specs` to show a model, `call` to run what it asks for.

    timeout: seconds a call may take where the tool sets no limit of its own, math.inf for none.
    max_result_chars: longer results keep head and tail. max_threads: sync calls that run at once, over all
    runs. grace: seconds a cancelled async tool gets to clean up before it is abandoned.
    approve: asked before each call of a tool that needs approval, with valid arguments; True runs it, False
    or a reason in words does not, raising Deferred leaves it for later, as "defer" does with all of them. It
    may be async and take its time: no limit of the tool's applies.
    groups: how many calls of the tools of a group run at once, over all runs, where it is not one.
    specs are those of its tools in order, has_pure says whether any of them is pure; both stay as they are.
    Raises SchemaError for things that are no tools and for two tools of one name.
    """

    @named_options
    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        timeout: float = 120.0,
        max_result_chars: int = 16_000,
        max_threads: int = 32,
        grace: float = 1.0,
        approve: Approve | None = None,
        groups: Mapping[str, int] | None = None,
    ) -> None:
        for name, value in (("timeout", timeout), ("grace", grace)):
            if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
                raise InputError(f"Toolbox {name}={value!r} must be a number of seconds > 0")
        for name, value in (("max_result_chars", max_result_chars), ("max_threads", max_threads)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"Toolbox {name}={value!r} must be a positive integer")
        if approve is not None and approve != "defer" and not callable(approve):
            raise InputError(
                f"Toolbox approve={approve!r} must be a function of a call and its context, 'defer' or None"
            )
        if callable(approve):
            check_takes(approve, "approve", "a call", "its context")
        if groups is not None and not isinstance(groups, Mapping):
            raise InputError(
                f"Toolbox groups={groups!r} must say how many calls of each run at once: {{name: number}}"
            )
        self._settings = (timeout, max_result_chars)
        self._tools = {one.name: _Ready.of(one, *self._settings) for one in collect(tools)}
        waiting = [ready.tool for ready in self._tools.values() if ready.tool.needs_approval]
        if waiting and approve is None:
            raise InputError(
                f"tool {waiting[0].name!r} ({waiting[0].place}) needs approval, and nobody would be asked. "
                "Pass approve=…, a function of the call and its context."
            )
        self._approve = approve
        self._grace = grace
        self._threads = Threads(max_threads)
        self._groups = self._made_groups(groups or {})
        self._settle()

    def _settle(self) -> None:
        self.specs: tuple[ToolSpec, ...] = tuple(ready.tool.spec for ready in self._tools.values())
        self.has_pure = any(ready.tool.pure for ready in self._tools.values())

    def _made_groups(self, limits: Mapping[str, int]) -> dict[str, Group]:
        names = dict.fromkeys(ready.tool.group for ready in self._tools.values() if ready.tool.group)
        for name, limit in limits.items():
            if type(limit) is not int or limit < 1:
                raise InputError(
                    f"Toolbox groups: {name!r} has the limit {limit!r}, which is no integer >= 1"
                )
            if name not in names:
                raise InputError(
                    f"Toolbox groups: no tool is in the group {name!r}. Write @tool(group={name!r})."
                )
        return {name: Group(limits.get(name, 1)) for name in names if name is not None}

    def extended(self, tools: Iterable[Any]) -> Toolbox:
        """A toolbox of these tools too, after its own, with the same settings, threads and groups. Raises
        SchemaError for two tools of one name."""
        wider: Toolbox = object.__new__(Toolbox)
        wider._settings, wider._approve, wider._grace = self._settings, self._approve, self._grace
        wider._threads = self._threads
        found = collect([*(ready.tool for ready in self._tools.values()), *tools])
        wider._tools = {one.name: _Ready.of(one, *self._settings) for one in found}
        wider._groups = {**wider._made_groups({}), **self._groups}
        wider._settle()
        return wider

    def is_pure(self, name: str) -> bool:
        """Whether the tool of this name changes nothing, see `Options`."""
        ready = self._tools.get(name)
        return ready is not None and ready.tool.pure

    def supplied(self, call: ToolCall, value: Any) -> ToolOutcome:
        """The outcome of a call whose tool is taken to have returned this value. Raises InputError for a
        value that no tool may return."""
        ready = self._tools.get(call.name)
        try:
            back = returned(value, self._settings[1] if ready is None else ready.limit)
        except Exception as error:
            raise InputError(f"the result supplied for {call.name!r} cannot be used: {error!r}") from error
        result = ToolResult(call.id, call.name, back.text, files=back.files)
        return ToolOutcome(result, max_tokens=None if ready is None else ready.tool.max_result_tokens)

    async def call(self, call: ToolCall, context: RunContext[Any], *, approved: bool = False) -> ToolOutcome:
        """Validate the arguments and run the tool. A cut or unusable call is a result, never run. approved:
        nobody is asked any more."""
        ready = self._tools.get(call.name)
        if ready is None:
            return _told(call, "unknown_tool", self._unknown(call.name))
        if not call.complete:
            return _told(
                call,
                "truncated",
                f"The call was cut off by the token limit after {len(call.arguments)} characters and was not "
                f"run. Make it again with shorter arguments. It read: {shorten(call.arguments, 200)}",
            )
        signature = ready.signature
        try:
            values = signature.read(call.arguments)
        except ValueError as error:
            return _told(
                call, "invalid", f"Invalid arguments for {call.name}: {explain(error)}. Correct them."
            )
        except Exception as error:  # a validator of the user's own types failed
            return self._raised(call, ready, error, 0.0, 0.0)
        tool = ready.tool
        if tool.needs_approval and not approved:
            denied = await self._denied(call, context, ready)
            if denied is not None:
                return denied
        if signature.context:
            values[signature.context] = context
        positional = signature.take_positional(values) if signature.positional else ()
        if ready.never_waits:
            started = time.perf_counter()
            back: Returned | None = contextvars.copy_context().run(_at_once, ready, positional, values)
            ended = time.perf_counter()
        else:
            function = functools.partial(tool.function, *positional, **values)
            if tool.group is None:
                started, back, ended = await self._timed(ready, function)
            else:
                async with self._groups[tool.group]:
                    started, back, ended = await self._timed(ready, function)
        if back is None:
            still = "" if ready.is_async else " Its thread may still be running."
            text = f"{call.name} did not finish within {ready.timeout:g} s and was stopped.{still}"
            return ToolOutcome(ToolResult(call.id, call.name, text, "timeout"), started, ended)
        if back.error is not None:
            if signature.context and context.deps is None and "'NoneType'" in _words(back.error):
                back.error.add_note("The run was given no deps. Pass deps=… to it.")
            return self._raised(call, ready, back.error, started, ended)
        result = _result(call.id, call.name, back.text, "ok", back.files)
        return _outcome(result, started, ended, None, False, tool.max_result_tokens)

    async def _timed(
        self, ready: _Ready, function: Callable[[], Any]
    ) -> tuple[float, Returned | None, float]:
        """When the function started, what it gave or None for a time-out, and when it ended."""
        started = time.perf_counter()
        back = await (self._in_task(ready, function) if ready.is_async else self._aside(ready, function))
        return started, back, time.perf_counter()

    async def _denied(self, call: ToolCall, context: RunContext[Any], ready: _Ready) -> ToolOutcome | None:
        """None for an approved call. An approver that fails has approved nothing."""
        assert self._approve is not None
        if self._approve == "defer":
            return self._raised(call, ready, Deferred("It needs approval."), 0.0, 0.0)
        try:
            verdict = self._approve(call, context)
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except Exception as error:
            return self._raised(call, ready, error, 0.0, 0.0)
        if verdict is True:
            return None
        why = f": {verdict}" if isinstance(verdict, str) and verdict else ""
        return _told(call, "denied", f"{call.name} was not run, permission was denied{why}. Go on without.")

    async def _aside(self, ready: _Ready, function: Callable[[], Any]) -> Returned | None:
        """What a sync function gave, in a thread; None when it ran out of time."""
        end = asyncio.get_running_loop().time() + ready.timeout
        back = await _until(self._threads.submit(lambda: _in_thread(function, ready.limit)), end)
        if not isinstance(back, _Pending):
            return back
        return await self._in_task(ready, back.give, end)  # it gave an awaitable, which ends on the loop

    async def _in_task(
        self, ready: _Ready, function: Callable[[], Awaitable[Any]], end: float | None = None
    ) -> Returned | None:
        """What an async function gave; None at loop time `end`, by default when its time is over. Whatever
        happens, it is over afterwards."""
        loop = asyncio.get_running_loop()
        if end is None:
            end = loop.time() + ready.timeout
        # The task leaves its answer with somebody else: waiting for the task itself would pass a cancellation
        # on to the tool and then depend on the tool's goodwill.
        answer = _Answer()
        task = loop.create_task(_on_loop(function, ready.limit, answer))
        try:
            await asyncio.sleep(0)  # the tool's first step: most need no other, and no timer
            done = answer.value
            if done is None:
                answer.waiter = loop.create_future()
                done = await _until(answer.waiter, end)
        except asyncio.CancelledError:
            await self._stop(task, ready)
            raise
        if done is None:
            await self._stop(task, ready)
        return done

    async def _stop(self, future: asyncio.Future[Any], ready: _Ready) -> None:
        """Cancel and wait, for a bounded time and whatever further cancellation arrives; then re-raise it."""
        interrupted: asyncio.CancelledError | None = None
        for _ in range(2):  # once more after half the time: a tool may have swallowed the first
            future.cancel()
            end = time.monotonic() + self._grace / 2
            while not future.done() and (left := end - time.monotonic()) > 0:
                try:
                    await asyncio.wait((future,), timeout=left)
                except asyncio.CancelledError as error:
                    interrupted = error
        if not future.done():
            _log.warning(
                "tool %r (%s) went on %g s after it was cancelled and was abandoned",
                ready.tool.name,
                ready.tool.place,
                self._grace,
            )
        future.add_done_callback(_forget)
        if interrupted is not None:
            raise interrupted

    def _raised(
        self, call: ToolCall, ready: _Ready, error: BaseException, started: float, ended: float
    ) -> ToolOutcome:
        said = clean(shorten(_words(error), _ERROR_CHARS))
        status: ResultStatus = "failed"
        if isinstance(error, Retry):
            said = said or "The arguments cannot be used."
            said += "" if said.endswith((".", "!", "?")) else "."
            status, text = "retry", f"{said} {Retry.advice}"
        elif isinstance(error, Deferred):
            status, text = "deferred", said or "The result comes later."
            return ToolOutcome(ToolResult(call.id, call.name, text, status), started, ended)
        elif isinstance(error, ToolFailed):
            text = f"{call.name} failed: {said}" if said else f"{call.name} failed."
        else:
            text = f"{call.name} failed with {type(error).__name__}" + (f": {said}" if said else "")
            _log.error("tool %r (%s) raised", call.name, ready.tool.place, exc_info=error)
        bug = not isinstance(error, Retry | ToolFailed)
        return ToolOutcome(ToolResult(call.id, call.name, text, status), started, ended, error, bug)

    def _unknown(self, name: str) -> str:
        if not self._tools:
            return f"There is no tool named {name!r}: there are no tools. Answer without."
        known = ", ".join(self._tools)
        return f"There is no tool named {name!r}.{nearest(name, self._tools)} The tools are: {known}."


@dataclass(frozen=True, slots=True)
class _Ready:
    """A tool with every open question answered."""

    tool: Tool[..., Any]
    signature: Signature
    is_async: bool
    never_waits: bool
    timeout: float
    limit: int

    @classmethod
    def of(cls, tool: Tool[..., Any], timeout: float, max_result_chars: int) -> _Ready:
        return cls(
            tool,
            tool.signature,
            tool.is_async,
            tool.never_waits and tool.group is None,
            tool.timeout if tool.timeout is not None else timeout,
            tool.max_result_chars if tool.max_result_chars is not None else max_result_chars,
        )


def _words(error: BaseException) -> str:
    """What an exception says, nothing where it cannot even do that."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""


def _told(call: ToolCall, status: ResultStatus, text: str) -> ToolOutcome:
    return ToolOutcome(ToolResult(call.id, call.name, clean(text), status))


async def _until(answer: asyncio.Future[T], end: float) -> T:
    """The answer, or None, which T must allow, at loop time `end`."""
    if end == math.inf:
        return await answer
    timer = answer.get_loop().call_at(end, _expire, answer)
    try:
        return await answer
    finally:
        timer.cancel()


def _expire(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_result(None)


class _Answer:
    """What a tool's task has come to, and who waits for it."""

    __slots__ = ("value", "waiter")

    def __init__(self) -> None:
        self.value: Returned | None = None
        self.waiter: asyncio.Future[Returned | None] | None = None


async def _on_loop(function: Callable[[], Awaitable[Any]], limit: int, answer: _Answer) -> None:
    # SystemExit would end the event loop if it left a task; KeyboardInterrupt, the user's own, must.
    before = forks.count
    try:
        done = returned(await function(), limit)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        done = Returned(error=error)
    _same(before)
    answer.value = done
    if answer.waiter is not None and not answer.waiter.done():  # else nobody waits: cancelled, or out of time
        answer.waiter.set_result(done)


def _at_once(ready: _Ready, positional: Sequence[Any], values: dict[str, Any]) -> Returned:
    """What a coroutine that never waits comes to, by its one step: nobody could stop it on its way."""
    before = forks.count
    try:
        try:
            ready.tool.function(*positional, **values).send(None)
        except StopIteration as end:
            value = end.value
        else:
            raise RuntimeError("a coroutine without an await has waited")
        back = returned(value, ready.limit)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        back = Returned(error=error)
    _same(before)
    return back


def _in_thread(function: Callable[[], Any], limit: int) -> Returned | _Pending | None:
    before = forks.count
    back: Returned | _Pending
    try:
        value = function()
        back = _Pending(value) if inspect.isawaitable(value) else returned(value, limit)
    except BaseException as error:
        back = Returned(error=error)
    _same(before)
    return back


def _same(before: int) -> None:
    """End a child that a tool forked and that came back with the tool's result: it has copies of this
    process's event loop and threads, and would go on with the run."""
    if forks.count != before:
        os._exit(0)


def _forget(future: asyncio.Future[Any]) -> None:
    """Take note of how an abandoned future ended, or asyncio complains that nobody did."""
    if not future.cancelled():
        future.exception()
