"""How fast a step can be: the bytes that it reads, the messages that it sends, and the rest.

Times are in milliseconds. Weights are read once a step however many tokens it holds, experts as far
as the tokens need them; each GPU reads its share. See docs/measurements/plan for what this
reproduces.
"""

from dataclasses import dataclass

from dflash_kit.profiles.models import AllReduce, Speed
from dflash_kit.profiles.shape import BF16_BYTES, Shape

# A layer adds up after attention and after its experts, and the output layer gathers once.
_MESSAGES_PER_LAYER = 2


@dataclass(frozen=True)
class Roofline:
    """One pair on `ranks` GPUs of one kind with one way to all-reduce.

    `routed_bits` a parameter of the routed experts; `kv_bytes` a token of KV cache and rank;
    `block` the tokens that a verify pass looks at; `context` the tokens before them.
    """

    shape: Shape
    speed: Speed
    all_reduce: AllReduce
    ranks: int
    routed_bits: float
    kv_bytes: int
    block: int
    context: int = 1024

    def target_bytes(self, tokens: int) -> float:
        """Bytes of weights that the target's pass over `tokens` reads, on all GPUs together."""
        target = self.shape.target
        routed = target.moe_layers * target.experts_read(tokens) * target.expert
        return target.always_read * BF16_BYTES + routed * self.routed_bits / 8

    def step_ms(self, tokens: int, users: int = 1) -> float:
        """A pass of the target over `tokens` of each of `users`."""
        messages = _MESSAGES_PER_LAYER * self.shape.target.num_hidden_layers + 1
        read = self.target_bytes(tokens * users) / self.ranks
        cache = users * self.context * self.kv_bytes
        sent = messages * self._all_reduce_us(tokens) / 1e3
        return self._read_ms(read + cache) + sent + self.speed.other_ms

    def draft_ms(self) -> float:
        """A pass of the draft: its layers, its projection and the target's output layer."""
        draft = self.shape.draft
        parameters = draft.layers + draft.projection + self.shape.target.head
        messages = _MESSAGES_PER_LAYER * draft.num_hidden_layers + 1
        read = parameters * BF16_BYTES / self.ranks
        return self._read_ms(read) + messages * self._all_reduce_us(self.block) / 1e3

    def dflash_ms(self, users: int = 1) -> float:
        """A step with DFlash: draft, then verify."""
        return self.step_ms(self.block, users) + self.draft_ms()

    def plain_tok_s(self) -> float:
        """Tokens per second of one user without a draft."""
        return 1e3 / self.step_ms(1)

    def dflash_tok_s(self, acceptance: float) -> float:
        """Tokens per second of one user where a verify pass yields `acceptance` tokens."""
        return 1e3 * acceptance / self.dflash_ms()

    def break_even(self, users: int = 1) -> float:
        """The acceptance from which DFlash is worth its step."""
        return self.dflash_ms(users) / self.step_ms(1, users)

    def _read_ms(self, size: float) -> float:
        return size / (self.speed.bandwidth_tb_s * 1e9 * self.speed.efficiency)

    def _all_reduce_us(self, tokens: int) -> float:
        """Between the two message sizes that are known, and beyond, in proportion."""
        one, block = self.all_reduce.one_us, self.all_reduce.block_us
        return one + (block - one) * (tokens - 1) / (self.block - 1)
