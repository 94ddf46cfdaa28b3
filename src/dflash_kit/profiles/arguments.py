"""tables/arguments.yaml: what an argument is called in a release, and what does not go together."""

from functools import cache
from typing import Any

from pydantic import Field

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.host import parse
from dflash_kit.profiles.load import load_file
from dflash_kit.profiles.models import Argument, Profile, Strict
from dflash_kit.releases.current import Engine

Arguments = dict[str, Argument]


class Renamed(Strict):
    """An argument that was called `old` in sglang versions older than `before`."""

    name: str
    before: str
    old: str
    link: str


class Variable(Strict):
    """A variable of the environment that sglang reads from version `from` on."""

    name: str
    since: str = Field(alias="from")
    link: str


class Where(Strict):
    """Holds where any of `names` is one of `values` (None: none is given), or at least `least`."""

    names: list[str] = Field(min_length=1)
    values: list[str | int | bool | None] = []
    least: float | None = None

    def holds(self, arguments: Arguments) -> bool:
        given = [arguments[name] for name in self.names if name in arguments]
        if not given and None in self.values:
            return True
        # 1 == True, and a page size of 1 is no flag.
        known = [(type(value), value) for value in self.values]
        return any(
            (type(value), value) in known
            or (self.least is not None and _number(value) >= self.least)
            for value in given
        )


class Incompatible(Strict):
    """One combination that is known not to work, why, and where that is known from."""

    code: str
    reason: str
    link: str
    capability: list[str] | None = None
    dflash: bool | None = None
    since: str | None = Field(default=None, alias="from")
    before: str | None = None
    without: str | None = None
    where: list[Where]

    def holds(self, profile: Profile, dflash: bool, arguments: Arguments, engine: Engine) -> bool:
        """Whether `arguments` of `profile` are this combination on `engine`."""
        version = parse.version(engine.sglang)
        return (
            (self.capability is None or profile.hardware.compute_capability in self.capability)
            and (self.dflash is None or self.dflash == dflash)
            and (self.since is None or version >= parse.version(self.since))
            and (self.before is None or version < parse.version(self.before))
            and (self.without is None or self.without not in engine.patches)
            and all(condition.holds(arguments) for condition in self.where)
        )


class Table(Strict):
    """The whole file."""

    renamed: list[Renamed]
    environment: list[Variable]
    incompatible: list[Incompatible]


@cache
def table() -> Table:
    """The table; InputError where the file is wrong."""
    return load_file(Table, paths.ARGUMENTS_FILE)


def as_in_profiles(arguments: Arguments) -> Arguments:
    """`arguments` under their newest names; an older name is that argument too."""
    new = {row.old: row.name for row in table().renamed}
    return {new.get(name, name): value for name, value in arguments.items()}


def known_to(environment: dict[str, str], engine: Engine) -> dict[str, str]:
    """`environment` without the variables that `engine` does not know yet."""
    version = parse.version(engine.sglang)
    unknown = {row.name for row in table().environment if version < parse.version(row.since)}
    return {name: value for name, value in environment.items() if name not in unknown}


def named_for(arguments: Arguments, engine: Engine) -> Arguments:
    """`arguments` under the names that `engine` knows."""
    old = {
        row.name: row.old
        for row in table().renamed
        if parse.version(engine.sglang) < parse.version(row.before)
    }
    return {old.get(name, name): value for name, value in arguments.items()}


def refuse_incompatible(
    profile: Profile, point: str, dflash: bool, arguments: Arguments, engine: Engine
) -> None:
    """InputError with every known reason why `arguments` do not work on `engine`."""
    found = [
        f"{row.code}: {_shown(row, arguments)}: {row.reason} ({row.link})"
        for row in table().incompatible
        if row.holds(profile, dflash, arguments, engine)
    ]
    if found:
        where = f"profile {profile.name}, point {point}, release {engine.release}"
        raise InputError(f"{where}: " + "; ".join(found))


def _shown(row: Incompatible, arguments: Arguments) -> str:
    names = [name for condition in row.where for name in condition.names if name in arguments]
    missing = [x.names[0] for x in row.where if not any(name in arguments for name in x.names)]
    return ", ".join(
        [f"--{name} {arguments[name]}" for name in names] + [f"no --{name}" for name in missing]
    )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("-inf")
