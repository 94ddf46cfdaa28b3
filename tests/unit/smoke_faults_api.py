"""Faults of the API: keys, chat, streams, and what it does with requests that it must refuse."""

from dataclasses import replace

from fake_faults import Fault
from smoke_expected import Expected, full, quick

from dflash_kit.smoke.checks import AUTH, Tier, required

CHATS = ["chat", "stream", "known-answers", "known-answers-stream", "stop-strings", "usage"]
CHATS.append("repetition")  # it looks at chats too
STREAMS = ["stream", "known-answers-stream", "stop-strings", "usage"]
# Each compares an answer with the one of the run's beginning.
AFTER_HARM = ["alive-after-malformed", "slow-clients", "bad-requests-200", "oversized-body"]

# An engine that has ended.
ENDED = ["alive-at-end", "processes"]
GONE = ["alive-at-end", "processes"]

FAULTS: dict[Fault, Expected] = {
    Fault.NO_MODEL: quick("models", "malformed"),
    Fault.KEY_NOT_ENFORCED: quick("no-key", "wrong-key"),
    Fault.ADMIN_NOT_ENFORCED: quick("admin-refuses-user"),
    Fault.TRACE_LEVEL_OPEN: quick("admin-refuses-user"),
    Fault.OTHER_ADMIN_KEY: quick("admin-accepts-admin"),
    Fault.KEY_LEAKED: quick("keys-hidden"),
    Fault.KEY_LEAKED_IN_ERROR: quick("keys-hidden"),
    Fault.OTHER_USER_KEY: quick(AUTH, inconclusive=required(Tier.QUICK)[1:-2] + ["log"]),
    Fault.KEY_IN_ERROR: quick(*CHATS, "malformed"),
    Fault.CHAT_BREAKS: quick(*CHATS, "malformed"),
    Fault.CHAT_WITHOUT_USAGE: quick("chat", "usage"),
    Fault.CHAT_CUT: quick("chat", "usage", "stop-strings"),
    Fault.CUT_WITHOUT_FINISH: quick("usage"),
    Fault.STREAM_WITHOUT_FINISH: quick("stream", "usage", "stop-strings"),
    Fault.STREAM_WITHOUT_USAGE: quick("stream", "usage"),
    Fault.STREAM_USAGE_OF_A_CHUNK: quick("usage"),
    Fault.STREAM_WITHOUT_DONE: quick("stream"),
    Fault.STREAM_CUT: quick("known-answers-stream", "stop-strings"),
    Fault.STREAM_AT_ONCE: quick("stream"),
    Fault.STREAM_STALLS: replace(quick(*STREAMS[:-1], inconclusive=STREAMS[-1:]), seconds=2.0),
    Fault.MALFORMED_ACCEPTED: quick("malformed"),
    Fault.MALFORMED_CRASHES: quick("malformed"),
    Fault.MALFORMED_KILLS: quick("malformed", "alive-after-malformed", *ENDED),
    Fault.MALFORMED_CORRUPTS: quick("alive-after-malformed"),
    Fault.STOP_IGNORED: quick("stop-strings"),
    Fault.UNICODE_BROKEN_IN_STREAM: quick("known-answers-stream"),
    Fault.UNICODE_COMPOSED: full("unicode"),
    Fault.N_IGNORED: full("n-choices"),
    Fault.SAMPLED_HURT_GREEDY: full("greedy-beside-sampled", "exact-mixed"),
    Fault.PENALTIES_LOOP: full("penalties"),
    Fault.PENALTIES_BREAK: full("penalties"),
    # What was left running looks like another client's work from then on.
    Fault.DISCONNECT_KEEPS_RUNNING: full("stream-disconnect", inconclusive=["slow-clients"]),
    Fault.DISCONNECT_LEAKS: full("stream-disconnect", "slow-clients"),
    Fault.DISCONNECT_CORRUPTS: full("stream-disconnect", "abort", *AFTER_HARM),
    Fault.ABORT_IGNORED: full("abort"),
    Fault.ABORT_HURTS_OTHERS: full("abort"),
    Fault.SLOW_CLIENT_BLOCKS: replace(full("slow-clients"), seconds=2.0),
    Fault.BAD_REQUESTS_KILL: full("bad-requests-200", *ENDED, inconclusive=["oversized-body"]),
    Fault.BAD_REQUESTS_CORRUPT: full("bad-requests-200", "oversized-body"),
    Fault.BAD_REQUESTS_LEAK: full("bad-requests-200"),
    Fault.OVERSIZED_ACCEPTED: full("oversized-body"),
    Fault.OVERSIZED_KILLS: full("oversized-body", *ENDED),
}

# Where nothing is missing: DFlash off, a GPU, a grammar backend and both parsers.
OF_FEATURES: dict[Fault, Expected] = {
    # Greedy answers are the same for any seed.
    Fault.TEMPERATURE_IGNORED: Expected(Tier.FULL, {"temperature": "FAIL", "seed": "WARN"}),
    Fault.MIN_P_IGNORED: full("min-p"),
    Fault.PENALTIES_IGNORED: full("penalties"),
    Fault.MIN_TOKENS_ENDLESS: full("min-tokens"),
    Fault.LOGPROBS_MISSING: full("logprobs"),
    Fault.LOGPROBS_REFUSED: full("logprobs"),
    Fault.SCHEMA_IGNORED: full("json-schema"),
    Fault.SCHEMA_REFUSED: full("json-schema", "tools-required"),
    Fault.TOOL_CALL_LOST: full("tools", "tools-required"),
    Fault.REASONING_MIXED: full("reasoning"),
}
