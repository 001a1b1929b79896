"""What the commands write: documents and tables on stdout, words and progress on stderr.

JSON is pure ASCII and every cell of a table is made safe, so no control byte of a job ever reaches the terminal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 1.0  # what takes longer shows a bar


def say(text: str) -> None:
    """A sentence for a person, on stderr."""
    from rqtui.tui.safe import safe_lines

    shown = "\n".join(safe_lines(text))
    print(f"rqtui: {shown}", file=sys.stderr, flush=True)


def write_json(document: Any, *, is_stream: bool = False) -> None:
    """One document; indented for a person's terminal, on one line for a stream and for a pipe."""
    indent = 2 if sys.stdout.isatty() and not is_stream else None
    sys.stdout.write(json.dumps(document, allow_nan=False, indent=indent) + "\n")
    if is_stream:
        sys.stdout.flush()


def write_lines(lines: Sequence[str]) -> None:
    """Lines that are safe already."""
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write_table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    """Columns under their titles, aligned by cells; `right` names those that hold numbers. Cells are data."""
    from rqtui.tui.display import cell_len, fit, safe

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
        """So much more is done."""
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
