"""Model configurations without weights: the engine fills them with dummy ones.

q8 has the shape of Qwen3-8B; kimi-mini that of Kimi K2 at four layers and 128 experts, which
one GPU holds twice; each has a five-layer DFlash draft, `<name>-dflash`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_COMMON: dict[str, Any] = {
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_QWEN3: dict[str, Any] = _COMMON | {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
}
_Q8 = _QWEN3 | {"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 36}
_KIMI_MINI = _COMMON | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_hidden_layers": 4,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "vocab_size": 163840,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-5,
    "rope_theta": 50000,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.827,
    "num_nextn_predict_layers": 0,
}


def _draft(target: dict[str, Any], layers: list[int], block: int) -> dict[str, Any]:
    shared = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
    return (
        _QWEN3
        | {key: target[key] for key in shared}
        | {
            "architectures": ["DFlashDraftModel"],
            "num_hidden_layers": 5,
            "block_size": block,
            "num_target_layers": target["num_hidden_layers"],
            "dflash_config": {
                "mask_token_id": target["vocab_size"] - 1,
                "target_layer_ids": layers,
            },
        }
    )


def write(folder: Path) -> None:
    """Write a config.json for every model below `folder`."""
    models = {
        "q8": _Q8,
        "q8-dflash": _draft(_Q8, [1, 9, 17, 25, 33], block=16),
        "kimi-mini": _KIMI_MINI,
        "kimi-mini-dflash": _draft(_KIMI_MINI, [0, 1, 2], block=8),
    }
    for name, config in models.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config, indent=1))
