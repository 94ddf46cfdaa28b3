"""A release that is withdrawn: listed and verified, but never built, offered or the default."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from miniature_release import CATALOGUE, NAME, Miniature, mini

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.releases import catalogue

__all__ = ["mini"]

REPOSITORY = Path(__file__).parents[2]
SECOND, OTHER = "1.0-dflash.2", "2.0-dflash.1"
LINE = f"{NAME} is withdrawn since 2026-06-01: it answers wrongly; next: take"
ENTRY = CATALOGUE.partition("releases:\n")[2]
WITHDRAWN = '    withdrawn: {since: 2026-06-01, why: "it answers wrongly"}\n'


def listed(default: str, *names: str) -> str:
    """releases.yaml of the miniature, withdrawn, and of others that are not."""
    text = f"default: {default}\nreleases:\n{ENTRY}{WITHDRAWN}"
    for name in names:
        text += ENTRY.replace(NAME, name).replace('"1.0"', f'"{name.partition("-")[0]}"')
    return text


def known(tmp_path: Path, text: str) -> catalogue.Catalogue:
    file = tmp_path / "releases.yaml"
    file.write_text(text)
    return catalogue.load(file)


def test_the_default_is_never_withdrawn(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^.*: default: {LINE} {SECOND}$"):
        known(tmp_path, listed(NAME, SECOND))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{since: 2026-06-01}", "withdrawn.why: got nothing, wanted a value"),
        ("{why: x}", "withdrawn.since: got nothing, wanted a value"),
        ('{since: 2026-06-01, why: ""}', "withdrawn.why: got '', wanted"),
    ],
)
def test_since_when_and_why_are_wanted(tmp_path: Path, text: str, line: str) -> None:
    wrong = listed(OTHER, OTHER).replace(WITHDRAWN, f"    withdrawn: {text}\n")
    with pytest.raises(InputError, match=f": releases.{NAME}.{line}"):
        known(tmp_path, wrong)


def test_what_to_take_instead_is_on_the_same_sglang_where_there_is_one(tmp_path: Path) -> None:
    same = known(tmp_path, listed(OTHER, SECOND, OTHER))
    assert same.withdrawn(NAME) == f"{LINE} {SECOND}"
    assert known(tmp_path, listed(OTHER, OTHER)).withdrawn(NAME) == f"{LINE} {OTHER}"
    assert same.withdrawn(SECOND) == same.withdrawn("of another kit") == ""
    assert list(same.offered) == [SECOND, OTHER]
    with pytest.raises(InputError, match=f"^release: {LINE} {SECOND}$"):
        same.refuse_withdrawn(NAME)
    same.refuse_withdrawn(SECOND)


@pytest.fixture
def withdrawn(mini: Miniature) -> Miniature:
    """The miniature withdrawn, its copy of another name being the default."""
    folder = mini.dir.with_name(SECOND)
    folder.mkdir()
    subprocess.run(["cp", "-r", f"{mini.dir}/.", folder], check=True)
    (mini.root / "images" / "releases.yaml").write_text(listed(SECOND, SECOND))
    mini.relock()
    return mini


def test_it_is_shown_and_still_verified(withdrawn: Miniature) -> None:
    first, second = json.loads(withdrawn.output("list", "--json"))
    assert first["withdrawn"] == {"since": "2026-06-01", "why": "it answers wrongly"}
    assert second["withdrawn"] is None
    assert "withdrawn 2026-06-01: it answers" in " ".join(withdrawn.output("list").split())
    assert withdrawn.output("show", NAME).startswith(f"{LINE} {SECOND}\n")
    assert withdrawn.run("verify") == (0, "")
    assert withdrawn.run("lock", "--check") == (0, "")


def test_it_is_not_built(withdrawn: Miniature) -> None:
    bake = json.loads((withdrawn.root / "docker-bake.json").read_text())
    assert [row["name"] for row in bake["variable"]["RELEASES"]["default"]] == [SECOND]
    assert withdrawn.run("allowed", NAME) == (2, f"release: {LINE} {SECOND}")
    assert withdrawn.run("allowed", SECOND) == (0, "")
    assert withdrawn.run("allowed", "x")[1].startswith("release: got 'x', wanted one of: ")


@pytest.mark.parametrize(
    "command", [("image", "cpu", "{}"), ("publish", "push", "cpu", "{}", "registry.example/x")]
)
def test_scripts_refuse_it_in_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    """With the repository as the root, but for a catalogue in which a release is withdrawn."""
    images = tmp_path / "images"
    images.mkdir()
    for each in paths.IMAGES.iterdir():
        (images / each.name).symlink_to(each)
    content = yaml.safe_load(paths.RELEASES_FILE.read_text())
    name = next(name for name in content["releases"] if name != content["default"])
    why = {"withdrawn": {"since": "2026-06-01", "why": "it answers wrongly"}}
    content["releases"][name] = content["releases"][name] | why
    (images / "releases.yaml").unlink()
    text = yaml.safe_dump(content).replace("'2026-06-01'", "2026-06-01")
    (images / "releases.yaml").write_text(text)
    script, *arguments = (word.format(name) for word in command)
    done = subprocess.run(
        [REPOSITORY / "scripts" / script, *arguments],
        env=os.environ | {"DFLASH_KIT_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"dflash-kit: release: {name} is withdrawn since 2026-06-01: it answers")
