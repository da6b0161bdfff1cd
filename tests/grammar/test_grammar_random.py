"""Random schemas: whatever the grammar lets through parses and validates, and it never gets stuck."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import jsonschema
import numpy as np
import pytest
from grammar_schemas import conditional_schema, overlapping_schema, random_schema, random_walk
from grammar_vocabularies import byte_vocabulary, smollm

from kogagent.engine.grammar import Bounds, Grammar, compile_schema
from kogagent.engine.grammar.automaton import Frame
from kogagent.errors import ModelError, SchemaError


def exact(text: str) -> int | Fraction:
    value = Fraction(text)
    return int(value) if value.denominator == 1 else value


def compiled(
    rng: np.random.Generator,
    count: int,
    draw: Callable[[random.Random], Any],
    bounds: Callable[[random.Random], Bounds],
) -> Iterator[tuple[random.Random, Any, Grammar | SchemaError]]:
    """Random schemas, each from a source of its own: (source, schema, its grammar or why there is none)."""
    vocabulary = byte_vocabulary()
    seed = int(rng.integers(2**32))
    for number in range(count):
        source = random.Random(f"{seed}/{number}")
        schema = draw(source)
        try:
            yield source, schema, compile_schema(schema, vocabulary, bounds=bounds(source))
        except SchemaError as problem:
            yield source, schema, problem


def test_1000_random_schemas_give_only_valid_values(rng: np.random.Generator) -> None:
    def bounds(source: random.Random) -> Bounds:
        return Bounds(
            string=source.choice([200, 4096]),
            open_objects=source.random() < 0.3,
            zero_fraction=source.random() < 0.5,
        )

    seen: Counter[str] = Counter()
    for source, schema, grammar in compiled(rng, 1000, random_schema, bounds):
        if isinstance(grammar, SchemaError):
            assert grammar.keyword in ("minimum", "multipleOf", "anyOf", "pattern"), schema
            seen["refused"] += 1
            continue
        text = random_walk(grammar.automaton, source, patience=source.choice([0, 40]))
        value = json.loads(text, parse_float=exact)
        jsonschema.Draft202012Validator(schema).validate(value)
        json.loads(text)  # and as doubles
        seen["walked"] += 1
    assert seen["walked"] > 930, seen


def test_conditions_and_patterns_of_names_give_only_valid_values(rng: np.random.Generator) -> None:
    def small(source: random.Random) -> Bounds:
        return Bounds(string=20, properties=3, key=6, items=3, depth=2, open_objects=source.random() < 0.5)

    seen: Counter[str] = Counter()
    for source, schema, grammar in compiled(rng, 120, conditional_schema, small):
        if isinstance(grammar, SchemaError):
            seen["refused"] += 1
            continue
        for _ in range(4):
            text = random_walk(grammar.automaton, source, patience=source.choice([0, 30, 200]))
            value = json.loads(text, parse_float=exact)
            jsonschema.Draft202012Validator(schema).validate(value)
        seen["walked"] += 1
    assert seen["walked"] > 30, seen


def test_of_alternatives_that_exclude_each_other_none_is_given_a_value_of_another(
    rng: np.random.Generator,
) -> None:
    def small(source: random.Random) -> Bounds:
        recursion = source.choice([1, 3])
        return Bounds(string=2, properties=1, key=1, items=2, digits=1, depth=2, recursion=recursion)

    seen: Counter[str] = Counter()
    for source, schema, grammar in compiled(rng, 160, overlapping_schema, small):
        if isinstance(grammar, SchemaError):
            seen[grammar.keyword] += 1
            continue
        judge = jsonschema.Draft202012Validator(schema)
        for _ in range(6):
            text = random_walk(grammar.automaton, source, patience=source.choice([0, 30]))
            judge.validate(json.loads(text, parse_float=exact))
        seen["walked"] += 1
    assert seen["walked"] > 30, seen


def test_numbers_stay_inside_their_bounds_when_read_as_doubles(rng: np.random.Generator) -> None:
    vocabulary = byte_vocabulary()
    seed = int(rng.integers(2**32))
    for number in range(150):
        source = random.Random(f"{seed}/{number}")
        low = source.choice([0, 0.5, -1e22, 0.1, 1e-7, 123456.789, -3])
        schema: dict[str, Any] = {
            "type": "number",
            "exclusiveMinimum": low,
            "exclusiveMaximum": low + abs(low) + 1,
        }
        grammar = compile_schema(schema, vocabulary)
        for _ in range(5):
            text = random_walk(grammar.automaton, source, patience=source.randint(0, 30))
            assert low < float(text) < schema["exclusiveMaximum"], (seed, number, text)


def test_random_bytes_are_accepted_only_as_valid_json(rng: np.random.Generator) -> None:
    """Mutated valid texts: what is still accepted must still be a valid value."""
    accepted = 0
    for source, schema, grammar in compiled(rng, 200, random_schema, lambda source: Bounds(string=60)):
        if isinstance(grammar, SchemaError):
            continue
        text = bytearray(random_walk(grammar.automaton, source, patience=20))
        for _ in range(20):
            mutant = bytearray(text)
            for _ in range(source.randint(1, 2)):
                at = source.randrange(len(mutant) + 1)
                what = source.randrange(3)
                if what == 0:
                    mutant[at:at] = bytes([source.choice(b' {}[]",:\\0123456789.eEtn\x00\xff\xc3')])
                elif what == 1:
                    del mutant[at : at + 1]
                else:
                    mutant[at : at + 1] = bytes([source.randrange(256)])
            matcher = grammar.start()
            try:
                for byte in mutant:
                    matcher.advance(byte)
                matcher.advance(256)
            except ModelError:
                continue
            assert matcher.finished
            accepted += 1
            value = json.loads(mutant.decode(), parse_float=exact)
            jsonschema.Draft202012Validator(schema).validate(value)
    assert accepted > 25


def test_a_token_is_in_the_mask_exactly_when_advance_takes_it(rng: np.random.Generator) -> None:
    vocabulary, _ = smollm()
    source = random.Random(int(rng.integers(2**32)))
    checked = 0
    for _ in range(25):
        schema = random_schema(source)
        try:
            grammar = compile_schema(schema, vocabulary, bounds=Bounds(string=30))
        except SchemaError:
            continue
        matcher = grammar.start()
        for _ in range(60):
            mask = matcher.mask()
            flags = np.unpackbits(mask.view(np.uint8), bitorder="little")[: len(vocabulary)]
            legal = np.flatnonzero(flags).tolist()
            assert legal or matcher.finished, schema
            if not legal:
                break
            for token in [
                *source.sample(range(len(vocabulary)), 10),
                *source.sample(legal, min(5, len(legal))),
            ]:
                other = matcher.fork()
                try:
                    other.advance(token)
                    taken = True
                except ModelError:
                    taken = False
                assert taken == bool(flags[token]), (schema, vocabulary.tokens[token])
                checked += 1
            matcher.advance(source.choice(legal))
    assert checked > 1000


def test_masks_at_every_count_equal_a_walk_token_by_token(rng: np.random.Generator) -> None:
    """Counts are classed for the cache; near the limits the classes must change at the right count."""
    vocabulary, _ = smollm()
    schema = {"type": "string", "minLength": 3, "maxLength": 90}
    grammar = compile_schema(schema, vocabulary)
    matcher = grammar.start()
    assert vocabulary.encode is not None
    matcher.advance(vocabulary.encode('"')[0])
    letter = vocabulary.encode("é")[0]
    tokens = [(i, vocabulary.tokens[i]) for i in rng.choice(len(vocabulary), 3000, replace=False).tolist()]
    tokens = [(i, t) for i, t in tokens if i not in vocabulary.special]
    long = [(i, t) for i, t in enumerate(vocabulary.tokens) if len(t) > 40 and i not in vocabulary.special]
    for count in range(90):
        flags = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")
        for i, t in [*tokens, *long]:
            here: tuple[int, Frame] | None = (matcher._state, matcher._frame)
            for byte in t:
                here = here and grammar.automaton.step(here[0], here[1], byte)
            assert bool(flags[i]) == (here is not None), (count, t)
        matcher.advance(letter)


@pytest.mark.parametrize("kind", ["string", "array"])
def test_lengths_of_schemas_that_meet_and_leave_nothing_are_a_contradiction(kind: str) -> None:
    low, high = ("minLength", "maxLength") if kind == "string" else ("minItems", "maxItems")
    short, long = {"type": kind, high: 1}, {"type": kind, low: 7}
    by_name = {"properties": {"x-1": short}, "required": ["x-1"], "patternProperties": {"^x-": long}}
    for schema in ({"allOf": [short, long]}, {"type": "object", **by_name}):
        with pytest.raises(SchemaError):
            compile_schema(schema, byte_vocabulary())
    fits = compile_schema(
        {"allOf": [short, {"type": kind, low: 1}]}, byte_vocabulary(), bounds=Bounds(depth=2)
    )
    assert random_walk(fits.automaton, random.Random(5))
