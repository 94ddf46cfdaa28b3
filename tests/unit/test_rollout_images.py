"""The image that a deployment wants: the same from each source, or one line that says why not."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from miniature_release import NAME, Miniature, mini
from small_image import INDEX, REPOSITORY, FakeRegistry, SmallImage, serving

from dflash_kit.errors import InputError
from dflash_kit.releases import lockfile
from dflash_kit.rollout.images import Image, from_archive, from_docker, from_registry

__all__ = ["mini"]

TAG = f"{NAME}-cpu"
LOGIN = {"username": "user", "password": "pass:word"}
ASKED = "user:pass:word"


@pytest.fixture
def labels(mini: Miniature) -> dict[str, str]:
    return {
        "io.dflash-kit.release": NAME,
        "io.dflash-kit.variant": "cpu",
        "io.dflash-kit.patches": "first.patch,second.patch",
        "io.dflash-kit.tree": lockfile.read(mini.dir).tree,
    }


@pytest.fixture
def image(labels: dict[str, str]) -> SmallImage:
    return SmallImage(labels | {"org.opencontainers.image.version": NAME})


@pytest.fixture
def registry(image: SmallImage, tmp_path: Path) -> Iterator[FakeRegistry]:
    """A registry without a login that has the image under its tag."""
    made = FakeRegistry({"tags/list": b'{"tags": ["b", "a"]}'})
    made.offer(image, TAG)
    with serving(made, tmp_path) as up:
        yield up


def ask(registry: FakeRegistry, release: str = NAME, **options: str) -> Image:
    options = {"ca": registry.ca} | options
    return from_registry(f"{registry.host}/{REPOSITORY}", release, "cpu", **options)


def refusal(function, *arguments, **options) -> str:
    """The one line of an InputError."""
    with pytest.raises(InputError) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_registry_gives_what_a_host_needs(
    registry: FakeRegistry, image: SmallImage, labels: dict[str, str]
) -> None:
    assert ask(registry) == Image(
        tag=f"dflash-kit/engine:{TAG}-{image.config_digest[7:19]}",
        ids=(image.config_digest, image.digest),
        source="registry",
        reference=f"{registry.host}/{REPOSITORY}@{image.digest}",
        sha256="",
        bytes=5 * len(image.layer),
        labels=labels,
    )


@pytest.mark.parametrize("name", ["image.tar", "image.tar.zst"])
def test_an_archive_gives_the_same_image(
    name: str, registry: FakeRegistry, image: SmallImage, tmp_path: Path
) -> None:
    file = image.save(tmp_path / name)
    found = from_archive(file, NAME, "cpu")
    same = replace(ask(registry), source="archive", reference=str(file), bytes=found.bytes)
    assert replace(found, sha256="") == same
    assert found.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    size = (tmp_path / "image.tar").stat().st_size
    assert size <= found.bytes <= 2 * size


def test_a_relative_path_becomes_absolute(
    image: SmallImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image.save(tmp_path / "image.tar")
    monkeypatch.chdir(tmp_path)
    assert from_archive(Path("image.tar"), NAME, "cpu").reference == str(tmp_path / "image.tar")


def test_an_archive_of_an_old_docker_has_no_manifest(image: SmallImage, tmp_path: Path) -> None:
    found = from_archive(image.save(tmp_path / "image.tar", blobs=False), NAME, "cpu")
    assert found.ids == (image.config_digest,)


def test_an_index_leads_to_the_image_of_our_platform(
    registry: FakeRegistry, image: SmallImage
) -> None:
    platforms = [("unknown", "unknown", "sha256:0"), ("linux", "amd64", image.digest)]
    registry.answers[f"manifests/{TAG}"] = index(platforms)
    assert ask(registry).ids == (image.config_digest, image.digest)


@pytest.mark.parametrize(
    ("platforms", "got"),
    [
        ([], "none"),
        ([("linux", "arm64", "sha256:1")], "linux/arm64"),
        ([("linux", "amd64", "sha256:1"), ("linux", "amd64", "sha256:2")], "linux/amd64, linux"),
    ],
)
def test_an_index_without_one_image_of_our_platform_is_refused(
    platforms: list[tuple[str, str, str]], got: str, registry: FakeRegistry
) -> None:
    registry.answers[f"manifests/{TAG}"] = index(platforms)
    line = refusal(ask, registry)
    assert f"tag {TAG}: got {got}" in line and "wanted one linux/amd64" in line


def index(platforms: list[tuple[str, str, str]]) -> bytes:
    entries = [{"digest": d, "platform": {"os": o, "architecture": a}} for o, a, d in platforms]
    return json.dumps({"mediaType": INDEX, "manifests": entries}).encode()


@pytest.mark.parametrize("realm", [False, True])
def test_a_login_is_sent_as_the_registry_wants_it(
    realm: bool, registry: FakeRegistry, image: SmallImage
) -> None:
    registry.login, registry.realm = ASKED, realm
    assert ask(registry, **LOGIN).ids[0] == image.config_digest
    for wrong in ({**LOGIN, "password": "x"}, {}):
        line = refusal(ask, registry, **wrong)
        assert ("user 'user' refused" if wrong else "a login asked for") in line
        assert "image_registry_username and image_registry_password" in line
        assert "pass:word" not in line


def test_an_unknown_tag_is_told_with_those_that_are_there(registry: FakeRegistry) -> None:
    del registry.answers[f"manifests/{TAG}"]
    assert refusal(ask, registry).endswith(f"tag {TAG}: got none, wanted one; there are: a, b")
    del registry.answers["tags/list"]
    assert refusal(ask, registry).endswith("wanted one; the registry has no such repository")


def test_an_unknown_authority_is_told(registry: FakeRegistry, tmp_path: Path) -> None:
    line = refusal(ask, registry, ca="")
    assert "TLS: got 'unable to get local issuer certificate'" in line
    assert line.endswith("next: set image_registry_ca")
    missing = tmp_path / "none.crt"
    assert refusal(ask, registry, ca=str(missing)) == (
        f"image_registry_ca: got {str(missing)!r}, which is no file"
    )
    other = tmp_path / "text.crt"
    other.write_text("no certificate")
    assert str(other) in refusal(ask, registry, ca=str(other))


def test_the_authority_wins_over_one_of_the_environment(
    registry: FakeRegistry, image: SmallImage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none"))
    assert ask(registry).ids[0] == image.config_digest


def test_a_registry_that_is_down_is_told(registry: FakeRegistry) -> None:
    registry.host = "127.0.0.1:1"
    assert "127.0.0.1:1/kit/engine: cannot be reached: Connection refused; next: " in refusal(
        ask, registry
    )


def test_a_server_that_is_no_registry_is_told(registry: FakeRegistry) -> None:
    registry.answers[f"manifests/{TAG}"] = b"<html>hello</html>"
    line = refusal(ask, registry)
    assert "got HTTP 200 '<html>hello</html>', wanted a registry's answer" in line
    registry.answers[f"manifests/{TAG}"] = b"[]"
    assert "got [], wanted a registry's answer" in refusal(ask, registry)
    registry.answers[f"manifests/{TAG}"] = b"{}"
    assert f"tag {TAG}: got no container image" in refusal(ask, registry)


@pytest.mark.parametrize("name", ["engine", "https://x.example/engine", "x.example", "a b/c", ""])
def test_a_repository_has_a_host(name: str, registry: FakeRegistry) -> None:
    line = refusal(from_registry, name, NAME, "cpu")
    assert line == f"image_registry: got {name!r}, wanted HOST[:PORT]/NAME"


def test_a_damaged_configuration_is_told(registry: FakeRegistry, image: SmallImage) -> None:
    registry.answers[f"blobs/{image.config_digest}"] = b"{}"
    assert f"wanted {image.config_digest}: it is damaged" in refusal(ask, registry)
    del registry.answers[f"blobs/{image.config_digest}"]
    assert "got HTTP 404, wanted the blob" in refusal(ask, registry)


@pytest.mark.parametrize("label", ["release", "variant", "patches", "tree"])
def test_another_release_is_told(
    label: str, registry: FakeRegistry, labels: dict[str, str], tmp_path: Path
) -> None:
    other = SmallImage(labels | {f"io.dflash-kit.{label}": "other"})
    wanted = labels[f"io.dflash-kit.{label}"]
    line = f"label io.dflash-kit.{label}: got 'other', wanted {wanted!r} (images/{NAME}/"
    registry.offer(other, TAG)
    assert f"{registry.host}/{REPOSITORY}:{TAG}: {line}" in refusal(ask, registry)
    file = other.save(tmp_path / "other.tar")
    assert f"{file}: {line}" in refusal(from_archive, file, NAME, "cpu")


def test_an_image_without_labels_is_told(tmp_path: Path, labels: dict[str, str]) -> None:
    file = SmallImage(None).save(tmp_path / "image.tar")
    assert "label io.dflash-kit.release: got None" in refusal(from_archive, file, NAME, "cpu")


def test_an_unknown_release_or_variant_is_told(registry: FakeRegistry, tmp_path: Path) -> None:
    line = f"release: got 'x', wanted one of: {NAME}"
    assert refusal(ask, registry, release="x") == line
    assert refusal(from_archive, tmp_path, "x", "cpu") == line
    assert refusal(from_docker, "x", "cpu") == line
    assert refusal(from_docker, NAME, "rocm") == "variant: got 'rocm', wanted one of: cpu, cuda"


@pytest.mark.parametrize("name", ["image.tar", "image.tar.zst"])
@pytest.mark.parametrize("damage", [lambda b: b[:-20_000], lambda b: b[:100], lambda b: b""])
def test_a_truncated_archive_is_told(damage, name: str, image: SmallImage, tmp_path: Path) -> None:
    layer = hashlib.shake_128(b"").digest(100_000)  # not compressible
    image.layer = layer
    file = image.save(tmp_path / name)
    file.write_bytes(damage(file.read_bytes()))
    line = refusal(from_archive, file, NAME, "cpu")
    assert line.startswith(f"{file}: got ") and "docker save" in line


@pytest.mark.parametrize(
    "damage", [lambda b: b[:50_000] + b"x" + b[50_001:], lambda b: b + b"more than the archive"]
)
def test_a_changed_archive_is_told(damage, image: SmallImage, tmp_path: Path) -> None:
    image.layer = hashlib.shake_128(b"").digest(100_000)
    file = image.save(tmp_path / "image.tar.zst")
    content = file.read_bytes()
    assert content[50_000] != ord("x")
    file.write_bytes(damage(content))
    assert "damaged or truncated" in refusal(from_archive, file, NAME, "cpu")


def test_a_sha256_beside_the_archive_is_compared(image: SmallImage, tmp_path: Path) -> None:
    file = image.save(tmp_path / "image.tar")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    sidecar = tmp_path / "image.tar.sha256"
    sidecar.write_text(f"{sha256}  image.tar\n")
    assert from_archive(file, NAME, "cpu").sha256 == sha256
    sidecar.write_text(f"{'0' * 64}  image.tar\n")
    line = refusal(from_archive, file, NAME, "cpu")
    assert f"got {sha256}, wanted {'0' * 64} (image.tar.sha256); next: " in line


def test_a_file_that_is_no_image_is_told(image: SmallImage, tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refusal(from_archive, tmp_path / "x", NAME, "cpu")
    file = image.save(tmp_path / "image.tar", images=2)
    assert f"{file}: got 2 images, wanted one" in refusal(from_archive, file, NAME, "cpu")


def docker(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `docker` command that is this shell script."""
    (folder / "docker").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_docker_gives_what_this_machine_has(
    labels: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.dumps([{"Id": "sha256:" + "ab" * 32, "Config": {"Labels": labels}}])
    docker(tmp_path, f"[ $3 = dflash-kit/engine:{TAG} ] && echo '{said}'", monkeypatch)
    found = from_docker(NAME, "cpu")
    assert found.tag == f"dflash-kit/engine:{TAG}-abababababab"
    assert (found.ids, found.bytes) == (("sha256:" + "ab" * 32,), 0)
    assert (found.source, found.reference) == ("docker", f"dflash-kit/engine:{TAG}")
    said = said.replace("first.patch", "other.patch")
    docker(tmp_path, f"echo '{said}'", monkeypatch)
    assert "label io.dflash-kit.patches: got 'other.patch" in refusal(from_docker, NAME, "cpu")


def test_an_image_that_docker_lacks_is_told(
    labels: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker(tmp_path, "echo Error: No such image >&2; exit 1", monkeypatch)
    line = refusal(from_docker, NAME, "cpu")
    assert f"image dflash-kit/engine:{TAG}: got 'Error: No such image'" in line
    assert line.endswith(f"next: scripts/image cpu {NAME}")
    monkeypatch.setenv("PATH", "/none")
    assert "docker: No such file or directory; install Docker" in refusal(from_docker, NAME, "cpu")
