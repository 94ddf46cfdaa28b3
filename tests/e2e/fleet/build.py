"""The images of the fleet's machines, built of Debian's packages and of Docker's own programs."""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.e2e.node import KIT, ROOT

HERE = Path(__file__).parent
HOST_IMAGE = "dflash-kit/fleet-host:test"
REGISTRY_IMAGE = "dflash-kit/fleet-registry:test"
_ENGINE = ROOT / ".docker" / "engine"
_PROGRAMS = (
    "bin/dockerd",
    "bin/docker-proxy",
    "bin/containerd",
    "bin/containerd-shim-runc-v2",
    "client/docker",
    "plugins/docker-compose",
)
# Also where this machine's own Docker is used: its programs need not run in a Debian container.
_FETCH = """
set -Eeuo pipefail
. scripts/lib/common.sh
. scripts/lib/fetch.sh
need_commands skopeo=skopeo zstd=zstd ssh=openssh-client
mkdir -p "$HOME_DIR"
fetch_engine
"""


def build_machines() -> None:
    """Build both images; seconds where they are built already, or another process builds them."""
    programs = ROOT / "build" / "fleet-engine"
    programs.mkdir(parents=True, exist_ok=True)
    with (programs / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build_machines(programs)


def _build_machines(programs: Path) -> None:
    run("bash", "-c", _FETCH)
    for name in _PROGRAMS:
        source, target = (_ENGINE / name).resolve(), programs / Path(name).name
        if not target.exists():
            shutil.copy(source, target)
    base = run(str(ROOT / "scripts" / "base-image"), base_of_default_release())
    arguments = ["--build-arg", f"BASE={base}", "--load", "--quiet"]
    for folder, image in (("host", HOST_IMAGE), ("registry", REGISTRY_IMAGE)):
        context = ["--build-context", f"engine={programs}"] if folder == "host" else []
        build(*arguments, *context, "--tag", image, str(HERE / folder))


def base_of_default_release() -> str:
    return str(json.loads(run(str(KIT), "release", "show", "--json"))["base"])


def build(*arguments: str, stdin: str = "") -> str:
    """`docker buildx build` with the engine's own builder, the one that knows local images."""
    return run("docker", "buildx", "--builder", "default", "build", *arguments, stdin=stdin)


def run(*command: str, stdin: str = "", **environment: str) -> str:
    """What a command prints; all that it said where it fails."""
    done = subprocess.run(
        command,
        input=stdin,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
    return done.stdout.strip()
