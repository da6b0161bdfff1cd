"""The history of a conversation: append-only, every call followed by its result. Knows no model.

The *record* holds all that was said and done. The *view* is what a model reads of it: the same list, until a
summary stands for its older part, another agent takes over, or a result that came late takes the place that
was kept for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol, overload

from kogagent.errors import InputError
from kogagent.loop.notation import messages_from_lines, messages_to_lines
from kogagent.types import (
    AssistantMessage,
    HandOverMessage,
    Message,
    SummaryMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

_PLAIN = frozenset((SystemMessage, UserMessage, AssistantMessage, ToolMessage))  # as a rule the view's too
_CANCELLED = "Cancelled before it finished. It may have had effects; check before calling it again."


class Messages(Sequence[Message]):
    """A history as it stood at one moment, without a copy: the list behind it only ever grows."""

    __slots__ = ("_list", "_size")

    _list: list[Message]
    _size: int

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> Message: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Message, ...]: ...

    def __getitem__(self, at: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(at, slice):
            return tuple(self._list[i] for i in range(*at.indices(self._size)))
        if not -self._size <= at < self._size:
            raise IndexError(f"message {at} of {self._size}")
        return self._list[at if at >= 0 else at + self._size]

    def __iter__(self) -> Iterator[Message]:
        return islice(self._list, self._size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Messages({list(self)!r})"


def _now(messages: list[Message]) -> Messages:
    """These as they stand. Filled from here, which takes half the time of an `__init__`."""
    made = Messages()
    made._list, made._size = messages, len(messages)
    return made


def _last_turn(messages: Sequence[Message]) -> int:
    """The place of the last turn, -1 for none."""
    at = len(messages) - 1
    while at >= 0 and not isinstance(messages[at], AssistantMessage):
        at -= 1
    return at


def _without(messages: list[Message], calls: tuple[str, ...]) -> list[Message]:
    """These without calls of the last turn, by their ids, and their results; without the turn where it has no
    others. Without calls to leave out, all of these: the last turn may be an answer, or there may be none."""
    if not calls:
        return list(messages)
    at = _last_turn(messages)
    turn, kept = messages[at], messages[:at]
    assert isinstance(turn, AssistantMessage)
    others = tuple(call for call in turn.calls if call.id not in calls)
    if others:
        kept.append(replace(turn, calls=others, ids=()))  # the ids say more than is left
    for one in messages[at + 1 :]:
        if not (isinstance(one, ToolMessage) and one.result.call_id in calls):
            kept.append(one)
    return kept


class Journal(Protocol):
    """Where a transcript is written down as it grows. What was told is safe after `flush` or `settled`, which
    raise InputError for what could not be written; then the journal is of no more use."""

    def append(self, at: int, message: Message) -> None:
        """The message at this place, which is the next."""

    def begin(self, calls: Sequence[str]) -> None:
        """Calls of these ids, whose results come later, are being run from now on."""

    def keep(self, turn: int, result: ToolResult) -> None:
        """The result of a call of the message at this place, whose own message comes later."""

    def cut(self, length: int, awaiting: Sequence[str]) -> None:
        """Everything from this place on is gone, results that were kept too; calls of these ids wait now."""

    def rewrite(self, messages: Sequence[Message]) -> None:
        """Everything anew."""

    def soon(self) -> None:
        """Write what was told within milliseconds, with what is told meanwhile. Neither blocks nor waits."""

    def flush(self) -> None:
        """Block until it is written."""

    async def settled(self) -> None:
        """The same without blocking the event loop."""


class Transcript:
    """A history that a run appends to. Pass one to `Agent.run(history=…)` to keep the conversation, whatever
    happens to the run: it is consistent after every append, and a cancelled call has a result that says so.

    messages given here must be consistent; `Transcript.repaired` takes a history cut anywhere. journal is
    told of every message after these. view is what a model reads of it now: another value after every
    change. next_call: a number behind those of all calls in the record.
    """

    def __init__(self, messages: Iterable[Message] = (), *, journal: Journal | None = None) -> None:
        self._record: list[Message] = []
        self._view = self._record  # the very list, as long as they do not differ
        self.view = _now(self._view)
        self._open: dict[str, ToolCall] = {}
        self.deferred: dict[str, ToolCall] = {}
        self._kept: dict[str, ToolResult] = {}  # of calls above, by their ids: results without a message yet
        self._in_use = False
        self.next_call = 1
        self.journal: Journal | None = None
        for message in messages:
            self.post(message)
        self.journal = journal

    @classmethod
    def repaired(cls, messages: Iterable[Message]) -> Transcript:
        """A transcript of messages of which some calls may have no result: each gets a "cancelled" one.

        Calls at the end whose results were said to come later still wait for them.
        """
        transcript = cls()
        for message in messages:
            if not isinstance(message, ToolMessage):
                transcript.close_calls()
            transcript.post(message)
        transcript.close_calls(waiting=False)
        return transcript

    @property
    def messages(self) -> Messages:
        """The record as it stands now."""
        return _now(self._record)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last turn that have no result yet."""
        return tuple(self._open.values())

    @property
    def awaiting(self) -> tuple[ToolCall, ...]:
        """Calls of the last turn whose results come later: their result so far is "deferred"."""
        return tuple(self.deferred.values())

    @property
    def last_turn(self) -> int:
        """The place of the last turn in the record, -1 for none."""
        return _last_turn(self._record)

    def __len__(self) -> int:
        return len(self._record)

    def __iter__(self) -> Iterator[Message]:
        """Over the record as it stands now: what is appended meanwhile is not in it."""
        return iter(self.messages)

    # ── growing ──

    def append(self, message: Message) -> None:
        """Add a message; where there is a journal, it is written when this returns.

        Raises InputError for a message that cannot follow, or that could not be written; then nothing is
        added.
        """
        self.post(message, True)

    def post(self, message: Message, _flush: bool = False) -> None:
        """`append`, but written only when `settled` has returned: nothing blocks meanwhile."""
        record, result = self._record, None
        kind = type(message)  # isinstance takes long to say no
        if kind is AssistantMessage or not isinstance(message, ToolMessage):
            opened = self._opened_by(message)
        else:
            result = message.result
            opened = self._open_after(result)
        if self.journal is not None:
            self.journal.append(len(record), message)
            if _flush:
                self.journal.flush()
        record.append(message)
        if self._view is not record or self.deferred or kind not in _PLAIN:
            self._show(message)
        if result is not None:
            if result.status == "deferred":
                self.deferred |= {id: call for id, call in self._open.items() if id not in opened}
            if self._kept:
                self._kept.pop(result.call_id, None)
        elif opened:
            following = self.next_call + len(opened)
            for call in opened.values():
                if call.number >= following:  # the history of another conversation, cut
                    following = call.number + 1
            self.next_call = following
        self._open = opened
        self.view = _now(self._view)

    async def settled(self) -> None:
        """Wait until the journal has written all that was posted. Raises InputError where it cannot."""
        if self.journal is not None:
            await self.journal.settled()

    def flush(self) -> None:
        """`settled` for who may not wait on the loop: blocks, for well under a millisecond as a rule."""
        if self.journal is not None:
            self.journal.flush()

    def begin(self, calls: Iterable[ToolCall]) -> None:
        """Say that calls which wait are about to run. Where that is written down and the process is killed
        before their results are, they have been cancelled: nobody is asked again whether they may run."""
        if self.journal is not None:
            self.journal.begin([call.id for call in calls])

    def keep(self, result: ToolResult) -> None:
        """A call is done while others of its turn still run: its message waits for its place in their order,
        the result is safe from now on. Raises InputError for one that no call waits for."""
        if result.call_id not in self._open:
            self._open_after(result)
        if self.journal is not None:
            self.journal.keep(self.last_turn, result)
        self._kept[result.call_id] = result

    def close_calls(
        self, text: str = _CANCELLED, *, only: str | None = None, waiting: bool = True
    ) -> tuple[ToolResult, ...]:
        """Give every open call, or the one of this id, the result that was kept for it, else a "cancelled"
        one; returns them. waiting: calls whose results come later too; those that have one by now always."""
        late = [call for id, call in self.deferred.items() if waiting or id in self._kept]
        results = tuple(
            self._kept.get(call.id) or ToolResult(call.id, call.name, text, "cancelled")
            for call in (*self._open.values(), *late)
            if only in (None, call.id)
        )
        for result in results:
            self.post(ToolMessage(result))
        return results

    def _open_after(self, result: ToolResult) -> dict[str, ToolCall]:
        """The calls that are open after this result. Raises InputError for one that no call waits for."""
        opened = self._open
        if result.call_id in opened:
            if len(opened) == 1:
                return {}
            return {id: call for id, call in opened.items() if id != result.call_id}
        if result.call_id in self.deferred:
            return opened
        raise InputError(
            f"message {len(self)} is the result of call {result.call_id!r}, "
            "which no open call of the last turn has as its id"
        )

    def _opened_by(self, message: Message) -> dict[str, ToolCall]:
        """The calls that are open after this message, which is no result. Raises InputError for one that
        cannot follow."""
        if self._open or self.deferred:
            names = ", ".join(map(repr, (*self._open, *self.deferred)))
            raise InputError(
                f"message {len(self)} follows calls without results: {names}. "
                "Append a ToolMessage for each first, or use Transcript.repaired."
            )
        if isinstance(message, AssistantMessage):
            calls = message.calls
            if len(calls) == 1:
                return {calls[0].id: calls[0]}
            opened = {call.id: call for call in calls}
            if len(opened) < len(calls):
                raise InputError(f"message {len(self)} has two calls of one id; each needs its own")
            return opened
        if isinstance(message, SummaryMessage):
            self._check_summary(message)
        elif isinstance(message, HandOverMessage):
            self._check_hand_over(message)
        elif not isinstance(message, SystemMessage | UserMessage):
            raise InputError(
                f"message {len(self)} is {message!r}, which is no message. See kogagent.Message."
            )
        return {}

    def _check_summary(self, message: SummaryMessage) -> None:
        most = len(self._view) - self._head
        if not 0 <= message.kept <= most:
            raise InputError(f"message {len(self)} keeps {message.kept} messages of {most}")
        if message.kept and isinstance(self._view[-message.kept], ToolMessage):
            raise InputError(f"message {len(self)} keeps results without the turn that called for them")

    def _check_hand_over(self, message: HandOverMessage) -> None:
        at = _last_turn(self._view)
        turn = self._view[at] if at >= 0 else None
        ids = [call.id for call in turn.calls] if isinstance(turn, AssistantMessage) else []
        if not set(message.calls) <= set(ids):
            raise InputError(f"message {len(self)} hides calls {message.calls!r}; the last turn has {ids!r}")

    @property
    def _head(self) -> int:
        """Messages in front that no summary stands for."""
        return 1 if self._view and isinstance(self._view[0], SystemMessage) else 0

    def _show(self, message: Message) -> None:
        """Put the last message of the record into the view, where that is more than appending it to both."""
        shared = self._view is self._record
        if isinstance(message, SummaryMessage):
            view = self._record[:-1] if shared else self._view
            kept = view[len(view) - message.kept :]
            summary = message.text
            if kept and isinstance(kept[0], UserMessage):  # many templates refuse two in a row
                summary, kept = f"{summary}\n\n{kept[0].text}", kept[1:]
            self._view = [*view[: self._head], UserMessage(summary), *kept]
        elif isinstance(message, HandOverMessage):
            self._view = _without(self._record[:-1] if shared else self._view, message.calls)
        elif isinstance(message, ToolMessage) and message.result.call_id in self.deferred:
            if message.result.status != "deferred":  # else it waits again: it was begun, and takes longer
                del self.deferred[message.result.call_id]
            view = self._record[:-1] if shared else list(self._view)
            at = max(
                i
                for i, one in enumerate(view)
                if isinstance(one, ToolMessage) and one.result.call_id == message.result.call_id
            )
            view[at] = message
            self._view = view
        elif not shared:
            self._view.append(message)

    # ── going elsewhere ──

    def fork(self) -> Transcript:
        """An independent transcript of the same messages, kept nowhere else."""
        other = Transcript()
        other._record = list(self._record)
        other._view = other._record if self._view is self._record else list(self._view)
        other._open, other.deferred = dict(self._open), dict(self.deferred)
        other._kept, other.next_call = dict(self._kept), self.next_call
        other.view = _now(other._view)
        return other

    def rewind(self, messages: int) -> None:
        """Forget all but the first so many messages of the record; calls whose results are cut off are
        closed.

        Raises InputError for more than there are, and while a run holds the transcript.
        """
        if type(messages) is not int or not 0 <= messages <= len(self._record):
            raise InputError(f"rewind to {messages!r}: the transcript has {len(self._record)} messages")
        if self._in_use:
            raise InputError("this transcript is in use by a run. Wait for it, or rewind a fork.")
        if messages < len(self._record):
            cut = Transcript(self._record[:messages])
            if self.journal is not None:
                self.journal.cut(messages, list(cut.deferred))
            self._record, self._view = cut._record, cut._view  # new lists: what was given out keeps the old
            self._open, self.deferred, self._kept = cut._open, cut.deferred, {}
            self.next_call = cut.next_call
            self.view = _now(self._view)
        self.close_calls(waiting=False)
        self.flush()

    def with_system(self, text: str) -> None:
        """Set the system message. The same text changes nothing; another one starts a new prompt prefix."""
        head = self._head
        if head and self._view[0] == SystemMessage(text):
            return
        if not self._record:
            self.post(SystemMessage(text))
            return
        shared = self._view is self._record
        record: list[Message] = [SystemMessage(text), *self._record[head:]]
        if self.journal is not None:
            self.journal.rewrite(record)
        self._view = record if shared else [SystemMessage(text), *self._view[head:]]
        self._record = record  # a new list: what was given out keeps the old one
        self.view = _now(self._view)

    # ── one run at a time ──

    def acquire(self) -> None:
        """Taken by a run. Raises InputError when another run holds it: two would mix their turns."""
        if self._in_use:
            raise InputError("this transcript is in use by a run. Wait for it, or pass transcript.fork().")
        self._in_use = True

    def release(self) -> None:
        self._in_use = False

    # ── files ──

    def to_lines(self) -> str:
        """JSON lines, one a message: a file of them can be appended to."""
        return messages_to_lines(self._record)

    @classmethod
    def from_lines(cls, text: str) -> Transcript:
        """Read JSON lines, repairing calls that have no result. Raises InputError that names the line.

        A last line without its newline was cut while it was written, and is left out.
        """
        return cls.repaired(messages_from_lines(text))
