"""Arrays to states: items, their number, which of them fit what. Knows no keywords, no tokens.

An array is a call whose frame counts separators, one less than items. Where some items must fit `contains`,
or all be different, the states are what has been written so far, as far as it matters.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kogagent.engine.grammar.automaton import COUNT, RETURN, UNBOUNDED
from kogagent.engine.grammar.fits import enumerated, fits
from kogagent.engine.grammar.shapes import Goal, Shape

if TYPE_CHECKING:
    from kogagent.engine.grammar.values import Symbols, Writer

MAX_UNIQUE = 8
"""Most values of an array of unique items: its states are the sets of those already written."""

MAX_COUNTED = 1024
"""Most pairs of a number of items and numbers of those that fit `contains`."""


class Arrays:
    """Writes the arrays of one schema, for its `Writer`. Equal bodies are made once."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.builder = writer.builder
        self._bodies: dict[tuple[Any, ...], int | None] = {}

    def write(self, shape: Shape, follow: int, common: int) -> int | None:
        """The state in front of an array. common: the default bound of all alternatives, or 0."""
        low, high = shape.min_items, shape.max_items
        if shape.unique and (high is None or high > 1):
            return self._unique(shape, follow)
        schemas = self.writer.schemas
        if high is None:
            high = common or self.writer.default(shape, "array")
            if shape.items is None or schemas.expand(shape.items):
                schemas.note(shape.path, f"no maxItems; at most {high} items")
        rest = shape.items or schemas.anything(shape)
        if shape.contains:
            return self._containing(shape, rest, low, high, follow)
        return self._called(self.looped(shape.prefix, rest, low, high), follow, low, high)

    def _called(self, entry: int | None, follow: int, low: int, high: int) -> int | None:
        """The state in front of an array whose body begins at `entry`."""
        if entry is None:
            return None
        call = self.builder.call(entry, follow, max(low - 1, 0), max(high - 1, 0))
        return self.builder.state({ord("["): call})

    def looped(self, prefix: Sequence[Goal], rest: Goal, low: int, high: int) -> int | None:
        """`_items`, made once."""
        key = (tuple(g.key for g in prefix), rest.key, low == 0, min(high, len(prefix) + 1), low)
        if key not in self._bodies:
            self._bodies[key] = self._items(prefix, rest, low, high)
        return self._bodies[key]

    def _items(self, prefix: Sequence[Goal], rest: Goal, low: int, high: int) -> int | None:
        """The state behind "["; None when fewer items than `low` can be written."""
        close, builder, rows = ord("]"), self.builder, self.builder.rows
        after: int | None = None
        first: int | None = None
        reach = 0  # items that can be written one after another, as far as goals differ
        for index in range(min(len(prefix), high)):
            if not self.writer.schemas.expand(prefix[index]):
                break
            reach = index + 1
        loops = reach == min(len(prefix), high) and high > len(prefix)
        if loops:
            after = builder.state({close: RETURN})
            first = self.writer.value(rest, after)
            if first is not None:
                rows[after][self.writer.separator[0]] = self._next(first)
        if first is None and low > reach:
            return None
        for index in reversed(range(reach)):
            after = builder.state({close: RETURN})
            if first is not None:
                rows[after][self.writer.separator[0]] = self._next(first)
            made = self.writer.value(prefix[index], after)
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
        return self.builder.literal(self.writer.separator[1:], first) | COUNT

    # ── contains ──
    def _containing(self, shape: Shape, rest: Goal, low: int, high: int, follow: int) -> int | None:
        """An array of which some items fit and others do not: its states are how many of both there are."""
        size = min(high, MAX_COUNTED) + 1
        for want in shape.contains:
            size *= (want.low if want.high is None else want.high) + 1
        if size > MAX_COUNTED:
            raise self.writer.schemas.error(
                f"{high} items of which some must fit need too many states; use a smaller maxItems, "
                "minContains or maxContains",
                shape.path,
                "contains",
            )
        wants = tuple((w.goal.key, w.other.key, w.low, w.high) for w in shape.contains)
        key = ("contains", tuple(g.key for g in shape.prefix), rest.key, low, high, wants)
        if key not in self._bodies:
            self._bodies[key] = _Counted(self, shape, rest, low, high).body()
        entry = self._bodies[key]
        return None if entry is None else self._called(entry, follow, 0, UNBOUNDED)

    # ── all different ──
    def _unique(self, shape: Shape, follow: int) -> int | None:
        """An array whose items are enumerated and all different: its states are the sets of those written."""
        goal, schemas = shape.items, self.writer.schemas
        values = None if shape.prefix or goal is None else enumerated(schemas.expand, goal)
        if values is None or len(values) > MAX_UNIQUE:
            raise schemas.error(
                f"needs memory of earlier items; only items of at most {MAX_UNIQUE} enumerated values, or "
                "maxItems 1, can keep it",
                shape.path,
                "uniqueItems",
            )
        low = shape.min_items
        high = len(values) if shape.max_items is None else min(shape.max_items, len(values))
        wants = tuple((w.goal.key, w.low, w.high) for w in shape.contains)
        key = ("unique", goal.key if goal is not None else None, low, high, wants)
        if key not in self._bodies:
            self._bodies[key] = self._sets(shape, values, low, high)
        entry = self._bodies[key]
        return None if entry is None else self._called(entry, follow, 0, UNBOUNDED)

    def _sets(self, shape: Shape, values: Sequence[Any], low: int, high: int) -> int | None:
        """The state behind "[", of the empty set; None where no set closes the array."""
        builder, separator = self.builder, self.writer.separator
        texts = [self.writer.write(value, shape.path) for value in values]
        fitting = [
            (want, [fits(self.writer.schemas.expand, want.goal, value) for value in values])
            for want in shape.contains
        ]
        sets: dict[int, int] = {}
        for taken in sorted(range(1 << len(values)), key=int.bit_count, reverse=True):
            if taken.bit_count() > high:
                continue
            row: dict[int, int] = {}
            counts = [sum(hit for i, hit in enumerate(hits) if taken >> i & 1) for _, hits in fitting]
            allowed = all(want.allows(n) for (want, _), n in zip(fitting, counts, strict=True))
            if allowed and taken.bit_count() >= low:
                row[ord("]")] = RETURN
            more = [
                (text, sets[taken | 1 << i])
                for i, spellings in enumerate(texts)
                if not taken >> i & 1 and taken | 1 << i in sets
                for text in spellings
            ]
            if not row and not more:
                continue
            state = sets[taken] = builder.state(row)
            if more and taken:
                row[separator[0]] = builder.literal(separator[1:], self._one_of(more))
            elif more:
                builder.absorb(state, self._one_of(more))
        return sets.get(0)

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


class _Counted:
    """The body of one array under `contains`. counts: of the items so far, how many fit each want; no further
    than it matters."""

    def __init__(self, arrays: Arrays, shape: Shape, rest: Goal, low: int, high: int) -> None:
        self.arrays, self.writer, self.builder = arrays, arrays.writer, arrays.builder
        self.shape, self.wants, self.rest, self.low, self.high = shape, shape.contains, rest, low, high
        self._behind: dict[tuple[int, tuple[int, ...]], int | None] = {}

    def body(self) -> int | None:
        """The state behind "["; None where nothing closes the array."""
        none = (0,) * len(self.wants)
        builder = self.builder
        most = [want.low if want.high is None else want.high for want in self.wants]
        for items in range(self.high, 0, -1):  # from the end, where nothing is left to write
            for counts in itertools.product(*(range(min(n, items) + 1) for n in most)):
                self._behind[items, counts] = self._after(items, counts)
        first = self._item(0, none) if self.high else None
        entry = builder.state({})
        if first is not None:
            builder.absorb(entry, first)
        if self._closes(0, none):
            builder.rows[entry][ord("]")] = RETURN
        return entry if builder.rows[entry] else None

    def _closes(self, items: int, counts: tuple[int, ...]) -> bool:
        return items >= self.low and all(w.allows(n) for w, n in zip(self.wants, counts, strict=True))

    def _open(self, counts: tuple[int, ...]) -> list[int]:
        """The wants for which it still matters whether an item fits."""
        return [
            i
            for i, (want, n) in enumerate(zip(self.wants, counts, strict=True))
            if n < want.low or want.high is not None
        ]

    def _after(self, items: int, counts: tuple[int, ...]) -> int | None:
        """The state behind an item, `items` of them in all; None where the array cannot end any more."""
        builder, separator = self.builder, self.writer.separator
        row: dict[int, int] = {}
        if self._closes(items, counts):
            row[ord("]")] = RETURN
        if items < self.high:
            if not self._open(counts) and items >= len(self.shape.prefix):
                # What is left is an array without conditions; its frame counts what is left.
                left, needed = self.high - items, max(self.low - items, 0)
                more = self.arrays.looped((), self.rest, 1, left)
                if more is not None:
                    call = builder.call(more, RETURN, max(needed - 1, 0), left - 1)
                    for symbol in reversed(separator[1:]):
                        call = builder.state({symbol: call})
                    row[separator[0]] = call
            elif (item := self._item(items, counts)) is not None:
                row[separator[0]] = builder.literal(separator[1:], item)
        return builder.state(row) if row else None

    def _item(self, items: int, counts: tuple[int, ...]) -> int | None:
        """The state in front of the item behind `items` others."""
        goal = self.shape.prefix[items] if items < len(self.shape.prefix) else self.rest
        open_ = self._open(counts)
        parts: list[tuple[Goal, int]] = []
        for hits in itertools.product((True, False), repeat=len(open_)):
            mine, after = goal, list(counts)
            for i, hit in zip(open_, hits, strict=True):
                want = self.wants[i]
                mine = mine.also(want.goal if hit else want.other)
                after[i] += hit
                if want.high is not None and after[i] > want.high:
                    break
            else:
                if self.writer.schemas.expand(mine):
                    behind = self._behind[items + 1, tuple(after)]
                    if behind is not None:
                        parts.append((mine, behind))
        return self.writer.told(parts, self.shape.path) if parts else None
