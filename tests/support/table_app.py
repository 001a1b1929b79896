"""Provide an application with one table and an input, and rows for the table, for the tests of tables."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input

import rqtui.tui
from rqtui.tui.format import theme
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.widgets.table import Table

COLUMNS = (
    Column("id", "id", 6),
    Column("job", "job", 10, weight=1),
    Column("age", "age", 6, align="right", style="muted"),
)


def build_row(number: int | str, age: str = "1s") -> Row:
    return Row(f"j{number}".encode(), (f"j{number}", "send_invoice", age))


def rows(*numbers: int | str) -> list[Row]:
    return [build_row(number) for number in numbers]


class CountingTable(Table):
    """A table that stores which lines are drawn."""

    drawn: ClassVar[list[int]] = []

    def render_line(self, y: int) -> Strip:
        self.drawn.append(y)
        return super().render_line(y)


class TableApp(App[None]):
    """An application with one table, which stores the messages of the table."""

    CSS_PATH = Path(rqtui.tui.__file__).parent / "rqtui.tcss"

    def __init__(self, theme_name: str = theme.DARK, **options: object) -> None:
        super().__init__(ansi_color=theme_name == theme.ANSI or None)
        self.posted: list[Message] = []
        self.first_theme, self.options = theme_name, options

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme.compute_default_variables(self.current_theme)

    def compose(self) -> ComposeResult:
        yield CountingTable(COLUMNS, empty="No job is ready. Press N for a new one.", id="table", **self.options)  # type: ignore[arg-type]
        yield Input(id="filter")

    def on_mount(self) -> None:
        theme.register_themes(self, self.first_theme)  # type: ignore[arg-type]
        self.table.focus()

    @property
    def table(self) -> CountingTable:
        return self.query_one("#table", CountingTable)

    def on_table_moved(self, message: Table.Moved) -> None:
        self.posted.append(message)

    on_table_opened = on_table_wanted = on_table_marked = on_table_moved  # type: ignore[assignment]

    def posted_messages(self, kind: type) -> list[Message]:
        return [message for message in self.posted if type(message) is kind]

    def lines(self) -> list[str]:
        """Return the lines of the screen within the frame, without the empty end of each line."""
        table = self.table
        drawn = [table.render_line(y).text.rstrip() for y in range(table.size.height)]
        while drawn and not drawn[-1]:
            drawn.pop()
        return drawn

    def body(self) -> list[str]:
        """Return the visible rows as (gutter + id)."""
        return [line[:2].replace(" ", "") + line[2:8].strip() for line in self.lines()[1:]]


def run_table_app(
    test: Callable[[TableApp, Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (60, 20),
    **options: object,
) -> None:
    async def run() -> None:
        app = TableApp(**options)  # type: ignore[arg-type]
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await test(app, pilot)

    asyncio.run(run())
