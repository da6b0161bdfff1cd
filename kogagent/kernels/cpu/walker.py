"""The compiled program's walk through a grammar: the C interface of src/walker.h in ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from kogagent.kernels.cpu import library

FAR, LOW, NO_SYMBOL = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFF

_U32 = ctypes.c_uint32
_P = ctypes.c_void_p


class Tree(ctypes.Structure):
    """kog_tree."""

    _fields_ = (
        *((name, _P) for name in ("byte", "nodes", "group_first", "ids", "counts")),
        *((name, _U32) for name in ("n_nodes", "groups")),
    )


class Vocabulary(ctypes.Structure):
    """kog_vocabulary."""

    _fields_ = (
        ("tree", Tree),
        *((name, _P) for name in ("twins", "end_ids", "special_ids")),
        *((name, _U32) for name in ("n_twins", "n_end", "n_special", "words")),
    )


class Forced(ctypes.Structure):
    """kog_forced."""

    _fields_ = (
        *((name, _P) for name in ("text", "borders")),
        *((name, _U32) for name in ("length", "n_borders", "symbol")),
    )


class Place(ctypes.Structure):
    """kog_place."""

    _fields_ = (("frames", _P), ("length", _U32), ("state", _U32))


@dataclass(frozen=True)
class Functions:
    """The library's functions without their prefix. Those of `held` keep the interpreter: they take a few
    microseconds, and to get it back from another thread may take a thousand times that. `let_go` do not."""

    open_walker: Any
    close_walker: Any
    find_forced_held: Any
    go_along_held: Any
    find_mask_held: Any
    find_mask_let_go: Any
    open_ahead: Any
    close_ahead: Any
    turn_to_held: Any
    met_held: Any
    look_ahead_held: Any


@cache
def functions() -> Functions | None:
    """Of this install's library; None where there is none that fits."""
    path = library.library_path()
    if path is None or library.missing() is not None:
        return None
    held, let_go = ctypes.PyDLL(str(path)), ctypes.CDLL(str(path))
    mask = (ctypes.c_int, [_P, _U32, _P, _P, _P, _U32, _P])

    def typed(where: Any, name: str, result: Any, arguments: list[Any]) -> Any:
        function = getattr(where, name)
        function.restype, function.argtypes = result, arguments
        return function

    return Functions(
        typed(
            let_go,
            "kog_open_walker",
            _P,
            [ctypes.POINTER(library.Tables), ctypes.POINTER(Vocabulary)],
        ),
        typed(let_go, "kog_close_walker", None, [_P]),
        typed(held, "kog_find_forced", ctypes.c_int, [_P, _U32, _P, _P]),
        typed(held, "kog_go_along", ctypes.c_int, [_P, _U32, _P, _U32, _P]),
        typed(held, "kog_find_mask", *mask),
        typed(let_go, "kog_find_mask", *mask),
        typed(let_go, "kog_open_ahead", _P, [_P, _P, _P]),
        typed(let_go, "kog_close_ahead", None, [_P]),
        typed(held, "kog_turn_to", ctypes.c_int, [_P, _U32, _P]),
        typed(held, "kog_met", ctypes.c_int, [_P, _U32, _P]),
        typed(held, "kog_look_ahead", ctypes.c_int, [_P, _P]),
    )
