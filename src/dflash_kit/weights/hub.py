"""Fetches a model from the hub at one revision, and holds every byte against the hub's listing."""

import hashlib
import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dflash_kit.errors import CheckFailed, InputError, Undetermined
from dflash_kit.profiles.models import Model
from dflash_kit.weights.hashes import Hashes
from dflash_kit.weights.manifest import manifest_file, sizes
from dflash_kit.weights.staged import Staged
from dflash_kit.weights.verify import make_manifest, verify

T = TypeVar("T")
# A file that a client of 1.28 or newer had begun; older ones name it without the eight digits, and
# go on with it. Where it is: below a model's folder.
_BEGUN = ".cache/huggingface/download"
_LOST = re.compile(r"\.[0-9a-f]{8}\.incomplete$")


@dataclass(frozen=True)
class Listed:
    """A file as the hub lists it: large ones with their sha256, small ones with git's blob id."""

    size: int
    sha256: str | None
    blob: str


def client() -> Any:
    """huggingface_hub, which the engine's image has and a controller need not have."""
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError:
        raise InputError(
            "huggingface_hub: is not installed here; next: run this in the engine's image, which "
            "has it, or install it"
        ) from None
    if not sys.stderr.isatty():
        importlib.import_module("huggingface_hub.utils").disable_progress_bars()
    return hub


def fetch(each: Staged, weights: Path) -> bool:
    """Make the folder of a model whole, fetching only what it lacks; False where it lacked nothing.

    A file that is not as the hub lists it is fetched again. One that was being fetched when an
    attempt was cut off goes on where it stopped, or starts again where the client of the release
    cannot: then what is left of it is removed, as nothing would ever use it. The manifest is
    written last, so that a folder is never taken for whole before it is. CheckFailed where it is
    not at the end; Undetermined where the hub cannot be asked: the next attempt then resumes this
    one.
    """
    folder, model = weights / each.folder, each.model
    if folder.is_dir() and _is_whole(folder, each):
        return False
    hub = client()
    listed = _asked(each, lambda: _listing(hub, model))
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_extra(folder, listed, model)
    manifest_file(folder).unlink(missing_ok=True)
    for path, line in _differences(folder, listed).items():
        print(f"{line}: it is fetched again", file=sys.stderr)
        (folder / path).unlink()
    for file in (folder / _BEGUN).rglob("*.incomplete"):
        if _LOST.search(file.name):
            file.unlink()
    _asked(
        each,
        lambda: hub.snapshot_download(model.repository, revision=model.revision, local_dir=folder),
    )
    wrong = list(_differences(folder, listed).values())
    wrong += [f"{folder / path}: did not come" for path in listed if path not in sizes(folder)]
    if wrong:
        raise CheckFailed("\n".join(f"{line}; next: run it again" for line in wrong))
    manifest = make_manifest(folder, model.repository, model.revision, full=False)
    manifest.write(manifest_file(folder))
    return True


def _is_whole(folder: Path, each: Staged) -> bool:
    try:
        outcome, manifest = verify(folder, full=False)
    except InputError:  # a manifest that is none
        return False
    origin = (each.model.repository, each.model.revision)
    known = manifest is not None and (manifest.repository, manifest.revision) == origin
    return known and not outcome.wrong and not outcome.unclear


def _listing(hub: Any, model: Model) -> dict[str, Listed]:
    info = hub.HfApi().model_info(model.repository, revision=model.revision, files_metadata=True)
    return {
        file.rfilename: Listed(file.size, file.lfs.sha256 if file.lfs else None, file.blob_id)
        for file in info.siblings
    }


def _refuse_extra(folder: Path, listed: dict[str, Listed], model: Model) -> None:
    """The engine would load what it finds, and nothing that a user put there is removed."""
    extra = [path for path in sizes(folder) if path not in listed]
    if extra:
        raise CheckFailed(
            "\n".join(
                f"{folder / path}: is no file of {model.repository} at {model.revision}; next: "
                "remove it"
                for path in extra
            )
        )


def _differences(folder: Path, listed: dict[str, Listed]) -> dict[str, str]:
    """Path -> line, of every file below `folder` that is not as the hub lists it."""
    found = sizes(folder)
    wrong = {
        path: f"{folder / path}: got {found[path]} bytes, wanted {file.size}"
        for path, file in listed.items()
        if path in found and found[path] != file.size
    }
    whole = [path for path in listed if path in found and path not in wrong]
    for path, got in Hashes(folder).of(whole, full=False).items():
        file = listed[path]
        if isinstance(got, OSError):
            raise Undetermined(f"{folder / path}: cannot be read: {got.strerror}")
        if file.sha256 is None:
            got, wanted = _blob_id(folder / path), file.blob
        else:
            wanted = file.sha256
        if got != wanted:
            wrong[path] = f"{folder / path}: got {got}, wanted {wanted} as the hub lists it"
    return wrong


def _blob_id(file: Path) -> str:
    content = file.read_bytes()
    # Git's name for a content, no matter of secrecy.
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _asked(each: Staged, ask: Callable[[], T]) -> T:
    """The hub's answer. Its client, the transport and the storage have each their own errors."""
    what = f"{each.model.repository} at {each.model.revision}"
    try:
        return ask()
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403, 404):
            raise InputError(
                f"{what}: {reason}; next: correct the {each.role} of the pair, or set HF_TOKEN (of "
                "an account that accepted the model's terms)"
            ) from None
        raise Undetermined(f"{what}: {reason}; next: run it again, it resumes") from None
