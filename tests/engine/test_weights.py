"""Checkpoints written and read back, and every way in which one may be damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from kogagent.engine.weights import load_checkpoint, random_tensors, save_checkpoint
from kogagent.errors import ConfigError, InputError
from kogagent.spec import LANEFORMER_2B, ModelSpec, RopeScaling

SPEC = ModelSpec(
    name="small",
    vocab_size=40,
    dim=16,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    head_dim=4,
    ffn_dim=24,
    context=32,
    lanes=2,
    delay=1,
    windows=(8, 0),
    bos_id=1,
    eos_ids=(2, 3),
)


@pytest.fixture
def saved(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A checkpoint in three shards."""
    tensors = random_tensors(SPEC, int(rng.integers(2**31)), torch.bfloat16)
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    save_checkpoint(tmp_path / "model", SPEC, tensors, max_shard_bytes=size // 2)
    assert len(list((tmp_path / "model").glob("*.safetensors"))) == 3
    return tmp_path / "model"


def edit(path: Path, **changes: Any) -> None:
    values = json.loads(path.read_text())
    values.update(changes)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shard_bytes", [2**30, 2000, 1])
@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        replace(SPEC, early="present", early_resent=True, head="vocab_parallel", comm_mlp=False),
        replace(SPEC, lanes=1, qkv_bias=True, qk_norm=True, tied_head=True, bos_id=None, eos_ids=()),
        replace(SPEC, delay=0, residual="ladder", rope_scaling=RopeScaling(8.0, 1.0, 4.0, 16)),
    ],
    ids=["delayed", "early sums", "plain", "ladder"],
)
def test_what_was_saved_is_read_back_equal(
    tmp_path: Path, rng: np.random.Generator, spec: ModelSpec, shard_bytes: int, dtype: torch.dtype
) -> None:
    tensors = random_tensors(spec, int(rng.integers(2**31)), dtype)
    save_checkpoint(tmp_path, spec, tensors, shard_bytes)
    read = load_checkpoint(tmp_path)
    assert read.spec == spec
    assert list(read.tensors) == list(spec.tensors())
    for name, tensor in tensors.items():
        assert read.tensors[name].dtype == dtype
        assert torch.equal(read.tensors[name], tensor), name
    files = list(tmp_path.glob("*.safetensors"))
    assert len(files) == (len(tensors) if shard_bytes == 1 else len(files))
    assert (tmp_path / "model.safetensors").exists() == (shard_bytes == 2**30)


def test_the_published_model_counts_to_the_digit_without_a_tensor() -> None:
    assert LANEFORMER_2B.parameters == 2_320_069_632
    assert LANEFORMER_2B.streamed_bytes(2) == (2_320_069_632 - 32000 * 3072) * 2


def test_random_weights_keep_activations_at_their_size(rng: np.random.Generator) -> None:
    from kogagent.engine.backends.reference import ReferenceBackend

    spec = replace(SPEC, dim=128, n_layers=6, n_heads=16, n_kv_heads=8, head_dim=8, ffn_dim=512, windows=())
    seed = int(rng.integers(2**31))
    tensors = random_tensors(spec, seed)
    ids = [int(i) for i in rng.integers(0, spec.vocab_size, 32)]
    for fields in ({}, {"tied_head": True}):
        variant = replace(spec, **fields)  # type: ignore[arg-type]
        logits = ReferenceBackend(variant, random_tensors(variant, seed)).forward(ids)
        assert 0.3 < logits.std() < 3.0
    again = random_tensors(spec, seed, torch.float16)
    other = random_tensors(spec, seed + 1)
    assert all(torch.equal(again[n], t.half()) for n, t in tensors.items())
    assert not torch.equal(other["embed"], tensors["embed"])


def test_a_missing_shard_is_named(saved: Path) -> None:
    (saved / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"model-00002-of-00003\.safetensors: the shard is missing"):
        load_checkpoint(saved)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_truncated_shard_is_named(saved: Path, keep: int) -> None:
    shard = saved / "model-00003-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:keep])
    with pytest.raises(ConfigError, match=r"model-00003-of-00003\.safetensors: truncated"):
        load_checkpoint(saved)


def test_an_index_that_disagrees_with_its_shards_is_refused(saved: Path) -> None:
    index = saved / "model.safetensors.index.json"
    where = json.loads(index.read_text())["weight_map"]
    name = next(iter(where))
    edit(index, weight_map={n: f for n, f in where.items() if n != name})
    with pytest.raises(ConfigError, match=name):
        load_checkpoint(saved)
    edit(index, weight_map={**where, name: "../elsewhere.safetensors"})
    with pytest.raises(ConfigError, match="outside the directory"):
        load_checkpoint(saved)
    edit(index, weight_map=[1])
    with pytest.raises(ConfigError, match="weight_map"):
        load_checkpoint(saved)


@pytest.fixture
def single(tmp_path: Path, rng: np.random.Generator) -> Path:
    save_checkpoint(tmp_path / "single", SPEC, random_tensors(SPEC, int(rng.integers(2**31))))
    return tmp_path / "single"


def rewrite(directory: Path, changes: dict[str, torch.Tensor | None]) -> None:
    file = directory / "model.safetensors"
    tensors = {n: t.clone() for n, t in load_file(file).items()}
    for name, tensor in changes.items():
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    save_file(tensors, file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers.1.wq": None}, r"missing 'layers\.1\.wq'"),
        ({"layers.2.wq": torch.zeros(1)}, r"unknown 'layers\.2\.wq'"),
        ({"norm": torch.zeros(17)}, r"'norm' has shape \(17,\), config says \(16,\)"),
        ({"layers.0.w1": torch.zeros(2, 16, 12)}, r"'layers\.0\.w1' has shape \(2, 16, 12\)"),
        ({"norm": torch.full((16,), torch.nan)}, "'norm' holds NaN or infinity"),
        ({"head": torch.full((40, 16), torch.inf)}, "'head' holds NaN or infinity"),
        ({"embed": torch.full((40, 16), -torch.inf)}, "'embed' holds NaN or infinity"),
        ({"norm": torch.zeros(16, dtype=torch.int8)}, "'norm' has type I8"),
        ({"norm": torch.zeros(16, dtype=torch.float8_e4m3fn)}, "'norm' has type F8_E4M3"),
    ],
)
def test_tensors_that_cannot_be_used_are_named(
    single: Path, changes: dict[str, torch.Tensor | None], message: str
) -> None:
    rewrite(single, changes)
    with pytest.raises(ConfigError, match=message):
        load_checkpoint(single)


def test_a_single_nan_among_many_weights_is_found(single: Path, rng: np.random.Generator) -> None:
    embed = load_file(single / "model.safetensors")["embed"].clone()
    embed.view(-1)[int(rng.integers(embed.numel()))] = torch.nan
    rewrite(single, {"embed": embed})
    with pytest.raises(ConfigError, match="'embed' holds NaN"):
        load_checkpoint(single)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2}, "format_version=2"),
        ({"model_type": "gpt2"}, "'gpt2' is not supported"),
        ({"colour": 1}, "colour"),
        ({"windows": [8]}, "windows"),
        ({"windows": "88"}, "windows='88'"),
        ({"windows": [8.0, 0]}, "windows"),
        ({"eos_ids": 2}, "eos_ids=2"),
        ({"tied_head": 1}, "tied_head=1"),
        ({"lanes": "2"}, "lanes"),
        ({"delay": None}, "delay"),
        ({"rope_theta": "big"}, "rope_theta"),
        ({"bos_id": "1"}, "bos_id='1'"),
        ({"eos_ids": [-2]}, "eos_ids"),
        ({"norm_eps": 0}, "norm_eps"),
        ({"rope_scaling": {"factor": 8.0}}, "rope_scaling"),
    ],
)
def test_a_config_that_cannot_be_run_names_the_key(
    single: Path, changes: dict[str, Any], message: str
) -> None:
    edit(single / "config.json", **changes)
    with pytest.raises(ConfigError, match=message):
        load_checkpoint(single)


def test_a_config_without_a_field_names_it(single: Path) -> None:
    values = json.loads((single / "config.json").read_text())
    del values["early_resent"]
    (single / "config.json").write_text(json.dumps(values))
    with pytest.raises(ConfigError, match="early_resent"):
        load_checkpoint(single)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1', "\udcff"])
def test_a_config_that_is_no_json_object_is_refused(single: Path, text: str) -> None:
    (single / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=r"config\.json"):
        load_checkpoint(single)


def test_paths_without_a_model_say_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_checkpoint(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"no model, neither a config\.json nor a \.gguf file\. Name"):
        load_checkpoint(tmp_path)
    for name in ("b.gguf", "a.gguf"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"2 \.gguf files\. Name one: a\.gguf, b\.gguf\."):
        load_checkpoint(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"neither a directory nor a \.gguf file"):
        load_checkpoint(tmp_path / "weights.bin")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ConfigError, match="is missing"):
        load_checkpoint(tmp_path)


def test_a_directory_with_a_config_alone_is_refused(single: Path) -> None:
    (single / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"neither model\.safetensors nor"):
        load_checkpoint(single)


def test_saving_refuses_what_it_could_not_read_back(tmp_path: Path, rng: np.random.Generator) -> None:
    tensors = random_tensors(SPEC, int(rng.integers(2**31)))
    with pytest.raises(ConfigError, match="missing 'norm'"):
        save_checkpoint(tmp_path, SPEC, {n: t for n, t in tensors.items() if n != "norm"})
    with pytest.raises(ConfigError, match="'norm' holds NaN"):
        save_checkpoint(tmp_path, SPEC, {**tensors, "norm": torch.full((16,), torch.nan)})
    assert not list(tmp_path.iterdir())
    save_checkpoint(tmp_path, SPEC, tensors)
    with pytest.raises(InputError, match="safetensors already"):
        save_checkpoint(tmp_path, SPEC, tensors)
