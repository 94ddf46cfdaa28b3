"""Where a smoke test finds the two keys of the engine that it asks."""

from __future__ import annotations

import ipaddress
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from dflash_kit import paths
from dflash_kit.engine.keys import ADMIN, USER, Keys, expect_usable, keys_dir, read_key
from dflash_kit.errors import InputError, Undetermined
from dflash_kit.smoke.address import bound_host

# Services of docker-compose.yml that run an engine.
SERVICES = ("engine", "engine-gpu")
COMPOSE_SECONDS = 30
_COMPOSE_SOURCE = "compose service "


def expect_key_options(url: str, user_file: Path | None, admin_file: Path | None) -> None:
    """Refuse to send the keys of this node's engine to another host.

    Inside an image the engine is another container, and the keys are those of the volume that both
    mount.

    Raises:
        InputError: one key file without the other, or none where the engine is elsewhere.
    """
    if bool(user_file) != bool(admin_file):
        raise InputError("keys: got one of --key-file and --admin-key-file, wanted both or none")
    if not user_file and not is_here(url) and not paths.PATCHES_FILE.exists():
        raise InputError(
            f"keys: {url} is not this host, and the keys found here are not for others; "
            "give --key-file and --admin-key-file"
        )


def is_here(url: str) -> bool:
    """Whether the URL's host is this one: loopback, localhost, or what the engine is bound to."""
    host = urlsplit(url).hostname or ""
    try:
        return host in ("localhost", bound_host()) or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name


def find_keys(user_file: Path | None, admin_file: Path | None) -> tuple[Keys, str]:
    """Both keys and where they came from: files, the key folder, or the compose container.

    Raises:
        InputError: a named file cannot be used.
        Undetermined: no key was found anywhere.
    """
    if user_file and admin_file:
        keys = Keys(user=_read(user_file), admin=_read(admin_file))
        return keys, f"{user_file} and {admin_file}"
    folder = keys_dir()
    if (folder / USER).exists() or paths.PATCHES_FILE.exists():
        return Keys(user=read_key(folder, USER), admin=read_key(folder, ADMIN)), str(folder)
    for service in SERVICES:
        if shown := _from_compose(service):
            return shown, _COMPOSE_SOURCE + service
    raise Undetermined(
        f"no keys in {folder} and none from a running compose service; "
        "give --key-file and --admin-key-file"
    )


def _read(file: Path) -> str:
    try:
        key = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"keys: {file} cannot be read: {error}") from None
    if not key:
        raise InputError(f"keys: {file} is empty; wanted a key")
    expect_usable(file, key)
    return key


def _from_compose(service: str) -> Keys | None:
    shown = [_compose_key(service, role) for role in (USER, ADMIN)]
    return Keys(user=shown[0], admin=shown[1]) if all(shown) else None


def _compose_key(service: str, role: str) -> str:
    """One key as the running container shows it; empty where there is no such container."""
    return _docker("compose", "exec", "-T", service, "dflash-kit", "keys", "show", role)


def compose_service(key_source: str) -> str:
    """The service whose container gave the keys; empty where none did."""
    given = key_source.startswith(_COMPOSE_SOURCE)
    return key_source.removeprefix(_COMPOSE_SOURCE) if given else ""


def image_of(key_source: str) -> str | None:
    """The digest of the image whose container gave the keys; None where no container did."""
    service = compose_service(key_source)
    container = service and _docker("compose", "ps", "--quiet", service)
    return container and _docker("inspect", "--format", "{{.Image}}", container) or None


def _docker(*arguments: str) -> str:
    """What docker says; empty where it does not work."""
    try:
        done = subprocess.run(
            ["docker", *arguments],
            cwd=paths.ROOT,
            capture_output=True,
            text=True,
            timeout=COMPOSE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
