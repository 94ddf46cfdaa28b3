"""Which checks a smoke run must answer, in the order in which they run.

A code without a record after the run is a FAIL: a missing check is not a pass. Whatever could end
the engine comes last, so that everything else has its answer by then.
"""

CAN_GENERATE = "can-generate"

CHECKS: dict[str, str] = {
    "health": "the engine says that it is healthy",
    CAN_GENERATE: "the engine generates a token for the user key",
    "release": "the engine is the release that was asked for",
    "patches": "the engine runs the patches of the release's lock, in order",
    "tree": "the engine's source tree is the one that the lock names",
    "deployment": "the engine runs the profile and the point that were asked for",
    "models": "the served model is listed",
    "no-key": "ordinary endpoints refuse a request without a key",
    "wrong-key": "ordinary endpoints refuse a wrong key",
    "admin-refuses-user": "administrative endpoints refuse the user key and no key",
    "admin-accepts-admin": "administrative endpoints accept the admin key",
    "keys-hidden": "no endpoint shows a key to a user",
    "chat": "a chat request is answered, with usage and a finish reason",
    "stream": "a streamed chat has chunks, one finish reason, usage and an end mark",
    "known-answers": "the known prompts get exactly the known answers",
    "known-answers-stream": "the same answers arrive when streamed",
    "exact-c1": "token ids equal the reference's, one request at a time",
    "exact-c4": "token ids equal the reference's, four requests at a time",
    "dflash": "DFlash is on at the point latency and off at the point throughput",
    "accept-length": "token-weighted acceptance is at or above the pair's floor, and not perfect",
    "draft-graph": "the draft's passes run in CUDA graphs",
    "verify-graph": "the target's passes run in CUDA graphs",
    "metrics": "the metrics that dashboards need are there",
    "metrics-count": "the token counter moves by what was generated",
    "malformed": "malformed requests are refused with 4xx",
    "alive-after-malformed": "the engine still answers exactly after malformed requests",
}
