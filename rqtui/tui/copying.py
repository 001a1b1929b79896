"""Copying: what is behind `y`: a small choice of forms, and the toast that says where the bytes went.

What can be chosen depends on what is under the cursor: jobs have forms of their own, every table its rows, and every
screen its text. Bodies are fetched whole, a job per round trip, and sent on a thread, since tmux may take its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Static

from rqtui.tui import clipboard, copies, display
from rqtui.tui.copies import Copied, Form, Source
from rqtui.tui.rows import Row
from rqtui.tui.table import Table

if TYPE_CHECKING:
    from rqtui import tick
    from rqtui.engine import Engine
    from rqtui.model import Job, Ref
    from rqtui.tui.app import Cockpit
    from rqtui.tui.view import View

MOST_JOBS = 500  # whose bodies are fetched for one copy
Choice = tuple[str, str, Callable[[], None]]  # a key, what it copies, and what does it


class Choose(ModalScreen[str]):
    """A few things to choose from, a key each; returns the key, or nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,y", "dismiss('')", "no", show=False, id="choose.no"),
    ]
    DEFAULT_CSS = """
    Choose #choices { width: 60; max-width: 96%; height: auto; max-height: 100%; padding: 0 2; background: $ground; }
    Choose #choices { border: round $accented; border-title-color: $strong; border-title-background: $ground; }
    Choose #choices { border-subtitle-color: $muted; border-subtitle-background: $ground; }
    Choose Offer:hover { background: $cursor-row; }
    """

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._choices = title, choices

    def compose(self) -> ComposeResult:
        """A line per choice."""
        with Vertical(id="choices") as frame:
            frame.border_title = Content(f" {display.safe(self._title)} ")
            frame.border_subtitle = Content(" Esc nothing ")
            for key, label in self._choices:
                yield Offer(key, label)

    def on_key(self, event: Key) -> None:
        """The key of a choice takes it; no other key does anything."""
        if event.character and event.character in dict(self._choices):
            event.stop()
            self.dismiss(event.character)


class Offer(Static):
    """A line of the choice; a click takes it as its key does."""

    def __init__(self, key: str, label: str) -> None:
        super().__init__(Content.assemble((f"{key}  ", "b $accented"), label))
        self._key = key

    def on_click(self) -> None:
        """Takes it."""
        cast(Choose, self.screen).dismiss(self._key)


class Copying:
    """One copy, from the question to the toast. It is no mixin: what it needs is imported when somebody copies."""

    def __init__(self, cockpit: Cockpit) -> None:
        self.cockpit = cockpit

    def offer(self) -> None:
        """Asks in which form to copy what is under the cursor, or marked."""
        view = self.cockpit.view
        if view is None or self.cockpit.screen is not view:
            return
        title, choices = self._choices(view)
        acts = {key: act for key, _label, act in choices}

        def chosen(key: str | None) -> None:
            if key:
                acts[key]()

        self.cockpit.push_screen(Choose(title, [(key, label) for key, label, _act in choices]), chosen)

    def _choices(self, view: View) -> tuple[str, list[Choice]]:
        """What the dialog is called, and what can be copied here."""
        target, table = view.target(), _table_of(view)
        choices: list[Choice] = []
        title = "copy"
        if target.ref and target.jobs:
            several = f"{len(target.jobs)} jobs"
            title = "copy " + (display.job_id(target.jobs[0].id, 30) if len(target.jobs) == 1 else several)
            choices += self._forms(target.ref, target.jobs, view.is_revealed)
        elif target.ref:
            choices.append(("i", "name of the queue", partial(self._send_name, target.ref)))
        choices += _lists(table, self._send_rows) if table is not None else []
        choices.append(("s", "the screen, as text", partial(self._send_screen, view)))
        return title, choices

    def _forms(self, ref: Ref, jobs: Sequence[Job], is_revealed: bool) -> list[Choice]:
        source = Source(self.cockpit.layouts[ref.layout], ref.queue, self.cockpit.settings.url, is_revealed)
        return [
            (form.key, form.label, partial(self._send_jobs, form, ref, jobs, source))
            for form in copies.FORMS
            if not form.layouts or ref.layout in form.layouts
        ]

    # -- what is sent -------------------------------------------------------------------------------------------------

    def _send_name(self, ref: Ref) -> None:
        self._hand_over(Copied(ref.queue.encode("utf-8", "surrogateescape"), "the queue's name"))

    def _send_rows(self, table: Table, rows: Sequence[Row]) -> None:
        self._hand_over(copies.rows(table.painter.columns, rows))

    def _send_screen(self, view: View) -> None:
        lines = ["".join(piece.text for piece in line).rstrip() for line in view._compositor.render_strips()]
        self._hand_over(Copied("\n".join(lines).encode(), "the screen"))

    def _send_jobs(self, form: Form, ref: Ref, jobs: Sequence[Job], source: Source) -> None:
        """At once where what is on the screen suffices; else when the whole jobs are here."""
        if not form.needs_body:
            self._hand_over(copies.copied(form, jobs, source))
            return
        if len(jobs) > MOST_JOBS:
            self.cockpit.say(f"{len(jobs)} jobs are too many to copy; {MOST_JOBS} at once are not.", "error")
            return
        whole: list[Job] = []

        def fetched(answer: tick.Answered) -> None:
            if answer.error:
                self.cockpit.say(f"Nothing was copied: {answer.error}", "error")
            elif not answer.is_last:
                whole.extend([answer.result] if answer.result else [])
            elif whole:
                self._hand_over(copies.copied(form, whole, source), len(jobs) - len(whole))
            else:
                self.cockpit.say("Nothing was copied: it is gone.", "warning")

        self.cockpit.work(lambda engine: _fetch(engine, ref, jobs), fetched)

    def _hand_over(self, copied: Copied, gone: int = 0) -> None:
        """Sends it on a thread, and says what became of it."""
        size = display.size(len(copied.data)).replace(" B", " bytes")
        missing = f"; {gone} more are gone" if gone else ""

        def write(sequence: str) -> None:
            driver = self.cockpit._driver
            if driver is not None:
                self.cockpit.call_from_thread(driver.write, sequence)

        def send() -> None:
            try:
                sent = clipboard.send(copied.data, write)
            except OSError as error:
                words, severity = f"Nothing was copied: {error.strerror or error}.", "error"
            else:
                words, severity = f"sent {copied.what} ({size}) to {sent.where}{missing}", "information"
                if sent.why:
                    words, severity = f"{copied.what} ({size}) are in the file {sent.where}: {sent.why}", "warning"
            self.cockpit.call_from_thread(self.cockpit.say, words, severity)

        self.cockpit.run_worker(send, thread=True, exclusive=False)


def _fetch(engine: Engine, ref: Ref, jobs: Sequence[Job]) -> Iterator[Job | None]:
    """Each job with its whole body, None for one that is gone; a round trip per step."""
    for job in jobs:
        yield engine.job(ref, job.id, -1)


def _table_of(view: View) -> Table | None:
    """The table that has the focus, else the first one to be seen."""
    if isinstance(view.focused, Table):
        return view.focused
    return next((table for table in view.query(Table) if table.display), None)


def _lists(table: Table, send: Callable[[Table, Sequence[Row]], None]) -> list[Choice]:
    """The marked rows, or the one under the cursor; and all that are loaded."""
    rows = table.rows
    picked = [row for row in rows if row.id in (table.marks or (table.cursor_id,))]
    which = "this row" if len(picked) == 1 else f"the {len(picked)} marked rows"
    every = f"the list ({display.numbered(len(rows), 'row')})"
    offers = [("t", which, picked), ("l", every, rows)]
    return [(key, f"{label}, tab-separated", partial(send, table, shown)) for key, label, shown in offers if shown]
