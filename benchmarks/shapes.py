"""Shapes of known models, the shipped one's among them: what the GPU benchmarks run with random weights."""

from __future__ import annotations

import dataclasses

from kogagent.engine.weights import read_spec
from kogagent.local.names import NANO, find_model
from kogagent.spec import LANEFORMER_2B, ModelSpec

SHAPES = {
    spec.name: spec
    for spec in (
        dataclasses.replace(LANEFORMER_2B, head="vocab_parallel"),
        dataclasses.replace(read_spec(find_model(NANO)), name=NANO),
        ModelSpec(
            name="llama-3.2-1b",
            vocab_size=128256,
            dim=2048,
            n_layers=16,
            n_heads=32,
            n_kv_heads=8,
            head_dim=64,
            ffn_dim=8192,
            context=8192,
            rope_theta=5e5,
            tied_head=True,
        ),
        ModelSpec(
            name="qwen3-0.6b",
            vocab_size=151936,
            dim=1024,
            n_layers=28,
            n_heads=16,
            n_kv_heads=8,
            head_dim=128,
            ffn_dim=3072,
            context=8192,
            rope_theta=1e6,
            qk_norm=True,
            tied_head=True,
        ),
        ModelSpec(
            name="smollm2-135m",
            vocab_size=49152,
            dim=576,
            n_layers=30,
            n_heads=9,
            n_kv_heads=3,
            head_dim=64,
            ffn_dim=1536,
            context=8192,
            rope_theta=1e5,
            tied_head=True,
        ),
        ModelSpec(
            name="llama-2-7b",
            vocab_size=32000,
            dim=4096,
            n_layers=32,
            n_heads=32,
            n_kv_heads=32,
            head_dim=128,
            ffn_dim=11008,
            context=4096,
        ),
    )
}
