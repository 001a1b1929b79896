"""Search for all jobs of an error group, then start a verb on them.

A report has only a sample of the group's jobs. The search walks through the whole places of its queues, and the
question before the change says how many more jobs were found. Used by the view of errors and the page of an incident.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rqtui.engine import ticker
from rqtui.model import Job, Ref, State
from rqtui.reports import errors
from rqtui.reports.errors import Group, Grouping, Key, Members
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.tui import keys
from rqtui.tui.target import Target

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.tui.session import Session
    from rqtui.tui.view import View
    from rqtui.verbs import Verb

NO_ERROR_TEXT = "(no error is stored)"


class GroupSearch:
    """The search of a view for the members of an error group. `show_progress` redraws what `build_progress` returns."""

    def __init__(self, view: View, show_progress: Callable[[], None]) -> None:
        self._view, self._show_progress = view, show_progress
        self._members: dict[Ref, dict[bytes, Job]] = {}  # members found so far of the group to act on
        self._search_step: Members | None = None
        self._search_request: int  # id of the search that was started last
        self._pending_verb: tuple[Verb, Group] | None = None  # the verb and the group for which members are searched

    def start_verb(self, verb: Verb, group: Group, refs: Sequence[Ref], grouping: Grouping) -> bool:
        """Search for all members of a group in some queues, then start the verb on them.

        Returns True: the verb is handled, also if a search is running already or the verb is for one job.
        """
        view = self._view
        if verb.script and group.count > 1:
            view.host.show_toast(
                f"{verb.label}: {keys.apply_keymap('that is for one job; Enter shows those of this error.')}", "warning"
            )
            return True
        if self._pending_verb is not None:
            return True
        states = tuple(state for state in errors.STATES if not verb.takes or state in verb.takes)
        self._members, self._search_step = {}, None
        self._pending_verb = verb, group
        self._search_request = view.session.run_steps(
            partial(_yield_group_members, tuple(refs), group.key, grouping, states), self._handle_search_step
        )
        self._show_progress()
        return True

    def stop(self) -> bool:
        """Stop a running search, before which nothing was changed. Return whether one was running."""
        if self._pending_verb is None:
            return False
        self._pending_verb = None
        self._view.session.stop_steps(self._search_request)
        return True

    def build_progress(self) -> list[Piece]:
        """Return the progress of a running search; empty without one."""
        if self._pending_verb is None:
            return []
        found_jobs = sum(len(jobs) for jobs in self._members.values())
        searched, total = (self._search_step.looked, self._search_step.of) if self._search_step else (0, 0)
        numbers = [formats.format_long_count(number) for number in (found_jobs, searched, total)]
        progress = f"{numbers[0]} found, {numbers[1]} of {numbers[2]}"
        return [
            Piece(
                f"{self._pending_verb[0].label}: {progress} searched · {keys.find_current_key('back')} stops ",
                "accented",
            )
        ]

    def _handle_search_step(self, message: ticker.CallFinished) -> None:
        if message.request_id != self._search_request:
            return  # an answer of a stopped search
        step: Members | None = message.result
        if step is not None:
            self._search_step = step
            self._members.setdefault(step.ref, {}).update((job.id, job) for job in step.jobs)
        if message.is_last:
            pending, self._pending_verb, members = self._pending_verb, None, self._members
            self._members = {}
            if message.error:
                self._view.host.show_toast(message.error, "error")
            elif pending is not None:
                self._start_verb_on_members(*pending, members)
        self._show_progress()

    def _start_verb_on_members(self, verb: Verb, group: Group, members: dict[Ref, dict[bytes, Job]]) -> None:
        systems, host = self._view.session.systems, self._view.host
        jobs_by_queue = []
        for ref, jobs_by_id in members.items():
            jobs = [job for job in jobs_by_id.values() if systems[ref.system].can(verb.name, job.place)]
            if jobs:
                jobs_by_queue.append((ref, jobs))
        description = f'error "{group.message or NO_ERROR_TEXT}"'
        if not jobs_by_queue:
            host.show_toast(f"{verb.name}: no job with {description} is there any more.", "warning")
            return
        listed_keys = {build_job_key(job) for job in group.jobs if systems[job.system].can(verb.name, job.place)}
        found_keys = {build_job_key(job) for _ref, jobs in jobs_by_queue for job in jobs}
        newest_searched = self._search_step.of if self._search_step is not None and self._search_step.left else 0
        host.start_verb_on_jobs(
            verb.name, jobs_by_queue, description, _describe_search_difference(listed_keys, found_keys, newest_searched)
        )


def build_group_target(session: Session, group: Group, *, is_partial: bool = False) -> Target:
    """Return the group's jobs in the queue and place of its example, which decide the usable keys.

    With `is_partial` the jobs are left out: the example may change, so the keys of verbs stay grey.
    """
    example = group.example
    ref = Ref(example.system, example.queue)
    jobs = [
        job
        for job in (() if is_partial else group.jobs)
        if (job.system, job.queue, job.place) == (ref.system, ref.queue, example.place)
    ]
    queue = session.snapshot.find_queue(ref) if session.snapshot else None
    return Target(ref, example.place, tuple(jobs), queue=queue, state=example.state)


def build_job_key(job: Job) -> tuple[str, str, bytes]:
    """Return what identifies a job among those of several queues."""
    return job.system, job.queue, job.id


def _yield_group_members(
    refs: tuple[Ref, ...], key: Key, grouping: Grouping, states: Sequence[State], engine: Engine
) -> Iterator[Members]:
    return errors.yield_group_members(engine, refs, key, grouping, states)


def _describe_search_difference(
    row_jobs: Collection[object], found_jobs: Collection[object], searched_count: int
) -> str:
    """Describe how the jobs that were found differ from those in the row: `31 jobs found now`."""
    more, missing = len(set(found_jobs) - set(row_jobs)), len(set(row_jobs) - set(found_jobs))
    texts = (
        [f"{formats.format_quantity(more, 'job')} found now, not yet counted in the list"] if more and row_jobs else []
    )
    texts += [f"{formats.format_quantity(missing, 'job')} of the list no longer there"] if missing else []
    texts += [f"only the newest {formats.format_long_count(searched_count)} were searched"] if searched_count else []
    return ", ".join(texts).capitalize() + "." if texts else ""
