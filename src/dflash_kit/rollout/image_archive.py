"""What is in a file that `docker save` wrote."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dflash_kit.errors import InputError
from dflash_kit.releases.tree import file_sha256

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Every layer is far above, every description of an image far below it.
_LARGEST_DESCRIPTION = 1 << 20


@dataclass(frozen=True)
class Archive:
    """One image in an archive.

    sha256: of the file's bytes. config, config_digest: the image's configuration and the digest
    that the archive gives for it. manifest_digests: of its OCI manifest, where it has one.
    unpacked_bytes: size of the archive without its compression.
    """

    sha256: str
    config: bytes
    config_digest: str
    manifest_digests: tuple[str, ...]
    unpacked_bytes: int

    @classmethod
    def read(cls, path: Path) -> Archive:
        """Reads the whole file once for its hash and once for its content; InputError."""
        try:
            sha256 = file_sha256(path)
            _compare_with_sidecar(path, sha256)
            with _uncompressed(path) as stream:
                descriptions, size = _walk(stream)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        except (tarfile.TarError, EOFError) as error:
            raise InputError(
                f"{path}: got a damaged or truncated archive ({error}), wanted what docker save "
                "wrote; next: copy it again"
            ) from None
        return _archive(path, sha256, descriptions, size)


def _compare_with_sidecar(path: Path, sha256: str) -> None:
    sidecar = path.with_name(path.name + ".sha256")
    if not sidecar.exists():
        return
    wanted = sidecar.read_text().split()[:1]
    if wanted != [sha256]:
        raise InputError(
            f"{path}: sha256: got {sha256}, wanted {' '.join(wanted)} ({sidecar.name}); "
            "next: copy the archive again"
        )


@contextmanager
def _uncompressed(path: Path) -> Iterator[IO[bytes]]:
    """The archive's tar stream; TarError where its compression is damaged."""
    with path.open("rb") as file:
        if file.peek(len(_ZSTD_MAGIC))[: len(_ZSTD_MAGIC)] != _ZSTD_MAGIC:
            yield file
            return
    command = ["zstd", "--decompress", "--stdout", "--quiet", "--", str(path)]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise InputError(f"{path}: zstd: got none on this machine, wanted it installed") from None
    with process:
        assert process.stdout and process.stderr
        yield process.stdout
        said = process.stderr.read().decode(errors="replace")
    if process.returncode != 0:
        raise tarfile.ReadError(" ".join(said.split()))


def _walk(stream: IO[bytes]) -> tuple[dict[str, bytes], int]:
    """The small files by name, and the bytes of the whole."""
    descriptions = {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isfile() and member.size <= _LARGEST_DESCRIPTION:
                file = archive.extractfile(member)
                descriptions[member.name] = file.read() if file else b""
        size = archive.offset
    while stream.read(1 << 20):  # the padding, so that the compression is checked to its end
        pass
    return descriptions, size


def _archive(path: Path, sha256: str, descriptions: dict[str, bytes], size: int) -> Archive:
    try:
        images: list[Any] = json.loads(descriptions["manifest.json"])
        index = json.loads(descriptions.get("index.json", b"{}"))
        if len(images) != 1:
            raise InputError(f"{path}: got {len(images)} images, wanted one")
        config = descriptions[images[0]["Config"]]
        manifests = tuple(str(entry["digest"]) for entry in index.get("manifests", ()))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise InputError(f"{path}: got no image, wanted what docker save wrote") from None
    # blobs/sha256/<digest>, before Docker 25 <digest>.json
    digest = "sha256:" + Path(images[0]["Config"]).name.removesuffix(".json")
    return Archive(sha256, config, digest, manifests, size)
