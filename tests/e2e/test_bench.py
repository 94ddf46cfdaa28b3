"""One round of a bench by the real bench_serving, in the engine's own container."""

from dataclasses import replace

from dflash_kit.engine.keys import Keys
from dflash_kit.profiles.load import load_pair
from dflash_kit.smoke import bench, bench_serving
from dflash_kit.smoke.client import Engine
from tests.e2e.node import Node

PROMPTS = 4


def test_a_round_counts_what_the_engine_did_and_refused(node: Node) -> None:
    pair = load_pair("tiny")
    engine = Engine(node.url, Keys(node.key("user"), node.key("admin")), "the container")
    command, inside = bench_serving.command(node.url, "compose service engine")
    with bench_serving.serving(["env", f"COMPOSE_PROJECT_NAME={node.project}", *command]) as run:
        asked = bench.Bench(run, inside).asked(engine, pair, 2)
        # The last prompt is longer than the context: a failed request, not a fast one.
        asked = replace(asked, prompts=(*asked.prompts[:PROMPTS], "too long " * 3000))
        done, error = bench.one_round(run, engine, asked)
        running = node.compose("top", "engine").stdout
    assert (done.failed, error) == (1, "an answer without a token")
    assert done.output_tokens == PROMPTS * asked.tokens
    assert done.accept_length is not None
    assert pair.acceptance.floor < done.accept_length < pair.match.block_size
    assert done.queue_ms is not None
    assert 0 < bench_share(done.tok_s, done.tpot_ms, asked.concurrency) <= 1
    assert "bench_child" in running
    assert engine.keys.user not in running


def bench_share(tok_s: float, tpot_ms: float, concurrency: int) -> float:
    """Of their time, requests decode at most all."""
    return tok_s * tpot_ms / (1000 * concurrency)
