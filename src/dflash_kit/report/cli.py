"""`dflash-kit report`: a page and a table from receipts, and what two of them differ in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.report import collect, diff, text
from dflash_kit.report.collect import Fleet, History
from dflash_kit.smoke.receipt import Receipt
from dflash_kit.verdicts import EXIT_CODES

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class PageByDefault(TyperGroup):
    """`report [RECEIPTS]` is `report page [RECEIPTS]`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {*self.commands, "--help"}
        return super().parse_args(ctx, args if args and args[0] in known else ["page", *args])


app = typer.Typer(cls=PageByDefault, no_args_is_help=False)


@app.command()
def page(
    receipts: Annotated[
        list[Path] | None,
        typer.Argument(help="Receipts, or folders of them; default: build/receipts."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The page; default: build/report/index.html.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Folder for the plots as pictures, to be sent.")
    ] = None,
    text_only: Annotated[bool, typer.Option("--text", help="The table alone, no page.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON alone, no page.")] = False,
) -> None:
    """What runs where, how fast, and what to do: a page and a table; exit 2 for a bad receipt."""
    if (text_only or as_json) and (out or png):
        raise InputError("report: got --text or --json with --out or --png, wanted one of them")
    fleet = collect.fleet(receipts or [paths.ROOT / "build" / "receipts"])
    if as_json:
        print(json.dumps(as_plain(fleet), indent=2))
    else:
        text.show_fleet(Console(highlight=False), fleet)
    if not (text_only or as_json):
        write_page(fleet, out or paths.ROOT / "build" / "report" / "index.html", png)
    if fleet.refused:
        raise InputError(
            f"report: {len(fleet.refused)} of the files are no receipts to be believed, see above; "
            "remove them, or run the smoke test again"
        )


def write_page(fleet: Fleet, out: Path, png: Path | None) -> None:
    """The page, and the pictures where a folder for them is named."""
    try:
        from dflash_kit.report import page as html  # only here: matplotlib is heavy
        from dflash_kit.report import plots
    except ImportError as error:
        raise InputError(
            f"report: needs {error.name}: pip install 'dflash-kit[report]', or report --text"
        ) from None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(html.render(fleet), encoding="utf-8")
        typer.echo(f"page: {out}", err=True)
        if png:
            png.mkdir(parents=True, exist_ok=True)
            for file in plots.write_pictures(fleet, png):
                typer.echo(f"picture: {file}", err=True)
    except OSError as error:
        raise InputError(f"report {error.filename}: cannot be written: {error.strerror}") from None


def as_plain(fleet: Fleet) -> dict[str, Any]:
    """For JSON."""
    return {"hosts": [_host(host) for host in fleet.hosts], "refused": list(fleet.refused)}


def _host(host: History) -> dict[str, Any]:
    receipt = host.newest.receipt
    return {
        "host": host.host,
        "deployment": host.newest.deployment,
        "release": receipt.release,
        "image": receipt.image,
        "verdict": receipt.verdict,
        "accept_length": host.accept_length,
        "tok_s": host.speeds,
        "since": host.since.isoformat(),
        "receipts": len(host.runs),
        "trouble": [check.model_dump(mode="json") for check in host.newest.trouble],
    }


@app.command("diff")
def show_diff(a: Path, b: Path, as_json: AsJson = False) -> None:
    """From receipt A to B: exit 0 B is not worse, 1 it is, 3 it no longer proves what A did."""
    runs = collect.read(a), collect.read(b)
    found = diff.compare(*(run.receipt for run in runs))
    if as_json:
        print(json.dumps(diff.as_plain(found), indent=2))
    else:
        names = tuple(f"{x.host}: {x.deployment}, {x.time:%Y-%m-%d %H:%M} UTC" for x in runs)
        text.show_diff(Console(highlight=False), found, (names[0], names[1]))
    raise typer.Exit(EXIT_CODES[found.verdict])


@app.command()
def schema() -> None:
    """The receipt's JSON schema, as docs/receipt.schema.json has it."""
    print(receipt_schema(), end="")


def receipt_schema() -> str:
    """What a written receipt looks like, for readers other than this kit."""
    made = Receipt.model_json_schema(mode="serialization")
    return (
        json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **made}, indent=2)
        + "\n"
    )
