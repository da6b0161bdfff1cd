"""Weights packed once: the same backend from the cache on disk, and a new one where that is damaged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kogagent.disk_cache import DiskCache
from kogagent.engine import weights
from kogagent.engine.backends import load_backend, prepared
from kogagent.engine.backends.native import Dtype, NativeBackend
from kogagent.engine.backends.native_weights import Loader
from kogagent.engine.weights import random_tensors, save_checkpoint
from kogagent.errors import ConfigError
from kogagent.kernels.cpu import library
from kogagent.spec import ModelSpec, RopeScaling

pytestmark = pytest.mark.skipif(library.missing() is not None, reason="the CPU program was not built")

PLAIN = ModelSpec(48, 32, 2, 4, 2, 8, 48, 128, tied_head=True, eos_ids=(3,), name="plain")
SPECS = {
    "tied": PLAIN,
    "bias, norms, own table": replace(PLAIN, tied_head=False, qkv_bias=True, qk_norm=True),
    "scaled": replace(PLAIN, rope_scaling=RopeScaling(4.0, 1.0, 4.0, 16), windows=(5, 0)),
    "lanes": replace(PLAIN, n_kv_heads=4, lanes=4, delay=1, tied_head=False),
}


def _saved(folder: Path, spec: ModelSpec, rng: np.random.Generator) -> Path:
    save_checkpoint(folder, spec, random_tensors(spec, int(rng.integers(1 << 31))))
    return folder


def _opened(path: Path, disk: DiskCache, dtype: str = "int8") -> NativeBackend:
    backend = load_backend("native", path, dtype, disk)
    assert isinstance(backend, NativeBackend)
    return backend


def _logits(backend: NativeBackend, ids: Sequence[int]) -> bytes:
    try:
        return backend.logits(backend.open_kv(64), ids).tobytes()
    finally:
        backend.close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The checkpoints that have been read."""
    paths: list[Path] = []

    def load(path: Path) -> object:
        paths.append(path)
        return real(path)

    real = weights.load_checkpoint
    monkeypatch.setattr(prepared, "load_checkpoint", load)
    return paths


@pytest.mark.parametrize(
    ("which", "dtype"),
    [
        *((which, "int8") for which in SPECS),
        *(("bias, norms, own table", dtype) for dtype in ("float32", "float16", "bfloat16", "int8_row")),
    ],
)
def test_kept_weights_make_the_same_backend_without_the_checkpoint(
    which: str, dtype: str, tmp_path: Path, rng: np.random.Generator, read: list[Path]
) -> None:
    path, disk = _saved(tmp_path / "model", SPECS[which], rng), DiskCache(tmp_path / "kept", limit=1 << 30)
    ids = [int(i) for i in rng.integers(0, PLAIN.vocab_size, 21)]
    first = _opened(path, disk, dtype)
    told = (first.spec, first.threads, first.program, first.quantisation_error)
    wanted = _logits(first, ids)
    again = _opened(path, disk, dtype)
    assert read == [path]  # once
    assert (again.spec, again.threads, again.program, again.quantisation_error) == told
    assert _logits(again, ids) == wanted


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int8_row", "int4"])
def test_what_is_packed_depends_on_nothing_that_the_memory_held(
    dtype: Dtype, rng: np.random.Generator
) -> None:
    spec = replace(PLAIN, dim=37, vocab_size=45, ffn_dim=70)  # groups, blocks and pairs that are not full
    tensors = random_tensors(spec, int(rng.integers(1 << 31)))
    found = []
    for byte in (0, 0x5A):
        backend = NativeBackend(spec, tensors, dtype)
        for stream in backend.packed.streams:
            stream[:] = byte
        loader = Loader(backend._c, backend._handle(), spec, backend._types, backend.threads)
        found.append([stream.tobytes() for stream in loader.pack(tensors).streams])
        backend.close()
    assert found[0] == found[1]


def test_a_file_that_was_written_to_another_type_and_another_place_are_read_anew(
    tmp_path: Path, rng: np.random.Generator, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, disk = _saved(tmp_path / "model", PLAIN, rng), DiskCache(tmp_path / "kept", limit=1 << 30)
    _opened(path, disk).close()
    _opened(path, disk, "float16").close()
    assert len(read) == 2
    file = path / "model.safetensors"
    os.utime(file, ns=(1, file.stat().st_mtime_ns + 10**9))  # what every file system tells apart
    _opened(path, disk).close()
    assert len(read) == 3
    path.rename(tmp_path / "moved")
    _opened(tmp_path / "moved", disk).close()
    assert len(read) == 4
    other = library.usable_cores() + 1
    monkeypatch.setattr(library, "usable_cores", lambda: other)
    _opened(tmp_path / "moved", disk).close()
    assert len(read) == 5
    held = disk.entries()
    _opened(tmp_path / "moved", DiskCache(tmp_path / "kept", limit=0), "float32").close()
    assert disk.entries() == held


def test_damaged_weights_are_packed_anew(tmp_path: Path, rng: np.random.Generator, read: list[Path]) -> None:
    path, disk = _saved(tmp_path / "model", PLAIN, rng), DiskCache(tmp_path / "kept", limit=1 << 30)
    ids = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    wanted = _logits(_opened(path, disk), ids)
    (found,) = disk.find_all("weights", "")
    places = {name: np.array(found.part(name)).tobytes() for name in ("vectors", "stream0")}
    for count, part in enumerate(places.values()):
        data = bytearray(found.path.read_bytes())
        data[data.index(part) + int(rng.integers(len(part)))] ^= 0x10
        found.path.write_bytes(data)
        assert _logits(_opened(path, disk), ids) == wanted
        assert len(read) == count + 2


def test_weights_of_another_layout_are_packed_anew(
    tmp_path: Path, rng: np.random.Generator, read: list[Path]
) -> None:
    path, disk = _saved(tmp_path / "model", PLAIN, rng), DiskCache(tmp_path / "kept", limit=1 << 30)
    _opened(path, disk).close()
    (entry,) = disk.entries("weights")
    key = entry.path.name.removeprefix("weights-").removesuffix(".kept")
    found = disk.find("weights", key)
    assert found is not None
    names = [f"stream{i}" for i in range(found.meta["threads"])]
    parts = {name: np.array(found.part(name)) for name in (*names, "vectors")}
    wrong = {
        "a stream too short": (found.meta, parts | {"stream0": parts["stream0"][:-64]}),
        "too few vectors": (found.meta, parts | {"vectors": parts["vectors"][1:]}),
        "no vectors": (found.meta, {name: parts[name] for name in names}),
        "an unknown field": (found.meta | {"spec": found.meta["spec"] | {"depth": 1}}, parts),
        "a field out of range": (found.meta | {"spec": found.meta["spec"] | {"dim": 0}}, parts),
        "no spec": ({"threads": found.meta["threads"]}, parts),
    }
    for count, (what, (meta, some)) in enumerate(wrong.items()):
        disk.put("weights", key, meta, some)
        _opened(path, disk).close()
        assert len(read) == count + 2, what


def test_a_checkpoint_that_is_wrong_is_refused_and_leaves_nothing(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    path, disk = _saved(tmp_path / "model", PLAIN, rng), DiskCache(tmp_path / "kept", limit=1 << 30)
    (path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ConfigError, match=r"model\.safetensors"):
        _opened(path, disk)
    with pytest.raises(ConfigError, match="no such file"):
        _opened(tmp_path / "nowhere", disk)
    assert disk.entries() == []
