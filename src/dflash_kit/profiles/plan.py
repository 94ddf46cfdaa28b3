"""The plan of a profile at a point: what fits, how fast it can be, and when DFlash pays."""

from dataclasses import dataclass
from typing import Any

from dflash_kit.engine import config
from dflash_kit.errors import InputError
from dflash_kit.profiles import memory
from dflash_kit.profiles.arguments import as_in_profiles
from dflash_kit.profiles.load import load_pair, load_shape
from dflash_kit.profiles.memory import GIB, Memory
from dflash_kit.profiles.models import Profile
from dflash_kit.profiles.roofline import Roofline
from dflash_kit.releases import current


@dataclass(frozen=True)
class Plan:
    """Memory of one GPU, and a roofline for each way to all-reduce."""

    profile: str
    point: str
    acceptance: float
    context_length: int
    memory: Memory
    rooflines: tuple[Roofline, ...]

    @property
    def problems(self) -> list[str]:
        """What of the profile cannot work, one line each."""
        problems = []
        if self.memory.kv_tokens < self.context_length:
            problems.append(
                f"context-length: got {self.context_length}, wanted at most the "
                f"{self.memory.kv_tokens} tokens of KV cache"
            )
        if self.memory.draft_budget < self.memory.draft_token:
            problems.append(
                f"draft's cache: the release sets aside {self.memory.draft_budget} bytes a token, "
                f"wanted {self.memory.draft_token}: take a release with draft-kv-budget.patch"
            )
        if self.memory.headroom < 0:
            problems.append(f"headroom: got {self.memory.headroom / GIB:.1f} GiB, wanted some")
        return problems

    def as_json(self) -> dict[str, Any]:
        """Everything computed; sizes in GiB, times in ms."""
        return {
            "profile": self.profile,
            "point": self.point,
            "acceptance": self.acceptance,
            "memory_gib": {k: round(v / GIB, 2) for k, v in self.memory.parts().items()},
            "kv_tokens": self.memory.kv_tokens,
            "kv_bytes": {"target": self.memory.target_token, "draft": self.memory.draft_token},
            "speed": [
                {
                    "all_reduce": roofline.all_reduce.name,
                    "step_ms": round(roofline.step_ms(1), 2),
                    "dflash_step_ms": round(roofline.dflash_ms(), 2),
                    "tok_s": round(roofline.plain_tok_s(), 1),
                    "dflash_tok_s": round(roofline.dflash_tok_s(self.acceptance), 1),
                    "break_even": round(roofline.break_even(), 2),
                }
                for roofline in self.rooflines
            ],
            "problems": self.problems,
        }


def make_plan(
    profile: Profile, point: str, acceptance: float | None = None, release: str | None = None
) -> Plan:
    """The plan of `profile` at `point` on `release`.

    `acceptance` in tokens a verify pass; the pair's floor where it is left out.

    Raises:
        InputError: profile or pair lack a size that the plan needs, or `acceptance` cannot be.
    """
    pair, hardware = load_pair(profile.pair), profile.hardware
    if pair.shape is None or pair.routed_bits is None:
        raise InputError(f"pair {pair.name}: shape, routed_bits: missing, wanted for a plan")
    if hardware.gpu_memory_mib is None or hardware.speed is None:
        raise InputError(
            f"profile {profile.name}: hardware.gpu_memory_mib, hardware.speed: missing, "
            "wanted for a plan"
        )
    acceptance = pair.acceptance.floor if acceptance is None else acceptance
    block = profile.points[point].draft_tokens if point in profile.points else None
    block = block or pair.match.block_size
    if not 1 <= acceptance <= block:
        raise InputError(f"acceptance: got {acceptance}, wanted 1 to {block}")
    rendered = config.render(profile, pair, point, config.REDACTED, release=release)
    shape, arguments = load_shape(pair.shape), as_in_profiles(rendered.arguments)
    return Plan(
        profile=profile.name,
        point=point,
        acceptance=acceptance,
        context_length=int(str(arguments["context-length"])),
        memory=memory.plan(
            shape, pair.routed_bits, hardware.gpu_memory_mib, arguments, current.engine(release)
        ),
        rooflines=tuple(
            Roofline(
                shape=shape,
                speed=hardware.speed,
                all_reduce=way,
                ranks=hardware.count,
                routed_bits=pair.routed_bits,
                kv_bytes=shape.target.kv_bytes(memory.kv_element(arguments)),
                block=block,
            )
            for way in hardware.speed.all_reduce
        ),
    )
