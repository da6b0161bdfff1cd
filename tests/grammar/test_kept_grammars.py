"""Turn grammars that were compiled before: the same automaton from the disk, without what compiles."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from grammar_schemas import random_schema

from kogagent.disk_cache import DiskCache
from kogagent.engine import grammar as grammars
from kogagent.engine.backend import TokenGrammar
from kogagent.engine.grammar import Grammar, bodies, trie
from kogagent.engine.grammar import compile as compilers
from kogagent.engine.grammar.automaton import Automaton
from kogagent.engine.grammar.trie import TokenTrie
from kogagent.errors import SchemaError
from kogagent.local.grammars import turn_grammar
from kogagent.local.recent import Recent
from kogagent.spec import HERMES, MISTRAL, CallFormat, Vocabulary

BYTES = Vocabulary(
    (*(bytes([b]) for b in range(256)), b"<|end|>", b"ab", b"<tool_call>"), frozenset({256, 258}), (256,)
)
OPTIONS: dict[str, Any] = {"tool_choice": "auto", "max_calls": 3, "output_schema": None, "fallback": False}


def _tools(rng: random.Random) -> dict[str, Any]:
    return {
        f"tool_{i}": {"type": "object", "properties": {"a": random_schema(rng, 1)}, "required": ["a"]}
        for i in range(rng.randint(1, 3))
    }


@pytest.fixture
def disk(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "kept", limit=1 << 30)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each grammar that is compiled."""
    made: list[int] = []
    real = grammars.compile_turn

    def compile_turn(*arguments: Any, **options: Any) -> Any:
        made.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(grammars, "compile_turn", compile_turn)
    return made


def test_a_kept_grammar_is_the_compiled_one(
    disk: DiskCache, rng: np.random.Generator, compiled: list[int]
) -> None:
    draw = random.Random(int(rng.integers(1 << 31)))
    count = 0
    for choice in ("auto", "required", "none", "tool_0"):
        for form in (HERMES, MISTRAL):
            tools, options = _tools(draw), {**OPTIONS, "tool_choice": choice}
            try:
                first = turn_grammar(tools, BYTES, form, disk=disk, **options)
            except SchemaError:  # a random schema may be empty
                compiled.clear()
                continue
            count += 1
            found = turn_grammar(tools, BYTES, form, disk=disk, **options)
            assert isinstance(first, Grammar) and isinstance(found, Grammar)
            assert (len(compiled), found is first) == (1, False)
            compiled.clear()
            a, b = first.automaton, found.automaton
            assert [dict(row) for row in a.rows] == b.rows
            assert [list(row) for row in a.rows] == [list(row) for row in b.rows]  # in the same order
            assert [tuple(site) for site in a.sites] == b.sites
            for name in ("final", "start", "frames", "library", "bodies"):
                assert getattr(a, name) == getattr(b, name), name
            assert dict(a.need) == dict(b.need)
            assert (found.digest, found.notes) == (first.digest, first.notes)
            one, other = first.start(), found.start()
            for _ in range(40):
                if one.finished:
                    break
                assert np.array_equal(one.mask(), other.mask())
                assert one.forced() == other.forced()
                legal = np.flatnonzero(np.unpackbits(one.mask().view(np.uint8), bitorder="little"))
                token = draw.choice(one.forced()[:1] or legal.tolist())
                one.advance(token)
                other.advance(token)
            assert one.finished == other.finished
    assert count >= 2


def test_another_argument_is_another_grammar(disk: DiskCache, compiled: list[int]) -> None:
    tools = {"add": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
    other = {"add": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}}
    wider = Vocabulary((*BYTES.tokens, b"abc"), BYTES.special, BYTES.end_ids)
    digests = set()
    cases: list[tuple[dict[str, Any], Vocabulary, CallFormat, dict[str, Any]]] = [
        (tools, BYTES, HERMES, {}),
        (other, BYTES, HERMES, {}),
        (tools, wider, HERMES, {}),
        (tools, BYTES, MISTRAL, {}),
        (tools, BYTES, HERMES, {"tool_choice": "required"}),
        (tools, BYTES, HERMES, {"max_calls": 4}),
        (tools, BYTES, HERMES, {"output_schema": {"type": "integer"}}),
    ]
    for count, (some, words, form, changed) in enumerate(cases, 1):
        for _ in range(2):
            grammar = turn_grammar(some, words, form, disk=disk, **{**OPTIONS, **changed})
            assert isinstance(grammar, Grammar)
            digests.add(grammar.digest)
        assert (len(compiled), len(digests), len(disk.entries("grammar"))) == (count, count, count)


def test_the_newest_are_kept_in_memory_too(disk: DiskCache, compiled: list[int]) -> None:
    recent: Recent[TokenGrammar] = Recent(2)
    tools = [
        {"add": {"type": "object", "properties": {"a": {"type": "integer", "maximum": most}}}}
        for most in (1, 2, 3)
    ]

    def grammar(number: int) -> TokenGrammar:
        return turn_grammar(tools[number], BYTES, HERMES, disk=disk, recent=recent, **OPTIONS)

    first, second = grammar(0), grammar(1)
    assert grammar(0) is first and len(compiled) == 2
    grammar(2)  # the second makes room
    assert grammar(0) is first
    assert grammar(1) is not second and len(compiled) == 3, "it was to be found on disk"
    with pytest.raises(SchemaError):
        turn_grammar({"add": {"enum": [object()]}}, BYTES, HERMES, disk=None, recent=recent, **OPTIONS)


def test_what_is_refused_or_handed_on_or_damaged_is_not_taken_from_there(
    disk: DiskCache, compiled: list[int], rng: np.random.Generator
) -> None:
    bad = {"add": {"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 0}}}}
    for count in (1, 2):
        with pytest.raises(SchemaError, match="multipleOf"):
            turn_grammar(bad, BYTES, HERMES, disk=disk, **OPTIONS)
        assert len(compiled) == count
    with pytest.raises(SchemaError):
        turn_grammar({"add": {"enum": [object()]}}, BYTES, HERMES, disk=disk, **OPTIONS)
    assert disk.entries() == []
    good = {"add": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    compiled.clear()
    turn_grammar(good, BYTES, HERMES, disk=disk, **OPTIONS)
    (entry,) = disk.entries("grammar")
    whole = entry.path.read_bytes()
    data = bytearray(whole)
    data[4096 + int(rng.integers(24))] ^= 1
    entry.path.write_bytes(data)
    turn_grammar(good, BYTES, HERMES, disk=disk, **OPTIONS)
    assert (len(compiled), entry.path.read_bytes()) == (2, whole)
    disk.put("grammar", entry.path.name.removeprefix("grammar-").removesuffix(".kept"), {"rows": 1}, {})
    turn_grammar(good, BYTES, HERMES, disk=disk, **OPTIONS)
    turn_grammar(good, BYTES, HERMES, disk=disk, **OPTIONS)
    assert (len(compiled), entry.path.read_bytes()) == (3, whole)
    turn_grammar(good, BYTES, HERMES, disk=None, **OPTIONS)
    assert len(compiled) == 4


def test_what_tokens_do_inside_strings_is_kept_too(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    tools = {"say": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}}
    walked: list[int] = []
    real = bodies.walked

    def walk(automaton: Automaton, tree: TokenTrie, state: int) -> dict[str, npt.NDArray[Any]]:
        walked.append(state)
        return real(automaton, tree, state)

    monkeypatch.setattr(bodies, "walked", walk)

    def masks(disk: DiskCache | None) -> list[bytes]:
        """Those of a call, in a process that knows none."""
        monkeypatch.setattr(trie, "_TRIES", type(trie._TRIES)())
        monkeypatch.setattr(compilers, "_CACHE", type(compilers._CACHE)())
        trie.trie_of(BYTES).disk = disk
        matcher = turn_grammar(
            tools, BYTES, HERMES, disk=None, **{**OPTIONS, "tool_choice": "required"}
        ).start()
        out: list[bytes] = []
        while run := matcher.forced():
            for token in run:
                matcher.advance(token)
        for byte in b"xy":
            out.append(matcher.mask().tobytes())
            matcher.advance(byte)
        return out

    wanted = masks(None)
    count = len(walked)
    assert count > 0 and disk.entries() == []
    assert masks(disk) == wanted and len(walked) == 2 * count
    assert masks(disk) == wanted and len(walked) == 2 * count
    (entry, *_) = disk.entries("body")
    data = bytearray(entry.path.read_bytes())
    data[4096 + int(rng.integers(100))] ^= 1
    entry.path.write_bytes(data)
    assert masks(disk) == wanted and len(walked) == 2 * count + 1


def test_walking_loads_nothing_that_compiles() -> None:
    code = (
        "import sys, kogagent.local.grammars, kogagent.engine.backends.native\n"
        "names = [n.split('.')[3] for n in sys.modules if n.startswith('kogagent.engine.grammar.')]\n"
        "walks = 'automaton bodies compiled forced matcher spelling tables trie walker'.split()\n"
        "print(sorted(set(names) - set(walks)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
