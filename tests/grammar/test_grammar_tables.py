"""The device's arrays mean what the automaton means, symbol by symbol."""

from __future__ import annotations

import random

import numpy as np
from grammar_schemas import random_schema, random_walk
from grammar_vocabularies import byte_vocabulary

from kogagent.engine.grammar import Bounds, compile_schema, compile_turn
from kogagent.engine.grammar.automaton import END, FINISHED, SPECIAL, Automaton, Frame
from kogagent.engine.grammar.tables import begin, make_tables, reached, step
from kogagent.errors import SchemaError
from kogagent.spec import HERMES

TAGGED = byte_vocabulary(b"<tool_call>", b"</tool_call>")


def agree(automaton: Automaton, symbols: list[int], rng: random.Random) -> int:
    """Walk both with some wrong symbols tried on the way; how many were compared."""
    tables = make_tables(automaton)
    states, sites = reached(automaton)
    at = begin(tables)
    state, frame = automaton.start, automaton.frames
    deepest = compared = 0
    for symbol in symbols:
        for wrong in [*rng.sample(range(256), 6), END, SPECIAL + 257, SPECIAL + 258]:
            other = begin(tables)
            other.state, other.top = at.state, at.top
            other.sites[:], other.counts[:] = at.sites, at.counts
            assert step(tables, other, wrong) == (automaton.step(state, frame, wrong) is not None)
            compared += 1
        after = automaton.step(state, frame, symbol)
        assert after is not None and step(tables, at, symbol)
        state, frame = after
        stack: list[tuple[int, int]] = []
        below: Frame | None = frame
        while below is not None:
            stack.append((sites[below[0]], below[1]))
            below = below[2]
        mine = [(int(at.sites[i]), int(at.counts[i])) for i in reversed(range(at.top + 1))]
        assert at.state == states[state] and mine == stack
        deepest = max(deepest, len(stack))
    assert deepest <= tables.depth and state == FINISHED
    assert tables.moves.dtype == np.uint16 and tables.moves.shape[1] < 256
    assert tables.lone + len(tables.moves) == len(states) == len(tables.final) == len(tables.need)
    return compared


def test_the_arrays_step_as_the_automaton_does(rng: np.random.Generator) -> None:
    rand = random.Random(int(rng.integers(2**32)))
    compared = 0
    for _ in range(25):
        try:
            automaton = compile_schema(
                random_schema(rand), byte_vocabulary(), bounds=Bounds(string=20)
            ).automaton
        except SchemaError:
            continue
        compared += agree(automaton, [*random_walk(automaton, rand, patience=20)[:2000], END], rand)
    assert compared > 1000


def test_the_arrays_carry_special_ids_and_calls(rng: np.random.Generator) -> None:
    tools = {"add": {"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}}}
    automaton = compile_turn(tools, TAGGED).automaton
    call = '\n{"name": "add", "arguments": {"a": 12, "s": "x"}}\n'
    one = [SPECIAL + 257, *call.encode(), SPECIAL + 258]
    symbols = [*b"Text, ```", *one, *b"\n", *one, END]
    agree(automaton, symbols, random.Random(int(rng.integers(2**32))))
    assert make_tables(automaton).special_ids.tolist() == [257, 258]
    assert HERMES.begin.startswith("<tool_call>")


def test_a_state_of_one_move_costs_four_bytes_and_not_a_row() -> None:
    """Twice the enumerated text must cost its bytes, not its bytes times the classes."""
    sizes = []
    for length in (500, 1000):
        text = "".join(chr(0x61 + (i * i) % 26) for i in range(length))
        tables = make_tables(compile_schema({"enum": [text, f"-{text}"]}, byte_vocabulary()).automaton)
        assert tables.lone >= length and len(tables.moves) <= 4
        sizes.append(tables.bytes)
    assert sizes[1] - sizes[0] <= 2 * 500 * (2 + 2 + 1 + 2)


def test_the_first_states_are_the_end_and_the_return_and_have_no_move() -> None:
    tables = make_tables(compile_schema({"type": "integer"}, byte_vocabulary()).automaton)
    assert tables.lone_code[:3].tolist() == [0xFFFF] * 3 and tables.lone_move[:3].tolist() == [0] * 3
    assert all(tables.move(state, code) == 0 for state in range(3) for code in range(257))
