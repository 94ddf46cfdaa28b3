"""What an operator and an attacker can see of a running engine."""

import json
import subprocess
from pathlib import Path

import pytest
import requests

from tests.e2e.node import ROOT, Node, image


def test_compose_file_is_clean(node: Node) -> None:
    assert node.compose("config", "--quiet").stderr == ""


def test_chat_answers_with_the_user_key_only(node: Node) -> None:
    answer = node.chat(node.headers())
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["finish_reason"] == "stop"
    assert node.chat({"Authorization": "Bearer wrong"}).status_code == 401
    assert node.chat({}).status_code == 401


def test_no_key_is_seen_anywhere(node: Node, tmp_path: Path) -> None:
    receipt = tmp_path / "receipt.json"
    node.run(ROOT / ".venv/bin/dflash-kit", "smoke", "--url", node.url, "--receipt", receipt)
    container = node.container
    seen = {
        "docker inspect": json.dumps(container.attrs),
        "docker top": json.dumps(container.top()),
        "ps on the host": subprocess.run(
            ["ps", "axeww"], capture_output=True, text=True, check=True
        ).stdout,
        "docker logs": container.logs().decode(),
        "/server_info": node.get("/server_info").text,
        "/get_server_info": node.get("/get_server_info").text,
        "docker history": json.dumps(container.image.history()),
        "the receipt": receipt.read_text(),
    }
    for name in ("user", "admin"):
        key = node.key(name)
        assert len(key) >= 32
        leaks = [place for place, text in seen.items() if key in text]
        assert leaks == [], f"the {name} key is seen in {leaks}"


def test_administration_needs_the_admin_key(node: Node) -> None:
    def flush(name: str) -> int:
        headers = node.headers(name)
        return requests.post(f"{node.url}/flush_cache", headers=headers, timeout=30).status_code

    assert flush("user") == 401
    assert flush("admin") == 200


def test_container_is_hardened(node: Node) -> None:
    attrs = node.container.attrs
    host = attrs["HostConfig"]
    assert attrs["Config"]["User"] == "10001:10001"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["Privileged"] is False
    assert host["LogConfig"]["Config"] == {"max-file": "3", "max-size": "10m"}
    inside = node.compose(
        "exec",
        "-T",
        "engine",
        "sh",
        "-c",
        "id -u; touch /opt/x 2>&1; grep -i capeff /proc/1/status",
    ).stdout
    assert inside.splitlines()[0] == "10001"
    assert "Read-only file system" in inside
    assert "CapEff:\t0000000000000000" in inside


def test_only_the_published_port_listens(node: Node) -> None:
    bindings = node.container.attrs["NetworkSettings"]["Ports"]
    assert bindings == {
        "30000/tcp": [{"HostIp": "127.0.0.1", "HostPort": node.url.rpartition(":")[2]}]
    }


def test_smoke_from_inside_the_image(node: Node) -> None:
    done = node.compose("run", "--rm", "--quiet-pull", "smoke", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this host has a GPU")
def test_gpu_service_cannot_start_by_accident(node: Node, tmp_path: Path) -> None:
    assert node.compose("config", "--services").stdout.split() == ["engine"]
    # An image that is here, so that nothing but the missing GPU can be the reason.
    override = tmp_path / "override.yml"
    override.write_text(f"services: {{engine-gpu: {{image: '{image()}', ports: !reset []}}}}")
    files = ("--file", "docker-compose.yml", "--file", str(override))
    done = node.compose(*files, "up", "--detach", "engine-gpu", check=False)
    node.compose(*files, "rm", "--force", "--stop", "engine-gpu")
    assert done.returncode != 0
    assert "could not select device driver" in done.stderr
