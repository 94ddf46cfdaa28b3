"""The `dflash-kit` command: one sub-application a concern, one place that turns errors to lines."""

import sys

import typer

from dflash_kit.engine.cli import keys_app, serve
from dflash_kit.errors import KitError
from dflash_kit.profiles.cli import app as profile_app
from dflash_kit.releases.cli import app as release_app
from dflash_kit.smoke.cli import smoke

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help=__doc__,
)
app.add_typer(release_app, name="release", help="Releases of the patched engine.")
app.add_typer(profile_app, name="profile", help="Configurations, one a kind of host.")
app.add_typer(keys_app, name="keys", help="The user key and the admin key.")
app.command()(serve)
app.command()(smoke)


def main() -> None:
    """Run the command line; a KitError becomes one line on stderr and its exit code."""
    try:
        app()
    except KitError as error:
        print(f"dflash-kit: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
