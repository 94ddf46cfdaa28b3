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
    DIES_MIDWAY = "ends at the first of the exact prompts"

    # What it generates, and how.
    WRONG_TEXT = "chat answers another text"
    WRONG_IDS = "one token id differs"
    WRONG_IDS_TOGETHER = "one token id differs when requests overlap"
    PERFECT = "no draft token is ever rejected"
    POOR = "hardly a draft token is accepted"
    DFLASH_OFF = "no draft at the point latency"
    DFLASH_ON = "a draft at the point throughput"
    DRAFT_EAGER = "the draft's passes run eagerly"
    DRAFT_UNCOUNTED = "the draft's passes are not counted"
    VERIFY_EAGER = "the target's passes run eagerly"

    # What it says of itself.
    NO_IDENTITY = "reports nothing of itself"
    OTHER_RELEASE = "reports another release"
    OTHER_TREE = "reports another tree"
    OTHER_PATCHES = "lacks a patch"
    NO_METRICS = "/metrics is absent"
    METRICS_LACKING = "/metrics lacks the queue's length"
    METRICS_FROZEN = "the token counter stands still"

    # Whom it answers.
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
