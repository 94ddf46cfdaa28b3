"""`dflash-kit profile`: look at the profiles, and at what one of them would run."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dflash_kit.engine import config
from dflash_kit.errors import CheckFailed, Undetermined
from dflash_kit.host import source
from dflash_kit.host.facts import Host, Unknown
from dflash_kit.profiles.detect import (
    describe,
    describe_hardware,
    detect,
    here,
    names,
    refuse_unfit,
)
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
    release: Annotated[
        str | None, typer.Option(help="For which release; default: this image's, or the default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The engine arguments and environment of a profile at a point, with the keys blacked out."""
    profile = load_profile(name) if name else detect(names(here()))
    pair = load_pair(profile.pair)
    rendered = config.render(profile, pair, point, config.REDACTED, release=release)
    if as_json:
        _print_json({"arguments": rendered.arguments, "environment": rendered.environment})
        return
    for argument, value in rendered.arguments.items():
        print(f"--{argument} {value}")
    for variable, value in rendered.environment.items():
        print(f"{variable}={value}")


@app.command("detect")
def detect_profile(
    captured: Annotated[
        Path | None, typer.Option("--from", help="collect.py's JSON, or a folder; default: here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The profile made for this host; refused where its GPUs cannot serve it."""
    host = Host(source.read(captured)) if captured else here()
    try:
        found = names(host)
    except Unknown as reason:
        raise Undetermined(f"GPU: {reason}") from None
    profile = detect(found)
    refuse_unfit(profile, host)
    if as_json:
        _print_json({"profile": profile.name, "found": found})
        return
    print(f"{profile.name} ({describe(found)})")


@app.command("plan")
def show_plan(
    name: Annotated[str, typer.Argument(help="The profile.")],
    point: Annotated[str, typer.Option(help="latency or throughput.")] = config.DEFAULT_POINT,
    acceptance: Annotated[
        float | None, typer.Option(help="Tokens a verify pass; default: the pair's floor.")
    ] = None,
    release: Annotated[str | None, typer.Option(help="Of which release.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it into this file (.png, .svg).")] = None,
    as_json: AsJson = False,
) -> None:
    """What one GPU's memory holds, how fast one user can be served, and when DFlash pays."""
    # Only here: the entrypoint of an image need not load them.
    from dflash_kit.profiles import plan, plan_plot

    made = plan.make_plan(load_profile(name), point, acceptance, release)
    if plot:
        plan_plot.draw(made, plot)
    if as_json:
        _print_json(made.as_json())
    else:
        _print_plan(made.as_json())
    if made.problems:
        raise CheckFailed(f"profile {name}: " + "; ".join(made.problems))


def _print_plan(made: dict[str, Any]) -> None:
    memory = Table("of one GPU", "GiB", box=None)
    for part, size in made["memory_gib"].items():
        memory.add_row(part, f"{size:.1f}")
    speed = Table(
        "all-reduce", "step ms", "tok/s", "DFlash ms", "DFlash tok/s", "break-even", box=None
    )
    for row in made["speed"]:
        cells = ("step_ms", "tok_s", "dflash_step_ms", "dflash_tok_s", "break_even")
        speed.add_row(row["all_reduce"], *(f"{row[cell]:g}" for cell in cells))
    console = Console(highlight=False)
    console.print(memory)
    target, draft = made["kv_bytes"].values()
    console.print(
        f"KV cache: {made['kv_tokens']} tokens, {target} bytes each of the target, "
        f"{draft} of the draft\n"
    )
    console.print(f"one user, at most, at an acceptance of {made['acceptance']:g}:")
    console.print(speed)


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted names."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}{key}.") if isinstance(item, dict) else {prefix + key: item}
    return flat
