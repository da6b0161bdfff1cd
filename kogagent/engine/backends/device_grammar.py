"""A grammar as a device holds it: arrays in two pieces of memory, and the forced runs learned so far.

Knows grammars and the structs of kernels/params.py; no device. The kernel finds by itself which ids are legal
(csrc/grammar.cuh); the ids of a forced run are the tokenizer's, so they are found here, once for each class
of configurations, and kept. They are looked for ahead of the text, while the kernel runs, and shown to it;
where it is first all the same, it waits and the host answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.ahead import look_ahead
from kogagent.engine.grammar.automaton import COUNT, END, FINISHED, SPECIAL, Automaton, Frame
from kogagent.engine.grammar.forced import Config
from kogagent.engine.grammar.matcher import Grammar, Matcher
from kogagent.engine.sampling import splitmix64
from kogagent.errors import SchemaError
from kogagent.kernels.params import FRAMES, GRAMMAR, RELAY, RUN
from kogagent.spec import Vocabulary

ILLEGAL, FREE, ASK, LAST, FIRST_RUN, ANSWER_RUN = 0, 1, 2, 3, 4, 0x1FFF
"""Verdicts of csrc/grammar.cuh: not legal, a choice follows, the host must be asked, the text ends, run 0
follows, what the host has answered follows."""

_VERDICTS = 1 << 13
_MOST_RUNS = ANSWER_RUN - FIRST_RUN
_MOST_TEXT = 1 << 24
_KEPT_FRAMES = 1 << 14
_KEPT_STARTS = 1 << 10

Bytes = npt.NDArray[np.uint8]


class Blob:
    """Named arrays behind each other in one piece of memory, each at a multiple of 16 bytes."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self.offsets: dict[str, int] = {}
        size = 0
        for name, array in arrays.items():
            self.offsets[name] = size
            size += -(-max(array.nbytes, 1) // 16) * 16
        self.bytes: Bytes = np.zeros(size, np.uint8)
        for name, array in arrays.items():
            self.view(name, array.dtype, array.size)[:] = array.reshape(-1)

    def view(self, name: str, dtype: npt.DTypeLike, size: int) -> npt.NDArray[Any]:
        at = self.offsets[name]
        return self.bytes[at : at + size * np.dtype(dtype).itemsize].view(dtype)


def vocabulary_blob(vocabulary: Vocabulary) -> Blob | None:
    """tokens and bytes of the kernel's Grammar; None where a token is longer than 255 bytes."""
    words = np.zeros(len(vocabulary), np.uint32)
    text = bytearray()
    for i, token in enumerate(vocabulary.tokens):
        if i in vocabulary.end_ids:
            words[i] = 1
        elif i in vocabulary.special:
            words[i] = 2
        elif token:
            if len(token) > 255 or len(text) >= _MOST_TEXT:
                return None
            words[i] = len(text) | len(token) << 24
            text += token
    return Blob({"tokens": words, "bytes": np.frombuffer(bytes(text) or b"\0", np.uint8)})


class DeviceGrammar:
    """One grammar's arrays. Raises SchemaError, saying why, for a grammar that must stay on the host.

    fixed, learned: the two pieces of memory. `learned` has other bytes whenever
    `version` has grown: what is in it stays as it is. It is another object only after `make_room`. `known`
    comes first in it: a reader that takes the rest before it never finds a key whose run it does not have.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._automaton: Automaton = grammar.automaton
        tables = self.tables = grammar.walker.tables
        if tables.depth > FRAMES:
            raise SchemaError(f"the grammar nests {tables.depth} frames deep, a device holds {FRAMES}")
        info = (
            tables.need.astype(np.uint32) | tables.choice_rooms << 16 | tables.final.astype(np.uint32) << 31
        )
        self.fixed = Blob(
            {
                "lone": tables.lone_code.astype(np.uint32) | tables.lone_move.astype(np.uint32) << 16,
                "moves": tables.moves,
                "byte_class": tables.byte_class,
                "special_ids": tables.special_ids,
                "states": info,
                "sites": tables.site_entry.astype(np.uint32) | tables.site_follow.astype(np.uint32) << 16,
                "bounds": np.stack([tables.site_least, tables.site_most], 1),
            }
        )
        self._frames_keys: dict[Frame, int] = {}
        self._starts: dict[tuple[int, Frame], npt.NDArray[np.void]] = {}  # a call begins in few places
        self.version = 0
        self._forget(1024, 8192)
        self._ahead = look_ahead(grammar, self._learn)

    def _forget(self, slots: int, ids: int) -> None:
        self._slots, self._ids = slots, ids
        self._known: dict[int, int] = {}
        self._waiting: dict[int, tuple[list[int], int]] = {}  # found no room: ids and verdict behind them
        self.runs = self._used = 0
        self.learned = Blob(
            {
                "known": np.zeros(slots, np.uint64),
                "runs": np.zeros(slots // 2, RUN),
                "run_ids": np.zeros(ids, np.int32),
            }
        )
        self._known_words = self.learned.view("known", np.uint64, slots)
        self._run_records = self.learned.view("runs", RUN, slots // 2)
        self._run_ids = self.learned.view("run_ids", np.int32, ids)
        self.version += 1

    def record(self, fixed: int, learned: int, vocabulary: int, tokens: Blob) -> npt.NDArray[np.void]:
        """The kernel's Grammar [1], for the addresses of the two pieces and of the vocabulary's."""
        out = np.zeros(1, GRAMMAR)
        for blob, address in ((self.fixed, fixed), (self.learned, learned), (tokens, vocabulary)):
            for name, offset in blob.offsets.items():
                out[name] = address + offset
        tables = self.tables
        out["lone_states"], out["classes"] = tables.lone, max(tables.moves.shape[1], 1)
        out["end_class"], out["n_special"] = tables.end_class, len(tables.special_ids)
        out["vocab"], out["slots_mask"] = len(self.grammar.trie.vocabulary), self._slots - 1
        out["reach"], out["margin"] = self.grammar.trie.reach, self.grammar.walker.margin
        return out

    def start(self, matcher: Matcher) -> npt.NDArray[np.void]:
        """The kernel's Relay [1] with the configuration of a matcher that has no run pending; read-only, the
        same for the same configuration."""
        state, frame, _ = matcher.place
        known = self._starts.get((state, frame))
        if known is not None:
            return known
        out = np.zeros(1, RELAY)
        out["state"], out["token"], out["run"] = self.tables.states[state], -1, -1
        for i, (site, count) in enumerate(self.frames(frame)):
            out["site"][0, i], out["count"][0, i] = site, count
            out["top"] = i
        out.flags.writeable = False
        if len(self._starts) >= _KEPT_STARTS:
            self._starts.clear()
        self._starts[state, frame] = out
        return out

    def frames(self, frame: Frame) -> list[tuple[int, int]]:
        """(site, count) of the frames, the lowest first, by the tables' numbers."""
        out: list[tuple[int, int]] = []
        below: Frame | None = frame
        while below is not None:
            out.append((self.tables.site_numbers[below[0]], below[1]))
            below = below[2]
        return out[::-1]

    def key(self, state: int, frame: Frame) -> int:
        """What the kernel calls this class of configurations; frame in normal form."""
        return splitmix64(self._frames_key(frame) ^ self.tables.states[state]) or 1

    def _frames_key(self, frame: Frame | None) -> int:
        if frame is None:
            return 0
        key = self._frames_keys.get(frame)
        if key is None:
            if len(self._frames_keys) >= _KEPT_FRAMES:
                self._frames_keys.clear()
            site, count, below = frame
            word = (count & 0xFFFFFFFF) << 32 | self.tables.site_numbers[site]
            key = self._frames_keys[frame] = splitmix64(self._frames_key(below) ^ word)
        return key

    def learn(self, matcher: Matcher) -> int | None:
        """Note what is forced where this matcher stands: the verdict on what leads here. None where that
        holds for no whole class, or has no room before the next launch: the kernel will ask each time."""
        state, frame, _ = matcher.place
        frame = self.grammar.walker.normal(frame)
        self._learn(state, frame)
        return self._known.get(self.key(state, frame))

    def known(self) -> dict[int, int]:
        """The verdict of each key that is noted now."""
        return dict(self._known)

    def look_ahead(self) -> bool:
        """Note what is forced in one more of the classes nearest to the last `turn_to`, the grammar's start
        at first; False where all are known or there is no room. Some tenths of a millisecond."""
        return not self._waiting and self._ahead.step()

    def turn_to(self, matcher: Matcher) -> None:
        """Look ahead from here on behind where this matcher stands."""
        state, frame, _ = matcher.place
        self._ahead.turn_to(state, frame)

    def make_room(self) -> None:
        """Room for as much again as is known, and for what found none. Only while no kernel runs: one that
        does has the arrays of now."""
        while 4 * len(self._known) > self._slots or 2 * self._used > self._ids:
            self._grow()
        waiting, self._waiting = self._waiting, {}
        for key, (ids, then) in waiting.items():
            if self.runs + 1 >= _MOST_RUNS:
                self._forget(self._slots, self._ids)
            while not self._fits(len(ids)):
                self._grow()
            self._add(key, ids, then)
            self.version += 1

    def _fits(self, ids: int) -> bool:
        """Whether there is room for one more class, with so many ids."""
        return (
            2 * (len(self._known) + 1) <= self._slots
            and self._used + ids <= self._ids
            and self.runs + 1 < _MOST_RUNS
        )

    def _learn(self, state: int, frame: Frame) -> Config | None:
        """The class behind what is forced in one; None where the text ends or that class is not certain."""
        key = self.key(state, frame)
        ids, then, behind = self._forced(state, frame)
        if key in self._known or then == ASK:
            return behind
        if not self._fits(len(ids)):
            self._waiting[key] = ids, then
            return behind
        self._add(key, ids, then)
        self.version += 1
        return behind

    def _add(self, key: int, ids: Sequence[int], then: int) -> None:
        verdict = FREE
        if ids:
            verdict = FIRST_RUN + self.runs
            self._run_ids[self._used : self._used + len(ids)] = ids
            self._run_records[self.runs] = (self._used, len(ids), then, 0)
            self.runs += 1
            self._used += len(ids)
        self._known[key] = verdict
        at = key & (self._slots - 1)
        while self._known_words[at]:
            at = (at + 1) & (self._slots - 1)
        self._known_words[at] = key - key % _VERDICTS + verdict

    def _grow(self) -> None:
        """Twice the room, with what is known so far."""
        known, waiting = self._known, self._waiting
        runs, ids = self._run_records, self._run_ids
        self._forget(2 * self._slots, 2 * self._ids)
        self._waiting = waiting
        for key, verdict in known.items():
            if verdict == FREE:
                self._add(key, (), FREE)
            else:
                run = runs[verdict - FIRST_RUN]
                first = int(run["first"])
                self._add(key, ids[first : first + int(run["count"])].tolist(), int(run["then"]))

    def _forced(self, state: int, frame: Frame) -> tuple[list[int], int, Config | None]:
        """All ids forced from a class of configurations, run after run, the verdict behind them, and the
        class there, where it is certain and the text goes on."""
        grammar = self.grammar
        ids: list[int] = []
        while True:
            entry = grammar.entry(state, frame)
            run = grammar.known_run(entry, state, frame)
            if not run:
                return ids, FREE, (state, frame)
            ids += run
            after = entry.after or self._after(state, frame, run)
            if after is None:
                return ids, ASK, None
            state, frame = after
            if state == FINISHED:
                return ids, LAST, None
            frame = grammar.walker.normal(frame)

    def _after(self, state: int, frame: Frame, run: Sequence[int]) -> tuple[int, Frame] | None:
        """The configuration behind a run; None where a count that stands for a class has grown."""
        vocabulary, automaton = self.grammar.trie.vocabulary, self._automaton
        for token in run:
            symbols: Sequence[int] = vocabulary.tokens[token]
            if token in vocabulary.end_ids:
                symbols = (END,)
            elif token in vocabulary.special:
                symbols = (SPECIAL + token,)
            for symbol in symbols:
                if self._counts_a_class(state, frame, symbol):
                    return None
                after = automaton.step(state, frame, symbol)
                assert after is not None, "a forced id is illegal"
                state, frame = after
        return state, frame

    def _counts_a_class(self, state: int, frame: Frame, symbol: int) -> bool:
        """Whether a step counts on, or leaves, a frame whose count stands for a class."""
        rows, sites = self._automaton.rows, self._automaton.sites
        while symbol not in rows[state]:
            site, _, below = frame
            assert below is not None
            state, frame = sites[site][1], below
        return bool(rows[state][symbol] & COUNT) and frame[1] < 0
