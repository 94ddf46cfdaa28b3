"""The deep tier judges what its processes said: right, wrong, hung, ended, slow."""

import stat
from pathlib import Path

import pytest

from dflash_kit.host import deep
from dflash_kit.verdicts import Record, Verdict


def said(count: int = 4, *, end: bool = True) -> deep.Ranks:
    ranks = range(count)
    lines = [{"rank": rank, "stage": "init", "device": "x"} for rank in ranks]
    lines += [
        {"rank": rank, "stage": "all-reduce", "bytes": size, "us": size / 1e3, "right": True}
        for size in (2**17, 2**23)
        for rank in ranks
    ]
    lines += [
        {"rank": target, "stage": "copy", "source": source, "gb_s": 40.0, "right": True}
        for source in ranks
        for target in ranks
        if source != target
    ]
    if end:
        lines += [{"rank": rank, "stage": "end"} for rank in ranks]
    return deep.Ranks(count, lines, seconds=12.0)


def judged(ranks: deep.Ranks) -> dict[str, Record]:
    return {record.code: record for record in deep.judge(ranks)}


def test_healthy() -> None:
    records = judged(said())
    assert {code: record.verdict for code, record in records.items()} == {
        "all-reduce": Verdict.PASS,
        "pair-bandwidth": Verdict.PASS,
    }
    assert "8192 KiB 8389 us (1.5 GB/s)" in records["all-reduce"].measured
    assert records["pair-bandwidth"].measured == "12 of 12 pairs, median 40.0 GB/s"


def test_a_wrong_sum_fails_and_names_the_rank() -> None:
    ranks = said()
    next(x for x in ranks.stage("all-reduce") if x["rank"] == 2)["right"] = False
    assert judged(ranks)["all-reduce"].verdict is Verdict.FAIL
    assert "wrong sums on ranks [2]" in judged(ranks)["all-reduce"].measured


def test_a_hang_fails_and_says_where_each_rank_stands() -> None:
    ranks = deep.Ranks(2, [{"rank": 0, "stage": "init"}], seconds=300.0, late=True)
    record = judged(ranks)["all-reduce"]
    assert record.verdict is Verdict.FAIL
    assert "hung in 300 s: ranks 0 after init, 1 after start" in record.measured
    assert judged(ranks)["pair-bandwidth"].verdict is Verdict.INCONCLUSIVE


def test_an_error_of_a_rank_is_shown() -> None:
    ranks = said(end=False)
    ranks.errors.append("rank 1: NCCL error: unhandled cuda error")
    assert "ended in 12 s" in judged(ranks)["all-reduce"].measured
    assert "unhandled cuda error" in judged(ranks)["all-reduce"].measured


def failed(rank: int, at: float, error: str) -> dict[str, object]:
    return {"rank": rank, "stage": "failed", "at": at, "error": error}


PEER = "RuntimeError: Connection closed by peer"
CAUSE = "ZeroDivisionError: division by zero"


@pytest.mark.parametrize("cause", [0, 2])
@pytest.mark.parametrize("codes", [[1, 1, 1], [None, 1, None]], ids=["all", "a peer"])
def test_the_cause_of_an_end_comes_before_what_follows_from_it(
    cause: int, codes: list[int | None]
) -> None:
    """Whatever its rank, and whoever was seen to end."""
    words = [failed(rank, 5.0 + rank, PEER) for rank in range(3) if rank != cause]
    for place in (0, len(words)):
        said_so = [*words[:place], failed(cause, 4.9, CAUSE), *words[place:]]
        found = deep.errors(said_so, codes, ["", "", ""])
        assert found[0] == f"rank {cause}: {CAUSE}"
        assert found[1:] == [f"rank {x}: {PEER}" for x in range(3) if x != cause]


@pytest.mark.parametrize(
    ("codes", "first"),
    [
        ([1, -11, 1], "rank 1: Segmentation fault"),
        ([1, -9, None], "rank 1: Killed"),
        # NCCL's watchdog ends its process where another is gone.
        ([1, -6, None], f"rank 0: {PEER}"),
        ([1, 3, None], f"rank 0: {PEER}"),
    ],
)
def test_a_rank_that_could_say_nothing(codes: list[int | None], first: str) -> None:
    found = deep.errors([failed(0, 5.0, PEER)], codes, ["", "", ""])
    assert found[0] == first
    assert any(line.startswith("rank 1: ") for line in found)


def test_one_that_ended_well_or_had_to_be_ended_failed_in_nothing() -> None:
    assert deep.errors([], [0, None], ["a warning", "another"]) == []
    # Without the packages that it needs a rank ends before it can say anything.
    missing = "ModuleNotFoundError: No module named 'torch'"
    assert deep.errors([], [None, 1], ["", missing]) == [f"rank 1: {missing}"]


@pytest.mark.parametrize(
    ("change", "verdict", "shown"),
    [
        ({"gb_s": 19.0}, Verdict.WARN, "slow: 1->3 19.0"),
        ({"right": False}, Verdict.FAIL, "wrong data: 1->3"),
    ],
)
def test_one_bad_pair(change: dict[str, object], verdict: Verdict, shown: str) -> None:
    ranks = said()
    next(x for x in ranks.stage("copy") if (x["source"], x["rank"]) == (1, 3)).update(change)
    record = judged(ranks)["pair-bandwidth"]
    assert (record.verdict, shown in record.measured) == (verdict, True)
    assert record.next_step


@pytest.mark.parametrize(
    ("script", "verdict", "measured"),
    [
        (None, Verdict.SKIP, "no dcgmi here"),
        ("echo Pass", Verdict.PASS, "passed"),
        ("echo 'PCIe: Fail'", Verdict.FAIL, "exit 0; PCIe: Fail"),
        ("exit 226", Verdict.FAIL, "exit 226"),
    ],
)
def test_dcgm(
    script: str | None,
    verdict: Verdict,
    measured: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if script is not None:
        file = tmp_path / "dcgmi"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    record = deep.dcgm()
    assert (record.verdict, record.measured) == (verdict, measured)


def test_without_cuda_nothing_is_proved() -> None:
    assert {record.verdict for record in deep.records(8)} == {Verdict.INCONCLUSIVE}
