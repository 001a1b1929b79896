"""Check that every accepted job still exists in exactly one place.

The check uses plain commands, so that its result does not depend on rqtui's own scripts. `native_run.py` and
`headless_native.py` call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqtui.client.native_keys import build_queue_keys
from rqtui.connection.connect import translate_redis_errors
from rqtui.model import State

CHUNK = 1_000  # ids per round trip


@dataclass(frozen=True, slots=True)
class Proof:
    """The places of the accepted jobs. `deleted_count` is the number of jobs that a person deleted or purged since."""

    accepted: int
    places: Mapping[str, int]
    missing: tuple[bytes, ...] = ()
    doubled: tuple[bytes, ...] = ()
    deleted_count: int = 0

    @property
    def lost(self) -> int:
        """The number of missing jobs that no person deleted."""
        return max(0, len(self.missing) - self.deleted_count)

    def format_result(self) -> str:
        """Return a sentence that says how many accepted jobs are where, and how many are lost."""
        places_text = ", ".join(f"{number} {place}" for place, number in self.places.items() if number)
        words = [f"{self.accepted} were put: {places_text or 'none is left'}"]
        if self.missing and not self.lost:
            words.append(f"{len(self.missing)} deleted by hand")
        if self.doubled:
            words.append(f"{len(self.doubled)} in two places, such as {self.doubled[0].decode('utf-8', 'replace')}")
        if self.lost:
            words.append(f"{self.lost} LOST, such as {self.missing[0].decode('utf-8', 'replace')}")
        elif not self.doubled:
            words.append("none lost")
        return "; ".join(words)


def verify_accepted_jobs(client: Any, accepted: Mapping[str, Sequence[bytes]]) -> Proof:
    """Search all five places of each queue for its accepted ids, at one instant. Raise ServerError."""
    places = dict.fromkeys((state.value for state in State), 0)
    missing: list[bytes] = []
    doubled: list[bytes] = []
    deleted_count = 0
    with translate_redis_errors():
        for queue, ids in accepted.items():
            names = build_queue_keys(queue)
            for start in range(0, len(ids), CHUNK):
                chunk = ids[start : start + CHUNK]
                with client.pipeline(transaction=True) as pipe:
                    for place in places:
                        pipe.zmscore(names[place], chunk)
                    pipe.hmget(names["meta"], "deleted", "purged", "restored")
                    *scores, counters = pipe.execute()
                for id, *found in zip(chunk, *scores, strict=True):
                    found_places = [place for place, score in zip(places, found, strict=True) if score is not None]
                    for place in found_places[:1]:
                        places[place] += 1
                    missing += [] if found_places else [id]
                    doubled += [id] if len(found_places) > 1 else []
            deleted, purged, restored = (int(value or 0) for value in counters) if ids else (0, 0, 0)
            deleted_count += deleted + purged - restored
    return Proof(sum(map(len, accepted.values())), places, tuple(missing), tuple(doubled), deleted_count)
