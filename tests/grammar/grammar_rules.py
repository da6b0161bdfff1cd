"""Random free grammars, and what they mean, by a recogniser of another kind. Test support only."""

from __future__ import annotations

import random

from kogagent.engine.grammar.automaton import END, FINISHED, Automaton
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

ALPHABET = "ab()é,"


def random_grammar(rng: random.Random) -> str:
    """Rules over a small alphabet, some of them recursive; many are refused. Short ones: of long ones some
    take seconds to be refused."""
    while len(source := _rules(rng)) > 250:
        pass
    return source


def _rules(rng: random.Random) -> str:
    names = ["start", *rng.sample(["one", "two", "three"], rng.choice([0, 0, 1, 1, 2, 3]))]
    lines = []
    for name in names:
        options = [_sequence(rng, names, 2) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.6:
            left, right = rng.choice([("(", ")"), ("(", ","), ("a", ")"), ("b", ",")])
            options.append(f'"{left}" {rng.choice(names)} "{right}"')
        rng.shuffle(options)
        lines.append(f"{name}: {' | '.join(options)}")
    return "\n".join(lines)


def _sequence(rng: random.Random, names: list[str], depth: int) -> str:
    return " ".join(_part(rng, names, depth) for _ in range(rng.randint(1, 3)))


def _part(rng: random.Random, names: list[str], depth: int) -> str:
    which = rng.random()
    if which < 0.45:
        part = '"' + "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 2))) + '"'
    elif which < 0.6:
        part = rng.choice(["[ab]", "[^a(]", "/b|ab/", "/(?:aé)*/"])
    elif which < 0.7:
        part = rng.choice(names)
    elif depth:
        part = f"({_sequence(rng, names, depth - 1)} | {_sequence(rng, names, depth - 1)})"
    else:
        part = '"b"'
    return part + rng.choice(["", "", "", "", "?", "*", "+", "{2}", "{0,2}", "{1,}"])


def short_walk(automaton: Automaton, rng: random.Random, most: int = 40) -> str | None:
    """A random text of the grammar; None where it gets longer than `most` bytes."""
    state, frame = automaton.start, automaton.frames
    text = bytearray()
    while state != FINISHED:
        legal = sorted(automaton.legal(state, frame))
        assert legal, f"no way on after {bytes(text)!r}"
        symbol = END if END in legal and rng.random() < 0.3 else rng.choice(legal)
        after = automaton.step(state, frame, symbol)
        assert after is not None, f"{symbol} is announced but illegal after {bytes(text)!r}"
        state, frame = after
        if symbol != END:
            text.append(symbol)
        if len(text) > most:
            return None
    return text.decode()


def recognises(rules: Rules, text: str) -> bool:
    """Whether the grammar has the text: the ends each part may have from each place, all of them kept."""
    known: dict[tuple[int, int], frozenset[int]] = {}

    def ends(node: Node, at: int) -> frozenset[int]:
        key = (id(node), at)
        if key not in known:
            known[key] = frozenset(found(node, at))
        return known[key]

    def found(node: Node, at: int) -> set[int]:
        match node:
            case Literal(literal):
                return {at + len(literal)} if text.startswith(literal, at) else set()
            case Pattern(dfa):
                return {end for end in range(at, len(text) + 1) if dfa.matches(text[at:end])}
            case Reference(name):
                return set(ends(rules.rules[name].body, at))
            case Sequence(parts):
                here = {at}
                for part in parts:
                    here = {end for begin in here for end in ends(part, begin)}
                return here
            case Alternatives(parts):
                return {end for part in parts for end in ends(part, at)}
            case Repeat(part, low, high):
                here, every = {at}, {at} if low == 0 else set()
                for count in range(1, (low + len(text) + 1 if high is None else high) + 1):
                    here = {end for begin in here for end in ends(part, begin)}
                    every |= here if count >= low else set()
                return every

    return len(text) in ends(rules.rules[rules.start].body, 0)
