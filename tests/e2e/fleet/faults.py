"""The layer that makes a bad release of a good one; labels, sources and lock stay as they were."""

import io
import json
import re
import tarfile
from pathlib import Path

from tests.e2e.fleet.build import HERE
from tests.e2e.node import ROOT

SITE = "opt/venv/lib/python3.11/site-packages"
_PROFILE = "images/profiles/cpu-tiny.yaml"
_TARGET = "models/tiny/target/model.safetensors"


def layer(fault: str) -> bytes:
    """A tar of the files in which an image with `fault` differs."""
    files: dict[str, bytes] = {}
    if fault == "wrong_text":
        files[f"opt/dflash-kit/{_TARGET}"] = _other_tokens((ROOT / _TARGET).read_bytes())
    else:
        # Each Python of the engine's environment runs it first; Debian has a sitecustomize.
        files[f"{SITE}/fault.py"] = Path(HERE, "fault.py").read_bytes()
        files[f"{SITE}/fault.pth"] = f"import fault; fault.{fault}()\n".encode()
    if fault == "never_serves":
        # It is given up soon: the test has no ten minutes.
        profile = re.sub(r"start_seconds: \d+", "start_seconds: 20", (ROOT / _PROFILE).read_text())
        files[f"opt/dflash-kit/{_PROFILE}"] = profile.encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _other_tokens(weights: bytes) -> bytes:
    """The target's weights (safetensors) with rows 300 to 399 of its head in reverse: some tokens
    come out as others."""
    begin = 8 + int.from_bytes(weights[:8], "little")
    head = json.loads(weights[8:begin])["lm_head.weight"]
    first, last = (begin + offset for offset in head["data_offsets"])
    row = (last - first) // head["shape"][0]
    low, high = first + 300 * row, first + 400 * row
    rows = [weights[at : at + row] for at in range(low, high, row)]
    return weights[:low] + b"".join(reversed(rows)) + weights[high:]
