"""The `dflash-kit` command: one sub-application a concern, one place that turns errors to lines."""

import sys

import typer

from dflash_kit.engine.cli import keys_app, prewarm, serve
from dflash_kit.errors import InputError, KitError
from dflash_kit.host.cli import preflight
from dflash_kit.profiles.cli import app as profile_app
from dflash_kit.releases.cli import app as release_app
from dflash_kit.report.cli import app as report_app
from dflash_kit.smoke.cli import bench, smoke
from dflash_kit.weights.cli import app as weights_app

# What a shell gives for a program that ctrl-c ended; typer makes it of a KeyboardInterrupt.
INTERRUPTED = 130

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Release, configure, run and prove the patched SGLang engine with DFlash.",
)
app.add_typer(release_app, name="release", help="Releases of the patched engine.")
app.add_typer(profile_app, name="profile", help="Configurations, one a kind of host.")
app.add_typer(keys_app, name="keys", help="The user key and the admin key.")
app.add_typer(weights_app, name="weights", help="Weights: what must be there, and whether it is.")
app.add_typer(report_app, name="report", help="What receipts say: a page, a table, differences.")
app.command()(preflight)
app.command()(serve)
app.command()(prewarm)
app.command()(smoke)
app.command()(bench)


def main() -> None:
    """Run the command line; whatever ends it badly becomes one line on stderr and an exit code."""
    try:
        app()
    except KitError as error:
        print(f"dflash-kit: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:  # a file or folder that no command foresaw
        print(f"dflash-kit: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(InputError.exit_code)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print("dflash-kit: interrupted", file=sys.stderr)
        raise
