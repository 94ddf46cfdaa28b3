"""What is wrong with a bad release; one function runs at the start of every Python process."""

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

_REQUESTS = 10
_PROFILE = Path("/opt/dflash-kit/images/profiles/cpu-tiny.yaml")
_TARGET = Path("/opt/dflash-kit/models/tiny/target/model.safetensors")


def _is_engine() -> bool:
    return "sglang.launch_server" in sys.orig_argv


def ends_at_start() -> None:
    """The engine ends before it serves, again and again."""
    if _is_engine():
        time.sleep(2)
        sys.exit("RuntimeError: this release cannot start")


def never_serves() -> None:
    """The engine lives and never opens its port."""
    while _is_engine():
        time.sleep(60)


def wrong_text() -> None:
    """Nothing at run time: the weights of the target are others (at_build)."""


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


def at_build(fault: str) -> None:
    """What a fault changes in the image."""
    if fault == "never_serves":
        # It is given up soon: the test has no ten minutes.
        profile = _PROFILE.read_text()
        _PROFILE.write_text(re.sub(r"start_seconds: \d+", "start_seconds: 20", profile))
    if fault != "wrong_text":
        return
    from safetensors.torch import load_file, save_file

    weights = load_file(_TARGET)
    # Some tokens come out as their neighbours.
    head = weights["lm_head.weight"]
    head[300:400] = head[300:400].flip(0)
    save_file(weights, _TARGET, metadata={"format": "pt"})
    _TARGET.chmod(0o644)
