"""A turn's grammar, compiled once and found in memory or on disk from then on. Knows an automaton's parts.

What compiles is not even imported where a grammar is found: that takes longer than most grammars.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kogagent import spec
from kogagent.disk_cache import Damaged, DiskCache, Found, sources
from kogagent.engine.backend import TokenGrammar
from kogagent.engine.grammar import automaton as automata
from kogagent.engine.grammar.automaton import Automaton, Frame
from kogagent.engine.grammar.matcher import Grammar
from kogagent.engine.grammar.trie import trie_of
from kogagent.engine.grammar.walker import Walker
from kogagent.local.recent import Recent
from kogagent.spec import CallFormat, Vocabulary

KIND = "grammar"


def turn_grammar(
    tools: Mapping[str, Mapping[str, Any]],
    vocabulary: Vocabulary,
    format: CallFormat,
    *,
    disk: DiskCache | None,
    fallback: bool,
    recent: Recent[TokenGrammar] | None = None,
    **options: Any,
) -> TokenGrammar:
    """What `compile_turn` makes of the same arguments, and the errors it raises; fallbacks are not kept.

    disk, recent: where it may lie already, and is kept.
    """
    kept_on = disk if disk is not None and disk.on else None
    key = _key([[*one] for one in tools.items()], vocabulary, format, options, kept_on)
    grammar: TokenGrammar | None = None
    if key is not None and recent is not None:
        grammar = recent.find(key)
        if grammar is not None:
            return grammar
    if key is not None and kept_on is not None:
        grammar = _found(kept_on, key, vocabulary)
    if grammar is None:
        from kogagent.engine.grammar import compile_turn

        grammar = compile_turn(tools, vocabulary, format, fallback=fallback, **options)
        if key is not None and kept_on is not None and isinstance(grammar, Grammar):
            _keep(kept_on, key, grammar)
    if key is not None and recent is not None and isinstance(grammar, Grammar):
        recent.keep(key, grammar)
    return grammar


def made_by() -> str:
    """Names what compiles."""
    return sources(Path(__file__), Path(automata.__file__).parent, Path(spec.__file__).parent)


def _key(
    tools: object, vocabulary: Vocabulary, format: CallFormat, options: object, disk: DiskCache | None
) -> str | None:
    """None for what has no name: a schema that is no JSON is the compiler's to refuse."""
    compiler = "" if disk is None else made_by()  # in memory there is but one
    told = [tools, asdict(format), options, vocabulary.digest, vocabulary.encode is not None, compiler]
    try:
        text = json.dumps(told, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _keep(disk: DiskCache, key: str, grammar: Grammar) -> None:
    table = grammar.automaton
    moves = [(state, symbol, move) for state, row in enumerate(table.rows) for symbol, move in row.items()]
    parts = {
        "moves": np.array(moves, np.int64).reshape(-1, 3),
        "final": np.array(sorted(table.final), np.int64),
        "need": np.array(list(table.need.items()), np.int64).reshape(-1, 2),
        "sites": np.array(table.sites, np.int64).reshape(-1, 4),
        "bodies": np.array(sorted(table.bodies), np.int64),
    }
    frames: list[tuple[int, int]] = []
    frame: Frame | None = table.frames
    while frame is not None:
        frames.append(frame[:2])
        frame = frame[2]
    meta = {
        "digest": grammar.digest,
        "notes": grammar.notes,
        "rows": len(table.rows),
        "start": table.start,
        "frames": frames,
        "library": table.library,
    }
    disk.put(KIND, key, meta, parts)


def _found(disk: DiskCache, key: str, vocabulary: Vocabulary) -> Grammar | None:
    found = disk.find(KIND, key)
    if found is None:
        return None
    try:
        return _grammar(found, vocabulary)
    except (Damaged, KeyError, TypeError):
        disk.drop(found)
        return None


def _grammar(found: Found, vocabulary: Vocabulary) -> Grammar:
    meta = found.meta
    rows: list[dict[int, int]] = [{} for _ in range(meta["rows"])]
    for state, symbol, move in found.part("moves").tolist():
        rows[state][symbol] = move
    frame: Frame | None = None
    for site, count in reversed(meta["frames"]):
        frame = (site, count, frame)
    if frame is None:
        raise TypeError("an automaton has a frame")
    table = Automaton(
        rows,
        frozenset(found.part("final").tolist()),
        dict(found.part("need").tolist()),
        [(entry, follow, least, most) for entry, follow, least, most in found.part("sites").tolist()],
        meta["start"],
        frame,
        meta["library"],
        frozenset(found.part("bodies").tolist()),
    )
    trie = trie_of(vocabulary)
    return Grammar(meta["digest"], tuple(meta["notes"]), table, trie, Walker(table, trie))
