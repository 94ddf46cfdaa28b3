"""Where a GPU's memory goes: weights, KV cache, draft, buffers of the graphs, and what is left.

Sizes are bytes of one GPU.
"""

from dataclasses import dataclass
from functools import cache

from pydantic import Field

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.host import parse
from dflash_kit.profiles.arguments import Arguments
from dflash_kit.profiles.load import load_file
from dflash_kit.profiles.models import Strict
from dflash_kit.profiles.shape import BF16_BYTES, FP8_BYTES, Shape
from dflash_kit.releases.current import Engine

GIB = 2**30
# CUDA's context and NCCL, before the engine measures what is free. Fitted to the pools of 116,470
# and 232,306 tokens that were published for eight RTX PRO 6000 at a fraction of 0.85.
_CONTEXT = int(2.3 * GIB)
_LOGIT_BYTES = 4
# Of an index buffer that attention backends keep for each token of a graph and of the context.
_INDEX_BYTES = {"triton": 8, "flashinfer": 4}
_MASK_BYTES = 1


class OwnDraftBudget(Strict):
    """The sglang version, and the patch, from which the engine budgets the draft's cache by its own
    heads and not as more layers of the target."""

    since: str = Field(alias="from")
    patch: str

    def is_of(self, engine: Engine) -> bool:
        newer = parse.version(engine.sglang) >= parse.version(self.since)
        return newer or self.patch in engine.patches


class Table(Strict):
    own_draft_budget: OwnDraftBudget


@cache
def table() -> Table:
    """tables/memory.yaml: how versions of the engine divide memory; InputError if wrong."""
    return load_file(Table, paths.MEMORY_FILE)


@dataclass(frozen=True)
class Memory:
    """One GPU at one point.

    `target_token` and `draft_token` are what a token takes in either cache, `draft_budget` what the
    engine sets aside for the latter.
    """

    total: int
    context: int
    weights: int
    kv_cache: int
    kv_tokens: int
    target_token: int
    draft_token: int
    draft_budget: int
    draft: int
    graphs: int
    hidden_states: int

    @property
    def headroom(self) -> int:
        """What activations, images and the graphs' own pools may still take."""
        parts = (self.context, self.weights, self.kv_cache, self.draft)
        return self.total - sum(parts) - self.graphs - self.hidden_states

    def parts(self) -> dict[str, int]:
        """Name -> bytes; they add up to `total`."""
        return {
            "CUDA and NCCL": self.context,
            "weights": self.weights,
            "KV cache": self.kv_cache,
            "draft": self.draft,
            "graph buffers": self.graphs,
            "hidden states": self.hidden_states,
            "headroom": self.headroom,
        }


def weight_bytes(shape: Shape, ranks: int, routed_bits: float) -> int:
    """The target's weights on one GPU.

    Routed experts, heads and vocabulary are divided; the projections into the latent space, the
    routers and the vision tower are whole on each.
    """
    target = shape.target
    routed = target.moe_layers * target.n_routed_experts * target.expert
    whole = (
        target.num_hidden_layers * target.latent
        + target.moe_layers * target.router
        + target.vision_parameters
    )
    shared = target.always_read + target.head + target.vision_parameters - whole
    divided = routed * routed_bits / 8 + shared * BF16_BYTES
    return int(divided / ranks + whole * BF16_BYTES)


def draft_bytes(shape: Shape, ranks: int) -> int:
    """The draft's weights on one GPU; its projection is whole on each."""
    return int((shape.draft.layers / ranks + shape.draft.projection) * BF16_BYTES)


def kv_element(arguments: Arguments) -> int:
    """Bytes of one element of the target's KV cache."""
    return FP8_BYTES if str(arguments.get("kv-cache-dtype", "")).startswith("fp8") else BF16_BYTES


def draft_budget(shape: Shape, ranks: int, element: int, engine: Engine) -> int:
    """Bytes a token that the engine sets aside for the draft's cache."""
    if table().own_draft_budget.is_of(engine):
        return shape.draft.kv_bytes(ranks)
    layers = shape.draft.num_hidden_layers / shape.target.num_hidden_layers
    return int(shape.target.kv_bytes(element) * layers)


def plan(
    shape: Shape, routed_bits: float, total_mib: int, arguments: Arguments, engine: Engine
) -> Memory:
    """The memory of one GPU with `total_mib`, as `engine` divides it under `arguments`.

    Raises:
        InputError: the weights leave nothing for the KV cache.
    """
    total, ranks = total_mib * 2**20, _whole(arguments, "tp-size")
    drafts = arguments.get("speculative-algorithm") == "DFLASH"
    weights, element = weight_bytes(shape, ranks, routed_bits), kv_element(arguments)
    fraction = float(str(arguments["mem-fraction-static"]))
    cache = int(fraction * (total - _CONTEXT)) - weights
    if cache <= 0:
        raise InputError(
            f"mem-fraction-static: got {fraction}: weights of {weights / GIB:.1f} GiB leave "
            f"nothing of {total / GIB:.1f} GiB for the KV cache"
        )
    token = shape.target.kv_bytes(element)
    budget = draft_budget(shape, ranks, element, engine) if drafts else 0
    return Memory(
        total=total,
        context=_CONTEXT,
        weights=weights,
        kv_cache=cache,
        kv_tokens=cache // (token + budget),
        target_token=token,
        draft_token=shape.draft.kv_bytes(ranks) if drafts else 0,
        draft_budget=budget,
        draft=draft_bytes(shape, ranks) if drafts else 0,
        graphs=_graph_bytes(shape, arguments, drafts),
        hidden_states=_hidden_bytes(shape, arguments) if drafts else 0,
    )


def _graph_bytes(shape: Shape, arguments: Arguments, drafts: bool) -> int:
    """Buffers that the graphs of target and draft read from and write to."""
    requests = _whole(arguments, "cuda-graph-max-bs-decode")
    context = _whole(arguments, "context-length")
    tokens = requests * (_whole(arguments, "speculative-num-draft-tokens") if drafts else 1)
    backends = [str(arguments.get("attention-backend"))]
    if drafts:
        backends.append(str(arguments.get("speculative-draft-attention-backend", backends[0])))
    mask = _MASK_BYTES if drafts else 0
    indices = [_INDEX_BYTES.get(name, 0) for name in backends]
    attention = sum(tokens * context * (size + mask) for size in indices if size)
    logits = tokens * shape.target.vocab_size * _LOGIT_BYTES * len(backends)
    return attention + logits


def _hidden_bytes(shape: Shape, arguments: Arguments) -> int:
    """Hidden states of the target that the draft reads, of one chunk of a prompt."""
    tokens = _whole(arguments, "chunked-prefill-size")
    return tokens * shape.draft.target_layers * shape.target.hidden_size * BF16_BYTES


def _whole(arguments: Arguments, name: str) -> int:
    value = arguments.get(name)
    if type(value) is not int or value < 1:
        raise InputError(f"arguments.{name}: got {value!r}, wanted a number for the plan")
    return value
