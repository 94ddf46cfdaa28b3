"""What the pretended engine can do wrong, one member a fault, grouped by what it concerns."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """What the fake does wrong."""

    NONE = "none"

    # Whether it lives and generates.
    UNHEALTHY = "health says 503"
    HANGS = "no generation is ever answered"
    CHAT_HANGS = "no chat is ever answered"
    FIRST_TOKEN_LATE = "the first token comes late"
    CRASHES_AFTER_MANY = "ends after 20 requests to generate"
    SOME_500 = "one in 50 requests to generate gets 500"
    DIES_MIDWAY = "ends at the first of the exact prompts"

    # What it generates, and how.
    WRONG_TEXT = "chat answers another text"
    WRONG_IDS = "one token id differs"
    WRONG_IDS_TOGETHER = "one token id differs when requests overlap"
    WRONG_IDS_AT_8 = "one token id differs in batches of 8 and more"
    WRONG_IDS_AT_12 = "one token id differs in batches of 12 and more"
    WRONG_IDS_MIXED = "one token id differs in short answers beside sampled ones"
    WRONG_IDS_CACHED = "one token id differs where the prompt is cached"
    NEVER_CACHED = "no prompt is ever found in the cache"
    CUT_AT_CONTEXT_END = "an answer near the context's end is cut"
    WRONG_AFTER_CONTEXT_END = "other answers after one near the context's end"
    LOOPS = "sampled answers are loops"
    GARBAGE = "sampled answers hold broken characters"
    SAME_TOKEN = "an answer is one token again and again"
    PERFECT = "no draft token is ever rejected"
    POOR = "hardly a draft token is accepted"
    DFLASH_OFF = "no draft at the point latency"
    DFLASH_ON = "a draft at the point throughput"
    DRAFT_EAGER = "the draft's passes run eagerly"
    DRAFT_UNCOUNTED = "the draft's passes are not counted"
    VERIFY_EAGER = "the target's passes run eagerly"

    # How fast it is, beside its last good receipt.
    SLOWER_STEPS = "30 % slower than last good: each step takes longer"
    HALF_ACCEPTANCE = "as fast as last good, by a faster step at half the acceptance"
    QUEUEING = "takes half of the requests at a time"
    NOISY = "as fast as last good, but each round differs by up to 10 %"
    SOME_REFUSED = "one request of each round is refused"
    SOME_CUT = "one answer of each round is cut"
    BUSY = "answers other requests all the time"

    # What it says of itself.
    NO_IDENTITY = "reports nothing of itself"
    OTHER_RELEASE = "reports another release"
    OTHER_TREE = "reports another tree"
    OTHER_PATCHES = "lacks a patch"
    NO_METRICS = "/metrics is absent"
    METRICS_LACKING = "/metrics lacks the queue's length"
    METRICS_FROZEN = "the token counter stands still"

    METRICS_STALE = "counters of requests stand still"
    METRICS_RENAMED = "a counter of requests has another name"
    GAUGE_STALE = "the throughput stays at 0"

    # What its host sees.
    CONTAINER_HIDDEN = "docker does not let us see it"
    PROCESS_DIES = "the detokenizer ends after 20 requests"
    ZOMBIE = "the detokenizer is a zombie after 20 requests"
    RESTARTED = "the container begins anew after 20 requests"
    RANK_MISSING = "a rank has no process"
    OTHER_TP = "runs on another number of ranks than the profile's"
    MEMORY_CREEPS = "each request leaves a MiB taken"
    MEMORY_CREEPS_SLOWLY = "each request leaves a twentieth of a MiB taken"
    LOG_FORBIDDEN = "logs that the draft's block has another size"
    LOG_LACKS = "does not log that the draft is ready"
    LOG_CUT = "the beginning of its log is gone"
    LOG_SHOWS_KEY = "logs the user key"

    # Whom it answers.
    OTHER_USER_KEY = "has another user key"
    KEY_NOT_ENFORCED = "takes any key and none"
    ADMIN_NOT_ENFORCED = "lets the user administrate"
    TRACE_LEVEL_OPEN = "lets the user set the trace level"
    OTHER_ADMIN_KEY = "has another admin key"
    KEY_LEAKED = "shows the admin key in /server_info"
    KEY_LEAKED_IN_ERROR = "shows the admin key in an error of /get_server_info"
    KEY_IN_ERROR = "shows the user key in an error"

    # How its API behaves.
    NO_MODEL = "lists no model"
    CHAT_WITHOUT_USAGE = "chat has no usage"
    CHAT_CUT = "chat ends by length"
    STREAM_WITHOUT_FINISH = "stream has no finish reason"
    STREAM_WITHOUT_USAGE = "stream has no usage"
    STREAM_WITHOUT_DONE = "stream has no [DONE]"
    STREAM_CUT = "stream ends before its text does"
    STREAM_STALLS = "stream stands still halfway"
    STREAM_AT_ONCE = "stream is one chunk"
    MALFORMED_ACCEPTED = "malformed requests get 200"
    MALFORMED_CRASHES = "malformed requests get 500"
    MALFORMED_KILLS = "the first malformed request ends it"
    MALFORMED_CORRUPTS = "other answers after a malformed request"
    CHAT_BREAKS = "chat gets 503, and nothing else does"
    CUT_WITHOUT_FINISH = "an answer that its limit cuts has no finish reason"
    STREAM_USAGE_OF_A_CHUNK = "a stream's usage counts the last chunk alone"
    STOP_IGNORED = "goes on after a stop string"
    UNICODE_BROKEN_IN_STREAM = "a stream is cut within characters"
    UNICODE_COMPOSED = "the tokenizer composes characters"

    # What may be asked of the choice of tokens, and what not every release can do.
    N_IGNORED = "one choice, however many are asked for"
    TEMPERATURE_IGNORED = "sampled answers are greedy"
    MIN_P_IGNORED = "samples what is less probable than asked for"
    SAMPLED_HURT_GREEDY = "greedy answers differ beside sampled ones"
    PENALTIES_LOOP = "an answer with a penalty is a loop"
    PENALTIES_BREAK = "an answer with a penalty is 500"
    PENALTIES_IGNORED = "penalties change nothing"
    MIN_TOKENS_ENDLESS = "an answer with a least length does not end"
    LOGPROBS_MISSING = "an answer lacks the log probabilities that were asked for"
    LOGPROBS_REFUSED = "refuses to give log probabilities"
    LOGPROBS_AFTER_ALL = "gives log probabilities with DFlash on"
    SCHEMA_IGNORED = "an answer is not by its schema"
    SCHEMA_REFUSED = "refuses schemas"
    TOOL_CALL_LOST = "a call of a tool is left in the text"
    REASONING_MIXED = "reasoning is left in the answer"

    # Requests that end early, and clients that mean harm.
    DISCONNECT_KEEPS_RUNNING = "a stream runs on without its client"
    DISCONNECT_LEAKS = "a stream without its client leaves its memory taken"
    DISCONNECT_CORRUPTS = "other answers after a stream was cut"
    ABORT_IGNORED = "an aborted request runs on"
    ABORT_HURTS_OTHERS = "an abort changes the answers of others"
    SLOW_CLIENT_BLOCKS = "reads the bodies of requests one after the other"
    BAD_REQUESTS_KILL = "ends after 150 bad requests"
    BAD_REQUESTS_CORRUPT = "other answers after 100 bad requests"
    BAD_REQUESTS_LEAK = "each bad request leaves memory taken"
    OVERSIZED_ACCEPTED = "a body beyond all bounds gets 200"
    OVERSIZED_KILLS = "a body beyond all bounds ends it"
