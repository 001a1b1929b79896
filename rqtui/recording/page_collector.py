"""Collect the first jobs of each place once per minute, and choose the pages that `rqtui record` must read for that.

A `Recorder` that records jobs has one collector. Pages are added on the thread that takes the snapshots, and converted
to text on the recorder's thread. An empty place is neither read nor stored: the number of its jobs is recorded anyway.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rqtui.errors import RqtuiError, describe_and_log_error
from rqtui.model import Page, PageSelection, Queue, Ref, Snapshot
from rqtui.recording.job_pages import PREVIEW_BYTES, build_recorded_page
from rqtui.recording.records import HOUR_MS, MINUTE_MS, RecordedPage
from rqtui.recording.store import PAGE_REPEAT_MS

if TYPE_CHECKING:
    from rqtui.system_base.system import System

log = logging.getLogger("rqtui.recording")
Key = tuple[Ref, str]  # a queue and the name of its place

MAX_PAGES_PER_REFRESH = 100  # 2 000 jobs of 20 per place: a reply of about 1 MB
LEAST_JOBS = 50  # a board reads at least 60 rows of a place; a page with fewer jobs is the head in another view


class PageCollector:
    """The pages of jobs of the current minute, of which `limit` jobs each are recorded."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._minute_ms: int | None = None
        self._minutes: dict[Key, int] = {}  # the minute in which each place was read last
        self._stored: dict[Key, tuple[int, int]] = {}  # the hash of the last page to be stored, and its minute
        self._pages: dict[Key, tuple[int, bool, Page]] = {}  # when it was read, and whether its total is exact
        self._returned: dict[Key, RecordedPage] = {}  # pages that could not be written

    def add_pages(self, snapshot: Snapshot, selections: Sequence[PageSelection]) -> None:
        """Add the pages of a snapshot that are the first ones of their place in this minute.

        `selections` are those of the pages, in the same order.
        """
        now_ms = snapshot.taken_ms
        minute_ms = now_ms - now_ms % MINUTE_MS
        if minute_ms != self._minute_ms:  # Minutes after this one are from before the clock was set back.
            self._minute_ms = minute_ms
            self._minutes = {key: at_ms for key, at_ms in self._minutes.items() if 0 <= minute_ms - at_ms < HOUR_MS}
            self._stored = {key: stored for key, stored in self._stored.items() if key in self._minutes}
        queues = snapshot.map_queues_by_ref() if selections else {}
        for selection, page in zip(selections, snapshot.pages, strict=False):
            key = selection.ref, selection.place
            if selection.offset or self._minutes.get(key) == minute_ms or not self._is_long_enough(page):
                continue
            self._minutes[key] = minute_ms
            if page.jobs and page.is_list_known and not page.error and self._has_changed(key, page, minute_ms):
                is_exact = page.is_exact and _is_count_exact(queues.get(selection.ref), selection.place)
                with self._lock:
                    self._pages[key] = now_ms, is_exact, page

    def _is_long_enough(self, page: Page) -> bool:
        return bool(page.error) or page.next is None or len(page.jobs) >= min(self._limit, LEAST_JOBS)

    def _has_changed(self, key: Key, page: Page, minute_ms: int) -> bool:
        """Return whether a page must be stored, because its jobs differ from the last one or that is too old.

        The file would not store an unchanged page either. It need not be converted to find that out.
        """
        try:
            fingerprint = hash(page.jobs[: self._limit])
        except TypeError:  # A system put a list into a fact.
            return True
        if key in self._stored:
            stored, stored_ms = self._stored[key]
            if stored == fingerprint and abs(minute_ms - stored_ms) < PAGE_REPEAT_MS:
                return False
        self._stored[key] = fingerprint, minute_ms
        return True

    def choose_selections(self, snapshot: Snapshot, systems: Mapping[str, System]) -> tuple[PageSelection, ...]:
        """Return the pages that the next refresh should read: places with jobs that were not read in this minute.

        They are at most `MAX_PAGES_PER_REFRESH`, those first that were read longest ago.
        """
        minute_ms = snapshot.taken_ms - snapshot.taken_ms % MINUTE_MS
        due = [key for key in _list_filled_places(snapshot) if self._minutes.get(key) != minute_ms]
        if len(due) > MAX_PAGES_PER_REFRESH:
            due.sort(key=lambda key: self._minutes.get(key, -math.inf))
        return tuple(self._build_selection(*key, systems[key[0].system]) for key in due[:MAX_PAGES_PER_REFRESH])

    def _build_selection(self, ref: Ref, place: str, system: System) -> PageSelection:
        return PageSelection(ref, place, 0, self._limit, PREVIEW_BYTES, system.place(place).is_newest_last)

    @property
    def has_pages(self) -> bool:
        """Whether pages were added or returned since the last call of `take_pages`."""
        return bool(self._pages or self._returned)

    def take_pages(self) -> list[RecordedPage]:
        """Return the pages that were added or returned since the last call, converted to text."""
        with self._lock:
            pages, self._pages = self._pages, {}
            returned, self._returned = self._returned, {}
        recorded = [recorded_page for key, page in pages.items() for recorded_page in self._convert_page(key[0], *page)]
        replaced = pages.keys()
        return [*(page for key, page in returned.items() if key not in replaced), *recorded]

    def _convert_page(self, ref: Ref, taken_ms: int, is_exact: bool, page: Page) -> Iterator[RecordedPage]:
        """Yield the record of a page; nothing if its jobs cannot be converted, which is logged."""
        try:
            yield build_recorded_page(ref, page, taken_ms, self._limit, is_exact=is_exact)
        except (RqtuiError, ValueError, TypeError, RecursionError, OverflowError) as error:
            describe_and_log_error(error, log)

    def return_pages(self, pages: Sequence[RecordedPage]) -> None:
        """Keep pages that could not be written for the next call of `take_pages`, until the place is read again."""
        with self._lock:
            self._returned.update({(page.ref, page.place): page for page in pages})


def _is_count_exact(queue: Queue | None, place: str) -> bool:
    return queue is None or all(count.is_exact for count in queue.counts if count.place == place)


def _list_filled_places(snapshot: Snapshot) -> Iterator[Key]:
    """Yield the places of a snapshot that have jobs, or may have jobs because their number is an estimate."""
    for ref, queue in snapshot.map_queues_by_ref().items():
        if not queue.error:
            for count in queue.counts:
                if (count.count or not count.is_exact) and count.is_count_known:
                    yield ref, count.place
