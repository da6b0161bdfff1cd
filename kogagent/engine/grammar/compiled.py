"""The walk through a grammar by the compiled CPU program, as walker.py has it. Knows arrays, no text.

Python keeps the arrays, the program reads the same ones. Short walks keep the interpreter; one that takes
longer than a few dozen microseconds begins again without it.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.automaton import FAR, LOW, SPECIAL, Automaton, Frame
from kogagent.engine.grammar.bodies import Body, Mask, Within
from kogagent.engine.grammar.forced import Config, Forced
from kogagent.engine.grammar.tables import Tables
from kogagent.engine.grammar.trie import TokenTrie, Tree
from kogagent.errors import DeviceError
from kogagent.kernels.cpu import library
from kogagent.kernels.cpu import walker as program

_SHORT = 1500
"""Nodes of the vocabulary's tree that are looked at while other threads wait for the interpreter."""
_ALL = 0xFFFFFFFF
_KEPT = 4096  # frames
_BLOCK = 16  # masks that are made at a time
_CLASSES = {program.FAR: FAR, program.LOW: LOW}


def compiled_walker(tables: Callable[[], Tables], trie: TokenTrie, margin: int) -> CompiledWalker | None:
    """One for this automaton and vocabulary; None where the program is not there. Raises what `tables`
    does."""
    functions = program.functions()
    return None if functions is None else CompiledWalker(functions, tables(), trie, margin)


def table_arguments(
    tables: Tables, reach: int, margin: int, tokens: tuple[npt.NDArray[Any], ...] = ()
) -> tuple[library.Tables, list[npt.NDArray[Any]]]:
    """The program's kog_tables and the arrays it points to. tokens: token_code, token_first, text, or
    none."""
    t = tables
    arrays = [t.lone_code, t.lone_move, t.moves, t.byte_class, t.final, t.need]
    arrays += [t.site_entry, t.site_follow, t.site_least, t.site_most]
    kept = [np.ascontiguousarray(one) for one in (*arrays, *tokens)]
    addresses = [one.ctypes.data for one in kept] + [None] * (3 - len(tokens))
    spelled = len(tokens[0]) if tokens else 0
    sizes = (t.lone, len(t.final), t.moves.shape[1], t.end_class, len(t.site_entry), spelled)
    return library.Tables(*addresses, *sizes, max(1, t.depth), reach, margin), kept


class CompiledWalker:
    """Raises DeviceError where memory is not to be had."""

    def __init__(self, functions: program.Functions, tables: Tables, trie: TokenTrie, margin: int) -> None:
        self.functions, self.handle = functions, None
        self._words = trie.words
        self._states, self._sites = tables.states, tables.site_numbers
        self._state_at, self._site_at = list(tables.states), list(tables.site_numbers)
        self._special = tables.special_ids.tolist()
        self._choice_rooms = tables.choice_rooms.tolist()
        arguments, self._kept = table_arguments(tables, trie.reach, margin)
        ends = np.array(trie.end_ids, np.int32)
        twins = trie.arrays["twins"]
        self._kept += [ends, twins, tables.special_ids]
        vocabulary = program.Vocabulary(
            _tree(trie)[0],
            *(one.ctypes.data for one in (twins, ends, tables.special_ids)),
            *(len(twins), len(ends), len(self._special), trie.words),
        )
        self._forced = program.Forced()
        self._forced_at = ctypes.addressof(self._forced)
        self._place = program.Place()
        self._place_at = ctypes.addressof(self._place)
        self._known_frames: dict[Frame, bytes] = {}
        self._rooms: list[tuple[Mask, int]] = []
        self.lock = threading.Lock()  # what a call leaves is read before the next one
        self.handle = functions.open_walker(ctypes.byref(arguments), ctypes.byref(vocabulary))
        if self.handle is None:
            raise DeviceError("the CPU program found no memory for a grammar")
        self.trie = trie  # its arrays are read
        self._new_rooms()  # now is more time than before the first mask

    def __del__(self) -> None:
        if self.handle is not None:
            self.functions.close_walker(self.handle)

    def choice_room(self, state: int) -> int:
        """`Tables.choice_rooms` of an automaton's state."""
        room: int = self._choice_rooms[self._states[state]]
        return room

    def forced(self, state: int, frame: Frame) -> Forced | None:
        """As `Walker.forced`."""
        place = self.handle, self._states[state], self._packed(frame)
        with self.lock:
            said = self.functions.find_forced_held(*place, self._forced_at)
            if said == 0:
                return None
            _check(said)
            out = self._forced
            text, symbol = ctypes.string_at(out.text, out.length), out.symbol
            borders = tuple(_words(out.borders, out.n_borders))
        return Forced(text, None if symbol == program.NO_SYMBOL else self._symbol(symbol), borders)

    def after(self, state: int, frame: Frame, size: int) -> Config:
        """Behind the first `size` bytes of what is forced."""
        place = self.handle, self._states[state], self._packed(frame)
        with self.lock:
            _check(self.functions.go_along_held(*place, size, self._place_at))
            return self.place(self._place)

    def place(self, said: program.Place) -> Config:
        """The configuration that the program speaks of."""
        words = _words(said.frames, said.length)
        frame: Frame | None = None
        for i in range(len(words) - 2, 0, -2):
            count = words[i + 1]
            frame = (self._site_at[words[i]], _CLASSES.get(count, count), frame)
        assert frame is not None
        return self._state_at[said.state], frame

    def packed(self, state: int, frame: Frame) -> tuple[int, bytes]:
        """A configuration as the program is told of it."""
        return self._states[state], self._packed(frame)

    def flags(self, states: Iterable[int]) -> npt.NDArray[np.uint8]:
        """[states]: 1 for these of an automaton."""
        out = np.zeros(len(self._states), np.uint8)
        out[[self._states[state] for state in states if state in self._states]] = 1
        return out

    def mask(self, state: int, frame: Frame, within: Within | None) -> Mask:
        """As `Walker.mask`. within: what stays in the frame's body, where the state is one of a body."""
        tree, base = None, None
        if within is not None:
            tree, base = _tree(within.body.tree, within.body)[1], within.address
        place = self.handle, self._states[state], self._packed(frame), tree, base
        with self.lock:
            mask, address = (self._rooms or self._new_rooms()).pop()
            said = self.functions.find_mask_held(*place, _SHORT, address)
            if said == 1:
                said = self.functions.find_mask_let_go(*place, _ALL, address)
        if said:
            _check(said)
        return mask

    def _new_rooms(self) -> list[tuple[Mask, int]]:
        """Masks of zeros that only the program can write to, and their addresses."""
        block = np.full((_BLOCK, self._words), 0, np.uint32)  # written to: its memory is there
        block.setflags(write=False)
        first = block.ctypes.data
        self._rooms += [(block[i], first + 4 * i * self._words) for i in range(_BLOCK)]
        return self._rooms

    def _packed(self, frame: Frame) -> bytes:
        """As src/walker.h documents it."""
        packed = self._known_frames.get(frame)
        if packed is None:
            if len(self._known_frames) >= _KEPT:
                self._known_frames.clear()
            out, at = [0], cast("Frame | None", frame)
            while at is not None:
                site, count, at = at
                out += (self._sites[site], count & 0xFFFFFFFF)
                out[0] += 1
            packed = self._known_frames[frame] = array("I", out).tobytes()
        return packed

    def _symbol(self, code: int) -> int:
        """An automaton's symbol for END or the code of a special id."""
        return code if code < SPECIAL else SPECIAL + self._special[code - SPECIAL]


class CompiledAhead:
    """As `Ahead`, class for class; one caller at a time. Nothing is made ready before the first `step`."""

    def __init__(
        self, walker: CompiledWalker, automaton: Automaton, meet: Callable[[int, Frame], Config | None]
    ) -> None:
        self._walker, self._meet, self._c = walker, meet, walker.functions
        self._handle: int | None = None
        self._automaton = automaton
        self._turns: list[Config] = [(automaton.start, automaton.frames)]  # not yet told to the program
        self._out = program.Place()
        self._out_at = ctypes.addressof(self._out)

    def __del__(self) -> None:
        if self._handle is not None:
            self._c.close_ahead(self._handle)

    def turn_to(self, state: int, frame: Frame) -> None:
        """As `Ahead.turn_to`."""
        self._turns.append((state, frame))

    def _open(self) -> None:
        self._bodies = self._walker.flags(self._automaton.bodies)
        self._backwards = self._walker.trie.backwards
        self._handle = self._c.open_ahead(
            self._walker.handle, self._bodies.ctypes.data, _tree(self._backwards)[1]
        )
        if self._handle is None:
            raise DeviceError("the CPU program found no memory for what comes next")

    def step(self) -> bool:
        """As `Ahead.step`."""
        if self._handle is None:
            self._open()
        with self._walker.lock:
            for turn in self._turns:
                _check(self._c.turn_to_held(self._handle, *self._walker.packed(*turn)))
            self._turns.clear()
            said: int = self._c.look_ahead_held(self._handle, self._out_at)
            _check(said)
            if said < 2:
                return said == 1
            place = self._walker.place(self._out)
        after = self._meet(*place)
        with self._walker.lock:
            met = (0, None) if after is None else self._walker.packed(*after)
            _check(self._c.met_held(self._handle, *met))
        return True


def _words(address: int | None, count: int) -> array[int]:
    out = array("I")
    if address is not None and count:
        out.frombytes(ctypes.string_at(address, 4 * count))
    return out


def _check(said: int) -> None:
    if said < 0:
        raise DeviceError("the CPU program found no memory for a walk")


def _tree(tree: Tree, body: Body | None = None) -> tuple[program.Tree, int]:
    """kog_tree and its address, made once; the tree keeps its arrays."""
    found: tuple[program.Tree, int] | None = tree.for_programs
    if found is None:
        groups = () if body is None else (body.group_first, body.ids, body.id_counts)
        arrays = (tree.byte, tree.nodes, *groups)
        addresses = [one.ctypes.data for one in arrays] + [None] * (5 - len(arrays))
        made = program.Tree(*addresses, len(tree.byte), len(groups[0]) - 1 if groups else 0)
        found = tree.for_programs = made, ctypes.addressof(made)
    return found
