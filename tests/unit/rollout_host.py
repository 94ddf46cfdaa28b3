"""A host as the module dflash_kit_host reads it, with deployments that the kit itself planned."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from dflash_kit.profiles.load import load_profile
from dflash_kit.rollout import inputs, state
from dflash_kit.rollout.images import Image
from dflash_kit.rollout.plan import Plan, make_plan
from dflash_kit.smoke.receipt import Receipt, to_json
from dflash_kit.verdicts import Record, Verdict

PROFILE = load_profile("cpu-tiny")
OPTIONS = inputs.load_options()
RELEASE = "0.5.11-dflash.1"
FOLDER = "/opt/dflash-kit/deployments"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def image(digits: str = "a" * 64, release: str = RELEASE) -> Image:
    """An image of the cpu variant whose digest is those digits."""
    return Image(
        tag=f"dflash-kit/engine:{release}-cpu-{digits[:12]}",
        ids=(f"sha256:{digits}",),
        source="docker",
        reference=f"dflash-kit/engine:{release}-cpu",
        sha256="",
        bytes=0,
        labels={"io.dflash-kit.release": release},
    )


def plan(
    point: str = "latency", digits: str = "a" * 64, release: str = RELEASE, **settings: Any
) -> Plan:
    """The plan for cpu-tiny, with the defaults but for `settings`."""
    values = inputs.settings(settings, OPTIONS)
    return make_plan(PROFILE, point, image(digits, release), values)


def receipt(minutes: float = 0, verdict: Verdict = Verdict.PASS, **changes: Any) -> str:
    """A receipt from so many minutes after noon, of no deployment in particular."""
    check = Record(code="can-generate", verdict=verdict, measured="-", wanted="-")
    made = to_json(
        Receipt(
            time=NOON + timedelta(minutes=minutes),
            url="http://engine:30000",
            release=RELEASE,
            profile="cpu-tiny",
            point="latency",
            identity={},
            engine={},
            seconds=1,
            figures={"accept_length": 7.4, "tok_s_c1": 120.0},
            required=[check.code],
            checks=[check],
            verdict=verdict,
        )
    )
    return json.dumps(json.loads(made) | changes)


def container(deployment: str, **changes: Any) -> dict[str, Any]:
    """`docker inspect` of a healthy engine's container, its ID "c1", but for `changes`."""
    inspected = {
        "Id": "c1",
        "Image": "sha256:" + "a" * 64,
        "State": {
            "Running": True,
            "Status": "running",
            "StartedAt": "2026-05-01T11:00:00.5Z",
            "Health": {"Status": "healthy"},
        },
        "Config": {
            "Hostname": "c1",
            "Image": "dflash-kit/engine:x",
            "Env": ["DFLASH_KIT_PROFILE=cpu-tiny"],
            "Labels": {
                "com.docker.compose.service": "engine",
                "com.docker.compose.project.working_dir": f"{FOLDER}/{deployment}",
                "io.dflash-kit.patches": "a.patch,b.patch",
            },
        },
        "HostConfig": {"Memory": 4 << 30, "CapDrop": ["ALL"]},
        "Mounts": [],
    }
    return inspected | changes


class RawHost:
    """Builds what state.read takes."""

    def __init__(self) -> None:
        self.raw: dict[str, Any] = {
            "current": None,
            "last_good": None,
            "lock": None,
            "deployments": {},
            "containers": [],
        }

    def place(self, plan: Plan, receipt: str | None = None) -> "RawHost":
        """Its files on the host, as render leaves them, with a receipt of a smoke run."""
        self.raw["deployments"][plan.deployment.id] = {**plan.files, "receipt.json": receipt}
        return self

    def serve(self, plan: Plan, minutes: float = 0) -> "RawHost":
        """It is in service: current, running, proved and last good."""
        name = plan.deployment.id
        self.place(plan, receipt(minutes))
        self.raw["current"] = self.raw["last_good"] = name
        self.raw["containers"] = [container(name)]
        smoked = state.Container.from_inspect(container(name))
        self.files(name)["container.json"] = smoked.as_json()
        return self

    def files(self, name: str) -> dict[str, str | None]:
        files: dict[str, str | None] = self.raw["deployments"][name]
        return files

    @property
    def container(self) -> dict[str, Any]:
        found: dict[str, Any] = self.raw["containers"][0]
        return found

    def read(self) -> state.HostState:
        # As it comes from another machine: nothing is shared with this object.
        return state.read(json.loads(json.dumps(self.raw)))


def stopped(inspected: dict[str, Any]) -> None:
    """The container as it is after `docker stop`."""
    inspected["State"] = {
        "Running": False,
        "Status": "exited",
        "StartedAt": "2026-05-01T11:00:00Z",
        "Health": {"Status": "unhealthy"},
    }
