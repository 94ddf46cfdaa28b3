"""Whether an image's libraries can run on the cards that it is for: asked while it is built.

`python -m dflash_kit.releases.card_code PACKAGES CAPABILITY...` ends with 1 and a line for each
library without code for a card. An engine with such a library starts, and fails at its first pass.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dflash_kit.releases.architectures import Architecture, Malformed, architectures


def required(capability: str) -> tuple[str, str]:
    """What every pass of the engine goes through; sgl_kernel has two, and chooses by the card."""
    folder = "sm90" if capability == "9.0" else "sm100"
    return f"sgl_kernel/{folder}/common_ops.abi3.so", "torch/lib/libtorch_cuda.so"


def lacking(packages: Path, capabilities: Sequence[str]) -> Iterator[str]:
    """A line for each card and library that do not fit; `packages` is a site-packages."""
    held: dict[str, list[Architecture]] = {}
    for capability in capabilities:
        for library in required(capability):
            if library not in held:
                try:
                    held[library] = sorted(architectures((packages / library).read_bytes()))
                except (OSError, Malformed) as error:
                    yield f"{library}: {error}, wanted code for {capability}"
                    continue
            if not any(code.runs_on(capability) for code in held[library]):
                codes = " ".join(map(str, held[library])) or "none"
                yield f"{library}: got code for {codes}, wanted some that runs on {capability}"


def main() -> None:
    packages, *capabilities = sys.argv[1:]
    found = list(lacking(Path(packages), capabilities))
    for line in found:
        print(f"card_code: {line}", file=sys.stderr)
    if found:
        sys.exit("card_code: take other wheels, or leave the card out of CAPABILITIES")
    print(f"the libraries hold code for {', '.join(capabilities)}")


if __name__ == "__main__":
    main()
