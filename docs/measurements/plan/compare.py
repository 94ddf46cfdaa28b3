"""Print published.yaml beside what the plan computes, as a table: python compare.py"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dflash_kit.profiles import memory
from dflash_kit.profiles.load import load_pair, load_profile, load_shape
from dflash_kit.profiles.models import AllReduce, Speed
from dflash_kit.profiles.roofline import Roofline
from dflash_kit.profiles.shape import BF16_BYTES, FP8_BYTES
from dflash_kit.releases.current import Engine

PROFILE = load_profile("rtx-pro-6000-x8")
PAIR = load_pair(PROFILE.pair)
SHAPE = load_shape("kimi-k2.6")
BITS = PAIR.routed_bits or 0.0
ELEMENTS = {"bf16": BF16_BYTES, "fp8_e4m3": FP8_BYTES}


class Row(NamedTuple):
    """One figure: what it is, as published, as computed."""

    name: str
    published: float
    computed: float

    @property
    def difference(self) -> float:
        """Of the computed from the published figure, as a share of it."""
        return self.computed / self.published - 1


def roofline(
    bandwidth: float, other_ms: float, one_us: float, block_us: float, context: int = 1024
) -> Roofline:
    """Eight GPUs with an fp8 cache."""
    way = AllReduce(name="given", one_us=one_us, block_us=block_us)
    speed = Speed(bandwidth_tb_s=bandwidth, efficiency=0.8, other_ms=other_ms, all_reduce=[way])
    return Roofline(
        shape=SHAPE,
        speed=speed,
        all_reduce=way,
        ranks=8,
        routed_bits=BITS,
        kv_bytes=SHAPE.target.kv_bytes(FP8_BYTES),
        block=8,
        context=context,
    )


def kv_tokens(dtype: str) -> int:
    """Tokens in the cache of one GPU without a draft, at the profile's fraction."""
    arguments = {
        **PROFILE.engine.arguments,
        **PROFILE.points["throughput"].arguments,
        "kv-cache-dtype": dtype,
    }
    engine = Engine("none", "0.5.12", frozenset())
    return memory.plan(
        SHAPE, BITS, PROFILE.hardware.gpu_memory_mib or 0, arguments, engine
    ).kv_tokens


def rows() -> Iterator[Row]:
    """Every published figure with its computed one."""
    published: dict[str, Any] = yaml.safe_load(
        (Path(__file__).parent / "published.yaml").read_text()
    )
    for dtype, tokens in published["kv_tokens"].items():
        yield Row(f"KV tokens, {dtype}", tokens, kv_tokens(dtype))
    for dtype, size in published["kv_bytes"].items():
        yield Row(f"KV bytes a token, {dtype}", size, SHAPE.target.kv_bytes(ELEMENTS[dtype]))
    plain = roofline(1.792, 0, 1e-9, 1e-9, context=0)
    for tokens, size in published["step_bytes_gb"].items():
        yield Row(f"GB read by a step of {tokens}", size, plain.target_bytes(tokens) / 1e9)
    draft = SHAPE.draft.layers + SHAPE.draft.projection + SHAPE.target.head
    yield Row("GB read by the draft", published["draft_gb"], draft * BF16_BYTES / 1e9)
    for case in published["one_user"]:
        given = [case[key] for key in ("bandwidth", "other_ms", "one_us", "block_us")]
        line, name = roofline(*given), "{} TB/s, other {} ms, all-reduce {}/{} us: ".format(*given)
        yield Row(f"{name}tok/s", case["tok_s"], line.plain_tok_s())
        yield Row(f"{name}DFlash step ms", case["dflash_ms"], line.dflash_ms())
        yield Row(f"{name}break-even", case["break_even"], line.break_even())
        for acceptance, speed in case["dflash"].items():
            computed = line.dflash_tok_s(acceptance)
            yield Row(f"{name}DFlash tok/s at {acceptance}", speed, computed)
    for users, acceptance in published["break_even_by_users"].items():
        yield Row(f"break-even, {users} users, bytes alone", acceptance, plain.break_even(users))


if __name__ == "__main__":
    print("| figure | published | plan | difference |\n|---|---|---|---|")
    for row in rows():
        print(f"| {row.name} | {row.published:g} | {row.computed:.6g} | {row.difference:+.1%} |")
