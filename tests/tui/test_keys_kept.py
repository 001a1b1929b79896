"""What the table of keys becomes: bindings, footers, signs, and texts under a keymap. `keys_kept.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/test_keys_kept.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file
from textual.binding import Binding

from rqtui.scenarios import CONTROLS
from rqtui.tui import keys

KEPT = Path(__file__).with_name("keys_kept.txt")
SCREENS = (
    "overview", "board", "job", "error", "workers", "kinds", "errors", "events", "metrics", "loops", "schedules",
    "redis", "operations", "search", "groups", "differences", "incident", "unknown",
)  # fmt: skip
KEYMAPS: tuple[dict[str, str], ...] = (
    {}, {"filter": "f", "quit": "Q,ctrl+q", "verb_R": "at,T", "verb_K": "K"},
    {"table.down": "n", "place_3": "percent_sign"},
    {"table.open": "o,enter", "table.mark": "m", "dialog.yes": "space,y", "verb_P": "enter", "errors": "ampersand,e"},
    {"palette": "f2,p", "ask": "w", "next_pane": "n"},
)  # fmt: skip
NAMES = (
    "filter", "quit", "cursor", "open", "place", "mark", "replay_back", "requeue", "R", "pause", "P", "kill", "K",
    "reopen", "delete", "nothing", "a",
)  # fmt: skip
SENTENCES = (
    "", "R requeues it", "press R, P or /.", "a job (e shows it)", "A job; K kills",
    "Enter opens, Space marks, Esc leaves",
    "1 of 3 and q", "see: e R", "nothing", "x", "Tab goes on", "no key here: w",
)  # fmt: skip


def list_ids(rows: Iterable[keys.GeneralKey]) -> str:
    return " ".join(row.id for row in rows)


def describe_binding(binding: Binding) -> str:
    return f"{binding.id}: {binding.key} -> {binding.action} {binding.description!r} {binding.priority} {binding.show}"


def describe_bindings() -> Iterator[str]:
    yield from map(describe_binding, keys.build_app_bindings())
    for screen in SCREENS:
        tabs = [describe_binding(each) for each in keys.build_tab_bindings(screen)]
        yield f"{screen}: {tabs} footer {list_ids(keys.list_footer_keys(screen))}"
    other: Any = SimpleNamespace(key="w", name="wake", label="wakes", text="")
    yield from map(describe_binding, keys.build_demo_bindings([*CONTROLS, other]))
    for key in ("R", "K", "", "x"):
        yield f"verbs on {key!r}: {[verb.name for verb in keys.find_verbs_on_key(key)]}"
    yield f"keys of verbs {keys.VERB_KEYS}, views {keys.VIEWS}"


def describe_tables() -> Iterator[str]:
    for with_demo in (False, True):
        for in_replay in (False, True):
            rows = keys.list_general_keys(with_demo=with_demo, in_replay=in_replay)
            yield f"demo {with_demo}, replay {in_replay}: {list_ids(rows)}"
    for row in keys.GENERAL_KEYS:
        yield f"{row.id}: {keys.format_keys(row.keys)} {keys.list_binding_ids(row)} {row.in_footer} on {row.screens}"
    for name in (
        "a", "A", "comma", "1,2,3,4,5,6,7,8,9", "1,2", "ctrl+p", "ctrl+x", "shift+tab", "shift+left", "backspace",
        "delete", "f1", "f12", "+", "plus", "tilde", "degree_sign", "cent_sign", "home", "a,comma,enter", "ctrl+plus",
        "é",
    ):  # fmt: skip
        yield f"{name} is shown as {keys.format_keys(name)!r}"
    for sign in ("/", "⏎", "Enter", "Space", "Ctrl+X", "Ctrl+P", "+", "a", "A", "␣", "F1"):
        yield f"{sign} is {keys.to_textual_key(sign)!r}, spelled {keys.spell_out_signs(sign)!r}"


def describe_keymaps() -> Iterator[str]:
    for keymap in KEYMAPS:
        keys.set_keymap(keymap)
        yield f"keymap {keymap}"
        for row in (*keys.GENERAL_KEYS, *keys.REPLAY_KEYS):
            if (current := keys.find_current_keys(row)) != row.keys:
                yield f"  {row.id}: {current}"
        yield f"  {[keys.find_current_key(name) for name in NAMES]}"
        yield from (f"  {sentence!r} is {keys.apply_keymap(sentence)!r}" for sentence in SENTENCES)
        dialog_keys = [keys.find_dialog_key(name, "y") for name in ("dialog.yes", "dialog.no")]
        yield f"  views {[keys.find_view_key(view) for view in keys.VIEWS]} dialog {dialog_keys}"
    yield f"views in texts {[keys.find_view_in_text(sentence) for sentence in SENTENCES]}"


def test_the_table_of_keys_gives_the_stored_bindings_and_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_current_keymap", {})
    parts = (describe_bindings, describe_tables, describe_keymaps)
    assert_lines_match_file((line for part in parts for line in part()), KEPT)
