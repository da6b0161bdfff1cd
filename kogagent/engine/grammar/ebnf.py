"""The text form of free grammars: rules to trees, checked. Knows no automaton states, no tokens.

    # a comment; a rule goes on until the next name with ":" (or "=", "::=") behind it
    start: greeting (", " name){1,3} "!"
    greeting: "hello" | 'good ' ("morning" | "evening")
    name: [A-Z] /[a-z]{1,20}/

Strings take JSON's escapes, \\' and \\xHH; [...] and /.../ are ECMA-262 as in regex.py; ? * + {m} {m,} {m,n}
repeat what stands before them. Nothing is skipped between parts: white space is written where it is meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kogagent.engine.grammar.dfa import Dfa
from kogagent.engine.grammar.regex import PatternError, compile_pattern
from kogagent.errors import InputError

MAX_REPEAT = 2_000


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    dfa: Dfa


@dataclass(frozen=True, slots=True)
class Reference:
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """high: None for no limit."""

    part: Node
    low: int
    high: int | None


Node: TypeAlias = Literal | Pattern | Reference | Sequence | Alternatives | Repeat


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    line: int
    body: Node


@dataclass(frozen=True)
class Rules:
    """A checked grammar: every name is defined, every rule has a finite text, none is left-recursive.

    nullable: the rules that may be empty.
    """

    start: str
    rules: Mapping[str, Rule]
    nullable: frozenset[str]

    def error(self, name: str, what: str, line: int | None = None) -> InputError:
        return _error(self.rules[name].line if line is None else line, what, name)


def _error(line: int, what: str, rule: str = "") -> InputError:
    return InputError(f"grammar line {line}, {f'rule {rule!r}: ' if rule else ''}{what}")


def read_ebnf(text: str, start: str = "start") -> Rules:
    """The rules of a grammar's text. Raises InputError that names rule and line."""
    if not isinstance(text, str) or not text.strip():
        raise InputError('a grammar is a text of rules, such as: start: "yes" | "no"')
    rules = _Reader(text).rules()
    if start not in rules:
        raise InputError(f"the grammar has no rule {start!r} to start from; it has {', '.join(rules)}")
    for rule in rules.values():
        for reference in _references(rule.body):
            if reference.name not in rules:
                raise _error(reference.line, f"the rule {reference.name!r} is not defined", rule.name)
    found = Rules(start, rules, _closed(rules, empty=True))
    _refuse_left_recursion(found)
    finite = _closed(rules, empty=False)
    for name in rules:
        if name not in finite:
            raise found.error(name, "it has no finite text: its recursion has no base")
    return found


# ── reading ──

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\n]+|(?:\#|//)[^\n]*)
    |(?P<rule>[A-Za-z_][A-Za-z0-9_-]*)(?=[ \t]*(?:::=|:|=))
    |(?P<name>[A-Za-z_][A-Za-z0-9_-]*)
    |(?P<define>::=|:|=)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<chars>\[(?:[^\]\\\n]|\\.)*\])
    |(?P<regex>/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/)
    |(?P<repeat>\{[ ]*[0-9]{1,9}[ ]*(?:,[ ]*(?:[0-9]{1,9})?[ ]*)?\}|[?*+])
    |(?P<mark>[|()])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", **{c: c for c in "\\/\"'"}}


class _Reader:
    """Recursive descent over tokens (kind, text, line)."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        at, line = 0, 1
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                rest = text[at:].split("\n", 1)[0][:30]
                raise _error(line, f"cannot read {rest!r}")
            kind = found.lastgroup or ""
            if kind != "skip":
                self.tokens.append((kind, found[0], line))
            line += found[0].count("\n")
            at = found.end()
        self.tokens.append(("end", "the end", line))
        self.at = 0
        self.name = ""

    def rules(self) -> dict[str, Rule]:
        rules: dict[str, Rule] = {}
        while self.tokens[self.at][0] != "end":
            kind, name, line = self.tokens[self.at]
            if kind != "rule":
                raise _error(line, f"expected a rule's name and ':', not {name!r}")
            if name in rules:
                raise _error(line, f"defined before, on line {rules[name].line}", name)
            self.name = name
            self.at += 2
            if self.tokens[self.at][0] in ("rule", "end"):
                raise _error(line, 'it has no body; write "" for the empty text', name)
            rules[name] = Rule(name, line, self._alternatives())
        return rules

    def _alternatives(self) -> Node:
        parts = [self._sequence()]
        while self.tokens[self.at][1:2] == ("|",) and self.tokens[self.at][0] == "mark":
            self.at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while True:
            kind, text, line = self.tokens[self.at]
            if kind in ("rule", "end") or (kind == "mark" and text in "|)"):
                if text == ")" and not self._open:
                    raise _error(line, "')' without '('", self.name)
                return parts[0] if len(parts) == 1 else Sequence(tuple(parts))
            parts.append(self._repeated())

    _open = 0

    def _repeated(self) -> Node:
        node = self._atom()
        while self.tokens[self.at][0] == "repeat":
            _, text, line = self.tokens[self.at]
            self.at += 1
            low, high = _REPEATS.get(text) or _counts(text)
            if high is not None and high < low:
                raise _error(line, f"the repetition {text} is out of order", self.name)
            if max(low, high or 0) > MAX_REPEAT:
                raise _error(line, f"the repetition {text} is of more than {MAX_REPEAT}", self.name)
            node = Repeat(node, low, high)
        return node

    def _atom(self) -> Node:
        kind, text, line = self.tokens[self.at]
        self.at += 1
        if kind == "name":
            return Reference(text, line)
        if kind == "string":
            return Literal(self._string(text[1:-1], line))
        if kind in ("chars", "regex"):
            pattern = text if kind == "chars" else text[1:-1]
            try:
                dfa = compile_pattern(pattern, whole=True)
            except PatternError as problem:
                raise _error(line, f"bad or unsupported pattern {text}: {problem}", self.name) from None
            if dfa is None:
                raise _error(line, f"the pattern {text} matches nothing", self.name)
            return Pattern(dfa)
        if text == "(":
            self._open += 1
            node = self._alternatives()
            if self.tokens[self.at][1] != ")":
                raise _error(line, "'(' is not closed", self.name)
            self._open -= 1
            self.at += 1
            return node
        what = "nothing to repeat before" if kind == "repeat" else "unexpected"
        raise _error(line, f"{what} {text!r}", self.name)

    def _string(self, body: str, line: int) -> str:
        def point(found: re.Match[str]) -> str:
            digits = found[1] or found[2] or found[3]
            if digits is None:
                if found[4] not in _LETTERS:
                    raise _error(line, f"unknown escape {found[0]!r} in a string", self.name)
                return _LETTERS[found[4]]
            if int(digits, 16) > 0x10FFFF:
                raise _error(line, f"{found[0]} is no code point", self.name)
            return chr(int(digits, 16))

        text = _ESCAPE.sub(point, body)
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise _error(line, "a string holds a lone surrogate", self.name) from None


_REPEATS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}


def _counts(text: str) -> tuple[int, int | None]:
    low, comma, high = text[1:-1].replace(" ", "").partition(",")
    return int(low), int(low) if not comma else int(high) if high else None


# ── checks ──


def _references(node: Node) -> list[Reference]:
    match node:
        case Reference():
            return [node]
        case Sequence(parts) | Alternatives(parts):
            return [reference for part in parts for reference in _references(part)]
        case Repeat(part):
            return _references(part)
        case _:
            return []


def _closed(rules: Mapping[str, Rule], *, empty: bool) -> frozenset[str]:
    """The rules that have a finite text; with `empty`, those that have the empty one."""

    def has(node: Node) -> bool:
        match node:
            case Literal(text):
                return not (empty and text)
            case Pattern(dfa):
                return not empty or 0 in dfa.accept
            case Reference(name):
                return name in known
            case Sequence(parts):
                return all(has(part) for part in parts)
            case Alternatives(parts):
                return any(has(part) for part in parts)
            case Repeat(part, low):
                return low == 0 or has(part)

    known: set[str] = set()
    while True:
        more = {name for name, rule in rules.items() if name not in known and has(rule.body)}
        if not more:
            return frozenset(known)
        known |= more


def _refuse_left_recursion(rules: Rules) -> None:
    def firsts(node: Node) -> tuple[set[str], bool]:
        """The rules a text of the node may begin with, and whether it may be empty."""
        match node:
            case Literal(text):
                return set(), not text
            case Pattern(dfa):
                return set(), 0 in dfa.accept
            case Reference(name):
                return {name}, name in rules.nullable
            case Alternatives(parts):
                all_parts = [firsts(part) for part in parts]
                return set().union(*(names for names, _ in all_parts)), any(e for _, e in all_parts)
            case Sequence(parts):
                found: set[str] = set()
                for part in parts:
                    names, may_be_empty = firsts(part)
                    found |= names
                    if not may_be_empty:
                        return found, False
                return found, True
            case Repeat(part, low, high):
                names, may_be_empty = firsts(part)
                return (names if high != 0 else set()), may_be_empty or low == 0

    begins = {name: sorted(firsts(rule.body)[0]) for name, rule in rules.rules.items()}
    done: set[str] = set()
    for root in begins:
        path, stack = [root], [iter(begins[root])]
        while stack:
            name = next(stack[-1], None)
            if name is None:
                done.add(path.pop())
                stack.pop()
            elif name in path:
                circle = " -> ".join([*path[path.index(name) :], name])
                raise rules.error(name, f"it is left-recursive ({circle}). Write the repetition with * or +")
            elif name not in done:
                path.append(name)
                stack.append(iter(begins[name]))
