"""`dflash-kit smoke`: prove that the engine in service is the one that was built, and works."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args
from urllib.parse import urlsplit

import typer

from dflash_kit import paths
from dflash_kit.errors import CheckFailed, InputError
from dflash_kit.profiles.load import load_profile
from dflash_kit.profiles.models import PointName
from dflash_kit.releases import lockfile, series
from dflash_kit.releases.current import default_release
from dflash_kit.smoke import output, receipt
from dflash_kit.smoke.address import default_url
from dflash_kit.smoke.checks import Tier
from dflash_kit.smoke.client import Engine, expect_reachable
from dflash_kit.smoke.credentials import expect_key_options, find_keys, image_of
from dflash_kit.smoke.receipt import Receipt
from dflash_kit.smoke.wanted import Wanted
from dflash_kit.verdicts import EXIT_CODES, Verdict


def smoke(
    url: Annotated[
        str, typer.Option(help="The engine; default: $DFLASH_KIT_BIND, port $DFLASH_KIT_PORT.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the receipt alone.")] = False,
    receipt_file: Annotated[Path | None, typer.Option("--receipt", help="Receipt's file.")] = None,
    key_file: Annotated[Path | None, typer.Option(help="File with the user key.")] = None,
    admin_key_file: Annotated[Path | None, typer.Option(help="File with the admin key.")] = None,
    release: Annotated[str, typer.Option(help="Release to hold the engine to.")] = "",
    profile: Annotated[
        str,
        typer.Option(envvar="DFLASH_KIT_PROFILE", help="Profile that must run; default: any."),
    ] = "",
    point: Annotated[
        str, typer.Option(envvar="DFLASH_KIT_POINT", help="Point that must run; default: any.")
    ] = "",
    deployment: Annotated[
        str,
        typer.Option(envvar="DFLASH_KIT_DEPLOYMENT", help="Id of the deployment, for the receipt."),
    ] = "",
    image: Annotated[
        str,
        typer.Option(
            envvar="DFLASH_KIT_IMAGE_DIGEST",
            help="Digest of the engine's image, for the receipt; default: as Docker says.",
        ),
    ] = "",
    tier: Annotated[Tier, typer.Option(help="How much to ask.")] = Tier.QUICK,
) -> None:
    """Check the engine in service; exit 0 all pass, 1 a check failed, 3 one could not be judged."""
    # Only here: the other commands do without pytest, and the engine's memory is not for it.
    from dflash_kit.smoke import runner

    url = url.rstrip("/") or default_url()
    lock = load_lock(release or default_release())
    wanted = Wanted(lock, profile or None, point or None, deployment or None)
    expect_usable(url, wanted)
    expect_key_options(url, key_file, admin_key_file)
    expect_reachable(url)
    keys, source = find_keys(key_file, admin_key_file)
    wanted = replace(wanted, image=image or image_of(source))
    with output.live_line(url, tier) as progress:
        result = runner.run(Engine(url, keys, source), wanted, progress, tier)
    result = receipt.redacted(result, [keys.user, keys.admin])
    if as_json:
        typer.echo(receipt.to_json(result), nl=False)
    else:
        output.show(result)
    if path := receipt_file or receipt.default_path(result):
        write(path, result)
    raise typer.Exit(EXIT_CODES[result.verdict])


def write(path: Path, result: Receipt) -> None:
    """Write the receipt and say where; CheckFailed where neither it nor the engine is well."""
    try:
        receipt.write(path, receipt.to_json(result))
    except InputError as error:
        if result.verdict is Verdict.FAIL:  # the worse news of the two
            raise CheckFailed(str(error)) from None
        raise
    typer.echo(f"receipt: {path}", err=True)


def load_lock(release: str) -> lockfile.Lock:
    """The lock of a release; InputError where there is none."""
    try:
        return lockfile.read(paths.IMAGES / release)
    except series.ReleaseError as error:
        raise InputError(f"--release: {error}") from None


def expect_usable(url: str, wanted: Wanted) -> None:
    """Refuse, before anything is asked, what cannot be right.

    Raises:
        InputError: the URL's scheme, the profile or its point.
    """
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not host or not url.startswith(("http://", "https://")):
        raise InputError(f"--url: got {url!r}, wanted http://HOST:PORT")
    points = load_profile(wanted.profile).points if wanted.profile else get_args(PointName)
    if wanted.point and wanted.point not in points:
        known = ", ".join(points)
        raise InputError(f"--point: got {wanted.point!r}, wanted one of: {known}")
