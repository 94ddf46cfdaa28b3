"""docs/releases.md: what of each release it shows, and what became of each patch."""

import re
from pathlib import Path

import pytest
import yaml
from miniature_release import NAME, Miniature, mini

from dflash_kit import paths
from dflash_kit.releases import catalogue, document, lineage, lockfile, records
from dflash_kit.releases.lockfile import Lock, Wheel
from dflash_kit.releases.records import Fates
from dflash_kit.releases.series import Patch

__all__ = ["mini"]


def lock(release: str, *patches: str) -> Lock:
    made = tuple(Patch(f"{name}.patch", f"{name} in {release}", "") for name in patches)
    return Lock(release, "1", Wheel("w", ""), (), {}, made, "")


def fates(of: str, new: tuple[str, ...] = (), **patches: str) -> Fates:
    rows = {name: {"fate": fate, "note": f"{name}: {fate}"} for name, fate in patches.items()}
    return Fates.model_validate(
        {"of": of, "patches": rows, "new": {name: f"{name} is new" for name in new}}
    )


def test_a_patch_is_followed_through_every_release() -> None:
    locks = {
        "one": lock("one", "a", "b", "c"),
        "two": lock("two", "a", "b", "c", "d"),
        "three": lock("three", "a", "d"),
        "four": lock("four", "a", "e"),
    }
    told = {
        "one": None,
        "two": None,
        "three": fates("two", a="ported", b="upstream", c="left-out", d="ported"),
        "four": fates("three", ("e",), a="ported", d="upstream"),
    }
    found = {line.name: line for line in lineage.lines(locks, told)}
    assert list(found) == ["a", "b", "c", "d", "e"]
    assert found["a"].fates == dict.fromkeys(locks, "in")
    assert list(found["b"].fates.values()) == ["in", "in", "upstream", "upstream"]
    assert list(found["c"].fates.values()) == ["in", "in", "left-out", "left-out"]
    assert list(found["d"].fates.values()) == ["", "in", "in", "upstream"]
    assert list(found["e"].fates.values()) == ["", "", "", "in"]
    assert found["a"].subject == "a in four" and found["b"].subject == "b in two"
    # What an older release has said is not said again.
    assert found["b"].notes == {"three": "b: upstream"}
    assert found["e"].notes == {"four": "e is new"}


def test_a_fate_of_a_release_that_is_not_there_ends_nothing() -> None:
    told = {"one": fates("none", a="upstream"), "two": fates("two")}
    (line,) = lineage.lines({"one": lock("one"), "two": lock("two", "a")}, told)
    assert line.fates == {"one": "upstream", "two": "in"}


def shown(mini: Miniature) -> str:
    mini.relock()
    return (mini.root / document.NAME).read_text()


def rows(text: str, first: str) -> list[list[str]]:
    found = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in found]


def test_what_a_release_is_and_that_nothing_was_run(mini: Miniature) -> None:
    text = shown(mini)
    release, run = rows(text, NAME)
    assert release == [NAME, "1.0", "2.13.0", "2.13.0", "2026-05-20", "2", "**default**"]
    assert run == [NAME, "GPU", "**not run on a GPU**"]
    assert rows(text, "first") == [["first", "in", "what first.patch does"]]
    assert rows(text, "cpu-tiny") == [["cpu-tiny", "latency, throughput"]]


def test_where_it_was_verified(mini: Miniature) -> None:
    (mini.dir / "verified.yaml").write_text(
        "runs:\n"
        "  - {where: CPU, what: 'smoke | PASS', link: measurements/x.md}\n"
        "  - {where: 1 x H200, what: steps, link: measurements/y.md}\n"
        "not_run: [b300]\n"
    )
    assert rows(shown(mini), NAME)[1:] == [
        [NAME, "CPU", r"[smoke \| PASS](measurements/x.md)"],
        [NAME, "1 x H200", "[steps](measurements/y.md)"],
        [NAME, "not run", "b300"],
    ]


def test_what_the_engine_can_do(mini: Miniature) -> None:
    features = {
        "a": {"supported": True},
        "b": {"supported": False, "when": "dflash", "why": "it refuses"},
        "c": {"supported": False, "why": "never made"},
    }
    log = {"begins": "x", "forbidden": [], "required": []}
    content = {"features": features, "log": log, "processes": "x", "scheduler": "x"}
    content |= {"graph_sizes": ["x"], "kernels": []}
    (mini.dir / "engine.yaml").write_text(yaml.safe_dump(content))
    text = shown(mini)
    assert rows(text, "a") == [["a", "yes", ""]]
    assert rows(text, "b") == [["b", "not with DFlash", "it refuses"]]
    assert rows(text, "c") == [["c", "no", "never made"]]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "fate.yaml",
            "{of: x, patches: {first: {fate: undecided, note: y}}}",
            "patches.first.fate: got 'undecided'",
        ),
        ("fate.yaml", "{patches: {}}", "of: "),
        ("verified.yaml", "{runs: [{where: CPU, what: x}]}", "runs.0.link: "),
    ],
)
def test_a_mistake_in_a_record_is_one_line(
    mini: Miniature, name: str, text: str, line: str
) -> None:
    (mini.dir / name).write_text(text)
    code, message = mini.run("lock", "--check")
    assert code == 2
    assert message.startswith(f"{mini.dir / name}: {line}") and "\n" not in message


KNOWN = catalogue.load(paths.RELEASES_FILE)


@pytest.mark.parametrize("name", KNOWN.releases)
def test_every_run_of_a_real_release_can_be_read_up(name: str) -> None:
    found = records.verified(paths.IMAGES / name)
    for run in found.runs if found else []:
        assert (paths.ROOT / "docs" / run.link).is_file(), run


def test_every_patch_of_a_real_release_has_a_line() -> None:
    text = document.text(KNOWN, paths.IMAGES)
    for name in KNOWN.releases:
        for patch in lockfile.read(paths.IMAGES / name).patches:
            assert rows(text, Path(patch.name).stem), patch
