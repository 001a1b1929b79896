"""Test that a pane whose text is rebuilt at each refresh sends only the changed lines."""

from __future__ import annotations

import pytest
from screens import run_on_event_loop
from textual._compositor import ChopsUpdate, Compositor
from textual.app import App, ComposeResult
from textual.content import Content

from rqtui.tui.widgets.lines_pane import LinesPane


class Panes(App[None]):
    """One pane of ten lines."""

    CSS = "LinesPane { border: round white; height: 12; width: 40; }"

    def __init__(self) -> None:
        super().__init__()
        self.lines = [f"line {at}" for at in range(10)]

    def compose(self) -> ComposeResult:
        """Yield the pane."""
        yield LinesPane(lambda _width, _height: [Content(line) for line in self.lines], id="pane")


@run_on_event_loop
async def test_only_lines_that_are_others_are_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[list[int]] = []
    render = Compositor.render_partial_update

    def noted(self: Compositor) -> ChopsUpdate | None:
        update = render(self)
        painted.append(sorted({y for y, _first, _last in update.spans}) if update else [])
        return update

    monkeypatch.setattr(Compositor, "render_partial_update", noted)
    async with Panes().run_test(size=(80, 24)) as pilot:
        app = pilot.app
        assert isinstance(app, Panes)
        pane = app.query_one(LinesPane)
        pane.set_border_title(Content.assemble((" a title ", "b")))
        await pilot.pause()
        painted.clear()
        pane.set_border_title(Content.assemble((" a title ", "b")))
        pane.redraw_changes()
        await pilot.pause()
        assert not any(painted), "nothing changed"
        app.lines[3] = "another"
        pane.redraw_changes()
        await pilot.pause()
        assert [each for each in painted if each] == [[4]], "the fourth line, below the frame"
        screen = "\n".join("".join(piece.text for piece in line) for line in app.screen._compositor.render_strips())
        assert "another" in screen and "line 3" not in screen and "line 4" in screen
        painted.clear()
        app.lines.append("one more")
        pane.redraw_changes()
        await pilot.pause()
        assert len(painted[-1]) >= 10, "all of them"
