"""What the commands of `dflash-kit release` share: options, and how they print."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dflash_kit import paths

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def wheel_folder() -> Path:
    """Where upstream wheels are kept."""
    return paths.ROOT / "build" / "wheels"


def short(text: str | Path) -> str:
    """Paths below the root are read more easily without it."""
    return str(text).replace(f"{paths.ROOT}/", "")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
