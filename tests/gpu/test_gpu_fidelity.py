"""The kernel beside the equations in FP32, over a thousand positions, on random and on real weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from test_cuda_kernel import CASES, LANES, half_tensors, make_kernel, poisoned_cache, run

from kogagent.engine.backend import DecodePlan
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.weights import Checkpoint, load_checkpoint, random_tensors
from kogagent.errors import InputError
from kogagent.kernels.segment import Segment
from kogagent.local.names import NANO, SMOLLM2, find_model
from kogagent.spec import ModelSpec
from kogagent.testing.toy import finish
from kogagent.tokenizer import Tokenizer

POSITIONS = 1024
MODELS = ("random lanes", NANO, SMOLLM2)
PROMPTS = (
    "The museum opens at",
    "Once upon a time there was a",
    "def add(a, b):\n    return",
    "1 + 2 = 3, 2 + 3 = 5, 3 + 4 =",
    "The capital of France is",
    "Dear Sir or Madam,",
    "import numpy as np\n",
    "Water boils at a temperature of",
    "She opened the door and saw",
    "Question: What is the largest planet? Answer:",
)


def _model(name: str, rng: np.random.Generator) -> Checkpoint:
    if name == "random lanes":
        spec = dataclasses.replace(LANES, context=POSITIONS + 64)
        return Checkpoint(spec, half_tensors(spec, rng))
    try:
        return load_checkpoint(find_model(name))
    except InputError as error:
        pytest.skip(str(error))


def divergence(want: torch.Tensor, got: torch.Tensor) -> tuple[float, float]:
    """(mean KL divergence, share of rows with the same largest logit) of logits [T, V]. NaN is refused."""
    assert bool(got.isfinite().all())
    a, b = (x.double().log_softmax(-1) for x in (want, got))
    return float((a.exp() * (a - b)).sum(-1).mean()), float((a.argmax(-1) == b.argmax(-1)).float().mean())


@pytest.mark.parametrize("name", MODELS)
def test_a_thousand_forced_positions_stay_with_the_equations(
    name: str, rng: np.random.Generator, figures: Callable[[str], None]
) -> None:
    model = _model(name, rng)
    spec = model.spec
    count = min(POSITIONS, spec.context)
    if name == "random lanes":
        ids = rng.integers(0, spec.vocab_size, count).tolist()
    else:  # ids as text has them: a greedy text of the model's own, penalised so that it does not circle
        tokenizer = Tokenizer.load(find_model(name))
        ids = tokenizer.encode(" ".join(PROMPTS) * 40)[:count]
        assert len(ids) == count
    want = ReferenceBackend(spec, model.tensors).forward(ids)
    tensors = {n: t.half() for n, t in model.tensors.items()}
    kernel, kv = make_kernel(spec, tensors), poisoned_cache(spec)
    rows = []
    for position, token in enumerate(ids):
        run(kernel, Segment([token], position), kv, logits=True)
        rows.append(torch.from_numpy(kernel.logits()))
    kl, same = divergence(want, torch.stack(rows))
    figures(f"{name}: decode, {count} positions: mean KL {kl:.2e}, top-1 {same:.4f}")
    assert kl < 1e-4 and same >= 0.995

    backend = CudaBackend(spec, tensors)
    got = backend.logits(backend.open_kv(count), ids)
    kl, same = divergence(want, torch.from_numpy(got))
    figures(f"{name}: pre-fill, {count} positions: mean KL {kl:.2e}, top-1 {same:.4f}")
    assert kl < 1e-4 and same >= 0.995
    backend.close()


@pytest.mark.parametrize("name", MODELS)
def test_greedy_text_is_the_references(
    name: str, rng: np.random.Generator, figures: Callable[[str], None]
) -> None:
    """Of ten prompts, but where the reference's two largest logits are closer than FP16 tells apart."""
    model = _model(name, rng)
    spec = model.spec
    if name == "random lanes":
        prompts = [rng.integers(0, spec.vocab_size, int(rng.integers(3, 30))).tolist() for _ in range(10)]
    else:
        tokenizer = Tokenizer.load(find_model(name))
        prompts = [[*tokenizer.prompt_prefix, *tokenizer.encode(text)] for text in PROMPTS]
    backend, reference = CudaBackend(spec, model.tensors), ReferenceBackend(spec, model.tensors)
    ties = 0
    for prompt in prompts:
        kv = backend.open_kv(spec.context)
        out = [
            e.id for e in finish(backend.decode(kv, prompt, DecodePlan(SamplingParams(), frozenset(), 48)))
        ]
        kv.close()
        assert len(out) == 48
        rows = reference.forward([*prompt, *out])[len(prompt) - 1 : -1]
        for row, token in zip(rows, out, strict=True):
            if int(row.argmax()) != token:
                ties += 1
                gap = float(row.max() - row[token])
                assert gap <= 2**-9 * float(row.abs().max()), f"{gap:.2e} below the largest logit"
    figures(f"{name}: {ties} of 480 greedy ids lie within FP16's error of the reference's")
    backend.close()


BF16_CASES = [CASES[3], dataclasses.replace(LANES, name="lanes in BF16"), CASES[9]]
BUILDS = [
    *((name, (0,), False) for name in (LANES, NANO, SMOLLM2)),
    *((spec, (0,), True) for spec in BF16_CASES),
]


@pytest.mark.parametrize("spec", BF16_CASES, ids=lambda spec: spec.name)
def test_bfloat16_stays_with_the_equations(
    spec: ModelSpec, rng: np.random.Generator, figures: Callable[[str], None]
) -> None:
    """Its own tolerance: eight bits fewer at the activations, squared in the divergence."""
    tensors = {n: t.bfloat16() for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}
    ids = rng.integers(0, spec.vocab_size, 120).tolist()
    want = ReferenceBackend(spec, tensors).forward(ids)
    backend = CudaBackend(spec, tensors, "bfloat16")
    kernel, kv = backend.kernel(), backend.open_kv(spec.context)
    rows = []
    for position, token in enumerate(ids):
        run(kernel, Segment([token], position), kv.store, logits=True)
        rows.append(torch.from_numpy(kernel.logits()))
    kl, same = divergence(want, torch.stack(rows))
    other, _ = divergence(want, torch.from_numpy(backend.logits(backend.open_kv(len(ids)), ids)))
    figures(f"{spec.name}, BF16, 120 positions: mean KL {kl:.2e}, pre-fill {other:.2e}, top-1 {same:.3f}")
    assert kv.store.dtype is torch.bfloat16
    assert kl < 3e-4 and other < 3e-4 and same >= 0.95
    backend.close()
