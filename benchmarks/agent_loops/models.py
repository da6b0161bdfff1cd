"""The model of a run, by the name it was asked for: one that `Engine.load` knows, or a shape.

random:laneformer-2b      a shape of benchmarks.shapes or of this module with random weights and
                          laneformer-nano's tokenizer
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.shapes import SHAPES
from kogagent.engine.backends import open_backend, resolve
from kogagent.engine.engine import EngineCore
from kogagent.engine.weights import Checkpoint, load_checkpoint, random_tensors, read_spec
from kogagent.errors import InputError
from kogagent.local import Engine
from kogagent.local.names import NANO, find_model
from kogagent.spec import ModelSpec
from kogagent.tokenizer import Tokenizer

RANDOM = "random:"
_LONG = ModelSpec(
    name="laneformer-micro-64k",
    vocab_size=8192,  # laneformer-nano's
    dim=128,
    n_layers=4,
    n_heads=8,
    n_kv_heads=8,
    head_dim=16,
    ffn_dim=256,
    context=65536,
    lanes=8,
    delay=2,
    early="present",
    head="replicate",
    windows=(512, 512, 512, 0),
    tied_head=True,
    eos_ids=(2,),
)
"""Small enough that a CPU plays a hundred turns with 162 tools, long enough to hold them. What its weights
say does not matter where the tool of each turn is given."""
_WINDOWED = replace(_LONG, name="laneformer-micro-64k-windowed", windows=(512,) * _LONG.n_layers)
"""Its twin with the same weights, none of whose layers attends past its window."""
LONG, WINDOWED = RANDOM + _LONG.name, RANDOM + _WINDOWED.name
_SHAPES = {spec.name: spec for spec in (_LONG, _WINDOWED)}


def is_random(model: str) -> bool:
    return model.startswith(RANDOM)


def label(model: str) -> str:
    """What records call it."""
    return model.removeprefix(RANDOM) if is_random(model) else Path(model).stem


def spec_of(model: str) -> ModelSpec:
    """Raises InputError for a shape or a model that nobody knows."""
    if not is_random(model):
        return read_spec(find_model(model))
    name, shapes = model.removeprefix(RANDOM), SHAPES | _SHAPES
    if name not in shapes:
        raise InputError(f"no shape {name!r}: there are {', '.join(map(repr, shapes))}")
    return shapes[name]


def tensors_of(model: str, device: str) -> dict[str, torch.Tensor]:
    """The weights, random ones drawn on the device that will hold them."""
    if not is_random(model):
        return dict(load_checkpoint(find_model(model)).tensors)
    if device == "cuda":
        from benchmarks.decode_cuda import random_on_device

        return random_on_device(spec_of(model))
    return random_tensors(spec_of(model), 0)


def open_engine(model: str, device: str, cache_bytes: int | None = None) -> Engine:
    """An engine on the device ("auto" included) with the numbers that the model's files hold, as its peers
    have them: nano's are FP16. Raises what `Engine.load` raises."""
    backend = resolve(device)
    if not is_random(model):
        dtype = "float16" if model == NANO and backend == "native" else "auto"
        return Engine.load(model, device=device, dtype=dtype, cache_bytes=cache_bytes)
    spec = spec_of(model)
    tokenizer = Tokenizer.load(find_model(NANO))

    def make() -> Checkpoint:
        return Checkpoint(spec, tensors_of(model, backend))

    core = EngineCore(lambda: open_backend(backend, make()), cache_bytes=cache_bytes)
    return Engine(core, tokenizer)
