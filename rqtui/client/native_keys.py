"""Name the Redis keys of the native queue, and check queue names (documented in `lua/README.md`)."""

from __future__ import annotations

from rqtui.errors import UsageError

KEYS = (
    "scheduled", "ready", "reserved", "done", "dead", "jobs", "bodies", "attempts", "errors", "meta", "events",
    "minutes", "workers", "wake",
)  # fmt: skip
QUEUES = "rqtui:queues"  # a set of names, for discovery


def build_queue_keys(queue: str) -> dict[str, str]:
    """Return every Redis key of a native queue by its short name. Raises UsageError for an invalid queue name.

    A queue name has 1 to 200 bytes without braces, spaces or control characters. Braces would break the hash tag, and
    the keys would be in different slots of a cluster.
    """
    if not isinstance(queue, str):
        raise UsageError(f"The name of a queue is text, not {type(queue).__name__}.")
    size = len(queue.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= 200 or any(letter in "{}" or letter.isspace() or not letter.isprintable() for letter in queue):
        name_text = ascii(queue if len(queue) <= 60 else queue[:57] + "…")
        raise UsageError(f"{name_text} is no queue name: 1 to 200 bytes without braces, spaces or control characters.")
    return {key: f"rqtui:{{{queue}}}:{key}" for key in KEYS}
