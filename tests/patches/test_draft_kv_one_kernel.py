"""Keys and values of all draft layers: one product, one launch, no question to the device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.speculative.triton_ops import fused_kv_materialize

WITHOUT = r"unexpected keyword argument 'pool'"

LAYERS, HEADS, DIM, HIDDEN = 3, 2, 4, 8
QUERIES, KEYS = 16, HEADS * DIM
POSITIONS = 32


def layer(eps: float = 1e-6) -> Any:
    weight = torch.randn(QUERIES + 2 * KEYS, HIDDEN, dtype=torch.bfloat16)
    return SimpleNamespace(
        self_attn=SimpleNamespace(
            num_kv_heads=HEADS,
            head_dim=DIM,
            q_size=QUERIES,
            kv_size=KEYS,
            qkv_proj=SimpleNamespace(weight=weight, bias=None),
            k_norm=SimpleNamespace(
                weight=torch.ones(DIM, dtype=torch.bfloat16), variance_epsilon=eps
            ),
            rotary_emb=ROTARY,
        )
    )


class MHATokenToKVPool:
    """As the real one, as far as the helper looks."""

    def __init__(self, heads: int = HEADS) -> None:
        self.dtype = torch.bfloat16
        self.k_buffer = [torch.zeros(10, heads, DIM, dtype=self.dtype) for _ in range(LAYERS)]
        self.k_data_ptrs = torch.tensor([1, 2, 3])
        self.v_data_ptrs = torch.tensor([4, 5, 6])


ROTARY = SimpleNamespace(
    rotary_dim=DIM, is_neox_style=True, cos_sin_cache=torch.zeros(POSITIONS, DIM)
)


def helper(layers: list[Any], pool: Any = None, max_position: int = POSITIONS - 1) -> Any:
    return fused_kv_materialize.FusedKVMaterializeHelper(
        layers=layers,
        rotary_emb=ROTARY,
        num_kv_heads=HEADS,
        head_dim=DIM,
        pool=pool or MHATokenToKVPool(),
        max_position=max_position,
    )


def test_one_product_and_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[tuple[Any, tuple[Any, ...]]] = []

    class Kernel:
        def __getitem__(self, grid: Any) -> Any:
            return lambda *given: launches.append((grid, given))

    layers = [layer() for _ in range(LAYERS)]
    made = helper(layers)
    monkeypatch.setattr(fused_kv_materialize, "_append_kv_kernel", Kernel())
    hidden = torch.randn(5, HIDDEN, dtype=torch.bfloat16)
    # No values: to look at one would fail.
    positions, slots = (torch.empty(5, dtype=torch.int64, device="meta") for _ in range(2))
    made.materialize(ctx_hidden=hidden, positions=positions, slots=slots)

    [(grid, given)] = launches
    assert grid == (5, LAYERS * HEADS)
    kv = given[0].view(5, LAYERS, 2 * KEYS)
    for number, one in enumerate(layers):
        torch.testing.assert_close(
            kv[:, number], hidden @ one.self_attn.qkv_proj.weight[QUERIES:].T
        )
    assert given[3] is positions and given[4] is slots
    assert given[5] is made.pool.k_data_ptrs and given[6] is made.pool.v_data_ptrs


def test_nothing_to_write_launches_nothing() -> None:
    helper([layer() for _ in range(LAYERS)]).materialize(
        ctx_hidden=torch.empty(0, HIDDEN), positions=None, slots=None
    )


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ("too short", {"max_position": POSITIONS}),
        ("unexpected KV pool", {"pool": MHATokenToKVPool(heads=1)}),
        ("unsupported KV pool", {"pool": SimpleNamespace(dtype=torch.bfloat16)}),
        ("eps differs", {"layers": [layer(), layer(), layer(eps=1e-5)]}),
    ],
)
def test_what_the_kernel_cannot_do_is_refused(said: str, given: dict[str, Any]) -> None:
    layers = given.pop("layers", None) or [layer() for _ in range(LAYERS)]
    with pytest.raises(ValueError, match=said):
        helper(layers, **given)
