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
from dflash_kit.smoke import bench_serving, container, output, receipt
from dflash_kit.smoke.address import default_url
from dflash_kit.smoke.bench import Bench, load_dataset
from dflash_kit.smoke.checks import Tier
from dflash_kit.smoke.client import Engine, expect_reachable
from dflash_kit.smoke.credentials import expect_key_options, find_keys, image_of
from dflash_kit.smoke.receipt import Receipt
from dflash_kit.smoke.wanted import Wanted
from dflash_kit.verdicts import EXIT_CODES, Verdict

# What `smoke` and `bench` both ask for.
UrlOption = Annotated[
    str, typer.Option("--url", help="The engine; default: $DFLASH_KIT_BIND, port $DFLASH_KIT_PORT.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the receipt alone.")]
ReceiptOption = Annotated[Path | None, typer.Option("--receipt", help="Receipt's file.")]
KeyOption = Annotated[Path | None, typer.Option("--key-file", help="File with the user key.")]
AdminKeyOption = Annotated[
    Path | None, typer.Option("--admin-key-file", help="File with the admin key.")
]
ReleaseOption = Annotated[str, typer.Option("--release", help="Release to hold the engine to.")]
ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile", envvar="DFLASH_KIT_PROFILE", help="Profile that must run; default: any."
    ),
]
PointOption = Annotated[
    str,
    typer.Option("--point", envvar="DFLASH_KIT_POINT", help="Point that must run; default: any."),
]
DeploymentOption = Annotated[
    str,
    typer.Option(
        "--deployment",
        envvar="DFLASH_KIT_DEPLOYMENT",
        help="Id of the deployment, for the receipt.",
    ),
]
ImageOption = Annotated[
    str,
    typer.Option(
        "--image",
        envvar="DFLASH_KIT_IMAGE_DIGEST",
        help="Digest of the engine's image, for the receipt; default: as Docker says.",
    ),
]


def smoke(
    url: UrlOption = "",
    as_json: JsonOption = False,
    receipt_file: ReceiptOption = None,
    key_file: KeyOption = None,
    admin_key_file: AdminKeyOption = None,
    release: ReleaseOption = "",
    profile: ProfileOption = "",
    point: PointOption = "",
    deployment: DeploymentOption = "",
    image: ImageOption = "",
    tier: Annotated[Tier, typer.Option(help="How much to ask.")] = Tier.QUICK,
    hours: Annotated[
        float | None,
        typer.Option(help="How long the tier soak lasts; default: 1.", min=0.0001, max=1000),
    ] = None,
    container_name: Annotated[
        str,
        typer.Option(
            "--container", help="The engine's container; default: the one that publishes the port."
        ),
    ] = "",
    container_facts: Annotated[
        Path | None,
        typer.Option(
            envvar="DFLASH_KIT_CONTAINER_FACTS",
            help="Folder in which the role smoke put what docker says of it.",
        ),
    ] = None,
    outside: Annotated[
        bool,
        typer.Option("--outside", help="Skip what only the engine's host sees (log, processes)."),
    ] = False,
) -> None:
    """Check the engine in service; exit 0 all pass, 1 a check failed, 3 one could not be judged."""
    # Only here: the other commands do without pytest, and the engine's memory is not for it.
    from dflash_kit.smoke import runner

    if tier is Tier.BENCH:
        raise InputError("--tier: got bench, which is a command of its own: dflash-kit bench")
    if hours is not None and tier is not Tier.SOAK:
        raise InputError(f"--hours: goes with --tier soak, got --tier {tier}")
    wanted = held_to(release, profile, point, deployment)
    engine, wanted = reach(url, wanted, image, key_file, admin_key_file)
    watched = container.choose(engine.url, container_name, container_facts, outside)
    with output.live_line(engine.url, tier) as progress:
        result = runner.run(engine, wanted, progress, tier, container=watched, hours=hours or 1.0)
    finish(result, engine, as_json, receipt_file)


def bench(
    against: Annotated[
        Path | None,
        typer.Option(help="Earlier receipt of a bench here to compare with; /dev/stdin works."),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(help="ShareGPT-like file of prompts; default: the pair's known ones."),
    ] = None,
    url: UrlOption = "",
    as_json: JsonOption = False,
    receipt_file: ReceiptOption = None,
    key_file: KeyOption = None,
    admin_key_file: AdminKeyOption = None,
    release: ReleaseOption = "",
    profile: ProfileOption = "",
    point: PointOption = "",
    deployment: DeploymentOption = "",
    image: ImageOption = "",
) -> None:
    """Measure the engine in service, which nobody else should use then; exit codes as smoke's."""
    from dflash_kit.smoke import runner

    before = receipt.load(read(against, "--against"), against) if against else None
    prompts = load_dataset(dataset) if dataset else None
    wanted = held_to(release, profile, point, deployment)
    engine, wanted = reach(url, wanted, image, key_file, admin_key_file)
    command, inside = bench_serving.command(engine.url, engine.key_source)
    with (
        bench_serving.serving(command) as run,
        output.live_line(engine.url, Tier.BENCH) as progress,
    ):
        with_prompts = Bench(run, inside, prompts, before)
        result = runner.run(engine, wanted, progress, Tier.BENCH, with_prompts)
    finish(result, engine, as_json, receipt_file)


def held_to(release: str, profile: str, point: str, deployment: str) -> Wanted:
    """What the options hold an engine to; an empty one leaves it open."""
    lock = load_lock(release or default_release())
    return Wanted(lock, profile or None, point or None, deployment or None)


def reach(
    url: str, wanted: Wanted, image: str, key_file: Path | None, admin_key_file: Path | None
) -> tuple[Engine, Wanted]:
    """The engine with its keys, and what it is held to with the image that it runs out of.

    Raises:
        InputError, Undetermined: it cannot be asked.
    """
    url = url.rstrip("/") or default_url()
    expect_usable(url, wanted)
    expect_key_options(url, key_file, admin_key_file)
    expect_reachable(url)
    keys, source = find_keys(key_file, admin_key_file)
    return Engine(url, keys, source), replace(wanted, image=image or image_of(source))


def finish(result: Receipt, engine: Engine, as_json: bool, receipt_file: Path | None) -> None:
    """Show the receipt, write it, and end with the exit code of its verdict."""
    result = receipt.redacted(result, [engine.keys.user, engine.keys.admin])
    if as_json:
        typer.echo(receipt.to_json(result), nl=False)
    else:
        output.show(result)
    if path := receipt_file or receipt.default_path(result):
        write(path, result)
    raise typer.Exit(EXIT_CODES[result.verdict])


def read(file: Path, option: str) -> bytes:
    """The content of a file that an option names; InputError where it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{option} {file}: cannot be read: {error.strerror}") from None


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
