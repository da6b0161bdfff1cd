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

from kogagent.engine.grammar.arrays import Arrays
from kogagent.engine.grammar.automaton import TARGET
from kogagent.engine.grammar.builder import Builder, Conflict
from kogagent.engine.grammar.dfa import Dfa, TooManyStates, literals, product, union
from kogagent.engine.grammar.disjoint import require_disjoint
from kogagent.engine.grammar.fits import holds
from kogagent.engine.grammar.library import Library
from kogagent.engine.grammar.numbers import bounded_number
from kogagent.engine.grammar.objects import Objects
from kogagent.engine.grammar.schema import Schemas
from kogagent.engine.grammar.shapes import Goal, Shape, kinds_of, type_of
from kogagent.engine.grammar.strings import MAX_UNROLLED, Strings
from kogagent.errors import SchemaError
from kogagent.spec import CallFormat, ValueStyle
from kogagent.spec.calls import BARE_NAME
from kogagent.spec.scan import spell
from kogagent.spec.values import escaped, number_text

Symbols = tuple[int, ...]


SOME_ITEMS = 16
"""Most items of an array under `contains` without maxItems, where no smaller bound is given."""


class Level(IntEnum):
    """Where a value stands: it is a call's arguments, the value of one of them, or inside such a value."""

    INNER = 0
    MEMBER = 1
    ARGUMENTS = 2


class Writer:
    """Writes the states of one schema's values into a builder. `value` gives None for an impossible goal.

    form: gives the styles. names: the special ids a style's texts may name. symbols: texts spelled before
    with them, shared by the writers of one grammar.
    """

    def __init__(
        self,
        builder: Builder,
        lib: Library,
        schemas: Schemas,
        form: CallFormat,
        names: Mapping[str, int],
        symbols: dict[str, Symbols],
    ) -> None:
        self.builder = builder
        self.lib = lib
        self.schemas = schemas
        self.bounds = schemas.bounds
        self.form = form
        self.names = names
        self._symbols = symbols
        self.separator = self.symbols(form.values.item_separator)
        self._values: dict[tuple[Any, int, Level], int | None] = {}
        self._arrays = Arrays(self)
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
        shapes = require_disjoint(self.schemas, goal, goal.path)
        try:
            if level == Level.MEMBER and self.style(level).bare and self._strings.possible(shapes):
                return self._strings.bare(shapes, follow)
            states = self._rest(shapes, follow, level)
            behind = self._behind(follow, level)
            if (dfa := self._numbers(shapes)) is not None:
                states.append(self._number(dfa, behind))
            states += self._texts(shapes, behind, level)
            return self.builder.union(states) if states else None
        except Conflict:
            raise self.schemas.error(
                "these alternatives start alike and differ in bounds or in kind, so that no automaton of "
                "bounded memory keeps them apart. Give them a distinguishing const property, or one bound",
                goal.path,
                next((s.split for s in shapes if s.split), "anyOf"),
            ) from None
        except TooManyStates:
            raise self._too_large(goal.path, shapes) from None

    def told(self, parts: Sequence[tuple[Goal, int]], path: str) -> int | None:
        """The state in front of an item of one of several goals that exclude each other, each with what
        follows it. Raises SchemaError where its text does not tell which it is."""
        if len(parts) == 1:
            return self.value(*parts[0])
        groups = [(require_disjoint(self.schemas, goal, path), to) for goal, to in parts]
        try:
            states = [state for shapes, to in groups for state in self._rest(shapes, to, Level.INNER)]
            numbers = [(dfa, to) for shapes, to in groups if (dfa := self._numbers(shapes)) is not None]
            if len(numbers) == 1:
                states.append(self._number(*numbers[0]))
            elif numbers:
                states.append(self._told_numbers(numbers))
            texts = [(shapes, to) for shapes, to in groups if self._strings.possible(shapes)]
            if len(texts) == 1:
                states += self._texts(*texts[0], Level.INNER)
            elif texts:
                states += self._strings.told(texts)
            return self.builder.union(states) if states else None
        except Conflict:
            raise self.schemas.error(
                "an item that fits and one that does not may start alike, so that no automaton of bounded "
                "memory tells which it was. Let a type, a const or the beginning of a text tell them apart",
                path,
                "contains",
            ) from None
        except TooManyStates:
            raise self._too_large(path, [shape for shapes, _ in groups for shape in shapes]) from None

    def _too_large(self, path: str, shapes: Sequence[Shape]) -> SchemaError:
        return self.schemas.error(
            "its automaton would have too many states; use smaller numbers or a simpler pattern",
            path,
            "multipleOf" if any(s.numbers.multiple for s in shapes) else "pattern",
        )

    def _behind(self, follow: int, level: Level) -> int:
        """What stands behind a value that is no bare string, for that is closed by what closes its member."""
        if level != Level.MEMBER:
            return follow
        return self.builder.literal(self.symbols(self.style(level).objects.value_close), follow)

    def _texts(self, shapes: Sequence[Shape], follow: int, level: Level) -> list[int]:
        """The states in front of strings that are not bare."""
        if any(s.values is None and "string" in s.types for s in shapes):
            return self._strings.write(shapes, follow, level)
        return self._trie(shapes, ("string",), follow, level)

    def _rest(self, shapes: Sequence[Shape], follow: int, level: Level) -> list[int]:
        """The states in front of whatever is no string and no number."""
        behind = self._behind(follow, level)
        states = self._trie(shapes, ("null", "boolean", "array", "object"), behind, level)
        arrays = distinct(s for s in shapes if s.values is None and "array" in s.types)
        # One default bound for all alternatives: they share a frame until they can be told apart.
        common = max((self.default(s, "array") for s in arrays), default=0) if len(arrays) > 1 else 0
        made = [self._arrays.write(s, behind, common) for s in arrays]
        objects = distinct(s for s in shapes if s.values is None and "object" in s.types)
        common = max((self.default(s, "object") for s in objects), default=0) if len(objects) > 1 else 0
        where = Level.ARGUMENTS if level == Level.ARGUMENTS else Level.INNER
        made += [self._objects.write(s, behind, common, where) for s in objects]
        return states + [state for state in made if state is not None]

    def default(self, shape: Shape, kind: str) -> int:
        """The bound on items or properties where a schema gives none."""
        if kind == "array":
            most = self.bounds.items
            if shape.contains:  # each of these items has states of its own
                most = max(min(most, SOME_ITEMS), *(want.low for want in shape.contains))
            return max(most, shape.min_items, len(shape.prefix))
        named = len({*shape.properties, *shape.required})
        return max(shape.min_properties, named + self.bounds.properties)

    def _trie(self, shapes: Sequence[Shape], kinds: Sequence[str], follow: int, level: Level) -> list[int]:
        """null, true and false, and the enumerated values of some types."""
        style = self.style(level)
        texts: dict[Symbols, None] = {}
        for shape in shapes:
            if shape.values is None:
                words = {style.null} if "null" in shape.types.intersection(kinds) else set()
                words |= {style.true, style.false} if "boolean" in shape.types.intersection(kinds) else set()
                texts.update(dict.fromkeys(tuple(word.encode()) for word in sorted(words)))
                continue
            for value in shape.values:
                kind = type_of(value)
                if kind in kinds and not (
                    kind in ("array", "object")
                    and any(s.values is None and holds(self.schemas.expand, s, value) for s in shapes)
                ):
                    texts.update(dict.fromkeys(self.write(value, shape.path, level)))
        return [self.builder.trie((text, follow) for text in texts)] if texts else []

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
    def _numbers(self, shapes: Sequence[Shape]) -> Dfa | None:
        """The texts of all numbers of some shapes, None where there are none."""
        automata: list[Dfa] = []
        fixed: dict[str, None] = {}
        for shape in shapes:
            if shape.values is not None:
                numbers = (value for value in shape.values if type_of(value) == "number")
                texts = (text for value in numbers for text in self.write(value, shape.path))
                fixed.update(dict.fromkeys(bytes(text).decode() for text in texts))
            elif "number" in shape.types:
                zero = self.bounds.zero_fraction if shape.numbers.integer else False
                dfa = bounded_number(shape.numbers, zero, self.bounds.digits)
                if dfa is None:
                    word = "multipleOf" if shape.numbers.multiple else "minimum"
                    self.schemas.vanish("the bounds exclude every number", shape.path, word)
                elif dfa not in automata:
                    automata.append(dfa)
        if fixed:
            automata.append(literals(fixed))
        return union(automata) if len(automata) > 1 else automata[0] if automata else None

    def _number(self, dfa: Dfa, follow: int) -> int:
        row = {
            symbol: self.builder.call(entry & TARGET, follow)
            for symbol, entry in self.builder.rule(dfa).items()
        }
        return self.builder.state(row)

    def _told_numbers(self, numbers: Sequence[tuple[Dfa, int]]) -> int:
        """The state in front of a number of one of several kinds, in line: its whole text tells them."""

        def which(found: tuple[bool, ...]) -> int | bool:
            if sum(found) > 1:
                raise Conflict
            return found.index(True) + 1 if any(found) else False

        joint = product([dfa for dfa, _ in numbers], which)
        assert joint is not None

        def ended(number: int, state: int) -> None:
            label = joint.labels[state]
            assert isinstance(label, int)
            self.builder.absorb(number, numbers[label - 1][1])

        return self.builder.embed(joint, ended)


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
