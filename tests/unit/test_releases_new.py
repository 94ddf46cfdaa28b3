"""`release new`: each verdict on a patch, the folder it writes, and where it stops."""

import json
import shutil
import subprocess
import zipfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from miniature_release import FILES, LINES, NAME, WHEEL, Miniature, edited, mini

from dflash_kit.errors import InputError, Undetermined
from dflash_kit.releases import catalogue, upstream
from dflash_kit.releases.candidate import nearest
from dflash_kit.releases.upstream import Upstream

__all__ = ["mini"]

NEXT = "1.1-dflash.1"
UPLOADED = date(2026, 6, 1)
LOCK = """
[[packages]]
name = "sglang"
version = "1.1"
wheels = [{ url = "x.example/a.whl", upload-time = 2026-06-01T23:59:00Z }]
"""


@pytest.fixture(autouse=True)
def index(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index has 1.1 and nothing newer."""

    def find(version: str, like: catalogue.Release) -> Upstream:
        return Upstream("1.1" if version == upstream.NEWEST else version, UPLOADED)

    monkeypatch.setattr(upstream, "find", find)


def put_wheel(
    mini: Miniature, files: dict[str, list[str]], *needs: str, version: str = "1.1"
) -> None:
    """An upstream wheel, where downloaded ones are kept."""
    with zipfile.ZipFile(mini.wheel.with_name(WHEEL.replace("1.0", version)), "w") as archive:
        for path, lines in files.items():
            archive.writestr(path, "".join(lines))
        metadata = "".join(f"Requires-Dist: {need}\n" for need in needs)
        archive.writestr(f"sglang-{version}.dist-info/METADATA", f"Version: {version}\n{metadata}")


def told(mini: Miniature, *arguments: str) -> dict[str, Any]:
    return dict(json.loads(mini.output("new", *arguments, "--json")))


def verdicts(mini: Miniature) -> dict[str, str]:
    return {row["name"]: row["verdict"] for row in told(mini, "1.1", "--dry-run")["patches"]}


def test_patches_that_apply_are_the_new_series(mini: Miniature) -> None:
    moved = ["added upstream\n", *LINES]
    put_wheel(mini, FILES | {"sglang/srt/b.py": moved})
    assert mini.run("new", "1.1") == (0, "")
    folder = mini.root / "images" / NEXT
    assert (folder / "patches/series").read_text() == "first.patch\nsecond.patch\n"
    for name in ("first.patch", "second.patch"):
        assert (folder / "patches" / name).read_bytes() == (mini.patches / name).read_bytes()
    fate = yaml.safe_load((folder / "fate.yaml").read_text())
    assert fate["of"] == NAME
    assert fate["patches"] == {
        "first": {"fate": "ported", "note": "unchanged"},
        "second": {"fate": "ported", "note": "2 hunks at other lines"},
    }


def test_a_patch_whose_lines_are_upstream(mini: Miniature) -> None:
    put_wheel(mini, FILES | {"sglang/a.py": edited(LINES, 5)})
    assert verdicts(mini) == {"first.patch": "upstream", "second.patch": "applies"}
    assert mini.run("new", "1.1") == (0, "")
    folder = mini.root / "images" / NEXT
    assert (folder / "patches/series").read_text() == "second.patch\n"
    assert not (folder / "patches/first.patch").exists()
    assert "see that sglang does what these did" in (folder / "port.md").read_text()


def test_a_conflict_names_its_hunks_and_what_it_may_follow_from(mini: Miniature) -> None:
    changed = [f"other {x}" if n == 5 else x for n, x in enumerate(LINES, 1)]
    half = edited(LINES, 40)
    put_wheel(mini, FILES | {"sglang/a.py": changed, "sglang/srt/b.py": half})
    code, message = mini.run("new", "1.1")
    assert code == 1
    assert message == f"{NEXT}: 2 of 2 patches in conflict: first.patch, second.patch"
    shutil.rmtree(mini.root / "images" / NEXT)
    first, second = told(mini, "1.1")["patches"]
    assert [(h["file"], h["line"], h["verdict"]) for h in first["hunks"]] == [
        ("sglang/a.py", 2, "conflict")
    ]
    assert first["follows"] == []
    assert [(h["file"], h["line"], h["verdict"]) for h in second["hunks"]] == [
        ("sglang/srt/b.py", 37, "upstream")
    ]
    assert second["follows"] == ["first.patch"]
    port = (mini.root / "images" / NEXT / "port.md").read_text()
    assert "sglang/a.py:2: conflict" in port
    assert "2 patches in conflict: port each from" in port


def test_a_file_that_has_gone_is_looked_for_by_its_name(mini: Miniature) -> None:
    files = {("sglang/new/b.py" if path.endswith("b.py") else path): x for path, x in FILES.items()}
    put_wheel(mini, files)
    assert verdicts(mini) == {"first.patch": "applies", "second.patch": "conflict"}
    hunk = told(mini, "1.1", "--dry-run")["patches"][1]["hunks"][0]
    assert (hunk["missing"], hunk["namesakes"]) == (True, ["sglang/new/b.py"])


def test_what_is_not_shipped_and_gone_is_told_and_left_out(mini: Miniature) -> None:
    put_wheel(mini, {path: x for path, x in FILES.items() if "test" not in path})
    assert "drop: sglang/test is not in" in " ".join(told(mini, "1.1")["notes"])
    assert "drop: []" in (mini.root / "images" / NEXT / "port.md").read_text()


def test_pins_of_the_wheel_move_and_those_chosen_here_stay(mini: Miniature) -> None:
    (mini.dir / "requirements-cpu.in").write_text(
        "# why\ntransformers==5.0\ntorch==2.13.0+cpu\nfoo[x]>=1\nnumpy\n\ngone==1\n"
    )
    put_wheel(mini, FILES, "transformers==5.0", "foo>=1", "gone==1", "numpy", version="1.0")
    needs = ("transformers (==6.0)", 'foo>=2; python_version > "3"', "new==3", 'x==1; extra == "y"')
    put_wheel(mini, FILES, *needs)
    found = told(mini, "1.1")
    text = (mini.root / "images" / NEXT / "requirements-cpu.in").read_text()
    assert text == "# why\ntransformers==6.0\ntorch==2.13.0+cpu\nfoo[x]>=2\nnumpy\n\ngone==1\n"
    cpu = [line for line in found["notes"] if line.startswith("requirements-cpu.in: ")]
    assert cpu == [
        "requirements-cpu.in: torch==2.13.0+cpu: chosen here, not by sglang; kept",
        "requirements-cpu.in: gone==1: no longer declared by sglang; kept",
    ]
    assert found["needs"] == [
        "needs now: new==3",
        "no longer needs: gone",
        "no longer needs: numpy",
        "needs another version: foo: >=1, now >=2",
        "needs another version: transformers: ==5.0, now ==6.0",
    ]


def test_engine_yaml_is_copied_and_marked(mini: Miniature) -> None:
    (mini.dir / "engine.yaml").write_text("features: {}\n")
    put_wheel(mini, FILES)
    mini.run("new", "1.1")
    text = (mini.root / "images" / NEXT / "engine.yaml").read_text()
    assert (
        text
        == f"# Not checked yet: copied from {NAME} by `dflash-kit release new`.\nfeatures: {{}}\n"
    )


def test_the_entry_and_the_folder_make_a_release_that_locks(mini: Miniature) -> None:
    put_wheel(mini, FILES)
    mini.run("new", "1.1")
    port = mini.root / "images" / NEXT / "port.md"
    entry = port.read_text().partition("Entry of images/releases.yaml\n\n")[2].partition("\n\n#")[0]
    listed = mini.root / "images" / "releases.yaml"
    listed.write_text(listed.read_text() + "".join(f"{x[4:]}\n" for x in entry.splitlines()))
    assert catalogue.load(listed).releases[NEXT].cutoff == UPLOADED + timedelta(days=10)
    mini.relock()
    code, message = mini.run("lock", "--check")
    assert (code, message) == (
        1,
        f"images/{NEXT}/port.md: is still there; next: decide what it lists, and remove it",
    )
    port.unlink()
    assert mini.run("lock", "--check") == (0, "")
    assert mini.run("verify", NEXT) == (0, "")


def test_a_folder_that_exists_is_left_as_it_is(mini: Miniature) -> None:
    put_wheel(mini, FILES)
    mini.run("new", "1.1")
    port = mini.root / "images" / NEXT / "port.md"
    port.write_text("mine\n")
    code, message = mini.run("new", "1.1")
    assert (code, message) == (
        2,
        f"images/{NEXT}: exists and is left as it is; next: its port.md",
    )
    assert port.read_text() == "mine\n"
    assert mini.run("new", "1.1", "--dry-run") == (0, "")


def test_a_dry_run_writes_nothing(mini: Miniature) -> None:
    put_wheel(mini, FILES)
    before = sorted(mini.root.rglob("*"))
    assert told(mini, "1.1", "--dry-run")["written"] == []
    assert sorted(mini.root.rglob("*")) == before


def test_a_version_that_a_release_is_on(mini: Miniature, monkeypatch: pytest.MonkeyPatch) -> None:
    code, message = mini.run("new", "1.0")
    assert code == 2 and message.startswith(f"VERSION: got 1.0, which {NAME} is on; next: ")
    monkeypatch.setattr(upstream, "find", lambda *_: Upstream("1.0", UPLOADED))
    assert told(mini, "newest") == {"sglang": "1.0", "releases": [NAME]}
    assert "nothing to do" in mini.output("new", "newest")


def test_the_cut_off(mini: Miniature, monkeypatch: pytest.MonkeyPatch) -> None:
    put_wheel(mini, FILES)
    assert told(mini, "1.1", "--dry-run")["cutoff"] == "2026-06-11"
    assert told(mini, "1.1", "--dry-run", "--cutoff", "2026-07-01")["cutoff"] == "2026-07-01"
    monkeypatch.setattr(upstream, "find", lambda *_: Upstream("1.1", None))
    code, message = mini.run("new", "1.1", "--dry-run")
    assert code == 3 and message.endswith("next: --cutoff DATE")
    today = date.today()
    monkeypatch.setattr(upstream, "find", lambda *_: Upstream("1.1", today - timedelta(days=3)))
    found = told(mini, "1.1", "--dry-run")
    # Today's uploads are not all there yet.
    assert found["cutoff"] == str(today - timedelta(days=1))
    assert "have not passed yet" in found["notes"][0]


def test_another_release_to_start_from(mini: Miniature) -> None:
    put_wheel(mini, FILES)
    assert told(mini, "1.1", "--dry-run", "--from", NAME)["nearest"] == NAME
    wrong = f"release: got 'x', wanted one of: {NAME}"
    assert mini.run("new", "1.1", "--dry-run", "--from", "x") == (2, wrong)


def entries(*names: str) -> catalogue.Catalogue:
    """A catalogue of releases of those names; one that ends with ! is withdrawn."""
    made = {}
    for name in names:
        bare = name.rstrip("!")
        made[bare] = {
            "sglang": bare.partition("-")[0],
            "python": "3.11",
            "glibc": "2.36",
            "base": "b",
            "uv": "1",
            "cutoff": UPLOADED,
            "drop": [],
            "variants": {"cpu": {}, "cuda": {}},
            "withdrawn": {"since": UPLOADED, "why": "wrong"} if name != bare else None,
        }
    return catalogue.Catalogue.model_validate({"default": names[0], "releases": made})


def test_the_nearest_release() -> None:
    known = entries("0.5.9-dflash.1", "0.5.9-dflash.10", "0.5.9-dflash.2", "0.5.11-dflash.1!")
    assert nearest(known, "0.5.10") == "0.5.9-dflash.10"
    assert nearest(known, "0.5.12") == "0.5.9-dflash.10"
    assert nearest(known, "0.4.0") == "0.5.9-dflash.10"
    wide = entries("0.5.9-dflash.1", "0.5.17-dflash.1", "0.5.17-dflash.2")
    assert nearest(wide, "0.5.14") == "0.5.9-dflash.1"
    assert nearest(wide, "0.6.0") == "0.5.17-dflash.2"


class TestIndex:
    """upstream.find, with an uv that answers."""

    @pytest.fixture(autouse=True)
    def index(self) -> None:
        """The real one."""

    def answer(self, monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str) -> list[Any]:
        asked: list[Any] = []

        def run(command: list[str], **given: Any) -> subprocess.CompletedProcess[str]:
            asked.append((command, given["input"]))
            return subprocess.CompletedProcess(command, code, out, err)

        monkeypatch.setattr(subprocess, "run", run)
        return asked

    def test_version_and_day_of_the_upload(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = self.answer(monkeypatch, 0, LOCK, "")
        like = entries("1.0-dflash.1").releases["1.0-dflash.1"]
        assert upstream.find("newest", like) == Upstream("1.1", UPLOADED)
        assert upstream.find("1.1", like) == Upstream("1.1", UPLOADED)
        assert [text for _, text in asked] == ["sglang", "sglang==1.1"]
        assert not [word for word in asked[0][0] if "://" in word]
        self.answer(monkeypatch, 0, LOCK.replace("upload-time", "size"), "")
        assert upstream.find("1.1", like) == Upstream("1.1", None)

    def test_what_cannot_be_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        like = entries("1.0-dflash.1").releases["1.0-dflash.1"]
        with pytest.raises(InputError, match=r"^VERSION: got 'x; y', wanted one such as 1\.0"):
            upstream.find("x; y", like)
        self.answer(monkeypatch, 1, "", "Because there is no version of sglang==9.9 and ...")
        with pytest.raises(InputError, match=r"^VERSION: got 9\.9, of which there is no sglang$"):
            upstream.find("9.9", like)
        self.answer(monkeypatch, 2, "", "error: Failed to\n  fetch")
        with pytest.raises(Undetermined, match="^sglang==9.9: uv cannot find it: error: Failed to"):
            upstream.find("9.9", like)


def test_a_broken_wheel_is_one_line(mini: Miniature) -> None:
    Path(mini.wheel.with_name(WHEEL.replace("1.0", "1.1"))).write_text("no wheel")
    code, message = mini.run("new", "1.1")
    assert code == 1 and message.count("\n") == 0 and "cannot be unpacked" in message
