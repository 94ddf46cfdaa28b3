"""`weights fetch` against a hub that answers as huggingface_hub does: what it sends, lacks, breaks.

tests/e2e/test_weights.py does the same with the real huggingface_hub.
"""

import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from weights_pair import REVISION, files_of, staged_pair

from dflash_kit.errors import CheckFailed, InputError, KitError, Undetermined
from dflash_kit.weights import cli, hub
from dflash_kit.weights.manifest import manifest_file
from dflash_kit.weights.staged import verify_pair

PAIR = staged_pair()


class Hub:
    """The two calls that are made of huggingface_hub; it copies what is not there, like it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []
        self.spoil: Callable[[Path], object] = lambda file: None

    def HfApi(self) -> "Hub":  # noqa: N802
        return self

    def model_info(self, repository: str, *, revision: str, files_metadata: bool) -> object:
        assert revision == REVISION and files_metadata
        return SimpleNamespace(siblings=[self._listed(file) for file in self._files(repository)])

    def _files(self, repository: str) -> list[Path]:
        return sorted((self.folder / repository).iterdir())

    def _listed(self, file: Path) -> object:
        content = file.read_bytes()
        lfs = SimpleNamespace(sha256=hashlib.sha256(content).hexdigest())
        return SimpleNamespace(
            rfilename=file.name,
            size=len(content),
            blob_id=hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(),
            lfs=lfs if file.suffix == ".safetensors" else None,
        )

    def snapshot_download(self, repository: str, *, revision: str, local_dir: Path) -> None:
        assert revision == REVISION
        for file in self._files(repository):
            if not (local_dir / file.name).exists():
                shutil.copy(file, local_dir)
                self.sent.append(f"{repository}/{file.name}")
                self.spoil(local_dir / file.name)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    server = Hub(files_of(tmp_path / "hub"))
    monkeypatch.setattr(hub, "client", lambda: server)
    monkeypatch.setattr(cli, "load_pair", lambda name: PAIR)
    return server


def fetch(weights: Path) -> None:
    cli.fetch("staged", weights)


def test_everything_comes_and_is_whole(server: Hub, tmp_path: Path) -> None:
    fetch(tmp_path / "w")
    assert len(server.sent) == 8
    assert not [each.wrong for each in verify_pair(PAIR, tmp_path / "w", True) if each.wrong]


def test_the_hub_is_not_asked_for_what_is_whole(
    server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(tmp_path / "w")
    monkeypatch.setattr(hub, "client", lambda: pytest.fail("asked"))
    fetch(tmp_path / "w")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_spoilt_file_is_named_and_comes_again(
    server: Hub, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(tmp_path / "w")
    server.sent.clear()
    file = tmp_path / "w/us/draft" / name
    file.write_bytes(b"!" * file.stat().st_size)
    fetch(tmp_path / "w")
    assert server.sent == [f"us/draft/{name}"]
    assert f"{file}: got " in (said := capsys.readouterr().err) and "it is fetched again" in said


def test_what_no_client_would_go_on_with_is_removed(server: Hub, tmp_path: Path) -> None:
    """As the names are in huggingface_hub 1.28, and before it, where a download goes on."""
    begun = tmp_path / "w/us/target/.cache/huggingface/download/sub"
    begun.mkdir(parents=True)
    etag = "hash=." + 64 * "a"
    for name in (f"{etag}.0123abcd.incomplete", f"{etag}.incomplete"):
        (begun / name).write_text("half")
    fetch(tmp_path / "w")
    assert [file.name for file in begun.iterdir()] == [f"{etag}.incomplete"]


def test_a_folder_from_elsewhere_is_taken_over(server: Hub, tmp_path: Path) -> None:
    files_of(tmp_path / "w")
    (tmp_path / "w/us/target/model.safetensors").unlink()
    fetch(tmp_path / "w")
    assert server.sent == ["us/target/model.safetensors"]


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda file: file.write_bytes(b"short"), "config.json: got 5 bytes, wanted 870"),
        (lambda file: file.unlink(), "config.json: did not come"),
        (
            lambda file: file.write_bytes(file.read_bytes()[::-1]),
            "model.safetensors: got .* as the hub lists it",
        ),
    ],
)
def test_what_comes_otherwise_than_listed_is_never_called_whole(
    server: Hub, tmp_path: Path, spoil: Callable[[Path], object], line: str
) -> None:
    server.spoil = spoil
    with pytest.raises(CheckFailed, match=line):
        fetch(tmp_path / "w")
    assert not manifest_file(tmp_path / "w/us/target").exists()


def test_an_attempt_that_breaks_off_is_resumed(server: Hub, tmp_path: Path) -> None:
    def broken(file: Path) -> None:
        if file.name == "model.safetensors":
            raise ConnectionError("the other side\nhung up")

    fetch(tmp_path / "w")
    (tmp_path / "w/us/target/model.safetensors").unlink()
    server.spoil = broken
    with pytest.raises(Undetermined, match=r"us/target at 0123\d+: the other side hung up; next"):
        fetch(tmp_path / "w")
    assert not manifest_file(tmp_path / "w/us/target").exists()
    server.spoil = lambda file: None
    fetch(tmp_path / "w")
    assert server.sent.count("us/target/config.json") == 1


def test_a_file_that_the_hub_does_not_list_stays_and_is_named(server: Hub, tmp_path: Path) -> None:
    fetch(tmp_path / "w")
    extra = tmp_path / "w/us/draft/other.safetensors"
    extra.touch()
    with pytest.raises(CheckFailed, match=f"{extra}: is no file of us/draft at .*; next: remove"):
        fetch(tmp_path / "w")
    assert extra.exists()


@pytest.mark.parametrize(
    ("status", "kind"), [(401, InputError), (404, InputError), (503, Undetermined)]
)
def test_a_refusal_says_whose_turn_it_is(
    server: Hub, tmp_path: Path, status: int, kind: type[KitError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        error = OSError("no")
        error.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
        raise error

    monkeypatch.setattr(server, "model_info", refused)
    with pytest.raises(kind, match="HF_TOKEN" if kind is InputError else "it resumes"):
        fetch(tmp_path / "w")


def test_what_cannot_be_fetched_is_known_before_anything_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=r"draft\.revision: got none, .* images/pairs/"):
        cli.fetch("kimi-k2.6-nvfp4", tmp_path / "w")
    cli.fetch("tiny", tmp_path / "w")
    assert "there is nothing to stage" in capsys.readouterr().out
    assert not (tmp_path / "w").exists()


def test_without_the_client_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match="huggingface_hub: is not installed here; next: "):
        hub.client()
