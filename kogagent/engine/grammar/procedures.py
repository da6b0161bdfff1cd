"""Free grammars to states: rules written out, recursion as calls unrolled to a depth. Knows no tokens.

A rule is written out where it is used. Used inside itself it is a call, except at its own end, where it is
a loop. So a text nests as deep as it has calls open, and a list by right recursion does not nest at all.
What is in line is made deterministic together; a call is told from what stands beside it by one byte. Where
that is not possible the grammar is refused: it is ambiguous, or needs to look further ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kogagent.engine.grammar.automaton import END, FINISHED, RETURN
from kogagent.engine.grammar.builder import Builder
from kogagent.engine.grammar.dfa import Dfa, split
from kogagent.engine.grammar.ebnf import (
    Alternatives,
    Literal,
    Node,
    Pattern,
    Reference,
    Repeat,
    Rules,
    Sequence,
)
from kogagent.engine.grammar.utf8 import sequences
from kogagent.errors import InputError

MAX_NFA_STATES = 50_000
MAX_RULE_STATES = 16_384
"""Of one rule made deterministic: as many as a device's table holds."""
MAX_LOOKED_AT = 500_000
"""Places of all rules that are put together to make them deterministic: well under a second of compiling."""

Move = tuple[str, int]
"""("", next state), or (rule to call, state to come back to)."""


@dataclass
class _Nfa:
    """Of one rule, over bytes. calls[s]: (rule, state behind it, line of the reference)."""

    empty: list[list[int]] = field(default_factory=list)
    bytes: list[list[tuple[int, int, int]]] = field(default_factory=list)
    calls: list[list[tuple[str, int, int]]] = field(default_factory=list)
    _known: dict[int, frozenset[int]] = field(default_factory=dict)

    def state(self) -> int:
        self.empty.append([])
        self.bytes.append([])
        self.calls.append([])
        return len(self.empty) - 1

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """What is reached without a byte, of the states that read one, call, or have nothing behind them. For
        a finished automaton."""
        return frozenset().union(*[self._reached(state) for state in states])

    def _reached(self, state: int) -> frozenset[int]:
        known = self._known.get(state)
        if known is None:
            seen, queue = {state}, [state]
            while queue:
                for target in self.empty[queue.pop()]:
                    if target not in seen:
                        seen.add(target)
                        queue.append(target)
            known = self._known[state] = frozenset(
                s for s in seen if self.bytes[s] or self.calls[s] or not self.empty[s]
            )
        return known


@dataclass(frozen=True)
class _Procedure:
    """A rule made deterministic: rows[s] byte -> move; accept the states where it may end; state 0 starts."""

    rows: tuple[dict[int, Move], ...]
    accept: frozenset[int]

    @cached_property
    def calls(self) -> bool:
        """Whether it calls any rule."""
        return any(callee for row in self.rows for callee, _ in row.values())


class Procedures:
    """All rules that are called, and the one to start from. Raises InputError naming rule and line."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._size = self._looked_at = 0
        self._nfas: dict[str, tuple[_Nfa, int, int]] = {}
        self.endless = False
        """Whether a text may go on for ever without nesting."""
        queue = [rules.start]
        for name in queue:
            self._root = name
            nfa = _Nfa()
            start = nfa.state()
            end = self._write(nfa, rules.rules[name].body, start, frozenset({name}), {name: start})
            self._nfas[name] = (nfa, start, end)
            queue += dict.fromkeys(
                callee for calls in nfa.calls for callee, _, _ in calls if callee not in queue
            )
        self._begins = {
            name: {
                byte
                for state in nfa.closure([start])
                for low, high, _ in nfa.bytes[state]
                for byte in range(low, high + 1)
            }
            for name, (nfa, start, _) in self._nfas.items()
        }
        self.procedures: Mapping[str, _Procedure] = {name: self._determined(name) for name in self._nfas}
        self._require_ends()

    @property
    def nests(self) -> bool:
        return any(calls for nfa, _, _ in self._nfas.values() for calls in nfa.calls)

    # ── rules to nondeterministic states ──

    def _write(
        self, nfa: _Nfa, node: Node, begin: int, inside: frozenset[str], loops: Mapping[str, int]
    ) -> int:
        """The state behind `node`. inside: the rules being written out; loops: those of them that end where
        `node` ends, and their first state."""
        self._size += 1
        if self._size > MAX_NFA_STATES:
            raise self.rules.error(
                self._root, f"written out it needs more than {MAX_NFA_STATES} places; use fewer repetitions"
            )
        match node:
            case Literal(text):
                for byte in text.encode():
                    after = nfa.state()
                    nfa.bytes[begin].append((byte, byte, after))
                    begin = after
                self._size += len(text)
                return begin
            case Pattern(dfa):
                return self._pattern(nfa, dfa, begin)
            case Sequence(parts):
                for i, part in enumerate(parts):
                    begin = self._write(nfa, part, begin, inside, loops if i == len(parts) - 1 else {})
                return begin
            case Alternatives(parts):
                end = nfa.state()
                for part in parts:
                    first = nfa.state()
                    nfa.empty[begin].append(first)
                    nfa.empty[self._write(nfa, part, first, inside, loops)].append(end)
                return end
            case Repeat():
                return self._repeat(nfa, node, begin, inside, loops)
            case Reference(name, line):
                end = nfa.state()
                if name in loops:
                    nfa.empty[begin].append(loops[name])
                    self.endless = True
                elif name in inside:
                    nfa.calls[begin].append((name, end, line))
                    if name in self.rules.nullable:
                        nfa.empty[begin].append(end)
                else:
                    first = nfa.state()
                    nfa.empty[begin].append(first)
                    body = self.rules.rules[name].body
                    last = self._write(nfa, body, first, inside | {name}, {**loops, name: first})
                    nfa.empty[last].append(end)
                return end

    def _repeat(
        self, nfa: _Nfa, node: Repeat, begin: int, inside: frozenset[str], loops: Mapping[str, int]
    ) -> int:
        once = loops if node.high == 1 else {}
        for _ in range(node.low):
            begin = self._write(nfa, node.part, begin, inside, once)
        end = nfa.state()
        if node.high is None:
            self.endless = True
            hub = nfa.state()
            nfa.empty[begin].append(hub)
            nfa.empty[self._write(nfa, node.part, hub, inside, {})].append(hub)
            begin = hub
        else:
            for _ in range(node.high - node.low):
                nfa.empty[begin].append(end)
                begin = self._write(nfa, node.part, begin, inside, once)
        nfa.empty[begin].append(end)
        return end

    def _pattern(self, nfa: _Nfa, dfa: Dfa, begin: int) -> int:
        self.endless = self.endless or dfa.longest is None
        numbers = [nfa.state() for _ in dfa.rows]
        end = nfa.state()
        nfa.empty[begin].append(numbers[0])
        for state in dfa.accept:
            nfa.empty[numbers[state]].append(end)
        for state, row in enumerate(dfa.rows):
            for first, last, target in row:
                for spans in sequences(first, last):
                    at = numbers[state]
                    for i, (low, high) in enumerate(spans):
                        after = numbers[target] if i == len(spans) - 1 else nfa.state()
                        nfa.bytes[at].append((low, high, after))
                        at = after
                    self._size += len(spans)
        return end

    # ── one move a byte ──

    def _determined(self, name: str) -> _Procedure:
        nfa, start, end = self._nfas[name]
        first = nfa.closure([start])
        index, order = {first: 0}, [first]
        rows: list[dict[int, Move]] = []

        def number(states: Iterable[int]) -> int:
            key = nfa.closure(states)
            self._looked_at += len(key)
            if self._looked_at > MAX_LOOKED_AT:
                raise self.rules.error(
                    name,
                    f"to tell its alternatives apart more than {MAX_LOOKED_AT} places must be looked at; "
                    "use fewer repetitions that may begin alike",
                )
            if key not in index:
                index[key] = len(order)
                order.append(key)
                if len(order) > MAX_RULE_STATES:
                    raise self.rules.error(name, f"it needs more than {MAX_RULE_STATES} states; simplify it")
            return index[key]

        for states in order:
            row: dict[int, Move] = {}
            spans: dict[tuple[int, int], set[int]] = {}  # range of bytes -> states behind it
            for state in states:
                for low, high, after in nfa.bytes[state]:
                    spans.setdefault((low, high), set()).add(after)
            for low, high, parts in split((*span, span) for span in spans):
                to = number(set().union(*[spans[span] for span in parts]))
                row.update(dict.fromkeys(range(low, high + 1), ("", to)))
            behind: dict[str, set[int]] = {}
            for callee, after, line in (call for state in states for call in nfa.calls[state]):
                for byte in self._begins[callee] if callee not in behind else ():
                    if byte in row:
                        other = row[byte][0]
                        beside = f"the rule {other!r}" if other else "what stands beside it"
                        raise self.rules.error(
                            name,
                            f"here both the rule {callee!r} and {beside} may begin with {_shown(byte)}, and "
                            "which is meant shows only later. Give them different beginnings",
                            line,
                        )
                    row[byte] = (callee, -1)
                behind.setdefault(callee, set()).add(after)
            for callee, targets_behind in behind.items():
                to = number(targets_behind)
                row.update((byte, (callee, to)) for byte, move in row.items() if move == (callee, -1))
            rows.append(row)
        return _Procedure(tuple(rows), frozenset(i for i, states in enumerate(order) if end in states))

    def _require_ends(self) -> None:
        """A called rule ends where the next byte is none of its own: refuse rules that could go on there."""
        follow: dict[str, set[int]] = {name: set() for name in self.procedures}
        calls = {
            (caller, callee, to)
            for caller, procedure in self.procedures.items()
            for row in procedure.rows
            for callee, to in row.values()
            if callee
        }
        grown = True
        while grown:
            grown = False
            for caller, callee, to in calls:
                more = set(self.procedures[caller].rows[to])
                if to in self.procedures[caller].accept:
                    more |= follow[caller]
                if not more <= follow[callee]:
                    follow[callee] |= more
                    grown = True
        for name, procedure in self.procedures.items():
            for state in procedure.accept:
                both = follow[name] & procedure.rows[state].keys()
                if both:
                    raise self.rules.error(
                        name,
                        f"it is ambiguous: where it may end, {_shown(min(both))} may continue it and may as "
                        "well follow it. Give what follows another beginning, or end the rule with a mark",
                    )

    # ── states ──

    def build(self, builder: Builder, depth: int) -> int:
        """The states of the grammar with at most `depth` calls open, before END; the first of them."""
        return _Writer(self, builder).start(depth)


class _Writer:
    """Writes procedures into a builder, once for each number of calls that may still be opened."""

    def __init__(self, source: Procedures, builder: Builder) -> None:
        self.source = source
        self.builder = builder
        self._alive: dict[tuple[str, int], frozenset[int]] = {}
        self._numbers: dict[tuple[str, int], dict[int, int]] = {}

    def start(self, depth: int) -> int:
        # A rule's flattest text never has the rule inside itself, so every start can end, at any depth.
        return self._written(self.source.rules.start, depth, top=True)[0]

    def _living(self, name: str, left: int) -> frozenset[int]:
        """The states from which the rule can end with at most `left` calls open at once."""
        for level in range(left + 1):
            for each in self.source.procedures if level < left else (name,):
                if (each, level) not in self._alive:
                    self._alive[each, level] = self._ending(each, level)
        return self._alive[name, left]

    def _ending(self, name: str, left: int) -> frozenset[int]:
        procedure = self.source.procedures[name]
        if left and not procedure.calls:
            return self._alive[name, left - 1]  # how many calls are left is nothing to it
        sources: list[set[int]] = [set() for _ in procedure.rows]
        for state, row in enumerate(procedure.rows):
            for byte, (callee, to) in row.items():
                if not callee or self._enters(callee, byte, left):
                    sources[to].add(state)
        alive, queue = set(procedure.accept), list(procedure.accept)
        while queue:
            for state in sources[queue.pop()] - alive:
                alive.add(state)
                queue.append(state)
        return frozenset(alive)

    def _enters(self, callee: str, byte: int, left: int) -> bool:
        """Whether a call that starts with this byte can return."""
        return left > 0 and self.source.procedures[callee].rows[0][byte][1] in self._alive[callee, left - 1]

    def _written(self, name: str, left: int, *, top: bool = False) -> dict[int, int]:
        """The numbers of the rule's states with `left` calls left."""
        if (name, left) in self._numbers:
            return self._numbers[name, left]
        procedure, builder = self.source.procedures[name], self.builder
        alive = sorted(self._living(name, left))
        numbers = self._numbers[name, left] = {state: builder.state() for state in alive}
        for state in alive:
            row = builder.rows[numbers[state]]
            for byte, (callee, to) in procedure.rows[state].items():
                if to not in numbers:
                    continue
                behind = RETURN if self._over(procedure, to) and not top else numbers[to]
                if not callee:
                    row[byte] = behind
                elif self._enters(callee, byte, left):
                    inner = self.source.procedures[callee]
                    entry = inner.rows[0][byte][1]
                    if self._over(inner, entry):
                        row[byte] = behind  # the call is this byte and no more
                    else:
                        row[byte] = builder.call(self._written(callee, left - 1)[entry], numbers[to])
            if state in procedure.accept:
                if top:
                    row[END] = FINISHED
                else:
                    builder.final.add(numbers[state])
        return numbers

    @staticmethod
    def _over(procedure: _Procedure, state: int) -> bool:
        """Whether the rule can only end here."""
        return state in procedure.accept and not procedure.rows[state]


def _shown(byte: int) -> str:
    return repr(chr(byte)) if 0x20 <= byte < 0x7F else f"the byte 0x{byte:02x}"


def check_depth(depth: int) -> None:
    if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= 256:
        raise InputError(f"depth must be an integer from 0 to 256, not {depth!r}")
