"""Output of the commands: documents and tables on stdout, words and progress on stderr. No command writes to them in
another way, but for `bench`, which shows no data.

JSON is pure ASCII, and every line and every cell is made safe, so no control byte of a job ever reaches the terminal.
The one exception are the bytes of `show --raw`, which no terminal gets.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rqtui.text.names import to_text

PATIENCE_S = 1.0  # what takes longer shows a bar


def say(text: str) -> None:
    """A sentence for a person, on stderr."""
    note(f"rqtui: {text}")


def note(text: str, end: str = "\n") -> None:
    """Words beside a result, on stderr, without our name in front."""
    from rqtui.text.sanitise import safe_lines

    sys.stderr.write("\n".join(safe_lines(text)) + end)
    sys.stderr.flush()


def write_json(document: Any, *, is_stream: bool = False) -> None:
    """One document; indented for a person's terminal, on one line for a stream and for a pipe."""
    indent = 2 if sys.stdout.isatty() and not is_stream else None
    written = json.dumps(document, allow_nan=False, indent=indent).replace("\x7f", "\\u007f")  # DEL is ASCII
    sys.stdout.write(written + "\n")
    if is_stream:
        sys.stdout.flush()


def write_lines(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Lines of text, each made safe, on stdout unless another stream is given."""
    from rqtui.text.sanitise import safe

    to = stream or sys.stdout
    for line in lines:
        to.write(safe(line) + "\n")
    to.flush()


_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def pass_on(line: bytes, to: TextIO) -> None:
    """A line of another program, which may print what strangers wrote: without colours, its tabs kept."""
    from rqtui.text.sanitise import safe

    text = _COLOUR.sub("", to_text(line)).removesuffix("\r")
    to.write("\t".join(map(safe, text.split("\t"))) + "\n")
    to.flush()


def write_bytes(raw: bytes) -> None:
    """Bytes as they are, on a stdout that is no terminal."""
    sys.stdout.flush()
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()


def clear() -> None:
    """Empties the terminal, where stdout is one."""
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[J")


def width() -> int | None:
    """How many cells a line of the terminal has; None where stdout is none."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console().width


def tell_traceback(error: BaseException) -> None:
    """Where an error came from, on stderr; its message may hold what strangers wrote."""
    import traceback

    note("".join(traceback.format_exception(error)).rstrip("\n"))


def write_table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    """Columns under their titles, aligned by cells; `right` names those that hold numbers. Cells are data."""
    from rqtui.text.formats import cell_len, fit
    from rqtui.text.sanitise import safe

    cells = [[safe(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(titles, *cells, strict=True)]
    is_terminal = sys.stdout.isatty()
    if is_terminal:
        _write_rich_table(titles, cells, right)
        return
    for row in (titles, *cells):
        parts = [
            fit(cell, width, "right" if title in right else "left")
            for cell, width, title in zip(row, widths, titles, strict=True)
        ]
        sys.stdout.write("  ".join(parts).rstrip() + "\n")
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
    """A bar on stderr that appears once something takes longer than a second, and only on a terminal."""

    def __init__(self, what: str, total: int | None) -> None:
        self.what, self.total, self.done = what, total, 0
        self._began = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def step(self, amount: int) -> None:
        """Counts `amount` more steps as done."""
        self.done += amount
        if self._bar is None and sys.stderr.isatty() and time.monotonic() - self._began > PATIENCE_S:
            self._open()
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)

    def _open(self) -> None:
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
        self._task = self._bar.add_task(self.what, total=self.total)

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Progress]:
    """A Progress that is taken away in the end."""
    bar = Progress(what, total)
    try:
        yield bar
    finally:
        bar.close()
