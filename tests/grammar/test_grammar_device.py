"""The device's grammar program, compiled for this machine, against the host's matcher: masks, runs, steps."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from grammar_schemas import random_schema
from grammar_twin import Twin
from grammar_vocabularies import byte_vocabulary, qwen_like, smollm

from kogagent.engine.backends import grammar_memory
from kogagent.engine.backends.device_grammar import (
    ASK,
    FIRST_RUN,
    FREE,
    LAST,
    DeviceGrammar,
    vocabulary_blob,
)
from kogagent.engine.backends.grammar_memory import Grammars
from kogagent.engine.grammar import (
    Bounds,
    Grammar,
    Matcher,
    compile_choices,
    compile_ebnf,
    compile_regex,
    compile_schema,
    compile_turn,
)
from kogagent.engine.grammar.tables import make_tables
from kogagent.errors import SchemaError
from kogagent.kernels.params import FRAMES, RUN
from kogagent.spec import HERMES, SMOLLM2, Vocabulary


def flags_of(mask: npt.NDArray[np.uint32], size: int) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    out = np.zeros(size, np.bool_)
    out[: len(bits)] = bits[:size]
    return out


def run_of(device: DeviceGrammar, verdict: int) -> tuple[list[int], int]:
    """The ids and what holds behind them, as the arrays say."""
    run = device.learned.view("runs", RUN, verdict - FIRST_RUN + 1)[verdict - FIRST_RUN]
    ids = device.learned.view("run_ids", np.int32, int(run["first"]) + int(run["count"]))
    return ids[int(run["first"]) :].tolist(), int(run["then"])


def expect(device: DeviceGrammar, before: Matcher, token: int, verdict: int, unknown: set[int]) -> bool:
    """What the matcher says of one legal id is what its verdict says; whether a run follows. unknown: takes
    the ids behind which a device asks each time."""
    matcher = before.fork()
    matcher.advance(token)
    if matcher.finished:
        assert verdict == LAST
        return False
    run = matcher.forced()
    if verdict == FREE:
        assert run == ()
    elif verdict >= FIRST_RUN:
        ids, then = run_of(device, verdict)
        assert ids
        while ids:
            assert tuple(ids[: len(run)]) == run and run
            for forced in run:
                matcher.advance(forced)
            ids = ids[len(run) :]
            run = () if matcher.finished else matcher.forced()
        assert then == (LAST if matcher.finished else FREE) and run == ()
        return True
    else:
        assert verdict == ASK
        automaton, (state, frame) = device.grammar.automaton, matcher.place[:2]
        assert len(list(automaton.legal(state, frame))) == 1, "asked although there is a choice"
        if device.learn(matcher) is None:
            unknown.add(token)
    return False


def follow(grammar: Grammar, rng: random.Random, limit: int) -> tuple[int, int]:
    """Walk both by random ids and compare all they say; how many masks and runs were compared."""
    try:
        device = DeviceGrammar(grammar)
    except SchemaError as error:
        assert "deep" in str(error)
        return 0, 0
    for _ in range(rng.choice([0, 40])):
        device.look_ahead()
    twin = Twin(device)
    matcher = grammar.start()
    masks = runs = 0
    while not matcher.finished and masks < limit:
        forced = matcher.forced()
        if forced:
            for token in forced:
                matcher.advance(token)
                twin.take(token)
            continue
        legal = flags_of(matcher.mask(), len(twin.verdicts()))
        got = twin.verdicts()
        wrong = np.flatnonzero((got != 0) != legal)
        assert not wrong.size, (wrong[:5], got[wrong[:5]], matcher.place[:2])
        masks += 1
        ids = np.flatnonzero(legal)
        if not ids.size:
            break
        special = [i for i in ids if int(got[i]) != FREE]
        unknown: set[int] = set()
        some = {int(i) for i in rng.sample(special, min(8, len(special)))}
        some |= {int(i) for i in rng.sample(ids.tolist(), min(4, len(ids)))}
        for token in some:
            runs += expect(device, matcher, token, int(got[token]), unknown)
        if special:  # what was asked is known now
            again = twin.verdicts()
            assert all(int(again[token]) != ASK for token in some - unknown)
            for token in some:
                runs += expect(device, matcher, token, int(again[token]), unknown)
        special = [i for i in special if int(got[i]) != LAST]
        open_ids = [i for i in ids if int(got[i]) != LAST] if rng.random() < 0.9 else []
        token = int(rng.choice(special if special and rng.random() < 0.6 else open_ids or list(ids)))
        matcher.advance(token)
        twin.take(token)
        state, frame = matcher.place[:2]
        assert int(twin.at["state"][0]) == device.tables.states[state]
        stack = device.frames(frame)
        top = int(twin.at["top"][0])
        mine = zip(
            twin.at["site"][0][: top + 1].tolist(), twin.at["count"][0][: top + 1].tolist(), strict=True
        )
        assert list(mine) == stack
    return masks, runs


VOCABULARIES: list[Callable[[], tuple[Vocabulary, Any]]] = [
    smollm,
    qwen_like,
    lambda: (byte_vocabulary(), None),
]


@pytest.mark.parametrize("source", VOCABULARIES, ids=["smollm", "qwen", "bytes"])
def test_masks_runs_and_steps_of_random_schemas_are_the_matchers(
    source: Callable[[], tuple[Vocabulary, Any]], rng: np.random.Generator
) -> None:
    vocabulary, _ = source()
    rand = random.Random(int(rng.integers(2**32)))
    masks = runs = 0
    while masks < 36 or runs < 4:
        try:
            grammar = compile_schema(
                random_schema(rand), vocabulary, bounds=Bounds(string=rand.choice([12, 40, 4096]))
            )
        except SchemaError:
            continue
        found = follow(grammar, rand, 12)
        masks, runs = masks + found[0], runs + found[1]


@pytest.mark.parametrize("source", VOCABULARIES, ids=["smollm", "qwen", "bytes"])
def test_masks_runs_and_steps_of_turns_and_other_grammars_are_the_matchers(
    source: Callable[[], tuple[Vocabulary, Any]], rng: np.random.Generator
) -> None:
    """Free text with its trigger, calls, thoughts, special ids, patterns, choices, rules that nest."""
    vocabulary, _ = source()
    rand = random.Random(int(rng.integers(2**32)))
    tools = {
        name: {"type": "object", "properties": {"a": random_schema(rand, 1)}} for name in ("add", "ping")
    }
    thoughts = replace(HERMES, think_begin="<think>", think_end="</think>", think_gap="\n\n")
    grammars = [
        compile_turn(tools, vocabulary, tool_choice="required", max_calls=2),
        compile_turn(tools, vocabulary, rand.choice([HERMES, SMOLLM2])),
        compile_turn(tools, vocabulary, thoughts, bounds=Bounds(thoughts=rand.choice([3, 500]))),
        compile_turn({}, vocabulary),
        compile_choices(["yes", "yes, but", "no", "größe"], vocabulary),
        compile_regex(r"(ab|a[b-d]{2,30})*x{3}|[0-9]{2,9}\\.", vocabulary),
        compile_ebnf('start: "(" (start ("," start)*)? ")" | /[a-z]{1,4}/', vocabulary, depth=5),
    ]
    masks = sum(follow(grammar, rand, 15)[0] for grammar in grammars)
    assert masks > 20


def test_counts_near_their_bounds_and_far_from_them_are_told_apart(rng: np.random.Generator) -> None:
    """Strings and arrays whose bounds lie around the reach of one token."""
    vocabulary, _ = smollm()
    rand = random.Random(int(rng.integers(2**32)))
    for _ in range(6):
        least = rand.choice([0, 1, 16, 17, 18, 40])
        most = least + rand.choice([0, 1, 2, 16, 17, 18, 60])
        text = {"type": "string", "minLength": least, "maxLength": most}
        items = {
            "type": "array",
            "items": {"enum": ["a", "b"]},
            "minItems": least // 4,
            "maxItems": most // 4 + 1,
        }
        grammar = compile_schema({"type": "object", "properties": {"t": text, "i": items}}, vocabulary)
        follow(grammar, rand, 25)


def test_a_call_asks_for_nothing_once_the_host_has_looked_ahead(rng: np.random.Generator) -> None:
    """The ids a tokenizer writes of a call; from the grammar's start and from where a walk stands."""
    vocabulary, _ = smollm()
    rand = random.Random(int(rng.integers(2**32)))
    units, cities = ["celsius", "fahrenheit"], ["Oslo", "Bergen", "Rome"]
    properties = {
        "city": {"enum": cities},
        "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,9}$"},
        "street": {"type": "string", "maxLength": 90},
        "unit": {"enum": units},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "exact": {"type": "boolean"},
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    grammar = compile_turn({"get_weather": schema, "ping": {}}, vocabulary, tool_choice="required")
    values = [rand.choice(cities), "Ola", "Karl Johans gate 1", rand.choice(units), rand.randint(1, 14)]
    arguments = dict(zip(properties, [*values, rand.random() < 0.5], strict=True))
    call = HERMES.prefix + "get_weather" + HERMES.middle + json.dumps(arguments) + HERMES.suffix
    assert vocabulary.encode is not None
    ids = list(vocabulary.encode(HERMES.begin + call + HERMES.end))

    def asks(first: int, each: int) -> int:
        device, matcher = DeviceGrammar(grammar), grammar.start()
        for _ in range(first):
            device.look_ahead()
        whole = not device.look_ahead()
        twin, found = Twin(device), 0
        for token in ids:
            free = not matcher.forced()
            if free:
                found += twin.verdict(token) == ASK
                assert not whole or ASK not in twin.verdicts(), (
                    "of any id, also of one that the text does not take"
                )
            matcher.advance(token)
            twin.take(token)
            if free:
                device.turn_to(matcher)
                for _ in range(each):
                    device.look_ahead()
        return found

    assert asks(0, 0) >= 5
    assert asks(900, 0) == 0
    assert asks(20, 20) == 0


@pytest.mark.parametrize("pattern", ["[ -~]*", "a*", "(ab|a)*b?", "(a|[b-z]{2})*"])
def test_looking_ahead_ends_where_a_text_lies_behind_itself(pattern: str) -> None:
    device = DeviceGrammar(compile_regex(pattern, byte_vocabulary(), max_length=2000))
    assert any(not device.look_ahead() for _ in range(5000))


def test_a_frame_too_many_keeps_a_grammar_on_the_host() -> None:
    vocabulary = byte_vocabulary()
    DeviceGrammar(compile_ebnf('start: "(" start? ")"', vocabulary, depth=FRAMES - 2))
    with pytest.raises(SchemaError, match=r"nests \d+ frames deep, a device holds"):
        DeviceGrammar(compile_ebnf('start: "(" start? ")"', vocabulary, depth=FRAMES + 2))


def test_a_token_too_long_for_the_table_keeps_a_vocabulary_on_the_host() -> None:
    vocabulary = byte_vocabulary()
    assert vocabulary_blob(vocabulary) is not None
    tokens = (*vocabulary.tokens[:256], b"x" * 256, b"<end>")
    assert vocabulary_blob(Vocabulary(tokens, frozenset({257}), (257,))) is None


def test_what_is_learned_while_a_kernel_runs_is_shown_where_the_kernel_looks() -> None:
    grammar = compile_choices(["north", "south", "norway"], byte_vocabulary())
    memory = Grammars([torch.device("cpu")]).find(grammar.start())
    assert memory is not None
    record = memory.place(grammar.start()).tables[0]
    (learned,) = memory._learned
    before = learned.clone()
    assert int(record["known"]) == learned.data_ptr()
    steps = 0
    while memory.look_ahead():
        steps += 1
        told = learned.numpy().tobytes() == memory.grammar.learned.bytes.tobytes()
        assert told or steps % grammar_memory._SHOWN_EVERY, "some steps are shown together, and no more"
    assert memory._learned[0] is learned and not torch.equal(learned, before)
    assert learned.numpy().tobytes() == memory.grammar.learned.bytes.tobytes()
    matcher = grammar.start()
    for byte in b"nort":
        matcher.advance(byte)
    assert memory.grammar.learn(matcher) in memory.grammar.known().values()


def test_what_is_learned_survives_growth_and_is_learned_once() -> None:
    vocabulary = byte_vocabulary()
    words = [f"{i:03d}" + "x" * (i % 7) for i in range(600)]
    device = DeviceGrammar(compile_choices(words, vocabulary))
    matchers = []
    for word in words:
        matcher = device.grammar.start()
        for byte in word.encode()[:3]:
            matcher.advance(byte)
        matchers.append(matcher)
        before, memory = device.version, device.learned
        if device.learn(matcher) is None:
            assert device.version == before and not device.look_ahead(), "no room before the next launch"
            assert device.learned is memory, "a kernel may be reading it"
            device.make_room()
            assert device.learned is not memory
        assert device.version > before
    version = device.version
    for word, matcher in zip(words, matchers, strict=True):
        device.learn(matcher)
        twin = Twin(device)
        for byte in word.encode()[:2]:
            twin.take(byte)
        verdict = int(twin.verdicts()[ord(word[2])])
        ids, then = run_of(device, verdict)
        assert ids == [*word.encode()[3:], 256] and then == LAST
    assert device.version == version


def test_a_state_with_room_for_two_symbols_is_never_forced() -> None:
    """`choice_rooms`: a string's character counts one, so a frame with that much room has a choice."""
    tables = make_tables(compile_schema({"type": "string", "maxLength": 5}, byte_vocabulary()).automaton)
    rooms = tables.choice_rooms
    assert set(rooms[: tables.lone].tolist()) == {0x7FFF}
    found = rooms[tables.lone :]
    assert 1 in found and (found[found != 0x7FFF] <= 5).all()
