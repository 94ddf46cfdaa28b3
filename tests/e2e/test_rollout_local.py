"""This machine without ssh: the same engine as `docker compose up`, proved."""

import subprocess
from pathlib import Path
from typing import Any

import docker

from tests.e2e.node import ROOT, Node

# Names and addresses, which have to differ.
OWN = {"Binds", "NetworkMode", "PortBindings"}


def test_local_inventory_makes_what_compose_makes(node: Node, tmp_path: Path) -> None:
    local = Node("dflash-kit-e2e-local", 30015)
    try:
        done = subprocess.run(
            [
                *(ROOT / ".venv/bin/ansible-playbook", "ansible/deploy.yml"),
                *("-e", f"dflash_kit_root={tmp_path}/kit", "-e", f"dflash_kit_port={local.port}"),
                *("-e", f"dflash_kit_project={local.project}", "-e", f"receipt_folder={tmp_path}"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 of 1 host run what was asked for, proved" in done.stdout
        made = docker.from_env().containers.get(f"{local.project}-engine-1").attrs
        assert decided(made) == decided(node.container.attrs)
        assert made["NetworkSettings"]["Ports"] == {
            "30000/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(local.port)}]
        }
    finally:
        local.down()


def decided(attrs: dict[str, Any]) -> dict[str, Any]:
    """What of a container decides how the engine runs in it."""
    host = {name: value for name, value in attrs["HostConfig"].items() if name not in OWN}
    config = {name: attrs["Config"][name] for name in ("User", "Cmd", "Entrypoint", "Healthcheck")}
    variables = [e for e in attrs["Config"]["Env"] if not e.startswith("DFLASH_KIT_P")]
    return {"image": attrs["Image"], "host": host, **config, "environment": sorted(variables)}
