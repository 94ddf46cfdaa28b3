"""Ports for tests that have to name one before anything listens there."""

import random
import socket

# Below those that Linux gives to clients: a connection of another test would take one meanwhile.
FIRST, LAST = 10000, 32000


def free_port() -> int:
    while True:
        port = random.randint(FIRST, LAST)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
