"""Healthy hosts pass; each sick one is told by its own code, with a next step."""

from typing import Any

import pytest
from host_documents import (
    B300,
    MISSING,
    RTX,
    Document,
    answer,
    b300_box,
    changed,
    cpu_box,
    csv,
    disk,
    file,
    gpu_answer,
    rtx_box,
    switches,
)
from sick_hosts import (
    BUSY,
    FAIL,
    HMM,
    INCONCLUSIVE,
    OTHERS,
    PCIE,
    SICK,
    WARN,
    commands,
    files,
)

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.host import source
from dflash_kit.host.preflight import CODES, judge, unfit
from dflash_kit.profiles.load import load_profile
from dflash_kit.verdicts import Record, Verdict, overall

PASS, RTX_X8 = Verdict.PASS, "rtx-pro-6000-x8"
BOXES = {RTX_X8: rtx_box, "b300-x8": b300_box, "cpu-tiny": cpu_box}


def judged(name: str, document: Document, *demoted: str) -> dict[str, Record]:
    return {record.code: record for record in judge(document, load_profile(name), demoted)}


@pytest.mark.parametrize("name", BOXES)
def test_a_healthy_host_passes_every_check(name: str) -> None:
    records = judged(name, BOXES[name]())
    bad = [record for record in records.values() if record.verdict is not Verdict.PASS]
    assert not bad
    assert all(record.measured and record.wanted for record in records.values())
    assert not any(record.next_step for record in records.values())


def test_each_kind_of_host_has_its_own_checks() -> None:
    rtx, b300, cpu = (set(judged(name, BOXES[name]())) for name in BOXES)
    assert {"iommu", "acs", "aspm", "hmm", "rebar", "p2p", "topology-odd"} == rtx - b300
    assert {
        "nvlink-count",
        "nvlink-speed",
        "fabric-manager",
        "fabric-version",
        "fabric-state",
        "nvlsm",
        "ib-umad",
    } == b300 - rtx
    assert cpu < rtx and not any(code.startswith(("gpu", "nv", "driver")) for code in cpu)
    assert rtx | b300 | cpu == set(CODES)


@pytest.mark.parametrize(
    ("name", "code", "verdict", "change", "measured"),
    [pytest.param(name, *case, id=f"{name}-{label}") for name, label, *case in SICK],
)
def test_a_sick_host_is_told_by_its_code(
    name: str, code: str, verdict: Verdict, change: dict[str, Any], measured: str
) -> None:
    record = judged(name, changed(BOXES[name](), **change))[code]
    assert record.verdict is verdict
    assert measured in record.measured
    assert record.wanted and record.next_step and "\n" not in record.measured


def test_at_least_25_codes_are_seen_sick() -> None:
    assert {case[2] for case in SICK} == set(CODES)
    assert len({case[2] for case in SICK}) >= 25


def test_everything_is_told_at_once() -> None:
    sick = changed(
        rtx_box(), **commands(gpus=gpu_answer(RTX, 7, mig="Enabled")), **files(**{HMM: file("N")})
    )
    bad = [code for code, record in judged("rtx-pro-6000-x8", sick).items() if record.next_step]
    assert bad == ["gpu-count", "mig", "hmm"]


def test_an_idle_link_is_no_fault() -> None:
    idle = csv(PCIE, *(f"{i}, 1, 5, 16" for i in range(8)))
    records = judged("rtx-pro-6000-x8", changed(rtx_box(), **commands(gpu_pcie=idle)))
    assert records["pcie-generation"].verdict is Verdict.PASS


OWN = '{"ID":"abc123","Labels":"io.dflash-kit.release=1","Ports":"0.0.0.0:30000->30000/tcp"}'


def test_an_engine_of_this_kit_may_run_where_it_is_replaced() -> None:
    running = changed(
        rtx_box(),
        **commands(gpu_processes=BUSY, containers=answer(OWN)),
        **files(**{"/proc/net/tcp": OTHERS}),
        processes={"900": {"name": "python3", "cgroup": "0::/system.slice/docker-abc123.scope"}},
    )
    records = judged("rtx-pro-6000-x8", running)
    assert records["gpu-processes"].verdict is records["port"].verdict is Verdict.PASS
    foreign = changed(running, **commands(containers=answer(OWN.replace("io.dflash", "org"))))
    records = judged("rtx-pro-6000-x8", foreign)
    assert records["gpu-processes"].verdict is records["port"].verdict is FAIL


def test_weights_that_are_there_need_no_room() -> None:
    there = commands(disk_weights=disk(10), size_weights=answer(f"{int(561 * 2**30)}\t/srv\n"))
    record = judged("rtx-pro-6000-x8", changed(rtx_box(), **there))["disk-weights"]
    assert record.verdict is Verdict.PASS


def test_what_was_not_named_is_not_judged() -> None:
    records = judged("cpu-tiny", changed(cpu_box(), settings={"registry": "", "weights": ""}))
    assert records["registry"].verdict is records["disk-weights"].verdict is Verdict.SKIP
    assert overall(records.values()) is Verdict.PASS


@pytest.mark.parametrize("verdict", [FAIL, INCONCLUSIVE])
def test_a_demoted_check_only_warns(verdict: Verdict) -> None:
    gpus = gpu_answer(RTX, 7) if verdict is FAIL else answer(rc=9)
    sick = changed(rtx_box(), **commands(gpus=gpus))
    assert judged("rtx-pro-6000-x8", sick)["gpu-count"].verdict is verdict
    demoted = judged("rtx-pro-6000-x8", sick, "gpu-count")["gpu-count"]
    assert demoted.verdict is WARN and demoted.next_step
    healthy = judged("rtx-pro-6000-x8", rtx_box(), "gpu-count")["gpu-count"]
    assert healthy.verdict is Verdict.PASS


def test_a_check_that_does_not_exist_cannot_be_demoted() -> None:
    with pytest.raises(InputError, match=r"demoted: got gpus, wanted some of: gpu-count"):
        judged("cpu-tiny", cpu_box(), "gpus")


def test_a_host_of_which_nothing_is_known_is_no_good_host() -> None:
    for name in BOXES:
        records = judged(name, {})
        assert overall(records.values()) is not Verdict.PASS
        assert all(record.verdict is not Verdict.PASS for record in records.values())


SAMPLES = paths.ROOT.parent / "shared" / "samples"


@pytest.mark.parametrize(
    ("name", "command", "file", "code", "verdict", "measured"),
    [
        ("b300-x8", "topo-m", "b300/topo-m.8x-NV18-tabs.txt", "topology", PASS, "28 x NV18"),
        ("b300-x8", "topo-m", "b300/topo-m.7x-NV18.txt", "topology", PASS, "21 x NV18"),
        (
            "b300-x8",
            "topo-m",
            "generic/topo-m.8x-L40S-PIX-NODE-SYS-with-affinity.txt",
            "topology",
            FAIL,
            "8 x NODE, 4 x PIX, 16 x SYS",
        ),
        ("b300-x8", "nvlink-status", "b300/nvlink-status.7x.txt", "nvlink-count", PASS, "all up"),
        ("b300-x8", "nvlink-status", "b300/nvlink-status.7x.txt", "nvlink-speed", PASS, "all at"),
        (
            "b300-x8",
            "fabricmanager-version",
            "b300/fabricmanager.ok.txt",
            "fabric-version",
            FAIL,  # the driver of the rest of the host is another
            "610.57.04",
        ),
        (RTX_X8, "topo-m", "rtx/topo-m.8gpu-2switch-PIX-PHB.txt", "topology", PASS, "16 x PHB"),
        (RTX_X8, "topo-m", "rtx/topo-m.8gpu-2switch-PIX-PHB.txt", "topology-odd", PASS, "none"),
        (RTX_X8, "topo-m", "rtx/topo-m.8gpu-asus-esc8000a-PIX-NODE-SYS.txt", "topology", PASS, ""),
        (RTX_X8, "topo-m", "rtx/topo-m.8gpu-wrx90-3switch-PIX-PXB-NODE.txt", "topology", PASS, ""),
        (RTX_X8, "topo-p2p-r", "generic/topo-p2p-r.8x-OK.txt", "p2p", PASS, "none"),
        (RTX_X8, "gpu-memory", "rtx/nvidia-smi-q.BAR1.txt", "rebar", PASS, "BAR1 98304 MiB"),
        (
            RTX_X8,
            "nvidia-ctk",
            "generic/container-toolkit.txt",
            "container-toolkit",
            PASS,
            "1.20.0",
        ),
    ],
)
def test_outputs_that_were_published(
    name: str, command: str, file: str, code: str, verdict: Verdict, measured: str
) -> None:
    if not (SAMPLES / file).exists():
        pytest.skip(f"no samples at {SAMPLES}")
    published = {"commands": {command: answer((SAMPLES / file).read_text())}}
    record = judged(name, changed(BOXES[name](), **published))[code]
    assert record.verdict is verdict and measured in record.measured


def test_a_real_h200_fits_its_profile() -> None:
    """Captured by collect.py on one NVIDIA H200, driver 580.159.04."""
    document = source.read(paths.ROOT / "tests/fixtures/h200")
    records = judged("h200-x1", document)
    told = [code for code, record in records.items() if record.verdict is Verdict.PASS]
    assert told == [
        "gpu-count",
        "gpu-name",
        "compute-capability",
        "gpu-memory",
        "mig",
        "driver",
        "kernel-module",
        "persistence",
        "ecc",
        "rows",
        "gpu-processes",
        "xid",
        "pcie-width",
        "pcie-generation",
    ]
    assert unfit(document, load_profile("h200-x1")) == []
    assert [x.code for x in unfit(document, load_profile("b300-x8"))] == [
        "gpu-count",
        "gpu-name",
        "compute-capability",
        "gpu-memory",
    ]


def test_unfit_names_what_is_there_and_what_is_wanted() -> None:
    profile = load_profile("rtx-pro-6000-x8")
    assert unfit(rtx_box(), profile) == []
    (count,) = unfit(changed(rtx_box(), **commands(gpus=gpu_answer(RTX, 7))), profile)
    assert (count.code, count.measured, count.wanted) == ("gpu-count", "7 GPUs", "8 GPUs")
    card, capability = unfit(b300_box(), profile)
    assert (card.code, capability.code) == ("gpu-name", "compute-capability")
    assert B300 in card.measured and RTX in card.wanted
    assert unfit({}, load_profile("cpu-tiny")) == []


def test_what_is_not_known_counts_where_nothing_is_known_to_be_wrong() -> None:
    profile = load_profile("rtx-pro-6000-x8")
    unknown = unfit({}, profile)
    assert len(unknown) == 6 and {x.verdict for x in unknown} == {INCONCLUSIVE}
    (count,) = unfit(changed(rtx_box(), **commands(gpus=MISSING)), profile)
    assert count.verdict is FAIL and count.measured == "0 GPUs"


def test_two_switches_have_no_odd_gpu() -> None:
    assert switches()["stdout"].count("PIX") == 24
    record = judged("rtx-pro-6000-x8", rtx_box())["topology"]
    assert record.measured == "16 x NODE, 12 x PIX"
