"""Layouts whose places are sets, which have no order: a page is a part of a sample that is held.

Rows stay where they are under a cursor; who left drops out, and others come in at the end (`layout/sample.py`). `page`
is asked with the members that are held, as rows of one column, and with the cursor of its walk; it answers which of
them are still there, and others. Rows have the columns `head size tail`, as those of `foreign.Entrywise`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rqtui.errors import ServerError
from rqtui.layout.entries import HEAD_BYTES, Entries, Entry
from rqtui.layout.foreign import Foreign, rows_by_name
from rqtui.layout.layout import Ask
from rqtui.layout.sample import HELD, Sample, Wish
from rqtui.model import Job, Page
from rqtui.scripts.script import Answer
from rqtui.text.names import to_bytes


class Sampled(Foreign):
    """A system whose members are their own ids, and have no order."""

    finds_by_id = True

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.entries = Entries()
        self._samples: dict[tuple[str, str], Sample] = {}

    def member_id(self, entry: Entry) -> bytes:
        """A member is its own id; a long one is called by a digest."""
        return entry.head if entry.size <= HEAD_BYTES else self.entries.name(entry, Counter())

    def id_of(self, row: Mapping[str, object]) -> bytes:
        """What a new member is called."""
        body = row["body"]
        return self.member_id(Entry.of(body if isinstance(body, bytes) else to_bytes(str(body))))

    def job_ask(self, queue: str, id: bytes, body_bytes: int) -> Ask[Job | None]:
        """A member by itself, or a long one by the digest that it was given here."""
        entry = self.entries.find(id) or Entry.of(id)
        args = {"head": entry.head, "size": entry.size, "tail": entry.tail, "body_bytes": body_bytes}
        return Ask((self.call("show", queue, args),), lambda answers: self._shown(queue, answers[0]))

    def page_ask(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Ask[Page]:
        """Rows of the sample from `offset` on; what is held of it is looked at again, and it is filled up behind."""
        place = self.place(place).name
        wish = self._samples.setdefault((queue, place), Sample()).wish(offset, limit)
        args = {"place": place, "limit": wish.wanted, "body_bytes": body_bytes, "cursor": wish.cursor}
        call = self.call("page", queue, args, [{"member": id} for id in wish.asked])
        return Ask((call,), lambda answers: self._sampled(queue, place, offset, limit, wish, answers[0]))

    def next_sample(self, queue: str, place: str) -> None:
        """Forgets the sample; the walk over the set goes on where it stands."""
        key = queue, self.place(place).name
        held = self._samples.get(key)
        if held is not None:
            self._samples[key] = Sample(cursor=held.cursor, of=held.of)

    def _sampled(self, queue: str, place: str, offset: int, limit: int, wish: Wish, answer: Answer | Exception) -> Page:
        if isinstance(answer, ServerError):
            return Page(queue, self.name, place, (), 0, error=str(answer))
        if isinstance(answer, Exception):
            raise answer
        values: Mapping[str, Any] = answer.values
        rows = {self.member_id(Entry.of_row(row)): row for row in rows_by_name(answer)}
        long = {id for id, row in rows.items() if row["size"] > HEAD_BYTES}
        sample, of = self._samples[queue, place], values["of"]
        sample.learn(wish, rows, long, of, values["cursor"])
        first, shown = sample.rows(offset, limit, rows)
        jobs = tuple(self.decode(queue, place, row, values["now_ms"]) for row in shown)
        total, following = min(of, HELD), first + len(jobs)
        following_page = following if following < total and jobs else None
        whole = of if of > total else None
        return Page(queue, self.name, place, jobs, total, True, first, following_page, of=whole)
