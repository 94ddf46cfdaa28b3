"""What the fake engine takes of a request, and what it must refuse."""

from __future__ import annotations

import json
from typing import Any

from fake_engine import CONTEXT


class Malformed(Exception):
    """A request that an engine must refuse."""


def parse(body: bytes) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise Malformed(str(error)) from None
    return content


def require(request: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(request.get(name), kind):
        raise Malformed(name)
    return request[name]


def at_least_zero(request: dict[str, Any], name: str) -> int:
    value: int = require({name: 16} | request, name, int)
    if value < 0:
        raise Malformed(name)
    return value


def fits(text: str) -> None:
    if len(text.split()) > CONTEXT:
        raise Malformed("too long")
