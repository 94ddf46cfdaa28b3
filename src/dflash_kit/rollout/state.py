"""What runs on a host, judged from what was read there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dflash_kit.errors import InputError
from dflash_kit.rollout import lock
from dflash_kit.rollout.plan import COMPOSE_FILE, DEPLOYMENT_FILE, ENVIRONMENT_FILE, Deployment
from dflash_kit.rollout.plan import fingerprint as files_fingerprint
from dflash_kit.smoke import receipt as receipts
from dflash_kit.smoke.receipt import Receipt
from dflash_kit.verdicts import Verdict

RECEIPT_FILE = "receipt.json"
# Written after a smoke run: the container that it was about.
CONTAINER_FILE = "container.json"
# Of `docker inspect`: what decides how a container behaves, and neither names nor times.
_SECTIONS = ("Image", "Config", "HostConfig", "Mounts")
_FOLDER_LABEL = "Config.Labels.com.docker.compose.project.working_dir"
_VOLATILE = {"Hostname", "MountLabel", "ProcessLabel"}


@dataclass(frozen=True)
class Container:
    """An engine's container: `behaviour` is what a hand may have changed, by dotted names."""

    id: str
    service: str
    image: str
    running: bool
    health: str
    started: str
    behaviour: dict[str, Any] = field(repr=False)

    @property
    def deployment(self) -> str:
        """The id of the deployment whose folder it was made from, as compose labels it."""
        return Path(str(self.behaviour.get(_FOLDER_LABEL, ""))).name

    @property
    def patches(self) -> list[str]:
        """The patches of its image, as the label names them."""
        label = str(self.behaviour.get("Config.Labels.io.dflash-kit.patches", ""))
        return label.split(",") if label else []

    @classmethod
    def from_inspect(cls, inspected: Mapping[str, Any]) -> Container:
        state = inspected["State"]
        return cls(
            id=inspected["Id"],
            service=inspected["Config"]["Labels"].get("com.docker.compose.service", ""),
            image=inspected["Config"]["Image"],
            running=bool(state["Running"]),
            health=(state.get("Health") or {}).get("Status", "none"),
            started=state["StartedAt"],
            behaviour=_flat({name: inspected.get(name) for name in _SECTIONS}),
        )

    def as_json(self) -> str:
        """The content of container.json."""
        return json.dumps({"id": self.id, "behaviour": self.behaviour}, sort_keys=True, indent=1)


@dataclass(frozen=True)
class Placed:
    """A deployment's folder on a host."""

    id: str
    deployment: Deployment | None
    receipt: Receipt | None
    container: dict[str, Any]
    intact: bool

    @property
    def passed(self) -> bool:
        return self.receipt is not None and self.receipt.verdict is Verdict.PASS


@dataclass(frozen=True)
class HostState:
    """All that a rollout knows of a host."""

    current: str | None
    last_good: str | None
    lock: str | None
    placed: dict[str, Placed]
    containers: list[Container]

    @property
    def engine(self) -> Container | None:
        """The container that runs, else any that is there."""
        ordered = sorted(self.containers, key=lambda container: not container.running)
        return ordered[0] if ordered else None

    @property
    def running(self) -> Deployment | None:
        """The deployment that `current` names; None where there is none, or no complete one."""
        placed = self.placed.get(self.current or "")
        return placed.deployment if placed else None


def read(raw: Mapping[str, Any]) -> HostState:
    """The state from what the module dflash_kit_host returned."""
    return HostState(
        current=raw["current"],
        last_good=raw["last_good"],
        lock=raw["lock"],
        placed={name: _placed(name, files) for name, files in raw["deployments"].items()},
        containers=[Container.from_inspect(item) for item in raw["containers"]],
    )


def drift(state: HostState) -> list[str]:
    """What was changed by hand since the last smoke run; each a line."""
    placed = state.placed.get(state.current or "")
    if placed is None or placed.deployment is None:
        return [f"current names {state.current}, which is no complete deployment"] * bool(
            state.current
        )
    lines = []
    if not placed.intact:
        lines.append(f"{COMPOSE_FILE} or {ENVIRONMENT_FILE} of {placed.id} was changed")
    engine = state.engine
    if engine is None:
        return [*lines, "no engine's container is there"]
    others = len(state.containers) - 1
    if others:
        lines.append(f"{others} other container(s) of the kit")
    recorded = placed.container
    if recorded and recorded.get("id") != engine.id:
        lines.append("the container is not the one that was smoked")
    behaviour = recorded.get("behaviour")
    if isinstance(behaviour, dict):
        lines += _differences(behaviour, engine.behaviour)
    return lines


def is_in_service(state: HostState, wanted: str) -> bool:
    """Whether `wanted` runs, generates, was proved and nobody touched it: nothing is to be done."""
    placed, engine = state.placed.get(wanted), state.engine
    return bool(
        state.current == state.last_good == wanted
        and placed
        and placed.passed
        and placed.container.get("id")
        and engine
        and engine.running
        and engine.health == "healthy"
        and not drift(state)
    )


def runs(state: HostState, wanted: Deployment) -> bool:
    """Whether the one engine there is was made for `wanted` and generates, or will; it may be
    unproved."""
    engine = state.engine
    return bool(
        engine
        and len(state.containers) == 1
        and state.current == wanted.id
        and engine.running
        and engine.health in ("healthy", "starting")
        and engine.deployment == wanted.id
    )


def ways_back(state: HostState, leaving: str) -> list[Deployment]:
    """Every deployment but `leaving` whose receipt passed, the newest first."""
    good = [
        (placed.receipt.time, placed.deployment)
        for placed in state.placed.values()
        if placed.deployment
        and placed.receipt
        and placed.passed
        and placed.intact
        and placed.id != leaving
    ]
    # All receipts are in UTC; one that was edited and lost its offset is no reason to end here.
    good.sort(key=lambda item: item[0].replace(tzinfo=None), reverse=True)
    return [deployment for _, deployment in good]


def summary(
    state: HostState,
    wanted: Deployment | None,
    withdrawn: Callable[[str], str] = lambda release: "",
    allow_withdrawn: bool = False,
) -> dict[str, Any]:
    """What the tasks of a rollout to `wanted` ask of a host, as plain values.

    withdrawn: a release -> why it is withdrawn, empty where it is not. No way leads back to one
    that is, but with `allow_withdrawn`.
    """
    current = state.placed.get(state.current or "")
    back = ways_back(state, wanted.id if wanted else "")
    barred = {} if allow_withdrawn else {d.id: withdrawn(d.release) for d in back}
    back = [deployment for deployment in back if not barred.get(deployment.id)]
    engine = state.engine
    return {
        "current": state.current or "",
        "last_good": state.last_good or "",
        "running": _plain(state.running),
        "in_service": wanted is not None and is_in_service(state, wanted.id),
        "runs": wanted is not None and runs(state, wanted),
        "recorded": bool(current and engine and current.container.get("id") == engine.id),
        "way_back": _plain(back[0]) if back else {},
        "proved_before": [_plain(deployment) for deployment in back],
        "barred": {name: why for name, why in barred.items() if why},
        "withdrawn": withdrawn(state.running.release) if state.running else "",
        "containers": [container.id for container in state.containers],
        "container": engine.as_json() if engine else "",
        "health": engine.health if engine and engine.running else "stopped" if engine else "none",
        "started": engine.started if engine else "",
        "patches": engine.patches if engine else [],
        "drift": drift(state),
        "figures": current.receipt.figures if current and current.receipt else {},
        "lock": lock.described(state.lock),
        "verdict": str(current.receipt.verdict) if current and current.receipt else "",
    }


def _plain(deployment: Deployment | None) -> dict[str, Any]:
    return deployment.model_dump(mode="json") if deployment else {}


def _placed(name: str, files: Mapping[str, str | None]) -> Placed:
    deployment: Deployment | None
    try:
        deployment = Deployment.model_validate_json(files.get(DEPLOYMENT_FILE) or "")
    except ValidationError:
        deployment = None
    if deployment and deployment.id != name:  # a folder that was copied or renamed
        deployment = None
    receipt = _receipt(files.get(RECEIPT_FILE) or "", deployment)
    texts = {part: files.get(part) for part in (COMPOSE_FILE, ENVIRONMENT_FILE)}
    whole = {part: text for part, text in texts.items() if text is not None}
    intact = len(whole) == len(texts) and name.endswith(f"-{files_fingerprint(whole)}")
    return Placed(name, deployment, receipt, _object(files.get(CONTAINER_FILE)), intact)


def _receipt(text: str, deployment: Deployment | None) -> Receipt | None:
    """The receipt, if its checks bear its verdict and it is about this deployment and its image."""
    try:
        receipt = receipts.load(text, RECEIPT_FILE)
    except InputError:
        return None
    if deployment and receipt.deployment not in (None, deployment.id):
        return None
    if deployment and receipt.image not in (None, deployment.config):
        return None
    return receipt


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _differences(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(recorded.keys() | found.keys()):
        if recorded.get(name) != found.get(name):
            yield f"{name}: got {_short(found.get(name))}, deployed {_short(recorded.get(name))}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one with dotted names, without what differs from run to run."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if key in _VOLATILE:
            continue
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{prefix}{key}.")
        else:
            flat[prefix + key] = item
    return flat
