"""What can be seen of the fake engine from outside: /server_info and /metrics."""

from __future__ import annotations

from typing import Any

from fake_engine import KEYS, FakeEngine
from fake_faults import Fault


def identity(engine: FakeEngine) -> dict[str, Any]:
    patches = [patch.name for patch in engine.lock.patches]
    other = engine.has(Fault.OTHER_RELEASE)
    return {
        "release": "0.5.11-dflash.0" if other else engine.lock.release,
        "patches": patches[1:] if engine.has(Fault.OTHER_PATCHES) else patches,
        "tree": "0" * 64 if engine.has(Fault.OTHER_TREE) else engine.lock.tree,
        "profile": engine.profile,
        "point": engine.point,
    }


def server_info(engine: FakeEngine) -> dict[str, Any]:
    eager = engine.has(Fault.DRAFT_EAGER)
    passes = {"cuda_graph": 0 if eager else engine.passes, "eager": engine.passes if eager else 0}
    uncounted = engine.has(Fault.DRAFT_UNCOUNTED) or not engine.drafting
    average = {"avg_spec_accept_length": engine.accept_length} if engine.drafting else {}
    info = {
        "version": engine.lock.sglang,
        "model_path": "/where/the/engine/has/it",
        "tp_size": engine.arguments.get("tp-size", 1) + engine.has(Fault.OTHER_TP),
        "speculative_algorithm": "DFLASH" if engine.drafting else None,
        "admin_api_key": KEYS.admin if engine.has(Fault.KEY_LEAKED) else "<redacted>",
        "internal_states": [average | ({} if uncounted else {"draft_passes": passes})],
    }
    return info if engine.has(Fault.NO_IDENTITY) else info | {"dflash_kit": identity(engine)}


def counters(engine: FakeEngine, label: str) -> list[str]:
    """What grows with every request."""
    asked = 3 if engine.has(Fault.METRICS_STALE) else engine.asked
    total = "num_request_total" if engine.has(Fault.METRICS_RENAMED) else "num_requests_total"
    names = ["time_to_first_token_seconds_count", "e2e_request_latency_seconds_count", total]
    lines = [f"sglang:{name}{label} {asked}" for name in names]
    return [*lines, f"sglang:prompt_tokens_total{label} {9 * asked}"]


def metrics(engine: FakeEngine) -> str:
    mode = "decode_none" if engine.has(Fault.VERIFY_EAGER) else "decode_cuda_graph"
    label = '{model_name="tiny"}'
    count = 7 if engine.has(Fault.METRICS_FROZEN) else engine.generated
    names = ["num_running_reqs", "token_usage", "spec_accept_length"]
    if not engine.has(Fault.GAUGE_STALE):
        names.append("gen_throughput")
    if not engine.has(Fault.METRICS_LACKING):
        names.append("num_queue_reqs")
    lines = [f"sglang:{name}{label} 1.0" for name in names]
    if engine.has(Fault.GAUGE_STALE):
        lines.append(f"sglang:gen_throughput{label} 0.0")
    lines += counters(engine, label)
    lines.append(f"sglang:generation_tokens_total{label} {count}")
    lines.append(f"sglang:queue_time_seconds_sum{label} {engine.waited_s}")
    lines.append(f"sglang:queue_time_seconds_count{label} {engine.waits}")
    lines.append(f'sglang:cuda_graph_passes_total{{mode="{mode}"}} {engine.passes}')
    return "# HELP a comment\n" + "\n".join(lines) + "\n"
