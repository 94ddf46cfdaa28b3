"""What is wrong with a bad release; one function runs at the start of every Python process."""

import os
import sys
import time
from pathlib import Path
from typing import Any

_REQUESTS = 10


def _is_engine() -> bool:
    return "sglang.launch_server" in sys.orig_argv


def never_serves() -> None:
    """The engine lives and never opens its port."""
    while _is_engine():
        time.sleep(60)


def without_dflash() -> None:
    """The engine's arguments lose the draft."""
    if not _is_engine():
        return
    config = Path(sys.orig_argv[sys.orig_argv.index("--config") + 1])
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(x for x in lines if not x.startswith("speculative")))


def ends_after_requests() -> None:
    """The engine ends at its tenth request that generates."""
    if not _is_engine():
        return
    import uvicorn

    load = uvicorn.Config.load
    seen = 0

    def load_counting(config: uvicorn.Config) -> None:
        load(config)
        app = config.loaded_app

        async def counting(scope: Any, receive: Any, send: Any) -> None:
            nonlocal seen
            seen += scope.get("method") == "POST"
            if seen >= _REQUESTS:
                os._exit(1)
            await app(scope, receive, send)

        config.loaded_app = counting

    uvicorn.Config.load = load_counting
