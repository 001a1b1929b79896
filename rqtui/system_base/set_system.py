"""Provide the base class of systems whose places are Redis sets, which have no order, so that a page shows a sample.

Rows stay where they are under a cursor; members that left drop out, and others are added at the end
(`system_base/held_sample.py`). The script `page` gets the cached members as rows of one column, and the cursor of its
walk; it returns those that still exist, and others. Rows have the columns `head size tail`, as those of `EntrySystem`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rqtui.errors import ServerError
from rqtui.model import Job, Page
from rqtui.scripts.script import Reply
from rqtui.system_base.entries import HEAD_BYTES, Entries, Entry
from rqtui.system_base.foreign_system import ForeignSystem, convert_rows_to_dicts
from rqtui.system_base.held_sample import MAX_MEMBERS, Sample, SampleRequest
from rqtui.system_base.system import Request
from rqtui.text.names import to_bytes


class SetSystem(ForeignSystem):
    """A queue system whose places are unordered sets, and whose members are their own ids."""

    can_find_by_id = True

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.entries = Entries()
        self._samples: dict[tuple[str, str], Sample] = {}

    def build_member_id(self, entry: Entry) -> bytes:
        """Return the id of a job that is a member of a set: its bytes, or a digest if it is long."""
        return entry.head if entry.size <= HEAD_BYTES else self.entries.assign_name(entry, Counter())

    def read_new_id(self, row: Mapping[str, object]) -> bytes:
        """Return the id of a job that was just put as a member of a set."""
        body = row["body"]
        return self.build_member_id(Entry.from_bytes(body if isinstance(body, bytes) else to_bytes(str(body))))

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Job | None]:
        """Build the request for one member of a set, named by its bytes, or by its digest if it is long."""
        entry = self.entries.find(id) or Entry.from_bytes(id)
        args = {"head": entry.head, "size": entry.size, "tail": entry.tail, "body_bytes": body_bytes}
        return Request((self.build_call("show", queue, args),), lambda replies: self._parse_job(queue, replies[0]))

    def page_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build the request for a page of a set, which shows a cached sample of its members.

        Cached members are read again, new members are added last.
        """
        place = self.place(place).name
        request = self._samples.setdefault((queue, place), Sample()).plan_request(offset, limit)
        args = {"place": place, "limit": request.limit, "body_bytes": body_bytes, "cursor": request.cursor}
        call = self.build_call("page", queue, args, [{"member": id} for id in request.cached_ids])
        return Request(
            (call,), lambda replies: self._parse_sample_page(queue, place, offset, limit, request, replies[0])
        )

    def draw_next_sample(self, queue: str, place: str) -> None:
        """Drop the sample of a set, so that the next page shows other members. The walk over the set continues."""
        key = queue, self.place(place).name
        sample = self._samples.get(key)
        if sample is not None:
            self._samples[key] = Sample(cursor=sample.cursor, total=sample.total)

    def _parse_sample_page(
        self, queue: str, place: str, offset: int, limit: int, request: SampleRequest, reply: Reply | Exception
    ) -> Page:
        if isinstance(reply, ServerError):
            return Page(queue, self.name, place, (), 0, error=str(reply))
        if isinstance(reply, Exception):
            raise reply
        values: Mapping[str, Any] = reply.values
        rows = {self.build_member_id(Entry.from_row(row)): row for row in convert_rows_to_dicts(reply)}
        long_ids = {id for id, row in rows.items() if row["size"] > HEAD_BYTES}
        sample, set_size = self._samples[queue, place], values["of"]
        sample.apply_reply(request, rows, long_ids, set_size, values["cursor"])
        first, shown = sample.select_rows(offset, limit, rows)
        jobs = tuple(self.decode(queue, place, row, values["now_ms"]) for row in shown)
        total, following = min(set_size, MAX_MEMBERS), first + len(jobs)
        following_page = following if following < total and jobs else None
        place_total = set_size if set_size > total else None
        return Page(queue, self.name, place, jobs, total, True, first, following_page, place_total=place_total)
