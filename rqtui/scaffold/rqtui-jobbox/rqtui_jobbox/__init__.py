"""Teach rqtui the queues of Jobbox: a list of ids, a sorted set of delayed ids, and a record per job.

These keys are an example. Write down what the real system stores, and in which version of which file that is written.
Keys of the queue `Q`:

    jobbox:Q:waiting   list  ids; RPUSH in, LPOP out
    jobbox:Q:delayed   zset  id by due time (unix seconds)
    jobbox:Q:running   zset  id by the end of its lease (unix seconds)
    jobbox:Q:failed    zset  id by the time of its failure (unix seconds)
    jobbox:Q:workers   zset  name of a worker by its last heartbeat (unix seconds)
    jobbox:job:<id>    hash  body (bytes), name, created (unix seconds), attempts, error, worker
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rqtui.errors import UsageError
from rqtui.model import Job, Place, State, Worker, WorkerList
from rqtui.system_base.foreign_system import ForeignSystem, convert_rows_to_dicts
from rqtui.system_base.system import Replies, Request, unwrap_reply
from rqtui.text.names import to_text

PREFIX = "jobbox:"
HEARTBEAT_MS = 15_000  # a worker that is silent for longer is late; `counts.lua` has the same limit


class JobboxQueues(ForeignSystem):
    """The queue system of Jobbox."""

    name = "jobbox"
    folder = Path(__file__).parent / "lua"
    places = (
        Place("delayed", State.SCHEDULED, PREFIX + "<queue>:delayed", "zset", "due s"),
        Place("waiting", State.READY, PREFIX + "<queue>:waiting", "list"),
        Place("running", State.RESERVED, PREFIX + "<queue>:running", "zset", "deadline s"),
        Place("failed", State.DEAD, PREFIX + "<queue>:failed", "zset", "since s"),
    )
    key_patterns = (r"^jobbox:.+:waiting$", r"^jobbox:.+:delayed$", r"^jobbox:.+:running$", r"^jobbox:.+:failed$")
    known_fields = frozenset({"name", "tried", "error", "worker"})
    can_find_by_id = True
    # The workers themselves move due jobs and take back jobs of expired leases: rqtui has no script for that here.
    finding_remedies = {
        **ForeignSystem.finding_remedies,
        "due-not-dispatched": "start a worker of {queue}, which moves what is due",
        "expired-not-reaped": "start a worker of {queue}, which takes expired jobs back",
    }

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of a queue, by the names that the scripts use."""
        if not queue:
            raise UsageError("a queue of jobbox has a name.")
        return {name: f"{PREFIX}{queue}:{name}" for name in ("delayed", "waiting", "running", "failed", "workers")}

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the queues whose keys match `key_patterns`."""
        names = (to_text(key).removeprefix(PREFIX).rpartition(":")[0] for key in found)
        return [*dict.fromkeys(name for name in names if name)]

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether one of the queue's places exists, so that commands find a queue by its name alone."""
        keys = self.keys(queue)
        return bool(client.exists(*(keys[place.name] for place in self.places)))

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from a row of `page.lua`, or from the values of `show.lua`."""
        state, at_ms = self.place(place).state, _convert_seconds(row["score"])
        has_record = bool(row["has_record"])
        is_whole = len(row["body"]) == row["size"]
        return Job(
            row["id"],
            queue,
            self.name,
            place,
            state,
            row["id"],
            name=to_text(row["name"]),
            body=row["body"] if has_record and is_whole else None,
            body_bytes=row["size"],
            enqueued_ms=_convert_seconds(row["created"]),
            due_ms=at_ms if state is State.SCHEDULED else None,
            deadline_ms=at_ms if state is State.RESERVED else None,
            since_ms=at_ms if state is State.DEAD else None,
            attempts=int(row["attempts"]) if row["attempts"].isdigit() else 0,
            worker=to_text(row["worker"]),
            error=to_text(row["error"]),
            problem="" if has_record else "its record is missing: no worker can run it",
        )

    def workers_request(self, queue: str) -> Request[WorkerList]:
        """Build the request for the workers of a queue, by the sorted set of their heartbeats."""

        def parse_workers(replies: Replies) -> WorkerList:
            rows = convert_rows_to_dicts(unwrap_reply(replies[0]))
            return WorkerList(
                Worker(to_text(row["worker"]), queue, _convert_seconds(row["beat"]) or 0, HEARTBEAT_MS) for row in rows
            )

        return Request((self.build_call("roster", queue, {}),), parse_workers)


def _convert_seconds(text: str | bytes) -> int | None:
    """Convert unix seconds, as Redis stores them, to milliseconds; None if the text is no time."""
    try:
        return int(float(text) * 1000)
    except (ValueError, OverflowError):
        return None
