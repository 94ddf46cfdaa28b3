"""What scripts that measure releases are asked: which ones, and where the figures go."""

import argparse
from pathlib import Path

from dflash_kit import paths
from dflash_kit.releases import catalogue

OUT = paths.ROOT / "docs" / "measurements" / "releases"


class Parser(argparse.ArgumentParser):
    """`releases`, all that are not withdrawn where none is named, and `--out`."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description)
        self.offered = list(catalogue.load(paths.RELEASES_FILE).offered)
        self.add_argument("releases", nargs="*", default=self.offered, help="default: all")
        self.add_argument("--out", type=Path, default=OUT)

    def chosen(self) -> argparse.Namespace:
        """What was given; an unknown release ends the script."""
        given = self.parse_args()
        if unknown := [name for name in given.releases if name not in self.offered]:
            known = ", ".join(self.offered)
            self.error(f"releases: got {', '.join(unknown)}, wanted some of: {known}")
        return given
