"""What is legal and what is forced is what each token's bytes come to, by the compiled program or without."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from grammar_schemas import random_schema
from grammar_vocabularies import smollm

from kogagent.engine.grammar import Bounds, Grammar, compile_ebnf, compile_schema, compile_turn
from kogagent.engine.grammar.ahead import Ahead, look_ahead
from kogagent.engine.grammar.automaton import END, FINISHED, SPECIAL, Automaton, Frame
from kogagent.engine.grammar.compiled import CompiledAhead
from kogagent.engine.grammar.forced import Config, Forced
from kogagent.engine.grammar.walker import Walker
from kogagent.errors import SchemaError
from kogagent.kernels.cpu import walker as program
from kogagent.spec import HERMES, Vocabulary

SPECIALS = (b"<end>", b"<stop>", b"<tool_call>", b"</tool_call>")


def drawn_vocabulary(rand: random.Random) -> Vocabulary:
    """Bytes, two end ids, special ids, and tokens as a JSON text may hold them, some of them twice."""
    pieces = [
        b'"',
        b'", "',
        b": ",
        b"a",
        b"ab",
        b"\\",
        b"n",
        b"1",
        b"0.",
        b"}",
        b"]",
        "é".encode(),
        b"\xf0\x9f",
    ]
    more = [b"".join(rand.choices(pieces, k=rand.randint(2, 5))) for _ in range(250)]
    more += [b'name": "', b'{"', b"}}\n", b"    ", *rand.choices(more, k=8)]
    tokens = (*(bytes([b]) for b in range(256)), *SPECIALS, *more, b"")
    numbers = {text: id for id, text in reversed(list(enumerate(tokens))) if text and not 256 <= id < 260}
    longest = max(map(len, tokens))

    def encode(text: str) -> list[int]:
        rest, ids = text.encode(), []
        while rest:
            size = next(size for size in range(longest, 0, -1) if rest[:size] in numbers)
            ids.append(numbers[rest[:size]])
            rest = rest[size:]
        return ids

    return Vocabulary(tokens, frozenset(range(256, 260)), (256, 257), encode)


def after(automaton: Automaton, config: Config | None, text: bytes) -> Config | None:
    for byte in text:
        config = None if config is None else automaton.step(*config, byte)
    return config


def legal_ids(automaton: Automaton, vocabulary: Vocabulary, config: Config) -> set[int]:
    """Token by token."""
    first = {byte for byte in range(256) if automaton.step(*config, byte) is not None}
    out = set()
    for id, text in enumerate(vocabulary.tokens):
        if id in vocabulary.end_ids:
            there = automaton.step(*config, END)
        elif id in vocabulary.special:
            there = automaton.step(*config, SPECIAL + id)
        else:
            there = after(automaton, config, text) if text and text[0] in first else None
        if there is not None:
            out.add(id)
    return out


def forced_text(automaton: Automaton, vocabulary: Vocabulary, config: Config) -> tuple[Forced | None, Config]:
    """Byte by byte, and of each token that may reach across the end; the configuration behind it."""
    text = b""
    while (symbol := automaton.only(*config)) is not None and symbol < END:
        there = automaton.step(*config, symbol)
        assert there is not None
        text += bytes((symbol,))
        if there == config:  # a class of counts: how many there are is not certain
            break
        config = there
    else:
        if symbol is not None:
            return Forced(text, symbol, ()), config
        if not text:
            return None, config
    reach = max(map(len, vocabulary.tokens))
    plain = [t for i, t in enumerate(vocabulary.tokens) if i not in vocabulary.special]
    backs = [0]
    for back in range(1, min(reach, len(text) + 1)):
        rests = {t[back:] for t in plain if len(t) > back and t.startswith(text[-back:])}
        if any(after(automaton, config, rest) is not None for rest in rests):
            backs.append(back)
    return Forced(text, None, tuple(backs)), config


def met(grammar: Grammar, rand: random.Random, most: int) -> list[Config]:
    """Some configurations of a random walk, in normal form."""
    automaton, normal = grammar.automaton, grammar.walker.normal
    config: Config = automaton.start, automaton.frames
    found: dict[Config, None] = {}
    for _ in range(300):
        found[config[0], normal(config[1])] = None
        _, config = rand.choice(automaton.branches(*config))
        if config[0] == FINISHED:
            break
    return rand.sample(list(found), min(most, len(found)))


def as_set(mask: np.ndarray) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def compiled(request: pytest.FixtureRequest) -> bool:
    if request.param and program.functions() is None:
        pytest.skip("no compiled program in this install")
    return bool(request.param)


def agrees(grammar: Grammar, configs: list[Config], *, compiled: bool) -> int:
    walker = Walker(grammar.automaton, grammar.trie, compiled=compiled)
    assert (walker.compiled is not None) == compiled
    vocabulary = grammar.trie.vocabulary
    for config in configs:
        assert as_set(walker.mask(*config)) == legal_ids(grammar.automaton, vocabulary, config), config
        wanted, end = forced_text(grammar.automaton, vocabulary, config)
        assert walker.forced(*config) == wanted, config
        if wanted is not None:
            assert walker.after(*config, len(wanted.text)) == end, config
            part = len(wanted.text) // 2
            assert walker.after(*config, part) == after(grammar.automaton, config, wanted.text[:part]), config
    return len(configs)


def test_random_schemas(rng: np.random.Generator, compiled: bool) -> None:
    rand = random.Random(int(rng.integers(2**32)))
    looked = 0
    for _ in range(3):
        vocabulary = drawn_vocabulary(rand)
        for _ in range(8):
            bounds = Bounds(
                string=rand.choice([3, 20, 4096]),
                items=rand.choice([3, 400]),
                open_objects=rand.random() < 0.3,
            )
            try:
                grammar = compile_schema(random_schema(rand), vocabulary, bounds=bounds)
            except SchemaError:
                continue
            looked += agrees(grammar, met(grammar, rand, 8), compiled=compiled)
    assert looked > 60


def test_turns_with_text_specials_and_calls(rng: np.random.Generator, compiled: bool) -> None:
    rand = random.Random(int(rng.integers(2**32)))
    vocabulary = drawn_vocabulary(rand)
    tools = {
        "add": {"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}},
        "name": {"type": "object", "properties": {"n": {"type": "array", "items": {"maxLength": 2}}}},
    }
    for choice in ("auto", "required"):
        grammar = compile_turn(tools, vocabulary, HERMES, tool_choice=choice)
        agrees(grammar, met(grammar, rand, 12), compiled=compiled)


def test_a_loop_without_a_count_and_a_long_text(compiled: bool, rng: np.random.Generator) -> None:
    rand = random.Random(int(rng.integers(2**32)))
    grammar = compile_ebnf('start: "a"+ "b" | "c" ("n" "1"){3,900} "}"', drawn_vocabulary(rand))
    agrees(grammar, met(grammar, rand, 12), compiled=compiled)


def test_both_say_the_same_of_a_real_vocabulary(rng: np.random.Generator) -> None:
    if program.functions() is None:
        pytest.skip("no compiled program in this install")
    rand = random.Random(int(rng.integers(2**32)))
    for _ in range(4):
        try:
            grammar = compile_schema(random_schema(rand), smollm()[0])
        except SchemaError:
            continue
        plain = Walker(grammar.automaton, grammar.trie, compiled=False)
        for config in met(grammar, rand, 6):
            assert np.array_equal(grammar.walker.mask(*config), plain.mask(*config)), config
            assert grammar.walker.forced(*config) == plain.forced(*config), config


def looked_at(look: Ahead | CompiledAhead, met: list[Config], turns: list[tuple[int, Config]]) -> list[int]:
    """How many classes were met after each look. turns: after so many looks turn there."""
    out: list[int] = []
    while len(out) < 600:
        for after, config in turns:
            if after == len(out):
                look.turn_to(*config)
        if not look.step():
            break
        out.append(len(met))
    return out


def test_both_look_ahead_at_the_same_classes_in_the_same_order(rng: np.random.Generator) -> None:
    if program.functions() is None:
        pytest.skip("no compiled program in this install")
    rand = random.Random(int(rng.integers(2**32)))
    classes = 0
    for _ in range(5):
        named = {"type": "object", "properties": {"a": random_schema(rand), "name": random_schema(rand)}}
        tools = {
            "say": named,
            "name": {"type": "object", "properties": {"b": {"enum": ["ab1", "a0.ab"]}}},
        }
        try:
            grammar = compile_turn(tools, drawn_vocabulary(rand), HERMES, tool_choice="required")
        except SchemaError:
            continue
        turns = [(rand.randint(1, 60), config) for config in met(grammar, rand, 3)]
        said = []
        for compiled in (True, False):
            walker = Walker(grammar.automaton, grammar.trie, compiled=compiled)
            other = replace(grammar, walker=walker)
            order: list[Config] = []

            def meet(
                state: int, frame: Frame, *, other: Grammar = other, order: list[Config] = order
            ) -> Config | None:
                order.append((state, frame))
                if len(order) % 9 == 8:
                    return None  # not certain
                run, after = other.run(state, frame)
                return (
                    (state, frame) if not run or after is None else (after[0], other.walker.normal(after[1]))
                )

            look = look_ahead(other, meet)
            assert isinstance(look, CompiledAhead) == compiled
            said.append((looked_at(look, order, turns), order))
        assert said[0] == said[1]
        classes += len(said[0][0])
    assert classes > 60
