"""Masks against llguidance on random schemas: equal wherever there is a choice, but for a written list."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grammar_schemas import random_schema, random_walk
from grammar_vocabularies import smollm
from jsonschema import Draft202012Validator
from llguidance import LLMatcher, LLTokenizer
from tokenizers import AddedToken, Tokenizer

from kogagent.engine.grammar import Bounds, compile_schema
from kogagent.errors import SchemaError

BOUNDS = Bounds(string=5_000, key=5_000, properties=1000, items=1000, digits=40, open_objects=True)

ESCAPE = re.compile(rb"\\(u[0-9a-fA-F]{0,3})?$")

FRACTION = re.compile(rb"\.\d*$")

EXCUSED: dict[str, tuple[str, Callable[[bytes, bytes, bool], bool]]] = {
    "delete": (
        "U+007F is legal in JSON; llguidance never writes it",
        lambda t, before, ours: ours and b"\x7f" in t,
    ),
    "canonical escapes": (
        "unnamed properties and patterns have one spelling here: no listed name comes back in disguise",
        lambda t, before, ours: not ours and (b"\\" in t or bool(ESCAPE.search(before))),
    ),
    "escapes": (
        "all nine escapes are legal here; llguidance has no \\/ and takes few \\uXXXX",
        lambda t, before, ours: ours and (b"\\u" in t or b"\\/" in t or bool(ESCAPE.search(before))),
    ),
    "escaped quote": (
        "llguidance ends a string in an escaped quote or backslash where a pattern leaves those out",
        lambda t, before, ours: not ours and t[:1] == b'"' and before[-2:] in (b'\\"', b"\\\\"),
    ),
    "trailing zero": (
        "beside a bound llguidance ends no fraction in a zero, nor goes on with one if only zeros can follow",
        lambda t, before, ours: (
            ours
            and bool(FRACTION.search(before))
            and (before[-1:] == b"0" or bool(re.match(rb"\d*0(\D|$)", t)))
        ),
    ),
    "minus zero": (
        "llguidance starts -0 where no negative number is legal",
        lambda t, before, ours: not ours and t == b"-",
    ),
    "exponent": (
        "exponents have two digits here and none beside bounds, so that every number fits a double",
        lambda t, before, ours: not ours and t[:1] in b"eE0123456789+-",
    ),
}
"""name: (why, whether it excuses one token: its bytes, the text before it, ours alone or theirs alone)."""


def bits(mask: bytes) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")).tolist())


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Any:
    vocabulary, tokenizer = smollm()
    whole = Tokenizer.from_str(tokenizer.to_str())
    names = [vocabulary.tokens[i].decode() for i in sorted(vocabulary.special)]
    whole.add_special_tokens([AddedToken(name, special=True) for name in names])
    path = Path(tmp_path_factory.mktemp("oracle")) / "tokenizer.json"
    path.write_text(whole.to_str())
    return LLTokenizer(str(path), eos_token=vocabulary.end_ids[0])


SAME_FORMATS = {"date", "uuid", "ipv4"}
"""Of the others llguidance takes spellings that are left out here on purpose: t and z in small letters, leap
seconds, quoted local parts of e-mail addresses."""


def comparable(schema: Any) -> bool:
    """llguidance clips bounds beyond 64 bits and has no multipleOf for fractions."""
    if isinstance(schema, dict):
        if "multipleOf" in schema or str(schema.get("format", "date")) not in SAME_FORMATS:
            return False
        bounds = [schema[k] for k in schema if k.lower().endswith("imum") and not isinstance(schema[k], dict)]
        return all(abs(b) < 2**53 for b in bounds) and all(map(comparable, schema.values()))
    return all(map(comparable, schema)) if isinstance(schema, list) else True


def test_a_string_does_not_end_in_what_its_pattern_leaves_out() -> None:
    """What `escaped quote` excuses is wrong there, not here."""
    vocabulary, _ = smollm()
    schema, text = {"type": "string", "pattern": r'[^"\\]$'}, r'"a\""'
    assert not Draft202012Validator(schema).is_valid(json.loads(text))
    ours = compile_schema(schema, vocabulary, bounds=BOUNDS).start()
    *ids, end = (vocabulary.tokens.index(byte.encode()) for byte in text)
    for token in ids:
        ours.advance(token)
    assert end not in bits(ours.mask().tobytes())


MANY = int(os.environ.get("KOGAGENT_ORACLE_SCHEMAS", "25"))
"""How many schemas the masks are compared on; 5000 for the record in docs/log.md."""


def test_masks_equal_the_oracles_wherever_there_is_a_choice(rng: np.random.Generator, oracle: Any) -> None:
    seen: Counter[str] = Counter()
    seed = int(rng.integers(2**32))
    number = 0
    while seen["schemas"] < MANY:
        number += 1
        assert number < 100 * MANY
        source = random.Random(f"{seed}/{number}")
        schema = random_schema(source, depth=2)
        if comparable(schema):
            compare(schema, source, oracle, seen, (seed, number))
    print(dict(seen))  # noqa: T201 - the tally of a long run, shown with -s
    assert seen["choices"] > 3 * MANY, seen


def test_masks_equal_the_oracles_on_the_tools_of_bfcl(rng: np.random.Generator, oracle: Any) -> None:
    """Public function-calling requests: every tool's schema, as many of them as there are random schemas."""
    found = importlib.util.find_spec("bfcl_eval")
    if found is None or found.origin is None:
        pytest.skip("needs the data of a package: pip install --no-deps bfcl-eval")
    from benchmarks.grammar import load

    tools = {
        json.dumps(schema): schema
        for name in ("simple_python", "multiple", "parallel", "live_multiple")
        for request in load(name)
        for schema in request.tools.values()
    }
    seed = int(rng.integers(2**32))
    chosen = random.Random(seed).sample(list(tools.values()), min(MANY, len(tools)))
    seen: Counter[str] = Counter()
    for number, schema in enumerate(chosen):
        if comparable(schema):
            compare(schema, random.Random(f"{seed}/{number}"), oracle, seen, (seed, number))
    print(dict(seen))  # noqa: T201 - the tally of a long run, shown with -s
    assert seen["schemas"] > 0.8 * len(chosen), seen


def compare(schema: Any, source: random.Random, oracle: Any, seen: Counter[str], where: Any) -> None:
    """Walk a random text of the schema and compare the masks at every choice."""
    vocabulary, _ = smollm()
    assert vocabulary.encode is not None
    options: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    theirs = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=options)
    if LLMatcher.validate_grammar(theirs, oracle):
        seen["refused by llguidance"] += 1
        return
    try:
        grammar = compile_schema(schema, vocabulary, bounds=BOUNDS)
    except SchemaError:
        seen["refused here"] += 1
        return
    seen["schemas"] += 1
    text = random_walk(grammar.automaton, source, patience=30).decode()
    ids = [*vocabulary.encode(text), vocabulary.end_ids[0]][:120]
    ours, other = grammar.start(), LLMatcher(oracle, theirs)
    for at, token in enumerate(ids):
        run = ours.forced()
        before = vocabulary.decode(ids[:at])
        if run:
            assert run[0] == token, (schema, text, at)
        else:
            seen["choices"] += 1
            left, right = ours.mask().tobytes(), other.compute_bitmask()
            same = left == right
            mine, yours = (set[int](), set[int]()) if same else (bits(left), bits(right))
            # Where the next bytes are certain, llguidance leaves only the longest token of them.
            narrowed = bool(other.compute_ff_bytes())
            for extra, is_ours in ((mine - yours, True), (yours - mine, False)):
                if is_ours and narrowed:
                    continue
                for i in extra:
                    piece = vocabulary.tokens[i]
                    excuse = next((n for n, (_, ok) in EXCUSED.items() if ok(piece, before, is_ours)), None)
                    assert excuse is not None, (where, is_ours, piece, before, schema)
                    seen[excuse] += 1
        ours.advance(token)
        if not other.consume_token(token):
            # Only what is excused may be refused there: a byte or an escape it does not write, a number.
            known = b"\x7f" in vocabulary.tokens[token] or ESCAPE.search(before)
            assert known or before[-1:] in b"0123456789.-+eE", (where, before, token)
            break
