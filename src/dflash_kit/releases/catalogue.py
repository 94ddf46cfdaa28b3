"""images/releases.yaml: the releases there are, and every version they are made of."""

import re
from datetime import date
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dflash_kit.errors import InputError

Text = Annotated[str, Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Variant(_Model):
    """What only one variant needs.

    torch_index: where its build of torch is, if not on the default index.
    overrides: requirements that win over what packages declare.
    """

    torch_index: Text | None = None
    overrides: list[Text] = []


class Variants(_Model):
    """Both variants; every release is built for both."""

    cpu: Variant
    cuda: Variant


class Withdrawn(_Model):
    """Since when a release is to be deployed no longer, and why."""

    since: date
    why: Text


class Release(_Model):
    """What one release is made of.

    python, glibc: those of `base`. cutoff: the last day whose uploads are locked.
    drop: paths of the tree that are not shipped. withdrawn: None but for one that is so.
    """

    sglang: Text
    python: Annotated[str, Field(pattern=r"^3\.\d+$")]
    glibc: Annotated[str, Field(pattern=r"^2\.\d+$")]
    base: Text
    uv: Text
    cutoff: date
    drop: list[Annotated[str, Field(pattern=r"^sglang/.")]]
    variants: Variants
    withdrawn: Withdrawn | None = None

    def variant(self, name: str) -> Variant:
        """The variant called `name`, cpu or cuda."""
        variant: Variant = getattr(self.variants, name)
        return variant


class Catalogue(_Model):
    """All releases, and which one is meant where none is named."""

    default: str
    releases: dict[str, Release]

    @model_validator(mode="after")
    def _names(self) -> "Catalogue":
        if self.default not in self.releases:
            raise ValueError(f"default: got {self.default!r}, wanted {self._known()}")
        for name, release in self.releases.items():
            if not re.fullmatch(re.escape(release.sglang) + r"-dflash\.[1-9]\d*", name):
                raise ValueError(f"releases: got {name!r}, wanted {release.sglang}-dflash.<number>")
        if line := self.withdrawn(self.default):
            raise ValueError(f"default: {line}")
        return self

    def _known(self) -> str:
        return f"one of: {', '.join(self.releases)}"

    def withdrawn(self, name: str) -> str:
        """One line: that `name` is withdrawn, why, and what to take; empty where it is not."""
        found = self.releases.get(name)
        if found is None or found.withdrawn is None:
            return ""
        instead = self._instead(name) or "another release"
        what = f"{name} is withdrawn since {found.withdrawn.since}: {found.withdrawn.why}"
        return f"{what}; next: take {instead}"

    @property
    def offered(self) -> dict[str, Release]:
        """The releases that are not withdrawn."""
        return {name: r for name, r in self.releases.items() if r.withdrawn is None}

    def refuse_withdrawn(self, name: str) -> None:
        """InputError where `name` is withdrawn."""
        if line := self.withdrawn(name):
            raise InputError(f"release: {line}")

    def _instead(self, name: str) -> str:
        """The last release on the same sglang that is not withdrawn, else the default one."""
        same = self.releases[name].sglang
        usable = [other for other in self.offered if other != name]
        here = [n for n in usable if self.releases[n].sglang == same]
        return (
            here[-1] if here else self.default if self.default in usable else "".join(usable[-1:])
        )

    def named(self, name: str | None) -> dict[str, Release]:
        """The release called `name`, or all of them; InputError where there is none."""
        if name is None:
            return self.releases
        if name not in self.releases:
            raise InputError(f"release: got {name!r}, wanted {self._known()}")
        return {name: self.releases[name]}


def load(file: Path) -> Catalogue:
    """Read the catalogue; InputError with one line a mistake: file, field, got, wanted."""
    try:
        return Catalogue.model_validate(yaml.safe_load(file.read_text()))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise InputError("\n".join(f"{file}: {line}" for line in _lines(error))) from None
    except (yaml.YAMLError, ValueError) as error:  # the latter: a date that is none, or not UTF-8
        raise InputError(f"{file}: is not YAML: {' '.join(str(error).split())}") from None


def _lines(error: ValidationError) -> list[str]:
    lines = []
    for item in error.errors(include_url=False):
        field = ".".join(str(part) for part in item["loc"])
        if item["type"] == "value_error":
            lines.append(str(item["ctx"]["error"]))
        elif item["type"] == "missing":
            lines.append(f"{field}: got nothing, wanted a value")
        elif item["type"] == "extra_forbidden":
            lines.append(f"{field}: got an unknown field, wanted none of this name")
        else:
            wanted = item["msg"].removeprefix("Input should be ").removeprefix("String should ")
            lines.append(f"{field or 'file'}: got {item['input']!r}, wanted {wanted}")
    return lines
