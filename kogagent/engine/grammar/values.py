"""Shapes to states: the text of values in a format's style, separators fixed. Knows no keywords, no tokens.

Strings, arrays and open objects are calls, so that their counters live in a frame; closed objects, keywords
and enumerated values are written in line. strings.py writes the strings, objects.py the objects.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from kogagent.engine.grammar.automaton import COUNT, RETURN, TARGET, UNBOUNDED
from kogagent.engine.grammar.builder import Builder, Conflict
from kogagent.engine.grammar.dfa import Dfa, TooManyStates, literals, union
from kogagent.engine.grammar.disjoint import require_disjoint
from kogagent.engine.grammar.library import Library
from kogagent.engine.grammar.numbers import bounded_number
from kogagent.engine.grammar.objects import Objects
from kogagent.engine.grammar.schema import Schemas
from kogagent.engine.grammar.shapes import Goal, Shape, kinds_of, type_of
from kogagent.engine.grammar.strings import MAX_UNROLLED, Strings
from kogagent.spec import CallFormat, ValueStyle
from kogagent.spec.calls import BARE_NAME
from kogagent.spec.scan import spell
from kogagent.spec.values import escaped, number_text

Symbols = tuple[int, ...]

MAX_UNIQUE = 8
"""Most values of an array of unique items: its states are the sets of those already written."""


class Level(IntEnum):
    """Where a value stands: it is a call's arguments, the value of one of them, or inside such a value."""

    INNER = 0
    MEMBER = 1
    ARGUMENTS = 2


class Writer:
    """Writes the states of one schema's values into a builder. `value` gives None for an impossible goal.

    form: gives the styles. names: the special ids a style's texts may name.
    """

    def __init__(
        self, builder: Builder, lib: Library, schemas: Schemas, form: CallFormat, names: Mapping[str, int]
    ) -> None:
        self.builder = builder
        self.lib = lib
        self.schemas = schemas
        self.bounds = schemas.bounds
        self.form = form
        self.names = names
        self._symbols: dict[str, Symbols] = {}
        self.separator = self.symbols(form.values.item_separator)
        self._values: dict[tuple[Any, int, Level], int | None] = {}
        self._arrays: dict[tuple[Any, ...], int | None] = {}
        self._objects = Objects(self)
        self._strings = Strings(self)

    def symbols(self, text: str) -> Symbols:
        """A style's text as symbols."""
        found = self._symbols.get(text)
        if found is None:
            found = self._symbols[text] = spell(text, self.names)
        return found

    def style(self, level: Level) -> ValueStyle:
        return self.form.outer if level else self.form.values

    # ── any value ──
    def arguments(self, goal: Goal, follow: int) -> int | None:
        """The state in front of a call's arguments of `goal`, after which `follow` stands."""
        if self.form.outer.bare:
            self._require_readable(goal)
        return self.value(goal, follow, Level.INNER if self.form.arguments is None else Level.ARGUMENTS)

    def _require_readable(self, goal: Goal) -> None:
        """Bare strings are read by the types of their argument: refuse one that is a string in one
        alternative of the arguments and something else in another."""
        shapes = self.schemas.expand(goal)
        for name in dict.fromkeys(name for shape in shapes for name in shape.properties):
            found = set()
            for shape in shapes:
                inner = shape.property(name)
                if inner is not None and (parts := self.schemas.expand(inner)):
                    found.add(frozenset(kind for part in parts for kind in kinds_of(part)))
            if len(found) > 1 and any("string" in kinds for kinds in found):
                raise self.schemas.error(
                    f"{name!r} is a string in one alternative and something else in another, which the call "
                    f"format {self.form.name!r} cannot tell apart",
                    goal.path,
                    "anyOf",
                )

    def value(self, goal: Goal, follow: int, level: Level = Level.INNER) -> int | None:
        """The state in front of a value of `goal`, after which `follow` stands."""
        key = (goal.key, follow, level)
        if key not in self._values:
            self._values[key] = self._value(goal, follow, level)
        return self._values[key]

    def _value(self, goal: Goal, follow: int, level: Level) -> int | None:
        shapes = self.schemas.expand(goal)
        shapes = require_disjoint(self.schemas, shapes, goal.path)
        behind = follow  # of what is no string: a bare string is closed by what closes its member
        if level == Level.MEMBER:
            behind = self.builder.literal(self.symbols(self.style(level).objects.value_close), follow)
        states: list[int] = []
        try:
            if level == Level.MEMBER and self.style(level).bare and self._strings.possible(shapes):
                return self._strings.bare(shapes, follow)
            states += self._fixed(shapes, behind, level)
            states += self._numbers([s for s in shapes if s.values is None and "number" in s.types], behind)
            states += self._strings.write(shapes, behind, level)
            arrays = distinct(s for s in shapes if s.values is None and "array" in s.types)
            # One default bound for all alternatives: they share a frame until they can be told apart.
            common = max((self.default(s, "array") for s in arrays), default=0) if len(arrays) > 1 else 0
            states += [state for s in arrays if (state := self._array(s, behind, common)) is not None]
            objects = distinct(s for s in shapes if s.values is None and "object" in s.types)
            common = max((self.default(s, "object") for s in objects), default=0) if len(objects) > 1 else 0
            where = Level.ARGUMENTS if level == Level.ARGUMENTS else Level.INNER
            made = [self._objects.write(s, behind, common, where) for s in objects]
            states += [state for state in made if state is not None]
            return self.builder.union(states) if states else None
        except Conflict:
            raise self.schemas.error(
                "these alternatives start alike and differ in bounds or in kind, so that no automaton of "
                "bounded memory keeps them apart. Give them a distinguishing const property, or one bound",
                goal.path,
                next((s.split for s in shapes if s.split), "anyOf"),
            ) from None
        except TooManyStates:
            raise self.schemas.error(
                "its automaton would have too many states; use smaller numbers or a simpler pattern",
                goal.path,
                "multipleOf" if any(s.numbers.multiple for s in shapes) else "pattern",
            ) from None

    def default(self, shape: Shape, kind: str) -> int:
        """The bound on items or properties where a schema gives none."""
        if kind == "array":
            return max(self.bounds.items, shape.min_items, len(shape.prefix))
        named = len({*shape.properties, *shape.required})
        return max(shape.min_properties, named + self.bounds.properties)

    def _fixed(self, shapes: Sequence[Shape], follow: int, level: Level) -> list[int]:
        """null, true, false, and enumerated values that are no strings or numbers beside free ones."""
        style = self.style(level)
        texts: dict[Symbols, None] = {}
        for shape in shapes:
            if shape.values is None and not shape.types & {"null", "boolean"}:
                continue
            if shape.values is None:
                words = {style.null} if "null" in shape.types else set()
                words |= {style.true, style.false} if "boolean" in shape.types else set()
                texts.update(dict.fromkeys(tuple(word.encode()) for word in sorted(words)))
                continue
            for value in shape.values:
                kind = type_of(value)
                if kind in ("string", "number") and self.mixed(shapes, kind):
                    continue
                if kind in ("array", "object") and any(
                    s.values is None and self.schemas.holds(s, value) for s in shapes
                ):
                    continue
                if kind != "number":
                    texts.update(dict.fromkeys(self.write(value, shape.path, level)))
        states = [self.builder.trie((text, follow) for text in texts)] if texts else []
        numbers = {
            bytes(text).decode(): None
            for shape in shapes
            for value in shape.values or ()
            if type_of(value) == "number" and not self.mixed(shapes, "number")
            for text in self.write(value, shape.path)
        }
        if numbers:
            states.append(self._number(literals(numbers), follow))
        return states

    def mixed(self, shapes: Sequence[Shape], kind: str) -> bool:
        """Whether free values of a kind stand beside enumerated ones."""
        return any(s.values is None and kind in s.types for s in shapes)

    def write(self, value: Any, path: str, level: Level = Level.INNER) -> list[Symbols]:
        """The texts of a fixed value, as symbols: one, or two for an integer that may be written 1.0."""
        style, inner = self.style(level), self.form.values
        if isinstance(value, bool) or value is None:
            return [tuple((style.null if value is None else style.true if value else style.false).encode())]
        if isinstance(value, int | float):
            text = number_text(value)
            exact = isinstance(value, int) or value.is_integer()
            spellings = [text, text + ".0"] if exact and self.bounds.zero_fraction else [text]
            return [tuple(spelling.encode()) for spelling in spellings]
        if isinstance(value, str):
            if style.escapes == "none" and style.string_close in value:
                raise self.schemas.error(
                    f"{value!r} holds {style.string_close!r}, which closes a string in the call format "
                    f"{self.form.name!r}",
                    path,
                    "enum",
                )
            return [
                self.symbols(style.string_open)
                + tuple(escaped(value, style.escapes).encode())
                + self.symbols(style.string_close)
            ]
        parts: list[tuple[Symbols, Any]]
        if isinstance(value, Mapping):
            form = inner.objects
            parts = [
                (self.member_name(name, Level.INNER, path) + self.symbols(form.name_close), value[name])
                for name in form.order(value)
            ]
            opened, closed = form.open + (form.name_open if parts else ""), form.value_close + form.close
            between = form.value_close + form.separator + form.name_open
            closed = closed if parts else form.close
        else:
            parts = [((), item) for item in value]
            opened, between, closed = "[", inner.item_separator, "]"
        texts = [self.write(item, path) for _, item in parts]
        if math.prod(map(len, texts)) > MAX_UNROLLED:
            texts = [choices[:1] for choices in texts]
        ends = spell(opened, self.names), self.symbols(between), self.symbols(closed)
        return [
            ends[0]
            + _joined(ends[1], [head + t for (head, _), t in zip(parts, chosen, strict=True)])
            + ends[2]
            for chosen in itertools.product(*texts)
        ]

    def member_name(self, name: str, level: Level, path: str) -> Symbols:
        """A property's name as its object writes it."""
        style = self.style(level)
        if style.objects.quoted:
            return tuple(escaped(name, style.escapes).encode())
        if BARE_NAME.fullmatch(name) is None:
            raise self.schemas.error(
                f"the call format {self.form.name!r} cannot write the name {name!r}: only letters, digits, "
                "'_', '-' and '.'. Rename it",
                path,
                "properties",
            )
        return tuple(name.encode())

    # ── numbers ──
    def _numbers(self, shapes: Sequence[Shape], follow: int) -> list[int]:
        if not shapes:
            return []
        automata: list[Dfa] = []
        for shape in shapes:
            integer = shape.numbers.integer
            dfa = bounded_number(
                shape.numbers, self.bounds.zero_fraction if integer else False, self.bounds.digits
            )
            if dfa is not None and dfa not in automata:
                automata.append(dfa)
            if dfa is None and len(shapes) == 1 and shape.types == {"number"} and not shape.choices:
                word = "multipleOf" if shape.numbers.multiple else "minimum"
                raise self.schemas.error("the bounds exclude every number", shape.path, word)
        if not automata:
            return []
        return [self._number(automata[0] if len(automata) == 1 else union(automata), follow)]

    def _number(self, dfa: Dfa, follow: int) -> int:
        row = {
            symbol: self.builder.call(entry & TARGET, follow)
            for symbol, entry in self.builder.rule(dfa).items()
        }
        return self.builder.state(row)

    # ── arrays ──
    def _array(self, shape: Shape, follow: int, common: int) -> int | None:
        low, high = shape.min_items, shape.max_items
        if shape.unique and (high is None or high > 1):
            return self._unique(shape, follow)
        if high is None:
            high = common or self.default(shape, "array")
            rest = shape.items
            if rest is None or self.schemas.expand(rest):
                self.schemas.note(shape.path, f"no maxItems; at most {high} items")
        rest = shape.items or self.schemas.anything(shape)
        key = (tuple(g.key for g in shape.prefix), rest.key, low == 0, min(high, len(shape.prefix) + 1), low)
        if key not in self._arrays:
            self._arrays[key] = self._items(shape, rest, low, high)
        entry = self._arrays[key]
        if entry is None:
            return None
        # The frame counts separators, one less than items.
        call = self.builder.call(entry, follow, max(low - 1, 0), max(high - 1, 0))
        return self.builder.state({ord("["): call})

    def _items(self, shape: Shape, rest: Goal, low: int, high: int) -> int | None:
        """The state behind "["; None when fewer items than `low` can be written."""
        close, builder, rows = ord("]"), self.builder, self.builder.rows
        after: int | None = None
        first: int | None = None
        reach = 0  # items that can be written one after another, as far as goals differ
        for index in range(min(len(shape.prefix), high)):
            if not self.schemas.expand(shape.prefix[index]):
                break
            reach = index + 1
        loops = reach == min(len(shape.prefix), high) and high > len(shape.prefix)
        if loops:
            after = builder.state({close: RETURN})
            first = self.value(rest, after)
            if first is not None:
                rows[after][self.separator[0]] = self._next(first)
        if first is None and low > reach:
            return None
        for index in reversed(range(reach)):
            after = builder.state({close: RETURN})
            if first is not None:
                rows[after][self.separator[0]] = self._next(first)
            made = self.value(shape.prefix[index], after)
            if made is None:
                if low > index:
                    return None
                first = None
                continue
            first = made
        entry = builder.state(dict(rows[first]) if first is not None else {})
        if first is not None and first in builder.final:
            builder.final.add(entry)
        if low == 0:
            rows[entry][close] = RETURN
        return entry if rows[entry] else None

    def _next(self, first: int) -> int:
        """The move by a separator's first symbol to one more item."""
        return self.builder.literal(self.separator[1:], first) | COUNT

    def _unique(self, shape: Shape, follow: int) -> int | None:
        """An array whose items are enumerated and all different: its states are the sets of those written."""
        goal = shape.items
        values = None if shape.prefix or goal is None else self.schemas.enumerated(goal)
        if values is None or len(values) > MAX_UNIQUE:
            raise self.schemas.error(
                f"needs memory of earlier items; only items of at most {MAX_UNIQUE} enumerated values, or "
                "maxItems 1, can keep it",
                shape.path,
                "uniqueItems",
            )
        low = shape.min_items
        high = len(values) if shape.max_items is None else min(shape.max_items, len(values))
        if low > high:
            return None
        key = ("unique", goal.key if goal is not None else None, low, high)
        if key not in self._arrays:
            texts = [self.write(value, shape.path) for value in values]
            sets: dict[int, int] = {}
            for taken in sorted(range(1 << len(values)), key=int.bit_count, reverse=True):
                if taken.bit_count() > high:
                    continue
                state = sets[taken] = self.builder.state({})
                if taken.bit_count() >= low:
                    self.builder.rows[state][ord("]")] = RETURN
                if taken.bit_count() == high:
                    continue
                items = self._one_of(
                    [
                        (t, sets[taken | 1 << i])
                        for i, ts in enumerate(texts)
                        if not taken >> i & 1
                        for t in ts
                    ]
                )
                if taken:
                    self.builder.rows[state][self.separator[0]] = self.builder.literal(
                        self.separator[1:], items
                    )
                else:
                    self.builder.absorb(state, items)
            self._arrays[key] = sets[0]
        entry = self._arrays[key]
        assert entry is not None
        return self.builder.state({ord("["): self.builder.call(entry, follow, 0, UNBOUNDED)})

    def _one_of(self, texts: Sequence[tuple[Symbols, int]]) -> int:
        """The state that reads one of several texts, one of which may begin another, and what follows it."""
        builder = self.builder
        root = builder.state()
        ends: dict[int, int] = {}
        for text, follow in texts:
            state = root
            for symbol in text:
                state = builder.rows[state].setdefault(symbol, builder.state())
            ends[state] = follow
        for state, follow in ends.items():
            builder.absorb(state, follow)
        return root


def _joined(between: Symbols, parts: Sequence[Symbols]) -> Symbols:
    out: list[int] = []
    for i, part in enumerate(parts):
        out += (*between, *part) if i else part
    return tuple(out)


def distinct(shapes: Iterable[Shape]) -> list[Shape]:
    """Shapes without those that say the same again."""
    out: list[Shape] = []
    for shape in shapes:
        if shape not in out:
            out.append(shape)
    return out
