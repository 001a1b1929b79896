"""Provide the filter line that `/` opens above the footer. Enter keeps the filter, Esc clears it.

The line starts empty. ↑ recalls earlier filters, newest first. For a word that begins with a dot, Tab completes paths
into the bodies (`.customer.plan:`), which are listed in a line of their own (`PathLine`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from rqtui.text import formats
from rqtui.text.sanitise import safe

_WORD_PATTERN = re.compile(r"!?(\.?[^\s:\"'/]*)$")
_PATH_PATTERN = re.compile(r"[^\s:\"'/!.][^\s:\"'/]*")  # what the filter grammar accepts as a path
_MAX_HISTORY = 100


class PathLine(Static):
    """The line above the filter line that lists the completions of a path into job bodies. Hidden if there are none."""

    DEFAULT_CSS = """
    PathLine { display: none; dock: bottom; height: 1; margin-bottom: 2; padding: 0 1; background: $raised; }
    """

    def show_completions(self, paths: Sequence[str], chosen: int) -> None:
        """Show as many completions as fit, including the chosen one. `chosen` is -1 if no completion is chosen."""
        self.display = bool(paths)
        pieces, width = [], self.app.size.width - 12
        for index, path in enumerate(paths):
            name = "." + formats.elide_middle(safe(path), 40)
            if index < chosen and formats.cell_len("  ".join(paths[index : chosen + 1])) > width:
                continue
            pieces.append(Content.styled(name, "b $accented" if index == chosen else "$data"))
        self.update(Content.assemble(("Tab ", "b $accented"), Content("  ").join(pieces)))


class FilterLine(Input):
    """An input line for a filter above the footer, hidden while it is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "clear the filter", show=False, id="filter.clear"),
        Binding("up", "earlier(-1)", "an earlier filter", show=False, id="filter.earlier"),
        Binding("down", "earlier(1)", "a later filter", show=False, id="filter.later"),
        Binding("ctrl+u", "empty", "empty the line", show=False, id="filter.empty"),
        Binding("tab", "complete(1)", "the next path of the bodies", show=False, id="filter.path"),
        Binding("shift+tab", "complete(-1)", "the path before", show=False, id="filter.path-before"),
    ]
    DEFAULT_CSS = """
    FilterLine, FilterLine:focus { display: none; dock: bottom; height: 1; margin-bottom: 1; padding: 0 1;
        border: none; background: $raised; }
    FilterLine.-open, FilterLine.-open:focus { display: block; }
    """

    class Left(Message):
        """Message that Esc was pressed in the filter line, which removes the filter."""

    class WantsPaths(Message):
        """Message that requests the paths of the job bodies, which are passed to `set_body_paths` now or later."""

    def __init__(self, hint: str) -> None:
        super().__init__(placeholder=hint, id="filter-line", compact=True, select_on_focus=False)
        self.can_focus = False  # a closed line with the focus would swallow every key
        self.paths = PathLine()
        self._history: list[str] = []
        self._history_position = 0
        self._paths_in_bodies: list[str] | None = None  # paths in the bodies; None: not requested yet
        self._has_requested_paths = self._is_completion_pending = (
            False  # pending: Tab inserts the first path that arrives
        )
        self._matching_paths: list[str] = []  # paths that complete the word at the cursor
        self._chosen, self._word_start = -1, 0
        self._completed_text: str | None = None  # the line after a completion, so that the next Tab continues there

    @property
    def is_open(self) -> bool:
        """Whether the filter line is open for typing."""
        return self.has_class("-open")

    @property
    def is_at_path(self) -> bool:
        """Whether a path without its colon is being typed. The path is no condition yet, so the rows stay unchanged."""
        return self._find_word_at_cursor().startswith(".")

    def open(self, earlier_filters: list[str]) -> None:
        """Show the empty filter line and focus it.

        `earlier_filters` are earlier filters, newest last; new ones are appended to it.
        """
        self._history, self._history_position = earlier_filters, len(earlier_filters)
        self._paths_in_bodies, self._has_requested_paths = None, False
        self._reset_completion()
        with self.prevent(Input.Changed):  # the current filter applies until something is typed
            self.value = ""
        self.add_class("-open")
        self.can_focus = True
        self.focus()

    def close(self, accepted: str = "") -> None:
        """Hide the filter line. Add the filter in `accepted` to the earlier ones."""
        if accepted:
            self._history[:] = [*(expression for expression in self._history if expression != accepted), accepted][
                -_MAX_HISTORY:
            ]
        self.paths.display = False
        self.remove_class("-open")
        self.can_focus = False

    def action_leave(self) -> None:
        """Report that Esc was pressed in the filter line."""
        self.post_message(self.Left())

    def action_empty(self) -> None:
        """Clear the text of the filter line."""
        self.value = ""

    def action_earlier(self, step: int) -> None:
        """Replace the filter line's text by an earlier (-1) or later (1) filter."""
        self._history_position = max(0, min(len(self._history), self._history_position + step))
        self._replace_text(self._history[self._history_position] if self._history_position < len(self._history) else "")

    # -- paths --------------------------------------------------------------------------------------------------------

    def on_input_changed(self) -> None:
        """Update the completions of a path after each edit of the filter."""
        if self.value == self._completed_text:
            return
        self._reset_completion()
        if self.is_open and self._find_word_at_cursor().startswith("."):
            self._update_completions()

    def set_body_paths(self, paths: Sequence[str]) -> None:
        """Set the paths of the job bodies, most frequent first, and show the ones that complete the typed word."""
        self._paths_in_bodies = [path for path in paths if _PATH_PATTERN.fullmatch(path)]
        self._update_completions()
        if self._is_completion_pending:
            self.action_complete(1)

    def action_complete(self, step: int) -> None:
        """Replace the word at the cursor by the next or previous path that completes it."""
        if self.value != self._completed_text:
            self._reset_completion()
            self._update_completions()
        self._is_completion_pending = self._paths_in_bodies is None
        if not self._matching_paths:
            return
        if self._chosen < 0:
            self._word_start = self.cursor_position - len(self._find_word_at_cursor())
            self._chosen = min(step, 0) % len(self._matching_paths)
        else:
            self._chosen = (self._chosen + step) % len(self._matching_paths)
        rest = self.value[self.cursor_position :]
        line = f"{self.value[: self._word_start]}.{self._matching_paths[self._chosen]}:{rest}"
        self._completed_text = line
        self._replace_text(line, len(line) - len(rest))
        self.paths.show_completions(self._matching_paths, self._chosen)

    def _update_completions(self) -> None:
        if self._paths_in_bodies is None:
            if not self._has_requested_paths:
                self._has_requested_paths = True
                self.post_message(self.WantsPaths())
            return
        word = self._find_word_at_cursor()
        is_path = not word or word.startswith(".")
        stem = word.removeprefix(".").lower()
        paths = dict.fromkeys(path for path in self._paths_in_bodies if is_path and stem in path.lower())
        self._matching_paths = sorted(paths, key=lambda path: not path.lower().startswith(stem))
        self.paths.show_completions(self._matching_paths, -1)

    def _find_word_at_cursor(self) -> str:
        """Return the word before the cursor without a leading `!`, or "" if no path can begin there."""
        match = _WORD_PATTERN.search(self.value[: self.cursor_position].rpartition(" ")[2])
        return match[1] if match else ""

    def _reset_completion(self) -> None:
        self._matching_paths, self._chosen, self._completed_text = [], -1, None
        self.paths.display = False

    def _replace_text(self, text: str, cursor: int | None = None) -> None:
        self.value = text
        self.cursor_position = len(text) if cursor is None else cursor
