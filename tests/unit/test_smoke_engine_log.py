"""What an engine's log says of it, judged by the data of each release."""

import re

import pytest
from fake_engine import KEYS

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.releases import catalogue, engine_data
from dflash_kit.smoke import engine_log

RELEASES = list(catalogue.load(paths.RELEASES_FILE).releases)
# As the release logs on a CPU with the tiny pair at the point latency; recorded, and shortened.
CPU = """dflash-kit: release: 0.5.11-dflash.2 (cpu)
[2026-11-30 23:22:58] Cuda graph is disabled because of using torch native attention backend
[2026-11-30 23:23:34] init_cpu_threads_env and shared memory based AllReduce is disabled
[2026-11-30 23:23:36] Initialized DFLASH draft runner. attention_backend=torch_native, block_size=8
[2026-11-30 23:23:36] DFLASH draft runner ready. mask_token=<|MASK|>, mask_token_id=3
[2026-11-30 23:23:36] Using fallback token IDs for yes/no (9693/2152)
[2026-11-30 23:23:37] DFLASH verify completed. num_accepted_drafts_per_req=[0]
[2026-11-30 23:23:37] Decode batch, #running-req: 1, accept len: 1.00, cuda graph: False, gen
[2026-11-30 23:23:37] The server is fired up and ready to roll!
[2026-11-30 23:23:45] Endpoint '/get_server_info' is deprecated and will be removed.""".splitlines()
CAPTURED = "[2026-11-29 15:45:04] Capture cuda graph bs [1, 2, 4, 8]"
GPU = [
    *(line for line in CPU if "uda graph" not in line),
    CAPTURED,
    CAPTURED,
    "[2026-11-29 15:45:45] DFLASH fused KV materialization enabled. n_layers=8",
    "[2026-11-29 15:46:00] Decode batch, #running-req: 1, cuda graph: True, gen",
    "[2026-11-29 15:46:00] Prefill batch, #new-seq: 1, cuda graph: False",
]


def judge(lines, release=RELEASES[-1], dflash=True, gpu=False):
    return engine_log.judge(lines, engine_data.load(release).log, KEYS, dflash=dflash, gpu=gpu)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("lines", "gpu"), [(CPU, False), (GPU, True)])
def test_log_of_a_sound_engine(release, lines, gpu):
    found = judge(lines, release, gpu=gpu)
    assert (found.wrong, found.lacking, found.cut) == ([], [], False)


def test_without_dflash_nothing_of_it_is_required():
    plain = [line for line in GPU if "DFLASH" not in line][:-3] + [CAPTURED]
    assert judge(plain, dflash=False, gpu=True).lacking == []
    assert len(judge(plain, gpu=True).lacking) >= 3


def test_the_cpus_log_does_not_do_on_a_gpu():
    found = judge(CPU, gpu=True)
    assert any("every pass runs eagerly" in problem for problem in found.wrong)
    assert any("a decode pass ran eagerly" in problem for problem in found.wrong)


def test_two_captures_are_needed_where_two_models_run():
    once = [line for line in GPU if line != CAPTURED] + [CAPTURED]
    assert judge(once, gpu=True).lacking == [
        "'Capture cuda graph bs \\\\[' (the draft's passes were captured too)"
    ]


# What the engine's source logs in each case.
SIGNS = [
    "Scheduler hit an exception: Traceback (most recent call last):",
    "Subprocess scheduler_0 (pid=71) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
    "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    "token_to_kv_pool memory leak detected! available_size=1",
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE)",
    "Capture cuda graph failed: no kernel image is available",
    "DFLASH block size mismatch: using speculative_num_draft_tokens=16 but draft config "
    "block_size=8.",
    "Failed to infer DFLASH block_size from draft model config; defaulting",
    "speculative_num_draft_tokens is not set; defaulting to 16 for DFLASH.",
    "DFLASH draft worker does not support 'trtllm_mha' because the draft path requires",
    "DFLASH draft worker only supports attention_backend in ('fa3',) for now, but got 'x'.",
    "DFLASH fused KV materialization disabled: no CUDA",
    "DFLASH fused KV initialization failed, falling back to sequential path: x",
    "DFLASH fused KV append failed; falling back to sequential path: x",
    "DFLASH non-greedy verification is unavailable on this build/device; falling back",
    "Decode batch, #running-req: 17, token usage: 0.10, cuda graph: False, gen throughput: 9",
]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("sign", SIGNS)
def test_sign_of_a_broken_engine(release, sign):
    found = judge([*GPU, sign, sign], release, gpu=True)
    assert len(found.wrong) == len(found.next_steps) == 1
    assert ", 2 times: " in found.wrong[0] and sign[:60] in found.wrong[0].replace("\\", "")


def test_every_forbidden_line_is_among_the_signs():
    for release in RELEASES:
        for line in engine_data.load(release).log.forbidden:
            judged = [sign for sign in [*SIGNS, *CPU] if re.search(line.pattern, sign)]
            assert judged, f"{release}: {line.pattern} is never seen to match"


def test_no_more_of_a_line_is_shown_than_a_receipt_should_hold():
    found = judge([*CPU, "Scheduler hit an exception: " + "what a user wrote " * 100])
    assert len(found.wrong[0]) < 300


@pytest.mark.parametrize("key", [KEYS.user, KEYS.admin])
def test_key_in_the_log(key):
    found = judge([*CPU, f"ServerArgs(api_key='{key}')"])
    assert found.wrong == ["a key is in the log"]


def test_log_without_its_beginning():
    assert judge(CPU[5:]).cut
    assert judge(CPU[5:]).lacking


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("pattern: watchdog timeout", "pattern: '['"), "is no regular expression"),
        (("when: dflash-gpu\n      means", "when: tuesday\n      means"), "log.forbidden"),
    ],
)
def test_data_that_is_wrong_is_one_line(tmp_path, monkeypatch, change, said):
    text = (paths.IMAGES / RELEASES[-1] / "engine.yaml").read_text()
    assert change[0] in text
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "engine.yaml").write_text(text.replace(*change))
    monkeypatch.setattr(paths, "IMAGES", tmp_path)
    engine_data.load.cache_clear()
    try:
        with pytest.raises(InputError, match=said) as caught:
            engine_data.load("r")
    finally:
        engine_data.load.cache_clear()
    assert "engine.yaml" in str(caught.value) and "\n" not in str(caught.value)
