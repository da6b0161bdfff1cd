"""Ids of a model's turn, as they come, to text and calls. Knows a call format and a vocabulary; no engine.

What is a call is decided as the grammar decides it (engine/grammar/turn.py): the exact trigger outside code
fences, one special id where the vocabulary has it, else its bytes across token borders. White space between
the parts of a call, which the grammar fixes, is read with patience: a model may also run without a grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from kogagent.chat.pieces import CallRead, TextStream, escaping, form_of, goes_on_bare, unquoted
from kogagent.chat.reader import Kinds, Read, any_kind, is_space
from kogagent.chat.scan import Literal, Progress, bytes_of
from kogagent.errors import InputError
from kogagent.spec import CallFormat, Vocabulary
from kogagent.spec.scan import INSIDE, NO_FENCE, SPECIAL, fence_step, matched
from kogagent.types import CallDelta, CallReady, CallStarted, PlanDelta, TextDelta, ToolCall

TurnEvent: TypeAlias = PlanDelta | TextDelta | CallStarted | CallDelta | CallReady
_Step: TypeAlias = Callable[[int], None]
_Run: TypeAlias = Callable[[bytes, int], int]


class TurnParser:
    """Reads one turn. Feed it ids, then finish it; events come as soon as they are certain.

    format: None reads text alone. calls: False reads none, only thoughts and text. first_call: number of the
    turn's first call in its conversation; ids are call_0001, call_0002, … strip_space: drop one space at the
    very start, the tokenizer's own. kinds: the types of arguments, for formats that write strings bare.

    Thoughts a turn opens with are PlanDeltas; nothing in them is a call. White space behind them is dropped.
    Arguments are given as JSON, whatever the format. A call is ready when its arguments are closed. One that
    the turn's end cuts is ready with complete=False and its cut text. What looked like a call and is none is
    text.
    """

    def __init__(
        self,
        format: CallFormat | None,
        vocabulary: Vocabulary,
        *,
        first_call: int = 1,
        calls: bool = True,
        strip_space: bool = False,
        kinds: Kinds = any_kind,
    ) -> None:
        self._vocabulary = vocabulary
        form = None if format is None else form_of(format, vocabulary)
        self._kinds = kinds
        self._form = form if calls else None
        self._ends = frozenset(vocabulary.end_ids)
        self._number = first_call
        self._strip = strip_space
        self._events: list[TurnEvent] = []
        self._ended = self._finished = False
        self._text = TextStream()
        self._said: list[str] = []
        self._calls: list[ToolCall] = []
        self._fence = NO_FENCE
        self._matched = 0  # bytes at the end of the text that may become the trigger
        self._step: _Step
        self._run: _Run | None  # what a state has that can take several bytes at once
        self._to_first()
        # Read since the trigger or the last call: text after all, if no call comes of it. The first
        # `_no_trigger` of them are not looked at again.
        self._held: list[int] = []
        self._no_trigger = 0
        self._literal = self._or_end = Literal(())
        self._then: Callable[[], None] = self._to_name
        self._end_read = self._between_failed = False
        self._call: CallRead | None = None
        self._name = bytearray()
        self._think_end = form.think_end if form is not None else ()
        self._thinking = False
        if form is not None and form.think_begin:
            self._expect(form.think_begin, self._to_thoughts)

    @property
    def text(self) -> str:
        """All text given out so far, thoughts aside."""
        return "".join(self._said)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that are ready, cut ones included."""
        return tuple(self._calls)

    def feed(self, ids: Iterable[int]) -> list[TurnEvent]:
        """The events that these ids settle. An end id ends the turn; what comes after it is ignored.

        Raises InputError for an id outside the vocabulary.
        """
        tokens, special = self._vocabulary.tokens, self._vocabulary.special
        plain: list[bytes] = []  # in a row: where one token ends and the next begins is nothing to a turn
        for id in ids:
            if self._ended or id in self._ends:
                self._ended = True
                break
            if id in special:
                self._read(plain)
                self._step(SPECIAL + id)
            elif 0 <= id < len(tokens):
                plain.append(tokens[id])
            else:
                raise InputError(f"id {id!r} lies outside the vocabulary of {len(tokens)} tokens")
        self._read(plain)
        return self._settled()

    def _read(self, plain: list[bytes]) -> None:
        """Step over these bytes, and empty the list."""
        text, at = b"".join(plain), 0
        plain.clear()
        while at < len(text):
            taken = 0 if self._run is None else self._run(text, at)
            if not taken:
                self._step(text[at])
            at += taken or 1

    def _to(self, step: _Step, run: _Run | None = None) -> None:
        """Go on with another state. run: takes bytes of a text from a place on as `step` would, and says how
        many; 0 where only `step` can tell."""
        self._step, self._run = step, run

    def finish(self) -> list[TurnEvent]:
        """The end of the turn: what was held back, and the call that it cuts. Idempotent."""
        if self._finished:
            return []
        if self._step == self._in_first or (
            self._step == self._in_literal and self._then == self._to_thoughts
        ):
            self._give_up()
        elif self._step == self._in_name or (self._step == self._in_literal and not self._suffix_expected()):
            if self._ended:  # the model ended its turn of itself, so this was no call
                self._give_up()
            else:
                self._start()
        if self._call is not None:
            self._ready(complete=False)
        self._ended = self._finished = True
        self._say(final=True)
        return self._settled()

    # ── thoughts ──

    def _to_thoughts(self) -> None:
        self._held = []
        self._thinking = True
        self._to(self._in_thoughts)

    def _in_thoughts(self, symbol: int) -> None:
        end = self._think_end
        if symbol >= SPECIAL:
            self._matched = 0
            if symbol == end[0]:
                self._from_thoughts()
            return
        self._text.add(symbol)
        self._matched = 0 if end[0] >= SPECIAL else matched(end, self._matched, symbol)
        if self._matched == len(end):
            self._text.drop(len(end))
            self._from_thoughts()

    def _from_thoughts(self) -> None:
        self._matched = 0
        self._say(final=True)
        self._thinking = False
        self._to(self._behind_thoughts)

    def _behind_thoughts(self, symbol: int) -> None:
        if not is_space(symbol):
            self._to_first()
            self._step(symbol)

    # ── text ──

    def _to_first(self) -> None:
        if self._form is not None and self._form.at_start:
            self._to(self._in_first)
        else:
            self._to_text()

    def _to_text(self) -> None:
        self._to(self._in_text, self._run_of_text)

    def _run_of_text(self, text: bytes, at: int) -> int:
        """Up to the end of its line, or to where a trigger may begin."""
        form, end = self._form, len(text)
        if self._strip:
            return 0
        if form is not None and not form.at_start:
            if self._matched or self._fence[1] != INSIDE:
                return 0
            found = form.text_break.search(text, at)
            end = end if found is None else found.start()
        self._text.pending += text[at:end]
        return end - at

    def _in_first(self, symbol: int) -> None:
        """The start of a turn, where alone the trigger of some formats counts."""
        assert self._form is not None
        if self._strip:
            self._strip = False
            if symbol == 0x20:
                return
        trigger = self._form.trigger
        if symbol != trigger[len(self._held)]:
            self._give_up(symbol)
            return
        self._held.append(symbol)
        if len(self._held) == len(trigger):
            self._found()

    def _in_text(self, symbol: int) -> None:
        form = self._form
        trigger = () if form is None or form.at_start else form.trigger
        if symbol >= SPECIAL:
            self._matched = 0
            if trigger and symbol == trigger[0] and not self._fence[0]:
                self._found()
            return
        if self._strip:
            self._strip = False
            if symbol == 0x20:
                return
        self._text.add(symbol)
        if not trigger:
            return
        self._fence = fence_step(self._fence, symbol)
        self._matched = (
            0 if self._fence[0] or trigger[0] >= SPECIAL else matched(trigger, self._matched, symbol)
        )
        if self._matched == len(trigger):
            self._text.drop(len(trigger))
            self._found()

    def _found(self) -> None:
        assert self._form is not None
        self._matched = 0
        self._say(final=True)
        self._fence = (self._fence[0], INSIDE)
        self._held = list(self._form.trigger)
        self._no_trigger = len(self._held)
        self._name = bytearray()
        self._expect(self._form.begin, self._to_prefix)

    def _give_up(self, *symbols: int) -> None:
        """What was held is text, and so perhaps is what comes."""
        held, kept = [*self._held, *symbols], self._no_trigger
        self._held, self._no_trigger, self._matched = [], 0, 0
        self._to_text()
        for byte in bytes_of(held[:kept]):
            self._text.add(byte)
            self._fence = fence_step(self._fence, byte)
        for symbol in held[kept:]:
            self._step(symbol)

    # ── up to the name ──

    def _expect(self, symbols: tuple[int, ...], then: Callable[[], None]) -> None:
        if not symbols:
            then()
            return
        self._literal, self._then = Literal(symbols), then
        self._to(self._in_literal, self._run_of_literal)

    def _in_literal(self, symbol: int) -> None:
        progress = self._literal.step(symbol)
        if progress is Progress.FAIL:
            self._give_up(symbol)
        elif progress is Progress.PAST:
            self._then()
            self._step(symbol)
        else:
            self._held.append(symbol)
            if progress is Progress.DONE:
                self._then()

    def _run_of_literal(self, text: bytes, at: int) -> int:
        taken, done = self._literal.run(text, at)
        self._held += text[at : at + taken]
        if done:
            self._then()
        return taken

    def _to_prefix(self) -> None:
        assert self._form is not None
        self._name = bytearray()
        self._expect(self._form.prefix, self._to_name)

    def _to_name(self) -> None:
        self._to(self._in_name)

    def _in_name(self, symbol: int) -> None:
        form, name = self._form, self._name
        assert form is not None
        if symbol == form.name_end and not (escaping(name) and not form.bare_names):
            self._start()
            if form.middle:
                self._literal = Literal(form.middle)
                self._to(self._in_middle, self._run_of_middle)
            else:
                self._to_arguments()
            self._step(symbol)
        elif symbol < 0x20 or symbol >= SPECIAL or (form.bare_names and not goes_on_bare(name, symbol)):
            self._give_up(symbol)
        else:
            self._held.append(symbol)
            name.append(symbol)

    def _start(self) -> None:
        assert self._form is not None
        name = self._name.decode(errors="replace") if self._form.bare_names else unquoted(bytes(self._name))
        self._call = CallRead(f"call_{self._number:04d}", name, self._form.reader(partial(self._kinds, name)))
        self._number += 1
        self._events.append(CallStarted(self._call.id, name))

    # ── arguments ──

    def _in_middle(self, symbol: int) -> None:
        progress = self._literal.step(symbol)
        if progress is Progress.FAIL:
            self._to(self._in_ruins)
            self._step(symbol)
        elif progress is Progress.PAST:
            self._to_arguments()
            self._step(symbol)
        elif progress is Progress.DONE:
            self._to_arguments()

    def _run_of_middle(self, text: bytes, at: int) -> int:
        taken, done = self._literal.run(text, at)
        if done:
            self._to_arguments()
        return taken

    def _to_arguments(self) -> None:
        self._to(self._in_arguments, self._run_of_arguments)

    def _run_of_arguments(self, text: bytes, at: int) -> int:
        assert self._call is not None
        taken, done = self._call.reader.run(text, at)
        if done:
            self._ready(complete=True)
        return taken

    def _in_arguments(self, symbol: int) -> None:
        call = self._call
        assert call is not None
        read = call.reader.step(symbol)
        if read is Read.FAIL:
            self._to(self._in_ruins)
            self._step(symbol)
        elif read is Read.DONE:
            self._ready(complete=True)

    def _in_ruins(self, symbol: int) -> None:
        """What follows a name and is no arguments: kept as the call's text, up to a special id or the end.

        In a format that is not JSON it is dropped: what was read is JSON, this is none."""
        assert self._call is not None and self._form is not None
        if symbol >= SPECIAL:
            self._ready(complete=False)
            self._to_text()
        elif self._form.is_json:
            self._call.reader.out.append(symbol)

    def _ready(self, *, complete: bool) -> None:
        call, self._call = self._call, None
        assert call is not None and self._form is not None
        self._pass_on(call, final=True)
        ready = ToolCall(call.id, call.name, "".join(call.given), complete)
        self._calls.append(ready)
        self._events.append(CallReady(ready))
        self._held, self._no_trigger = [], 0
        self._expect(self._form.suffix, self._to_tail)

    # ── behind a call ──

    def _suffix_expected(self) -> bool:
        return self._then == self._to_tail

    def _to_tail(self) -> None:
        form = self._form
        assert form is not None
        self._held = []
        self._literal, self._or_end = Literal(form.between), Literal(form.end)
        self._between_failed, self._end_read = not form.between, not form.end
        if self._between_failed and self._end_read:
            self._to_text()
        else:
            self._to(self._in_tail)

    def _in_tail(self, symbol: int) -> None:
        """Another call or the end of the calls: both are tried side by side, for one may begin the other."""
        if not self._between_failed:
            progress = self._literal.step(symbol)
            self._between_failed = progress is Progress.FAIL
            if progress in (Progress.DONE, Progress.PAST):
                self._held.append(symbol)
                self._to_prefix()
                if progress is Progress.PAST:
                    self._held.pop()
                    self._step(symbol)
                return
        if self._end_read:
            if self._between_failed:
                self._give_up(symbol)
            else:
                self._held.append(symbol)
            return
        progress = self._or_end.step(symbol)
        if progress is Progress.DONE:
            self._end_read, self._held = True, []
        elif progress is Progress.PAST or (progress is Progress.FAIL and self._between_failed):
            self._give_up(symbol)
        else:
            self._held.append(symbol)
        if self._end_read and self._between_failed:
            self._to_text()

    # ── events ──

    def _say(self, *, final: bool) -> None:
        if not final and not self._text.pending:
            return
        said = self._text.take(0 if final else self._matched, final=final)
        if said and self._thinking:
            self._events.append(PlanDelta(said))
        elif said:
            self._said.append(said)
            self._events.append(TextDelta(said))

    def _pass_on(self, call: CallRead, *, final: bool) -> None:
        if not final and (not call.reader.out or (not call.given and call.reader.out == b"{")):
            return  # so that {} is one delta
        call.arguments.pending += call.reader.out
        call.reader.out.clear()
        more = call.arguments.take(0, final=final)
        if more:
            call.given.append(more)
            self._events.append(CallDelta(call.id, more))

    def _settled(self) -> list[TurnEvent]:
        if not self._finished:
            self._say(final=False)
            if self._call is not None:
                self._pass_on(self._call, final=False)
        events, self._events = self._events, []
        return events
