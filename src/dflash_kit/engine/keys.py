"""The user key and the admin key: made on first use, kept in files that only the owner reads."""

import os
import re
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dflash_kit.errors import InputError

USER = "user"
ADMIN = "admin"
ROLES = (USER, ADMIN)
# What fits into an Authorization header and is not taken for an option of the engine.
_USABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~+/=-]*")
# A shorter one can be guessed, and may be part of an ordinary text.
MIN_LENGTH = 16


@dataclass(frozen=True)
class Keys:
    """Both keys. repr shows neither, so that no traceback or log line can."""

    user: str
    admin: str

    def __repr__(self) -> str:
        return "Keys(<redacted>)"


def keys_dir() -> Path:
    """$DFLASH_KIT_KEYS, or the state folder of the calling user."""
    given = os.environ.get("DFLASH_KIT_KEYS")
    return Path(given) if given else Path.home() / ".local/state/dflash-kit/keys"


def ensure_keys(folder: Path) -> Keys:
    """The keys in `folder`; made there first where one is missing, race-safe.

    InputError where the folder cannot be written or a file is unreadable, empty or open to others.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for role in ROLES:
            if not (folder / role).exists():
                _make(folder / role)
    except OSError as error:
        raise InputError(
            f"keys: {folder}: cannot be written: {error.strerror}; wanted a folder of "
            f"uid {os.getuid()} (DFLASH_KIT_KEYS names it)"
        ) from None
    return Keys(user=read_key(folder, USER), admin=read_key(folder, ADMIN))


def read_key(folder: Path, role: str) -> str:
    """The key of `role` (user or admin) in `folder`; InputError where it cannot be trusted."""
    file = folder / role
    try:
        mode = file.stat().st_mode
        key = file.read_text().strip()
    except FileNotFoundError:
        raise InputError(
            f"keys: {file} does not exist: `dflash-kit serve` makes it on first use"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"keys: {file} cannot be read: {error}") from None
    if mode & 0o077:
        raise InputError(f"keys: {file}: got mode {mode & 0o777:04o}, wanted 0600: chmod 0600 it")
    if not key:
        raise InputError(f"keys: {file} is empty: delete it, and the next start makes a new one")
    expect_usable(file, key)
    return key


def expect_usable(file: Path, key: str) -> None:
    """InputError where the key read from `file` is none that an engine takes."""
    if not _USABLE.fullmatch(key):
        raise InputError(
            f"keys: {file}: wanted letters, digits and . _ ~ + / = - alone, the first of them a "
            "letter or digit"
        )
    if len(key) < MIN_LENGTH:
        raise InputError(f"keys: {file}: got {len(key)} characters, wanted at least {MIN_LENGTH}")


def _make(file: Path) -> None:
    """Write a new key to `file` unless another process was first: a link never replaces."""
    descriptor, scratch = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as stream:
            # Not token_urlsafe: one in 64 begins with "-", and the engine would read an option.
            stream.write(secrets.token_hex(32) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(scratch, file)
    except FileExistsError:
        pass  # the other process's key is the key
    finally:
        os.unlink(scratch)
