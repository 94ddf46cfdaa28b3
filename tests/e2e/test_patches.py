"""Each patch's own test, with the image's Python: on the wheel, on the series, and without it."""

from pathlib import Path

import docker
import pytest

from dflash_kit.paths import IMAGES, RELEASES_FILE, ROOT
from dflash_kit.releases import catalogue, wheels
from tests.e2e.node import built, each, lock
from tests.patches import check

RELEASES = catalogue.load(RELEASES_FILE).offered


def patches(release: str) -> set[str]:
    return {patch["sha256"] for patch in lock(release)["patches"]}


# A release whose patches are all among another one's is tested with that.
TESTED = [
    name
    for name in RELEASES
    if not any(patches(name) < patches(other) for other in RELEASES if other != name)
]


@pytest.mark.parametrize("name", each(TESTED))
def test_each_patch_is_needed_and_enough(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = RELEASES[name]
    wheel = wheels.upstream_wheel(release, ROOT / "build" / "wheels")
    check.prepare(IMAGES / name, wheel, tmp_path)
    container = docker.from_env().containers.run(
        built(name),
        ["/opt/dflash-kit/tests/check.py", "run", "--trees", "/trees"],
        entrypoint=["python3"],
        user="0:0",  # the trees lie in a folder that only their owner may enter
        volumes={
            str(ROOT / "tests" / "patches"): {"bind": "/opt/dflash-kit/tests", "mode": "ro"},
            str(tmp_path): {"bind": "/trees", "mode": "rw"},
        },
        detach=True,
    )
    try:
        status = container.wait()["StatusCode"]
        table = container.logs().decode()
    finally:
        container.remove(force=True)
    with capsys.disabled():
        print(f"\n{table}")
    assert status == 0
