"""Proof: whether every job that was put is still somewhere, and in one place only.

It asks by plain commands, so that none of our scripts vouches for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqtui.client.native_keys import keys
from rqtui.connection.connect import translated
from rqtui.model import State

CHUNK = 1_000  # ids per round trip


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of the jobs that were accepted. `taken` is how many were deleted or purged by hand since."""

    accepted: int
    places: Mapping[str, int]
    missing: tuple[bytes, ...] = ()
    doubled: tuple[bytes, ...] = ()
    taken: int = 0

    @property
    def lost(self) -> int:
        """Jobs that are nowhere, and that nobody took away."""
        return max(0, len(self.missing) - self.taken)

    def sentence(self) -> str:
        """The same in words."""
        where = ", ".join(f"{number} {place}" for place, number in self.places.items() if number)
        words = [f"{self.accepted} were put: {where or 'none is left'}"]
        if self.missing and not self.lost:
            words.append(f"{len(self.missing)} deleted by hand")
        if self.doubled:
            words.append(f"{len(self.doubled)} in two places, such as {self.doubled[0].decode('utf-8', 'replace')}")
        if self.lost:
            words.append(f"{self.lost} LOST, such as {self.missing[0].decode('utf-8', 'replace')}")
        elif not self.doubled:
            words.append("none lost")
        return "; ".join(words)


def prove(client: Any, accepted: Mapping[str, Sequence[bytes]]) -> Proof:
    """Look for each accepted id, by queue, in all five places of its queue at one instant. Raises ServerError."""
    places = dict.fromkeys((state.value for state in State), 0)
    missing: list[bytes] = []
    doubled: list[bytes] = []
    taken = 0
    with translated():
        for queue, ids in accepted.items():
            names = keys(queue)
            for start in range(0, len(ids), CHUNK):
                chunk = ids[start : start + CHUNK]
                with client.pipeline(transaction=True) as pipe:
                    for place in places:
                        pipe.zmscore(names[place], chunk)
                    pipe.hmget(names["meta"], "deleted", "purged", "restored")
                    *scores, counters = pipe.execute()
                for id, *found in zip(chunk, *scores, strict=True):
                    standing = [place for place, score in zip(places, found, strict=True) if score is not None]
                    for place in standing[:1]:
                        places[place] += 1
                    missing += [] if standing else [id]
                    doubled += [id] if len(standing) > 1 else []
            deleted, purged, restored = (int(value or 0) for value in counters) if ids else (0, 0, 0)
            taken += deleted + purged - restored
    return Proof(sum(map(len, accepted.values())), places, tuple(missing), tuple(doubled), taken)
