"""The batch that no graph has the size of, by where a release names its graphs."""

import pytest

from dflash_kit import paths
from dflash_kit.releases import catalogue, engine_data
from dflash_kit.smoke.exact import PADDED, padded_size

RELEASES = list(catalogue.load(paths.RELEASES_FILE).releases)
PATHS = {"0.5.11": ["cuda_graph_bs"]}
LATER = ["cuda_graph_config", "decode", "bs"]


def info(path, sizes, most=16):
    found = sizes
    for key in reversed(path):
        found = {key: found}
    return {"max_running_requests": most} | found


@pytest.mark.parametrize("release", RELEASES)
def test_size_between_two_graphs(release):
    path = engine_data.load(release).graph_sizes
    assert path == PATHS.get(release.partition("-")[0], LATER)
    assert padded_size(info(path, [1, 2, 4, 8, 16]), path) == 9
    assert padded_size(info(path, [1, 2, 3, 4], most=4), path) == 4


@pytest.mark.parametrize("found", [{}, {"cuda_graph_config": None}, info(LATER, None)])
def test_engine_that_names_no_graphs(found):
    assert padded_size(found, LATER) == PADDED
