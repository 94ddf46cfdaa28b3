"""The plan: published figures within 10 %, what it refuses, and what it prints and draws."""

import json
import runpy
from typing import Any

import pytest
from typer.testing import CliRunner

from dflash_kit import paths
from dflash_kit.errors import CheckFailed, InputError
from dflash_kit.profiles import cli, memory, plan
from dflash_kit.profiles.load import load_pair, load_profile, load_shape
from dflash_kit.profiles.memory import GIB
from dflash_kit.profiles.models import Profile
from dflash_kit.profiles.shape import BF16_BYTES, FP8_BYTES
from dflash_kit.releases.current import Engine

COMPARED = runpy.run_path(str(paths.ROOT / "docs/measurements/plan/compare.py"))
ROWS = list(COMPARED["rows"]())
RTX = "rtx-pro-6000-x8"
SHAPE = load_shape("kimi-k2.6")
OLD, NEW = Engine("o", "0.5.11", frozenset()), Engine("n", "0.5.18", frozenset())
PATCHED = Engine("p", "0.5.11", frozenset({"draft-kv-budget.patch"}))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_published_figures_within_a_tenth(row: Any) -> None:
    assert abs(row.difference) < 0.1


def test_no_published_figure_is_forgotten() -> None:
    assert len(ROWS) == 2 + 2 + 6 + 1 + 6 * 7 + 7


def test_the_sizes_are_those_of_the_model() -> None:
    target, draft = SHAPE.target, SHAPE.draft
    routed = target.moe_layers * target.n_routed_experts * target.expert
    total = routed + target.always_read + target.head + target.vision_parameters
    assert total == pytest.approx(1.04e12, rel=0.02)
    active = target.always_read + target.moe_layers * target.num_experts_per_tok * target.expert
    assert active == pytest.approx(31.7e9, rel=0.01)
    assert draft.layers + draft.projection == pytest.approx(3.48e9, rel=0.01)
    assert target.experts_read(1) == pytest.approx(8)
    assert target.experts_read(8) == pytest.approx(59.5, abs=0.1)


@pytest.mark.parametrize(("ranks", "size"), [(8, 3072), (4, 6144), (2, 12288), (16, 3072)])
def test_the_draft_s_cache_a_token_and_rank(ranks: int, size: int) -> None:
    assert SHAPE.draft.kv_bytes(ranks) == size


def test_what_a_release_sets_aside_for_the_draft_s_cache() -> None:
    assert memory.draft_budget(SHAPE, 8, BF16_BYTES, OLD) == 6912
    assert memory.draft_budget(SHAPE, 8, FP8_BYTES, OLD) == 3456
    for engine in (NEW, PATCHED):
        assert memory.draft_budget(SHAPE, 4, FP8_BYTES, engine) == 6144


@pytest.mark.parametrize("name", [RTX, "b300-x8"])
@pytest.mark.parametrize("point", ["latency", "throughput"])
def test_every_plan_fits_and_adds_up(name: str, point: str) -> None:
    made = plan.make_plan(load_profile(name), point)
    assert made.problems == []
    assert sum(made.memory.parts().values()) == made.memory.total
    assert made.memory.headroom > 2 * GIB
    assert (made.memory.draft > 0) == (point == "latency")


def with_arguments(**changes: Any) -> Profile:
    profile = load_profile(RTX)
    given = {name.replace("_", "-"): value for name, value in changes.items()}
    latency = profile.points["latency"]
    latency = latency.model_copy(update={"arguments": {**latency.arguments, **given}})
    return profile.model_copy(update={"points": {"latency": latency}})


def test_a_context_longer_than_the_cache_is_a_problem() -> None:
    made = plan.make_plan(with_arguments(context_length=131072), "latency")
    (problem,) = made.problems
    assert problem.startswith("context-length: got 131072, wanted at most the ")


def test_graphs_that_leave_no_room_are_a_problem() -> None:
    many = with_arguments(cuda_graph_max_bs_decode=640, context_length=98304)
    made = plan.make_plan(many, "latency")
    assert made.problems == [f"headroom: got {made.memory.headroom / GIB:.1f} GiB, wanted some"]
    assert made.memory.headroom < 0


def test_a_budget_too_small_for_the_draft_s_cache_is_a_problem() -> None:
    fewer = with_arguments(tp_size=2)
    hardware = fewer.hardware.model_copy(update={"gpu_memory_mib": 400000})
    fewer = fewer.model_copy(update={"hardware": hardware})
    old = plan.make_plan(fewer, "latency", release="0.5.11-dflash.1")
    (problem,) = [x for x in old.problems if x.startswith("draft's cache")]
    assert "sets aside 6912 bytes a token, wanted 12288" in problem
    assert plan.make_plan(fewer, "latency", release="0.5.11-dflash.2").problems == []


@pytest.mark.parametrize(
    ("profile", "acceptance", "said"),
    [
        (with_arguments(mem_fraction_static=0.7), None, "weights of 71.7 GiB leave nothing"),
        (with_arguments(cuda_graph_max_bs_decode=0), None, "graph-max-bs-decode: got 0, wanted"),
        (load_profile(RTX), 9.0, "acceptance: got 9.0, wanted 1 to 8"),
        (load_profile("cpu-tiny"), None, "pair tiny: shape, routed_bits: missing"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    profile: Profile, acceptance: float | None, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        plan.make_plan(profile, "latency", acceptance)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_shorter_block_costs_less_and_pays_sooner() -> None:
    latency = load_profile(RTX).points["latency"].model_copy(update={"draft_tokens": 5})
    short = load_profile(RTX).model_copy(update={"points": {"latency": latency}})
    five, eight = (plan.make_plan(p, "latency").rooflines[0] for p in (short, load_profile(RTX)))
    assert five.dflash_ms() < eight.dflash_ms()
    assert five.break_even() < eight.break_even()


def test_the_command_prints_and_draws(tmp_path: Any) -> None:
    arguments = ["plan", RTX, "--acceptance", "2.65"]
    shown = CliRunner().invoke(cli.app, arguments)
    assert shown.exit_code == 0 and "KV cache: " in shown.output
    floor = CliRunner().invoke(cli.app, ["plan", RTX, "--json"])
    assert json.loads(floor.stdout)["acceptance"] == load_pair("kimi-k2.6-int4").acceptance.floor
    pytest.importorskip("matplotlib")
    file = tmp_path / "plan.png"
    assert CliRunner().invoke(cli.app, [*arguments, "--plot", str(file)]).exit_code == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    bad = CliRunner().invoke(cli.app, [*arguments, "--plot", str(tmp_path / "plan.what")])
    assert isinstance(bad.exception, InputError)


def test_a_plan_that_does_not_fit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "load_profile", lambda name: with_arguments(context_length=131072))
    result = CliRunner().invoke(cli.app, ["plan", RTX])
    assert isinstance(result.exception, CheckFailed)
