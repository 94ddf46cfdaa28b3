"""`dflash-kit serve` and `dflash-kit keys`."""

import json
from typing import Annotated

import typer

from dflash_kit.engine import keys
from dflash_kit.engine.config import DEFAULT_POINT
from dflash_kit.errors import InputError

keys_app = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@keys_app.callback()
def _keys() -> None:
    """The user key and the admin key."""


@keys_app.command()
def show(
    role: Annotated[str, typer.Argument(help="user or admin.")] = keys.USER,
    as_json: AsJson = False,
) -> None:
    """Print one key: the user key, or the admin key for administrative endpoints."""
    if role not in keys.ROLES:
        raise InputError(f"keys: got {role!r}, wanted one of: {', '.join(keys.ROLES)}")
    key = keys.read_key(keys.keys_dir(), role)
    print(json.dumps({"role": role, "key": key}) if as_json else key)


def serve(
    profile: Annotated[
        str | None,
        typer.Option(envvar="DFLASH_KIT_PROFILE", help="Detected where left out."),
    ] = None,
    point: Annotated[
        str, typer.Option(envvar="DFLASH_KIT_POINT", help="latency or throughput.")
    ] = DEFAULT_POINT,
    port: Annotated[int | None, typer.Option(help="Instead of the profile's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Run the engine: check everything, start it, pass signals on, end it when it hangs."""
    # Only here: the other commands do without what it imports.
    from dflash_kit.engine.serve import run

    raise typer.Exit(run(profile, point, port, as_json))


def prewarm(
    profile: Annotated[
        str | None,
        typer.Option(envvar="DFLASH_KIT_PROFILE", help="Detected where left out."),
    ] = None,
) -> None:
    """Compile what PROFILE's engine would compile at its first use, into the cache it will use."""
    from dflash_kit.engine.prewarm import run

    run(profile)
