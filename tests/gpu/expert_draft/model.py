"""A DFlash draft with expert layers: upstream has none, and its dense one never reads the count.

It loads a dense draft. Each MLP is cut into EXPERTS slices and every token goes to all of them with
equal weight, so that its answers are the dense draft's, bit for bit; but who gets a token is asked
of the engine's own TopK, which drops every token at or beyond `num_token_non_padded`. A count that
is too small costs acceptance.
"""

import torch
from sglang.srt.layers.moe.topk import TopK
from sglang.srt.models.dflash import DFlashDraftModel, DFlashMLP

EXPERTS = 4  # a power of two, so that the equal weights are exact in every type


class ExpertMLP(DFlashMLP):
    """The same parameters under the same names; `batch` is the forward batch being run."""

    def __init__(self, config, layer_id: int) -> None:
        super().__init__(config)
        self.topk = TopK(top_k=EXPERTS, renormalize=True, layer_id=layer_id)
        self.batch = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens, hidden] -> the same; a token without experts gives zeros."""
        logits = torch.zeros(len(x), EXPERTS, dtype=torch.float32, device=x.device)
        chosen = self.topk(x, logits, num_token_non_padded=self.batch.num_token_non_padded)
        # Column 0 takes the experts -1 of dropped tokens.
        shares = logits.new_zeros(len(x), EXPERTS + 1)
        shares.scatter_add_(1, chosen.topk_ids.long() + 1, chosen.topk_weights.float())
        gate_up, _ = self.gate_up_proj(x)
        inner = self.act_fn(gate_up).view(len(x), EXPERTS, -1)
        inner = inner * (shares[:, 1:, None] * EXPERTS).to(inner.dtype)
        out, _ = self.down_proj(inner.flatten(1))
        return out


class DFlashExpertDraftModel(DFlashDraftModel):
    def __init__(self, config, quant_config=None, prefix: str = "") -> None:
        super().__init__(config, quant_config, prefix)
        for layer_id, layer in enumerate(self.layers):
            layer.mlp = ExpertMLP(config, layer_id)

    # The engine looks for input_embeds in this signature.
    def forward(self, input_ids, positions, forward_batch, input_embeds=None, **more):
        for layer in self.layers:
            layer.mlp.batch = forward_batch
        return super().forward(input_ids, positions, forward_batch, input_embeds, **more)


EntryClass = DFlashExpertDraftModel
