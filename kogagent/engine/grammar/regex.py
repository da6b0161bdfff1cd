"""ECMA-262 regular expressions (the regular subset) to automata over code points. Knows no JSON, no bytes.

Enforced: literals, `.`, classes, escapes, groups, alternation, greedy and lazy quantifiers, `^` and `$`
anywhere, \\p{General_Category}, a leading (?i), look-aheads behind a leading `^`. Refused by name: other
look-around, back-references, \\b and \\B, unknown escapes. A pattern matches anywhere in the text, as in JSON
Schema, unless anchored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from kogagent.engine.grammar.code_points import (
    ANY,
    CLASSES,
    CONTROLS,
    DOT,
    all_cases,
    both_cases,
    category,
    inverse,
    ranges_of,
)
from kogagent.engine.grammar.dfa import (
    ANYTHING,
    MAX_CODE_POINT,
    Dfa,
    Range,
    TooManyStates,
    complement,
    explore,
    intersect,
    split,
)

MAX_NFA_STATES = 20_000
MAX_REPEAT = 2_000


class PatternError(ValueError):
    """A pattern outside the subset; the text says what and where."""


@dataclass
class _Nfa:
    """Thompson's automaton. `start_only` and `end_only` edges may be taken at that edge of the text alone."""

    epsilon: list[list[int]] = field(default_factory=list)
    start_only: dict[int, int] = field(default_factory=dict)
    end_only: dict[int, int] = field(default_factory=dict)
    moves: list[tuple[tuple[Range, ...], int] | None] = field(default_factory=list)

    def state(self) -> int:
        if len(self.moves) >= MAX_NFA_STATES:
            raise PatternError("it is too large; shorten its counted repetitions")
        self.epsilon.append([])
        self.moves.append(None)
        return len(self.moves) - 1


class _Parser:
    """Recursive descent straight to Thompson fragments; a fragment is (first state, last state)."""

    def __init__(self, pattern: str, fold: bool = False) -> None:
        self.text = pattern
        self.fold = fold  # a letter stands for both its cases
        self.at = 0
        self.nfa = _Nfa()

    def fail(self, why: str) -> PatternError:
        return PatternError(f"{why} at position {self.at}")

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, expected: str) -> bool:
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def parse(self) -> tuple[int, int]:
        fragment = self.alternatives()
        if self.at < len(self.text):
            raise self.fail(f"unexpected {self.peek()!r}")
        return fragment

    def alternatives(self) -> tuple[int, int]:
        nfa = self.nfa
        first, last = nfa.state(), nfa.state()
        while True:
            begin, end = self.sequence()
            nfa.epsilon[first].append(begin)
            nfa.epsilon[end].append(last)
            if not self.take("|"):
                return first, last

    def sequence(self) -> tuple[int, int]:
        first = last = self.nfa.state()
        while self.peek() not in ("", "|", ")"):
            begin, end = self.term()
            self.nfa.epsilon[last].append(begin)
            last = end
        return first, last

    def term(self) -> tuple[int, int]:
        nfa = self.nfa
        if self.peek() in "^$":
            edges = nfa.start_only if self.peek() == "^" else nfa.end_only
            self.at += 1
            first, last = nfa.state(), nfa.state()
            edges[first] = last
            if self.peek() in ("*", "+", "?", "{") and self.peek():
                raise self.fail("an anchor cannot be repeated")
            return first, last
        begin_at = self.at
        fragment = self.atom()
        low, high = self.quantifier()
        if (low, high) == (1, 1):
            return fragment
        end_at = self.at
        first = last = nfa.state()

        def again() -> tuple[int, int]:
            self.at = begin_at
            return self.atom()

        for _ in range(low):
            begin, end = again()
            nfa.epsilon[last].append(begin)
            last = end
        if high is None:
            begin, end = again()
            hub = nfa.state()
            nfa.epsilon[last].append(hub)
            nfa.epsilon[hub].append(begin)
            nfa.epsilon[end].append(hub)
            last = hub
        else:
            out = nfa.state()
            for _ in range(high - low):
                nfa.epsilon[last].append(out)
                begin, end = again()
                nfa.epsilon[last].append(begin)
                last = end
            nfa.epsilon[last].append(out)
            last = out
        self.at = end_at
        return first, last

    def quantifier(self) -> tuple[int, int | None]:
        low: int
        high: int | None
        if self.take("*"):
            low, high = 0, None
        elif self.take("+"):
            low, high = 1, None
        elif self.take("?"):
            low, high = 0, 1
        elif self.peek() == "{":
            close = self.text.find("}", self.at)
            body = self.text[self.at + 1 : close] if close > 0 else ""
            left, comma, right = body.partition(",")
            if not left.isdecimal() or (right and not right.isdecimal()):
                raise self.fail("'{' must open a counted repetition or be escaped")
            low = int(left)
            high = low if not comma else (int(right) if right else None)
            if high is not None and high < low:
                raise self.fail("a counted repetition is out of order")
            if max(low, high or 0) > MAX_REPEAT:
                raise self.fail(f"a repetition of more than {MAX_REPEAT}; use minLength and maxLength")
            self.at = close + 1
        else:
            return 1, 1
        self.take("?")
        if self.peek() in ("*", "+", "?", "{") and self.peek():
            raise self.fail("nothing to repeat")
        return low, high

    def atom(self) -> tuple[int, int]:
        char = self.peek()
        if char == "(":
            self.at += 1
            if self.take("?"):
                if (self.take("P<") or self.take("<")) and self.peek() not in ("=", "!", ""):
                    close = self.text.find(">", self.at)
                    if close < 0 or not self.text[self.at : close].isidentifier():
                        raise self.fail("bad group name")
                    self.at = close + 1
                elif not self.take(":"):
                    raise self.fail("look-around and inline flags are refused")
            fragment = self.alternatives()
            if not self.take(")"):
                raise self.fail("missing ')'")
            return fragment
        if char == "[":
            return self.leaf(self.char_class())
        if char == ".":
            self.at += 1
            return self.leaf(DOT)
        if char == "\\":
            return self.leaf(self.escape(in_class=False))
        if char in "*+?{":
            raise self.fail("nothing to repeat")
        if char in "]}":
            raise self.fail(f"unescaped {char!r}")
        self.at += 1
        return self.leaf(((ord(char), ord(char)),))

    def leaf(self, ranges: tuple[Range, ...]) -> tuple[int, int]:
        first, last = self.nfa.state(), self.nfa.state()
        if self.fold:
            ranges = both_cases(ranges)
        # Surrogates are no code points of a UTF-8 text.
        cut = [(a, min(b, 0xD7FF)) for a, b in ranges if a < 0xD800]
        cut += [(max(a, 0xE000), b) for a, b in ranges if b > 0xDFFF]
        self.nfa.moves[first] = (tuple(cut), last)
        return first, last

    def escape(self, in_class: bool) -> tuple[Range, ...]:
        start = self.at
        self.at += 1
        char = self.peek()
        self.at += 1
        if char in CLASSES:
            return CLASSES[char]
        if char in CONTROLS and not (char == "0" and self.peek().isdecimal()):
            return ((CONTROLS[char],) * 2,)
        if char == "b" and in_class:
            return ((8, 8),)
        if char == "c" and self.peek().isascii() and self.peek().isalpha():
            self.at += 1
            return ((ord(self.text[self.at - 1]) % 32,) * 2,)
        if char in "xu" and char:
            return ((self.code_point(char),) * 2,)
        if char in "pP" and char:
            close = self.text.find("}", self.at)
            if self.peek() != "{" or close < 0:
                raise self.fail(f"\\{char} needs {{a category}}")
            name = self.text[self.at + 1 : close].removeprefix("General_Category=").removeprefix("gc=")
            found = category(name)
            if found is None:
                raise self.fail(f"unknown general category {name!r}")
            self.at = close + 1
            return found if char == "p" else inverse(found)
        if char and not char.isalnum():
            return ((ord(char), ord(char)),)
        self.at = start
        what = {"b": "the word boundary", "B": "the word boundary", "k": "the back-reference"}.get(
            char, "the back-reference" if char.isdecimal() else "the unknown escape"
        )
        raise self.fail(f"{what} \\{char} is refused")

    def code_point(self, kind: str) -> int:
        if kind == "u" and self.peek() == "{":
            close = self.text.find("}", self.at)
            digits = self.text[self.at + 1 : close] if close > 0 else ""
            self.at = close + 1
        else:
            width = 2 if kind == "x" else 4
            digits = self.text[self.at : self.at + width]
            self.at += width
            if len(digits) != width:
                digits = ""
        try:
            value = int(digits, 16) if digits.isalnum() else -1
        except ValueError:
            value = -1
        if 0xD800 <= value < 0xDC00 and self.text.startswith("\\u", self.at):
            self.at += 2
            low = self.code_point("u")
            value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00) if 0xDC00 <= low < 0xE000 else -1
        elif 0xD800 <= value < 0xDC00:
            value = -1
        if not 0 <= value <= MAX_CODE_POINT:
            raise self.fail(f"bad \\{kind} escape")
        return value

    def char_class(self) -> tuple[Range, ...]:
        self.at += 1
        negated = self.take("^")
        points: list[Range] = []
        while not self.take("]"):
            if not self.peek():
                raise self.fail("missing ']'")
            first = self.class_atom()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                last = self.class_atom()
                if (
                    len(first) != 1
                    or len(last) != 1
                    or first[0][0] != first[0][1]
                    or last[0][0] != last[0][1]
                ):
                    raise self.fail("a class cannot be the end of a range")
                if first[0][0] > last[0][0]:
                    raise self.fail("a range is out of order")
                points.append((first[0][0], last[0][0]))
            else:
                points.extend(first)
        if not negated:
            return ranges_of(points)
        return inverse(all_cases(points) if self.fold else points)

    def class_atom(self) -> tuple[Range, ...]:
        if self.peek() == "\\":
            return self.escape(in_class=True)
        char = self.peek()
        if not char:
            raise self.fail("missing ']'")
        self.at += 1
        return ((ord(char), ord(char)),)


def read_pattern(pattern: str) -> None:
    """Raises PatternError for what is none; takes a few milliseconds."""
    fold, ahead, rest = _parts(pattern)
    for text in (*(text for _, text in ahead), rest):
        _read(text, fold)


def _read(pattern: str, fold: bool) -> tuple[_Nfa, int, int]:
    """A pattern's automaton, its first and its last state; fold: letters stand for both cases."""
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise PatternError("it holds a lone surrogate") from None
    parser = _Parser(pattern, fold)
    begin, end = parser.parse()
    return parser.nfa, begin, end


def _marks(pattern: str) -> Iterator[tuple[int, str, int]]:
    """(place, character, groups it is in) of what is neither escaped nor in a class; a group holds its
    parentheses."""
    at, depth, in_class = 0, 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif in_class or char == "[":
            in_class = char != "]"
        else:
            depth += char == "("
            yield at, char, depth
            depth -= char == ")"
        at += 1


def _parts(pattern: str) -> tuple[bool, list[tuple[bool, str]], str]:
    """Whether letters stand for both cases; what must and must not stand at the beginning of a text, as
    patterns; the pattern behind that."""
    fold, found = pattern.startswith("(?i)"), list[tuple[bool, str]]()
    pattern = pattern.removeprefix("(?i)")
    while pattern.startswith(("^(?=", "^(?!")):
        marks = list(_marks(pattern))
        end = next((at for at, char, depth in marks if (char, depth) == (")", 1)), -1)
        if end < 0 or ("|", 0) in [(char, depth) for _, char, depth in marks]:
            break
        found.append((pattern[3] == "=", f"^(?:{pattern[4:end]})"))
        pattern = f"^{pattern[end + 1 :]}"
    return fold, found, pattern


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, *, whole: bool = False) -> Dfa | None:
    """The texts in which `pattern` occurs, or with whole=True those it matches from end to end.

    None for a pattern that matches nothing. Raises PatternError.
    """
    fold, ahead, rest = _parts(pattern)
    dfa = _compiled(rest, whole, fold)
    try:
        for wanted, text in ahead:
            seen = _compiled(text, False, fold)
            if not wanted:
                seen = ANYTHING if seen is None else complement(seen)
            dfa = None if dfa is None or seen is None else intersect(dfa, seen)
    except TooManyStates:
        raise PatternError("its look-aheads make it too large; simplify it") from None
    return dfa


def _compiled(pattern: str, whole: bool, fold: bool) -> Dfa | None:
    nfa, begin, end = _read(pattern, fold)
    if not whole:
        # before: anything, then the pattern; after: anything. `^` holds only before the first code point.
        before, start = nfa.state(), nfa.state()
        nfa.moves[before] = (ANY, before)
        nfa.epsilon[before].append(begin)
        nfa.epsilon[start] += [begin, before]
        after = nfa.state()
        nfa.moves[after] = (ANY, after)
        nfa.epsilon[end].append(after)
        begin, end = start, after

    def closure(states: Sequence[int], *, at_start: bool, at_end: bool) -> frozenset[int]:
        seen = set(states)
        queue = list(states)
        while queue:
            state = queue.pop()
            targets = list(nfa.epsilon[state])
            if at_start and state in nfa.start_only:
                targets.append(nfa.start_only[state])
            if at_end and state in nfa.end_only:
                targets.append(nfa.end_only[state])
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    queue.append(target)
        return frozenset(seen)

    # A key is (states, whether no code point has been read): `^` and acceptance depend on the latter.
    first = (closure([begin], at_start=True, at_end=False), True)

    def moves(
        key: tuple[frozenset[int], bool],
    ) -> list[tuple[int, int, tuple[frozenset[int], bool]]]:
        edges = [
            (low, high, move[1])
            for s in key[0]
            if (move := nfa.moves[s]) is not None
            for low, high in move[0]
        ]
        return [
            (low, high, (closure(sorted(targets), at_start=False, at_end=False), False))
            for low, high, targets in split(edges)
        ]

    def accepts(key: tuple[frozenset[int], bool]) -> bool:
        return end in closure(sorted(key[0]), at_start=key[1], at_end=True)

    try:
        return explore(first, moves, accepts)
    except TooManyStates:
        raise PatternError("its automaton is too large; simplify it") from None
