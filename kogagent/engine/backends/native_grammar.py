"""A grammar in the CPU program: its tables, what the program has learnt, the way there and back. No model.

The program walks and finds masks and runs of configurations it has met; those it has not met come from the
host's grammar, once each, so that both say the same by construction.
"""

from __future__ import annotations

import ctypes
from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.automaton import END, FINISHED, Frame
from kogagent.engine.grammar.compiled import table_arguments
from kogagent.engine.grammar.matcher import Grammar, Matcher
from kogagent.errors import DeviceError
from kogagent.kernels.cpu import library

_RUN_ROOM = 1024  # ids of a run that are copied at a time


class NativeGrammar:
    """One grammar for any number of walks, all on one thread. Raises SchemaError where the tables cannot
    hold it, DeviceError where memory is not to be had."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._c = library.load()
        self._handle: int | None = None
        tables = grammar.walker.tables
        self.state_number, self.site_number = tables.states, tables.site_numbers
        self.state_at, self.site_at = list(tables.states), list(tables.site_numbers)
        self.depth = max(1, tables.depth)
        vocabulary = grammar.trie.vocabulary
        text, first = grammar.trie.spelled
        codes = np.where(np.diff(first) > 0, library.BYTES, library.NEVER).astype(np.uint32)
        for i in vocabulary.special:
            code = tables.code_of(END + 1 + i)
            codes[i] = library.NEVER if code is None else code
        codes[list(vocabulary.end_ids)] = END
        self._tables, self._kept = table_arguments(
            tables, grammar.trie.reach, grammar.walker.margin, (codes, first, text)
        )
        self._handle = self._c.kog_open_grammar(ctypes.byref(self._tables))
        if self._handle is None:
            raise DeviceError("the CPU program found no memory for a grammar")

    @property
    def handle(self) -> int | None:
        return self._handle

    def close(self) -> None:
        if self._handle is not None:
            self._c.kog_close_grammar(self._handle)
        self._handle = None

    def __del__(self) -> None:
        self.close()

    def learn(self, walk: NativeWalk) -> None:
        """Tell the program what the host's grammar says of a walk's configuration."""
        state, frame = walk.configuration()
        grammar = self.grammar
        frame = grammar.walker.normal(frame)
        entry = grammar.entry(state, frame)
        run = np.array(grammar.known_run(entry, state, frame), np.uint32)
        mask: npt.NDArray[np.uint32] | None = None
        if not len(run) and state != FINISHED:
            mask = np.ascontiguousarray(grammar.known_mask(entry, state, frame), np.uint32)
        pointer, words = (None, 0) if mask is None else (mask.ctypes.data, len(mask))
        if self._c.kog_learn(self._handle, walk.at, run.ctypes.data, len(run), pointer, words) != 0:
            raise DeviceError("the CPU program found no memory for a grammar's masks")


class NativeWalk:
    """Where the program stands in a grammar; begins where a matcher stands and can put it there again."""

    def __init__(self, grammar: NativeGrammar, matcher: Matcher) -> None:
        self.grammar = grammar
        state, frame, run = matcher.place
        self._sites = array("I", bytes(4 * grammar.depth))
        self._counts = array("I", bytes(4 * grammar.depth))
        frames: list[Frame] = []
        walked: Frame | None = frame
        while walked is not None:
            frames.append(walked)
            walked = walked[2]
        for i, (site, count, _) in enumerate(reversed(frames)):
            self._sites[i], self._counts[i] = grammar.site_number[site], count
        self._run = array("I", run)
        self._run.frombytes(bytes(4 * max(_RUN_ROOM - len(run), 0)))
        self._struct = library.Walk(
            grammar.state_number[state],
            len(frames) - 1,
            self._sites.buffer_info()[0],
            self._counts.buffer_info()[0],
            self._run.buffer_info()[0],
            len(self._run),
            0,
            len(run),
        )
        self.at: Any = ctypes.pointer(self._struct)

    def configuration(self) -> tuple[int, Frame]:
        """The host's state and frames."""
        frame: Frame | None = None
        for i in range(self._struct.top + 1):
            frame = (self.grammar.site_at[self._sites[i]], self._counts[i], frame)
        assert frame is not None
        return self.grammar.state_at[self._struct.state], frame

    def put(self, matcher: Matcher) -> None:
        """Take the matcher to where the program stands."""
        run = self._run[self._struct.run_at : self._struct.run_end]
        matcher.go_to(*self.configuration(), tuple(run))
