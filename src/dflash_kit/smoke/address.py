"""Where this node's engine listens, as docker-compose.yml publishes it."""

from __future__ import annotations

import os

from dflash_kit.engine.config import port_number
from dflash_kit.engine.probe import DEFAULT_PORT

LOOPBACK = "127.0.0.1"
EVERY_ADDRESS = ("", "0.0.0.0", "::")


def bound_host() -> str:
    """The address to ask the engine at: $DFLASH_KIT_BIND, loopback where that means every one."""
    host = os.environ.get("DFLASH_KIT_BIND", "").strip("[]")
    return LOOPBACK if host in EVERY_ADDRESS else host


def default_url() -> str:
    """The URL of this node's engine; InputError where $DFLASH_KIT_PORT is no port."""
    port = port_number("DFLASH_KIT_PORT", os.environ.get("DFLASH_KIT_PORT") or DEFAULT_PORT)
    host = bound_host()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
