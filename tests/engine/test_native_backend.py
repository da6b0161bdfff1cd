"""The CPU program against the reference: every kind of model, type and instruction set; caches and edges."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kogagent.engine.backend import KV, Backend, Decode, DecodePlan, Emitted
from kogagent.engine.backends import resolve
from kogagent.engine.backends.host import HostDecode
from kogagent.engine.backends.native import NativeBackend, NativeKV
from kogagent.engine.backends.native_segment import NativeDecode
from kogagent.engine.backends.native_weights import Loader, Packed, Types
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.weights import random_tensors
from kogagent.errors import ConfigError, ContextError, DeviceError, EngineClosedError, InputError, ModelError
from kogagent.kernels.cpu import library
from kogagent.spec import ModelSpec, RopeScaling
from kogagent.testing.backends import BACKEND_CHECKS, TINY, TINY_LANES, run_check
from kogagent.testing.tiny import write_tiny_model
from kogagent.testing.toy import finish

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ModelSpec(
    vocab_size=60,
    dim=48,
    n_layers=4,
    n_heads=8,
    n_kv_heads=4,
    head_dim=12,
    ffn_dim=64,
    context=600,
)
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bias, norms, tied": {"qkv_bias": True, "qk_norm": True, "tied_head": True},
    "windows": {"windows": (3, 0, 1, 20)},
    "scaled RoPE": {"rope_scaling": RopeScaling(4.0, 1.0, 4.0, 16), "rope_theta": 500.0},
    "odd widths": {"dim": 37, "ffn_dim": 28, "head_dim": 6, "vocab_size": 53},
    "tensor parallel": {"lanes": 4},
    "delayed": {"lanes": 4, "delay": 2, "windows": (5, 5, 0, 0)},
    "delayed, bias, norms": {"lanes": 4, "delay": 1, "qkv_bias": True, "qk_norm": True},
    "early sums": {"lanes": 2, "delay": 1, "early": "present"},
    "early sums, sent again": {"lanes": 4, "delay": 2, "early": "present", "early_resent": True},
    "attention kept": {"lanes": 4, "delay": 1, "comm_attention": False},
    "nothing sent": {"lanes": 4, "comm_attention": False, "comm_mlp": False},
    "ladder": {"lanes": 4, "residual": "ladder"},
    "ladder of one lane": {"residual": "ladder"},
    "vocabulary split": {"lanes": 4, "delay": 2, "head": "vocab_parallel"},
    "vocabulary split, tied": {"lanes": 4, "head": "vocab_parallel", "tied_head": True},
    "summed head": {"lanes": 4, "delay": 2, "head": "sum"},
}
LARGEST_KL = {"float32": 1e-5, "float16": 1e-4, "bfloat16": 5e-3, "int8": 2e-2, "int8_row": 2e-2, "int4": 1.0}
LARGEST_ERROR = {"int8": 0.005, "int8_row": 0.005, "int4": 0.07}  # of a weight; half of 2/254 and of 2/15


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    """The library, built by the package's own build where it is missing or older than its sources."""
    if library.missing() is None:
        return
    why = "no C++ compiler: neither g++ nor clang++ is on PATH"
    if shutil.which("g++") or shutil.which("clang++"):
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        library.load.cache_clear()
        error = library.missing()
        assert error is None, f"a compiler is here and the build failed: {error}\n{done.stderr[-2000:]}"
        return
    if os.environ.get("KOGAGENT_REQUIRE_NATIVE") == "1":
        pytest.fail(f"KOGAGENT_REQUIRE_NATIVE=1, but {why}")
    pytest.skip(why)


def model(rng: np.random.Generator, **fields: Any) -> tuple[ModelSpec, dict[str, torch.Tensor]]:
    spec = replace(PLAIN, **{"windows": (), **fields})
    return spec, random_tensors(spec, int(rng.integers(2**31)))


def tokens(rng: np.random.Generator, count: int, below: int = 53) -> list[int]:
    return [int(i) for i in rng.integers(0, below, count)]


def divergence(found: npt.NDArray[np.float32], wanted: npt.NDArray[np.float32]) -> float:
    """The largest KL divergence of a row from the truth, nats."""
    assert found.shape == wanted.shape and found.dtype == np.float32
    p, q = (torch.from_numpy(x).double().log_softmax(-1) for x in (wanted, found))
    return float((p.exp() * (p - q)).sum(-1).max())


def error(found: npt.NDArray[np.float32], wanted: npt.NDArray[np.float32]) -> float:
    assert found.shape == wanted.shape and np.isfinite(found).all()
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("dtype", library.DTYPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_computes_what_the_reference_computes(rng: np.random.Generator, variant: str, dtype: Any) -> None:
    spec, tensors = model(rng, **VARIANTS[variant])
    ids = tokens(rng, 24)
    wanted = ReferenceBackend(spec, tensors).forward(ids).numpy()
    backend = NativeBackend(spec, tensors, dtype, threads=int(rng.integers(1, 4)))
    results = [backend.logits(backend.open_kv(40), ids)]
    kv = backend.open_kv(40)
    results.append(np.stack([backend.last_logits(kv, [i]) for i in ids]))
    kv = backend.open_kv(40)  # rows of every sort: few, many, one
    results.append(np.concatenate([backend.logits(kv, ids[a:b]) for a, b in pairwise([0, 2, 3, 6, 17, 24])]))
    assert kv.length == 24
    for found in results:
        assert divergence(found, wanted) < LARGEST_KL[dtype]
        assert dtype != "float32" or error(found, wanted) < 3e-6
    assert (backend.quantisation_error > 0) == (dtype in LARGEST_ERROR)
    assert backend.quantisation_error < LARGEST_ERROR.get(dtype, 1e-30)
    backend.close()


def test_a_bf16_checkpoint_loses_nothing_in_bf16(rng: np.random.Generator) -> None:
    spec, tensors = model(rng, lanes=2, delay=1, qkv_bias=True)
    tensors = {name: tensor.bfloat16().float() for name, tensor in tensors.items()}
    ids = tokens(rng, 24)
    backend = NativeBackend(spec, tensors, "bfloat16", threads=2)
    kv = backend.open_kv(40)
    found = np.concatenate([backend.logits(kv, ids[:20]), *(backend.logits(kv, [i]) for i in ids[20:])])
    assert divergence(found, ReferenceBackend(spec, tensors).forward(ids).numpy()) < 1e-5


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_every_instruction_set_computes_the_same(rng: np.random.Generator, name: str) -> None:
    ran = 0
    for dtype, cache in (
        ("float32", "float32"),
        ("float16", "float16"),
        ("bfloat16", "float32"),
        ("int8", "float16"),
        ("int8_row", "float32"),
        ("int4", "float32"),
    ):
        spec, tensors = model(rng, lanes=2, delay=1, qkv_bias=True, qk_norm=True, windows=(3, 0, 20, 0))
        ids = tokens(rng, 37)
        try:
            backend = NativeBackend(spec, tensors, dtype, cache=cache, program=name)  # type: ignore[arg-type]
        except InputError:
            assert name != "portable"  # which every processor runs
            continue
        assert backend.program == name
        truth = NativeBackend(spec, tensors, dtype, cache=cache, program="portable", threads=1)  # type: ignore[arg-type]
        wanted = truth.logits(truth.open_kv(40), ids)
        kv = backend.open_kv(40)
        found = np.concatenate([backend.logits(kv, ids[:20]), *(backend.logits(kv, [i]) for i in ids[20:])])
        close = 3e-3 if dtype.startswith("int") else 3e-6  # some digits are rounded the other way
        if dtype == "bfloat16" and name == "avx512_vnni":  # of a row as two BF16 parts 16 bits count
            close = 2e-5
        assert error(found, wanted) < (close if cache == "float32" else 3e-3)
        ran += 1
    assert ran in (0, 6)


@pytest.mark.parametrize("heads", [1, 5, 8, 11])
def test_heads_of_every_group_and_width_attend(rng: np.random.Generator, heads: int) -> None:
    width = int(rng.choice([2, 16, 18, 64, 100]))
    spec, tensors = model(rng, n_layers=2, n_heads=heads, n_kv_heads=1, head_dim=width)
    ids = tokens(rng, 70)
    wanted = ReferenceBackend(spec, tensors).forward(ids).numpy()
    backend = NativeBackend(spec, tensors, "float32", threads=3)
    kv = backend.open_kv(70)
    found = np.concatenate([backend.logits(kv, ids[:50]), *(backend.logits(kv, [i]) for i in ids[50:])])
    assert error(found, wanted) < 3e-6


@pytest.mark.parametrize("position", [511, 512, 513])
def test_step_by_step_equals_prefill_at_the_window_s_edges(rng: np.random.Generator, position: int) -> None:
    spec, tensors = model(rng, n_layers=2, windows=(512, 0))
    ids = tokens(rng, position + 1)
    wanted = ReferenceBackend(spec, tensors).forward(ids)[-1].numpy()
    backend = NativeBackend(spec, tensors, "float32")
    kv = backend.open_kv(600)
    backend.prefill(kv, ids[:-1])
    assert error(backend.last_logits(kv, ids[-1:]), wanted) < 3e-6
    assert error(backend.last_logits(backend.open_kv(600), ids), wanted) < 3e-6


@pytest.mark.parametrize("cache", ["float32", "float16"])
def test_memory_beyond_the_length_is_never_read(rng: np.random.Generator, cache: Any) -> None:
    spec, tensors = model(rng, windows=(3, 0, 4, 0))
    ids = tokens(rng, 22)
    backend = NativeBackend(spec, tensors, "float32", cache=cache)
    kv = backend.open_kv(26)
    poison(kv)
    clean = backend.logits(kv, ids)
    assert np.isfinite(clean).all()
    kv.rewind(5)
    poison(kv)
    again = backend.logits(kv, ids[5:])
    np.testing.assert_allclose(again, clean[5:], rtol=0, atol=1e-5 if cache == "float32" else 1e-2)
    fork = kv.fork()
    poison(fork)
    more = tokens(rng, 2)
    np.testing.assert_array_equal(backend.logits(fork, more), backend.logits(kv, more))


def poison(kv: NativeKV) -> None:
    keys, values = kv.stores
    for position in range(kv.length, keys.shape[2] * 16):
        keys[:, :, position // 16, :, position % 16] = np.nan
    values[:, :, kv.length :] = np.nan
    values[..., kv._spec.head_dim :] = np.nan  # what fills the last vector of a head


def test_forks_share_nothing(rng: np.random.Generator) -> None:
    spec, tensors = model(rng)
    backend = NativeBackend(spec, tensors, "float32")
    ids, left, right = tokens(rng, 6), tokens(rng, 4), tokens(rng, 4)
    kv = backend.open_kv(16)
    backend.prefill(kv, ids)
    fork = kv.fork()
    a = [backend.logits(kv, left[:2])]  # each writes where the other has read or will read
    b = [backend.logits(fork, right[:2])]
    a.append(backend.logits(kv, left[2:]))
    kv.close()
    b.append(backend.logits(fork, right[2:]))
    assert error(np.concatenate(a), backend.logits(backend.open_kv(16), ids + left)[6:]) < 3e-6
    assert error(np.concatenate(b), backend.logits(backend.open_kv(16), ids + right)[6:]) < 3e-6


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_passes_give_the_same_bits(rng: np.random.Generator, threads: int) -> None:
    spec, tensors = model(rng, lanes=4, delay=2)
    ids = tokens(rng, 30)
    backend = NativeBackend(spec, tensors, threads=threads)
    alone = NativeBackend(spec, tensors, threads=1)

    def passes(backend: NativeBackend) -> npt.NDArray[np.float32]:
        kv = backend.open_kv(40)
        return np.concatenate([backend.logits(kv, ids[:20]), *(backend.logits(kv, [i]) for i in ids[20:])])

    first = passes(backend)
    for _ in range(5):
        np.testing.assert_array_equal(first, passes(backend))
    np.testing.assert_array_equal(
        first, passes(alone)
    )  # every sum is one thread's: their number is no matter


def make(dtype: str, threads: int) -> Callable[..., NativeBackend]:
    return lambda spec, tensors: NativeBackend(spec, tensors, dtype, threads=threads)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", [TINY, TINY_LANES], ids=lambda spec: spec.name)
@pytest.mark.parametrize(
    ("dtype", "threads", "tolerance"), [("float32", 1, 1e-4), ("float32", 2, 1e-4), ("float16", 1, 2e-2)]
)
@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__.strip("_"))
def test_it_keeps_the_contract_of_backends(
    check: Callable[..., None], dtype: str, threads: int, tolerance: float, spec: ModelSpec
) -> None:
    run_check(check, make(dtype, threads), spec, tolerance)


def greedy(
    backend: Backend, kv: KV, ids: list[int], most: int, **fields: Any
) -> tuple[Decode, list[Emitted]]:
    decode = backend.decode(kv, ids, DecodePlan(SamplingParams(), frozenset(), most, **fields))
    return decode, finish(decode)


def test_a_segment_of_many_tokens_equals_one_pass_a_token(rng: np.random.Generator) -> None:
    spec, tensors = model(rng, lanes=2, delay=1)
    backend = NativeBackend(spec, tensors, threads=2)
    ids, legal = tokens(rng, 9), int(rng.integers(5, 50))
    decode, out = greedy(backend, backend.open_kv(400), ids, 300, legal_ids=legal)
    assert isinstance(decode, NativeDecode) and decode.reason == "length" and decode.stats.steps == 300
    step = HostDecode(backend, backend.open_kv(400), ids, decode._plan)
    expected = finish(step)
    assert [e.id for e in out] == [e.id for e in expected] and max(e.id for e in out) < legal
    np.testing.assert_allclose([e.logprob for e in out], [e.logprob for e in expected], atol=1e-5)
    assert not any(e.forced for e in out)
    stop = out[200].id
    plan = replace(decode._plan, stop_ids=frozenset([stop]))
    again = backend.decode(backend.open_kv(400), ids, plan)
    assert [e.id for e in finish(again)] == [e.id for e in out][: [e.id for e in out].index(stop) + 1]
    assert again.reason == "stop"
    kv = backend.open_kv(50)
    full, out = greedy(backend, kv, ids, 300)
    assert (full.reason, len(out), kv.length) == ("context", 42, 50)


def test_a_call_that_runs_ends_at_a_token_border_when_another_thread_stops_it(
    rng: np.random.Generator,
) -> None:
    spec, tensors = model(rng)
    backend = NativeBackend(spec, tensors, threads=2)
    kv = backend.open_kv(600)
    plan = DecodePlan(SamplingParams(), frozenset(), 10**6)
    decode = backend.decode(kv, tokens(rng, 3), plan)
    decode.wait(1.0)
    seen = len(decode.drain_nowait())
    stopper = threading.Thread(target=decode.stop)
    stopper.start()
    while decode.reason is None:
        decode.wait(1.0)
        seen += len(decode.drain_nowait())
    stopper.join()
    assert decode.reason == "cancelled" or kv.length == 600
    assert kv.length == 3 + seen - 1


@pytest.mark.parametrize("threads", [1, 2])
def test_weights_that_are_no_numbers_are_an_error_and_the_cache_holds_whole_steps(
    rng: np.random.Generator, threads: int
) -> None:
    spec, tensors = model(rng)
    tensors["layers.3.w2"][0, 5, 7] = torch.nan
    backend = NativeBackend(spec, tensors, "float32", threads=threads)
    kv = backend.open_kv(40)
    with pytest.raises(ModelError, match="NaN"):
        greedy(backend, kv, tokens(rng, 4), 5)
    assert kv.length == 4


def test_what_cannot_be_run_is_refused_before_any_work(rng: np.random.Generator) -> None:
    spec, tensors = model(rng)
    backend = NativeBackend(spec, tensors)
    with pytest.raises(InputError, match="capacity=0"):
        backend.open_kv(0)
    with pytest.raises(ContextError, match="context of 600"):
        backend.open_kv(601)
    kv = backend.open_kv(4)
    backend.prefill(kv, [])
    with pytest.raises(InputError, match="60"):
        backend.prefill(kv, [1, 60])
    with pytest.raises(ContextError, match="5 ids"):
        backend.last_logits(kv, [1] * 5)
    with pytest.raises(InputError, match="another backend"):
        backend.prefill(ReferenceBackend(spec, tensors).open_kv(4), [1])
    assert kv.length == 0
    kv.close()
    kv.close()
    with pytest.raises(EngineClosedError, match="cache is closed"):
        backend.prefill(kv, [1])
    backend.close()
    backend.close()
    with pytest.raises(EngineClosedError, match="backend is closed"):
        backend.open_kv(4)
    with pytest.raises(InputError, match=r"'int3'.*'int4'"):
        NativeBackend(spec, tensors, "int3")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cache='int8'"):
        NativeBackend(spec, tensors, cache="int8")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="threads=-1"):
        NativeBackend(spec, tensors, threads=-1)
    with pytest.raises(InputError, match=r"'sse9'.*'portable'"):
        NativeBackend(spec, tensors, program="sse9")


def test_weights_beyond_half_precision_are_named(rng: np.random.Generator) -> None:
    spec, tensors = model(rng)
    tensors["layers.2.w2"][0, 0, 0] = 70000.0
    with pytest.raises(ConfigError, match=r"'layers\.2\.w2'.*float32"):
        NativeBackend(spec, tensors, "float16")
    for dtype in ("float32", "bfloat16", "int8", "int4"):
        NativeBackend(spec, tensors, dtype).close()
    tensors["layers.2.w2"][0, 0, 0] = -70000.0  # a least value is FP16 itself
    with pytest.raises(ConfigError, match=r"'layers\.2\.w2'.*float32"):
        NativeBackend(spec, tensors, "int4")


@pytest.mark.parametrize("variant", VARIANTS)
def test_memory_that_is_not_there_is_told_as_what_would_have_been_packed(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, variant: str
) -> None:
    width = int(rng.choice([16, 48, 80, 272]))  # whole blocks: q, k and v may be of several types
    wide = replace(PLAIN, **{"windows": (), "head_dim": width, **VARIANTS[variant]})
    names = [str(kind) for kind in rng.choice([*library.TYPES], 6 * wide.n_layers + 1)]
    if wide.head_dim != width:
        names = [name if i % 6 not in (1, 2) else names[i - i % 6] for i, name in enumerate(names)]
    layers = tuple(tuple(names[i : i + 6]) for i in range(0, len(names) - 1, 6))
    types = Types(layers, names[-1])
    nothing = Packed(types, (), np.zeros(0, np.float32), None, 0.0)
    packed: list[int] = []

    def measure(loader: Loader, given: Packed) -> Packed:
        packed.extend(loader._stream(thread).nbytes for thread in range(loader._threads))
        return given

    with monkeypatch.context() as patch:
        patch.setattr(Loader, "fill", measure)
        NativeBackend(wide, nothing, threads=int(rng.integers(1, 4))).close()
    assert types.packed_bytes(wide) == sum(packed)

    class Full:
        kog_open = staticmethod(lambda shape: None)

    large = replace(wide, vocab_size=wide.vocab_size << 20)
    monkeypatch.setattr(library, "load", Full)
    with pytest.raises(DeviceError, match=rf"no memory for {types.packed_bytes(large) / 1e9:.2f} GB"):
        NativeBackend(large, nothing)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_floats_are_narrowed_as_torch_does(rng: np.random.Generator, kind: str) -> None:
    bits = rng.integers(0, 2**32, 20_003, np.uint32)
    bits[:1000] = rng.integers(0x33000000, 0x39000000, 1000)  # FP16's subnormals
    floats = bits.view(np.float32)
    found = np.empty(len(floats), np.uint16)
    call = library.load().kog_narrow
    overflow = call(library.TYPES[kind], floats.ctypes.data, len(floats), found.ctypes.data)
    halves = torch.from_numpy(floats).to(getattr(torch, kind))
    wanted = halves.view(torch.int16).numpy().view(np.uint16)
    number = ~np.isnan(floats)
    assert (found[number] == wanted[number]).all()
    assert np.isnan(torch.from_numpy(found.view(np.int16)).view(halves.dtype).float().numpy()[~number]).all()
    assert np.isinf(overflow) == bool((halves.isinf() & torch.from_numpy(np.isfinite(floats))).any())


def test_an_engine_on_the_cpu_never_imports_torch(tmp_path: Path) -> None:
    write_tiny_model(tmp_path)
    code = (
        "import sys\n"
        "from kogagent import Engine\n"
        f"with Engine.load({str(tmp_path)!r}, device='native') as engine:\n"
        "    print(engine.backend_name, 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.split() == ["native", "False"]


def test_a_library_that_is_missing_or_older_than_its_sources_is_refused(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    spec, tensors = model(rng)
    monkeypatch.setattr(library, "digest", lambda: "other")
    with pytest.raises(InputError, match="Build it again"):
        NativeBackend(spec, tensors)
    with pytest.raises(InputError, match="Build it again"):
        resolve("cpu")  # not torch, without a word
    monkeypatch.setattr(library, "library_path", lambda: None)
    with pytest.raises(InputError, match="Install g\\+\\+ or clang\\+\\+"):
        NativeBackend(spec, tensors)
    assert resolve("cpu") == "torch"
