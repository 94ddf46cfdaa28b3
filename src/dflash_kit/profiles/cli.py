"""`dflash-kit profile`: look at the profiles, and at what one of them would run."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dflash_kit.engine import config
from dflash_kit.profiles.detect import describe, describe_hardware, detect, gpus
from dflash_kit.profiles.load import load_pair, load_profile, profile_names

app = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


@app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """One line a profile: name, hardware, pair, summary."""
    profiles = [load_profile(name) for name in profile_names()]
    if as_json:
        _print_json([profile.model_dump() for profile in profiles])
        return
    table = Table("profile", "hardware", "pair", "summary", box=None)
    for profile in profiles:
        table.add_row(profile.name, describe_hardware(profile), profile.pair, profile.summary)
    Console().print(table)


@app.command()
def show(name: str, as_json: AsJson = False) -> None:
    """Everything that the profile NAME says, one line a fact."""
    profile = load_profile(name)
    if as_json:
        _print_json(profile.model_dump())
        return
    for key, value in _flat(profile.model_dump()).items():
        print(f"{key}: {value}")


@app.command()
def render(
    name: Annotated[str | None, typer.Argument(help="Detected where left out.")] = None,
    point: Annotated[str, typer.Option(help="latency or throughput.")] = config.DEFAULT_POINT,
    as_json: AsJson = False,
) -> None:
    """The engine arguments and environment of a profile at a point, with the keys blacked out."""
    profile = load_profile(name) if name else detect(gpus())
    rendered = config.render(profile, load_pair(profile.pair), point, config.REDACTED)
    if as_json:
        _print_json({"arguments": rendered.arguments, "environment": rendered.environment})
        return
    for argument, value in rendered.arguments.items():
        print(f"--{argument} {value}")
    for variable, value in rendered.environment.items():
        print(f"{variable}={value}")


@app.command("detect")
def detect_profile(as_json: AsJson = False) -> None:
    """The profile made for this host."""
    found = gpus()
    profile = detect(found)
    if as_json:
        _print_json({"profile": profile.name, "found": found})
        return
    print(f"{profile.name} ({describe(found)})")


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted names."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}{key}.") if isinstance(item, dict) else {prefix + key: item}
    return flat
