"""Strings to states: free ones, patterns, enumerated ones beside them; quoted, escaped or bare.

Knows shapes and styles; no keywords, no tokens. A string is a call whose frame counts its code points. One
without escapes ends at the first place where its closing text stands: those code points count too, and
`need` keeps room for them, so that the lengths of the string itself are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from kogagent.engine.grammar.automaton import COUNT, RETURN, TARGET
from kogagent.engine.grammar.builder import Conflict
from kogagent.engine.grammar.dfa import (
    ANYTHING,
    Dfa,
    TooManyStates,
    at_least,
    at_most,
    ended,
    explore,
    literals,
    split,
    union,
)
from kogagent.engine.grammar.fits import holds
from kogagent.engine.grammar.numbers import free_number
from kogagent.engine.grammar.shapes import Shape, kinds_of
from kogagent.engine.grammar.utf8 import Spans, escaped_sequences
from kogagent.errors import InputError
from kogagent.spec import ValueStyle
from kogagent.spec.scan import SPECIAL
from kogagent.spec.values import bare_value, number_text

if TYPE_CHECKING:
    from kogagent.engine.grammar.values import Level, Writer

MAX_UNROLLED = 512
"""Largest maxLength that may be unrolled into states, where alternatives of different lengths meet."""


class Strings:
    """Writes the strings of one schema, for its `Writer`. Equal bodies are made once."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._bodies: dict[tuple[int, str], tuple[Dfa, tuple[int, int] | None]] = {}

    def possible(self, shapes: Sequence[Shape]) -> bool:
        """Whether any of the shapes has a string."""
        return any(
            "string" in s.types and (s.values is None or any(isinstance(v, str) for v in s.values))
            for s in shapes
        )

    def write(self, shapes: Sequence[Shape], follow: int, level: Level) -> list[int]:
        """The states in front of the free strings of some shapes and the enumerated ones beside them."""
        style = self.writer.style(level)
        spans, dfas = self._kinds(shapes, [])
        if len(spans) == 1 and not dfas and style.escapes == "json":
            low, high = spans[0]
            return [self._called(style, self.writer.lib.text, follow, low, high)]
        return self._any(style, spans, dfas, follow)

    def bare(self, shapes: Sequence[Shape], follow: int) -> int | None:
        """The move to a bare text that is one of the shapes' strings, or another of their values.

        Such a text is read as another value where it is one, else as a string (`bare_value`).
        """
        style = self.writer.form.outer
        others = self._others(shapes)
        fixed = [v for s in shapes for v in s.values or () if isinstance(v, str)]
        kinds = frozenset(kind for s in shapes for kind in kinds_of(s))
        for shape in shapes:
            if any(isinstance(v, str) and bare_value(v, kinds) is not None for v in shape.values or ()):
                raise self._ambiguous(shape)
        free = any(s.values is None and "string" in s.types for s in shapes)
        spans, dfas = self._kinds(shapes, others) if free else ([], [(d, d.longest or 0) for d in others])
        if fixed and not free:
            dfas.append((literals(fixed), max(map(len, fixed))))
        states = self._any(style, spans, dfas, follow)
        return states[0] if states else None

    def _others(self, shapes: Sequence[Shape]) -> list[Dfa]:
        """The texts of the values that are no strings, where bare strings stand beside them."""
        writer, style = self.writer, self.writer.form.outer
        everything = any(
            s.values is None and s.types >= {"object", "array", "string", "number", "boolean", "null"}
            for s in shapes
        )
        out: list[Dfa] = []
        words: list[str] = []
        for shape in shapes:
            for value in shape.values or ():
                if value is None or isinstance(value, bool):
                    words.append(style.null if value is None else style.true if value else style.false)
                elif isinstance(value, int | float):
                    words.append(number_text(value))
                elif not isinstance(value, str):
                    raise self._ambiguous(shape)
            if shape.values is not None:
                continue
            words += [style.null] if "null" in shape.types else []
            words += [style.true, style.false] if "boolean" in shape.types else []
            if "number" in shape.types:
                integer = shape.numbers.integer
                if not shape.numbers.free:
                    raise self._ambiguous(shape)
                out.append(free_number(integer, False, writer.bounds.digits))
            if not everything and shape.types & {"object", "array"}:
                raise self._ambiguous(shape)
        return out + ([literals(words)] if words else [])

    def _ambiguous(self, shape: Shape) -> Exception:
        return self.writer.schemas.error(
            f"the call format {self.writer.form.name!r} writes strings bare, so that a text could be this "
            "value or a string. Let it be one or the other, or put it inside an object",
            shape.path,
            "anyOf",
        )

    def _kinds(
        self, shapes: Sequence[Shape], more: Sequence[Dfa]
    ) -> tuple[list[tuple[int, int]], list[tuple[Dfa, int]]]:
        """(spans of lengths of any text, automata with their most lengths) that together are the strings.

        more: automata of other texts that count among them.
        """
        free = [s for s in shapes if s.values is None and "string" in s.types]
        if not free:
            return [], []
        fixed = [v for s in shapes for v in s.values or () if isinstance(v, str)]
        plain = [(s.min_length, self._most(s)) for s in free if s.pattern is None]
        patterned = [(dfa, dfa.longest or 0) for dfa in more]
        for shape in free:
            if shape.pattern is not None:
                made = self._patterned(shape)
                if made is not None:
                    patterned.append(made)
        fixed = [v for v in fixed if not any(holds(self.writer.schemas.expand, s, v) for s in free)]
        spans: list[tuple[int, int]] = []
        for low, high in sorted(plain):
            if spans and low <= spans[-1][1] + 1:
                spans[-1] = (spans[-1][0], max(spans[-1][1], high))
            else:
                spans.append((low, high))
        if len(spans) == 1:
            low, high = spans[0]
            patterned = [(dfa, most) for dfa, most in patterned if dfa.shortest[0] < low or most > high]
        if fixed:
            patterned.append((literals(fixed), max(map(len, fixed))))
        return spans, patterned

    def _any(
        self, style: ValueStyle, spans: list[tuple[int, int]], dfas: list[tuple[Dfa, int]], follow: int
    ) -> list[int]:
        """The state in front of any of these, if there is one."""
        joint = self._joint(spans, dfas)
        found = None if joint is None else self._body(joint[0], style)
        if joint is None or found is None:
            return []
        (_, low, high), (body, extra) = joint, found
        return [self._called(style, body, follow, low + extra if low else 0, high + extra)]

    def _joint(
        self, spans: list[tuple[int, int]], dfas: list[tuple[Dfa, int]]
    ) -> tuple[Dfa, int, int] | None:
        """All these as one automaton, with the least and most length its counter keeps."""
        if len(spans) == 1 and not dfas:
            return ANYTHING, *spans[0]
        parts = list(dfas)
        for least, most in spans:
            bounded = at_least(ANYTHING, least)
            assert bounded is not None
            parts.append((bounded, most))
        if not parts:
            return None
        high = max(most for _, most in parts)
        # One counter serves all: those of another maximum must be finite by themselves.
        cut: list[Dfa] = []
        for part, limit in parts:
            if limit < high and (part.longest is None or part.longest > limit):
                if limit > MAX_UNROLLED:
                    raise Conflict
                shorter = at_most(part, limit)
                if shorter is None:
                    continue
                part = shorter
            cut.append(part)
        return cut[0] if len(cut) == 1 else union(cut), 0, high

    def told(self, groups: Sequence[tuple[Sequence[Shape], int]]) -> list[int]:
        """The state in front of a string of one of several groups of shapes, each with what follows it.

        Written in line as far as more than one group is possible; the rest of it is a call, back to what
        follows its group. Conflict where a text of any length leaves that open.
        """
        style = self.writer.form.values
        kinds: list[tuple[Dfa, int, int]] = []  # automaton, most length, what follows
        for shapes, follow in groups:
            spans, dfas = self._kinds(shapes, [])
            if not spans and not dfas:
                fixed = [v for s in shapes for v in s.values or () if isinstance(v, str)]
                dfas = [(literals(fixed), max(map(len, fixed)))] if fixed else []
            joint = self._joint(spans, dfas)
            dfa = None if joint is None else at_least(joint[0], joint[1]) if joint[1] else joint[0]
            if joint is not None and dfa is not None:
                kinds.append((dfa, joint[2], follow))
        bodies = [self._body(dfa, style) for dfa, _, _ in kinds]
        if style.escapes == "none" and len(kinds) > 1:
            raise Conflict
        builder, rows = self.writer.builder, self.writer.builder.rows
        close = self.writer.symbols(style.string_close)

        Key = tuple[int, tuple[tuple[int, int], ...]]  # code points so far, (group, its state) of those left

        def moves(key: Key) -> Iterable[tuple[int, int, Key]]:
            count, places = key
            ranges = [
                (first, last, (i, to))
                for i, state in places
                for first, last, to in (kinds[i][0].rows[state] if len(places) > 1 else ())
                if count + 1 + kinds[i][0].shortest[to] <= kinds[i][1]
            ]
            for first, last, found in split(ranges):
                yield first, last, (count + 1, tuple(sorted(found)))

        def accepts(key: Key) -> Hashable:
            count, places = key
            if len(places) == 1:
                return (count, *places[0])
            ends = [i for i, state in places if state in kinds[i][0].accept]
            if len(ends) > 1:
                raise Conflict
            return (ends[0],) if ends else False

        if not kinds:
            return []
        try:
            start: Key = (0, tuple((i, 0) for i in range(len(kinds))))
            whole = explore(start, moves, accepts, MAX_UNROLLED)
        except TooManyStates:
            raise Conflict from None
        if whole is None:
            return []
        labels = whole.labels

        def ended(number: int, state: int) -> None:
            label = labels[state]
            assert isinstance(label, tuple)
            if len(label) == 1:
                rows[number][close[0]] = builder.literal(close[1:], kinds[label[0]][2])
                return
            count, i, inner = label
            (dfa, most, follow), body = kinds[i], bodies[i]
            assert body is not None
            if inner in dfa.accept:
                rows[number][close[0]] = builder.literal(close[1:], follow)
            for symbol, move in rows[body[0] + inner].items():
                if move & COUNT and builder.need.get(move & TARGET, 0) < most - count:
                    rows[number][symbol] = builder.call(move & TARGET, follow, 0, most - count - 1)

        first = builder.embed(whole, ended, spell=_spelling(style))
        return [builder.literal(self.writer.symbols(style.string_open), first)]

    def _most(self, shape: Shape) -> int:
        if shape.max_length is not None:
            return shape.max_length
        if shape.pattern is None or shape.pattern.longest is None:
            most = max(self.writer.bounds.string, shape.min_length)
            self.writer.schemas.note(shape.path, f"no maxLength; at most {most} code points")
            return most
        return shape.pattern.longest

    def _patterned(self, shape: Shape) -> tuple[Dfa, int] | None:
        """The automaton with its least length built in, and its most length for the counter."""
        assert shape.pattern is not None
        dfa: Dfa | None = shape.pattern
        if shape.min_length and dfa is not None:
            try:
                dfa = at_least(dfa, shape.min_length)
            except TooManyStates:
                raise self.writer.schemas.error(
                    f"minLength {shape.min_length} together with {shape.pattern_from} needs too many states",
                    shape.path,
                    "pattern",
                ) from None
        most = self._most(shape)
        if dfa is None or dfa.shortest[0] > most:
            self.writer.schemas.vanish(
                f"no text matches {shape.pattern_from} with minLength {shape.min_length} "
                f"and maxLength {most}",
                shape.path,
                "pattern",
            )
            return None
        return dfa, most

    def _body(self, dfa: Dfa, style: ValueStyle) -> tuple[int, int] | None:
        """The body of a string that matches, behind what opens it, and the code points it counts beyond its
        own. None where it could not be closed."""
        key = (id(dfa), style.string_open)
        if key not in self._bodies:
            self._bodies[key] = (dfa, self._embedded(dfa, style))
        return self._bodies[key][1]

    def _embedded(self, dfa: Dfa, style: ValueStyle) -> tuple[int, int] | None:
        builder, rows = self.writer.builder, self.writer.builder.rows
        close = style.objects.value_close if style.bare else style.string_close
        symbols = self.writer.symbols(close)
        extra, closing = 0, symbols
        if style.escapes == "none" and symbols[0] < SPECIAL:
            if any(symbol >= SPECIAL for symbol in symbols):
                raise InputError(
                    f"format {self.writer.form.name!r}: {close!r} must be text or start with a special id"
                )
            whole = ended(dfa, close)
            if whole is None:
                return None
            dfa, extra, closing = whole, len(close) - 1, symbols[-1:]

        def shut(number: int, _: int) -> None:
            rows[number][closing[0]] = builder.literal(closing[1:], RETURN)

        return builder.embed(dfa, shut, spell=_spelling(style), counted=True), extra

    def _called(self, style: ValueStyle, body: int, follow: int, low: int, high: int) -> int:
        """The state in front of a string; of a bare one the move to it, for nothing opens it."""
        call = self.writer.builder.call(body, follow, low, high)
        opened = self.writer.symbols(style.string_open)
        if not opened:
            return call
        return self.writer.builder.literal(opened[:-1], self.writer.builder.state({opened[-1]: call}))


def _spelling(style: ValueStyle) -> Callable[[int, int], Sequence[Spans]]:
    """How a style writes code points."""
    return lambda first, last: escaped_sequences(first, last, style.escapes)
