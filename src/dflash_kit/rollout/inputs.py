"""The variables that people set for a rollout, judged all at once before any host is touched."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import ByteSize, Field, IPvAnyAddress, TypeAdapter, ValidationError

from dflash_kit import paths
from dflash_kit.profiles.load import load_profile, profile_names
from dflash_kit.releases import catalogue

ROLES = paths.ROOT / "ansible" / "roles"
# Two names that differ by a letter or two, such as image_regsitry.
_SIMILAR = 0.85

# What Docker or Ansible would refuse only after the old engine was stopped, or take for another.
_FORMS: dict[str, tuple[TypeAdapter[Any], str]] = {
    "dflash_kit_bind": (TypeAdapter(IPvAnyAddress), "an IP address without brackets"),
    "dflash_kit_memory": (TypeAdapter(ByteSize), "a size such as 4g"),
    "dflash_kit_models": (TypeAdapter(Annotated[str, Field(pattern="^/")]), "an absolute path"),
    "dflash_kit_port": (TypeAdapter(Annotated[int, Field(ge=1, le=65535)]), "a port: 1 to 65535"),
    "dflash_kit_serial": (TypeAdapter(Annotated[int, Field(ge=1)]), "a number from 1"),
}

Where = Callable[[str, str], str]


@dataclass(frozen=True)
class Option:
    """One variable of a role, as its argument_specs.yml declares it."""

    name: str
    role: str
    type: str
    default: Any
    secret: bool
    choices: tuple[Any, ...]


@dataclass(frozen=True)
class Problem:
    """One wrong variable of one or more hosts."""

    where: str
    variable: str
    got: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.where}: {self.variable}: got {self.got}, wanted {self.wanted}"


def load_options(roles: Path = ROLES) -> dict[str, Option]:
    """Every variable of every role, by name."""
    options: dict[str, Option] = {}
    for file in sorted(roles.glob("*/meta/argument_specs.yml")):
        specs = yaml.safe_load(file.read_text())["argument_specs"]
        for name, spec in specs["main"].get("options", {}).items():
            options[name] = Option(
                name,
                file.parents[1].name,
                spec["type"],
                spec.get("default"),
                spec.get("no_log", False),
                tuple(spec.get("choices", ())),
            )
    return options


def settings(variables: Mapping[str, Any], options: Mapping[str, Option]) -> dict[str, Any]:
    """The value of every option: what was set, else its default."""
    return {name: variables.get(name, option.default) for name, option in options.items()}


def problems(
    hosts: Mapping[str, Mapping[str, Any]], options: Mapping[str, Option], where: Where
) -> list[Problem]:
    """Everything wrong with the variables of all hosts, each mistake once.

    hosts: host -> its variables, role defaults left out. where: host, variable -> the file (and
    line) that sets it, or the words for another place.
    """
    found: list[Problem] = []
    for host, variables in hosts.items():
        found += _misspelled(host, variables, options, where)
        wrong = _wrong_types(host, variables, options, where)
        # A release of the wrong type is not looked up.
        unreadable = {problem.variable for problem in wrong}
        readable = {name: value for name, value in variables.items() if name not in unreadable}
        unknown = _unknown_names(host, settings(readable, options), where)
        found += [*wrong, *(each for each in unknown if each.variable not in unreadable)]
    return list(dict.fromkeys(found))


def _misspelled(
    host: str, variables: Mapping[str, Any], options: Mapping[str, Option], where: Where
) -> list[Problem]:
    prefixes = tuple(f"{option.role}_" for option in options.values())
    found = []
    for name in variables:
        if name in options or name.startswith(("ansible_", "_")):
            continue
        close = difflib.get_close_matches(name, options, n=1, cutoff=_SIMILAR)
        if close or name.startswith(prefixes):
            meant = f"; did you mean {close[0]}?" if close else ""
            roles = ", ".join(sorted({option.role for option in options.values()}))
            found.append(
                Problem(where(host, name), name, "a variable of no role", f"one of {roles}{meant}")
            )
    return found


def _wrong_types(
    host: str, variables: Mapping[str, Any], options: Mapping[str, Option], where: Where
) -> list[Problem]:
    found = []
    for name, option in options.items():
        if name not in variables:
            continue
        value = variables[name]
        wanted = _wanted(value, option)
        if wanted:
            got = "something else" if option.secret else repr(value)
            found.append(Problem(where(host, name), name, got, wanted))
    return found


def _wanted(value: Any, option: Option) -> str:
    """What the option takes, empty where `value` is that."""
    if option.choices and value not in option.choices:
        return "one of: " + ", ".join(str(choice) for choice in option.choices)
    if option.type == "bool" and not isinstance(value, bool):
        return (
            f"true or false without quotes (on the command line: -e '{{\"{option.name}\": true}}')"
        )
    if option.type in ("str", "path") and not isinstance(value, str):
        return "a text: put it in quotes"
    # -e name=1 is a text for Ansible.
    if option.type == "int" and (isinstance(value, bool) or not str(value).isdecimal()):
        return "a whole number"
    if option.type == "list" and not isinstance(value, list):
        return "a list"
    if option.type == "dict" and not isinstance(value, dict):
        return "a mapping"
    return _wanted_form(option.name, value)


def _wanted_form(name: str, value: Any) -> str:
    if name not in _FORMS:
        return ""
    form, wanted = _FORMS[name]
    try:
        form.validate_python(value)
    except ValidationError:
        return wanted
    return ""


def _unknown_names(host: str, values: Mapping[str, Any], where: Where) -> list[Problem]:
    """Release, profile and point against the catalogue and the profiles."""
    name, found = "dflash_kit_release", []
    releases = catalogue.load(paths.RELEASES_FILE).releases
    if values[name] and values[name] not in releases:
        found.append(Problem(where(host, name), name, values[name], "one of: " + _join(releases)))
    name, profile = "dflash_kit_profile", values["dflash_kit_profile"]
    if not profile:
        got = f"none: the host {host} is in no hardware group"
        wanted = f"the host in a group whose group_vars set it; profiles: {_join(profile_names())}"
        return [*found, Problem("inventory", name, got, wanted)]
    if profile not in profile_names():
        wanted = "one of: " + _join(profile_names())
        return [*found, Problem(where(host, name), name, profile, wanted)]
    points = load_profile(profile).points
    name, point = "dflash_kit_point", values["dflash_kit_point"]
    if point not in points:
        found.append(
            Problem(where(host, name), name, point, f"one of {profile}'s: {_join(points)}")
        )
    return found


def _join(names: Any) -> str:
    return ", ".join(str(name) for name in names)
