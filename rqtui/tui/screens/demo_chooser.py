"""Show the list from which a person chooses the demo scenario, before any server is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from rqtui.scenarios.scenario import Scenario
from rqtui.text import formats
from rqtui.tui.format import theme
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.view import TABLE_FRAME_ROWS
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

_COLUMNS = (
    Column("name", "scenario", 11, style="strong"),
    Column("layout", "system", 12, style="muted", drop=1),
    Column("summary", "what it shows", 30, weight=1),
)


_LEAST_DESCRIPTION_ROWS, _OTHER_ROWS = 4, 4  # rows of the description; of its frame, the title and the keys


class DemoChooser(App[str]):
    """A small Textual app that lists the demo scenarios and returns the name of the chosen one, or None."""

    CSS_PATH = "../rqtui.tcss"
    ENABLE_COMMAND_PALETTE = False
    DEFAULT_CSS = """
    #title, #keys { height: 1; padding: 0 2; }
    Chooser Table { margin: 0 1; }
    #story { height: 1fr; margin: 0 1; padding: 0 1; }
    #keys { dock: bottom; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape", "quit", "quit", show=False, id="chooser.quit")]

    def __init__(self, scenarios: Mapping[str, Scenario], theme_name: str = theme.DARK) -> None:
        super().__init__(ansi_color=theme_name == theme.ANSI or None)
        theme.register_themes(self, theme_name)  # type: ignore[arg-type]
        self._scenarios = scenarios

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return rqtui's colours for themes that do not define them."""
        return theme.compute_default_variables(self.current_theme)

    def compose(self) -> ComposeResult:
        """Create the list of demo scenarios, and a pane with what to try and watch in the selected one."""
        yield Static(Content.assemble(("rqtui demo", "b $strong"), ("   which one?", "$muted")), id="title")
        yield Table(_COLUMNS, id="scenarios", has_marks=False)
        story = LongText(id="story", classes="pane")
        story.border_title = Content(" try and watch ")
        yield story
        keys = Content.assemble(
            ("⏎", "b $accented"), (" start   ", "$muted"), ("q", "b $accented"), (" quit", "$muted")
        )
        yield Static(keys, id="keys")

    def on_mount(self) -> None:
        """Fill the list of demo scenarios and focus its first one."""
        table = self.query_one(Table)
        scenarios = self._scenarios.values()
        table.update(
            [
                Row(scenario.name, (scenario.name, scenario.system.partition(":")[0], scenario.summary))
                for scenario in scenarios
            ]
        )
        self._fit_table()
        table.focus()

    def _fit_table(self) -> None:
        """Give the list all the rows it needs, but leave some for the description."""
        needed = len(self._scenarios) + TABLE_FRAME_ROWS
        self.query_one(Table).styles.height = min(needed, self.size.height - _OTHER_ROWS - _LEAST_DESCRIPTION_ROWS)

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the description of the selected scenario."""
        self._show_description(str(event.id))

    def on_resize(self, _event: Resize) -> None:
        """Wrap the description of the selected scenario to the new width, and fit the list."""
        self._fit_table()
        self._show_description(str(self.query_one(Table).cursor_id))

    def on_table_opened(self, event: Table.Opened) -> None:
        """Close the app and return the name of the chosen scenario."""
        self.exit(str(event.id))

    def _show_description(self, name: str) -> None:
        scenario = self._scenarios.get(name)
        if scenario is not None:
            self.query_one("#story", LongText).show_text(
                _format_description(scenario, _count_text_cells(self.size.width))
            )


def _count_text_cells(width: int) -> int:
    """Return the cells of a description's text beside its keys, on a terminal of `width` cells."""
    return max(20, width - 17)  # a scroll bar included


def _format_description(scenario: Scenario, width: int) -> Content:
    lines: list[Content] = []
    labelled_texts = (
        *scenario.tries,
        *(("" if number else "watch", text) for number, text in enumerate(scenario.watch)),
    )
    for label, text in labelled_texts:
        wrapped = formats.wrap_to_width(text, width)
        lines.append(
            Content.assemble(
                (formats.fit_to_width(label, 9), "$muted" if label == "watch" else "b $accented"), wrapped[0]
            )
        )
        lines += [Content(" " * 9 + line) for line in wrapped[1:]]
    return Content("\n").join(lines)


def choose_scenario(scenarios: Mapping[str, Scenario]) -> str | None:
    """Let the user choose a demo scenario on the terminal. Return its name, or None if the user quits."""
    return DemoChooser(scenarios, theme.choose_theme_name(os.environ)).run()
