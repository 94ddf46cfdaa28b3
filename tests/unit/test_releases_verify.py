"""`release verify` on a miniature release with real git: each way to differ is one clear line."""

import json
import subprocess
from pathlib import Path

import pytest
from miniature_release import FILES, LINES, NAME, WHEEL, Miniature, edited, mini

__all__ = ["mini"]


def test_a_locked_release_verifies_and_is_what_the_patches_say(mini: Miniature) -> None:
    out = mini.root / "out"
    assert mini.run("verify", "--keep", str(out)) == (0, "")
    assert (out / "sglang/a.py").read_text() == "".join(edited(LINES, 5, 50))
    assert (out / "sglang/srt/b.py").read_text() == "".join(edited(LINES, 10, 40))
    got = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert got == ["sglang-1.0.dist-info/METADATA", "sglang/a.py", "sglang/srt/b.py"]


@pytest.mark.parametrize("byte", [b"X", b"\xff"])
def test_patch_edited_by_one_byte(mini: Miniature, byte: bytes) -> None:
    file = mini.patches / "second.patch"
    text = file.read_bytes()
    file.write_bytes(text.replace(b"+new line 40", b"+new line 4" + byte))
    code, message = mini.run("verify")
    assert code == 1
    assert message.startswith(f"images/{NAME}/patches/second.patch: patch hash: got ")
    assert len(message.splitlines()) == 1


def test_wheel_with_another_hash(mini: Miniature) -> None:
    mini.wheel.write_bytes(mini.wheel.read_bytes() + b"x")
    code, message = mini.run("verify")
    assert code == 1
    assert message.startswith(f"build/wheels/{WHEEL}: wheel hash: got ")
    assert mini.run("lock")[1] == message  # Nor does locking take another wheel.


@pytest.mark.parametrize(
    ("series", "line"),
    [
        ("first.patch\n", "series: lacks second.patch, which is in release.lock.json"),
        ("second.patch\nfirst.patch\n", "series: got the order second.patch, first.patch, wanted"),
        ("first.patch\nsecond.patch\nfirst.patch\n", "series: names first.patch twice"),
    ],
)
def test_series_that_is_not_the_locked_one(mini: Miniature, series: str, line: str) -> None:
    (mini.patches / "series").write_text(series)
    code, message = mini.run("verify")
    assert code == 1
    assert f"images/{NAME}/patches/series: {line}" in message


def test_patch_added_to_the_series(mini: Miniature) -> None:
    mini.write_patch("third.patch", {"sglang/a.py": (LINES, edited(LINES, 20))})
    assert mini.run("verify")[1] == f"images/{NAME}/patches/third.patch: is not in series"
    with (mini.patches / "series").open("a") as series:
        series.write("third.patch\n")
    code, message = mini.run("verify")
    assert code == 1
    assert "patches/series: series: third.patch is not in release.lock.json" in message


def test_patch_that_does_not_exist(mini: Miniature) -> None:
    (mini.patches / "first.patch").unlink()
    assert mini.run("verify") == (
        1,
        f"images/{NAME}/patches/first.patch: does not exist, but series names it",
    )


def test_patch_that_does_not_apply_is_named_with_file_and_hunk(mini: Miniature) -> None:
    wrong = edited(LINES, 37)  # Within the context of line 40: the second hunk of the second file.
    mini.write_patch(
        "second.patch",
        {
            "sglang/a.py": (edited(LINES, 5), edited(LINES, 5, 50)),
            "sglang/srt/b.py": (wrong, edited(wrong, 10, 40)),
        },
    )
    assert mini.run("lock") == (
        1,
        f"images/{NAME}/patches/second.patch: patch does not apply: "
        "sglang/srt/b.py: hunk 2 of 2 at line 37",
    )


def test_every_file_that_a_patch_fails_on_is_named(mini: Miniature) -> None:
    wrong = edited(LINES, 9, 49)
    mini.write_patch(
        "second.patch",
        {
            "sglang/a.py": (wrong, edited(wrong, 50)),
            "sglang/srt/b.py": (wrong, edited(wrong, 10)),
            "sglang/none.py": (LINES, edited(LINES, 1)),
        },
    )
    message = mini.run("lock")[1]
    assert "sglang/a.py: hunk 1 of 1 at line 47" in message
    assert "sglang/srt/b.py: hunk 1 of 1 at line 7" in message
    assert "sglang/none.py: No such file or directory" in message


@pytest.mark.parametrize("where", ["file", "environment"])
def test_whitespace_is_no_fuzz_even_for_a_user_who_allows_it(
    mini: Miniature, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "file":
        monkeypatch.setenv("HOME", str(mini.root))
        (mini.root / ".gitconfig").write_text("[apply]\n\tignoreWhitespace = change\n")
    else:
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "apply.ignoreWhitespace")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", "change")
    wrong = [text.replace("line ", "line   ") for text in LINES]
    mini.write_patch("first.patch", {"sglang/a.py": (wrong, edited(wrong, 5))})
    assert "first.patch: patch does not apply: sglang/a.py: hunk 1 of 1" in mini.run("lock")[1]


@pytest.mark.parametrize("as_in_a_hook", [False, True])
def test_patches_apply_inside_a_repository(
    mini: Miniature, as_in_a_hook: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "--quiet", str(mini.root)], check=True)
    if as_in_a_hook:
        monkeypatch.setenv("GIT_DIR", str(mini.root / ".git"))
        monkeypatch.setenv("GIT_WORK_TREE", str(mini.root))
    out = mini.root / "build" / "out"
    assert mini.run("verify", "--keep", str(out)) == (0, "")
    assert (out / "sglang/a.py").read_text() != "".join(FILES["sglang/a.py"])


@pytest.mark.parametrize("kind", ["cpu.in", "cpu.txt", "cuda.in", "cuda.txt"])
def test_requirements_changed_since_the_lock(mini: Miniature, kind: str) -> None:
    file = mini.dir / f"requirements-{kind}"
    file.write_text(file.read_text() + "more\n")
    code, message = mini.run("verify")
    assert code == 1
    assert message.startswith(f"images/{NAME}/{file.name}: requirements: got ")
    assert len(message.splitlines()) == 1


def test_tree_that_differs(mini: Miniature) -> None:
    file = mini.dir / "release.lock.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"tree": "0" * 64}))
    assert mini.run("verify") == (
        1,
        f"images/{NAME}/release.lock.json: tree differs: got {content['tree']}, wanted {'0' * 64}",
    )


def test_everything_that_files_tell_is_told_at_once(mini: Miniature) -> None:
    mini.wheel.write_bytes(b"x")
    for file in (mini.patches / "first.patch", mini.dir / "requirements-cpu.in"):
        file.write_text(file.read_text() + "\n")
    lines = mini.run("verify")[1].splitlines()
    assert [line.split(": ")[1] for line in lines] == ["patch hash", "requirements", "wheel hash"]


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        ("Upstream: none\n", "", "header: got no line 'Upstream: ...', wanted one"),
        ("Drop-When: 2.0", "Drop-When:", "header: got no line 'Drop-When: ...', wanted one"),
        ("Subject: ", "Object: ", "header: got no line 'Subject: ...', wanted one"),
        ("diff --git a/sglang/a.py b/sglang/a.py\n", "", "got no line 'diff --git a/... b/...'"),
        ("sglang/a.py", "tools/x.py", "got the path tools/x.py, wanted one below sglang/"),
    ],
)
def test_patch_that_is_not_as_the_series_wants(
    mini: Miniature, right: str, wrong: str, line: str
) -> None:
    file = mini.patches / "first.patch"
    assert right in file.read_text()
    file.write_text(file.read_text().replace(right, wrong))
    code, message = mini.run("lock")
    assert code == 1
    assert f"images/{NAME}/patches/first.patch: {line}" in message


@pytest.mark.parametrize("name", ["images", "docker-bake.json"])
def test_only_an_empty_folder_is_filled(mini: Miniature, name: str) -> None:
    assert mini.run("verify", "--keep", str(mini.root / name)) == (
        2,
        f"--keep: {name} exists, wanted a new or an empty folder",
    )
    code, message = mini.run("verify", "--keep", str(mini.root / "docker-bake.json" / "x"))
    assert (code, message.endswith("Not a directory, wanted a new or an empty folder")) == (2, True)
    (mini.root / "empty").mkdir()
    assert mini.run("verify", "--keep", str(mini.root / "empty")) == (0, "")


def test_json_names_the_problems(mini: Miniature) -> None:
    (mini.patches / "first.patch").unlink()
    (outcome,) = json.loads(mini.output("verify", "--json"))
    assert outcome["name"] == NAME
    assert outcome["problems"] == [mini.run("verify")[1]]


def test_a_wheel_that_is_not_there(mini: Miniature, tmp_path: Path) -> None:
    assert mini.run("verify", "--wheel", str(tmp_path / "none.whl")) == (
        2,
        "--wheel: none.whl is no file, wanted the upstream wheel",
    )


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("requirements", [], "requirements: got [], wanted a dict"),
        ("drop", "sglang/test", "drop: got 'sglang/test', wanted a list"),
        ("drop", [1], "got 1, wanted a str"),
        ("wheel", {"file": "x", "sha256": None}, "got None, wanted a str"),
        ("patches", [{"name": 1, "subject": "", "sha256": ""}], "got 1, wanted a str"),
        ("tree", 1, "tree: got 1, wanted a str"),
    ],
)
def test_a_lock_with_a_wrong_type(mini: Miniature, field: str, value: object, said: str) -> None:
    file = mini.dir / "release.lock.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: value}))
    code, message = mini.run("verify")
    assert code == 1
    assert f"images/{NAME}/release.lock.json: is not a release lock: {said}; next" in message


@pytest.mark.parametrize("name", ["release.lock.json", "patches/series"])
@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_is_a_folder_or_no_text(
    mini: Miniature, name: str, content: bytes | None
) -> None:
    file = mini.dir / name
    if content is None:
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(content)
    code, message = mini.run("verify")
    assert code == 1
    assert f"images/{NAME}/{name}: " in message
    assert len(message.splitlines()) == 1


def test_git_that_is_not_there(mini: Miniature, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(mini.root))
    assert mini.run("verify") == (
        1,
        "git: cannot be run: No such file or directory; next: install git",
    )


def test_all_is_what_no_name_is(mini: Miniature) -> None:
    assert mini.output("verify", "--all", "--json") == mini.output("verify", "--json") != ""
    assert mini.run("verify", NAME, "--all") == (
        2,
        f"--all: got {NAME} beside it, wanted one of them",
    )
