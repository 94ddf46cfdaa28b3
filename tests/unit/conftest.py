"""Fixtures that several modules share."""

from pathlib import Path

import pytest
import yaml

from dflash_kit import paths


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with cpu-tiny and `two-gpus`, made for 2 x Testcard 9."""
    content = yaml.safe_load((paths.PROFILES / "cpu-tiny.yaml").read_text())
    (tmp_path / "cpu-tiny.yaml").write_text(yaml.safe_dump(content))
    content |= {
        "name": "two-gpus",
        "hardware": {"memory_mib": 1, "accelerator": "Testcard 9", "count": 2},
    }
    (tmp_path / "two-gpus.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(paths, "PROFILES", tmp_path)
    return tmp_path
