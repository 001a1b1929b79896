"""The keys: what looks (lowercase) stands here, what changes (UPPERCASE) comes from `rqtui.verbs`.

Bindings, footer, help, keymap, palette and `docs/keys.md` are made from these two tables and, while a demo runs,
from the controls of its strip; a test proves that no key is taken twice on one screen and that letters obey the case
law.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import NamedTuple, Protocol

from textual.binding import Binding

from rqtui.verbs import VERBS, Verb


class Look(NamedTuple):
    """A key that changes nothing in Redis. `screens` names where it works; empty means everywhere. A key without an
    action belongs to the table, which binds it itself; one with `in_demo` exists only beside a running demo; one that
    `is_first` works in dialogs, too, before any key of theirs."""

    id: str
    keys: str
    action: str
    label: str
    help: str
    screens: tuple[str, ...] = ()
    in_footer: bool = False
    in_demo: bool = False
    is_first: bool = False


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


LISTS = ("overview", "board")
DIGITS = "123456789"  # a key for each place; no system has more
_TABLES = (
    *LISTS,
    "workers",
    "kinds",
    "errors",
    "error",
    "events",
    "operations",
    "schedules",
)  # views whose middle is a table
_SORTED = ("overview", "workers", "kinds", "errors", "schedules")
LOOKS: tuple[Look, ...] = (
    Look("move", "j,k", "", "move", "down, up; the arrows too"),
    Look("ends", "g,G", "", "ends", "the first, the last; Home and End too", _TABLES),
    Look("screenful", "pageup,pagedown", "", "page", "a screenful up or down", _TABLES),
    Look("open", "enter", "", "open", "open the row under the cursor", _TABLES, True),
    Look("back", "escape", "back", "back", "one step back; stops a change of many jobs"),
    Look("quit", "q", "quit_or_back", "back", "back; on the overview: quit"),
    Look("undo", "z", "undo", "undo", "undo the last change made here, or the one under the cursor", (), True),
    Look("place", ",".join(DIGITS), "screen.place", "place", "the places, in their order", ("board",)),
    Look("next_pane", "tab,l", "screen.pane(1)", "next", "the next place", ("board",)),
    Look("previous_pane", "shift+tab,h", "screen.pane(-1)", "previous", "the place before", ("board",)),
    Look("mark", "space", "", "mark", "mark the job, or unmark it", ("board",), True),
    Look("mark_range", "v", "", "range", "mark a range: v here, v there", ("board",)),
    Look("mark_loaded", "a", "", "loaded", "mark all that is loaded", ("board",)),
    Look("mark_all", "asterisk", "screen.mark_all", "all", "mark the whole place", ("board",)),
    Look("unmark", "u", "", "none", "unmark all", ("board",)),
    Look("page_before", "left_square_bracket", "screen.page(-1)", "page", "the page before", ("board",)),
    Look("page_after", "right_square_bracket", "screen.page(1)", "page", "the next page", ("board",)),
    Look(
        "filter",
        "slash",
        "screen.filter",
        "filter",
        "show rows that match: text /re/ !term id: err: .path:",
        _TABLES,
        True,
    ),
    Look("zoom", "plus", "screen.zoom", "zoom", "zoom one place to the whole width, and back", ("board",)),
    Look("search", "slash", "screen.filter", "search", "look for text or /re/ in the body", ("job",), True),
    Look("next_match", "n", "screen.next_match", "next", "the next job that matches the last filter", ("board", "job")),
    Look("job_before", "left_square_bracket", "screen.page(-1)", "previous", "the job before in the list", ("job",)),
    Look("job_after", "right_square_bracket", "screen.page(1)", "next", "the next job in the list", ("job",)),
    Look("viewer", "v", "screen.viewer", "view as", "the body as what it is, as text, in hex", ("job",), True),
    Look("open_job", "enter", "", "open", "open the job of a link; fetch a long body", ("job",)),
    Look("sort", "s", "screen.sort", "sort", "sort the rows another way", _SORTED, True),
    Look(
        "group",
        "quotation_mark",
        "screen.group",
        "group",
        "group queues by how their names begin, level by level",
        ("overview",),
    ),
    Look(
        "reveal",
        "c",
        "screen.reveal",
        "in clear",
        "show masked values of the body, and mask them again",
        ("job",),
        True,
    ),
    Look("dispatcher", "comma", "toggle_loop('dispatch')", "dispatcher", "dispatcher on or off"),
    Look("reaper", "full_stop", "toggle_loop('reap')", "reaper", "reaper on or off"),
    Look("dispatch_step", "less_than_sign", "step_loop('dispatch')", "step", "one step of the dispatcher"),
    Look("reap_step", "greater_than_sign", "step_loop('reap')", "step", "one step of the reaper"),
    Look("errors", "e", "open_view('errors')", "errors", "dead and retrying jobs, grouped by their error"),
    Look("workers", "w", "open_view('workers')", "workers", "workers: who runs, who is late, which jobs they hold"),
    Look("kinds", "b", "open_view('kinds')", "by job", "kinds of jobs: how many in each place, failures, times"),
    Look("events", "f", "open_view('events')", "events", "events of the queue as they happen"),
    Look("metrics", "m", "open_view('metrics')", "metrics", "throughput, failures, latency and depth over time"),
    Look("loops", "t", "open_view('loops')", "loops", "dispatcher and reaper: steps, lag, next jobs"),
    Look("schedules", "ampersand", "open_view('schedules')", "schedules", "what is enqueued again and again, and when"),
    Look("redis", "i", "open_view('redis')", "Redis", "the server: memory, clients, slow commands, warnings"),
    Look("operations", "o", "open_view('operations')", "operations", "every change made here, and their export"),
    Look("widen", "quotation_mark", "screen.widen", "all queues", "this queue, or all of them", _SORTED[1:], True),
    Look(
        "groups_wider",
        "left_square_bracket",
        "screen.width(-1)",
        "wider",
        "wider groups of errors: by frame, by class",
        ("errors",),
    ),
    Look(
        "groups_narrower",
        "right_square_bracket",
        "screen.width(1)",
        "narrower",
        "narrower groups: by message",
        ("errors",),
    ),
    Look("save", "s", "screen.save", "save", "write the report of what was found and done here", ("operations",), True),
    Look(
        "freeze",
        "p",
        "screen.freeze",
        "freeze",
        "freeze the rows while the counters go on",
        (*LISTS, *_SORTED[1:], "events"),
    ),
    Look("next_failure", "n", "screen.next_failure", "next failure", "the next older failure", ("events",), True),
    Look("refresh", "r", "refresh_now", "refresh", "refresh now, and look for new queues"),
    Look("slower", "minus", "interval(2)", "slower", "refresh half as often"),
    Look("faster", "equals_sign", "interval(0.5)", "faster", "refresh twice as often"),
    Look("demo", "d", "demo", "demo", "what to try in this demo, and what to watch", (), False, True),
    Look("copy", "y", "copy_as", "copy", "copy as: id, JSON, redis-cli, Python, body; or the list"),
    Look("views", "semicolon", "list_views", "views", "the views by their letters, and how much is in each", (), True),
    Look(
        "palette",
        "colon,ctrl+p",
        "command_palette",
        "palette",
        "find anything: queues, a job by its id, views, every command, filters used before",
        (),
        True,
    ),
    Look("help", "question_mark", "help", "keys", "the keys that work here", (), True),
    Look("suspend", "ctrl+z", "suspend_process", "suspend", "stop until the shell says fg", is_first=True),
    Look(
        "leave",
        "ctrl+c",
        "leave",
        "how to leave",
        "how to leave; twice within two seconds: leave at once",
        is_first=True,
    ),
)
UNLOCKS = ("5m", "15m", "1h")
COMMANDS: tuple[Look, ...] = (  # those of the palette that have no key of their own
    *(
        Look(f"unlock_{time}", "", f"unlock('{time}')", f"unlock {time}", "allow changes for so long")
        for time in UNLOCKS
    ),
    Look("lock", "", "lock", "lock now", "no more changes from this screen"),
    Look("export", "", "export_operations", "export operations", "every change made here, as Markdown and JSON"),
    Look("keys", "", "help", "keys", "every key  (?)"),
    Look("theme", "", "change_theme", "theme", "choose a theme from a list"),
    Look("end", "", "quit", "quit", "stop rqtui"),
)
VIEWS = tuple(look.id for look in LOOKS if look.action.startswith("open_view("))  # opened by a key from anywhere
NEAR = ("filter", "search", "mark")  # in the footer right after the verbs of the row under the cursor
LAST = ("undo", "views", "palette", "help")  # there always, at the end; undo while there is something to undo
_FOOTER_TOO = {  # looks that work everywhere and are the matter of one view
    "loops": ("dispatcher", "reaper", "dispatch_step", "reap_step"),
    "metrics": ("refresh",),
    "redis": ("refresh",),
}
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
    "semicolon": ";",
    "question_mark": "?",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "exclamation_mark": "!",
    "underscore": "_",
    "percent_sign": "%",
    "ampersand": "&",
    "at": "@",
    "number_sign": "#",
    "dollar_sign": "$",
    "circumflex_accent": "^",
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
_WORDS = {"Enter": "enter", "Space": "space"}  # where a terminal has no sign for them
VERB_KEYS: tuple[str, ...] = tuple(dict.fromkeys(verb.key for verb in VERBS if verb.key))
_PARTS = {  # rows that stand for several bindings, or for one of the table's
    "move": ("table.down", "table.up"),
    "ends": ("table.first", "table.last"),
    "screenful": ("table.page-down", "table.page-up"),
    "open": ("table.open",),
    "mark": ("table.mark",),
    "mark_range": ("table.range",),
    "mark_loaded": ("table.mark-loaded",),
    "unmark": ("table.unmark-all",),
    "open_job": ("job.open",),
    "place": tuple(f"place_{digit}" for digit in DIGITS),
}
_mapped: dict[str, str] = {}  # what the config file says otherwise, by binding id: a person has one keyboard


def bindings() -> list[Binding]:
    """Every binding of the app, each with an id, so that a config file can move it."""
    made = [
        Binding(key, f"screen.place({number})", look.label, id=f"place_{number}", show=False)
        for look in LOOKS
        if look.id == "place"
        for number, key in enumerate(look.keys.split(","), 1)
    ]
    made += [
        Binding(look.keys, look.action, look.label, id=look.id, show=False, priority=look.is_first)
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


@cache
def verbs_of(key: str) -> tuple[Verb, ...]:
    """The verbs that share a key; which one is meant depends on the place."""
    return tuple(verb for verb in VERBS if verb.key == key)


def looks(*, with_demo: bool = False) -> list[Look]:
    """The keys that look, those of the demo only beside one."""
    return [look for look in LOOKS if with_demo or not look.in_demo]


def footer_of(screen: str) -> list[Look]:
    """The looks that the footer of a screen has, in the order of the table."""
    return [
        look
        for look in LOOKS
        if (look.in_footer and (not look.screens or screen in look.screens)) or look.id in _FOOTER_TOO.get(screen, ())
    ]


@cache
def shown(keys: str) -> str:
    """Keys as a person reads them: `comma` is `,`, and all digits are `1-9`."""
    signs = " ".join(map(_sign, keys.split(",")))
    return signs.replace(" ".join(DIGITS), f"{DIGITS[0]}-{DIGITS[-1]}")


def _sign(key: str) -> str:
    if key in SHOWN or len(key) == 1:
        return SHOWN.get(key, key)
    with suppress(KeyError):
        sign = unicodedata.lookup(key.replace("_", " "))
        if sign.isprintable():  # `backspace` and `delete` are names of control characters
            return sign
    return "+".join(part if len(part) == 1 and "+" not in key else part.capitalize() for part in key.split("+"))


# -- under the keymap of the config file ------------------------------------------------------------------------------


def take(keymap: Mapping[str, str]) -> None:
    """From now on these bindings have other keys; `keymap.checked` made the map."""
    _mapped.clear()
    _mapped.update(keymap)


def ids_of(look: Look) -> tuple[str, ...]:
    """The ids of the bindings that a row stands for."""
    return _PARTS.get(look.id, (look.id,))


def keys_of(look: Look) -> str:
    """The keys of a row as they are now."""
    ids = ids_of(look)
    if not any(id in _mapped for id in ids):
        return look.keys
    if len(ids) == 1:
        return _mapped[ids[0]]
    return ",".join(_mapped.get(id, key) for id, key in zip(ids, look.keys.split(","), strict=True))


def key(id: str) -> str:
    """The key to press now for a look, a verb, or what stands on a letter: `key("filter")`, `key("pause")`."""
    if look := _BY_ID.get(id):
        return shown(keys_of(look).split(",")[0])
    letter = next((verb.key for verb in VERBS if id in (verb.name, verb.key) and verb.key), id)
    return shown(_mapped.get(f"verb_{letter}", letter).split(",")[0])


_BY_ID = {look.id: look for look in LOOKS}
_OWNERS = {  # who has a key that stands in a sentence: the first row with it, `Esc` and the like spelled out
    **{verb.key: verb.key for verb in VERBS if verb.key},
    **{_sign(each): look.id for look in reversed(LOOKS) if look.id not in _PARTS for each in look.keys.split(",")},
    **{"Enter": "open", "Space": "mark"},
}
_ALONE = re.compile(r"(?<![^\s(])(?:Esc|Enter|Space|Tab|[^\W\d]|[^\w\s])(?![^\s:;,)])")
_ARTICLES = ("a", "A")


def renamed(text: str) -> str:
    """A sentence of ours, without data in it, with the keys that the keymap moved as they are now."""

    def name(found: re.Match[str]) -> str:
        sign = found[0]
        owner = _OWNERS.get(sign)
        ids = _PARTS.get(owner, (owner, f"verb_{owner}")) if owner and sign not in _ARTICLES else ()
        return spelled(key(owner)) if owner and any(id in _mapped for id in ids) else sign

    return _ALONE.sub(name, text) if _mapped else text


def view_named_in(text: str) -> str:
    """The view that the first key in a sentence of ours opens; empty where it is no key of a view."""
    first = _ALONE.search(text)
    look = _BY_ID.get(_OWNERS.get(first[0], "")) if first else None
    return look.id if look is not None and look.id in VIEWS else ""


def view_key(view: str) -> str:
    """The key of a view, as Textual names it."""
    return keys_of(_BY_ID[view]).split(",")[0]


def named(sign: str) -> str:
    """The key that `shown` shows so, as Textual names it."""
    return _NAMES.get(sign) or _WORDS.get(sign) or (sign.lower() if "+" in sign[1:] else sign)


def spelled(signs: str) -> str:
    """Keys where there is room for words."""
    return signs.replace("⏎", "Enter").replace("␣", "Space")


def of(id: str, default: str) -> str:
    """The first key of a binding that stands in no table here, as those of dialogs."""
    return spelled(shown(_mapped[id].split(",")[0])) if id in _mapped else default
