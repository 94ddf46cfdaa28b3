"""The role weights against a real Docker and the hub's own client: a small pair, staged on here."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker
import pytest
import yaml

from tests.e2e.node import KIT, ROOT, image

TOKEN = "hf_notARealToken"
REVISION = "0123456789" * 4
IMAGE = "dflash-kit/engine:weights-test"
CONTAINER = "dflash-kit-weights"
TOKEN_FILE = Path("/run/dflash-kit-weights-token")
# Larger than what the hub's client keeps in memory before it writes.
BIG = "target/extra.safetensors"
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: weights}
"""


class Hub(ThreadingHTTPServer):
    """What the client asks of a hub, for the files of one folder: `test/<model>` is `<model>/`."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__((address, 0), Answer)
        self.folder = folder
        self.url = f"http://{address}:{self.server_address[1]}"
        self.asked: list[tuple[str, str, str | None, str | None]] = []
        # A large file stops halfway while this is set.
        self.stalls = False
        self.stalled, self.goes_on = threading.Event(), threading.Event()


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:  # noqa: N802
        headers = (self.headers.get("Authorization"), self.headers.get("Range"))
        self.server.asked.append((self.command, self.path, *headers))
        if match := re.fullmatch(r"/api/models/test/(\w+)/revision/(\w+)(\?.*)?", self.path):
            self._listing(self.server.folder / match[1])
        elif match := re.fullmatch(r"/api/models/test/(\w+)/tree/(\w+)(\?.*)?", self.path):
            self._tree(self.server.folder / match[1])
        elif match := re.fullmatch(r"/test/(\w+)/resolve/\w+/(.+)", self.path):
            self._file(self.server.folder / match[1] / match[2], headers[1])
        else:
            self.send_error(404)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass

    def _listing(self, folder: Path) -> None:
        siblings = [
            {"rfilename": file.name, "size": file.stat().st_size, "blobId": blob(file)}
            | ({"lfs": {"sha256": sha256(file), "size": 1, "pointerSize": 1}} if big(file) else {})
            for file in sorted(folder.iterdir())
        ]
        body = {"id": f"test/{folder.name}", "sha": REVISION, "siblings": siblings}
        self._send(json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _tree(self, folder: Path) -> None:
        """The same as newer clients ask for it."""
        body = [
            {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": blob(file)}
            | ({"lfs": {"oid": sha256(file), "size": 1, "pointerSize": 1}} if big(file) else {})
            for file in sorted(folder.iterdir())
        ]
        self._send(json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _file(self, file: Path, wanted: str | None) -> None:
        begin = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        etag = sha256(file) if big(file) else blob(file)
        headers = {"X-Repo-Commit": REVISION, "ETag": f'"{etag}"'}
        self._send(file.read_bytes()[begin:], headers, 206 if wanted else 200)

    def _send(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.stalls and len(body) > 2**24:
            self.wfile.write(body[: len(body) * 3 // 4])
            self.server.stalled.set()
            self.server.goes_on.wait(60)
            return
        self.wfile.write(body)


def big(file: Path) -> bool:
    return file.suffix == ".safetensors"


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def blob(file: Path) -> str:
    content = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Host:
    """This machine as the host, and the controller with a pair of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.root, self.source, self.models = folder / "kit", folder / "source", folder / "models"
        self.play = folder / "play.yml"
        self.play.write_text(PLAY)
        shutil.copytree(ROOT / "models/tiny/target", self.source / "target")
        shutil.copytree(ROOT / "models/tiny/draft", self.source / "draft")
        (self.source / BIG).write_bytes(os.urandom(2**25))
        self._write("pairs", "tiny", {name: {"path": f"models/tiny/{name}"} for name in MODELS})
        self._write("pairs", "staged", {name: model(name) for name in MODELS})
        for profile, pair in (("cpu-tiny", "tiny"), ("cpu-staged", "staged")):
            self._write("profiles", profile, {"pair": pair}, "cpu-tiny")

    def _write(self, kind: str, name: str, changes: dict[str, object], like: str = "tiny") -> None:
        content = yaml.safe_load((ROOT / f"images/{kind}/{like}.yaml").read_text())
        file = self.root / f"images/{kind}/{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(content | changes | {"name": name}))

    def command(self, **variables: object) -> list[str]:
        variables = {
            "weights_profile": "cpu-staged",
            "weights_models": str(self.models),
            "weights_image": IMAGE,
            "weights_space_spare": 0,
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            **variables,
        }
        program = str(KIT.with_name("ansible-playbook"))
        return [program, "-i", "localhost,", str(self.play), "-e", json.dumps(variables)]

    def environment(self) -> dict[str, str]:
        return os.environ | {"DFLASH_KIT_ROOT": str(self.root)}

    def stage(self, *options: str, **variables: object) -> str:
        """The output in one line, since Ansible breaks it anywhere; also that of a failure."""
        done = subprocess.run(
            [*self.command(**variables), *options],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
        )
        return " ".join((done.stdout + done.stderr).split())

    def is_whole(self) -> bool:
        return all(
            (self.models / path).read_bytes() == (self.source / path).read_bytes()
            for path in (BIG, "target/config.json", "draft/model.safetensors")
        )


MODELS = ("target", "draft")


def model(name: str) -> dict[str, object]:
    repository = f"test/{name}"
    return {"path": f"/models/{name}", "repository": repository, "revision": REVISION, "gib": 0.02}


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("weights"))
    (host.root / "Dockerfile").write_text(
        f"FROM {image()}\nCOPY --chmod=0755 images /opt/dflash-kit/images\n"
    )
    build = ["docker", "buildx", "--builder", "default", "build", "--quiet", "--load"]
    subprocess.run([*build, "--tag", IMAGE, str(host.root)], check=True, capture_output=True)
    yield host
    docker.from_env().images.remove(IMAGE, force=True)


@pytest.fixture
def host(staging: Host) -> Host:
    shutil.rmtree(staging.models, ignore_errors=True)
    return staging


@pytest.fixture
def hub(staging: Host) -> Iterator[Hub]:
    gateway = docker.from_env().networks.get("bridge").attrs["IPAM"]["Config"][0]["Gateway"]
    hub = Hub(staging.source, gateway)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    yield hub
    hub.goes_on.set()
    hub.shutdown()
    hub.server_close()
    for left in docker.from_env().containers.list(all=True, filters={"name": CONTAINER}):
        left.remove(force=True)


def test_pair_of_the_image_needs_nothing(host: Host) -> None:
    out = host.stage(weights_profile="cpu-tiny", weights_image="no/such:image")
    assert "failed=0" in out and "changed=0" in out, out
    assert not host.models.exists()


def test_from_the_hub_resumed_and_repaired(host: Host, hub: Hub) -> None:
    given = {"weights_token": TOKEN, "weights_environment": {"HF_ENDPOINT": hub.url}}
    hub.stalls = True
    killed = subprocess.Popen(
        host.command(**given), cwd=ROOT, env=host.environment(), stdout=subprocess.PIPE, text=True
    )
    assert hub.stalled.wait(60)
    container = docker.from_env().containers.get(CONTAINER)
    assert TOKEN not in json.dumps(container.attrs)
    until_written(host.models / "target", 2**23)
    container.kill()
    whole, begun = [file.name for file in (host.models / "target").glob("*.*")], len(hub.asked)
    assert whole
    out = killed.communicate()[0]
    assert "failed=1" in out and TOKEN not in out, out
    assert not TOKEN_FILE.exists()
    assert not (host.models / "target/.dflash-kit/manifest.json").exists()

    hub.stalls = False
    out = host.stage(**given)
    assert "failed=0" in out and host.is_whole(), out
    # Nothing that was whole came again, and nothing is left of what was not.
    asked = [path for command, path, *_ in hub.asked[begun:] if command == "GET"]
    assert [path for path in asked if path.endswith(tuple(whole)) and "target" in path] == []
    assert list((host.models / "target").rglob("*.incomplete")) == []
    ours = {authorization for _, path, authorization, _ in hub.asked if "/test/" in path}
    assert ours == {f"Bearer {TOKEN}"}

    asked = len(hub.asked)
    out = host.stage(**given)
    assert "failed=0" in out and "changed=0" in out and len(hub.asked) == asked, out

    os.truncate(host.models / BIG, 1000)
    out = host.stage(**given)
    assert f"{BIG}: got 1000 bytes, wanted {2**25}" in out
    assert "failed=0" in out and host.is_whole(), out


def until_written(folder: Path, size: int) -> None:
    """Wait until a file of at least `size` bytes is among those that the client has begun."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        begun = folder.glob(".cache/huggingface/download/*.incomplete")
        if any(file.stat().st_size >= size for file in begun):
            return
        time.sleep(0.1)
    raise AssertionError(sorted(folder.rglob("*")))


def test_from_a_folder_and_repaired(host: Host) -> None:
    out = host.stage(weights_source=str(host.source))
    assert f"weights manifest {host.source}/target --repository test/target" in out
    assert "failed=1" in out and not host.models.exists()
    for name in MODELS:
        origin = ["--repository", f"test/{name}", "--revision", REVISION]
        subprocess.run([KIT, "weights", "manifest", host.source / name, *origin], check=True)

    out = host.stage("--check", weights_source=str(host.source))
    assert "would come" in out and not host.models.exists(), out
    out = host.stage(weights_source=str(host.source), weights_space_spare=10**18)
    assert "next: free some" in out and not host.models.exists(), out

    out = host.stage(weights_source=str(host.source))
    assert "failed=0" in out and host.is_whole(), out

    file = host.models / BIG
    times = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"rot")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    out = host.stage(weights_source="host")
    assert "failed=1" in out and f"{file}: got sha256 " in out, out
    out = host.stage(weights_source=str(host.source))
    assert "failed=0" in out and host.is_whole(), out
