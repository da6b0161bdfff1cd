"""The reference backend against an ordinary transformer written here, and at the edges of its windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.weights import random_tensors
from kogagent.errors import ConfigError, ContextError, EngineClosedError, InputError
from kogagent.spec import ModelSpec, RopeScaling

SPEC = ModelSpec(
    vocab_size=50,
    dim=32,
    n_layers=3,
    n_heads=6,
    n_kv_heads=2,
    head_dim=8,
    ffn_dim=40,
    context=64,
)


def ordinary_transformer(spec: ModelSpec, w: dict[str, torch.Tensor], ids: list[int]) -> torch.Tensor:
    """A plain Llama-like decoder in its own words: rotate-half RoPE on permuted rows, library attention."""
    h, length = spec.head_dim, len(ids)
    evens_first = torch.tensor([*range(0, h, 2), *range(1, h, 2)])
    inverse = 1.0 / spec.rope_theta ** (torch.arange(0, h, 2).double() / h)
    if spec.rope_scaling is not None:
        s = spec.rope_scaling
        scaled = []
        for f in inverse.tolist():
            wavelength = 2 * torch.pi / f
            if wavelength < s.original_context / s.high_freq_factor:
                scaled.append(f)
            elif wavelength > s.original_context / s.low_freq_factor:
                scaled.append(f / s.factor)
            else:
                smooth = (s.original_context / wavelength - s.low_freq_factor) / (
                    s.high_freq_factor - s.low_freq_factor
                )
                scaled.append((1 - smooth) * f / s.factor + smooth * f)
        inverse = torch.tensor(scaled).double()
    angles = torch.outer(torch.arange(length).double(), inverse).repeat(1, 2)
    cos, sin = angles.cos().float(), angles.sin().float()

    def rope(x: torch.Tensor) -> torch.Tensor:  # [heads, T, h]
        x = x[..., evens_first]
        turned = torch.cat((-x[..., h // 2 :], x[..., : h // 2]), -1)
        return x * cos + turned * sin

    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, spec.norm_eps)

    x = w["embed"][ids]
    for i in range(spec.n_layers):
        p = f"layers.{i}."
        n = norm(x, w[p + "attn_norm"])
        q, k, v = (F.linear(n, w[p + m][0]) for m in ("wq", "wk", "wv"))
        if spec.qkv_bias:
            q, k, v = q + w[p + "bq"][0], k + w[p + "bk"][0], v + w[p + "bv"][0]
        q, k, v = (t.view(length, -1, h).transpose(0, 1) for t in (q, k, v))
        if spec.qk_norm:
            q, k = norm(q, w[p + "q_norm"]), norm(k, w[p + "k_norm"])
        q, k = rope(q), rope(k)
        mask = torch.ones(length, length).tril().bool()
        if spec.windows[i]:
            mask &= torch.ones(length, length).triu(1 - spec.windows[i]).bool()
        a = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask, enable_gqa=True)[0]
        x = x + F.linear(a.transpose(0, 1).reshape(length, -1), w[p + "wo"][0])
        n = norm(x, w[p + "ffn_norm"])
        x = x + F.linear(F.silu(F.linear(n, w[p + "w1"][0])) * F.linear(n, w[p + "w3"][0]), w[p + "w2"][0])
    return F.linear(norm(x, w["norm"]), w["embed"] if spec.tied_head else w["head"])


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        replace(SPEC, windows=(4, 0, 7)),
        replace(SPEC, qkv_bias=True),
        replace(SPEC, qk_norm=True, tied_head=True),
        replace(SPEC, rope_theta=500.0, rope_scaling=RopeScaling(8.0, 1.0, 4.0, 24)),
    ],
    ids=["plain", "windows", "bias", "qk-norm tied", "llama-3 rope"],
)
def test_one_lane_equals_an_ordinary_transformer(rng: np.random.Generator, spec: ModelSpec) -> None:
    tensors = random_tensors(spec, int(rng.integers(2**31)))
    ids = [int(i) for i in rng.integers(0, spec.vocab_size, 30)]
    wanted = ordinary_transformer(spec, tensors, ids)
    found = ReferenceBackend(spec, tensors).forward(ids)
    assert (found - wanted).abs().max() / wanted.abs().max() < 1e-5


@pytest.mark.parametrize("window", [1, 2, 5, 512])
def test_a_key_is_seen_at_the_window_s_last_distance_and_not_beyond(
    rng: np.random.Generator, window: int
) -> None:
    """One layer, so that nothing reaches the last row by way of other rows."""
    spec = replace(SPEC, n_layers=1, context=1024, windows=(window,))
    backend = ReferenceBackend(spec, random_tensors(spec, int(rng.integers(2**31))))
    ids = [int(i) for i in rng.integers(0, spec.vocab_size, window + 3)]
    before = backend.forward(ids)[-1]
    last = len(ids) - 1
    for distance, seen in ((window - 1, True), (window, False), (window + 1, False)):
        changed = list(ids)
        changed[last - distance] = (changed[last - distance] + 1) % spec.vocab_size
        moved = not torch.equal(backend.forward(changed)[-1], before)
        assert moved == seen, f"a key at distance {distance} with window {window}"


def test_the_logits_of_a_cut_sequence_are_those_of_the_whole(rng: np.random.Generator) -> None:
    backend = ReferenceBackend(SPEC, random_tensors(SPEC, int(rng.integers(2**31))))
    ids = [int(i) for i in rng.integers(0, SPEC.vocab_size, 20)]
    kv = backend.open_kv(32)
    backend.prefill(kv, ids[:7])
    rest = backend.logits(kv, ids[7:])
    assert kv.length == 20
    np.testing.assert_allclose(rest, backend.forward(ids)[7:].numpy(), rtol=0, atol=0)


def test_what_cannot_be_run_is_refused_before_any_work(rng: np.random.Generator) -> None:
    tensors = random_tensors(SPEC, int(rng.integers(2**31)))
    backend = ReferenceBackend(SPEC, tensors)
    with pytest.raises(InputError, match="capacity=0"):
        backend.open_kv(0)
    with pytest.raises(ContextError, match="context of 64"):
        backend.open_kv(65)
    kv = backend.open_kv(4)
    with pytest.raises(InputError, match="50"):
        backend.prefill(kv, [1, 50])
    with pytest.raises(InputError, match="-1"):
        backend.logits(kv, [-1])
    with pytest.raises(ContextError, match="5 ids"):
        backend.logits(kv, [1] * 5)
    with pytest.raises(InputError, match="length 1"):
        kv.rewind(1)
    assert kv.length == 0
    backend.prefill(kv, [])
    kv.close()
    kv.close()
    with pytest.raises(EngineClosedError, match="cache is closed"):
        backend.prefill(kv, [1])
    backend.close()
    backend.close()
    with pytest.raises(EngineClosedError, match="backend is closed"):
        backend.open_kv(4)


def test_tensors_that_do_not_fit_the_spec_are_named(rng: np.random.Generator) -> None:
    tensors = random_tensors(SPEC, int(rng.integers(2**31)))
    del tensors["layers.1.wk"]
    tensors["layers.9.wk"] = torch.zeros(1)
    tensors["norm"] = torch.zeros(31)
    with pytest.raises(ConfigError) as error:
        ReferenceBackend(SPEC, tensors)
    for name in ("missing 'layers.1.wk'", "unknown 'layers.9.wk'", "'norm' has shape (31,)"):
        assert name in str(error.value)
