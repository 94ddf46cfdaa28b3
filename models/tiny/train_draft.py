"""Teach a DFlash draft to fill blocks from the target's hidden states.

The network below is what the engine runs (sglang's models/dflash.py) in plain torch: it has no
embedding and no head of its own, keys and values of the context come from the target's hidden
states, and a block attends to the whole context before it and to itself in both directions.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from corpus import IGNORED, MASK, Conversations
from safetensors.torch import save_file
from torch import Tensor, nn
from train_target import SHARED, Trainer, batch, model_config
from transformers import Qwen3ForCausalLM

LAYERS = 2
STEPS = 420
BLOCK = 8
TARGET_LAYER_IDS = [0, 1, 2]
TOKENS_PER_ANCHOR = 10  # a row of n tokens trains n / 10 blocks at once
HIDDEN, INNER, HEAD = SHARED["hidden_size"], SHARED["intermediate_size"], SHARED["head_dim"]
HEADS, KV_HEADS = SHARED["num_attention_heads"], SHARED["num_key_value_heads"]


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """RoPE. x: [rows, heads, tokens, HEAD], positions: [rows, tokens]."""
    steps = torch.arange(0, HEAD, 2).float() / HEAD
    angles = positions[:, None, :, None].float() / SHARED["rope_parameters"]["rope_theta"] ** steps
    cos, sin = angles.cos().repeat(1, 1, 1, 2), angles.sin().repeat(1, 1, 1, 2)
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HEADS * HEAD, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD, HIDDEN, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(HEAD, eps=1e-6), nn.RMSNorm(HEAD, eps=1e-6)

    def forward(self, x: Tensor, context: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        rows, count = x.shape[:2]
        source = torch.cat([context, x], 1)

        def heads(projected: Tensor) -> Tensor:
            return projected.view(rows, projected.shape[1], -1, HEAD)

        q = rotate(self.q_norm(heads(self.q_proj(x))).transpose(1, 2), positions[:, -count:])
        k = rotate(self.k_norm(heads(self.k_proj(source))).transpose(1, 2), positions)
        v = heads(self.v_proj(source)).transpose(1, 2)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).reshape(rows, count, -1))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.self_attn = Attention()
        self.post_attention_layernorm = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.mlp = MLP()

    def forward(self, x: Tensor, context: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), context, positions, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Draft(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.fc = nn.Linear(len(TARGET_LAYER_IDS) * HIDDEN, HIDDEN, bias=False)
        self.hidden_norm = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.norm = nn.RMSNorm(HIDDEN, eps=1e-6)

    def forward(self, blocks: Tensor, features: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Hidden states of embedded blocks.

        blocks: [rows, n, HIDDEN]; features: [rows, tokens, len(TARGET_LAYER_IDS) * HIDDEN];
        positions: [rows, tokens + n]; mask: [rows, n, tokens + n], true where n may look.
        """
        context = self.hidden_norm(self.fc(features))
        for layer in self.layers:
            blocks = layer(blocks, context, positions, mask)
        return self.norm(blocks)


def choose_anchors(labels: Tensor) -> Tensor:
    """Random places [rows, blocks] with a label, and a block's room behind them."""
    weights = (labels[:, :-BLOCK] != IGNORED).float()
    return torch.multinomial(weights, labels.shape[1] // TOKENS_PER_ANCHOR, replacement=True)


def attention_mask(anchors: Tensor, tokens: int) -> Tensor:
    """[rows, blocks * BLOCK, tokens + blocks * BLOCK]: context before the anchor, own block."""
    context = torch.arange(tokens)[None, None] < anchors.repeat_interleave(BLOCK, 1)[..., None]
    own = torch.block_diag(*[torch.ones(BLOCK, BLOCK)] * anchors.shape[1]).bool()
    return torch.cat([context, own.expand(len(anchors), -1, -1)], -1)


def block_loss(
    draft: Draft, target: Qwen3ForCausalLM, mask_id: int, ids: Tensor, labels: Tensor
) -> tuple[Tensor, float]:
    """(mean cross entropy over the proposals, mean accepted length with the bonus token)."""
    rows, tokens = ids.shape
    hidden = target.model(ids, output_hidden_states=True).hidden_states
    features = torch.cat([hidden[layer + 1] for layer in TARGET_LAYER_IDS], -1)
    anchors = choose_anchors(labels)
    count = anchors.shape[1]
    places = (anchors[..., None] + torch.arange(BLOCK)).view(rows, -1)
    wanted = labels.gather(1, places).view(rows, count, BLOCK)[..., 1:]
    inputs = torch.full((rows, count, BLOCK), mask_id)
    inputs[..., 0] = ids.gather(1, anchors)
    positions = torch.cat([torch.arange(tokens).expand(rows, -1), places], 1)
    blocks = target.model.embed_tokens(inputs.view(rows, -1))
    states = draft(blocks, features, positions, attention_mask(anchors, tokens))
    logits = target.lm_head(states.view(rows, count, BLOCK, -1)[..., 1:, :])
    loss = F.cross_entropy(logits.flatten(0, 2), wanted.flatten(), ignore_index=IGNORED)
    hits = (logits.argmax(-1) == wanted) | (wanted == IGNORED)
    return loss, 1 + hits.float().cumprod(-1).sum(-1).mean().item()


def train_draft(conversations: Conversations, target: Qwen3ForCausalLM, out: Path) -> None:
    """Train and save weights (bfloat16) and config."""
    mask_id = conversations.tokenizer.convert_tokens_to_ids(MASK)
    draft = Draft()
    trainer = Trainer("draft", draft, STEPS)
    for number in range(STEPS):
        loss, accepted = block_loss(draft, target, mask_id, *batch(conversations))
        trainer.step(number, loss, f" accepted {accepted:.2f} of {BLOCK}")
    out.mkdir(parents=True, exist_ok=True)
    weights = {k: v.to(torch.bfloat16).contiguous() for k, v in draft.state_dict().items()}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    config = json.loads(model_config(conversations.tokenizer, LAYERS).to_json_string()) | {
        "architectures": ["DFlashDraftModel"],
        "block_size": BLOCK,
        "num_target_layers": target.config.num_hidden_layers,
        "dflash_config": {"target_layer_ids": TARGET_LAYER_IDS, "mask_token_id": mask_id},
    }
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
