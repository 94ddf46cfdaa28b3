"""Every other release builds too, and passes the same smoke test as the default one."""

from pathlib import Path

import pytest

from dflash_kit.paths import RELEASES_FILE, ROOT
from dflash_kit.releases import catalogue
from tests.e2e.node import each, running

CATALOGUE = catalogue.load(RELEASES_FILE)
OTHERS = [name for name in CATALOGUE.offered if name != CATALOGUE.default]


@pytest.mark.parametrize("release", each(OTHERS))
@pytest.mark.parametrize("point", ["latency", "throughput"])
def test_release_passes_the_smoke_test(release: str, point: str, tmp_path: Path) -> None:
    variables = {"DFLASH_KIT_RELEASE": release, "DFLASH_KIT_POINT": point}
    with running("dflash-kit-e2e-release", 30014, build=release, **variables) as node:
        smoke = [ROOT / ".venv/bin/dflash-kit", "smoke", "--url", node.url, "--release", release]
        keys = [node.key_file(name, tmp_path) for name in ("user", "admin")]
        smoke += ["--key-file", keys[0], "--admin-key-file", keys[1], "--point", point]
        print(node.run(*smoke).stdout)
