"""GGUF files: quantisations against arithmetic written here, architectures, every kind of damage."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest
import torch

from kogagent.disk_cache import DiskCache
from kogagent.engine.backends import load_backend
from kogagent.engine.backends.native import NativeBackend
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.formats.blocks import BLOCK_KINDS
from kogagent.engine.formats.gguf_file import QUANTISATIONS
from kogagent.engine.tensor import HostTensor
from kogagent.engine.weights import Checkpoint, load_checkpoint, random_tensors
from kogagent.errors import ConfigError, InputError, MissingExtraError
from kogagent.gguf_header import read_header
from kogagent.kernels.cpu import library
from kogagent.spec import ModelSpec, RopeScaling

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

SPEC = ModelSpec(
    name="tiny",
    vocab_size=48,
    dim=256,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    head_dim=64,
    ffn_dim=512,
    context=64,
    bos_id=1,
    eos_ids=(2,),
)


# ── a writer for the test: our tensors under GGUF's names ──


def file_name(name: str) -> str:
    top = {"embed": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight"}
    if name in top:
        return top[name]
    _, layer, part = name.split(".")
    inner = {
        "wq": "attn_q.weight", "wk": "attn_k.weight", "wv": "attn_v.weight", "wo": "attn_output.weight",
        "bq": "attn_q.bias", "bk": "attn_k.bias", "bv": "attn_v.bias",
        "q_norm": "attn_q_norm.weight", "k_norm": "attn_k_norm.weight",
        "w1": "ffn_gate.weight", "w2": "ffn_down.weight", "w3": "ffn_up.weight",
        "attn_norm": "attn_norm.weight", "ffn_norm": "ffn_norm.weight",
    }  # fmt: skip
    return f"blk.{layer}.{inner[part]}"


def halves(tensor: Floats, head_dim: int) -> Floats:
    """Rows of interleaved pairs back to the halves that qwen's files hold."""
    rows = tensor.reshape(-1, head_dim, *tensor.shape[1:])
    out: Floats = np.concatenate([rows[:, 0::2], rows[:, 1::2]], 1).reshape(tensor.shape)
    return out


def write(
    path: Path,
    spec: ModelSpec,
    tensors: dict[str, Any],
    arch: str = "llama",
    keys: dict[str, Any] | None = None,
    extra: dict[str, Floats] | None = None,
    raw: dict[str, gguf.GGMLQuantizationType] | None = None,
) -> None:
    """tensors: canonical name -> FP32 array, or raw blocks [rows, bytes] of the type in `raw`."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(spec.name)
    writer.add_context_length(spec.context)
    writer.add_embedding_length(spec.dim)
    writer.add_block_count(spec.n_layers)
    writer.add_feed_forward_length(spec.ffn_dim)
    writer.add_head_count(spec.n_heads)
    writer.add_head_count_kv(spec.n_kv_heads)
    writer.add_layer_norm_rms_eps(spec.norm_eps)
    writer.add_rope_freq_base(spec.rope_theta)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for key, value in (keys or {}).items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_uint32(key, value)
    for name, tensor in tensors.items():
        kind = (raw or {}).get(name)
        writer.add_tensor(file_name(name), tensor, raw_dtype=kind)
    for name, tensor in (extra or {}).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def stored(spec: ModelSpec, tensors: dict[str, torch.Tensor], *, turn: bool = False) -> dict[str, Floats]:
    """FP32 arrays without the lane axis, q and k in halves where `turn` says so."""
    out = {}
    for name, tensor in tensors.items():
        part = name.rsplit(".", 1)[-1]
        array = (tensor[0] if part[0] in "wb" else tensor).numpy()
        if turn and part in ("wq", "wk", "bq", "bk", "q_norm", "k_norm"):
            array = halves(array, spec.head_dim)
        out[name] = np.ascontiguousarray(array)
    return out


# ── quantisations ──


def blocks(kind: str, rows: int, columns: int, rng: np.random.Generator, spread: float = 0.1) -> Bytes:
    """Random blocks of a k-quantisation, which the package does not write. spread: of their numbers."""
    size, width = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    data = rng.integers(0, 256, (rows, columns // size, width), dtype=np.uint8)
    middle = {"Q4_K": 7.5, "Q5_K": 15.5, "Q6_K": 32.0}[
        kind
    ]  # of the integers; of what multiplies them 32 to 64
    scale = spread / 32 / middle * rng.uniform(0.5, 1.5, (rows, columns // size, 1))
    if kind == "Q6_K":
        data[..., -2:] = scale.astype(np.float16).view(np.uint8)
    else:
        data[..., :2] = scale.astype(np.float16).view(np.uint8)
        data[..., 2:4] = (middle * scale).astype(np.float16).view(np.uint8)
    return data.reshape(rows, -1)


def quantised(kind: str, matrix: Floats, rng: np.random.Generator) -> Any:
    """The matrix in blocks or numbers of this kind; random ones of half its size where the package makes none
    (as large ones, whose neighbours have one sign, make a model that amplifies every rounding)."""
    if kind.endswith("_K"):
        return blocks(kind, len(matrix), matrix.shape[1], rng, float(matrix.std()) / 2)
    return gguf.quantize(matrix, gguf.GGMLQuantizationType[kind])


def half(data: Bytes, start: int) -> float:
    return float(data[start : start + 2].view(np.float16)[0])


def scales_of_k(data: Bytes, index: int) -> tuple[int, int]:
    """The 6-bit scale and minimum of sub-block `index` in the 12 bytes shared by Q4_K and Q5_K."""
    if index < 4:
        return int(data[index]) & 63, int(data[index + 4]) & 63
    low, top = int(data[index + 4]), (int(data[index - 4]), int(data[index]))
    return (low & 15) | (top[0] >> 6 << 4), (low >> 4) | (top[1] >> 6 << 4)


def one_block(kind: str, b: Bytes) -> list[float]:
    """The weights of one block, by the format's definition and nothing of the package."""
    if kind == "Q8_0":
        return [half(b, 0) * int(q) for q in b[2:].view(np.int8)]
    if kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        d, at = half(b, 0), 2
        minimum = 0.0
        if kind.endswith("1"):
            minimum, at = half(b, 2), 4
        high = 0
        if kind.startswith("Q5"):
            high, at = int.from_bytes(b[at : at + 4].tobytes(), "little"), at + 4
        quants = [int(q) & 15 for q in b[at:]] + [int(q) >> 4 for q in b[at:]]
        quants = [q | (high >> i & 1) << 4 for i, q in enumerate(quants)]
        middle = {"Q4_0": 8, "Q5_0": 16}.get(kind, 0)
        return [d * (q - middle) + minimum for q in quants]
    out = []
    if kind in ("Q4_K", "Q5_K"):
        d, dmin, scales = half(b, 0), half(b, 2), b[4:16]
        fifth, fours = (b[16:48], b[48:]) if kind == "Q5_K" else (None, b[16:])
        for i in range(256):
            group, lane = i // 32, i % 32
            q = int(fours[group // 2 * 32 + lane]) >> 4 * (group % 2) & 15
            if fifth is not None:
                q |= (int(fifth[lane]) >> group & 1) << 4
            scale, minimum = scales_of_k(scales, group)
            out.append(d * scale * q - dmin * minimum)
        return out
    low, top, scales, d = b[:128], b[128:192], b[192:208].view(np.int8), half(b, 208)  # Q6_K
    for i in range(256):
        part, j = i // 128, i % 128
        q = int(low[part * 64 + j % 64]) >> 4 * (j // 64) & 15
        q |= (int(top[part * 32 + j % 32]) >> 2 * (j // 32) & 3) << 4
        out.append(d * int(scales[i // 16]) * (q - 32))
    return out


def expected(kind: str, data: Bytes) -> Floats:
    size, width = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    rows = [[v for block in row.reshape(-1, width) for v in one_block(kind, block)] for row in data]
    assert len(rows[0]) % size == 0
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize("kind", QUANTISATIONS)
def test_each_quantisation_is_read_as_its_format_says(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    tensors = stored(SPEC, random_tensors(SPEC, int(rng.integers(2**31))))
    matrix, code = tensors["layers.0.wv"], gguf.GGMLQuantizationType[kind]
    data = quantised(kind, matrix, rng)
    write(
        tmp_path / "m.gguf",
        SPEC,
        {**tensors, "layers.0.wv": data},
        raw=None if kind in ("F32", "F16") else {"layers.0.wv": code},
    )
    read = load_checkpoint(tmp_path / "m.gguf")
    assert read.spec == SPEC
    found = read.tensors["layers.0.wv"][0]
    assert found.dtype == {"F32": torch.float32, "BF16": torch.bfloat16}.get(kind, torch.float16)
    assert read.tensors["layers.0.wk"].dtype == torch.float32
    if kind == "F32":
        wanted = torch.from_numpy(matrix)
    elif kind in ("F16", "BF16"):
        wanted = torch.from_numpy(matrix).to(found.dtype)
    else:
        wanted = torch.from_numpy(expected(kind, data))
        if not kind.endswith("_K"):  # the quantised matrix must still be the matrix
            assert (wanted - torch.from_numpy(matrix)).abs().max() < 0.1
    error = (found.float() - wanted.float()).abs().max() / wanted.abs().max()
    assert error < (1e-3 if found.dtype == torch.float16 else 1e-9)
    # By the package alone, as where the CPU program was not built: the same bits.
    monkeypatch.setattr(library, "missing", lambda: InputError("not built"))
    assert torch.equal(load_checkpoint(tmp_path / "m.gguf").tensors["layers.0.wv"][0], found)


# ── blocks that the CPU program multiplies as they are ──

needs_native = pytest.mark.skipif(library.missing() is not None, reason="the CPU program was not built")
TIED = replace(SPEC, tied_head=True)


def write_blocks(
    path: Path,
    rng: np.random.Generator,
    layers: str,
    head: str,
    others: dict[str, str] | None = None,
    spec: ModelSpec = TIED,
) -> None:
    """A model whose layers' matrices are of one kind, but for `others`: of a name in all layers or, as in
    "layers.0.w2", in one. head: the table's kind, or table's and head's with a slash between."""
    table, _, own = head.partition("/")
    spec = replace(spec, tied_head=not own)
    tensors: dict[str, Any] = dict(stored(spec, random_tensors(spec, int(rng.integers(2**31)))))
    kinds, raw = {"embed": table, "head": own, **(others or {})}, {}
    for name, array in tensors.items():
        if array.ndim == 2:
            kind = kinds.get(name) or kinds.get(name.rpartition(".")[2], layers)
            raw[name] = gguf.GGMLQuantizationType[kind]
            tensors[name] = quantised(kind, array, rng)
    keys = {"llama.attention.key_length": spec.head_dim, "llama.attention.value_length": spec.head_dim}
    keys["llama.rope.dimension_count"] = spec.head_dim
    write(path, spec, tensors, raw=raw, keys=keys)


def largest_divergence(backend: NativeBackend, read: Checkpoint, rng: np.random.Generator) -> float:
    """Nats, of passes of many rows, a few and one, from FP32 of the same numbers."""
    ids = [int(i) for i in rng.integers(0, TIED.vocab_size, 40)]
    wanted = ReferenceBackend(read.spec, exact(read)).forward(ids).double().log_softmax(-1)
    kv = backend.open_kv(64)
    cuts = (0, 20, 28, 31, *range(32, 41))
    found = np.concatenate([backend.logits(kv, ids[a:b]) for a, b in pairwise(cuts)])
    difference = wanted - torch.from_numpy(found).double().log_softmax(-1)
    return float((wanted.exp() * difference).sum(-1).max())


def exact(read: Checkpoint) -> dict[str, torch.Tensor]:
    """A file's numbers, blocks in FP32."""
    out = {}
    for name, w in read.weights.items():
        assert isinstance(w, HostTensor)
        out[name] = w.torch()
        if w.blocks is not None:
            numbers = gguf.dequantize(np.asarray(w.data), gguf.GGMLQuantizationType(w.blocks.code))
            out[name] = torch.from_numpy(numbers.reshape(w.shape))
    return out


@needs_native
@pytest.mark.parametrize("program", library.PROGRAMS)
@pytest.mark.parametrize(
    ("layers", "head", "others", "types"),
    [
        ("Q4_0", "Q8_0", {}, "int4 int8"),
        ("Q4_1", "Q8_0", {}, "int4 int8"),
        ("Q8_0", "Q8_0", {}, "int8 int8"),
        ("Q8_0", "Q4_0", {}, "int8 int4"),
        ("Q4_0", "Q4_1", {}, "int4 int4"),
        ("Q5_0", "Q5_1", {}, "int5 int5"),
        ("Q5_1", "Q8_0", {}, "int5 int8"),
        ("Q4_K", "Q6_K", {}, "q4_k q6_k"),
        ("Q5_K", "Q5_K", {}, "q5_k q5_k"),
        ("Q6_K", "Q4_K", {}, "q6_k q4_k"),
        ("Q4_0", "F16", {}, "int4 float16"),
        ("Q4_1", "Q4_1/Q5_0", {}, "int4 int5"),
        ("Q4_0", "F16/Q8_0", {}, "int4 int8"),
        ("Q8_0", "BF16/F16", {}, "int8 float16"),
        ("F16", "Q8_0/Q4_0", {}, "float16 int4"),
        ("Q4_K", "Q6_K/Q6_K", {}, "q4_k q6_k"),
        ("Q4_K", "Q6_K", {"wv": "Q6_K", "w2": "Q6_K"}, "q4_k+q6_k q6_k"),  # Q4_K_M
        ("Q4_K", "Q4_K/Q6_K", {"layers.0.wv": "Q6_K", "layers.1.w2": "Q6_K"}, "q4_k+q6_k q6_k"),
        ("Q5_K", "Q6_K", {"wv": "Q6_K", "w2": "Q6_K"}, "q5_k+q6_k q6_k"),  # Q5_K_M
        ("Q5_0", "Q8_0", {"wv": "Q8_0", "w2": "Q4_K", "wq": "Q4_0"}, "int8+int4+int5+q4_k int8"),
        ("Q4_1", "Q8_0", {"wv": "F16"}, "float16+int4 int8"),
    ],
)
def test_the_cpu_program_takes_a_files_blocks_as_they_are(
    tmp_path: Path,
    rng: np.random.Generator,
    layers: str,
    head: str,
    others: dict[str, str],
    types: str,
    program: str,
) -> None:
    write_blocks(tmp_path / "m.gguf", rng, layers, head, others)
    read = load_checkpoint(tmp_path / "m.gguf")
    try:
        backend = NativeBackend(read.spec, read.weights, program=program, threads=int(rng.integers(1, 4)))
    except InputError as error:
        if program == "portable" or "this processor runs none of that name" not in str(error):
            raise  # every processor runs that one, and nothing else may be refused
        pytest.skip(str(error))
    assert f" {types} " in backend.kept_as and backend.quantisation_error == 0
    assert backend.dtype == types.split()[0]
    assert largest_divergence(backend, read, rng) < 1e-4
    backend.close()


@needs_native
def test_blocks_give_the_same_bits_on_any_number_of_threads(tmp_path: Path, rng: np.random.Generator) -> None:
    write_blocks(tmp_path / "m.gguf", rng, "Q4_K", "Q5_0", {"wv": "Q6_K", "w2": "Q5_K", "wo": "Q5_1"})
    read = load_checkpoint(tmp_path / "m.gguf")
    ids = [int(i) for i in rng.integers(0, TIED.vocab_size, 40)]
    found = set()
    for threads in (1, 1, 2, 3):
        backend = NativeBackend(read.spec, read.weights, threads=threads)
        kv = backend.open_kv(64)
        found.add(b"".join(backend.logits(kv, ids[a:b]).tobytes() for a, b in pairwise((0, 20, 28, 31, 32))))
        backend.close()
    assert len(found) == 1


@needs_native
@pytest.mark.parametrize(
    ("kinds", "which", "types"),
    [
        *((("Q4_0", "Q4_1"), which, "int4") for which in ("w1", "w3", "wq", "wk", "wv", "w2")),
        (("Q5_1", "Q4_0"), "w1", "int5"),
        (("Q4_K", "Q5_K"), "w3", "q5_k"),
        (("Q8_0", "Q5_0"), "w1", "int8"),
        (("Q4_K", "Q6_K"), "w1", "float16"),  # no type holds both
        (("Q8_0", "F16"), "w3", "float16"),
    ],
)
def test_kinds_that_meet_in_a_matrix_take_a_type_that_holds_both(
    tmp_path: Path, rng: np.random.Generator, kinds: tuple[str, str], which: str, types: str
) -> None:
    some, other = rng.permutation(kinds)
    write_blocks(tmp_path / "m.gguf", rng, some, "Q8_0", {f"layers.{rng.integers(2)}.{which}": other})
    read = load_checkpoint(tmp_path / "m.gguf")
    backend = NativeBackend(read.spec, read.weights)
    assert types in backend.dtype.split("+") and backend.quantisation_error == 0
    assert largest_divergence(backend, read, rng) < 1e-4
    backend.close()


@needs_native
@pytest.mark.parametrize(("kv_heads", "types"), [(2, "int8+int4"), (1, "int8+int4"), (4, "int8+int4")])
def test_q_k_and_v_of_several_types_lie_in_one_matrix(
    tmp_path: Path, rng: np.random.Generator, kv_heads: int, types: str
) -> None:
    """Heads of 40 rows: k and v begin at 160 and 240 or 320; or, of one head, at 160 and 200, which is no
    multiple of 16, so that all three take 8 bits."""
    spec = replace(TIED, head_dim=40, n_kv_heads=kv_heads)
    write_blocks(tmp_path / "m.gguf", rng, "Q4_0", "Q8_0", {"wv": "Q8_0"}, spec)
    read = load_checkpoint(tmp_path / "m.gguf")
    backend = NativeBackend(read.spec, read.weights, threads=int(rng.integers(1, 4)))
    matrices = backend.packed.types.layers[0][:3]
    assert matrices == (("int8",) * 3 if kv_heads == 1 else ("int4", "int4", "int8"))
    assert backend.dtype == types
    assert largest_divergence(backend, read, rng) < 1e-4
    backend.close()


@needs_native
@pytest.mark.parametrize(
    ("layers", "head", "others"),
    [
        ("Q4_1", "Q8_0", {}),
        ("Q4_K", "Q6_K", {"w2": "Q6_K"}),
        ("Q5_K", "Q4_K/Q6_K", {}),
        ("Q4_0", "Q5_0/F16", {}),
    ],
)
def test_blocks_are_found_packed_the_second_time(
    tmp_path: Path, rng: np.random.Generator, layers: str, head: str, others: dict[str, str]
) -> None:
    write_blocks(tmp_path / "m.gguf", rng, layers, head, others)
    disk = DiskCache(tmp_path / "kept", limit=1 << 30)
    ids = [int(i) for i in rng.integers(0, TIED.vocab_size, 20)]
    found, names = [], []
    for _ in range(2):
        backend = load_backend("native", tmp_path / "m.gguf", "auto", disk)
        assert isinstance(backend, NativeBackend)
        names.append(backend.kept_as)
        found.append(backend.logits(backend.open_kv(64), ids).tobytes())
        backend.close()
    assert found[0] == found[1] and names[0] == names[1] and len(disk.entries("weights")) == 1


@pytest.mark.parametrize("kind", [kind.upper() for kind in BLOCK_KINDS])
@pytest.mark.parametrize("scale", [np.nan, np.inf, 60000.0])
def test_blocks_that_say_no_number_of_fp16_are_refused(
    tmp_path: Path, rng: np.random.Generator, kind: str, scale: float
) -> None:
    tensors: dict[str, Any] = dict(stored(SPEC, random_tensors(SPEC, int(rng.integers(2**31)))))
    code = gguf.GGMLQuantizationType[kind]
    data = quantised(kind, tensors["layers.1.w3"], rng)
    size = gguf.GGML_QUANT_SIZES[code][1]
    row, block = int(rng.integers(len(data))), int(rng.integers(data.shape[1] // size))
    at = block * size + (208 if kind == "Q6_K" else 0)
    data[row, at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    write(tmp_path / "m.gguf", SPEC, {**tensors, "layers.1.w3": data}, raw={"layers.1.w3": code})
    with pytest.raises(ConfigError, match=r"'blk\.1\.ffn_up\.weight' holds NaN, or numbers beyond"):
        load_checkpoint(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    ("arch", "spec"),
    [
        ("llama", SPEC),
        ("llama", replace(SPEC, tied_head=True)),
        ("qwen2", replace(SPEC, qkv_bias=True)),
        ("qwen3", replace(SPEC, qk_norm=True, tied_head=True)),
    ],
    ids=["llama", "llama tied", "qwen2", "qwen3"],
)
def test_each_architecture_comes_to_its_canonical_tensors(
    tmp_path: Path, rng: np.random.Generator, arch: str, spec: ModelSpec
) -> None:
    tensors = random_tensors(spec, int(rng.integers(2**31)))
    write(tmp_path / "m.gguf", spec, stored(spec, tensors, turn=arch != "llama"), arch)
    read = load_checkpoint(tmp_path)  # the directory that holds just this file
    assert read.spec == spec
    for name, tensor in tensors.items():
        assert torch.equal(read.tensors[name], tensor), name
    ids = [int(i) for i in rng.integers(0, spec.vocab_size, 12)]
    wanted = ReferenceBackend(spec, tensors).forward(ids)
    assert torch.equal(ReferenceBackend(read.spec, read.tensors).forward(ids), wanted)


def test_metadata_is_read_into_the_spec(tmp_path: Path, rng: np.random.Generator) -> None:
    spec = replace(SPEC, head_dim=32, windows=(16, 16), eos_ids=(2, 7), rope_theta=5e5)
    tensors = stored(spec, random_tensors(spec, int(rng.integers(2**31))))
    keys = {
        "llama.attention.key_length": 32,
        "llama.attention.value_length": 32,
        "llama.rope.dimension_count": 32,
        "llama.attention.sliding_window": 16,
        "llama.vocab_size": 48,
        "tokenizer.ggml.eot_token_id": 7,
    }
    write(tmp_path / "m.gguf", spec, tensors, keys=keys)
    assert load_checkpoint(tmp_path / "m.gguf").spec == spec


@pytest.mark.parametrize(
    "scaling",
    [RopeScaling(8.0, 1.0, 4.0, 8192), RopeScaling(32.0, 1.0, 4.0, 8192), RopeScaling(4.0, 1.0, 2.5, 512)],
)
@pytest.mark.parametrize("theta", [5e5, 1e4])
def test_llama_3_rope_is_recovered_from_its_divisors(
    tmp_path: Path, rng: np.random.Generator, scaling: RopeScaling, theta: float
) -> None:
    spec = replace(SPEC, head_dim=128, n_heads=2, n_kv_heads=1, rope_theta=theta, rope_scaling=scaling)
    plain = replace(spec, rope_scaling=None).rope_frequencies()
    divisors = np.array([a / b for a, b in zip(plain, spec.rope_frequencies(), strict=True)], np.float32)
    tensors = stored(spec, random_tensors(spec, int(rng.integers(2**31))))
    write(tmp_path / "m.gguf", spec, tensors, extra={"rope_freqs.weight": divisors})
    found = load_checkpoint(tmp_path / "m.gguf").spec
    assert found.rope_scaling is not None
    np.testing.assert_allclose(found.rope_frequencies(), spec.rope_frequencies(), rtol=1e-4)
    assert found.rope_scaling.factor == scaling.factor


def test_divisors_of_no_known_scaling_are_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    tensors = stored(SPEC, random_tensors(SPEC, int(rng.integers(2**31))))
    for bad in (np.linspace(1, 9, 32), np.full(16, 2.0), np.full(32, 0.5), np.full(32, np.inf)):
        write(tmp_path / "m.gguf", SPEC, tensors, extra={"rope_freqs.weight": bad.astype(np.float32)})
        with pytest.raises(ConfigError, match=r"rope_freqs\.weight"):
            load_checkpoint(tmp_path / "m.gguf")


# ── damage ──


@pytest.fixture
def file(tmp_path: Path, rng: np.random.Generator) -> Path:
    write(tmp_path / "m.gguf", SPEC, stored(SPEC, random_tensors(SPEC, int(rng.integers(2**31)))))
    return tmp_path / "m.gguf"


@pytest.mark.parametrize("share", [0.0, 1e-6, 1e-5, 1e-4, 5e-4, 0.01, 0.5, 0.999])
def test_a_file_cut_anywhere_is_refused(file: Path, share: float) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(
        ConfigError, match=r"m\.gguf: .*(truncated|not a GGUF file|cannot be read as a GGUF file)"
    ):
        load_checkpoint(file)


def test_another_file_with_the_name_is_refused(file: Path) -> None:
    file.write_bytes(b"PK\x03\x04" * 1000)
    with pytest.raises(ConfigError, match="not a GGUF file"):
        load_checkpoint(file)


@pytest.mark.parametrize(
    ("arch", "keys", "message"),
    [
        ("gemma3", {}, "architecture 'gemma3' is not supported"),
        ("llama", {"llama.expert_count": 8}, "expert_count=8"),
        ("llama", {"llama.rope.scaling.type": "yarn"}, "rope.scaling.type='yarn'"),
        ("llama", {"llama.rope.dimension_count": 32}, "rope.dimension_count=32"),
        ("llama", {"llama.attention.value_length": 32}, "attention.value_length=32"),
        ("llama", {"llama.logit_scale": 2}, "unknown key 'logit_scale'"),
        ("llama", {"split.count": 3}, "split"),
        ("llama", {"llama.attention.causal": False}, "attention.causal=False"),
    ],
)
def test_metadata_that_cannot_be_run_is_refused_by_name(
    tmp_path: Path, rng: np.random.Generator, arch: str, keys: dict[str, Any], message: str
) -> None:
    tensors = stored(SPEC, random_tensors(SPEC, int(rng.integers(2**31))))
    write(tmp_path / "m.gguf", SPEC, tensors, arch, keys)
    with pytest.raises(ConfigError, match=message):
        load_checkpoint(tmp_path / "m.gguf")


def test_tensors_that_do_not_fit_are_named(tmp_path: Path, rng: np.random.Generator) -> None:
    tensors = stored(SPEC, random_tensors(SPEC, int(rng.integers(2**31))))
    path = tmp_path / "m.gguf"
    write(path, SPEC, {n: t for n, t in tensors.items() if n != "layers.1.wq"})
    with pytest.raises(ConfigError, match=r"missing 'blk\.1\.attn_q\.weight'"):
        load_checkpoint(path)
    write(path, SPEC, {n: t for n, t in tensors.items() if n != "embed"})
    with pytest.raises(ConfigError, match=r"missing 'token_embd\.weight'"):
        load_checkpoint(path)
    write(path, SPEC, tensors, extra={"blk.0.attn_q.bias": np.zeros(256, np.float32)})
    with pytest.raises(ConfigError, match=r"unknown 'blk\.0\.attn_q\.bias'"):
        load_checkpoint(path)
    write(path, SPEC, {**tensors, "norm": np.zeros(128, np.float32)})
    with pytest.raises(ConfigError, match=r"'output_norm\.weight' has shape \(128,\)"):
        load_checkpoint(path)
    write(path, SPEC, {**tensors, "norm": np.full(256, np.nan, np.float32)})
    with pytest.raises(ConfigError, match=r"'output_norm\.weight' holds NaN"):
        load_checkpoint(path)


def test_an_unsupported_tensor_type_is_named_before_anything_is_read(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    tensors: dict[str, Any] = dict(stored(SPEC, random_tensors(SPEC, int(rng.integers(2**31)))))
    kind = gguf.GGMLQuantizationType.TQ1_0
    tensors["layers.0.wv"] = gguf.quantize(tensors["layers.0.wv"], kind)
    tensors["norm"] = np.full(256, np.nan, np.float32)  # would be found if tensors were read first
    write(tmp_path / "m.gguf", SPEC, tensors, raw={"layers.0.wv": kind})
    with pytest.raises(ConfigError, match="type TQ1_0 cannot be read"):
        load_checkpoint(tmp_path / "m.gguf")


def test_without_the_package_the_extra_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match=r"kogagent\[gguf\]"):
        load_checkpoint(file)


def test_a_header_is_read_once_and_again_when_the_file_is_another(file: Path) -> None:
    first = read_header(file)
    assert read_header(file) is first
    data = file.read_bytes()
    file.write_bytes(data + b"\0" * 32)
    assert read_header(file).size == len(data) + 32
    file.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        read_header(file)
