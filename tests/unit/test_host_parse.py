"""The parsers: on outputs that tools really printed, and on every text there is."""

from typing import Any

import pytest
from host_documents import b300_box, rtx_box
from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_kit import paths
from dflash_kit.host import parse
from dflash_kit.host.preflight import judge, unfit
from dflash_kit.profiles.load import load_profile

SAMPLES = paths.ROOT.parent / "shared" / "samples"
TEXT_PARSERS = (
    parse.csv_rows,
    parse.gpus,
    parse.number,
    parse.version,
    parse.version_text,
    parse.matrix,
    parse.nvlinks,
    parse.bar1_mib,
    parse.xids,
    parse.acs_bridges,
    parse.hard_limits,
    parse.file_system,
    parse.ports,
    parse.json_object,
    parse.json_lines,
)
# Fragments of what the parsers look for, so that random texts get past their first lines.
FRAGMENTS = st.sampled_from(
    ["GPU0", "GPU1\t", " X ", "NV18", "GPU 0:", "\n Link 0: ", "inf GB/s", "[N/A]", "9" * 5000]
    + ["index, name\n", "BAR1 Memory Usage\n Total : ", " MiB", "NVRM: Xid (PCI): ", "\x1b[4m"]
    + ["ACSCtl: ReqRedir+", "00:01.0 x\n", "Max open files  1  2  3\n", " 0: 0:7530 0:0 0A "]
    + [
        "{",
        "}",
        "[" * 40,
        '{"a":',
        "\n",
        ",",
        "  ",
        "١٢",
        "²",
        "\x1c",
        "=",
        ":",
        "0A",
        f" a b 1 2 {'9' * 400} 6 7",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(FRAGMENTS, st.text(max_size=4))).map("".join))
JSON: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXTS, inner)),
    max_leaves=8,
)


@settings(database=None, deadline=None, max_examples=300)
@given(text=TEXTS)
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for parser in TEXT_PARSERS:
        parser(text)


@settings(database=None, deadline=None)
@given(text=TEXTS, separator=st.sampled_from([":", "="]))
def test_no_text_makes_fields_raise(text: str, separator: str) -> None:
    parse.fields(text, separator)


def _documents() -> Any:
    answers = st.one_of(
        JSON, st.fixed_dictionaries({"rc": st.sampled_from([0, 0, 0, 9, 127]), "stdout": TEXTS})
    )
    content = st.one_of(JSON, st.fixed_dictionaries({"text": TEXTS}))
    # The names are real ones, so that what is random is looked at.
    box = b300_box()
    names = sorted({*rtx_box()["commands"], *box["commands"]})
    return st.fixed_dictionaries(
        {
            "commands": st.dictionaries(st.sampled_from(names), answers),
            "files": st.dictionaries(st.sampled_from(sorted(box["files"])), content),
            "processes": st.one_of(JSON, st.dictionaries(st.text("0123456789"), JSON)),
            "settings": st.one_of(
                JSON, st.dictionaries(st.sampled_from(["port", "weights"]), JSON)
            ),
        }
    )


@pytest.mark.parametrize("name", ["rtx-pro-6000-x8", "b300-x8", "cpu-tiny"])
@settings(database=None, deadline=None, max_examples=30)
@given(document=st.one_of(JSON.filter(lambda x: isinstance(x, dict)), _documents()))
def test_no_document_makes_the_preflight_raise(name: str, document: dict[str, Any]) -> None:
    profile = load_profile(name)
    assert all(record.measured is not None for record in judge(document, profile))
    unfit(document, profile)


def sample(name: str) -> str:
    file = SAMPLES / name
    if not file.exists():
        pytest.skip(f"no samples at {SAMPLES}")
    return file.read_text()


def test_no_sample_makes_a_parser_raise() -> None:
    files = [path for path in SAMPLES.rglob("*") if path.is_file()]
    if not files:
        pytest.skip(f"no samples at {SAMPLES}")
    for path in files:
        for parser in TEXT_PARSERS:
            parser(path.read_text(errors="replace"))


@pytest.mark.parametrize(
    ("name", "gpus", "classes"),
    [
        ("b300/topo-m.8x-NV18-tabs.txt", 8, {"NV18"}),
        ("b300/topo-m.7x-NV18.txt", 7, {"NV18"}),
        ("generic/topo-m.8x-L40S-PIX-NODE-SYS-with-affinity.txt", 8, {"PIX", "NODE", "SYS"}),
        ("rtx/topo-m.4gpu-direct-attach-NODE.txt", 4, {"NODE"}),
        ("rtx/topo-m.8gpu-2switch-PIX-PHB.txt", 8, {"PIX", "PHB"}),
        ("rtx/topo-m.8gpu-asus-esc8000a-PIX-NODE-SYS.txt", 8, {"PIX", "NODE", "SYS"}),
        ("rtx/topo-m.8gpu-wrx90-2switch-PIX-NODE.txt", 8, {"PIX", "NODE"}),
        ("rtx/topo-m.8gpu-wrx90-3switch-PIX-PXB-NODE.txt", 8, {"PIX", "PXB", "NODE"}),
        ("generic/topo-p2p-r.8x-OK.txt", 8, {"OK"}),
    ],
)
def test_topologies_that_were_published(name: str, gpus: int, classes: set[str]) -> None:
    found = parse.matrix(sample(name))
    assert len(found) == gpus
    assert all(len(others) == gpus - 1 for others in found.values())
    assert {said for others in found.values() for said in others.values()} == classes
    assert all(found[a][b] == found[b][a] for a in found for b in found[a])


def test_links_that_were_published() -> None:
    links = parse.nvlinks(sample("b300/nvlink-status.7x.txt"))
    assert len(links) == 7 and all(speeds == [53.125] * 18 for speeds in links.values())


def test_a_query_that_was_published() -> None:
    rows = parse.csv_rows(sample("b300/query-gpu.driver-name-cc.7x.csv"))
    gpus = parse.gpus(sample("b300/query-gpu.driver-name-cc.7x.csv"))
    assert len(rows) == len(gpus) == 7
    assert {(g.name, g.driver, g.capability) for g in gpus} == {
        ("NVIDIA B300 SXM6 AC", "610.57.04", "10.3")
    }
    usage = parse.csv_rows(sample("b300/query-gpu.index-util-temp-power.7x.csv"))
    assert usage[0] == {
        "index": "0",
        "utilization.gpu": "0 %",
        "temperature.gpu": "28",
        "power.draw": "182.89 W",
    }


def test_other_outputs_that_were_published() -> None:
    assert parse.bar1_mib(sample("rtx/nvidia-smi-q.BAR1.txt")) == [98304.0]
    assert parse.version_text(sample("b300/fabricmanager.ok.txt")) == "610.57.04"
    assert parse.version(sample("generic/container-toolkit.txt")) == (1, 20, 0)
    assert parse.fields(sample("b300/modinfo-nvidia.610.57.04.txt"), ":")["version"] == "610.57.04"


def test_the_first_card_of_a_matrix_may_be_underlined() -> None:
    text = "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\x1b[0m\nGPU0\t X \tPIX\tNODE\t0-3\n"
    assert parse.matrix(text + "GPU1\tPIX\t X \tNODE\t0-3\nNIC0\tNODE\tNODE\t X\n") == {
        "GPU0": {"GPU1": "PIX"},
        "GPU1": {"GPU0": "PIX"},
    }


def test_a_number_that_is_none_is_none() -> None:
    for text in ("[N/A]", "[Not Supported]", "[Insufficient Permissions]", "", "MiB"):
        assert parse.number(text) is None
    assert parse.number(" 53.125 GB/s") == 53.125


def test_listening_ports_are_read_from_both_tables() -> None:
    text = (
        "  sl  local_address rem_address   st\n"
        "   0: 0100007F:7530 00000000:0000 0A 0\n"
        "   1: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0\n"
        "   2: 0100007F:7531 0100007F:7530 01 0\n"
    )
    assert parse.ports(text) == {30000, 22}


def test_acs_is_read_of_each_bridge() -> None:
    text = (
        "00:01.1 PCI bridge: a\n\tCapabilities:\n\t\tACSCtl:\tSrcValid- ReqRedir- CmpltRedir-\n"
        "00:03.1 PCI bridge: b\n\t\tACSCtl:\tSrcValid+ ReqRedir+ CmpltRedir+\n"
    )
    assert parse.acs_bridges(text) == (["00:03.1"], 2)


def test_errors_of_the_driver_are_counted() -> None:
    log = "x NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen\nNVRM: Xid (PCI:0000:02:00): 8, pid=1\n"
    assert parse.xids(log) == [79, 8]
