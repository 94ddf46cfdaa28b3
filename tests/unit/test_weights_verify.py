"""`weights manifest` and `weights verify`, on real folders, as a user calls them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dflash_kit.errors import CheckFailed, InputError, Undetermined
from dflash_kit.weights.cli import app
from dflash_kit.weights.hashes import Hashes
from dflash_kit.weights.manifest import Manifest, manifest_file


def weights(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.safetensors").write_bytes(b"b" * 1000)
    (folder / "a.json").write_text("{}")
    (folder / "sub/c.txt").touch()
    return folder


@pytest.fixture
def listed(folder: Path) -> Path:
    weights("manifest", folder)
    return folder


def outcome(folder: Path, *options: str | Path) -> dict[str, Any]:
    (one,) = json.loads(weights("verify", folder, "--json", *options))
    return dict(one)


def test_a_manifest_has_every_file_sorted(folder: Path) -> None:
    for name in (".cache", ".git", ".dflash-kit"):
        (folder / name).mkdir()
        (folder / name / "note").touch()
    weights("manifest", folder, "--repository", "us/model", "--revision", "abc")
    made = json.loads(manifest_file(folder).read_text())
    sums = subprocess.run(["sha256sum", folder / "b.safetensors"], capture_output=True, text=True)
    assert (made["schema_version"], made["repository"], made["revision"]) == (1, "us/model", "abc")
    assert [(file["path"], file["size"]) for file in made["files"]] == [
        ("a.json", 2),
        ("b.safetensors", 1000),
        ("sub/c.txt", 0),
    ]
    assert made["files"][1]["sha256"] == sums.stdout.split()[0]


def test_a_whole_folder_passes_and_is_read_once(listed: Path) -> None:
    (listed / ".dflash-kit/verified.json").unlink()
    assert outcome(listed)["read"] == 1002
    assert outcome(listed)["read"] == 0
    assert outcome(listed, "--full")["read"] == 1002


def test_everything_wrong_is_said_at_once(listed: Path) -> None:
    os.truncate(listed / "b.safetensors", 10)
    (listed / "a.json").write_text("[]")
    (listed / "sub/c.txt").unlink()
    (listed / "extra.safetensors").touch()
    with pytest.raises(CheckFailed) as failed:
        weights("verify", listed)
    lines = str(failed.value).splitlines()
    assert f"{listed}/sub/c.txt: is missing" in lines
    assert f"{listed}/extra.safetensors: is not in the manifest" in lines
    assert f"{listed}/b.safetensors: got 10 bytes, wanted 1000" in lines
    assert any(line.startswith(f"{listed}/a.json: got sha256 ") for line in lines)
    assert len(lines) == 4


def test_a_change_that_keeps_size_and_times_is_seen(listed: Path) -> None:
    file = listed / "b.safetensors"
    before = file.stat()
    file.write_bytes(b"c" * 1000)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(CheckFailed, match="b.safetensors: got sha256"):
        weights("verify", listed)


def test_only_full_sees_what_the_file_system_does_not_tell(listed: Path) -> None:
    file = listed / "b.safetensors"
    file.write_bytes(b"c" * 1000)
    stamp = listed / ".dflash-kit/verified.json"
    content = json.loads(stamp.read_text())
    content["files"][file.name]["ctime_ns"] = file.stat().st_ctime_ns
    stamp.write_text(json.dumps(content))
    assert outcome(listed)["changed"] == []
    with pytest.raises(CheckFailed, match="b.safetensors: got sha256"):
        weights("verify", listed, "--full")


@pytest.mark.parametrize("stamp", ["", "[]", '{"files": {"a.json": 1}}', '{"files": {}'])
def test_a_stamp_that_cannot_be_used_is_none(listed: Path, stamp: str) -> None:
    (listed / ".dflash-kit/verified.json").write_text(stamp)
    assert outcome(listed)["read"] == 1002


def test_what_was_read_before_an_interruption_is_not_read_again(
    listed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (listed / ".dflash-kit/verified.json").unlink()
    real = Hashes._one

    def interrupted(hashes: Hashes, path: str) -> Any:
        if path == "sub/c.txt":
            raise KeyboardInterrupt
        return real(hashes, path)

    with monkeypatch.context() as context:
        context.setattr("os.sched_getaffinity", lambda _: {0})  # one after the other
        context.setattr("dflash_kit.weights.hashes.as_completed", list)
        context.setattr(Hashes, "_one", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Hashes(listed).of(["a.json", "b.safetensors", "sub/c.txt"], full=False)
    assert outcome(listed)["read"] == 0  # c.txt holds no byte


def test_a_manifest_elsewhere(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    weights("manifest", folder, "--out", file)
    assert outcome(folder, "--manifest", file)["files"] == 3
    with pytest.raises(Undetermined, match="manifest.json: is missing, so nobody knows"):
        weights("verify", folder)
    with pytest.raises(InputError, match="--manifest: goes not with --pair"):
        weights("verify", folder, "--manifest", file, "--pair", "tiny")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is no manifest"),
        ("{}", "files: field required"),
        ('{"schema_version": 2, "files": []}', "schema_version: got 2"),
        ('{"files": []}', "files: "),
    ],
)
def test_a_manifest_that_is_none_is_refused(folder: Path, content: str, problem: str) -> None:
    manifest_file(folder).parent.mkdir()
    manifest_file(folder).write_text(content)
    with pytest.raises(InputError, match=problem):
        weights("verify", folder)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ".", "a//b", ""])
def test_a_manifest_stays_in_its_folder(path: str) -> None:
    text = json.dumps({"files": [{"path": path, "size": 1, "sha256": "0" * 64}]})
    with pytest.raises(ValueError, match="plain path"):
        Manifest.model_validate_json(text)


def test_odd_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (folder / "link").symlink_to("nowhere")
    with pytest.raises(InputError, match="is no folder, wanted the folder of a model"):
        weights("manifest", tmp_path / "none")
    with pytest.raises(InputError, match="holds no file"):
        weights("manifest", tmp_path / "empty")
    with pytest.raises(InputError, match="link: got neither file nor folder"):
        weights("manifest", folder)


def test_a_link_to_a_file_is_the_file(listed: Path, tmp_path: Path) -> None:
    (listed / "a.json").rename(tmp_path / "blob")
    (listed / "a.json").symlink_to(tmp_path / "blob")
    assert outcome(listed)["wrong"] == []


def test_a_file_that_cannot_be_read_is_neither_yes_nor_no(
    listed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(file: Path) -> str:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr("dflash_kit.weights.hashes.file_sha256", denied)
    with pytest.raises(Undetermined, match="a.json: cannot be read: Permission denied"):
        weights("verify", listed, "--full")
    (listed / "a.json").write_text("{")
    with pytest.raises(CheckFailed):  # a no is a no, whatever else is unclear
        weights("verify", listed, "--full")


def test_without_a_place_for_the_stamp_it_says_so(
    listed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read_only(file: Path, text: str) -> None:
        raise OSError(30, "Read-only file system", str(file))

    monkeypatch.setattr("dflash_kit.weights.hashes.write_whole", read_only)
    Hashes(listed).of(["a.json"], full=True)
    assert "the next time everything is read again" in capsys.readouterr().err
