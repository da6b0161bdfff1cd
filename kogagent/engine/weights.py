"""Checkpoints: files to canonical tensors and back. Knows no forward pass, no tokenizer.

Everything is checked before a tensor is read: config keys, names, shapes, file lengths. What is read is
checked for NaN and infinity. A checkpoint is loaded whole or not at all, without torch, whose import takes
longer than reading a small model.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kogagent.disk_cache import sources
from kogagent.engine.formats import Entry, Layout, config_layout
from kogagent.engine.formats.laneformer import to_config
from kogagent.engine.tensor import STORED, HostTensor, Kind, Weight, on_host
from kogagent.errors import ConfigError, InputError
from kogagent.spec import ModelSpec

if TYPE_CHECKING:
    import torch

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_KINDS: dict[str, Kind] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class Checkpoint:
    """A model in memory: weights has the names and shapes of spec.tensors(), in the file's precision."""

    spec: ModelSpec
    weights: Mapping[str, Weight]

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights as torch has them, in the same memory."""
        return {n: w.torch() if isinstance(w, HostTensor) else w for n, w in self.weights.items()}


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor of a file, not read yet."""

    shape: tuple[int, ...]
    read: Callable[[], HostTensor]


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint: a directory with config.json and safetensors, or a GGUF file.

    A directory without config.json that holds exactly one .gguf file stands for that file. Quantised and F16
    GGUF tensors come as float16, F32 as float32, BF16 as bfloat16. Raises ConfigError naming the file, key or
    tensor at fault; MissingExtraError for a GGUF file without the package `gguf`. Safetensors are mapped, not
    copied: the files must stay as they are while the checkpoint is in use.
    """
    path = model_file(Path(path))
    if path.is_dir():
        return _load(path, _directory_layout(path), _safetensors(path))
    from kogagent.engine.formats import gguf_file

    file = gguf_file.open_gguf(path)
    stored = {name: Stored(t.shape, t.read) for name, t in file.tensors.items()}
    return _load(path, file.layout, stored)


def identity(path: str | Path) -> str:
    """Names what `load_checkpoint` would read, and how, without reading it: another text once a file is
    another or was written to, or the engine's own sources changed. Raises ConfigError where there is no
    model."""
    path = model_file(Path(path)).resolve()
    files = [path]
    if path.is_dir():
        named = [path / name for name in ("config.json", "generation_config.json", _INDEX)]
        files = [*(file for file in named if file.is_file()), *sorted(path.glob("*.safetensors"))]
    engine = Path(__file__).parent
    told: list[object] = [sources(engine, engine / "backends", engine / "formats")]
    told += [(str(file), stat.st_size, stat.st_mtime_ns) for file in files for stat in (file.stat(),)]
    return hashlib.sha256(repr(told).encode()).hexdigest()


def read_spec(path: str | Path) -> ModelSpec:
    """The shape alone of a checkpoint as load_checkpoint takes it, or of its config.json. The same errors."""
    path = Path(path)
    if path.name == "config.json" and path.is_file():
        return _directory_layout(path.parent).spec
    path = model_file(path)
    if path.is_dir():
        return _directory_layout(path).spec
    from kogagent.engine.formats import gguf_file

    return gguf_file.open_gguf(path).layout.spec


def model_file(path: Path) -> Path:
    """The directory with config.json, or the .gguf file, that a path stands for."""
    if not path.exists():
        raise ConfigError(f"{path}: no such file or directory")
    if path.is_dir():
        if (path / "config.json").is_file():
            return path
        files = sorted(path.glob("*.gguf"))
        if not files:
            raise ConfigError(
                f"{path}: holds no model, neither a config.json nor a .gguf file. Name the one that does."
            )
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise ConfigError(f"{path}: has no config.json, and {len(files)} .gguf files. Name one: {names}.")
        return files[0]
    if path.suffix != ".gguf":
        raise ConfigError(f"{path}: neither a directory nor a .gguf file")
    return path


def _directory_layout(path: Path) -> Layout:
    return config_layout(_read_json(path / "config.json"), _optional_json(path / "generation_config.json"))


def save_checkpoint(
    directory: str | Path,
    spec: ModelSpec,
    tensors: Mapping[str, torch.Tensor],
    max_shard_bytes: int = 2**30,
) -> None:
    """Write config.json and sharded safetensors that `load_checkpoint` reads back equal.

    A tensor larger than max_shard_bytes gets a shard of its own. The directory is made when missing; one that
    holds safetensors already is refused, so that shards of two models never mix. Raises ConfigError when the
    tensors do not fit the spec.
    """
    from safetensors.torch import save_file

    check_tensors(spec, tensors)
    for name, tensor in tensors.items():
        _check_finite(name, on_host(tensor))
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.glob("*.safetensors")):
        raise InputError(f"{directory}: holds safetensors already; save to an empty directory")
    shards: list[list[str]] = [[]]
    filled = 0
    for name in spec.tensors():
        size = tensors[name].numel() * tensors[name].element_size()
        if shards[-1] and filled + size > max_shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += size
    files = [
        _SINGLE if len(shards) == 1 else f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        for i in range(len(shards))
    ]
    for file, names in zip(files, shards, strict=True):
        shard = {n: tensors[n].detach().cpu().contiguous().clone() for n in names}  # no shared storage
        save_file(shard, directory / file, metadata={"format": "pt"})
    if len(files) > 1:
        where = {name: file for file, names in zip(files, shards, strict=True) for name in names}
        size = sum(t.numel() * t.element_size() for t in tensors.values())
        _write_json(directory / _INDEX, {"metadata": {"total_size": size}, "weight_map": where})
    _write_json(directory / "config.json", to_config(spec))  # last: a directory with it is complete


def random_tensors(spec: ModelSpec, seed: int, dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
    """Seeded weights whose activations keep their size through the layers: tests, benchmarks, kernels.

    Matrices are normal with variance 1/fan-in over all lanes, those that write to the stream divided by
    sqrt(2N) besides; embeddings have variance 1; norms lie near 1. The same (spec, seed) gives the same
    numbers in every dtype, up to rounding; None is FP32.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    out = {}
    for name, shape in spec.tensors().items():
        part = name.rsplit(".", 1)[-1]
        tensor = torch.empty(shape).normal_(generator=generator)
        if part in ("attn_norm", "ffn_norm", "norm", "q_norm", "k_norm"):
            tensor.mul_(0.1).add_(1.0)
        elif part in ("bq", "bk", "bv"):
            tensor.mul_(0.5)
        elif part in ("wo", "w2"):
            fan_in = shape[-1] * spec.lanes
            tensor.mul_(1.0 / math.sqrt(fan_in * 2 * spec.n_layers))
        elif part != "embed":
            tensor.mul_(1.0 / math.sqrt(shape[-1]))
        elif spec.tied_head:  # the table is the head too: logits must not be sqrt(D) wide
            tensor.mul_(1.0 / math.sqrt(spec.dim))
        out[name] = tensor.to(dtype or torch.float32)
    return out


def check_tensors(spec: ModelSpec, tensors: Mapping[str, Weight]) -> None:
    """Refuse, by name, missing, extra and mis-shaped tensors. Raises ConfigError."""
    expected = spec.tensors()
    problems = [f"missing {name!r}" for name in expected if name not in tensors]
    problems += [f"unknown {name!r}" for name in tensors if name not in expected]
    problems += [
        f"{name!r} has shape {tuple(tensors[name].shape)}, the spec says {shape}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    _raise_problems("tensors do not fit the spec", problems)


def _load(path: Path, layout: Layout, stored: Mapping[str, Stored]) -> Checkpoint:
    spec, entries = layout.spec, layout.entries
    used = {entry.name for entry in entries.values()}
    problems = [f"missing {e.name!r}" for e in entries.values() if e.name not in stored]
    problems += [
        f"unknown {name!r}"
        for name in stored
        if name not in used and name not in layout.ignored and name not in layout.same
    ]
    problems += [
        f"{e.name!r} has shape {stored[e.name].shape}, config says {' or '.join(map(str, e.shapes))}"
        for e in entries.values()
        if e.name in stored and stored[e.name].shape not in e.shapes
    ]
    _raise_problems(f"{path}: tensors do not fit the config", problems)
    tensors: dict[str, HostTensor] = {}
    for name, shape in spec.tensors().items():
        entry = entries[name]
        tensor = stored[entry.name].read()
        _check_finite(entry.name, tensor, path)
        tensors[name] = _canonical(tensor, entry, shape)
    for extra, name in layout.same.items():
        if extra in stored and not np.array_equal(stored[extra].read().float32(), tensors[name].float32()):
            raise ConfigError(
                f"{path}: tie_word_embeddings is true, but {extra!r} differs from {entries[name].name!r}. "
                "Set tie_word_embeddings to false in config.json."
            )
    return Checkpoint(spec, tensors)


def _canonical(tensor: HostTensor, entry: Entry, shape: tuple[int, ...]) -> HostTensor:
    data = tensor.data
    if entry.halves:  # rows x0..x[h/2-1], x[h/2].. of each head become x0, x[h/2], x1, x[h/2+1] ..
        rest = data.shape[1:]
        data = data.reshape(-1, 2, entry.halves // 2, *rest).swapaxes(1, 2).reshape(data.shape)
    return HostTensor(tensor.kind, data).reshaped(shape)


def _check_finite(name: str, tensor: HostTensor, path: Path | None = None) -> None:
    if not tensor.is_finite():
        where = f"{path}: " if path else ""
        what = "NaN or infinity" if tensor.blocks is None else "NaN, or numbers beyond FP16's range"
        raise ConfigError(f"{where}tensor {name!r} holds {what}. The checkpoint is damaged.")


def _safetensors(directory: Path) -> dict[str, Stored]:
    """Every tensor of a directory's safetensors files, by the index where there is one."""
    index = directory / _INDEX
    if not index.is_file():
        if (directory / _SINGLE).is_file():
            return _safetensors_file(directory / _SINGLE)
        raise ConfigError(f"{directory}: has neither {_SINGLE} nor {_INDEX}")
    where = _read_json(index).get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(f, str) for f in where.values()):
        raise ConfigError(f"{index}: has no weight_map of tensor names to files")
    stored: dict[str, Stored] = {}
    for file in sorted(set(where.values())):
        if Path(file).name != file:
            raise ConfigError(f"{index}: {file!r} lies outside the directory")
        if not (directory / file).is_file():
            raise ConfigError(f"{directory / file}: the shard is missing")
        found = _safetensors_file(directory / file)
        listed = {name for name, f in where.items() if f == file}
        if found.keys() != listed:
            raise ConfigError(
                f"{directory / file}: holds other tensors than {_INDEX} says: "
                f"{sorted(found.keys() ^ listed)[:8]}"
            )
        stored |= found
    return stored


def _safetensors_file(path: Path) -> dict[str, Stored]:
    """The tensors of one file, mapped: the package checks the file and its header, and reads no BF16 without
    torch; where the bytes lie is said by the same header."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            names: list[str] = list(file.keys())
            parts = {name: file.get_slice(name) for name in names}
            kinds = {name: str(part.get_dtype()) for name, part in parts.items()}
            shapes = {name: tuple(part.get_shape()) for name, part in parts.items()}
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path}: truncated or not a safetensors file ({error})") from error
    for name, kind in kinds.items():
        if kind not in _KINDS:
            raise ConfigError(
                f"{path}: tensor {name!r} has type {kind}; only {', '.join(_KINDS)} can be read"
            )
    with path.open("rb") as raw:
        data = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_COPY)  # torch wants memory it could write to
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])

    def stored(name: str) -> Stored:
        kind, shape = _KINDS[kinds[name]], shapes[name]
        start, end = header[name]["data_offsets"]

        def read() -> HostTensor:
            count = (end - start) // STORED[kind].itemsize
            numbers = np.frombuffer(data, STORED[kind], count, begin + start)
            return HostTensor(kind, np.require(numbers, requirements="A").reshape(shape))

        return Stored(shape, read)

    return {name: stored(name) for name in names}


def _raise_problems(what: str, problems: list[str]) -> None:
    if problems:
        more = f" and {len(problems) - 8} more" if len(problems) > 8 else ""
        raise ConfigError(f"{what}: {'; '.join(problems[:8])}{more}")


def _optional_json(path: Path) -> dict[str, Any]:
    return _read_json(path) if path.is_file() else {}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: must hold a JSON object")
    return value


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
