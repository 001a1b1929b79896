"""Copy jobs, rows or the screen to the clipboard: the dialog of `y` and the toast that names the destination.

The choices depend on the row under the cursor: jobs have several formats, every table can copy its rows, every view its
text. Whole bodies are fetched one job per round trip, and sent on a background thread because tmux may be slow.
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
from rqtui.tui.format.copy_formats import ClipboardData, CopyFormat, JobSource
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

MAX_JOBS = 500  # most jobs whose bodies are fetched for one copy
_CLOSING_KEYS = ("escape", "q", "y")
CopyChoice = tuple[str, str, Callable[[], None]]  # key, label, and the function that copies


class ChoiceDialog(ModalScreen[str], Leavable):
    """A dialog with a few choices, one key each, that returns the pressed key or an empty string."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(_CLOSING_KEYS), "dismiss('')", "no", show=False, id="choose.no"),
    ]
    DEFAULT_CSS = """
    ChoiceDialog #choices { width: 60; max-width: 96%; height: auto; max-height: 100%; padding: 0 2; }
    ChoiceDialog #choices { background: $ground; }
    ChoiceDialog #choices { border: round $accented; border-title-color: $strong; border-title-background: $ground; }
    ChoiceDialog #choices { border-subtitle-color: $muted; border-subtitle-background: $ground; }
    ChoiceDialog ChoiceLine:hover { background: $cursor-row; }
    """

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._choices = title, choices

    def compose(self) -> ComposeResult:
        """Create one line per choice of the dialog."""
        with Vertical(id="choices") as frame:
            frame.border_title = Content(f" {safe(self._title)} ")
            frame.border_subtitle = Content(" Esc nothing ")
            for key, label in self._choices:
                yield ChoiceLine(key, label)

    def on_key(self, event: Key) -> None:
        """Close the dialog. A key that belongs to no choice is then handled by the view, as if no dialog had opened."""
        if not event.is_printable or event.key in _CLOSING_KEYS:
            return
        event.stop()
        is_choice = event.character in dict(self._choices)
        self.dismiss(event.character if is_choice else "")
        if not is_choice:
            self.app.call_after_refresh(self.app.simulate_key, event.key)


class ChoiceLine(Static):
    """One choice of the dialog as a line. A click on it has the same effect as its key."""

    def __init__(self, key: str, label: str) -> None:
        super().__init__(Content.assemble((f"{key}  ", "b $accented"), label))
        self._key = key

    def on_click(self) -> None:
        """Close the dialog with the choice of the clicked line."""
        cast(ChoiceDialog, self.screen).dismiss(self._key)


class Copying:
    """The service that copies jobs, rows or the screen to the clipboard, after a dialog that asks what to copy."""

    def __init__(self, host: Host, view: View) -> None:
        self._host, self._view = host, view

    def open_copy_dialog(self) -> None:
        """Ask in which format to copy the marked rows or the row under the cursor, then copy them."""
        view = self._view
        title, choices = self._build_copy_choices(view)
        copy_functions = {key: copy_function for key, _label, copy_function in choices}

        def run_chosen_copy(key: str | None) -> None:
            if key:
                copy_functions[key]()

        self._host.app.push_screen(ChoiceDialog(title, [(key, label) for key, label, _act in choices]), run_chosen_copy)

    def _build_copy_choices(self, view: View) -> tuple[str, list[CopyChoice]]:
        """Return (title, choices) of the dialog that lists what can be copied from this view."""
        target, table = view.build_target(), _find_table(view)
        choices: list[CopyChoice] = []
        title = "copy"
        if target.ref and target.jobs:
            several = f"{len(target.jobs)} jobs"
            title = "copy " + (formats.shorten_job_id(target.jobs[0].id, 30) if len(target.jobs) == 1 else several)
            choices += self._list_job_formats(target.ref, target.jobs, view.is_revealed)
        elif target.ref:
            choices.append(("i", "name of the queue", partial(self._copy_queue_name, target.ref)))
        choices += _build_row_choices(table, self._copy_rows) if table is not None else []
        if screen_text.is_screen_readable(view):
            choices.append(("s", "the screen, as text", partial(self._copy_screen, view)))
        return title, choices

    def _list_job_formats(self, ref: Ref, jobs: Sequence[Job], is_revealed: bool) -> list[CopyChoice]:
        source = JobSource(
            self._view.session.systems[ref.system], ref.queue, self._view.session.settings.url, is_revealed
        )
        return [
            (copy_format.key, copy_format.label, partial(self._copy_jobs, copy_format, ref, jobs, source))
            for copy_format in copy_formats.COPY_FORMATS
            if source.system.has_client or not copy_format.needs_client
        ]

    # -- copying -------------------------------------------------------------------------------------------------

    def _copy_queue_name(self, ref: Ref) -> None:
        self._send_to_clipboard(ClipboardData(to_bytes(ref.queue), "the queue's name"))

    def _copy_rows(self, table: Table, rows: Sequence[Row]) -> None:
        self._send_to_clipboard(copy_formats.convert_table_rows(table.painter.columns, rows))

    def _copy_screen(self, view: View) -> None:
        self._send_to_clipboard(ClipboardData("\n".join(screen_text.read_screen_lines(view)).encode(), "the screen"))

    def _copy_jobs(self, copy_format: CopyFormat, ref: Ref, jobs: Sequence[Job], source: JobSource) -> None:
        """Copy jobs in one format, after fetching their bodies if the format needs them."""
        if not copy_format.needs_body:
            self._send_to_clipboard(copy_formats.convert_jobs(copy_format, jobs, source))
            return
        if len(jobs) > MAX_JOBS:
            self._host.show_toast(f"{len(jobs)} jobs are too many to copy; the limit is {MAX_JOBS}.", "error")
            return
        fetched_jobs: list[Job] = []

        def collect_fetched_job(call_result: ticker.CallFinished) -> None:
            if call_result.error:
                self._host.show_toast(f"Nothing was copied: {call_result.error}", "error")
            elif not call_result.is_last:
                fetched_jobs.extend([call_result.result] if call_result.result else [])
            elif fetched_jobs:
                self._send_to_clipboard(
                    copy_formats.convert_jobs(copy_format, fetched_jobs, source), len(jobs) - len(fetched_jobs)
                )
            else:
                self._host.show_toast("Nothing was copied: the job no longer exists.", "warning")

        self._view.session.run_steps(lambda engine: _fetch_complete_jobs(engine, ref, jobs), collect_fetched_job)

    def _send_to_clipboard(self, clipboard_data: ClipboardData, missing_jobs: int = 0) -> None:
        """Send the bytes to the clipboard on a background thread, and report the destination in a toast."""
        size = formats.format_size(len(clipboard_data.data)).replace(" B", " bytes")
        missing_text = f"; {missing_jobs} more no longer exist" if missing_jobs else ""

        app = self._host.app
        write_raw = raw_output.find_terminal_writer(app)
        write = partial(app.call_from_thread, write_raw) if write_raw else None
        copy = partial(app.call_from_thread, app.copy_to_clipboard)

        def send_clipboard_data() -> None:
            try:
                result = clipboard.send_to_clipboard(clipboard_data.data, write, copy=copy)
            except OSError as error:
                message, severity = f"Nothing was copied: {error.strerror or error}.", "error"
            else:
                message, severity = (
                    f"sent {clipboard_data.description} ({size}) to {result.where}{missing_text}",
                    "information",
                )
                if result.why:
                    message, severity = (
                        f"{clipboard_data.description} ({size}) are in the file {result.where}: {result.why}",
                        "warning",
                    )
            app.call_from_thread(self._host.show_toast, message, severity)

        app.run_worker(send_clipboard_data, thread=True, exclusive=False)


def _fetch_complete_jobs(engine: Engine, ref: Ref, jobs: Sequence[Job]) -> Iterator[Job | None]:
    """Yield each job with its whole body, or None for a missing job. Each step takes one round trip."""
    for job in jobs:
        yield engine.fetch_job(ref, job.id, -1)


def _find_table(view: View) -> Table | None:
    """Return the focused table of a view, else the first visible one, else None."""
    if isinstance(view.focused, Table):
        return view.focused
    return next((table for table in view.query(Table) if table.display), None)


def _build_row_choices(table: Table, copy_rows: Callable[[Table, Sequence[Row]], None]) -> list[CopyChoice]:
    """Return the choices that copy the marked table rows (or the current one) and all loaded rows."""
    rows = table.rows
    picked_rows = [row for row in rows if row.id in (table.marks or (table.cursor_id,))]
    picked_label = "this row" if len(picked_rows) == 1 else f"the {len(picked_rows)} marked rows"
    all_rows_label = f"the list ({formats.format_quantity(len(rows), 'row')})"
    options = [("t", picked_label, picked_rows), ("l", all_rows_label, rows)]
    return [
        (key, f"{label}, tab-separated", partial(copy_rows, table, chosen_rows))
        for key, label, chosen_rows in options
        if chosen_rows
    ]
