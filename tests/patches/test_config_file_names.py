"""The reader of --config takes an argument by its name, and by an older one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import yaml
from sglang.srt.server_args import ServerArgs
from sglang.srt.server_args_config_parser import ConfigArgumentMerger

WITHOUT = r"Unsupported config option 'speculative_draft_window_size'"


def parsed(file: Path, **arguments: Any) -> Any:
    """What the engine's own parser makes of a configuration file."""
    file.write_text(yaml.safe_dump({k.replace("_", "-"): v for k, v in arguments.items()}))
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    given = ["--model-path", "dummy"]
    given += ConfigArgumentMerger(parser).merge_config_with_args(["--config", str(file)])
    return parser.parse_args(given)


@pytest.mark.parametrize("name", ["speculative_draft_window_size", "cuda_graph_max_bs_decode"])
def test_the_name_is_taken(tmp_path: Path, name: str) -> None:
    assert getattr(parsed(tmp_path / "engine.yaml", **{name: 512}), name) == 512


def test_the_older_name_is_taken(tmp_path: Path) -> None:
    assert parsed(tmp_path / "engine.yaml", cuda_graph_max_bs=16).cuda_graph_max_bs_decode == 16


def test_what_stores_no_value_is_refused_as_before(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unsupported config option"):
        parsed(tmp_path / "engine.yaml", collect_tokens_histogram=True)
