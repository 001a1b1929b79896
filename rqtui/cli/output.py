"""Write the output of the commands: documents and tables to stdout, messages and progress to stderr.

No command writes in another way, except `bench`, which shows no data. JSON is pure ASCII, and every line and cell is
sanitised, so that no control byte of a job reaches the terminal. The one exception is `show --raw`, which refuses to
write to a terminal. Secrets are masked here again, whatever a command did before, unless the command runs with
`--reveal`.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO
from uuid import uuid4

from rqtui.text.names import to_text

PROGRESS_DELAY_S = 1.0  # operations that take longer show a progress bar


def print_message(text: str) -> None:
    """Print a message to stderr, prefixed with `rqtui: `."""
    print_note(f"rqtui: {text}")


def print_note(text: str, end: str = "\n") -> None:
    """Print text that accompanies a result to stderr, without a prefix."""
    from rqtui.text.masking import mask_printed_text
    from rqtui.text.sanitise import safe_lines

    sys.stderr.write("\n".join(safe_lines(mask_printed_text(text))) + end)
    sys.stderr.flush()


def write_json(document: Any, *, is_stream: bool = False) -> None:
    """Write one JSON document to stdout: indented on a terminal, on one line for a stream or a pipe."""
    from rqtui.text.masking import mask_json_document

    indent = 2 if sys.stdout.isatty() and not is_stream else None
    text = json.dumps(mask_json_document(document), allow_nan=False, indent=indent).replace(
        "\x7f", "\\u007f"
    )  # DEL is ASCII
    sys.stdout.write(text + "\n")
    if is_stream:
        sys.stdout.flush()


def write_long_json(document: dict[str, Any], name: str, rows: Iterable[Any]) -> None:
    """Write one JSON document to stdout whose list `name` is filled from `rows` one at a time.

    The rows need not fit into memory. The format is that of `write_json`.
    """
    indent = 2 if sys.stdout.isatty() else None
    placeholder = uuid4().hex
    head_text, tail_text = json.dumps({**document, name: [placeholder]}, allow_nan=False, indent=indent).split(
        f'"{placeholder}"'
    )
    comma = head_text[head_text.rindex("[") + 1 :]
    head = head_text.removesuffix(comma)
    prefix = head
    for row in rows:
        text = json.dumps(row, allow_nan=False, indent=indent).replace("\n", comma or "\n")
        sys.stdout.write((prefix + comma + text).replace("\x7f", "\\u007f"))
        prefix = "," if indent else ", "
    sys.stdout.write(("" if prefix != head else prefix) + tail_text.replace("\x7f", "\\u007f") + "\n")


def write_lines(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Write lines of text to `stream` (default: stdout), each sanitised for a terminal and with secrets masked."""
    from rqtui.text.masking import mask_printed_text
    from rqtui.text.sanitise import safe

    target = stream or sys.stdout
    for line in lines:
        target.write(safe(mask_printed_text(line)) + "\n")
    target.flush()


def write_indented(pieces: Iterable[str], indent: str) -> None:
    """Write a text that arrives in pieces to stdout, each line indented, sanitised and masked."""
    from rqtui.text.masking import mask_printed_text
    from rqtui.text.sanitise import safe

    sys.stdout.write(indent)
    for piece in pieces:
        lines = (safe(mask_printed_text(line)) for line in piece.split("\n"))
        sys.stdout.write(("\n" + indent).join(lines))
    sys.stdout.write("\n")
    sys.stdout.flush()


_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def print_line_of_other_program(line: bytes, to: TextIO) -> None:
    """Write a line that another program printed, without colours, with its tabs, sanitised and with secrets masked."""
    from rqtui.text.masking import mask_text
    from rqtui.text.sanitise import safe

    text = mask_text(_COLOUR.sub("", to_text(line)).removesuffix("\r"))
    to.write("\t".join(map(safe, text.split("\t"))) + "\n")
    to.flush()


def write_bytes(raw: bytes) -> None:
    """Write bytes unchanged to stdout. The caller makes sure that they reach no terminal, or that they are harmless."""
    sys.stdout.flush()
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()


def clear_terminal() -> None:
    """Clear the terminal if stdout is one."""
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[J")


def measure_terminal_width() -> int | None:
    """Return the width of the terminal in cells, or None if stdout is no terminal."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console().width


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error to stderr, sanitised and with secrets masked."""
    import traceback

    from rqtui.text.masking import mask_text

    print_note(mask_text("".join(traceback.format_exception(error)).rstrip("\n")))


def write_table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    """Write a table with `titles` to stdout. Cells are data, and are sanitised and masked.

    Columns are aligned by terminal cells. `right` names the titles of right-aligned columns.
    """
    from rqtui.text.formats import cell_len, fit_to_width
    from rqtui.text.masking import mask_printed_text
    from rqtui.text.sanitise import safe

    cells = [[safe(mask_printed_text(cell)) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(titles, *cells, strict=True)]
    is_terminal = sys.stdout.isatty()
    if is_terminal:
        _write_rich_table(titles, cells, right)
        return
    for row in (titles, *cells):
        padded_cells = [
            fit_to_width(cell, width, "right" if title in right else "left")
            for cell, width, title in zip(row, widths, titles, strict=True)
        ]
        sys.stdout.write("  ".join(padded_cells).rstrip() + "\n")
    sys.stdout.flush()


def _write_rich_table(titles: Sequence[str], cells: Sequence[Sequence[str]], right: Collection[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(Text(title), justify="right" if title in right else "left", overflow="ellipsis", no_wrap=True)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


class Progress:
    """A progress bar on stderr that appears after one second, and only on a terminal."""

    def __init__(self, label: str, total: int | None) -> None:
        self.label, self.total, self.done = label, total, 0
        self._began = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def add_steps(self, amount: int) -> None:
        """Count `amount` more steps as done and update the progress bar."""
        self.done += amount
        if self._bar is None and sys.stderr.isatty() and time.monotonic() - self._began > PROGRESS_DELAY_S:
            self._open_bar()
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(self.label, total=self.total)

    def close(self) -> None:
        """Remove the progress bar from the terminal."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def show_progress(label: str, total: int | None = None) -> Iterator[Progress]:
    """Yield a progress bar with the text `label`. The bar is removed when the `with` block ends."""
    bar = Progress(label, total)
    try:
        yield bar
    finally:
        bar.close()
