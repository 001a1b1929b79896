"""The keys: what looks (lowercase) stands here, what changes (UPPERCASE) comes from `rqtui.verbs`.

Bindings, footer, help, palette and the README's table are made from these two tables and, while a demo runs, from the
controls of its strip; a test proves that no key is taken twice on one screen and that letters obey the case law.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from textual.binding import Binding

from rqtui.verbs import VERBS, Verb


@dataclass(frozen=True, slots=True)
class Look:
    """A key that changes nothing in Redis. `screens` names where it works; empty means everywhere. A key without an
    action belongs to the table, which binds it itself; one with `in_demo` exists only beside a running demo."""

    id: str
    keys: str
    action: str
    label: str
    help: str
    screens: tuple[str, ...] = ()
    in_footer: bool = False
    in_demo: bool = False


class Control(Protocol):
    """A key of a demo's strip, as `rqtui.scenarios` has it."""

    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def text(self) -> str: ...


_LISTS = ("overview", "board")
_TABLES = (*_LISTS, "workers", "kinds", "errors", "events", "operations")  # views whose middle is a table
LOOKS: tuple[Look, ...] = (
    Look("move", "j,k", "", "move", "down, up; the arrows too"),
    Look("ends", "g,G", "", "ends", "the first, the last; Home and End too", _TABLES),
    Look("screenful", "pageup,pagedown", "", "page", "a screenful up or down", _TABLES),
    Look("open", "enter", "", "open", "open what is under the cursor", _TABLES, True),
    Look("back", "escape", "back", "back", "one step back; stops a change of many jobs"),
    Look("quit", "q", "quit_or_back", "back", "back; on the overview: quit"),
    Look("place", "1,2,3,4,5", "screen.place", "place", "scheduled, ready, reserved, done, dead", ("board",)),
    Look("next_pane", "tab,l", "screen.pane(1)", "next", "the next place", ("board",)),
    Look("previous_pane", "shift+tab,h", "screen.pane(-1)", "previous", "the place before", ("board",)),
    Look("mark", "space", "", "mark", "mark the job, or unmark it", ("board",), True),
    Look("mark_range", "v", "", "range", "mark a range: v here, v there", ("board",)),
    Look("mark_loaded", "a", "", "loaded", "mark all that is loaded", ("board",)),
    Look("mark_all", "asterisk", "screen.mark_all", "all", "choose the whole place", ("board",)),
    Look("unmark", "u", "", "none", "choose nothing", ("board",)),
    Look("page_before", "left_square_bracket", "screen.page(-1)", "page", "the page before", ("board",)),
    Look("page_after", "right_square_bracket", "screen.page(1)", "page", "the next page", ("board",)),
    Look(
        "filter",
        "slash",
        "screen.filter",
        "filter",
        "show only what fits: text /re/ !term id: job: err:",
        _TABLES,
        True,
    ),
    Look("sort", "s", "screen.sort", "sort", "sort the queues otherwise", ("overview",), True),
    Look("reveal", "c", "screen.reveal", "in clear", "show what is masked in the body, and back", ("job",), True),
    Look("dispatcher", "comma", "toggle_loop('dispatch')", "dispatcher", "dispatcher on or off"),
    Look("reaper", "full_stop", "toggle_loop('reap')", "reaper", "reaper on or off"),
    Look("dispatch_step", "less_than_sign", "step_loop('dispatch')", "step", "one step of the dispatcher"),
    Look("reap_step", "greater_than_sign", "step_loop('reap')", "step", "one step of the reaper"),
    Look("workers", "w", "open_view('workers')", "workers", "who works on the queue, who is late, what they hold"),
    Look("kinds", "b", "open_view('kinds')", "by job", "the kinds of jobs: how many where, failures, time"),
    Look("errors", "e", "open_view('errors')", "errors", "dead and retrying jobs, grouped by their error"),
    Look("events", "f", "open_view('events')", "events", "what moved, as it happens"),
    Look("metrics", "m", "open_view('metrics')", "metrics", "throughput, failures, latency and depth over time"),
    Look("loops", "t", "open_view('loops')", "loops", "dispatcher and reaper: steps, lag, who is next"),
    Look("redis", "i", "open_view('redis')", "Redis", "the server: memory, clients, slow commands, warnings"),
    Look("operations", "o", "open_view('operations')", "operations", "every change made here, and their export"),
    Look("freeze", "p", "screen.freeze", "freeze", "let the rows stand while the counters run", _LISTS),
    Look("refresh", "r", "refresh_now", "refresh", "take a new picture now, look for new queues"),
    Look("slower", "minus", "interval(2)", "slower", "refresh half as often"),
    Look("faster", "equals_sign", "interval(0.5)", "faster", "refresh twice as often"),
    Look("demo", "d", "demo", "demo", "what to try in this demo, and what to watch", (), False, True),
    Look("palette", "colon,ctrl+p", "command_palette", "palette", "every command, the rare ones too", (), True),
    Look("help", "question_mark", "help", "keys", "this page", (), True),
)
SHOWN = {
    "asterisk": "*",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "slash": "/",
    "plus": "+",
    "quotation_mark": '"',
    "comma": ",",
    "full_stop": ".",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "minus": "-",
    "equals_sign": "=",
    "colon": ":",
    "question_mark": "?",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "exclamation_mark": "!",
    "underscore": "_",
    "space": "␣",
    "enter": "⏎",
    "escape": "Esc",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "ctrl+p": "Ctrl+P",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}
_ON_THE_BOARD = ("next_pane", "previous_pane")
_NAMES = {sign: name for name, sign in SHOWN.items()}
VERB_KEYS: tuple[str, ...] = tuple(dict.fromkeys(verb.key for verb in VERBS if verb.key))


def bindings() -> list[Binding]:
    """Every binding of the app, each with an id, so that a config file can move it."""
    made = [
        Binding(key, f"screen.place({number})", look.label, id=f"place_{number}", show=False)
        for look in LOOKS
        if look.id == "place"
        for number, key in enumerate(look.keys.split(","), 1)
    ]
    made += [
        Binding(look.keys, look.action, look.label, id=look.id, show=False)
        for look in LOOKS
        if look.action and look.id != "place" and look.id not in _ON_THE_BOARD
    ]
    made += [Binding(key, f"verb('{key}')", verbs_of(key)[0].label, id=f"verb_{key}", show=False) for key in VERB_KEYS]
    return made


def board_bindings() -> list[Binding]:
    """Those of the board itself: Tab belongs to every screen already, and a screen's keys come before the app's."""
    return [
        Binding(look.keys, look.action.removeprefix("screen."), look.label, id=look.id, show=False)
        for look in LOOKS
        if look.id in _ON_THE_BOARD
    ]


def demo_bindings(controls: Iterable[Control]) -> list[Binding]:
    """The bindings of a demo's strip."""
    return [
        Binding(_NAMES.get(c.key, c.key), f"demo_control('{c.name}')", c.label, id=f"demo_{c.name}", show=False)
        for c in controls
    ]


def verbs_of(key: str) -> list[Verb]:
    """The verbs that share a key; which one is meant depends on the place."""
    return [verb for verb in VERBS if verb.key == key]


def looks(*, with_demo: bool = False) -> list[Look]:
    """The keys that look, those of the demo only beside one."""
    return [look for look in LOOKS if with_demo or not look.in_demo]


def shown(keys: str) -> str:
    """Keys as a person reads them: `comma` is `,`."""
    return " ".join(SHOWN.get(key, key) for key in keys.split(","))
