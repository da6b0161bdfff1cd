"""Products chosen by time, with a double of cuBLASLt that multiplies what descriptors say."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

from kogagent.errors import DeviceError
from kogagent.kernels.prefill import products
from kogagent.kernels.prefill.products import Products

DTYPES = {0: torch.float32, 2: torch.float16, 14: torch.bfloat16}
FINE, OTHER_BITS, REFUSES = 0, 1, 2


class Library:
    """cuBLASLt's calls. ways: what each of its choices does, best first."""

    def __init__(self, ways: list[int]) -> None:
        self.ways, self.launched = ways, list[int]()
        self.made: list[dict[Any, int]] = [{}]
        self.knows = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self, "_" + name.removeprefix("cublasLt"))

    def _create(self, to: Any, **what: int) -> int:
        self.made.append(what)
        to._obj.value = len(self.made) - 1
        return 0

    def _MatmulDescCreate(self, to: Any, sums: Any, scale: Any) -> int:
        assert (sums.value, scale.value) == (68, 0)
        return self._create(to)

    def _MatmulPreferenceCreate(self, to: Any) -> int:
        return self._create(to)

    def _MatmulPreferenceDestroy(self, what: Any) -> int:
        self.made[what.value]["destroyed"] = 1
        return 0

    def _MatrixLayoutCreate(self, to: Any, dtype: Any, rows: Any, columns: Any, stride: Any) -> int:
        return self._create(
            to, dtype=dtype.value, rows=rows.value, columns=columns.value, stride=stride.value
        )

    def _set(self, what: Any, attribute: Any, value: Any, size: Any) -> int:
        assert size.value == ctypes.sizeof(value._obj)
        self.made[what.value][attribute.value] = value._obj.value
        return 0

    _MatmulDescSetAttribute = _MatmulPreferenceSetAttribute = _MatrixLayoutSetAttribute = _set

    def _MatmulAlgoGetHeuristic(self, handle: Any, product: Any, *rest: Any) -> int:
        *layouts, wanted, room, found, count = rest
        assert self.made[wanted.value] == {1: 0}, "a workspace is allowed"
        if not self.knows:
            return 15
        assert layouts[2].value == layouts[3].value
        count._obj.value = min(room.value, len(self.ways))
        for i in range(count._obj.value):
            found[i].algorithm[0] = i
        return 0

    def _tensor(self, address: Any, layout: Any) -> torch.Tensor:
        """What a layout says lies there, [batch, columns, rows] in the order of memory."""
        of = self.made[layout.value]
        dtype = DTYPES[of["dtype"]]
        raw = ctypes.c_uint8 * (((of[5] - 1) * of[6] + of["columns"] * of["stride"]) * dtype.itemsize)
        flat = torch.frombuffer(raw.from_address(address.value), dtype=dtype)
        return flat.as_strided((of[5], of["columns"], of["rows"]), (of[6], of["stride"], 1))

    def _Matmul(self, handle: Any, product: Any, one: Any, *rest: Any) -> int:
        a, of_a, b, of_b, zero, c, of_c, d, of_d, algorithm, workspace, size, stream = rest
        assert self.made[product.value] == {3: 1}, "not transposed"
        assert (one._obj.value, zero._obj.value, workspace, size.value) == (1.0, 0.0, None, 0)
        assert (c.value, of_c.value) == (d.value, of_d.value) and stream.value == 7 and handle.value == 5
        way = int(algorithm._obj[0])
        self.launched.append(way)
        if self.ways[way] == REFUSES:
            return 13
        out = self._tensor(d, of_d)
        out.copy_(torch.bmm(self._tensor(b, of_b).float(), self._tensor(a, of_a).float().mT))
        if self.ways[way] == OTHER_BITS:
            out[-1, -1, -1] += 1
        return 0


def aligned(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    size = int(np.prod(shape))
    flat = torch.zeros(size + 256, dtype=dtype)
    start = -flat.data_ptr() % 256 // dtype.itemsize
    return flat[start : start + size].view(shape)


class Bench:
    """A product's tensors, rows of buffers that hold more, and a clock."""

    def __init__(self, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, ways: list[int]) -> None:
        self.library, self.took = Library(ways), list[float]()
        monkeypatch.setattr(products, "_library", lambda: self.library)
        monkeypatch.setattr(products, "times", self._times)
        monkeypatch.setattr(products, "stream", lambda device: ctypes.c_void_p(7))
        monkeypatch.setattr(products, "handle", lambda: ctypes.c_void_p(5))
        lanes, rows, size, columns = (int(n) for n in rng.integers(2, 12, 4))
        self.dtype = (torch.float16, torch.bfloat16)[int(rng.integers(2))]
        of_out = torch.float32 if rng.random() < 0.5 else self.dtype
        self.whole = aligned(lanes, rows + 3, size, dtype=of_out)
        self.out = self.whole[:, :rows]
        self.x = aligned(lanes, rows + int(rng.integers(3)), columns, dtype=self.dtype)[:, :rows]
        self.matrices = [aligned(lanes, size, columns, dtype=self.dtype) for _ in range(6)]
        for matrix in self.matrices:
            self._fill(matrix, rng)
        self.rng = rng

    def _fill(self, to: torch.Tensor, rng: np.random.Generator) -> None:
        to.copy_(torch.from_numpy(rng.standard_normal(to.shape)))

    def _times(self, ways: Any, x: torch.Tensor, matrices: Any, out: torch.Tensor) -> list[float]:
        assert 1 < len(matrices) <= 6 and x.abs().max() > 0, (
            "one matrix stays in a cache, zeros take no power"
        )
        return self.took[: len(ways)]

    def launches(self, of: Products) -> list[int]:
        """The library's ways by which one more product is made; the product is right in any case."""
        self._fill(self.x, self.rng)
        self.whole.fill_(float("nan"))
        self.library.launched.clear()
        w = self.matrices[int(self.rng.integers(6))]
        of.multiply(self.x, w, self.out)
        want = torch.bmm(self.x.float(), w.float().mT).to(self.out.dtype)
        assert torch.equal(self.out, want)
        assert bool(self.whole[:, self.out.shape[1] :].isnan().all()), "rows past the count were written"
        return self.library.launched


@pytest.mark.parametrize(
    "took, chosen",
    [
        ([5.0, 4.0, 3.0, 4.5], [3]),  # of the first, the third, the fourth and torch's own
        ([3.02, 3.01, 3.0, 3.0], [0]),  # equal: the library's order
        ([4.0, 4.0, 4.0, 3.99], [0]),
        ([4.0, 4.0, 4.0, 3.0], []),
    ],
)
def test_the_quickest_way_with_torchs_bits_is_used(
    took: list[float], chosen: list[int], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(rng, monkeypatch, [FINE, OTHER_BITS, FINE, FINE, REFUSES])
    of, bench.took = Products(), took
    assert bench.launches(of) == [], "nothing has been chosen"
    of.choose(bench.x, bench.matrices, bench.out)
    assert not bench.x.any() and not bench.out.any(), "buffers are left as they were made"
    assert bench.launches(of) == chosen
    bench.out = bench.whole[:, :1]  # other shapes are torch's
    bench.x = bench.x[:, :1]
    assert bench.launches(of) == []


def test_torch_makes_what_the_library_cannot(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(rng, monkeypatch, [FINE])
    of, bench.took = Products(), [1.0, 2.0]
    bench.library.knows = False
    of.choose(bench.x, bench.matrices, bench.out)
    assert bench.launches(of) == []
    bench.library.knows = True
    of.choose(bench.x, bench.matrices, bench.out)
    assert bench.launches(of) == [0]
    strides = bench.x.stride()
    room = aligned(bench.x.shape[0] * strides[0] + 8, dtype=bench.dtype)
    bench.x = room[8:].as_strided(bench.x.shape, strides, room[8:].storage_offset())
    assert bench.launches(of) == [], "it begins at 16 bytes, not at 256"


def test_without_the_library_torch_makes_every_product(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(rng, monkeypatch, [FINE])
    monkeypatch.setattr(products, "_library", lambda: None)
    of = Products()
    of.choose(bench.x, bench.matrices, bench.out)
    assert bench.launches(of) == []


def test_a_library_that_fails_later_is_an_error(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(rng, monkeypatch, [FINE])
    of, bench.took = Products(), [1.0, 2.0]
    of.choose(bench.x, bench.matrices, bench.out)
    bench.library.ways = [REFUSES]
    with pytest.raises(DeviceError, match="cublasLtMatmul gave 13"):
        of.multiply(bench.x, bench.matrices[0], bench.out)


def test_only_what_torch_has_loaded_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another cuBLASLt than torch's would be given a handle that it did not make."""
    monkeypatch.setattr(torch.version, "cuda", "0.1")
    assert products._library() is None
