"""The receipt of a smoke run: the JSON record of what was checked, measured and judged."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, Field

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.verdicts import Record, Verdict

REDACTED = "<key>"


class Host(BaseModel):
    """Where the smoke test itself ran."""

    name: str = Field(default_factory=platform.node)
    system: str = Field(default_factory=platform.platform)
    cpus: int = Field(default_factory=lambda: os.cpu_count() or 0)
    inside_image: bool = Field(default_factory=paths.PATCHES_FILE.exists)


class Receipt(BaseModel):
    """One smoke run against one deployment.

    `identity` is what the engine reported of itself, `release` what it was held to. Figures are
    measured without a gate: tokens per second (`tok_s_c1`, `tok_s_c4`), `accept_length` in tokens
    per verify pass, `accept_rate` in 0..1.
    """

    schema_version: int = 1
    id: str = Field(default_factory=lambda: uuid4().hex)
    time: datetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    url: str
    release: str
    profile: str | None
    point: str | None
    identity: dict[str, Any]
    engine: dict[str, Any]
    host: Host = Field(default_factory=Host)
    seconds: float
    figures: dict[str, float]
    checks: list[Record]
    verdict: Verdict

    @property
    def deployment(self) -> tuple[str, str, str]:
        """Release, profile and point; unknown where an engine did not get to report them."""
        return self.release, self.profile or "unknown", self.point or "unknown"


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
    name = "-".join([*receipt.deployment, f"{receipt.time:%Y%m%dT%H%M%SZ}.json"])
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
