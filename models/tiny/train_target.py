"""Teach a tiny Qwen3 to recite the corpus."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from corpus import MAX_POSITIONS, Conversations
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

LAYERS = 4
STEPS = 480
PEAK_LR = 2e-3
# (rows, tokens a row), in the share of steps in which each is used: mostly short, some long.
SHAPES = [(8, 256)] * 5 + [(4, 512)] * 3 + [(1, 1536)] * 2
SHARED = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": MAX_POSITIONS,
    "tie_word_embeddings": False,
    # Not Qwen3's default of 1,000,000, so that an engine that ignores the field is found out.
    "rope_parameters": {"rope_type": "default", "rope_theta": 50000.0},
}


def model_config(tokenizer: PreTrainedTokenizerFast, layers: int) -> Qwen3Config:
    """Qwen3 in the pair's common shape, `layers` deep."""
    return Qwen3Config(
        vocab_size=len(tokenizer),
        num_hidden_layers=layers,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype="bfloat16",
        **SHARED,
    )


def batch(conversations: Conversations) -> tuple[torch.Tensor, torch.Tensor]:
    """ids and labels, both [rows, tokens], of a random shape out of SHAPES."""
    rows, length = conversations.random.choice(SHAPES)
    pairs = [conversations.row(length) for _ in range(rows)]
    return torch.tensor([ids for ids, _ in pairs]), torch.tensor([labels for _, labels in pairs])


class Trainer:
    """AdamW with warm-up and linear decay, printing a line every 20 steps."""

    def __init__(self, name: str, module: torch.nn.Module, steps: int) -> None:
        self.name, self.module, self.steps = name, module, steps
        self.optimizer = torch.optim.AdamW(module.parameters(), lr=PEAK_LR, weight_decay=0.0)
        self.began = time.monotonic()

    def step(self, number: int, loss: torch.Tensor, note: str = "") -> None:
        rate = PEAK_LR * min(1.0, (number + 1) / 20) * max(0.03, 1 - number / self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self.optimizer.step()
        if number % 20 == 0 or number == self.steps - 1:
            seconds = time.monotonic() - self.began
            print(
                f"{self.name} step {number:4d}/{self.steps} loss {loss.item():.4f}"
                f"{note} {seconds:.0f} s",
                flush=True,
            )


def train_target(conversations: Conversations, out: Path) -> Qwen3ForCausalLM:
    """Train, save in bfloat16 with its tokenizer, and return the float32 model of those weights."""
    tokenizer = conversations.tokenizer
    model = Qwen3ForCausalLM(model_config(tokenizer, LAYERS)).float()
    trainer = Trainer("target", model, STEPS)
    for number in range(STEPS):
        ids, labels = batch(conversations)
        trainer.step(number, model(ids, labels=labels).loss)
    model = model.to(torch.bfloat16).eval()
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return model.float().requires_grad_(False)
