"""By how much the engine's own counters move during a run."""

from __future__ import annotations

import re
from math import isfinite

import requests

from dflash_kit.errors import KitError
from dflash_kit.smoke.client import Engine, parse_metrics

_TYPES = re.compile(r"^# TYPE (\S+) (\w+)$", re.MULTILINE)
# What only ever grows: a gauge's difference says nothing.
_GROW = {"counter", "histogram", "summary"}
_ENDINGS = re.compile(r"_(?:total|bucket|count|sum)$")


def read(engine: Engine) -> dict[str, float] | None:
    """{"name{labels}": value} of every counter in /metrics; None where there is none to be read."""
    try:
        text = engine.get("/metrics").text
    except (requests.RequestException, KitError):
        return None
    return counters(text)


def counters(text: str) -> dict[str, float]:
    """The samples of Prometheus text that are declared as growing, histograms' parts included."""
    types = dict(_TYPES.findall(text))
    found = {}
    for sample, value in parse_metrics(text).items():
        name = sample.split("{", 1)[0]
        kind = types.get(name) or types.get(_ENDINGS.sub("", name))
        if kind in _GROW and isfinite(value):
            found[sample] = value
    return found


def moved(before: dict[str, float] | None, after: dict[str, float] | None) -> dict[str, float]:
    """What changed; one that was not there before began at 0. Below 0: the engine began anew."""
    if before is None or after is None:
        return {}
    changes = {name: round(value - before.get(name, 0.0), 6) for name, value in after.items()}
    return {name: change for name, change in changes.items() if change}
