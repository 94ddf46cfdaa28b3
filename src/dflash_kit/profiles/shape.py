"""The sizes of a pair's models, under the names that their config.json files use."""

from pydantic import Field

from dflash_kit.profiles.models import Strict

# Bytes of one element of what the models compute with, and of the two kinds of KV cache.
BF16_BYTES = 2
FP8_BYTES = 1
# Sizes that a config.json does not have under these names.
NOT_IN_CONFIG = {"vision_parameters", "target_layers"}


class Target(Strict):
    """A DeepSeek-V3-like target: latent attention, one dense layer or more, then experts."""

    num_hidden_layers: int = Field(gt=0)
    first_k_dense_replace: int = Field(ge=0)
    hidden_size: int = Field(gt=0)
    num_attention_heads: int = Field(gt=0)
    q_lora_rank: int = Field(gt=0)
    kv_lora_rank: int = Field(gt=0)
    qk_rope_head_dim: int = Field(gt=0)
    qk_nope_head_dim: int = Field(gt=0)
    v_head_dim: int = Field(gt=0)
    n_routed_experts: int = Field(gt=0)
    num_experts_per_tok: int = Field(gt=0)
    n_shared_experts: int = Field(ge=0)
    moe_intermediate_size: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    vocab_size: int = Field(gt=0)
    max_position_embeddings: int = Field(gt=0)
    vision_parameters: int = Field(ge=0)

    @property
    def moe_layers(self) -> int:
        return self.num_hidden_layers - self.first_k_dense_replace

    @property
    def expert(self) -> int:
        """Parameters of one expert."""
        return 3 * self.hidden_size * self.moe_intermediate_size

    @property
    def latent(self) -> int:
        """Parameters of one layer's projections into the latent space; whole on every rank."""
        return self.hidden_size * (self.q_lora_rank + self.kv_lora_rank + self.qk_rope_head_dim)

    @property
    def attention(self) -> int:
        """Parameters of one layer's attention."""
        heads, value = self.num_attention_heads, self.v_head_dim
        query = self.q_lora_rank * heads * (self.qk_nope_head_dim + self.qk_rope_head_dim)
        key_value = self.kv_lora_rank * heads * (self.qk_nope_head_dim + value)
        return self.latent + query + key_value + heads * value * self.hidden_size

    @property
    def router(self) -> int:
        """Parameters of one layer's router; whole on every rank."""
        return self.hidden_size * self.n_routed_experts

    @property
    def head(self) -> int:
        """Parameters of the output layer; the input embedding has as many."""
        return self.vocab_size * self.hidden_size

    @property
    def always_read(self) -> int:
        """Parameters that every forward pass reads: all but the routed experts."""
        experts = self.moe_layers * (self.n_shared_experts * self.expert + self.router)
        dense = self.first_k_dense_replace * 3 * self.hidden_size * self.intermediate_size
        return self.num_hidden_layers * self.attention + experts + dense + self.head

    def kv_bytes(self, element: int) -> int:
        """Bytes of KV cache a token; the same on every rank, which all hold the whole latent."""
        return (self.kv_lora_rank + self.qk_rope_head_dim) * self.num_hidden_layers * element

    def experts_read(self, tokens: int) -> float:
        """Distinct experts of a layer that `tokens` use, if each picked at random.

        An upper estimate: the tokens of a real text agree more.
        """
        missed = 1 - self.num_experts_per_tok / self.n_routed_experts
        return self.n_routed_experts * (1 - missed**tokens)


class Draft(Strict):
    """A DFlash draft: grouped-query attention, and a projection of the target's hidden states."""

    num_hidden_layers: int = Field(gt=0)
    hidden_size: int = Field(gt=0)
    num_attention_heads: int = Field(gt=0)
    num_key_value_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    target_layers: int = Field(gt=0)

    @property
    def projection(self) -> int:
        """Parameters of the projection; whole on every rank."""
        return self.target_layers * self.hidden_size**2

    @property
    def layers(self) -> int:
        """Parameters of all layers; embedding and output layer are the target's."""
        heads, shared = self.num_attention_heads, self.num_key_value_heads
        attention = 2 * self.hidden_size * self.head_dim * (heads + shared)
        feed_forward = 3 * self.hidden_size * self.intermediate_size
        return self.num_hidden_layers * (attention + feed_forward)

    def kv_bytes(self, ranks: int) -> int:
        """Bytes of KV cache a token and rank, in bf16; a head is never divided."""
        heads = max(1, -(-self.num_key_value_heads // ranks))
        return self.num_hidden_layers * 2 * heads * self.head_dim * BF16_BYTES


class Shape(Strict):
    """Both models of a pair."""

    name: str
    target: Target
    draft: Draft
