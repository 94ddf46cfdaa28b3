"""A WebSocket is open to the user key alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sglang.srt.utils import auth

WITHOUT = r"assert \[\] == \['websocket.close'\]"

USER, ADMIN = "the-user-key", "the-admin-key"


class Application:
    """Takes one middleware, and notes what comes through it."""

    def __init__(self) -> None:
        self.router = None
        self.routes: list[Any] = []
        self.reached: list[str] = []

    def add_middleware(self, made: Any, **options: Any) -> None:
        self.middleware = made(self, **options)

    async def __call__(self, scope: dict[str, Any], *_: Any) -> None:
        self.reached.append(scope["type"])


def connect(authorization: str | None) -> tuple[list[str], list[str]]:
    """What the client of a WebSocket is sent, and what reaches the application."""
    application = Application()
    auth.add_api_key_middleware(application, api_key=USER, admin_api_key=ADMIN)
    headers = [] if authorization is None else [(b"authorization", authorization.encode())]
    scope = {
        "type": "websocket",
        "path": "/v1/realtime",
        "query_string": b"",
        "headers": [(b"host", b"engine"), *headers],
    }
    sent: list[str] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    asyncio.run(application.middleware(scope, None, send))
    return sent, application.reached


@pytest.mark.parametrize("authorization", [None, "", "Bearer ", "Bearer another", USER])
def test_without_the_key_it_is_closed(authorization: str | None) -> None:
    sent, reached = connect(authorization)
    assert sent == ["websocket.close"]
    assert reached == []


def test_the_user_key_opens_it() -> None:
    assert connect(f"Bearer {USER}") == ([], ["websocket"])


def test_what_is_neither_passes() -> None:
    application = Application()
    auth.add_api_key_middleware(application, api_key=USER, admin_api_key=ADMIN)
    asyncio.run(application.middleware({"type": "lifespan"}, None, None))
    assert application.reached == ["lifespan"]
