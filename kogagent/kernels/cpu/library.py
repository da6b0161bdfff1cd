"""The compiled CPU program: where it lies, its C interface in ctypes, the cores it may use. Loads no torch.

The interface is documented in src/native.h; the names here are the same without the prefix.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
from functools import cache
from pathlib import Path

from kogagent.errors import InputError

HERE = Path(__file__).parent
STEM = "_native"
PROGRAMS = ("avx512_vnni", "avx512", "avx2", "neon_dot", "neon", "portable")
TYPES = {
    "float32": 0, "float16": 1, "bfloat16": 2, "int8": 3, "int8_row": 4, "int4": 5,
    "int5": 6, "q4_k": 7, "q5_k": 8, "q6_k": 9,
}  # fmt: skip
"""Of packed weights."""
DTYPES = ("float32", "float16", "bfloat16", "int8", "int8_row", "int4")
"""Those that any weights can be packed in; the others are a GGUF file's own blocks and nothing else."""
INTEGERS = frozenset(TYPES) - {"float32", "float16", "bfloat16"}
OF_BLOCKS = 16
"""What a matrix is packed from: so much and GGML's number of its blocks' type."""
HEADS = {"replicate": 0, "vocab_parallel": 1, "sum": 2}
QKV, OUT, GATE_UP, DOWN, HEAD = range(5)
NONE, LAST, ALL = range(3)
GOES_ON, STOP, LENGTH, CONTEXT, CANCELLED, GRAMMAR, UNKNOWN, BROKEN, NO_MEMORY, ILLEGAL = range(10)
BYTES, NEVER = 0xFFFFFFFF, 0xFFFFFFFE

_U32 = ctypes.c_uint32
_U32S = ctypes.POINTER(_U32)
_F32S = ctypes.POINTER(ctypes.c_float)
_P = ctypes.c_void_p


class Shape(ctypes.Structure):
    """kog_shape."""

    _fields_ = (
        *(
            (name, _U32)
            for name in ("vocab", "dim", "layers", "lanes", "heads", "kv_heads", "head_dim", "ffn")
        ),
        *((name, _U32) for name in ("head", "cache", "threads", "slots")),
        ("norm_eps", ctypes.c_float),
        ("types", _U32S),
        ("frequencies", ctypes.POINTER(ctypes.c_double)),
        *((name, _U32S) for name in ("windows", "step_slot", "step_free", "step_first", "land_source")),
        ("land_own", _F32S),
        ("land_others", _F32S),
    )


class Tensor(ctypes.Structure):
    """kog_tensor."""

    _fields_ = (("type", _U32), ("data", _P))


class Tables(ctypes.Structure):
    """kog_tables."""

    _fields_ = (
        *((name, _P) for name in ("lone_code", "lone_move", "moves", "byte_class", "final_states", "need")),
        *((name, _P) for name in ("site_entry", "site_follow", "site_least", "site_most")),
        *((name, _P) for name in ("token_code", "token_first", "text")),
        *((name, _U32) for name in ("lone", "states", "classes", "end_class", "sites", "tokens", "depth")),
        *((name, _U32) for name in ("reach", "margin")),
    )


class Walk(ctypes.Structure):
    """kog_walk."""

    _fields_ = (
        *((name, _U32) for name in ("state", "top")),
        *((name, _P) for name in ("sites", "counts", "run")),
        *((name, _U32) for name in ("run_room", "run_at", "run_end")),
    )


class Segment(ctypes.Structure):
    """kog_segment."""

    _fields_ = (
        *((name, ctypes.c_float) for name in ("temperature", "top_p", "min_p_log", "penalty")),
        ("top_k", _U32),
        ("seed", ctypes.c_uint64),
        *((name, _U32) for name in ("legal", "force")),
        *((name, _P) for name in ("stops", "stop", "seen", "grammar")),
        ("walk", ctypes.POINTER(Walk)),
        ("seconds", ctypes.c_double),
        *((name, _P) for name in ("ids", "logprobs", "forced", "logits")),
        *((name, _U32) for name in ("prompt", "most", "filled", "ran", "new_forced", "passes", "opened")),
        *((name, ctypes.c_double) for name in ("prefill_s", "sampled_s", "forced_s")),
    )


_FUNCTIONS = {
    "kog_open": (_P, [ctypes.POINTER(Shape)]),
    "kog_close": (None, [_P]),
    "kog_program": (ctypes.c_char_p, [_P]),
    "kog_choose": (ctypes.c_int, [_P, ctypes.c_char_p]),
    "kog_pack": (ctypes.c_float, [_P, _U32, _U32, ctypes.POINTER(Tensor)]),
    "kog_stream_bytes": (ctypes.c_uint64, [_P, _U32]),
    "kog_stream": (_P, [_P, _U32]),
    "kog_fill": (None, [_P, ctypes.POINTER(_P)]),
    "kog_narrow": (ctypes.c_float, [_U32, _P, ctypes.c_uint64, _P]),
    "kog_dequantise": (ctypes.c_int, [_U32, _P, ctypes.c_uint64, _P, _U32]),
    "kog_set_embedding": (None, [_P, _U32, _P]),
    "kog_set_vectors": (None, [_P, _U32, _P, _P, _P, _P, _P]),
    "kog_set_norm": (None, [_P, _P]),
    "kog_run": (ctypes.c_int, [_P, _P, _P, _U32, _U32, _P, _U32, _U32, _P]),
    "kog_run_segment": (ctypes.c_int, [_P, _P, _P, _U32, _U32, ctypes.POINTER(Segment)]),
    "kog_open_grammar": (_P, [ctypes.POINTER(Tables)]),
    "kog_close_grammar": (None, [_P]),
    "kog_learn": (ctypes.c_int, [_P, ctypes.POINTER(Walk), _P, _U32, _P, _U32]),
    "kog_step": (ctypes.c_int, [_P, ctypes.POINTER(Walk), _U32]),
    "kog_draw": (_U32, [ctypes.POINTER(Segment), _U32, _U32, _P, _U32]),
    "kog_read_bandwidth": (ctypes.c_double, [_U32, ctypes.c_uint64, _U32]),
}


def library_path() -> Path | None:
    """The compiled library of this install, None where it was installed without a compiler."""
    return next((path for path in sorted(HERE.glob(f"{STEM}.*")) if path.suffix in (".so", ".dylib")), None)


def sources() -> list[Path]:
    """The C++ files the library is built from; none in an install from a wheel."""
    return sorted(path for path in (HERE / "src").glob("*") if path.suffix in (".cpp", ".h", ".inc"))


def digest() -> str:
    """Names the sources' content, as setup.py does."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources())).hexdigest()[:16]


class StaleLibrary(InputError):
    """The library is there and is not what its sources say: in a checkout whose sources have changed."""


def missing() -> InputError | None:
    """Why the program cannot run here, None when it can."""
    path = library_path()
    if path is None:
        return InputError(
            "the native backend was not built: no C++17 compiler was found when kogagent was installed. "
            "Install g++ or clang++, then kogagent again."
        )
    if sources() and f"kogagent-sources:{digest()}".encode() not in path.read_bytes():
        return StaleLibrary(
            "the native backend was built from other sources than those beside it. "
            "Build it again: python setup.py build_ext --inplace"
        )
    try:
        load()
    except (OSError, AttributeError) as error:
        return InputError(f"the native backend's library cannot be loaded: {error}. Install kogagent again.")
    return None


@cache
def load() -> ctypes.CDLL:
    """The library with its functions typed. Raises OSError. Every call releases the GIL."""
    path = library_path()
    if path is None:
        raise FileNotFoundError(f"no {STEM} library in {HERE}")
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def identity() -> str:
    """Names the sources that the library was built from. Raises OSError."""
    text = ctypes.c_char.in_dll(load(), "kog_sources")
    return ctypes.string_at(ctypes.addressof(text)).decode()


def best_program() -> str:
    """Which of PROGRAMS this processor runs best. Raises OSError."""
    name: bytes = load().kog_program(None)
    return name.decode()


def usable_cores() -> int:
    """Cores this process may use: its affinity, bounded by the CPU quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(cores, math.floor(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or "max": no quota
        return cores
