"""bench_serving as a process: what it is asked, what is taken from its answer, how it ends."""

import json
import sys
from pathlib import Path

import pytest

from dflash_kit import paths
from dflash_kit.errors import Undetermined
from dflash_kit.smoke import bench_serving
from dflash_kit.smoke.bench_serving import Asked, Found

# Two rounds of the real one, sglang 0.5.11 with the tiny pair on a CPU, 16 tokens an answer. The
# prompt of 6000 tokens does not fit: the engine streamed an error and no token.
CAPTURED = Path(__file__).parents[1] / "fixtures" / "bench_serving" / "0.5.11.jsonl"
ASKED = Asked("http://engine:1", "the-key", "/models/tiny", ("one", "two"), 16, 2)

# Writes its arguments where the real one writes the engine's configuration.
FAKE = """
import json, os, sys
from sglang.benchmark.datasets import mmmu
given = dict(zip(sys.argv[1::1], sys.argv[2::1]))
print("a line of progress")
prompts = [json.loads(line) for line in open(given["--dataset-path"])]
assert "the-key" not in " ".join(sys.argv)
first = prompts[0]["conversations"][0]["content"]
if first == "raise":
    raise RuntimeError("no such engine")
if first == "exit":
    print("Server is not ready. Exiting.")
    sys.exit(1)
if first == "die":
    print("Killed by somebody", flush=True)
    os._exit(9)
if first == "hang":
    import time
    time.sleep(60)
count = len(prompts)
result = {
    "server_info": {"api_key": os.environ["OPENAI_API_KEY"]},
    "generated_texts": ["secret"] * count,
    "duration": float(count),
    "completed": count,
    "input_lens": [3] * count,
    "output_lens": [int(given["--sharegpt-output-len"])] * count,
    "ttfts": [0.5] * count,
    "itls": [[0.1] * 15] * count,
    "errors": [" ".join(sys.argv)] + [""] * (count - 1) if first == "argv" else [""] * count,
}
open(given["--output-file"], "w").write(json.dumps(result))
"""


@pytest.fixture
def child(tmp_path, monkeypatch):
    """The child process, on a pretended sglang, which lacks the package `datasets`."""
    for name, text in {
        "sglang/__init__.py": "",
        "sglang/bench_serving.py": FAKE,
        "sglang/benchmark/__init__.py": "",
        "sglang/benchmark/datasets/__init__.py": "from . import mmmu",
        "sglang/benchmark/datasets/mmmu.py": "import datasets",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    source = Path(bench_serving.__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{source}")
    with bench_serving.serving([sys.executable, "-m", "dflash_kit.smoke.bench_child"]) as run:
        yield run


def captured():
    return [Found.model_validate_json(line) for line in CAPTURED.read_text().splitlines()]


def test_figures_of_a_real_round():
    found = captured()[0]
    done = found.round(16, accept_length=8.0)
    # Of three requests one had no token, though bench_serving counts 16 for it.
    assert (done.failed, done.output_tokens, done.input_tokens) == (1, 32, 34)
    assert found.first_error(16) == "an answer without a token"
    assert done.tok_s == pytest.approx(32 / 0.8343, rel=1e-3)
    assert done.tpot_ms == pytest.approx(1000 * sum(map(sum, found.itls)) / 30)
    assert done.step_ms == 8 * done.tpot_ms
    assert done.ttft_ms.p50 == pytest.approx(1000 * (0.042632 + 0.068003) / 2, rel=1e-3)
    assert done.e2e_ms.p99 == pytest.approx(1000 * 0.77469, rel=1e-2)


def test_round_without_a_token_has_no_speed():
    done = captured()[1].round(16)
    assert (done.failed, done.tok_s, done.tpot_ms, done.output_tokens) == (2, 0, 0, 0)


def test_answer_that_was_cut_is_a_failed_request():
    done = captured()[0].round(17)
    assert (done.failed, done.tok_s) == (3, 0)
    assert captured()[0].first_error(17) == "16 tokens instead of 17"


def test_child_sends_the_prompts_and_keeps_the_figures_only(child):
    found = child(ASKED)
    assert found.round(16).tok_s == 16
    assert child(ASKED) == found  # one process, many rounds


def test_child_asks_for_what_was_asked(child):
    found = child(Asked("http://engine:1", "the-key", "/tok", ("argv", "b", "c"), 16, 2, chat=True))
    given = found.errors[0]
    for part in (
        "--base-url http://engine:1",
        "--model /tok",
        "--num-prompts 3",
        "--max-concurrency 2",
        "--warmup-requests 0",
        "--apply-chat-template",
    ):
        assert part in given
    assert (
        "apply-chat-template"
        not in child(Asked("http://engine:1", "the-key", "/tok", ("argv",), 16, 2)).errors[0]
    )


def test_answer_of_the_child_has_neither_keys_nor_texts(child):
    child._process.stdin.write(json.dumps(vars(ASKED)) + "\n")
    child._process.stdin.flush()
    answer = child._process.stdout.readline()
    assert json.loads(answer)["completed"] == 2
    assert "the-key" not in answer
    assert "secret" not in answer


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("raise", "bench_serving: RuntimeError: no such engine"),
        ("exit", "bench_serving: SystemExit: 1: Server is not ready. Exiting."),
        ("die", "bench_serving ended: Killed by somebody"),
    ],
)
def test_bench_serving_that_does_not_run_is_no_answer(child, prompt, says):
    with pytest.raises(Undetermined, match=f"^{says}"):
        child(Asked("http://engine:1", "the-key", "/tok", (prompt,), 16, 1))


def test_bench_serving_that_hangs_is_ended(child, monkeypatch):
    child(ASKED)
    monkeypatch.setattr(bench_serving, "ROUND_SECONDS", 0.5)
    with pytest.raises(Undetermined, match="^bench_serving ended: a line of progress"):
        child(Asked("http://engine:1", "the-key", "/tok", ("hang",), 16, 1))
    with pytest.raises(Undetermined, match="^bench_serving ended"):
        child(ASKED)


def test_command_that_is_not_there():
    with (
        pytest.raises(Undetermined, match="^bench_serving: no-such-program: No such file"),
        bench_serving.serving(["no-such-program"]),
    ):
        pass


def test_it_runs_in_the_image_or_in_the_engines_container(monkeypatch, tmp_path):
    outside, inside = bench_serving.command("http://here:7", "compose service engine-gpu")
    assert outside[:6] == ["docker", "compose", "exec", "-T", "engine-gpu", "python3"]
    assert inside == "http://127.0.0.1:30000"
    with pytest.raises(Undetermined, match="docker compose run --rm smoke bench --url http://x"):
        bench_serving.command("http://x", "two files")
    (tmp_path / "patches.json").touch()
    monkeypatch.setattr(paths, "PATCHES_FILE", tmp_path / "patches.json")
    command, url = bench_serving.command("http://engine:30000", "/var/lib/keys")
    assert (command[0], url) == (sys.executable, "http://engine:30000")


@pytest.mark.parametrize("lacking", ["errors", "itls"])
def test_answer_in_another_shape_is_refused(lacking):
    answer = json.loads(CAPTURED.read_text().splitlines()[0])
    answer[lacking] = answer[lacking][1:]
    with pytest.raises(ValueError, match="not one entry a request"):
        Found.model_validate(answer)
