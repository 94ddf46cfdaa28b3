"""Metrics: the ones that dashboards need are there, and count what was generated."""

import time

import pytest

from dflash_kit.smoke.beside import repeating, wait_for
from dflash_kit.smoke.client import total

GENERATED = "sglang:generation_tokens_total"
NEEDED = (
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
    "sglang:token_usage",
    "sglang:gen_throughput",
    "sglang:prompt_tokens_total",
    GENERATED,
    "sglang:num_requests_total",
    "sglang:time_to_first_token_seconds_count",
    "sglang:e2e_request_latency_seconds_count",
    "sglang:spec_accept_length",
    "sglang:cuda_graph_passes_total",
)
# What a request of ours must move, and what is above 0 right after it.
MOVED = (
    "sglang:prompt_tokens_total",
    GENERATED,
    "sglang:num_requests_total",
    "sglang:time_to_first_token_seconds_count",
    "sglang:e2e_request_latency_seconds_count",
)
ABOVE_ZERO = ("sglang:gen_throughput",)
ABOVE_ZERO_DRAFTING = ("sglang:spec_accept_length",)
# The counter moves after the answer has left; a busy machine needs a moment.
COUNT_SECONDS = 5.0


@pytest.mark.check("metrics")
def test_metrics(check, engine):
    names = {key.split("{", 1)[0] for key in engine.metrics()}
    lacking = [name for name in NEEDED if name not in names]
    check(
        ok=not lacking,
        measured=f"lacks {lacking}" if lacking else f"{len(NEEDED)} of {len(NEEDED)} there",
        wanted=f"{len(NEEDED)} of {len(NEEDED)}",
        next_step="start the engine with enable-metrics, as the profiles do",
    )


@pytest.mark.check("metrics-count")
def test_metrics_count(check, engine, known):
    asked = known.exact[0]
    before = total(engine.metrics(), GENERATED)
    generated = len(engine.generate(asked.prompt_text, len(asked.output_ids))["output_ids"])
    deadline = time.monotonic() + COUNT_SECONDS
    while (grown := total(engine.metrics(), GENERATED) - before) < generated:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    # Other users' tokens count too, so that more than ours is right.
    check(
        ok=grown >= generated,
        measured=f"{grown:.0f} tokens more",
        wanted=f">= {generated}",
        next_step=f"{GENERATED} in /metrics stands still: see the engine's log",
    )


def stale(before, after, gauges):
    """The metrics that do not show what was asked between the two."""
    still = [name for name in MOVED if total(after, name) <= total(before, name)]
    return still + [name for name in gauges if total(after, name) <= 0]


@pytest.mark.check("metrics-fresh")
def test_metrics_fresh(check, engine, known, dflash_wanted):
    gauges = ABOVE_ZERO + (ABOVE_ZERO_DRAFTING if dflash_wanted else ())
    asked, before = known.exact[0], engine.metrics()

    still = [*MOVED, *gauges]

    def is_fresh():
        still[:] = stale(before, engine.metrics(), gauges)
        return not still

    # Gauges are updated every few decode passes, and may fall back to 0 after the last.
    with repeating(lambda: engine.generate(asked.prompt_text, len(asked.output_ids)), threads=1):
        wait_for(is_fresh, COUNT_SECONDS)
    count = len(MOVED) + len(gauges)
    check(
        ok=not still,
        measured=f"stale or renamed: {', '.join(still)}" if still else f"{count} of {count} move",
        wanted=f"{count} of {count} move",
        next_step="dashboards show old figures: see /metrics for what it is called in this release",
    )
