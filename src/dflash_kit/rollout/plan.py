"""The deployment that a host is to run, and the files that make it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.profiles.load import load_profile
from dflash_kit.profiles.models import NO_ACCELERATOR, Limits, Profile
from dflash_kit.releases import catalogue
from dflash_kit.rollout import images
from dflash_kit.rollout.images import Image

COMPOSE_FILE = "compose.yaml"
ENVIRONMENT_FILE = "engine.env"
# Written last: a folder with it is complete.
DEPLOYMENT_FILE = "deployment.json"
_ID_DIGITS = 10
# What may stand in engine.env without quotes.
_PLAIN = re.compile(r"[A-Za-z0-9._:/@\[\]-]*")


class Deployment(BaseModel):
    """deployment.json: what the files beside it run.

    `id` names everything that decides the behaviour: same id, same behaviour. `config` is the
    digest of the image's configuration, `service` the compose service.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    release: str
    variant: str
    profile: str
    point: str
    service: str
    image: str
    config: str
    port: int
    limits: Limits


@dataclass(frozen=True)
class Plan:
    """A deployment, and its files by name, the one that completes it last."""

    deployment: Deployment
    files: dict[str, str]


def variant_of(profile: Profile) -> str:
    """The variant that a profile's hardware takes."""
    return "cpu" if profile.hardware.accelerator == NO_ACCELERATOR else "cuda"


def make_plan(profile: Profile, point: str, image: Image, values: Mapping[str, Any]) -> Plan:
    """What `values` (the options of the role dflash_kit) make of a profile and an image.

    InputError where a value cannot stand in an environment file.
    """
    variant = variant_of(profile)
    release = image.labels["io.dflash-kit.release"]
    environment = {
        "DFLASH_KIT_IMAGE": image.tag,
        "DFLASH_KIT_RELEASE": release,
        "DFLASH_KIT_VARIANT": variant,
        "DFLASH_KIT_PROFILE": profile.name,
        "DFLASH_KIT_POINT": point,
        "DFLASH_KIT_PORT": str(values["dflash_kit_port"]),
        "DFLASH_KIT_BIND": values["dflash_kit_bind"],
        "DFLASH_KIT_MEMORY": values["dflash_kit_memory"],
        "DFLASH_KIT_MODELS": values["dflash_kit_models"],
    }
    for name, value in environment.items():
        if not _PLAIN.fullmatch(value):
            raise InputError(
                f"{name.lower()}: got {value!r}, wanted letters, digits and . _ : / @ [ ] - alone"
            )
    files = {
        COMPOSE_FILE: (paths.ROOT / "docker-compose.yml").read_text(),
        ENVIRONMENT_FILE: "".join(f"{name}={value}\n" for name, value in environment.items()),
    }
    deployment = Deployment(
        id=f"{release}-{profile.name}-{point}-{fingerprint(files)}",
        release=release,
        variant=variant,
        profile=profile.name,
        point=point,
        service="engine" if variant == "cpu" else "engine-gpu",
        image=image.tag,
        config=image.ids[0],
        port=int(values["dflash_kit_port"]),
        limits=profile.limits,
    )
    files[DEPLOYMENT_FILE] = deployment.model_dump_json(indent=2) + "\n"
    return Plan(deployment, files)


def fingerprint(files: Mapping[str, str]) -> str:
    """The part of a deployment's id that its two deciding files give.

    The image is among it: engine.env names its digest, and the profile lies in the image.
    """
    hashed = hashlib.sha256()
    for name in (COMPOSE_FILE, ENVIRONMENT_FILE):
        hashed.update(f"{name} {len(files[name].encode())}\n{files[name]}".encode())
    return hashed.hexdigest()[:_ID_DIGITS]


def plan_for(
    values: Mapping[str, Any], is_here: bool, known: dict[Any, Image]
) -> tuple[Plan, Image]:
    """What a host with these options is to run, and its image.

    `is_here`: the host is this machine. `known` keeps the images that were looked up for others.
    InputError where there is no such image, or the release is withdrawn.
    """
    profile = load_profile(values["dflash_kit_profile"])
    known_releases = catalogue.load(paths.RELEASES_FILE)
    release = values["dflash_kit_release"] or known_releases.default
    known_releases.refuse_withdrawn(release)
    variant = variant_of(profile)
    registry, archive = values["image_registry"], values["image_archive"]
    if bool(registry) == bool(archive) and (registry or not is_here):
        got = "both" if registry else "neither"
        raise InputError(
            f"image_registry, image_archive: got {got}, wanted one of them: the repository "
            "or the archive that the image comes from"
        )
    key = (registry, archive, release, variant)
    if key not in known:
        if registry:
            known[key] = images.from_registry(
                registry,
                release,
                variant,
                username=values["image_registry_username"],
                password=values["image_registry_password"],
                ca=values["image_registry_ca"],
            )
        elif archive:
            known[key] = images.from_archive(Path(archive), release, variant)
        else:
            known[key] = images.from_docker(release, variant)
    return make_plan(profile, values["dflash_kit_point"], known[key], values), known[key]
