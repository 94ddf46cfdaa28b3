"""`dflash-kit preflight`: judge a host, or what was captured on one."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dflash_kit.errors import InputError
from dflash_kit.host import collect, deep, source
from dflash_kit.host.preflight import judge
from dflash_kit.profiles.load import load_profile
from dflash_kit.verdict_table import coloured, counted, show_records
from dflash_kit.verdicts import EXIT_CODES, overall


def preflight(
    profile: Annotated[
        str, typer.Option(envvar="DFLASH_KIT_PROFILE", help="Profile to be deployed.")
    ] = "",
    captured: Annotated[
        Path | None,
        typer.Option("--from", help="collect.py's JSON, or a folder of outputs; default: here."),
    ] = None,
    demote: Annotated[
        list[str] | None, typer.Option(help="A check that shall only warn; may be repeated.")
    ] = None,
    registry: Annotated[str, typer.Option(help="Host name that images are pulled from.")] = "",
    weights: Annotated[str, typer.Option(help="Folder that the weights lie in, or will.")] = "",
    port: Annotated[int, typer.Option(help="Port to publish; default: the profile's.")] = 0,
    is_deep: Annotated[
        bool, typer.Option("--deep", help="Instead: data through all GPUs, out of the image.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Can this host take PROFILE? Exit 0 yes, 1 a check failed, 3 one could not be judged."""
    if not profile:
        raise InputError("--profile: missing, wanted the profile to be deployed (profile list)")
    if captured and (registry or weights or port):
        raise InputError("--from: goes with none of --registry, --weights, --port: they were asked")
    wanted = load_profile(profile)
    if is_deep and (captured or demote or wanted.hardware.count < 2):
        raise InputError("--deep: wanted a profile with several GPUs, and no --from or --demote")
    if is_deep:
        records = deep.records(wanted.hardware.count)
    else:
        facts = source.read(captured) if captured else collect.collect(registry, weights, port)
        records = judge(facts, wanted, demote or [])
    verdict = overall(records)
    if as_json:
        checks = [record.model_dump(mode="json", exclude={"seconds"}) for record in records]
        print(json.dumps({"profile": profile, "verdict": verdict, "checks": checks}, indent=2))
    else:
        console = Console(highlight=False)
        show_records(console, f"preflight {captured or 'this host'}", records)
        console.print(f"{profile}: {coloured(verdict)} ({counted(records)})")
    raise typer.Exit(EXIT_CODES[verdict])
