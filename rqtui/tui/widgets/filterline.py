"""FilterLine: the line that `/` opens above the footer. Enter takes what was typed, Esc clears it and goes back.

It starts empty; ↑ recalls earlier filters, the newest first. Tab offers paths into the bodies, `.customer.plan:`, where
a word begins with a dot: they stand in a line of their own (`PathLine`), and Tab goes from one to the next.
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

_WORD = re.compile(r"!?(\.?[^\s:\"'/]*)$")
_TYPABLE = re.compile(r"[^\s:\"'/!.][^\s:\"'/]*")  # what the grammar of filters takes for a path
_MOST_KEPT = 100


class PathLine(Static):
    """The paths that Tab offers, above the filter line; hidden while there are none."""

    DEFAULT_CSS = """
    PathLine { display: none; dock: bottom; height: 1; margin-bottom: 2; padding: 0 1; background: $raised; }
    """

    def offer(self, paths: Sequence[str], chosen: int) -> None:
        """Shows these, as many as have room, from the chosen one on where it would not be seen; -1: none is chosen."""
        self.display = bool(paths)
        pieces, room = [], self.app.size.width - 12
        for number, path in enumerate(paths):
            name = "." + formats.elide_middle(safe(path), 40)
            if number < chosen and formats.cell_len("  ".join(paths[number : chosen + 1])) > room:
                continue
            pieces.append(Content.styled(name, "b $accented" if number == chosen else "$data"))
        self.update(Content.assemble(("Tab ", "b $accented"), Content("  ").join(pieces)))


class FilterLine(Input):
    """One row; hidden while nobody types."""

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
        """Esc: no filter any more."""

    class WantsPaths(Message):
        """The paths of the bodies are to be offered: `offer` takes them, now or later."""

    def __init__(self, hint: str) -> None:
        super().__init__(placeholder=hint, id="filter-line", compact=True, select_on_focus=False)
        self.can_focus = False  # while it is closed: with nothing else to focus, it would swallow every key
        self.paths = PathLine()
        self._past: list[str] = []
        self._at = 0
        self._known: list[str] | None = None  # the paths; None: nobody was asked yet
        self._is_asked = self._is_awaited = False  # by Tab: the first that comes is put in
        self._fitting: list[str] = []  # those that go on from the word at the cursor
        self._chosen, self._began_at = -1, 0
        self._completed: str | None = None  # the line as Tab made it: the next Tab goes on from there

    @property
    def is_open(self) -> bool:
        """Whether somebody types in it."""
        return self.has_class("-open")

    @property
    def is_at_path(self) -> bool:
        """Whether a path is being typed, which is no condition before its colon: rows stay as they are meanwhile."""
        return self._word().startswith(".")

    def open(self, past: list[str]) -> None:
        """Shows it empty, and takes the keys; `past` are earlier filters, the newest last: more are added to it."""
        self._past, self._at = past, len(past)
        self._known, self._is_asked = None, False
        self._forget_choice()
        with self.prevent(Input.Changed):  # what holds now holds until something is typed
            self.value = ""
        self.add_class("-open")
        self.can_focus = True
        self.focus()

    def close(self, remember: str = "") -> None:
        """Hides it."""
        if remember:
            self._past[:] = [*(each for each in self._past if each != remember), remember][-_MOST_KEPT:]
        self.paths.display = False
        self.remove_class("-open")
        self.can_focus = False

    def action_leave(self) -> None:
        """Esc."""
        self.post_message(self.Left())

    def action_empty(self) -> None:
        """Nothing stands in it any more."""
        self.value = ""

    def action_earlier(self, step: int) -> None:
        """What was filtered for before."""
        self._at = max(0, min(len(self._past), self._at + step))
        self._type(self._past[self._at] if self._at < len(self._past) else "")

    # -- paths --------------------------------------------------------------------------------------------------------

    def on_input_changed(self) -> None:
        """A letter more or less: other paths may fit."""
        if self.value == self._completed:
            return
        self._forget_choice()
        if self.is_open and self._word().startswith("."):
            self._look_for_paths()

    def offer(self, paths: Sequence[str]) -> None:
        """The paths of the bodies, those that most have first."""
        self._known = [path for path in paths if _TYPABLE.fullmatch(path)]
        self._look_for_paths()
        if self._is_awaited:
            self.action_complete(1)

    def action_complete(self, step: int) -> None:
        """Puts the next path that fits in place of the word at the cursor."""
        if self.value != self._completed:
            self._forget_choice()
            self._look_for_paths()
        self._is_awaited = self._known is None
        if not self._fitting:
            return
        if self._chosen < 0:
            self._began_at = self.cursor_position - len(self._word())
            self._chosen = 0 if step > 0 else len(self._fitting) - 1
        else:
            self._chosen = (self._chosen + step) % len(self._fitting)
        rest = self.value[self.cursor_position :]
        line = f"{self.value[: self._began_at]}.{self._fitting[self._chosen]}:{rest}"
        self._completed = line
        self._type(line, len(line) - len(rest))
        self.paths.offer(self._fitting, self._chosen)

    def _look_for_paths(self) -> None:
        if self._known is None:
            if not self._is_asked:
                self._is_asked = True
                self.post_message(self.WantsPaths())
            return
        word = self._word()
        is_path = not word or word.startswith(".")
        stem = word.removeprefix(".").lower()
        self._fitting = [path for path in self._known if path.lower().startswith(stem)] if is_path else []
        self._fitting += [path for path in self._known if stem in path.lower()[1:]] if is_path and stem else []
        self._fitting = list(dict.fromkeys(self._fitting))
        self.paths.offer(self._fitting, -1)

    def _word(self) -> str:
        """What stands before the cursor since the last blank, without a `!`; empty where no path can begin so."""
        found = _WORD.search(self.value[: self.cursor_position].rpartition(" ")[2])
        return found[1] if found else ""

    def _forget_choice(self) -> None:
        self._fitting, self._chosen, self._completed = [], -1, None
        self.paths.display = False

    def _type(self, text: str, at: int | None = None) -> None:
        self.value = text
        self.cursor_position = len(text) if at is None else at
