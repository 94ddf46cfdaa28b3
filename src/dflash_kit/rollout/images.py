"""The image that a deployment wants, found out on the controller before any host is touched."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.releases import catalogue, lockfile
from dflash_kit.releases.series import ReleaseError
from dflash_kit.rollout.image_archive import Archive
from dflash_kit.rollout.image_registry import Registry

NAME = "dflash-kit/engine"
_LABELS = "io.dflash-kit"
_TAG_DIGITS = 12
# What a pull takes of the disk, per byte of a compressed layer: the layer itself until it is
# unpacked, and 3.8 (cpu) or 2.6 (cuda) bytes unpacked.
_PULL_FACTOR = 5


@dataclass(frozen=True)
class Image:
    """One image, and where a host gets it from.

    tag: its name on a host; nothing but a delivery writes it.
    ids: what Docker may call it there: the digest of its configuration, or that of its manifest
    where Docker keeps images in containerd's store.
    source: "registry", "archive" or "docker" (this machine's own, for a host that is this machine).
    reference: repository@sha256:..., the archive's absolute path, or the name in Docker.
    sha256: of the archive's bytes, else empty.
    bytes: free space that Docker needs at the worst moment, as if no layer were there yet. From a
    registry an estimate, as a manifest knows compressed sizes only; from an archive the archive
    unpacked and its layers; from Docker 0.
    """

    tag: str
    ids: tuple[str, ...]
    source: str
    reference: str
    sha256: str
    bytes: int
    labels: dict[str, str]


def from_registry(
    repository: str,
    release: str,
    variant: str,
    *,
    username: str = "",
    password: str = "",
    ca: str = "",
) -> Image:
    """The image that `repository` (HOST[:PORT]/NAME) has under the tag RELEASE-VARIANT.

    ca: file of the registry's own authority, else the system's are asked. InputError where the
    registry cannot be read, has no such tag, or has another release under it.
    """
    wanted = _wanted_labels(release, variant)
    tag = f"{release}-{variant}"
    registry = Registry(repository, username, password, ca)
    manifest = registry.manifest(tag)
    config = manifest.content["config"]
    layers = manifest.content["layers"]
    labels = _labels(
        f"{repository}:{tag}", registry.blob(config["digest"]), config["digest"], wanted
    )
    return Image(
        tag=_tag(release, variant, config["digest"]),
        ids=(config["digest"], manifest.digest),
        source="registry",
        reference=f"{repository}@{manifest.digest}",
        sha256="",
        bytes=sum(layer["size"] for layer in layers) * _PULL_FACTOR,
        labels=labels,
    )


def from_archive(path: Path, release: str, variant: str) -> Image:
    """The image in a file that `docker save` wrote, as it is or compressed with zstd.

    InputError where the file is not whole, differs from the sha256 beside it (FILE.sha256), or
    holds another release.
    """
    wanted = _wanted_labels(release, variant)
    archive = Archive.read(path)
    labels = _labels(str(path), archive.config, archive.config_digest, wanted)
    return Image(
        tag=_tag(release, variant, archive.config_digest),
        ids=(archive.config_digest, *archive.manifest_digests),
        source="archive",
        reference=str(path.resolve()),
        sha256=archive.sha256,
        bytes=2 * archive.unpacked_bytes,
        labels=labels,
    )


def from_docker(release: str, variant: str) -> Image:
    """The image that this machine's Docker has of the release; InputError where it has none."""
    wanted = _wanted_labels(release, variant)
    name = f"{NAME}:{release}-{variant}"
    command = ["docker", "image", "inspect", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise InputError(f"image {name}: docker: {error.strerror}; install Docker") from None
    if done.returncode != 0:
        raise InputError(
            f"image {name}: got {' '.join(done.stderr.split())!r}, wanted it in this machine's "
            f"Docker; next: scripts/image {variant} {release}"
        )
    content = json.loads(done.stdout)[0]
    labels = content["Config"]["Labels"] or {}
    _compare(name, labels, wanted)
    return Image(
        tag=_tag(release, variant, content["Id"]),
        ids=(content["Id"],),
        source="docker",
        reference=name,
        sha256="",
        bytes=0,
        labels={key: labels[key] for key in wanted},
    )


def _tag(release: str, variant: str, digest: str) -> str:
    return f"{NAME}:{release}-{variant}-{digest.removeprefix('sha256:')[:_TAG_DIGITS]}"


def _wanted_labels(release: str, variant: str) -> dict[str, str]:
    """The labels that the build gives the release, from the lock of this checkout."""
    catalogue.load(paths.RELEASES_FILE).named(release)
    if variant not in lockfile.VARIANTS:
        raise InputError(f"variant: got {variant!r}, wanted one of: {', '.join(lockfile.VARIANTS)}")
    try:
        lock = lockfile.read(paths.IMAGES / release)
    except ReleaseError as error:
        raise InputError(str(error)) from None
    return {
        f"{_LABELS}.release": release,
        f"{_LABELS}.variant": variant,
        f"{_LABELS}.patches": ",".join(patch.name for patch in lock.patches),
        f"{_LABELS}.tree": lock.tree,
    }


def _labels(name: str, config: bytes, digest: str, wanted: dict[str, str]) -> dict[str, str]:
    """The kit's labels in an image's configuration, compared with its digest and the lock."""
    got = "sha256:" + hashlib.sha256(config).hexdigest()
    if got != digest:
        raise InputError(f"{name}: configuration: got {got}, wanted {digest}: it is damaged")
    try:
        labels = json.loads(config)["config"].get("Labels") or {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{name}: configuration: got no image's, wanted an engine's") from None
    _compare(name, labels, wanted)
    return {key: labels[key] for key in wanted}


def _compare(name: str, labels: dict[str, Any], wanted: dict[str, str]) -> None:
    for key, value in wanted.items():
        if labels.get(key) != value:
            release = wanted[f"{_LABELS}.release"]
            raise InputError(
                f"{name}: label {key}: got {labels.get(key)!r}, wanted {value!r} "
                f"(images/{release}/{lockfile.NAME}): it is another release than this checkout's"
            )
