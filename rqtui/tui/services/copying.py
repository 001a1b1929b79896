"""Copying: the dialog of `y` with its forms, and the toast that says where the bytes went.

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

from rqtui.text import formats
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import safe
from rqtui.tui.format import copy_formats
from rqtui.tui.format.copy_formats import Copied, Form, Source
from rqtui.tui.format.rows import Row
from rqtui.tui.terminal import clipboard, raw_output, screen_text
from rqtui.tui.widgets.leavable import Leavable
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine import ticker
    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Ref
    from rqtui.tui.host import Host
    from rqtui.tui.view import View

MOST_JOBS = 500  # whose bodies are fetched for one copy
Choice = tuple[str, str, Callable[[], None]]  # a key, what it copies, and what does it


class Choose(ModalScreen[str], Leavable):
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
            frame.border_title = Content(f" {safe(self._title)} ")
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
    """One copy from a view, from the question to the toast."""

    def __init__(self, host: Host, view: View) -> None:
        self._host, self._view = host, view

    def offer(self) -> None:
        """Asks in which form to copy what is under the cursor, or marked."""
        view = self._view
        title, choices = self._choices(view)
        acts = {key: act for key, _label, act in choices}

        def chosen(key: str | None) -> None:
            if key:
                acts[key]()

        self._host.app.push_screen(Choose(title, [(key, label) for key, label, _act in choices]), chosen)

    def _choices(self, view: View) -> tuple[str, list[Choice]]:
        """What the dialog is called, and what can be copied here."""
        target, table = view.target(), _table_of(view)
        choices: list[Choice] = []
        title = "copy"
        if target.ref and target.jobs:
            several = f"{len(target.jobs)} jobs"
            title = "copy " + (formats.job_id(target.jobs[0].id, 30) if len(target.jobs) == 1 else several)
            choices += self._forms(target.ref, target.jobs, view.is_revealed)
        elif target.ref:
            choices.append(("i", "name of the queue", partial(self._send_name, target.ref)))
        choices += _lists(table, self._send_rows) if table is not None else []
        if screen_text.is_readable(view):
            choices.append(("s", "the screen, as text", partial(self._send_screen, view)))
        return title, choices

    def _forms(self, ref: Ref, jobs: Sequence[Job], is_revealed: bool) -> list[Choice]:
        source = Source(self._view.session.layouts[ref.layout], ref.queue, self._view.session.settings.url, is_revealed)
        return [
            (form.key, form.label, partial(self._send_jobs, form, ref, jobs, source))
            for form in copy_formats.FORMS
            if source.layout.has_client or not form.needs_client
        ]

    # -- what is sent -------------------------------------------------------------------------------------------------

    def _send_name(self, ref: Ref) -> None:
        self._hand_over(Copied(to_bytes(ref.queue), "the queue's name"))

    def _send_rows(self, table: Table, rows: Sequence[Row]) -> None:
        self._hand_over(copy_formats.rows(table.painter.columns, rows))

    def _send_screen(self, view: View) -> None:
        self._hand_over(Copied("\n".join(screen_text.lines(view)).encode(), "the screen"))

    def _send_jobs(self, form: Form, ref: Ref, jobs: Sequence[Job], source: Source) -> None:
        """At once where what is on the screen suffices; else when the whole jobs are here."""
        if not form.needs_body:
            self._hand_over(copy_formats.copied(form, jobs, source))
            return
        if len(jobs) > MOST_JOBS:
            self._host.say(f"{len(jobs)} jobs are too many to copy; {MOST_JOBS} at once are not.", "error")
            return
        whole: list[Job] = []

        def fetched(answer: ticker.Answered) -> None:
            if answer.error:
                self._host.say(f"Nothing was copied: {answer.error}", "error")
            elif not answer.is_last:
                whole.extend([answer.result] if answer.result else [])
            elif whole:
                self._hand_over(copy_formats.copied(form, whole, source), len(jobs) - len(whole))
            else:
                self._host.say("Nothing was copied: the job is gone.", "warning")

        self._view.session.work(lambda engine: _fetch(engine, ref, jobs), fetched)

    def _hand_over(self, copied: Copied, gone: int = 0) -> None:
        """Sends it on a thread, and says what became of it."""
        size = formats.size(len(copied.data)).replace(" B", " bytes")
        missing = f"; {gone} more are gone" if gone else ""

        app = self._host.app
        raw = raw_output.writer(app)
        write = partial(app.call_from_thread, raw) if raw else None
        copy = partial(app.call_from_thread, app.copy_to_clipboard)

        def send() -> None:
            try:
                sent = clipboard.send(copied.data, write, copy=copy)
            except OSError as error:
                words, severity = f"Nothing was copied: {error.strerror or error}.", "error"
            else:
                words, severity = f"sent {copied.what} ({size}) to {sent.where}{missing}", "information"
                if sent.why:
                    words, severity = f"{copied.what} ({size}) are in the file {sent.where}: {sent.why}", "warning"
            app.call_from_thread(self._host.say, words, severity)

        app.run_worker(send, thread=True, exclusive=False)


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
    every = f"the list ({formats.numbered(len(rows), 'row')})"
    offers = [("t", which, picked), ("l", every, rows)]
    return [(key, f"{label}, tab-separated", partial(send, table, shown)) for key, label, shown in offers if shown]
