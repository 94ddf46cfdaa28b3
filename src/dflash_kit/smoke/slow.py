"""Connections of clients that take their time: requests' own API knows no such clients."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from dflash_kit.smoke.client import Engine

# Never sent in full: what is announced is far more than any client here has time to send.
ANNOUNCED_BYTES = 1_000_000
RECEIVE_BYTES = 4096


@contextmanager
def sender(engine: Engine, path: str) -> Iterator[HTTPConnection]:
    """A request whose body has only begun; `drop` adds to it."""
    with _begun(engine, path, ANNOUNCED_BYTES) as connection:
        connection.send(b'{"text": "')
        yield connection


def drop(connection: HTTPConnection) -> None:
    """One byte more of the body; an engine may well have lost its patience."""
    with suppress(OSError):
        connection.send(b"x")


@contextmanager
def reader(engine: Engine, path: str, body: dict[str, Any]) -> Iterator[HTTPConnection]:
    """A request in full, of whose answer not a byte is read."""
    content = json.dumps(body).encode()
    with _begun(engine, path, len(content)) as connection:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        connection.send(content)
        yield connection


@contextmanager
def _begun(engine: Engine, path: str, length: int) -> Iterator[HTTPConnection]:
    url = urlsplit(engine.url)
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=engine.seconds)
    try:
        connection.putrequest("POST", url.path + path)
        connection.putheader("Authorization", f"Bearer {engine.keys.user}")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        yield connection
    finally:
        connection.close()
