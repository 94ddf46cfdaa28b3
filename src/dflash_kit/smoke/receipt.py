"""The receipt of a smoke run: the JSON record of what was checked, measured and judged."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.host import collect, parse
from dflash_kit.smoke.checks import Tier
from dflash_kit.smoke.speed import SpeedPoint
from dflash_kit.verdicts import Record, Verdict, overall

REDACTED = "<key>"
SCHEMA_VERSION = 2
_SMI_SECONDS = 10.0


class Host(BaseModel):
    """Where the smoke test itself ran; a rollout names the host, as in a container it has none."""

    name: str = Field(default_factory=lambda: os.environ.get("DFLASH_KIT_HOST") or platform.node())
    system: str = Field(default_factory=platform.platform)
    cpus: int = Field(default_factory=lambda: os.cpu_count() or 0)
    inside_image: bool = Field(default_factory=paths.PATCHES_FILE.exists)
    driver: str | None = None
    gpus: list[str] = []


def this_host(identity: dict[str, Any]) -> Host:
    """This host, with the GPUs that the engine's identity names: a smoke test out of the image
    sees none. Those of here where an engine names none."""
    if (gpus := identity.get("gpus")) and isinstance(gpus, list):
        driver = identity.get("driver")
        return Host(gpus=[str(name) for name in gpus], driver=str(driver) if driver else None)
    found = parse.gpus(collect.run(collect.COMMANDS["gpus"], _SMI_SECONDS)["stdout"])
    return Host(gpus=[gpu.name for gpu in found], driver=found[0].driver if found else None)


class Receipt(BaseModel):
    """One smoke run against one deployment.

    `identity` is what the engine reported of itself, `release` what it was held to; `deployment`
    and `image` are the rollout's id of it and the digest of its image, null where nobody said.
    `required` are the checks that the run had to answer. Figures are measured without a gate:
    tokens per second (`tok_s_c1`, `tok_s_c4`), `accept_length` in tokens per verify pass,
    `accept_rate` in 0..1. `accept_by_position` is the share of draft tokens accepted at each
    position, empty where the release does not report it. `metrics` is by how much the engine's
    counters moved during the run. A receipt of schema 1 has none of what schema 2 added.
    """

    schema_version: int = Field(default=SCHEMA_VERSION, ge=1, le=SCHEMA_VERSION)
    id: str = Field(default_factory=lambda: uuid4().hex)
    time: datetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    tier: Tier = Tier.QUICK
    url: str
    release: str
    profile: str | None
    point: str | None
    deployment: str | None = None
    image: str | None = None
    required: list[str] = []
    identity: dict[str, Any]
    engine: dict[str, Any]
    host: Host = Field(default_factory=Host)
    seconds: float
    figures: dict[str, FiniteFloat]
    speed: list[SpeedPoint] = []
    accept_by_position: list[Annotated[float, Field(ge=0, le=1)]] = []
    metrics: dict[str, FiniteFloat] = {}
    checks: list[Record]
    verdict: Verdict

    @property
    def names(self) -> tuple[str, str, str]:
        """Release, profile and point; unknown where an engine did not get to report them."""
        return self.release, self.profile or "unknown", self.point or "unknown"


def load(text: str | bytes, source: str | Path) -> Receipt:
    """The receipt in `text`, judged again; `source` names it in messages.

    Raises:
        InputError: it is no receipt of this kit, or it says more than its checks do.
    """
    try:
        receipt = Receipt.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        if where == "schema_version":
            raise InputError(
                f"receipt {source}: schema_version: got {first['input']!r}, wanted 1 to "
                f"{SCHEMA_VERSION}: read it with the kit that wrote it"
            ) from None
        raise InputError(f"receipt {source}: {where}: {first['msg']}") from None
    if lacks := shortcoming(receipt):
        raise InputError(f"receipt {source}: {lacks}; run the smoke test again")
    return receipt


def shortcoming(receipt: Receipt) -> str:
    """Why the checks in a receipt do not bear its verdict; empty if they do.

    Schema 1 had no list of required checks: its verdict is held to the checks that are there.
    """
    codes = [check.code for check in receipt.checks]
    if not codes:
        return "checks: got none: nothing was proved"
    if twice := sorted({code for code in codes if codes.count(code) > 1}):
        return f"checks: {', '.join(twice)}: more than once"
    if receipt.schema_version > 1 and not receipt.required:
        return "required: got no check, wanted those of its tier"
    if missing := [code for code in receipt.required if code not in codes]:
        return f"checks: {', '.join(missing)}: required and missing: a missing check is not a pass"
    verdicts = [check.verdict for check in receipt.checks]
    if receipt.verdict is Verdict.PASS and Verdict.PASS not in verdicts:
        return "verdict: got PASS, and no check passed"
    comes_to = overall(receipt.checks)
    if receipt.verdict is not comes_to:
        return f"verdict: got {receipt.verdict}, its checks come to {comes_to}"
    return ""


def redacted(receipt: Receipt, secrets: Iterable[str]) -> Receipt:
    """The receipt with no secret in any of its texts, whatever an engine answered."""
    clean: Receipt = _clean(receipt, tuple(secrets))
    return clean


def _clean(value: Any, secrets: tuple[str, ...]) -> Any:
    """`value` without secrets; names of fields and verdicts are ours and stay as they are."""
    if type(value) is str:
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return value.model_copy(update={x: _clean(getattr(value, x), secrets) for x in fields})
    if isinstance(value, dict):
        return {_clean(key, secrets): _clean(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, secrets) for item in value]
    return value


def to_json(receipt: Receipt) -> str:
    """The receipt as JSON text, its last line ended."""
    return receipt.model_dump_json(indent=2) + "\n"


def default_path(receipt: Receipt) -> Path | None:
    """build/receipts/<release>-<profile>-<point>-<utc>.json; None inside an image (read-only)."""
    if receipt.host.inside_image:
        return None
    name = "-".join([*receipt.names, f"{receipt.time:%Y%m%dT%H%M%SZ}.json"])
    return paths.ROOT / "build" / "receipts" / name


def write(path: Path, text: str) -> None:
    """Write a receipt in one step, its folder included: no reader ever sees half of it.

    Raises:
        InputError: the path cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_text(text)  # a device or a pipe is written to, never replaced
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise InputError(
            f"receipt {path}: cannot be written ({error.strerror}); give --receipt another path"
        ) from error


def _replace(file: Path, text: str) -> None:
    scratch = file.with_name(f".{file.name}.{uuid4().hex[:8]}")
    try:
        scratch.write_text(text)
        os.replace(scratch, file)
    finally:
        scratch.unlink(missing_ok=True)
