from typing import Any

from rollout_host import RawHost, plan

from dflash_kit.rollout import state, table

ID, OTHER = plan().deployment.id, plan("throughput").deployment.id
PROVED = {
    "before": ID,
    "after": OTHER,
    "wanted": OTHER,
    "result": "proved",
    "figures": {"accept_length": 7.444, "tok_s_c1": 120.6},
}
UNCHANGED = PROVED | {"before": OTHER, "result": "unchanged"}


def row(host: str, kept: dict[str, Any], **ended: bool) -> table.Row:
    return table.Row.from_stats(host, kept, **({"unreachable": False, "failed": False} | ended))


def test_a_host_with_all_its_figures() -> None:
    assert row("gpu-01", PROVED) == table.Row("gpu-01", ID, OTHER, "proved", "7.44", "121")


def test_hosts_that_the_rollout_did_not_get_to_or_through() -> None:
    none = (table.NONE, table.NONE)
    assert row("a", {}) == table.Row("a", *none, "not begun", *none)
    assert row("a", {}, failed=True).result == "failed before the switch"
    assert row("a", {}, unreachable=True).result == "unreachable"
    assert row("a", {}, unreachable=True, failed=True).result == "unreachable"
    assert row("a", PROVED | {"result": "rolled back"}, failed=True).result == "rolled back"
    lost = row("a", PROVED, unreachable=True)
    assert (lost.result, lost.before) == ("unreachable", ID)


def test_a_first_deployment_has_nothing_before_and_a_host_left_clean_nothing_after() -> None:
    kept = {"before": "", "after": "", "result": "stopped", "figures": {}}
    assert row("a", kept) == table.Row("a", "-", "-", "stopped", "-", "-")


def test_columns_are_aligned_and_as_wide_as_their_longest_cell() -> None:
    rows = [row("gpu-01", PROVED), row("a-host-with-a-longer-name", {}, unreachable=True)]
    blank, heads, rule, first, second, *_ = table.lines(rows)
    assert blank == ""
    assert heads.split() == ["host", "before", "after", "result", "acceptance", "tok/s"]
    assert set(rule) == {"-"} and len(rule) >= max(len(first), len(second))
    for cells in (("before", ID, "-"), ("result", "proved", "unreachable")):
        places = [
            line.index(f"  {cell}")
            for line, cell in zip((heads, first, second), cells, strict=True)
        ]
        assert len(set(places)) == 1
    assert not any(line.endswith(" ") for line in (heads, first, second))


def test_the_last_line_counts_who_runs_what_was_asked_for() -> None:
    def last(*rows: table.Row) -> str:
        return table.lines(rows)[-1]

    assert last(row("a", UNCHANGED)) == "nothing to do: 1 host run what was asked for, proved"
    assert last(row("a", UNCHANGED), row("b", UNCHANGED)).startswith("nothing to do: 2 hosts ")
    assert last(row("a", UNCHANGED), row("b", PROVED)) == (
        "2 of 2 hosts run what was asked for, proved"
    )
    for result in ("rolled back", "way back failed", "stopped", "failed", "would change"):
        mixed = last(row("a", PROVED), row("b", PROVED | {"result": result}), row("c", {}))
        assert mixed == "1 of 3 hosts run what was asked for, proved"
    assert last(row("a", PROVED, unreachable=True)).startswith("0 of 1 host ")


def test_status_shows_what_runs_where_since_when_and_with_which_patches() -> None:
    host = RawHost().serve(plan())
    told = state.summary(host.read(), None)
    _, heads, _, first, *notes = table.status_lines({"gpu-01": told})
    assert heads.split("  ")[0] == "host" and "since (UTC)" in heads
    assert first.split() == ["gpu-01", ID, "healthy", "2026-05-01T11:00:00", "PASS"]
    assert notes == ["", "gpu-01: 2 patches: a.patch, b.patch"]


def test_status_of_a_host_with_nothing_and_of_one_that_did_not_answer() -> None:
    hosts = {"gpu-01": state.summary(RawHost().read(), None), "gpu-02": None}
    first, second, *notes = table.status_lines(hosts)[3:]
    assert first.split() == ["gpu-01", "nothing", "none", "-", "-"]
    assert second.split() == ["gpu-02", "unreachable", "-", "-", "-", "-"]
    assert notes == [""]


def test_status_says_that_what_runs_is_withdrawn() -> None:
    told = state.summary(RawHost().serve(plan()).read(), None, lambda release: f"{release}: why")
    lines = table.status_lines({"gpu-01": told})
    assert lines[-1] == "gpu-01: 0.5.11-dflash.1: why"


def test_status_shows_every_change_by_hand_and_who_holds_the_lock() -> None:
    host = RawHost().serve(plan())
    host.container["HostConfig"]["Memory"] = 1
    host.container["Config"]["Env"] = []
    host.raw["lock"] = "garbage"
    lines = table.status_lines({"gpu-01": state.summary(host.read(), None)})
    assert lines[3].endswith("PASS          changed by hand")
    changes = [line for line in lines if line.startswith("gpu-01: changed by hand: ")]
    assert [line.split(": ")[2] for line in changes] == ["Config.Env", "HostConfig.Memory"]
    assert lines[-1] == "gpu-01: a rollout holds it: not a lock of this kit"
