"""Batched products: torch's, or cuBLASLt's without a workspace where one is quicker. Knows shapes; no model.

torch.bmm has a workspace set to zero ahead of a product of many tiles, and the card idles around that.
cuBLASLt lists ways that need none, and its first choice is not its quickest. Only ways that give torch's bits
are used, so that what is chosen, by time, changes no result.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch

from kogagent.errors import DeviceError

Product: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
"""(x, w, out): see `Products.multiply`."""

_TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}  # cudaDataType_t
_SUMS = 68  # CUBLAS_COMPUTE_32F
_TRANSPOSED, _BATCH, _STRIDE, _WORKSPACE = 3, 5, 6, 1  # attributes of a product, of a layout, of a preference

_ALIGNED = 256
"""Bytes at whose multiples the library takes tensors to begin."""
_WAYS = 8
"""Ways that are tried: on an H200 the library's fourth was the quickest, then its eighth and its sixth."""
_MATRICES = 4
"""Matrices that a way is timed with: one alone might stay in the card's cache."""
_ROUNDS = 3
_AHEAD = 4_000_000
"""Cycles that the card sleeps, 2 ms, while the host queues what is timed."""
_TIE = 1.01
"""Times that differ by less are equal: the library's order decides, torch's product comes last."""


class _Found(ctypes.Structure):  # cublasLtMatmulHeuristicResult_t
    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


class _Way(NamedTuple):
    """How cuBLASLt makes products of one shape."""

    product: c_void_p
    w: c_void_p
    x: c_void_p
    out: c_void_p
    found: _Found


class Products:
    """The products of one device: torch's, until `choose` has found a quicker way for a shape."""

    def __init__(self) -> None:
        self._library = _library()
        self._chosen: dict[Any, _Way] = {}

    def multiply(self, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
        """out [S, T, rows] = x [S, T, columns] times w [S, rows, columns], summed in FP32, on the current
        stream. Last dimensions are contiguous. Raises DeviceError where cuBLASLt refuses."""
        way = self._chosen.get(_shape(x, w, out))
        if way is None or not _aligned(x, w, out):
            by_torch(x, w, out)
        else:
            self._launch(way, x, w, out)

    def choose(self, x: torch.Tensor, matrices: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        """Find how products of this shape are made from now on. matrices: some w's of one shape.

        Takes a few ms, during which nothing may be captured; x and out are written and left zero.
        """
        matrices = matrices[:_MATRICES]
        if self._library is None or not _aligned(x, out, *matrices):
            return
        ways = self._ways(x, matrices[0], out)
        if not ways:
            return
        x.normal_(generator=torch.Generator(x.device).manual_seed(0))
        by_torch(x, matrices[0], out)
        want = out.clone()

        def gives_torchs_bits(way: _Way) -> bool:
            out.fill_(float("nan"))
            with contextlib.suppress(DeviceError):
                self._launch(way, x, matrices[0], out)
            return torch.equal(out, want)

        ways = [way for way in ways if gives_torchs_bits(way)]
        took = times([*(partial(self._launch, way) for way in ways), by_torch], x, matrices, out)
        first = next(i for i, time in enumerate(took) if time <= _TIE * min(took))
        if first < len(ways):
            self._chosen[_shape(x, matrices[0], out)] = ways[first]
        x.zero_()
        out.zero_()

    def _launch(self, way: _Way, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
        one, zero, to = c_float(1.0), c_float(0.0), c_void_p(out.data_ptr())
        operands = (c_void_p(w.data_ptr()), way.w, c_void_p(x.data_ptr()), way.x)
        results = (to, way.out, to, way.out, byref(way.found.algorithm), None, c_size_t(0), stream(x.device))
        self._call("Matmul", handle(), way.product, byref(one), *operands, byref(zero), *results)

    def _ways(self, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> list[_Way]:
        """The library's choices, best first. It counts columns first: its result is [rows, T], w the left
        side."""
        product, wanted = c_void_p(), c_void_p()
        self._call("MatmulDescCreate", byref(product), c_int(_SUMS), c_int(_TYPES[torch.float32]))
        self._set("MatmulDesc", product, _TRANSPOSED, c_int32(1))
        self._call("MatmulPreferenceCreate", byref(wanted))
        self._set("MatmulPreference", wanted, _WORKSPACE, c_size_t(0))
        of_w, of_x, of_out = (self._layout(t) for t in (w, x, out))
        found, count = (_Found * _WAYS)(), c_int()
        results = (wanted, c_int(_WAYS), found, byref(count))
        with contextlib.suppress(DeviceError):  # a product that the library does not know
            self._call("MatmulAlgoGetHeuristic", handle(), product, of_w, of_x, of_out, of_out, *results)
        self._call("MatmulPreferenceDestroy", wanted)
        return [_Way(product, of_w, of_x, of_out, one) for one in found[: count.value] if one.state == 0]

    def _layout(self, t: torch.Tensor) -> c_void_p:
        made = c_void_p()
        shape = (c_uint64(t.shape[2]), c_uint64(t.shape[1]), c_int64(t.stride(1)))
        self._call("MatrixLayoutCreate", byref(made), c_int(_TYPES[t.dtype]), *shape)
        self._set("MatrixLayout", made, _BATCH, c_int32(t.shape[0]))
        self._set("MatrixLayout", made, _STRIDE, c_int64(t.stride(0)))
        return made

    def _set(self, of: str, what: c_void_p, attribute: int, value: Any) -> None:
        size = c_size_t(ctypes.sizeof(value))
        self._call(f"{of}SetAttribute", what, c_int(attribute), byref(value), size)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, f"cublasLt{name}")(*arguments)
        if code:
            raise DeviceError(f"cublasLt{name} gave {code}: see cublasStatus_t of the cuBLAS documentation")


def by_torch(x: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
    """`Products.multiply` as torch does it."""
    if x.device.type == "cpu":  # where torch has no product of halves into FP32
        out.copy_(torch.bmm(x.float(), w.float().mT))
    elif out.dtype == x.dtype:
        torch.bmm(x, w.mT, out=out)
    else:
        torch.bmm(x, w.mT, out_dtype=out.dtype, out=out)


def times(
    products: Sequence[Product], x: torch.Tensor, matrices: Sequence[torch.Tensor], out: torch.Tensor
) -> list[float]:
    """The least ms that each takes with all matrices on a card, by turns; none of them for the first time."""
    marks: list[list[Any]] = []
    torch.cuda._sleep(_AHEAD)  # type: ignore[no-untyped-call]
    for _ in range(_ROUNDS):
        for product in products:
            pair: list[Any] = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
            pair[0].record()
            for w in matrices:
                product(x, w, out)
            pair[1].record()
            marks.append(pair)
    marks[-1][1].synchronize()
    took = [start.elapsed_time(end) for start, end in marks]
    return [min(took[i :: len(products)]) for i in range(len(products))]


def stream(device: torch.device) -> c_void_p:
    """torch's current stream."""
    return c_void_p(torch.cuda.current_stream(device).cuda_stream)


def handle() -> c_void_p:
    """torch's handle of cuBLAS, which is one of cuBLASLt too."""
    made: Any = torch.cuda.current_blas_handle()  # type: ignore[no-untyped-call]
    return c_void_p(made)


def _library() -> Any:
    """The cuBLASLt that torch has loaded; None where it has it in itself, or none."""
    if sys.platform == "win32":  # no way to ask for what is loaded already
        return None
    major = (torch.version.cuda or "").partition(".")[0]
    with contextlib.suppress(OSError):
        return ctypes.CDLL(f"libcublasLt.so.{major}", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    return None


def _shape(*tensors: torch.Tensor) -> Any:
    return tuple((t.dtype, t.shape, t.stride()) for t in tensors)


def _aligned(*tensors: torch.Tensor) -> bool:
    return all(t.data_ptr() % _ALIGNED == 0 for t in tensors)
