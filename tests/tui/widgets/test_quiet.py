"""What stays the same is not sent again: lines of the frame and of a text, times that tremble, ages on a slow link."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.content import Content

from rqtui.config.settings import Settings
from rqtui.text import formats
from rqtui.tui.app import Cockpit
from rqtui.tui.widgets.frame import Bar
from rqtui.tui.widgets.long_text import Text


class OneWidgetApp(App[None]):
    """An app with one widget."""

    def __init__(self, widget: Bar | Text) -> None:
        super().__init__()
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget


def _list_repainted_lines(widget: Bar | Text, *steps: Any) -> list[int] | None:
    """Return which lines the last step draws again."""
    asked: list[int] | None = []

    async def run() -> None:
        nonlocal asked
        app = OneWidgetApp(widget)
        async with app.run_test(size=(40, 6)) as pilot:
            widget.styles.height = len(steps[0]) if isinstance(widget, Bar) else "auto"
            for step in steps[:-1]:
                _show(widget, step)
                await pilot.pause()
            before = widget.refresh

            def refresh(*regions: Any, **more: Any) -> Any:
                nonlocal asked
                asked = [*(asked or []), *(region.y for region in regions)] if regions else None
                return before(*regions, **more)

            widget.refresh = refresh  # type: ignore[method-assign]
            _show(widget, steps[-1])
            await pilot.pause()
            shown = "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())
            assert all(line in shown for line in steps[-1])

    asyncio.run(run())
    return asked


def _show(widget: Bar | Text, lines: tuple[str, ...]) -> None:
    if isinstance(widget, Bar):
        widget.show_lines(*((Content(line), Content()) for line in lines))
    else:
        widget.show_text(Content("\n".join(lines)))


@pytest.fixture(params=(Bar, Text))
def widget(request: pytest.FixtureRequest) -> Bar | Text:
    result: Bar | Text = request.param()
    return result


def test_only_the_line_that_changed_is_drawn_again(widget: Bar | Text) -> None:
    assert _list_repainted_lines(widget, ("one", "two"), ("one", "three")) == [1]


def test_equal_lines_are_not_drawn_again(widget: Bar | Text) -> None:
    assert _list_repainted_lines(widget, ("one", "two"), ("one", "two")) == []


def test_another_number_of_lines_draws_all_of_them(widget: Bar | Text) -> None:
    assert (
        _list_repainted_lines(widget, ("one", "two"), ("one", "two", "three")[: 3 if isinstance(widget, Text) else 1])
        is None
    )


def test_a_time_that_varies_slightly_stays_and_another_one_is_reported() -> None:
    app = Cockpit(Settings())
    assert [app.frame_content._smooth_duration("tick", ms) for ms in (0.4, 0.7, 0.2, 1.3)] == [0.4] * 4
    assert [app.frame_content._smooth_duration("tick", ms) for ms in (200.0, 190.0, 0.4)] == [200.0, 200.0, 0.4]


@pytest.fixture
def rough() -> Iterator[None]:
    formats.set_age_rounding(True)
    yield
    formats.set_age_rounding(False)


def test_rough_ages_change_each_ten_seconds_and_then_each_minute(rough: None) -> None:
    ages = [formats.format_age(seconds * 1000) for seconds in (9, 12, 19, 59, 60, 119, 3599, 3600, -75)]
    assert ages == ["9s", "10s", "10s", "50s", "1m", "1m", "59m", "1h00", "-1m"]


def test_ages_are_rough_while_calm_and_to_the_second_otherwise() -> None:
    app = Cockpit(Settings(is_calm=True))
    assert formats.format_age(72_000) == "1m"
    app.slow_link.set_calm_mode(False)
    assert formats.format_age(72_000) == "1m12"
