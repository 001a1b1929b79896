"""Read and change redis-queue lists (PyPI redis-queue-pyclj 0.2.0, Python; redis-queue-clj 0.1.0, Clojure).

Keys of queue `q`: list `q` of `id`, or `id|unix seconds` of its last delivery (LPUSH in, BRPOP out); set `q:done` of
ids that were finished while their entry was in the list; string `q:data:<id>` with the body, for a day (Python's
`push_msg` only; elsewhere there is only the id). One list is three places: entries without a time, within the timeout,
and older. README and code agree. The two languages differ in one point: Clojure's keeps a running entry out of the list
while it sleeps. Operators' page: `docs/systems/safe_pop.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from rqtui.errors import UsageError
from rqtui.model import MAX_ATTEMPTS, Job, MigrationTerms, Outcome, Place, State
from rqtui.system_base.foreign_system import ForeignSystem
from rqtui.system_base.key_types import read_key_types
from rqtui.system_base.option_values import accept_whole_number
from rqtui.system_base.system import Request
from rqtui.text.names import to_bytes, to_text

DONE_SUFFIX = b":done"
MAX_TIMEOUT_S = 366 * 86400


class SafePop(ForeignSystem):
    """The queue system of the package redis-queue: lists of ids, each entry with the time of its lease."""

    name = "safe_pop"
    places = (
        Place("ready", State.READY, "<queue>", "list", where="no time"),
        Place("in_progress", State.RESERVED, "<queue>", "list", where="time within timeout_s"),
        Place("expired", State.RESERVED, "<queue>", "list", where="time over timeout_s ago"),
    )
    defaults = {"queue": "", "timeout_s": "30"}
    option_values = {"timeout_s": accept_whole_number(1, MAX_TIMEOUT_S, "seconds")}
    queue_option = "queue"
    key_patterns = (r":done$",)

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the list of a queue and its set of done marks. Raises UsageError for an empty name."""
        if not queue:
            raise UsageError("safe_pop: a queue is called as its list; name it: --system safe_pop:queue=KEY.")
        return {"entries": queue, "done": f"{queue}:done"}

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return lists that have a set of done marks. If the system was named explicitly, every such set counts."""
        names = [key[: -len(DONE_SUFFIX)] for key in dict.fromkeys(found) if len(key) > len(DONE_SUFFIX)]
        found_kinds = read_key_types(client, [key for name in names for key in (name + DONE_SUFFIX, name)])
        pairs = zip(names, found_kinds[::2], found_kinds[1::2], strict=True)
        return [to_text(name) for name, done, q in pairs if done == "set" and (q == "list" or self.is_explicit)]

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether the list or the done marks of a queue exist.

        Both are needed if the system was not named explicitly.
        """
        name = to_bytes(queue)
        found = read_key_types(client, [name, name + DONE_SUFFIX])
        if not self.is_explicit:
            return found == ["list", "set"]
        return queue in self.named_queues() or found[1] == "set" or found == ["list", "none"]

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from its entry. The lease ends in the first second after the timeout."""
        seconds, member, bytes_ = row["time"], row["member"], row["bytes"]
        problem = ""
        if seconds == -2:
            problem = "it is neither an id nor id|unix seconds: a worker that pops it dies, and it is lost"
        elif bytes_ < 0:
            problem = "its data is no string"
        began_ms = seconds * 1000 if 0 <= seconds * 1000 <= now_ms else None
        return Job(
            id=row["id"],
            queue=queue,
            system=self.name,
            place=place,
            state=self.place(place).state,
            member=member,
            token=member if seconds >= 0 else b"",
            body=row["body"] if row["body"] or bytes_ == 0 else None,
            body_bytes=max(0, bytes_),
            deadline_ms=(seconds + int(self.options_of(queue)["timeout_s"]) + 1) * 1000 if seconds >= 0 else None,
            reserved_ms=began_ms,
            problem=problem,
            is_partial=len(member) < row["size"],
        )

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return unlimited attempts for a migrated job: an unfinished entry is delivered again after the timeout."""
        timeout_ms = 1000 * int(self.options_of(job.queue)["timeout_s"])
        return MigrationTerms(0, MAX_ATTEMPTS, timeout_ms, timeout_ms)

    def encode_body(self, body: bytes) -> bytes:
        """Return the body of a new job unchanged."""
        if not body:
            raise UsageError("safe_pop: a body is not empty: a worker takes that for lost data and never runs the job.")
        return body

    def put_request(self, queue: str, rows: Sequence[Mapping[str, object]]) -> Request[list[Outcome]]:
        """Build the request that puts new jobs. A job without an id gets a uuid, as the original's `push_msg` does."""
        return super().put_request(queue, [_add_id(row) for row in rows])

    def verb_requests(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> list[Request[list[Outcome]]]:
        """Build the requests of a verb. A new job without an id gets a uuid."""
        return super().verb_requests(name, queue, jobs, _add_id(form) if name == "enqueue" else form)


SYSTEM = SafePop


def _add_id(row: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields of a new job with a uuid as its id, if it has none."""
    id = row.get("id") or str(uuid4())
    if "|" in (id.decode("utf-8", "replace") if isinstance(id, bytes) else str(id)):
        raise UsageError(f'safe_pop: an id holds no "|", since that ends it in the list; not {id!r:.80}.')
    return {**row, "id": id}
