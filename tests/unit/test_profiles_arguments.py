"""What a profile renders for a release, and what is refused because it is known not to work."""

import re
from typing import Any

import pytest

from dflash_kit import paths
from dflash_kit.engine import config
from dflash_kit.errors import InputError
from dflash_kit.profiles import arguments as table
from dflash_kit.profiles.load import load_pair, load_profile, profile_names
from dflash_kit.profiles.models import Pair, Point, Profile
from dflash_kit.releases import catalogue, current
from dflash_kit.releases.current import Engine

KIMI = ("rtx-pro-6000-x8", "rtx-pro-6000-x8-ep8", "b300-x8", "b300-x8-ep8")
POINTS = ("latency", "throughput")
RELEASES = tuple(catalogue.load(paths.RELEASES_FILE).releases)
BLOCK = "speculative-num-draft-tokens"
RTX, B300 = "rtx-pro-6000-x8", "b300-x8"


def rendered(profile: Profile, point: str, release: str | None = None) -> config.Rendered:
    return config.render(profile, load_pair(profile.pair), point, config.REDACTED, release=release)


def with_arguments(name: str, point: str, **changes: Any) -> Profile:
    """The profile with arguments of a point changed; None removes one everywhere."""
    profile = load_profile(name)
    given = {name.replace("_", "-"): value for name, value in changes.items()}
    keep = {k: v for k, v in profile.engine.arguments.items() if given.get(k, v) is not None}
    settings = profile.points[point]  # type: ignore[index]
    over = {k: v for k, v in {**settings.arguments, **given}.items() if v is not None}
    return profile.model_copy(
        update={
            "engine": profile.engine.model_copy(update={"arguments": keep}),
            "points": {point: settings.model_copy(update={"arguments": over})},
        }
    )


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("point", POINTS)
def test_every_profile_renders_for_every_release(point: str, release: str) -> None:
    for name in profile_names():
        profile = load_profile(name)
        arguments = rendered(profile, point, release).arguments
        assert ("speculative-algorithm" in arguments) == (point == "latency"), name
        assert ("ep-size" in arguments) == name.endswith("-ep8"), name


def test_points_win_over_the_engine() -> None:
    profile = with_arguments(RTX, "latency", chunked_prefill_size=4096)
    assert load_profile(RTX).engine.arguments["chunked-prefill-size"] == 8192
    assert rendered(profile, "latency").arguments["chunked-prefill-size"] == 4096
    point = Point(dflash=True, environment={"OMP_NUM_THREADS": "2"})
    profile = load_profile(RTX).model_copy(update={"points": {"latency": point}})
    assert rendered(profile, "latency").environment["OMP_NUM_THREADS"] == "2"


def test_a_renamed_argument_has_the_release_s_name() -> None:
    arguments = {"speculative-draft-window-size": 4096, "port": 1}
    old = table.named_for(arguments, Engine("r", "0.5.11", frozenset()))
    assert old == {"speculative-dflash-draft-window-size": 4096, "port": 1}
    for version in ("0.5.12", "0.5.23"):
        assert table.named_for(arguments, Engine("r", version, frozenset())) == arguments
    of_the_old = rendered(load_profile(RTX), "latency", "0.5.11-dflash.2").arguments
    assert "speculative-dflash-draft-window-size" in of_the_old


@pytest.mark.parametrize(("version", "known"), [("0.5.11", ""), ("0.5.23", "-decode")])
def test_an_older_name_is_that_argument_too(
    version: str, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, version, "draft-row-room.patch")
    profile = with_arguments(RTX, "latency", cuda_graph_max_bs=4)
    arguments = rendered(profile, "latency").arguments
    named = {name: value for name, value in arguments.items() if "graph-max" in name}
    assert named == {f"cuda-graph-max-bs{known}": 4}


IPC = "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"


@pytest.mark.parametrize(("version", "known"), [("0.5.17", False), ("0.5.23", True)])
def test_a_variable_is_set_where_the_version_knows_it(
    version: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, version, "draft-row-room.patch")
    for point in POINTS:
        environment = rendered(with_arguments(RTX, point), point).environment
        assert (environment.get(IPC) == "1") == known and "NCCL_P2P_LEVEL" in environment
        assert IPC not in rendered(with_arguments(B300, point), point).environment


NVFP4 = {"quantization": "modelopt_fp4"}
PLANTED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mla-kernels-sm120": (RTX, "0.5.11", {"attention_backend": "trtllm_mla"}),
    "draft-fa3-blackwell": (RTX, "0.5.11", {"speculative_draft_attention_backend": "fa3"}),
    "draft-fa4-sm120": (RTX, "0.5.17", {"speculative_draft_attention_backend": "fa4"}),
    "draft-backend-replaced": (B300, "0.5.11", {"speculative_draft_attention_backend": "nsa"}),
    "draft-backend-inherited": (B300, "0.5.11", {"speculative_draft_attention_backend": None}),
    "nvfp4-trtllm-sm120": (RTX, "0.5.23", NVFP4 | {"moe_runner_backend": "flashinfer_trtllm"}),
    "nvfp4-auto-sm120": (RTX, "0.5.11", NVFP4),
    "ep-dflash": (RTX, "0.5.12", {"ep_size": 8}),
    "allreduce-fusion-draft": (
        B300,
        "0.5.11",
        {"enforce_disable_flashinfer_allreduce_fusion": None},
    ),
    "allreduce-fusion-sm120": (RTX, "0.5.11", {"enable_flashinfer_allreduce_fusion": True}),
    "page-size-one": (B300, "0.5.15", {"page_size": 1}),
    "disaggregation-dflash": (RTX, "0.5.11", {"disaggregation_mode": "decode"}),
    "fp8-cache-dflash": (RTX, "0.5.15", {"kv_cache_dtype": "fp8_e4m3"}),
    "fp8-cache-by-default": (B300, "0.5.11", {"kv_cache_dtype": None}),
    "dp-attention-dflash": (B300, "0.5.18", {"enable_dp_attention": True}),
    "dp-attention-eager-draft": (B300, "0.5.23", {"attn_dp_size": 8}),
    "pipeline-dflash": (RTX, "0.5.11", {"pp_size": 2}),
    "mixed-chunk-dflash": (RTX, "0.5.11", {"enable_mixed_chunk": True}),
    "hierarchical-cache-dflash": (B300, "0.5.11", {"enable_hierarchical_cache": True}),
    "dispatch-eager-draft": (B300, "0.5.11", {"moe_a2a_backend": "deepep"}),
    "large-draft-graph-sm103": (B300, "0.5.12", {"cuda_graph_max_bs_decode": 128}),
    "memory-fraction-sm120": (RTX, "0.5.11", {"mem_fraction_static": 0.94}),
}


def on(monkeypatch: pytest.MonkeyPatch, version: str, *patches: str) -> None:
    engine = Engine("planted", version, frozenset(patches))
    monkeypatch.setattr(current, "engine", lambda release=None: engine)


@pytest.mark.parametrize("code", PLANTED)
def test_a_combination_that_does_not_work_is_refused_with_its_reason(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, version, changes = PLANTED[code]
    (row,) = [row for row in table.table().incompatible if row.code == code]
    on(monkeypatch, version)
    with pytest.raises(InputError) as caught:
        rendered(with_arguments(name, "latency", **changes), "latency")
    message = str(caught.value)
    assert f"{code}: " in message and row.reason in message and row.link in message
    assert message.startswith(f"profile {name}, point latency, release planted: ")
    assert "\n" not in message
    changed = next(iter(changes)).replace("_", "-")
    assert f"--{changed}" in message


def test_every_row_is_planted() -> None:
    assert list(PLANTED) == [row.code for row in table.table().incompatible]


@pytest.mark.parametrize("code", PLANTED)
def test_the_profile_itself_is_not_that_row(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is the planted change that is refused, and nothing else is by this row."""
    name, version, _ = PLANTED[code]
    (row,) = [row for row in table.table().incompatible if row.code == code]
    on(monkeypatch, version)
    profile = load_profile(name)
    settings = profile.points["latency"]
    arguments = {**profile.engine.arguments, **settings.arguments}
    assert not row.holds(profile, True, arguments, Engine("r", version, frozenset()))


@pytest.mark.parametrize(
    ("name", "version", "patches", "changes"),
    [
        (RTX, "0.5.18", (), {"kv_cache_dtype": "fp8_e4m3", "page_size": 64}),
        (RTX, "0.5.12", ("draft-num-token-non-padded.patch",), {"ep_size": 8}),
        (RTX, "0.5.18", (), {"speculative_draft_attention_backend": "fa4", "page_size": 64}),
        (B300, "0.5.11", (), {"cuda_graph_max_bs_decode": 128}),
        (RTX, "0.5.11", (), {"mem_fraction_static": 0.89}),
    ],
)
def test_what_a_version_or_a_patch_mends_is_not_refused(
    name: str,
    version: str,
    patches: tuple[str, ...],
    changes: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on(monkeypatch, version, *patches)
    assert rendered(with_arguments(name, "latency", **changes), "latency").arguments


def test_without_dflash_its_rows_do_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "0.5.11")
    profile = with_arguments(RTX, "throughput", ep_size=8, enable_mixed_chunk=True)
    assert rendered(profile, "throughput").arguments["ep-size"] == 8


def test_all_reasons_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "0.5.11")
    profile = with_arguments(RTX, "latency", pp_size=2, kv_cache_dtype="fp8_e5m2")
    with pytest.raises(InputError, match=r"fp8-cache-dflash: .*; pipeline-dflash: "):
        rendered(profile, "latency")


def test_another_block_must_be_said() -> None:
    with pytest.raises(InputError, match=r"speculative-num-draft-tokens: wanted draft_tokens"):
        rendered(with_arguments(RTX, "latency", speculative_num_draft_tokens=5), "latency")
    profile = load_profile(RTX)
    point = profile.points["latency"].model_copy(update={"draft_tokens": 5})
    said = profile.model_copy(update={"points": {"latency": point}})
    assert rendered(said, "latency").arguments[BLOCK] == 5
    assert rendered(profile, "latency").arguments[BLOCK] == 8


def test_the_fallback_takes_dflash_s_place() -> None:
    profile = load_profile(B300)
    point = Point(dflash=False, fallback=True)
    profile = profile.model_copy(update={"points": {"latency": point}})
    arguments = rendered(profile, "latency").arguments
    assert arguments["speculative-algorithm"] == "EAGLE3" and arguments[BLOCK] == 4
    assert str(arguments["speculative-draft-model-path"]).endswith("kimi-k2.6-eagle3.1-mla")
    tiny: Pair = load_pair("tiny")
    with pytest.raises(InputError, match=r"fallback: pair tiny has none"):
        config.render(profile, tiny, "latency", config.REDACTED)


@pytest.mark.parametrize("name", KIMI)
def test_every_argument_says_why(name: str) -> None:
    lines = (paths.PROFILES / f"{name}.yaml").read_text().splitlines()
    inside = False
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if re.match(r"\s+(arguments|environment):$", line):
            inside, level = True, depth
        elif inside and depth <= level:
            inside = False
        elif inside:
            assert re.search(r"  # \S.{3,}", line), line


@pytest.mark.parametrize("point", POINTS)
def test_no_more_requests_than_the_largest_graph_takes(point: str) -> None:
    for name in KIMI:
        arguments = rendered(load_profile(name), point).arguments
        (largest,) = [name for name in arguments if name.startswith("cuda-graph-max-bs")]
        assert arguments["max-running-requests"] == arguments[largest], name
