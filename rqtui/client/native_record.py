"""The header of a record of the native queue (`lua/README.md` has the formats): its fields, whichever form it has.

`rqtui.systems.native` reads jobs by it, `rqtui.client.leased_job` the name of a leased one; in scripts it is the block
`header`.
"""

from __future__ import annotations

NAME = 9  # the field that is the name, which is last and may hold spaces
_DEFAULTS = (b"-", b"0", *[b"-"] * 6)  # due, priority, ttr, attempts, backoff, its cap, keep, bytes of a long body


def fields(record: bytes) -> list[bytes]:
    """The ten fields of a record's first line. Where it has neither form, they are fewer."""
    line = record.split(b"\n", 1)[0]
    enqueued, colon, name = line.partition(b":")
    return [enqueued, *_DEFAULTS, name] if colon and enqueued.isdigit() else line.split(b" ", NAME)
