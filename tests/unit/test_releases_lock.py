"""`release lock` writes what `lock --check` wants; what is stale is named without a network."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from miniature_release import NAME, Miniature, mini

from dflash_kit.releases import requirements

__all__ = ["mini"]

HCL = Path(__file__).parents[2] / "docker-bake.hcl"


def no_network(*_: object) -> str:
    raise AssertionError("compiled again without need")


def replaced(name: str, right: str, wrong: str) -> Callable[[Miniature], None]:
    """Edit a file below the root."""

    def edit(mini: Miniature) -> None:
        file = mini.root / name
        assert right in file.read_text()
        file.write_text(file.read_text().replace(right, wrong))

    return edit


STALE = [
    (replaced(".env", NAME, "other"), ".env: differs from what images/ gives"),
    (replaced("docker-bake.json", "uv", "vu"), "docker-bake.json: differs from what"),
    (replaced("images/releases.yaml", "0.13.9", "0.14.0"), "docker-bake.json: differs from"),
    (
        replaced("images/releases.yaml", "2026-05-20", "2026-05-21"),
        f"images/{NAME}/requirements-cuda.txt: line 1: wanted '# By",
    ),
    (
        replaced("images/releases.yaml", "torch==2.13.0+cpu", "torch==2.14.0+cpu"),
        f"images/{NAME}/requirements-cpu.txt: line 1: wanted '# By",
    ),
    (
        replaced("images/releases.yaml", "- sglang/test", "- sglang/a.py"),
        f"images/{NAME}/release.lock.json: drop: got ['sglang/test'], wanted ['sglang/a.py']",
    ),
    (
        replaced(f"images/{NAME}/release.lock.json", '"1.0"', '"1.1"'),
        f"images/{NAME}/release.lock.json: sglang: got '1.1', wanted '1.0' as in releases.yaml",
    ),
    (
        replaced(f"images/{NAME}/release.lock.json", '"tree"', '"three"'),
        f"images/{NAME}/release.lock.json: is not a release lock",
    ),
    (lambda mini: (mini.root / ".env").unlink(), ".env: differs from"),
    (replaced("docs/releases.md", "2.13.0", "2.14.0"), "docs/releases.md: differs from"),
    (
        lambda mini: (mini.dir / "release.lock.json").unlink(),
        f"images/{NAME}/release.lock.json: does not exist; next: dflash-kit release lock",
    ),
]


@pytest.mark.parametrize(("spoil", "line"), STALE)
def test_check_names_what_is_stale_and_lock_mends_it(
    mini: Miniature, spoil: Callable[[Miniature], None], line: str
) -> None:
    assert mini.run("lock", "--check") == (0, "")
    spoil(mini)
    code, message = mini.run("lock", "--check")
    assert code == 1
    assert any(text.startswith(line) for text in message.splitlines()), message
    mini.relock()
    assert mini.run("lock", "--check") == (0, "")
    assert mini.run("verify") == (0, "")


def test_check_needs_no_wheel(mini: Miniature) -> None:
    mini.wheel.unlink()
    assert mini.run("lock", "--check") == (0, "")


def test_a_changed_patch_leaves_the_requirements_as_they_were(
    mini: Miniature, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "compiled", no_network)
    assert json.loads(mini.output("lock", "--json")) == {"written": []}
    replaced(f"images/{NAME}/patches/first.patch", "Why.", "Because.")(mini)
    assert json.loads(mini.output("lock", "--json")) == {
        "written": [f"images/{NAME}/release.lock.json"]
    }
    assert mini.run("verify") == (0, "")


@pytest.mark.parametrize("name", ["requirements-cpu.in", "requirements-cpu.txt"])
def test_changed_requirements_are_compiled_again(mini: Miniature, name: str) -> None:
    (mini.dir / name).write_text("scipy\n")
    mini.relock()
    wanted = (mini.dir / "requirements-cpu.in").read_text()
    assert (mini.dir / "requirements-cpu.txt").read_text().endswith(f"compiled from {wanted}")


def test_a_refused_lock_changes_no_file(mini: Miniature) -> None:
    (mini.dir / "requirements-cpu.in").write_text("scipy\n")
    replaced(f"images/{NAME}/patches/second.patch", " line 9", " line x")(mini)
    before = {file: file.read_bytes() for file in mini.root.rglob("*") if file.is_file()}
    assert mini.run("lock")[0] == 1
    assert {file: file.read_bytes() for file in mini.root.rglob("*") if file.is_file()} == before


def test_dropping_what_the_wheel_lacks_is_refused(mini: Miniature) -> None:
    replaced("images/releases.yaml", "- sglang/test", "- sglang/tset")(mini)
    assert mini.run("lock") == (
        1,
        "drop: got sglang/tset, wanted a path of the tree below sglang/",
    )


def test_bake_and_compose_get_what_the_release_is(mini: Miniature) -> None:
    lock = json.loads((mini.dir / "release.lock.json").read_text())
    variables = json.loads((mini.root / "docker-bake.json").read_text())["variable"]
    (release,) = variables["RELEASES"]["default"]
    assert set(variables) == {"RELEASES"}
    assert set(release) == set(re.findall(r"release\.(\w+)", HCL.read_text()))
    assert release["tree"] == lock["tree"]
    assert release["patches"] == "first.patch,second.patch"
    assert release["torch_index"] == {"cpu": "index.example/cpu", "cuda": ""}
    assert f"DFLASH_KIT_RELEASE={NAME}\n" in (mini.root / ".env").read_text()


def test_list_and_show(mini: Miniature) -> None:
    (row,) = json.loads(mini.output("list", "--json"))
    shown = json.loads(mini.output("show", "--json"))
    assert row == {
        "release": NAME,
        "sglang": "1.0",
        "patches": 2,
        "tree": shown["tree"],
        "default": True,
        "withdrawn": None,
    }
    assert shown["patches"][1]["subject"] == "what second.patch does"
    assert "patch: first.patch: what first.patch does\n" in mini.output("show", NAME)
    assert NAME in mini.output("list")
