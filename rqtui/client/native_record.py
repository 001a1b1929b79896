"""Parse the header of a native job record, in both forms that `lua/README.md` documents.

`rqtui.systems.native` uses this module to read jobs, `rqtui.client.leased_job` to read the name of a leased job. The
scripts parse the same header in the block `header`.
"""

from __future__ import annotations

NAME = 9  # the index of the name, which is the last field because it may contain spaces
_DEFAULTS = (b"-", b"0", *[b"-"] * 6)  # due, priority, ttr, attempts, backoff, its cap, keep, bytes of a long body


def parse_record_fields(record: bytes) -> list[bytes]:
    """Return the ten fields in the first line of a native job record; fewer if the line has neither form."""
    line = record.split(b"\n", 1)[0]
    enqueued, colon, name = line.partition(b":")
    return [enqueued, *_DEFAULTS, name] if colon and enqueued.isdigit() else line.split(b" ", NAME)
