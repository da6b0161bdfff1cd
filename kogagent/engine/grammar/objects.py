"""Objects to states: names in their order, unnamed ones behind them. Knows no keywords, no tokens.

The names that may follow a property form a trie. The tries of all positions share their states, since each
is the next one grown by one name: cost is linear in the text of the names. Unnamed properties leave that trie
where their name differs from every listed one. Where it matters which patterns a name matches, or how it may
be written, its frame holds the value too: only the name decides what that may be.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kogagent.engine.grammar.automaton import COUNT, RETURN, TARGET, UNBOUNDED
from kogagent.engine.grammar.dfa import Dfa, literals, product, relabelled
from kogagent.engine.grammar.regex import compile_pattern
from kogagent.engine.grammar.shapes import Goal, Shape
from kogagent.engine.grammar.utf8 import escaped_sequences
from kogagent.spec.calls import BARE_NAME

if TYPE_CHECKING:
    from kogagent.engine.grammar.values import Level, Symbols, Writer

MAX_COUNTED = 1024
"""Most pairs of a property and a number of properties before it, where those numbers are bounded."""

Named = list[tuple[str, Goal, bool]]
"""(name, goal, whether it is required), in the order they are written."""


class Objects:
    """Writes the objects of one schema, for its `Writer`. Equal bodies in own frames are made once."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.builder = writer.builder
        self._bodies: dict[tuple[Any, ...], int | None] = {}

    def write(self, shape: Shape, follow: int, common: int, level: Level) -> int | None:
        """The state in front of an object. common: the default bound of all alternatives, or 0."""
        schemas = self.writer.schemas
        listed = tuple(dict.fromkeys((*shape.properties, *shape.required)))
        form = self.writer.style(level).objects
        others = _Others(self.writer, shape, listed, form.quoted)
        named = [(n, g, n in shape.required) for n, g in shape.properties.items()]
        for name in shape.required:
            if name not in shape.properties:
                goal = others.goal(name)
                if goal is None:
                    schemas.vanish(f"{name!r} is no property and no others may stand", shape.path, "required")
                    return None
                named.append((name, goal, True))
        goals = {name: (goal, required) for name, goal, required in named if required or schemas.expand(goal)}
        named = [(name, *goals[name]) for name in form.order(goals)]
        limited = self._limited(shape, named, others.possible)
        if limited is None:
            return None
        named, opened = limited
        low, high = shape.min_properties, shape.max_properties
        if high is None and opened:
            high = common or self.writer.default(shape, "object")
            schemas.note(shape.path, f"at most {high - len(named)} unnamed properties")
        if high is None:
            high = common
        numbered = not opened and _by_number(named, low, shape.max_properties)
        counted = high > 0 and not numbered and (opened or high < len(named) or common > 0)
        body = _Body(self, named, others if opened else None, counted, level)
        if numbered:
            most = len(named) if shape.max_properties is None else min(shape.max_properties, len(named))
            if len(named) * most > MAX_COUNTED:
                raise schemas.error(
                    f"{low} to {most} of {len(named)} properties need too many states",
                    shape.path,
                    "minProperties" if low else "maxProperties",
                )
            bounds: tuple[int, int] | None = (low, most)
        else:
            bounds = None
        more = opened and low > sum(required for _, _, required in named)
        start = self.writer.symbols(form.open)
        if not (counted or numbered or shape.shared):
            entry = body.state(low > 0, None, follow, more=more)
            return None if entry is None else self.builder.literal(start, entry)
        key = (
            level,
            tuple((n, g.key, r) for n, g, r in named),
            listed if opened else (),
            others.key if opened else None,
            low > 0,
            more,
            counted,
            bounds,
        )
        if key not in self._bodies:
            self._bodies[key] = body.state(low > 0, bounds, RETURN, more=more)
        inner = self._bodies[key]
        if inner is None:
            return None
        most = max(high - 1, 0) if counted else UNBOUNDED
        least = max(low - 1, 0) if opened else 0
        call = self.builder.call(inner, follow, least, most)
        return self.builder.literal(start[:-1], self.builder.state({start[-1]: call}))

    def _limited(self, shape: Shape, named: Named, opened: bool) -> tuple[Named, bool] | None:
        """The properties under minProperties and maxProperties, as far as those say which can stand; None
        where nothing fits."""
        needed = sum(required for _, _, required in named)
        low, high = shape.min_properties, shape.max_properties
        vanish = self.writer.schemas.vanish
        if high is not None and high < needed:
            vanish(f"{needed} properties are required", shape.path, "maxProperties")
            return None
        if high is not None and high == needed:
            named, opened = [n for n in named if n[2]], False
        elif opened and high is not None and high < len(named) and needed:
            raise self.writer.schemas.error(
                f"between the {needed} required and all {len(named)} properties, others allowed; refused",
                shape.path,
                "maxProperties",
            )
        if not opened and low > len(named):
            vanish(f"only {len(named)} properties can stand", shape.path, "minProperties")
            return None
        if not opened and low == len(named):
            named = [(n, g, True) for n, g, _ in named]
        if opened and low > needed + 1:
            raise self.writer.schemas.error(
                f"{low} properties of which {needed} are named as required: nothing keeps track of whether "
                "unnamed ones are all different; refused",
                shape.path,
                "minProperties",
            )
        return named, opened


def _by_number(named: Named, low: int, high: int | None) -> bool:
    """Whether how many properties stand must be known at each of them."""
    needed = sum(required for _, _, required in named)
    return low > max(needed, 1) or (high is not None and needed < high < len(named) and needed > 0)


class _Others:
    """The properties a shape does not list: by which patterns a name matches, what its value may be.

    listed: the names that are. quoted: whether a name may be any text.
    """

    def __init__(self, writer: Writer, shape: Shape, listed: Sequence[str], quoted: bool) -> None:
        self._schemas = writer.schemas
        self._shape = shape
        self._quoted = quoted
        self._open = writer.bounds.open_objects or not shape.listed
        self.listed = listed
        self.names = shape.names
        self.dfas = tuple(dfa for layer in shape.layers for dfa, _ in layer.patterns)
        self.telling = bool(self.dfas) or self.names is not None
        self.goals: dict[Hashable, Goal] = {}
        """By key, what the values of the names in `written` may be."""
        self.key = (
            self._schemas.anything(shape).key if self._open else None,
            None if shape.additional is None else shape.additional.key,
            id(shape.names),
            tuple(
                (tuple((id(d), g.key) for d, g in layer.patterns), layer.additional and layer.additional.key)
                for layer in shape.layers
            ),
        )

    @property
    def possible(self) -> bool:
        """Whether there is any name beside those listed that may stand."""
        return (self.written if self.telling else self.of(())) is not None

    @cached_property
    def written(self) -> Dfa | None:
        """All names beside those listed that may stand and be written, each labelled with the key of its
        goal."""
        kept = [] if self.names is None else [self.names]
        if not self._quoted:
            bare = compile_pattern(BARE_NAME.pattern, whole=True)
            assert bare is not None
            kept.append(bare)
        barred = [literals(self.listed)] if self.listed else []
        patterns = len(self.dfas)

        def told(found: tuple[bool, ...]) -> Hashable:
            hits, rest = found[:patterns], found[patterns:]
            if not all(rest[: len(kept)]) or any(rest[len(kept) :]):
                return False
            goal = self.of(hits)
            if goal is None:
                return False
            self.goals[goal.key] = goal
            return goal.key

        return product([*self.dfas, *kept, *barred], told)

    def of(self, hits: tuple[bool, ...]) -> Goal | None:
        """The goal of a name that matches just these patterns; None where it cannot stand."""
        goal, said = self._shape.other(hits)
        if not said and not self._open:
            return None
        goal = goal or self._schemas.anything(self._shape)
        return goal if self._schemas.expand(goal) else None

    def goal(self, name: str) -> Goal | None:
        """The goal of one name."""
        if self.names is not None and not self.names.matches(name):
            return None
        return self.of(tuple(dfa.matches(name) for dfa in self.dfas))


class _Body:
    """The members of one object, written behind what opens it."""

    def __init__(
        self,
        objects: Objects,
        named: Named,
        others: _Others | None,
        counted: bool,
        level: Level,
    ) -> None:
        self.writer, self.builder = objects.writer, objects.builder
        self.named, self.others = named, others
        self.flag = COUNT if counted else 0
        self.level = level
        self.inside = type(level)(max(level - 1, 0))
        self.style = self.writer.style(level)
        form = self.style.objects

        symbols = self.writer.symbols
        self.first, self.next = symbols(form.name_open), symbols(form.separator + form.name_open)
        self.colon, self.close = symbols(form.name_close), symbols(form.close)
        self.texts = [self.writer.member_name(name, level, goal.path) + self.colon for name, goal, _ in named]

    def state(self, nonempty: bool, bounds: tuple[int, int] | None, follow: int, *, more: bool) -> int | None:
        """The state in front of the members; None where what is required cannot be written.

        bounds: least and most members, where their number must be known at each of them. more: at least one
        is needed beside the required ones, which an unnamed one can always be.
        """
        if bounds is not None:
            return self._numbered(*bounds, follow)
        builder = self.builder
        names = self._unnamed(self.others, follow) if self.others is not None else None
        if more and names is None:
            return None
        closes = True
        for (name, goal, required), text in zip(reversed(self.named), reversed(self.texts), strict=True):
            after = self._after(names, follow if closes else None)
            value = None if after is None else self.writer.value(goal, after, self.inside)
            if value is None:
                if required:
                    self._missing(name, goal)
                    return None
                continue
            names = builder.grown(None if required else names, text, value)
            closes = closes and not required
        return self._begin(names, follow if closes and not nonempty else None)

    def _numbered(self, low: int, high: int, follow: int) -> int | None:
        """The same where the number of members is bounded: the states are places and numbers so far."""
        left = [0] * (len(self.named) + 1)  # required ones from each place on
        for i in reversed(range(len(self.named))):
            left[i] = left[i + 1] + self.named[i][2]
        tries: dict[int, int | None] = {}  # number so far -> names that may follow
        for i in reversed(range(len(self.named))):
            name, goal, required = self.named[i]
            grown: dict[int, int | None] = {}
            for count in range(min(i, high) + 1):
                rest = None if required else tries.get(count)
                grown[count] = rest
                if count + 1 + left[i + 1] > high or count + len(self.named) - i < low:
                    continue
                closes = count + 1 >= low and not left[i + 1]
                after = self._after(tries.get(count + 1), follow if closes else None)
                value = None if after is None else self.writer.value(goal, after, self.inside)
                if value is not None:
                    grown[count] = self.builder.grown(rest, self.texts[i], value)
                elif required:
                    self._missing(name, goal)
            tries = grown
        return self._begin(tries.get(0), follow if low == 0 and not left[0] else None)

    def _missing(self, name: str, goal: Goal) -> None:
        if not self.writer.schemas.cut:
            self.writer.schemas.missing(f"nothing can satisfy required {name!r}", goal.path, "required")

    def _after(self, names: int | None, follow: int | None) -> int | None:
        """The state behind a member: another one follows, or the object closes; None for neither."""
        builder = self.builder
        if names is None:
            return None if follow is None else builder.literal(self.close, follow)
        if follow is None:
            return builder.state({self.next[0]: builder.literal(self.next[1:], names) | self.flag})
        return builder.branch(self.close, follow, self.next, names, self.flag)

    def _begin(self, names: int | None, follow: int | None) -> int | None:
        """The state in front of the first member, or of the end of an empty object."""
        builder = self.builder
        if names is None:
            return None if follow is None else builder.literal(self.close, follow)
        if follow is None:
            return builder.literal(self.first, names)
        return builder.branch(self.close, follow, self.first, names)

    # ── names that are not listed ──

    def _unnamed(self, others: _Others, follow: int) -> int | None:
        """The state in front of a name that is none of those listed, or the move to it; None where there is
        no such name."""
        builder, form = self.builder, self.style.objects
        start = builder.state()
        after = builder.branch(self.close, follow, self.next, start, self.flag)
        taken = [self.writer.member_name(name, self.level, "") + self.colon[:1] for name in others.listed]
        if form.quoted and self.style.escapes == "json" and not others.telling:
            goal, body = others.of(()), self.writer.lib.key
            value = None if goal is None else self.writer.value(goal, after, self.inside)
            if value is None:
                return None
            colon, longest = builder.literal(self.colon[1:], value), self.writer.bounds.key
            if not taken:
                # The whole name is one call, made by what stands before it: nothing leads to `start`.
                call, state = builder.call(body, colon, 0, longest), after
                for symbol in self.next[:-1]:
                    state = builder.rows[state][symbol] & TARGET
                builder.rows[state][self.next[-1]] += call - start
                return call
            self._fill(
                start, body, taken, lambda to: builder.call(to, colon, 0, longest), {self.colon[0]: colon}
            )
            return start
        dfa = self._labelled(others)
        if dfa is None:
            return None

        def told(number: int, state: int) -> None:
            value = dfa.labels[state]
            assert isinstance(value, int)
            builder.rows[number][self.colon[0]] = builder.literal(self.colon[1:], value)

        escapes = self.style.escapes if form.quoted else "none"
        body = builder.embed(
            dfa, told, spell=lambda first, last: escaped_sequences(first, last, escapes), counted=True
        )
        longest = max(self.writer.bounds.key, *dfa.shortest)
        self._fill(start, body, taken, lambda to: builder.call(to, after, 0, longest), {})
        return start

    def _labelled(self, others: _Others) -> Dfa | None:
        """All names that may stand, each labelled with the state in front of its value, after which the frame
        of name and value is left."""
        done = self.builder.state()
        self.builder.final.add(done)
        values: dict[Hashable, int | None] = {}

        def value(key: Hashable) -> int | bool:
            if key not in values:
                values[key] = self.writer.value(others.goals[key], done, self.inside)
            state = values[key]
            return False if state is None else state

        return None if others.written is None else relabelled(others.written, value)

    def _fill(
        self,
        state: int,
        body: int,
        taken: Sequence[Symbols],
        enter: Callable[[int], int],
        ends: Mapping[int, int],
    ) -> None:
        """Rows of a trie over the taken names, from which every other name goes over to `body`'s states.

        enter: the move into one of those states. ends: moves of symbols that end a name here.
        """
        rows = self.builder.rows
        heads = {text[0] for text in taken}
        for symbol, move in rows[body].items():
            if symbol not in heads:
                rows[state][symbol] = ends[symbol] if symbol in ends else enter(move & TARGET)
        for head in heads - {self.colon[0]}:
            if head in rows[body]:
                inner = rows[state][head] = self.builder.state()
                self._fill(
                    inner, rows[body][head] & TARGET, [t[1:] for t in taken if t[0] == head], enter, ends
                )
