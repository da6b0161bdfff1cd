"""What @tool promises, the grammar enforces: each schema compiles, and what a model may write is accepted."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tool_kinds import KINDS

from kogagent import Tool, tool
from kogagent.engine.grammar import Bounds, Matcher, compile_schema
from kogagent.engine.sampling import legal_mask
from kogagent.spec import Vocabulary

BYTES = Vocabulary((*(bytes([i]) for i in range(256)), b"<end>"), frozenset({256}), (256,))
SMALL = Bounds(string=24, items=4, properties=3, key=6, depth=2, recursion=2)


def one_parameter(annotation: Any) -> Tool[..., Any]:
    def take(x: Any) -> None: ...

    take.__annotations__["x"] = annotation
    return tool(take)


def written(schema: Mapping[str, Any], choose: random.Random) -> str:
    """A text the grammar allows, byte by byte; ends are preferred, so that it stays short."""
    matcher: Matcher = compile_schema(schema, BYTES, bounds=SMALL).start()
    out = bytearray()
    while not matcher.finished:
        legal = np.flatnonzero(legal_mask(matcher.mask(), len(BYTES))).tolist()
        ends = [i for i in legal if i in (*b'"]}', 256)]
        token = choose.choice(ends if ends and choose.random() < 0.3 else legal)
        matcher.advance(token)
        if token < 256:
            out.append(token)
        assert len(out) < 5000
    return out.decode()


@pytest.mark.parametrize("annotation", [kind[0] for kind in KINDS], ids=[str(kind[0]) for kind in KINDS])
def test_what_the_grammar_lets_a_model_write_is_delivered(annotation: Any, rng: np.random.Generator) -> None:
    made = one_parameter(annotation)
    choose = random.Random(int(rng.integers(2**32)))
    for _ in range(12):
        text = written(made.spec.parameters, choose)
        made.signature.read(text)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [(kind[0], kind[2]) for kind in KINDS],
    ids=[str(kind[0]) for kind in KINDS],
)
def test_the_grammar_lets_a_model_write_an_ordinary_value(annotation: Any, text: str) -> None:
    made = one_parameter(annotation)
    matcher = compile_schema(made.spec.parameters, BYTES).start()
    for byte in ('{"x": ' + text.replace("\\u00e9", "é") + "}").encode():
        matcher.advance(byte)
    matcher.advance(256)
    assert matcher.finished
