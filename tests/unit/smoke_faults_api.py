"""Faults of the API: keys, chat, streams, and what it does with requests that it must refuse."""

from fake_faults import Fault
from smoke_expected import Expected, quick

FAULTS: dict[Fault, Expected] = {
    Fault.NO_MODEL: quick("models", "malformed"),
    Fault.KEY_NOT_ENFORCED: quick("no-key", "wrong-key"),
    Fault.ADMIN_NOT_ENFORCED: quick("admin-refuses-user"),
    Fault.TRACE_LEVEL_OPEN: quick("admin-refuses-user"),
    Fault.OTHER_ADMIN_KEY: quick("admin-accepts-admin"),
    Fault.KEY_LEAKED: quick("keys-hidden"),
    Fault.KEY_LEAKED_IN_ERROR: quick("keys-hidden"),
    Fault.KEY_IN_ERROR: quick(
        "chat", "stream", "known-answers", "known-answers-stream", "malformed"
    ),
    Fault.CHAT_WITHOUT_USAGE: quick("chat"),
    Fault.CHAT_CUT: quick("chat"),
    Fault.STREAM_WITHOUT_FINISH: quick("stream"),
    Fault.STREAM_WITHOUT_USAGE: quick("stream"),
    Fault.STREAM_WITHOUT_DONE: quick("stream"),
    Fault.STREAM_CUT: quick("known-answers-stream"),
    Fault.STREAM_AT_ONCE: quick("stream"),
    Fault.MALFORMED_ACCEPTED: quick("malformed"),
    Fault.MALFORMED_CRASHES: quick("malformed"),
    Fault.MALFORMED_KILLS: quick("malformed", "alive-after-malformed"),
    Fault.MALFORMED_CORRUPTS: quick("alive-after-malformed"),
}
