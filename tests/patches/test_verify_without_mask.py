"""The triton backend verifies a block by its causal path, without a mask per request."""

from __future__ import annotations

import pytest
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
from sglang.srt.speculative.dflash_utils import resolve_dflash_verify_mask_policy

WITHOUT = r"assert not True"


def test_triton_needs_no_mask() -> None:
    _, build = resolve_dflash_verify_mask_policy(object.__new__(TritonAttnBackend))
    assert not build


@pytest.mark.parametrize(("name", "wanted"), [("FlashInferAttnBackend", False), ("Other", True)])
def test_others_are_as_before(name: str, wanted: bool) -> None:
    _, build = resolve_dflash_verify_mask_policy(type(name, (), {})())
    assert build is wanted
