"""The profile of this machine, served and proven by the kit's own commands, without Docker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from release import Release
from trees import PATCHED

from dflash_kit import paths
from dflash_kit.smoke.container import INSPECT, LOG

_KIT = (sys.executable, "-c", "from dflash_kit.cli import main; main()")
_STOP_SECONDS = 60


class Service:
    """`dflash-kit serve` over the patched tree, in a root laid out as in an image."""

    def __init__(self, release: Release, work: Path) -> None:
        self.root, self.log, self.facts = work / "root", work / "serve.log", work / "facts"
        self.root.mkdir()
        self.facts.mkdir()
        (self.facts / LOG).symlink_to(self.log)
        for name in ("images", "models", "smoke_tests"):
            shutil.copytree(paths.ROOT / name, self.root / name)
        # Beside these `serve` and `smoke` hold the engine to the release, as they do in an image.
        for name in ("patches.json", "tree.sha256"):
            shutil.copy(release.trees / name, self.root)
        self.environment = release.environment(PATCHED) | {
            "DFLASH_KIT_ROOT": str(self.root),
            "DFLASH_KIT_KEYS": str(work / "keys"),
            "DFLASH_KIT_RUN": str(work / "run"),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def profile(self) -> str | None:
        """The profile made for this machine's GPUs; None where there is none."""
        done = self.kit("profile", "detect", "--json")
        return str(json.loads(done.stdout)["profile"]) if done.returncode == 0 else None

    def kit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the kit's commands to its end."""
        return subprocess.run(
            [*_KIT, *arguments], env=self.environment, capture_output=True, text=True
        )

    def start(self, *arguments: str) -> None:
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*_KIT, "serve", *arguments],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # What docker would say of a container: with it smoke sees the log and the processes.
        state = {"Running": True, "StartedAt": "once", "Pid": self.process.pid}
        said = {"Id": str(self.process.pid), "Image": "none", "RestartCount": 0, "State": state}
        (self.facts / INSPECT).write_text(json.dumps([said]))

    def wait(self, seconds: float = 300) -> float:
        """Seconds until the kit says that it generated a token; RuntimeError where it does not."""
        assert self.process is not None
        begun = time.monotonic()
        while time.monotonic() - begun < seconds and self.process.poll() is None:
            if "dflash-kit: ready:" in self.log.read_text(errors="replace"):
                return round(time.monotonic() - begun, 1)
            time.sleep(0.5)
        self.stop()
        raise RuntimeError(f"serve: not ready:\n{self.log.read_text(errors='replace')[-3000:]}")

    def smoke(self, url: str) -> dict[str, Any]:
        """The receipt of a smoke run; RuntimeError where there is none."""
        done = self.kit("smoke", "--url", url, "--container-facts", str(self.facts), "--json")
        try:
            receipt: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise RuntimeError(f"smoke: no receipt:\n{done.stderr[-2000:]}") from None
        return receipt

    def stop(self) -> int:
        """The exit code of `serve` after a SIGTERM, as Docker would stop it; -9 where killed."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()
