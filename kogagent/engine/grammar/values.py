"""Shapes to states: the text of JSON values with fixed separators. Knows no keywords, no tokens.

Strings, arrays and open objects are calls, so that their counters live in a frame; closed objects, keywords
and enumerated values are written in line.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from kogagent.engine.grammar.automaton import COUNT, RETURN, TARGET, Builder, Conflict
from kogagent.engine.grammar.dfa import Dfa, TooManyStates, at_least, at_most, literals, union
from kogagent.engine.grammar.disjoint import require_disjoint
from kogagent.engine.grammar.library import QUOTE, Library
from kogagent.engine.grammar.numbers import bounded_number
from kogagent.engine.grammar.objects import Objects
from kogagent.engine.grammar.schema import Schemas
from kogagent.engine.grammar.shapes import Goal, Shape, type_of
from kogagent.engine.grammar.utf8 import json_sequences

MAX_UNROLLED = 512
"""Largest maxLength that may be unrolled into states, where alternatives of different lengths meet."""


class Writer:
    """Writes the states of one schema's values into a builder. `value` gives None for an impossible goal."""

    def __init__(self, builder: Builder, lib: Library, schemas: Schemas, item: str, key: str) -> None:
        self.builder = builder
        self.lib = lib
        self.schemas = schemas
        self.bounds = schemas.bounds
        self.item_separator = item.encode()
        self.key_separator = key.encode()
        self._values: dict[tuple[Any, int], int | None] = {}
        self._arrays: dict[tuple[Any, ...], int | None] = {}
        self._objects = Objects(self)
        self._strings: dict[tuple[int, str], tuple[Dfa, int]] = {}

    # ── any value ──
    def value(self, goal: Goal, follow: int) -> int | None:
        """The state in front of a value of `goal`, after which `follow` stands."""
        key = (goal.key, follow)
        if key not in self._values:
            self._values[key] = self._value(goal, follow)
        return self._values[key]

    def _value(self, goal: Goal, follow: int) -> int | None:
        shapes = self.schemas.expand(goal)
        shapes = require_disjoint(self.schemas, shapes, goal.path)
        states: list[int] = []
        try:
            states += self._fixed(shapes, follow)
            states += self._numbers([s for s in shapes if s.values is None and "number" in s.types], follow)
            states += self._texts(shapes, follow)
            for kind, write in (("array", self._array), ("object", self._objects.write)):
                mine = distinct(s for s in shapes if s.values is None and kind in s.types)
                # One default bound for all alternatives: they share a frame until they can be told apart.
                common = max((self.default(s, kind) for s in mine), default=0) if len(mine) > 1 else 0
                made = [write(s, follow, common) for s in mine]
                states += [state for state in made if state is not None]
            return self.builder.union(states) if states else None
        except Conflict:
            raise self.schemas.error(
                "these alternatives start alike and differ in bounds or in kind, so that no automaton of "
                "bounded memory keeps them apart. Give them a distinguishing const property, or one bound",
                goal.path,
                "oneOf" if any(s.choices for s in shapes) else "anyOf",
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

    def _fixed(self, shapes: Sequence[Shape], follow: int) -> list[int]:
        """null, true, false, and enumerated values that are no strings or numbers beside free ones."""
        texts: dict[str, None] = {}
        for shape in shapes:
            if shape.values is None:
                if "null" in shape.types:
                    texts["null"] = None
                if "boolean" in shape.types:
                    texts.update({"true": None, "false": None})
                continue
            for value in shape.values:
                kind = type_of(value)
                if kind in ("string", "number") and self._mixed(shapes, kind):
                    continue
                if kind in ("array", "object") and any(
                    s.values is None and self.schemas.holds(s, value) for s in shapes
                ):
                    continue
                if kind != "number":
                    texts.update(dict.fromkeys(self.write(value)))
        states = [self.builder.trie((t.encode(), follow) for t in texts)] if texts else []
        numbers = {
            text: None
            for shape in shapes
            for value in shape.values or ()
            if type_of(value) == "number" and not self._mixed(shapes, "number")
            for text in self.write(value)
        }
        if numbers:
            states.append(self._number(literals(numbers), follow))
        return states

    def _mixed(self, shapes: Sequence[Shape], kind: str) -> bool:
        """Whether free values of a kind stand beside enumerated ones."""
        return any(s.values is None and kind in s.types for s in shapes)

    def write(self, value: Any) -> list[str]:
        """The texts of a fixed value: one, or two for an integer that may be written 1.0."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            if isinstance(value, float) and not value.is_integer():
                return [json.dumps(value)]
            # As it reads in the schema: 1e300 is a one with zeros, not the double nearest to it.
            text = str(int(Fraction(repr(value))))
            return [text, text + ".0"] if self.bounds.zero_fraction else [text]
        if isinstance(value, Mapping):
            heads = [json.dumps(n, ensure_ascii=False) + self.key_separator.decode() for n in value]
            parts, form = list(value.values()), "{%s}"
        elif isinstance(value, list | tuple):
            heads, parts, form = [""] * len(value), list(value), "[%s]"
        else:
            return [json.dumps(value, ensure_ascii=False)]
        texts = [self.write(part) for part in parts]
        if math.prod(map(len, texts)) > MAX_UNROLLED:
            texts = [choices[:1] for choices in texts]
        separator = self.item_separator.decode()
        return [
            form % separator.join(head + text for head, text in zip(heads, chosen, strict=True))
            for chosen in itertools.product(*texts)
        ]

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

    # ── strings ──
    def _texts(self, shapes: Sequence[Shape], follow: int) -> list[int]:
        free = [s for s in shapes if s.values is None and "string" in s.types]
        if not free:
            return []
        fixed = [v for s in shapes for v in s.values or () if isinstance(v, str)]
        plain = [(s.min_length, self._most(s)) for s in free if s.pattern is None]
        patterned: list[tuple[Dfa, int]] = []
        for shape in free:
            if shape.pattern is not None:
                made = self._patterned(shape)
                if made is not None:
                    patterned.append(made)
        fixed = [v for v in fixed if not any(self.schemas.holds(s, v) for s in free)]
        spans: list[tuple[int, int]] = []
        for low, high in sorted(plain):
            if spans and low <= spans[-1][1] + 1:
                spans[-1] = (spans[-1][0], max(spans[-1][1], high))
            else:
                spans.append((low, high))
        if len(spans) == 1:
            low, high = spans[0]
            patterned = [(dfa, most) for dfa, most in patterned if dfa.shortest[0] < low or most > high]
            if not patterned and not fixed:
                return [self._called(self.lib.text, follow, low, high)]
        if fixed:
            patterned.append((literals(fixed), max(map(len, fixed))))
        anything = Dfa((((0, 0xD7FF, 0), (0xE000, 0x10FFFF, 0)),), frozenset({0}))
        for low, high in spans:
            bounded = at_least(anything, low)
            assert bounded is not None
            patterned.append((bounded, high))
        if not patterned:
            return []
        dfa, most = patterned[0]
        if len(patterned) > 1:
            # One counter serves all: those of another maximum must be finite by themselves.
            most = max(m for _, m in patterned)
            parts = []
            for part, limit in patterned:
                if limit < most and (part.longest is None or part.longest > limit):
                    if limit > MAX_UNROLLED:
                        raise Conflict
                    cut = at_most(part, limit)
                    if cut is None:
                        continue
                    part = cut
                parts.append(part)
            dfa = union(parts)
        return [self._called(self._string(dfa), follow, 0, most)]

    def _most(self, shape: Shape) -> int:
        if shape.max_length is not None:
            return shape.max_length
        if shape.pattern is None or shape.pattern.longest is None:
            most = max(self.bounds.string, shape.min_length)
            self.schemas.note(shape.path, f"no maxLength; at most {most} code points")
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
                raise self.schemas.error(
                    f"minLength {shape.min_length} together with {shape.pattern_from} needs too many states",
                    shape.path,
                    "pattern",
                ) from None
        most = self._most(shape)
        if dfa is None or dfa.shortest[0] > most:
            if shape.types == {"string"} and not shape.choices:
                raise self.schemas.error(
                    f"no text matches {shape.pattern_from} with minLength {shape.min_length} "
                    f"and maxLength {most}",
                    shape.path,
                    "pattern",
                )
            return None
        return dfa, most

    def _string(self, dfa: Dfa) -> int:
        """The body of a string that matches, behind its opening quote."""
        known = self._strings.get((id(dfa), "text"))
        if known is None:
            rows = self.builder.rows

            def close(state: int) -> None:
                rows[state][QUOTE] = RETURN

            known = (dfa, self.builder.embed(dfa, close, spell=json_sequences, counted=True))
            self._strings[(id(dfa), "text")] = known
        return known[1]

    def _called(self, body: int, follow: int, low: int, high: int) -> int:
        return self.builder.state({QUOTE: self.builder.call(body, follow, low, high)})

    # ── arrays ──
    def _array(self, shape: Shape, follow: int, common: int) -> int | None:
        low, high = shape.min_items, shape.max_items
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
        separator = self.item_separator
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
                rows[after][separator[0]] = self.tail(separator, first) | COUNT
        if first is None and low > reach:
            return None
        for index in reversed(range(reach)):
            after = builder.state({close: RETURN})
            if first is not None:
                rows[after][separator[0]] = self.tail(separator, first) | COUNT
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

    def tail(self, separator: bytes, follow: int) -> int:
        """The state behind the first byte of a separator."""
        return self.builder.literal(separator[1:], follow)


def distinct(shapes: Iterable[Shape]) -> list[Shape]:
    """Shapes without those that say the same again."""
    out: list[Shape] = []
    for shape in shapes:
        if shape not in out:
            out.append(shape)
    return out
