"""Configs of every family and generation: what each key comes to, and what is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kogagent.engine.formats import config_layout
from kogagent.engine.weights import load_checkpoint, random_tensors
from kogagent.errors import ConfigError
from kogagent.spec import LANEFORMER_2B, ModelSpec, RopeScaling

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.0",
    "use_cache": True,
}
FIRST: dict[str, Any] = {
    "architectures": ["LaneformerTPForCausalLM"],
    "model_type": "laneformer_tp",
    "auto_map": {"AutoConfig": "configuration_laneformer.LaneformerTPConfig"},
    "hidden_size": 3072,
    "num_hidden_layers": 15,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "intermediate_size": 12288,
    "max_position_embeddings": 4096,
    "vocab_size": 32000,
    "rope_theta": 10000.0,
    "norm_eps": 1e-5,
    "num_lanes": 8,
    "broadcast_delay": 2,
    "use_comm": True,
    "use_early_comm": False,
    "lm_head_type": "replicate",
    "pre_norm_lane_agg": False,
    "replicated_rmsn_scale": True,
    "tie_word_embeddings": False,
    "sliding_window": 512,
    "sliding_window_n_layers": 10,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "depth_init": True,
    "multiple_of": 32,
    "use_cache": True,
}
SECOND: dict[str, Any] = {
    **{k: v for k, v in FIRST.items() if k not in ("use_comm", "sliding_window_n_layers")},
    "use_attention_comm": True,
    "use_mlp_comm": True,
    "swa_layers": list(range(10)),
}
ROPE3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}


def spec(config: dict[str, Any], generation: dict[str, Any] | None = None, **changes: Any) -> ModelSpec:
    return config_layout({**config, **changes}, generation or {}).spec


# ── Hugging Face ──


@pytest.mark.parametrize("kind", [None, [], ["llama"], {}, 3, "gpt2"])
def test_a_family_that_is_none_is_refused_whatever_json_says(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"model_type .* is not supported\. Supported: .*llama"):
        spec(LLAMA, model_type=kind)


def test_a_llama_config_comes_to_its_spec() -> None:
    assert spec(LLAMA) == ModelSpec(
        vocab_size=100, dim=64, n_layers=4, n_heads=8, n_kv_heads=2, head_dim=8, ffn_dim=96, context=512,
        norm_eps=1e-5, bos_id=1, eos_ids=(2,),
    )  # fmt: skip


def test_what_a_config_leaves_out_is_the_family_s_default() -> None:
    short = {k: v for k, v in LLAMA.items() if k not in ("num_key_value_heads", "rms_norm_eps")}
    assert spec(short).n_kv_heads == 8
    assert spec(short).norm_eps == 1e-6
    assert spec(LLAMA, head_dim=32).head_dim == 32
    mistral = {**LLAMA, "architectures": ["MistralForCausalLM"], "model_type": "mistral"}
    assert spec(mistral).windows == (4096,) * 4
    assert spec(mistral, sliding_window=None).windows == (0,) * 4
    qwen3 = {**LLAMA, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    assert spec(qwen3).head_dim == 128 and spec(qwen3).qk_norm and not spec(qwen3).qkv_bias


def test_end_ids_of_both_files_are_joined() -> None:
    found = spec(LLAMA, {"eos_token_id": [7, 2, 9], "temperature": 0.6}, eos_token_id=[2, 5])
    assert found.eos_ids == (2, 5, 7, 9)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_theta": 5e5, "rope_scaling": ROPE3},
        {
            "rope_theta": 5e5,
            "rope_scaling": {("type" if k == "rope_type" else k): v for k, v in ROPE3.items()},
        },
        {"rope_parameters": {**ROPE3, "rope_theta": 5e5}},
    ],
    ids=["two keys", "older type", "one object"],
)
def test_llama_3_rope_is_read_from_either_place(rope: dict[str, Any]) -> None:
    found = spec(LLAMA, **rope)
    assert found.rope_theta == 5e5
    assert found.rope_scaling == RopeScaling(8.0, 1.0, 4.0, 256)


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"use_sliding_window": False, "sliding_window": 9, "max_window_layers": 1}, (0, 0, 0, 0)),
        ({"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 3}, (0, 0, 0, 9)),
        ({"use_sliding_window": True, "sliding_window": 9}, (0, 0, 0, 0)),  # 28 full layers come first
        (
            {
                "use_sliding_window": True,
                "sliding_window": 9,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
            },
            (9, 0, 9, 0),
        ),
        (
            {"use_sliding_window": False, "sliding_window": None, "layer_types": ["full_attention"] * 4},
            (0,) * 4,
        ),
    ],
)
def test_qwen_s_windows_follow_its_switch_and_its_layer_types(
    changes: dict[str, Any], windows: tuple[int, ...]
) -> None:
    qwen = {**LLAMA, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    assert spec(qwen, **changes).windows == windows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "'gpt2' is not supported"),
        ({"model_type": None}, "None is not supported"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"attention_bias": True}, "attention_bias=True"),
        ({"mlp_bias": True}, "mlp_bias=True"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"rope_interleaved": True}, "rope_interleaved"),
        ({"sliding_window": 100}, "sliding_window"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "'linear' is not supported"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "'yarn' is not supported"),
        ({"rope_scaling": {**ROPE3, "beta": 1}}, "'beta'"),
        ({"rope_scaling": {k: v for k, v in ROPE3.items() if k != "factor"}}, "'factor' is missing"),
        ({"rope_scaling": ROPE3, "rope_parameters": {"rope_theta": 1e4}}, "contradicts"),
        ({"rope_parameters": 3}, "rope_parameters=3"),
        ({"rope_theta": "1e4"}, "rope_theta='1e4' must be a number"),
        ({"embedding_multiplier": 12.0}, "unknown key 'embedding_multiplier'"),
        ({"logits_scaling": 8.0, "attn_temperature": 1.0}, "keys 'attn_temperature', 'logits_scaling'"),
        ({"num_attention_heads": 0}, "num_attention_heads=0"),
        ({"num_hidden_layers": True}, "num_hidden_layers=True must be an integer"),
        ({"vocab_size": None}, "'vocab_size' is missing"),
        ({"eos_token_id": "end"}, "eos_token_id='end'"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings='no'"),
        ({"num_key_value_heads": 3}, "n_kv_heads=3"),
        ({"layer_types": ["sliding_attention"] * 4}, "unknown key 'layer_types'|layer_types"),
        (
            {"layer_types": ["linear_attention"] * 4, "model_type": "qwen2", "architectures": None},
            "linear_attention",
        ),
        (
            {"layer_types": ["sliding_attention"] * 4, "model_type": "qwen2", "architectures": None},
            "use_sliding",
        ),
        ({"layer_types": ["full_attention"], "model_type": "qwen3", "architectures": None}, "list of 4"),
        ({"attention_bias": True, "model_type": "qwen3", "architectures": None}, "attention_bias=True"),
    ],
)
def test_a_key_that_would_change_the_forward_pass_is_refused_by_name(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        spec(LLAMA, **changes)


def test_keys_without_a_value_or_an_effect_are_let_through() -> None:
    wanted = spec(LLAMA)
    assert (
        spec(LLAMA, pretraining_tp=1, attention_dropout=0.1, some_future_key=None, mlp_bias=False) == wanted
    )


# ── LaneFormer ──


def test_both_published_generations_come_to_the_published_model() -> None:
    wanted = replace(LANEFORMER_2B, name="")
    assert spec(FIRST) == wanted
    assert spec(SECOND) == wanted
    assert spec(FIRST).parameters == 2_320_069_632


def test_early_sums_are_sent_again_in_the_first_generation_alone() -> None:
    first = spec(FIRST, use_early_comm=True)
    assert (first.early, first.early_resent) == ("present", True)
    second = spec(SECOND, use_early_comm=True)
    assert (second.early, second.early_resent) == ("present", False)
    assert spec(FIRST, use_early_comm=True, early_resent=False).early_resent is False
    assert spec(SECOND, use_early_comm=True, early_resent=True).early_resent is True
    default = {k: v for k, v in FIRST.items() if k != "use_early_comm"}
    assert spec(default).early == "present"


@pytest.mark.parametrize(
    ("changes", "full"),
    [
        ({"sliding_window_n_layers": 0, "sliding_window": None}, range(15)),
        ({"sliding_window_n_layers": 15}, ()),
        ({"sliding_window_n_layers": -3}, range(12)),
        ({"sliding_window_n_layers": 10, "unclamped_layers": [0, 4]}, (0, 4, 10, 11, 12, 13, 14)),
    ],
)
def test_windows_are_placed_by_count_and_exemption(changes: dict[str, Any], full: Any) -> None:
    windows = spec(FIRST, **changes).windows
    assert windows == tuple(0 if n in full else 512 for n in range(15))


def test_windows_are_placed_by_name_in_the_second_generation() -> None:
    assert spec(SECOND, swa_layers=[1, 14]).windows == tuple(512 if n in (1, 14) else 0 for n in range(15))


def test_communication_and_heads_follow_their_keys() -> None:
    silent = spec(FIRST, use_comm=False)
    assert (silent.comm_attention, silent.comm_mlp) == (False, False)
    half = spec(SECOND, use_mlp_comm=False)
    assert (half.comm_attention, half.comm_mlp) == (True, False)
    assert spec(FIRST, lm_head_type="vocab_parallel").head == "vocab_parallel"
    assert spec(FIRST, pre_norm_lane_agg=True).head == "sum"
    scaled = spec(FIRST, rope_scaling={"scaling_factor": 8.0, **{k: ROPE3[k] for k in list(ROPE3)[2:]}})
    assert scaled.rope_scaling == RopeScaling(8.0, 1.0, 4.0, 256)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lm_head_type": "lane"}, "lm_head_type='lane'"),
        ({"lm_head_type": "vocab_parallel", "pre_norm_lane_agg": True}, "pre_norm_lane_agg"),
        ({"replicated_rmsn_scale": False}, "replicated_rmsn_scale=False"),
        ({"attn_mask_type": "block_causal"}, "attn_mask_type"),
        ({"sliding_window": None}, "sliding_window"),
        ({"swa_layers": [0]}, "swa_layers"),
        ({"unclamped_layers": [15]}, "unclamped_layers"),
        ({"unclamped_layers": 3}, "unclamped_layers"),
        ({"use_comm": 1}, "use_comm=1"),
        ({"broadcast_delay": 16}, "delay=16"),
        ({"num_lanes": None}, "'num_lanes' is missing"),
        ({"moe_experts": 4}, "unknown key 'moe_experts'"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_type='yarn'"),
    ],
)
def test_a_laneformer_key_that_cannot_be_run_is_refused_by_name(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        spec(FIRST, **changes)


@pytest.mark.parametrize("head", ["replicate", "vocab_parallel"])
@pytest.mark.parametrize("lane_major_head", [False, True])
def test_published_tensors_are_read_with_either_head(
    tmp_path: Path, rng: np.random.Generator, head: str, lane_major_head: bool
) -> None:
    config = {
        **FIRST, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 8,
        "num_key_value_heads": 8, "intermediate_size": 16, "vocab_size": 40, "sliding_window_n_layers": 2,
        "lm_head_type": head,
    }  # fmt: skip
    wanted = spec(config)
    tensors = random_tensors(wanted, int(rng.integers(2**31)), torch.bfloat16)
    stored = {
        "model.tok_embeddings.weight": tensors["embed"],
        "model.norm.weight": tensors["norm"],
        "lm_head.weight": tensors["head"].view(8, 5, 32) if lane_major_head else tensors["head"],
    }
    for i in range(3):
        for own, published in (
            ("wq", "attention.wq"), ("wk", "attention.wk"), ("wv", "attention.wv"), ("wo", "attention.wo"),
            ("w1", "feed_forward.w1"), ("w2", "feed_forward.w2"), ("w3", "feed_forward.w3"),
            ("attn_norm", "attention_norm"), ("ffn_norm", "ffn_norm"),
        ):  # fmt: skip
            stored[f"model.layers.{i}.{published}.weight"] = tensors[f"layers.{i}.{own}"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(stored, tmp_path / "model.safetensors")
    read = load_checkpoint(tmp_path)
    assert read.spec == wanted
    for name, tensor in tensors.items():
        assert torch.equal(read.tensors[name], tensor), name
