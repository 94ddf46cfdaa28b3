"""The fleet's registry: Debian's, with TLS by its own authority and passwords."""

import base64
import gzip
import hashlib
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import requests
from docker.models.containers import Container

from tests.e2e.fleet.build import run
from tests.e2e.node import ROOT

PORT = 5000
_LAYER = "application/vnd.oci.image.layer.v1.tar"
# One pushed layer or configuration that somebody fetched: its repository, digest and bytes.
_FETCHED = re.compile(r'"GET /v2/(\S+)/blobs/(sha256:\w+) HTTP/\S+" 200 (\d+)')
_PUSH = """
set -Eeuo pipefail
docker save "$1" | tar --extract --directory "$2"
exec skopeo --insecure-policy copy --quiet --dest-compress-format zstd --dest-compress \
  --dest-authfile "$DOCKER_CONFIG/config.json" "oci:$2" "docker://$3"
"""


class Registry:
    """A running registry: its address, the file of its authority, and its logins."""

    def __init__(self, container: Container, address: str, folder: Path) -> None:
        self._container = container
        self.host = f"{address}:{PORT}"
        self.ca = folder / "ca.crt"
        self.logins = logins(container)
        self._config = folder / "docker"
        self._api = requests.Session()
        # A bundle in the environment would be taken instead of `verify`.
        self._api.trust_env = False
        self._api.verify = str(self.ca)
        self._api.auth = next(iter(self.logins.items()))

    def prepare(self) -> None:
        """Write the authority's file and a login for publishing, once the registry is up."""
        code, content = self._container.exec_run(["cat", "/tls/ca.crt"])
        assert code == 0 and isinstance(content, bytes), content
        self.ca.write_bytes(content)
        user, password = next(iter(self.logins.items()))
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._config.mkdir(mode=0o700)
        (self._config / "config.json").write_text(
            json.dumps({"auths": {self.host: {"auth": login}}})
        )

    def publish(self, variant: str, release: str, name: str) -> str:
        """`scripts/publish push` into the repository `name`; gives repository@digest."""
        script = str(ROOT / "scripts" / "publish")
        return self._run(script, "push", variant, release, f"{self.host}/{name}").splitlines()[-1]

    def push(self, image: str, name: str, tag: str) -> None:
        """Any image of this machine's Docker, as publish would push it."""
        with tempfile.TemporaryDirectory() as work:
            self._run("bash", "-c", _PUSH, "-", image, work, f"{self.host}/{name}:{tag}")

    def extend(self, source: str, name: str, tag: str, layer: bytes) -> None:
        """An image of repository `source` with one more layer, a tar, in repository `name`."""
        media = "application/vnd.oci.image.manifest.v1+json"
        manifest = self._get(f"{source}/manifests/{tag}", Accept=media)
        config = self._get(f"{source}/blobs/{manifest['config']['digest']}")
        config["rootfs"]["diff_ids"].append(_digest(layer))
        config["history"].append({"created_by": f"one more layer: {name}"})
        for part in manifest["layers"]:
            mount = {"mount": part["digest"], "from": source}
            self._ask("POST", f"{name}/blobs/uploads/", 201, params=mount)
        packed = gzip.compress(layer, mtime=0)
        manifest["layers"].append(
            {"mediaType": f"{_LAYER}+gzip", "digest": _digest(packed), "size": len(packed)}
        )
        content = json.dumps(config).encode()
        manifest["config"] |= {"digest": _digest(content), "size": len(content)}
        for blob in (packed, content):
            begun = self._ask("POST", f"{name}/blobs/uploads/", 202).headers["Location"]
            put = self._api.put(begun, params={"digest": _digest(blob)}, data=blob)
            assert put.status_code == 201, put.text
        headers = {"Content-Type": media}
        content = json.dumps(manifest).encode()
        self._ask("PUT", f"{name}/manifests/{tag}", 201, data=content, headers=headers)

    def _get(self, path: str, **headers: str) -> dict[str, Any]:
        return dict(self._ask("GET", path, 200, headers=headers).json())

    def _ask(self, method: str, path: str, status: int, **more: Any) -> requests.Response:
        answer = self._api.request(method, f"https://{self.host}/v2/{path}", **more)
        assert answer.status_code == status, f"{method} {path}: {answer.text}"
        return answer

    def config(self, name: str, tag: str) -> str:
        """The digest of the configuration under a tag; empty where there is none."""
        manifest = self._run(
            "bash",
            "-c",
            'skopeo inspect --authfile "$DOCKER_CONFIG/config.json" --raw "docker://$1" || echo {}',
            "-",
            f"{self.host}/{name}:{tag}",
        )
        return str(json.loads(manifest).get("config", {}).get("digest", ""))

    def forget(self, name: str) -> None:
        """Remove a repository with all its tags."""
        folder = f"/var/lib/registry/docker/registry/v2/repositories/{name}"
        self._container.exec_run(["rm", "-r", folder])

    def _run(self, *command: str) -> str:
        return run(*command, DOCKER_CONFIG=str(self._config), SSL_CERT_FILE=str(self.ca))

    def fetched(self) -> list[tuple[str, str, int]]:
        """Repository, digest and bytes of every blob that was fetched so far, in order."""
        log = self._container.logs().decode()
        return [(name, digest, int(size)) for name, digest, size in _FETCHED.findall(log)]


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def logins(container: Container) -> dict[str, str]:
    """user -> password, as the container was started with them."""
    environment = dict(each.split("=", 1) for each in container.attrs["Config"]["Env"])
    return dict(login.split(":", 1) for login in environment["LOGINS"].split())
