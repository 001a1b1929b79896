"""Run a rate-limited change of jobs by a timer, show its progress, and stop it.

`operations/rate_limit` changes the jobs and applies the rate limit. A step is requested only after the previous one was
answered, so a slow link runs fewer steps instead of a growing queue of them. The first jobs of a canary are shown on a
page of their own. After a canary has passed, that page asks whether the other jobs shall follow, or a question if the
page was closed; until the answer no job is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input

from rqtui.engine import ticker
from rqtui.model import Job, Ref
from rqtui.operations.journal import Circumstances
from rqtui.text import formats
from rqtui.text.masking import mask_text
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.batches import Batches
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.outcome_counts import OutcomeCounts, find_past_participle
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.session import Session
from rqtui.tui.widgets import question_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rqtui.engine.engine import Engine
    from rqtui.operations import rate_limit
    from rqtui.tui.widgets.canary_page import CanaryPage


@dataclass(slots=True)
class _RateLimitedChange:
    """A rate-limited change of jobs that is under way."""

    verb: str
    refs: tuple[Ref, ...]
    jobs_by_queue: Sequence[tuple[Ref, Sequence[Job]]]
    form: Mapping[str, object]
    place: str
    limit: rate_limit.Limits
    outcome_counts: OutcomeCounts
    steps: Iterator[rate_limit.Step] | None = None
    last: rate_limit.Step | None = None
    is_waiting: bool = False
    is_stopped: bool = False
    passed: rate_limit.Step | None = None  # the step whose canary passed, while the question about it is unanswered
    is_question_open: bool = False
    is_page_wanted: bool = False  # the page of the first jobs was not opened yet
    page: CanaryPage | None = None  # the page of the first jobs, while it is open
    timer: Timer | None = None

    def run_next_step(self, engine: Engine) -> rate_limit.Step | None:
        """Run the next step of the change on the engine's thread. Return None after the last step."""
        from rqtui.operations import rate_limit

        if self.steps is None:
            self.steps = rate_limit.yield_rate_limited_steps(
                engine, self.verb, self.jobs_by_queue, self.form, self.limit, place=self.place
            )
        return next(self.steps, None)


class RateLimitedChanges:
    """The service that runs the rate-limited change of a session; only one change runs at a time."""

    def __init__(
        self, host: Host, session: Session, navigation: Navigation, batches: Batches, journal: SessionJournal
    ) -> None:
        self._host, self._session, self._navigation = host, session, navigation
        self._batches, self._journal = batches, journal
        self._change: _RateLimitedChange | None = None

    def start_change(
        self,
        verb: str,
        jobs_by_queue: Sequence[tuple[Ref, Sequence[Job]]],
        form: Mapping[str, object],
        limit: rate_limit.Limits,
        place: str,
        circumstances: Circumstances,
    ) -> None:
        """Start a rate-limited change of jobs, unless one is already running."""
        from rqtui.operations.rate_limit import STEP_INTERVAL_S

        if self._change is not None:
            self._host.show_toast(keys.apply_keymap("A throttled change is running already: X stops it."), "warning")
            return
        refs = tuple(ref for ref, _jobs in jobs_by_queue)
        self._change = _RateLimitedChange(verb, refs, jobs_by_queue, form, place, limit, OutcomeCounts(verb, refs[0]))
        self._change.is_page_wanted = limit.canary_jobs is not None
        for ref in refs:
            self._journal.announce_change(verb, ref, circumstances)
        self._change.timer = self._host.app.set_interval(STEP_INTERVAL_S, self._request_step)
        self._request_step()

    def _request_step(self) -> None:
        change = self._change
        if change is None or change.is_waiting:
            return
        if change.passed is not None:
            self._ask_for_other_jobs(change, change.passed)
            return
        self._open_page(change)
        change.is_waiting = True
        self._session.call_engine(change.run_next_step, lambda answered: self._handle_step_result(change, answered))

    def _handle_step_result(self, change: _RateLimitedChange, call_result: ticker.CallFinished) -> None:
        step: rate_limit.Step | None = call_result.result
        if change is not self._change:
            return  # the change was stopped in the meantime
        change.is_waiting = False
        if step is not None:
            change.outcome_counts.add_outcomes([outcome for _ref, outcome in step.outcomes])
            change.last = step
            if step.outcomes:
                self._session.ticker.request_refresh()
        stop_reason = step.stop_reason if step is not None else call_result.error or "it is over"
        if stop_reason or change.is_stopped:
            self._finish_change(change, stop_reason, call_result.error)
        elif step is not None and step.canary is not None:
            if change.page is not None:
                change.page.show_progress(step.canary, step.total - step.done)
            if step.canary.has_passed:
                change.passed = step
                self._ask_for_other_jobs(change, step)
        self._host.show_keys()

    @property
    def _is_keyboard_used(self) -> bool:
        """Whether a dialog or an input receives the keys, so that nothing may open above it."""
        app = self._host.app
        return isinstance(app.screen, ModalScreen) or isinstance(app.focused, Input)

    def _open_page(self, change: _RateLimitedChange) -> None:
        """Open the page of the first jobs once, as soon as no dialog or input is used."""
        if not change.is_page_wanted or self._is_keyboard_used:
            return
        from rqtui.tui.widgets.canary_page import CanaryPage, Reply

        change.is_page_wanted = False
        page = CanaryPage(change.verb, find_past_participle(change.verb), change.limit)

        def handle_reply(reply: Reply | None) -> None:
            change.page, change.is_question_open = None, False
            if reply is Reply.ACCEPT:
                change.passed = None
            elif reply is Reply.STOP and change is self._change:
                self.stop_change()
            elif reply is Reply.OPEN and page.failure is not None:
                self._navigation.open_job(page.failure.ref, page.failure.job)

        change.page = page
        self._host.app.push_screen(page, handle_reply)

    def _ask_for_other_jobs(self, change: _RateLimitedChange, step: rate_limit.Step) -> None:
        """Ask once whether the other jobs shall follow a canary that passed.

        The page of the first jobs asks if it is open. Otherwise a dialog asks as soon as no dialog or input is used.
        """
        canary, remaining = step.canary, step.total - step.done
        if change.is_question_open or canary is None or (change.page is None and self._is_keyboard_used):
            return
        change.is_question_open, change.is_page_wanted = True, False
        jobs = "job" if remaining == 1 else "jobs"
        rate = formats.format_rate(change.limit.jobs_per_s)
        others = f"the other {formats.format_long_count(remaining)} {jobs}"
        title = f"{change.verb.capitalize()} {others} at {rate}?"
        note = f"Nothing more is sent until you answer.{_describe_later_stops(change.limit)}"
        if change.page is not None:
            change.page.ask_for_others(f"{canary.done} of {canary.total} done. {title}", note)
            return
        from rqtui.tui.widgets.question_dialog import Question

        def handle_answer(reply: object) -> None:
            change.passed, change.is_question_open = None, False
            if reply is None and change is self._change:
                self.stop_change()

        lines = [f"{canary.done} of {formats.format_quantity(canary.total, 'job')} succeeded.", note]
        question = Question(title, [Content(line) for line in lines], (), change.verb, is_danger=False)
        self._host.app.push_screen(question, handle_answer)

    def stop_change(self) -> bool:
        """Stop the rate-limited change after the current step. Return False if none is running."""
        change = self._change
        if change is None:
            return False
        change.is_stopped = True
        if change.timer:
            change.timer.stop()
        if not change.is_waiting:
            self._finish_change(change, "", "")
        return True

    def _finish_change(self, change: _RateLimitedChange, stop_reason: str, error: str) -> None:
        if change.timer:
            change.timer.stop()
        self._change = None
        if change.is_stopped and not stop_reason and change.last:
            stop_reason = f"stopped by {keys.find_current_key('stop')} after {change.last.done} of {change.last.total}"
        if stop_reason.startswith("stopped"):
            self._journal.record_stop(change.verb, change.refs, stop_reason)
            if change.page is None:  # The page says it.
                self._host.show_toast(f"throttled {change.verb}: {stop_reason}.", "warning", timeout=12)
        if change.page is not None:
            self._show_end_on_page(change, change.page, stop_reason)
        self._batches.report_result(change.outcome_counts, error, change.refs)
        for view in self._navigation.list_drawable_views():
            view.handle_acted_jobs(change.outcome_counts.ids)

    def _show_end_on_page(self, change: _RateLimitedChange, page: CanaryPage, stop_reason: str) -> None:
        """Show on the page of the first jobs why the change has ended, and what was not changed."""
        last = change.last
        canary = last.canary if last is not None else None
        others = last.total - last.done if last is not None else 0
        if canary is not None:
            page.show_progress(canary, others)
        sentences = [(mask_text(safe(f"{stop_reason[:1].upper()}{stop_reason[1:]}.")), "$state-dead")]
        failure = canary.first_failure if canary is not None else None
        if canary is not None and canary.has_passed:
            sentences = [(f"{canary.done} of {canary.total} done. No other job is left.", "b $strong")]
        elif failure is not None:
            id = formats.shorten_job_id(failure.job.id, 40)
            sentences = [(f"Stopped: {id} {mask_text(safe(failure.describe_end()))}.", "$state-dead")]
        if others:
            jobs, were = ("job", "was") if others == 1 else ("jobs", "were")
            count = formats.format_long_count(others)
            sentences.append((f"The other {count} {jobs} {were} not {find_past_participle(change.verb)}.", "$data"))
        page.show_end(sentences, failure)

    def format_progress(self) -> Content | None:
        """Return the progress of the rate-limited change for the footer, or None if none is running."""
        change = self._change
        if change is None:
            return None
        rate = formats.format_rate(change.limit.jobs_per_s)
        if change.last is None:
            return question_text.format_progress(change.verb, 0, 0, [rate])
        last = change.last
        if last.canary is not None or (change.limit.canary_jobs and last.done <= change.limit.canary_jobs):
            first = last.canary.describe() if last.canary is not None else "trying the first jobs"
            return question_text.format_progress(change.verb, last.done, last.total, [first])
        facts = [rate, f"{formats.format_count(last.failures)} failed" if last.failures else ""]
        if last.done < last.total:
            time_left = formats.spell_duration((last.total - last.done) / change.limit.jobs_per_s, 1)
            facts.append(f"{time_left} left")
        return question_text.format_progress(change.verb, last.done, last.total, facts)


def _describe_later_stops(limit: rate_limit.Limits) -> str:
    """Describe the limits at which the change stops after its first jobs, as one more sentence; empty without one."""
    limits = ((limit.max_failures, "failure"), (limit.max_depth, "ready job"))
    stops = [formats.format_quantity(number, noun) for number, noun in limits if number is not None]
    return f" It stops at {' or '.join(stops)}." if stops else ""
