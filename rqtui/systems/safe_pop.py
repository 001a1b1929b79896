"""redis-queue (PyPI redis-queue-pyclj 0.2.0, Python; redis-queue-clj 0.1.0, Clojure): one list, popped safely.

Keys of queue `q`: list `q` of `id`, or `id|unix seconds` since it was handed out (LPUSH in, BRPOP out); set `q:done` of
ids that were finished while their entry stood in the list; string `q:data:<id>` with the body, for a day (Python's
`push_msg` only; elsewhere the id is all there is). One list is three places: without a time, within the timeout, older.
README and code agree; the two languages differ in that Clojure's keeps a running entry out of the list while it sleeps.
Operators' page: docs/systems/safe_pop.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from rqtui.errors import UsageError
from rqtui.layout.foreign import Foreign
from rqtui.layout.key_types import kinds
from rqtui.layout.layout import Ask
from rqtui.layout.option_values import whole
from rqtui.model import Job, Outcome, Place, State
from rqtui.text.names import to_bytes, to_text

DONE = b":done"
LONGEST_S = 366 * 86400


class SafePop(Foreign):
    """Lists of ids that carry their own leases."""

    name = "safe_pop"
    places = (
        Place("ready", State.READY, "<queue>", "list", where="no time"),
        Place("in_progress", State.RESERVED, "<queue>", "list", where="time within timeout_s"),
        Place("expired", State.RESERVED, "<queue>", "list", where="time over timeout_s ago"),
    )
    defaults = {"queue": "", "timeout_s": "30"}
    option_values = {"timeout_s": whole(1, LONGEST_S, "seconds")}
    queue_option = "queue"
    patterns = (r":done$",)

    def keys(self, queue: str) -> Mapping[str, str]:
        """The list and its done marks; raises UsageError without a name."""
        if not queue:
            raise UsageError("safe_pop: a queue is called as its list; name it: --layout safe_pop:queue=KEY.")
        return {"entries": queue, "done": f"{queue}:done"}

    def spotted(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Lists beside a set of done marks; where the layout was asked for, such sets whatever stands beside them."""
        names = [key[: -len(DONE)] for key in dict.fromkeys(found) if len(key) > len(DONE)]
        found_kinds = kinds(client, [key for name in names for key in (name + DONE, name)])
        pairs = zip(names, found_kinds[::2], found_kinds[1::2], strict=True)
        return [to_text(name) for name, done, q in pairs if done == "set" and (q == "list" or self.is_asked)]

    def recognises(self, client: Any, queue: str) -> bool:
        """Whether there is such a list, or marks of one; unasked, only a list that has its marks."""
        name = to_bytes(queue)
        found = kinds(client, [name, name + DONE])
        if not self.is_asked:
            return found == ["list", "set"]
        return queue in self.named() or found[1] == "set" or found == ["list", "none"]

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """A job from its entry; its lease is over in the first second that is later than the timeout."""
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
            layout=self.name,
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

    def encoded(self, body: bytes) -> bytes:
        """A body as it is; an empty one is refused, since a worker marks such a job as done without running it."""
        if not body:
            raise UsageError("safe_pop: a body is not empty: a worker takes that for lost data and never runs the job.")
        return body

    def put_ask(self, queue: str, rows: Sequence[Mapping[str, object]]) -> Ask[list[Outcome]]:
        """New jobs; who gives no id gets a uuid, as push_msg makes them."""
        return super().put_ask(queue, [_named(row) for row in rows])

    def act_asks(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> list[Ask[list[Outcome]]]:
        """What sends a verb; see `put_ask` for new jobs."""
        return super().act_asks(name, queue, jobs, _named(form) if name == "enqueue" else form)


LAYOUT = SafePop


def _named(row: Mapping[str, object]) -> Mapping[str, object]:
    id = row.get("id") or str(uuid4())
    if "|" in (id.decode("utf-8", "replace") if isinstance(id, bytes) else str(id)):
        raise UsageError(f'safe_pop: an id holds no "|", since that ends it in the list; not {id!r:.80}.')
    return {**row, "id": id}
