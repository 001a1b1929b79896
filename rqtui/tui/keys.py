"""Define the table of all keys: general keys are defined here, the keys of verbs (UPPERCASE) come from `rqtui.verbs`.

Bindings, footer, help, keymap, palette and `docs/keys.md` are generated from these two tables and, while a demo runs,
from the controls of its strip. One rule holds everywhere: lowercase reads, UPPERCASE changes.
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


class GeneralKey(NamedTuple):
    """A row of the key table for a key that is not the key of a verb.

    `screens` names the views where the key works; empty means everywhere. A key without an action is bound by the table
    widget itself. A key with `in_demo` exists only while a demo runs. A key with `is_first` also works in dialogs,
    before the keys of the dialog.
    """

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
    """A key of a demo's strip, as `rqtui.scenarios` defines it."""

    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def text(self) -> str: ...


LISTS = ("overview", "board")
DIGITS = "123456789"  # a key for each place; no system has more than nine places
_TABLES = (
    *LISTS,
    *("workers", "kinds", "errors", "error", "events", "operations", "schedules", "search", "groups", "differences"),
)  # views that consist of a table
_SCOPED = ("workers", "kinds", "errors", "schedules")  # views of one queue, some queues or all queues
_SORTED = ("overview", *_SCOPED, "search", "groups")
GENERAL_KEYS: tuple[GeneralKey, ...] = (
    GeneralKey("cursor", "j,k", "", "move", "down, up; also the arrow keys"),
    GeneralKey("ends", "g,G", "", "ends", "the first, the last; also Home and End", _TABLES),
    GeneralKey("screenful", "pageup,pagedown", "", "page", "a screenful up or down", _TABLES),
    GeneralKey("open", "enter", "", "open", "open the row under the cursor", _TABLES, True),
    GeneralKey("back", "escape", "back", "back", "one step back"),
    GeneralKey("stop", "X", "stop_changes", "stop", "stop the change of many jobs that is running"),
    GeneralKey("quit", "q", "quit_or_back", "back", "back; on the overview: quit"),
    GeneralKey("undo", "z", "undo", "undo", "undo the last change made here, or the one under the cursor", (), True),
    GeneralKey("place", ",".join(DIGITS), "screen.place", "place", "the places, in their order", ("board",)),
    GeneralKey(
        "next_pane",
        "tab,l",
        "screen.pane(1)",
        "next",
        "the next place, or the findings (Enter opens one)",
        ("board",),
    ),
    GeneralKey(
        "previous_pane",
        "shift+tab,h",
        "screen.pane(-1)",
        "previous",
        "the place before, or the findings",
        ("board",),
    ),
    GeneralKey(
        "findings",
        "tab",
        "screen.findings",
        "findings",
        "to the findings below the list (Enter opens one), and back",
        ("overview",),
    ),
    GeneralKey("mark", "space", "", "mark", "mark the job, or unmark it", ("board",), True),
    GeneralKey("mark_range", "v", "", "range", "mark a range: v here, v there", ("board",)),
    GeneralKey("mark_loaded", "a", "", "loaded", "mark all that is loaded", ("board",)),
    GeneralKey("mark_all", "asterisk", "screen.mark_all", "all", "mark the whole place", ("board",)),
    GeneralKey("unmark", "u", "", "none", "unmark all", ("board",)),
    GeneralKey("page_before", "left_square_bracket", "screen.page(-1)", "page", "the page before", ("board",)),
    GeneralKey("page_after", "right_square_bracket", "screen.page(1)", "page", "the next page", ("board",)),
    GeneralKey(
        "filter",
        "slash",
        "screen.filter",
        "filter",
        "show rows that match: text /re/ !term id: err: .path:",
        _TABLES,
        True,
    ),
    GeneralKey("zoom", "plus", "screen.zoom", "zoom", "zoom one place to the whole width, and back", ("board",)),
    GeneralKey("search", "slash", "screen.filter", "search", "find text or /re/ in the body", ("job",), True),
    GeneralKey(
        "next_match", "n", "screen.next_match", "next", "the next job that matches the last filter", ("board", "job")
    ),
    GeneralKey(
        "job_before", "left_square_bracket", "screen.page(-1)", "previous", "the job before in the list", ("job",)
    ),
    GeneralKey("job_after", "right_square_bracket", "screen.page(1)", "next", "the next job in the list", ("job",)),
    GeneralKey("viewer", "v", "screen.viewer", "view as", "the body as what it is, as text, in hex", ("job",), True),
    GeneralKey("open_group", "enter", "", "jobs", "the jobs with the error that the keys act on", ("incident",)),
    GeneralKey("open_job", "enter", "", "open", "open the job of a link; fetch a long body", ("job",)),
    GeneralKey("sort", "s", "screen.sort", "sort", "sort the rows another way", _SORTED, True),
    GeneralKey(
        "group",
        "quotation_mark",
        "screen.group",
        "group",
        "group queues by how their names begin, level by level",
        ("overview",),
    ),
    GeneralKey(
        "group_jobs",
        "quotation_mark",
        "screen.group_jobs",
        "group",
        "group the jobs of the place: by kind, body field, worker, error, age",
        ("board",),
    ),
    GeneralKey(
        "compare",
        "vertical_line",
        "screen.compare",
        "compare",
        "what differs: marked jobs, matches, a place or an error against the rest",
        ("board", "errors"),
    ),
    GeneralKey(
        "field_before", "left_square_bracket", "screen.field(-1)", "field", "group by the field before", ("groups",)
    ),
    GeneralKey(
        "field_after", "right_square_bracket", "screen.field(1)", "field", "group by the next field", ("groups",), True
    ),
    GeneralKey(
        "times_before",
        "left_square_bracket",
        "screen.times(-1)",
        "times",
        "compare the groups of other times, as before",
        ("differences",),
    ),
    GeneralKey(
        "times_after",
        "right_square_bracket",
        "screen.times(1)",
        "times",
        "compare group A of the last time with itself before: 10 minutes, an hour, yesterday",
        ("differences",),
        True,
    ),
    GeneralKey(
        "reveal",
        "c",
        "screen.reveal",
        "in clear",
        "show masked values of the body, and mask them again",
        ("job",),
        True,
    ),
    GeneralKey("dispatcher", "comma", "toggle_loop('dispatch')", "dispatcher", "dispatcher on or off"),
    GeneralKey("reaper", "full_stop", "toggle_loop('reap')", "reaper", "reaper on or off"),
    GeneralKey("dispatch_step", "less_than_sign", "step_loop('dispatch')", "step", "one step of the dispatcher"),
    GeneralKey("reap_step", "greater_than_sign", "step_loop('reap')", "step", "one step of the reaper"),
    GeneralKey("errors", "e", "open_view('errors')", "errors", "dead and retrying jobs, grouped by their error"),
    GeneralKey(
        "workers", "w", "open_view('workers')", "workers", "workers: who runs, who is late, which jobs they hold"
    ),
    GeneralKey("kinds", "b", "open_view('kinds')", "kinds", "kinds of jobs: how many in each place, failures, times"),
    GeneralKey("events", "f", "open_view('events')", "events", "events of the queue as they happen"),
    GeneralKey("metrics", "m", "open_view('metrics')", "metrics", "throughput, failures, latency and depth over time"),
    GeneralKey("loops", "t", "open_view('loops')", "loops", "dispatcher and reaper: steps, lag, next jobs"),
    GeneralKey(
        "schedules", "ampersand", "open_view('schedules')", "schedules", "what is enqueued again and again, and when"
    ),
    GeneralKey("redis", "i", "open_view('redis')", "Redis", "the server: memory, clients, slow commands, warnings"),
    GeneralKey("operations", "o", "open_view('operations')", "operations", "every change made here, and their export"),
    GeneralKey("widen", "quotation_mark", "screen.widen", "all queues", "this queue, or all of them", _SCOPED, True),
    GeneralKey(
        "ask",
        "a",
        "screen.ask",
        "ask",
        "ask the worker what it runs, which tasks it knows, and its queues",
        ("workers",),
        True,
    ),
    GeneralKey(
        "groups_wider",
        "left_square_bracket",
        "screen.width(-1)",
        "wider",
        "wider groups of errors: by frame, by class",
        ("errors",),
    ),
    GeneralKey(
        "groups_narrower",
        "right_square_bracket",
        "screen.width(1)",
        "narrower",
        "narrower groups: by message",
        ("errors",),
    ),
    GeneralKey(
        "save", "s", "screen.save", "save", "write the report of what was found and done here", ("operations",), True
    ),
    GeneralKey(
        "freeze",
        "p",
        "screen.freeze",
        "freeze",
        "freeze the rows while the counters continue",
        (*LISTS, *_SORTED[1:], "events"),
    ),
    GeneralKey("next_failure", "n", "screen.next_failure", "next failure", "the next older failure", ("events",), True),
    GeneralKey(
        "incident",
        "apostrophe",
        "show_incident",
        "incident",
        "one page about a queue, or the finding under the cursor",
    ),
    GeneralKey("refresh", "r", "refresh_now", "refresh", "refresh now, and find new queues"),
    GeneralKey("slower", "minus", "interval(2)", "slower", "refresh half as often"),
    GeneralKey("faster", "equals_sign", "interval(0.5)", "faster", "refresh twice as often"),
    GeneralKey("demo", "d", "demo", "demo", "what to try in this demo, and what to watch", (), False, True),
    GeneralKey("copy", "y", "copy_as", "copy", "copy as: id, JSON, redis-cli, Python, body; or the list"),
    GeneralKey(
        "views", "semicolon", "list_views", "views", "the views by their letters, and how much is in each", (), True
    ),
    GeneralKey(
        "palette",
        "colon,ctrl+p",
        "command_palette",
        "palette",
        "find anything: queues, a job by its id, views, every command, filters used before",
        (),
        True,
    ),
    GeneralKey("help", "question_mark", "help", "keys", "the keys that work here", (), True),
    GeneralKey("suspend", "ctrl+z", "suspend_process", "suspend", "stop until the shell says fg", is_first=True),
    GeneralKey(
        "leave",
        "ctrl+c",
        "leave",
        "how to leave",
        "how to leave; twice within two seconds: leave at once",
        is_first=True,
    ),
)
# The keys of the time bar. They exist only while a recording is replayed, and come before other meanings of these keys.
REPLAY_KEYS: tuple[GeneralKey, ...] = (
    GeneralKey(
        "replay_back", "comma,left", "replay('record', -1)", "minute before", "one recorded minute or hour back"
    ),
    GeneralKey("replay_forward", "full_stop,right", "replay('record', 1)", "next minute", "one minute or hour forth"),
    GeneralKey("replay_play", "p", "replay('play', 1)", "play", "play the recording, or pause it"),
    GeneralKey("replay_slower", "minus", "replay('speed', -1)", "slower", "play slower, down to 1 second per second"),
    GeneralKey("replay_faster", "equals_sign", "replay('speed', 1)", "faster", "play faster, up to 1 hour per second"),
    GeneralKey(
        "finding_before", "less_than_sign", "replay('finding', -1)", "▲ before", "to where a finding began before"
    ),
    GeneralKey(
        "finding_after", "greater_than_sign", "replay('finding', 1)", "▲ next", "to where the next finding began"
    ),
    GeneralKey("change_before", "left_curly_bracket", "replay('change', -1)", "◆ before", "to the change before"),
    GeneralKey("change_after", "right_curly_bracket", "replay('change', 1)", "◆ next", "to the next change"),
    GeneralKey("replay_start", "left_parenthesis", "replay('end', -1)", "start", "to the start of the recording"),
    GeneralKey("replay_end", "right_parenthesis", "replay('end', 1)", "end", "to the end of the recording"),
)
REPLAY_FOOTER = (  # pairs of keys with one label
    (("replay_back", "replay_forward"), "minute"),
    (("finding_before", "finding_after"), "▲ finding"),
    (("change_before", "change_after"), "◆ change"),
    (("replay_play",), "play"),
    (("replay_slower", "replay_faster"), "speed"),
    (("replay_start", "replay_end"), "ends"),
)
# Keys without a use in a recording: their key means something else there, or nothing can be changed or marked.
NOT_IN_REPLAY = frozenset(
    ("dispatcher", "reaper", "dispatch_step", "reap_step", "freeze", "slower", "faster", "stop", "undo", "open_group")
    + ("mark", "mark_range", "mark_loaded", "mark_all", "unmark", "compare", "group_jobs", "save", "next_match")
    + ("workers", "kinds", "events", "loops", "schedules", "redis", "viewer", "reveal", "open_job")
)
RECORDED_VIEWS = ("errors", "metrics", "operations", "incident", "job")  # views that a recording has the data for
UNLOCKS = ("5m", "15m", "1h")
COMMANDS: tuple[GeneralKey, ...] = (  # commands of the palette that have no key of their own
    *(
        GeneralKey(f"unlock_{time}", "", f"unlock('{time}')", f"unlock {time}", "allow changes for so long")
        for time in UNLOCKS
    ),
    GeneralKey("lock", "", "lock", "lock now", "no more changes from this screen"),
    GeneralKey("export", "", "export_operations", "export operations", "every change made here, as Markdown and JSON"),
    GeneralKey("keys", "", "help", "keys", "every key  (?)"),
    GeneralKey("theme", "", "change_theme", "theme", "choose a theme from a list"),
    GeneralKey("end", "", "quit", "quit", "stop rqtui"),
)
# The views that a key opens from anywhere.
VIEWS = tuple(general_key.id for general_key in GENERAL_KEYS if general_key.action.startswith("open_view("))
FOOTER_AFTER_VERBS = ("filter", "search", "mark")  # shown right after the verbs of the row under the cursor
FOOTER_END = ("undo", "views", "palette", "help")  # at the end of each footer; undo only if there is a change to undo
_FOOTER_TOO = {  # keys that work everywhere and belong to one view's footer
    "loops": ("dispatcher", "reaper", "dispatch_step", "reap_step"),
    "incident": ("errors", "workers", "operations", "refresh"),
    "metrics": ("refresh",),
    "redis": ("refresh",),
}
KEY_SIGNS = {
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
    "vertical_line": "|",
    "ampersand": "&",
    "at": "@",
    "number_sign": "#",
    "dollar_sign": "$",
    "apostrophe": "'",
    "circumflex_accent": "^",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "left": "←",
    "right": "→",
    "space": "␣",
    "enter": "⏎",
    "escape": "Esc",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "ctrl+p": "Ctrl+P",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}
_TAB_KEYS = ("next_pane", "previous_pane", "findings")
_NAMES_BY_SIGN = {sign: name for name, sign in KEY_SIGNS.items()}
_NAMES_BY_WORD = {"Enter": "enter", "Space": "space"}  # spelled out in sentences
VERB_KEYS: tuple[str, ...] = tuple(dict.fromkeys(verb.key for verb in VERBS if verb.key))
_BINDING_IDS_OF_ROWS = {  # rows that cover several bindings, or a binding of the table
    "cursor": ("table.down", "table.up"),
    "ends": ("table.first", "table.last"),
    "screenful": ("table.page-down", "table.page-up"),
    "open": ("table.open",),
    "mark": ("table.mark",),
    "mark_range": ("table.range",),
    "mark_loaded": ("table.mark-loaded",),
    "unmark": ("table.unmark-all",),
    "open_job": ("job.open",),
    "open_group": ("incident.open",),
    "place": tuple(f"place_{digit}" for digit in DIGITS),
}
_current_keymap: dict[str, str] = {}  # keys of the config file by binding id, global because a person has one keyboard


def build_app_bindings() -> list[Binding]:
    """Build every key binding of the app, each with an id by which a config file can change its key."""
    all_bindings = [
        Binding(key, f"screen.place({number})", general_key.label, id=f"place_{number}", show=False)
        for general_key in GENERAL_KEYS
        if general_key.id == "place"
        for number, key in enumerate(general_key.keys.split(","), 1)
    ]
    all_bindings += [
        Binding(
            general_key.keys,
            general_key.action,
            general_key.label,
            id=general_key.id,
            show=False,
            priority=general_key.is_first,
        )
        for general_key in GENERAL_KEYS
        if general_key.action and general_key.id != "place" and general_key.id not in _TAB_KEYS
    ]
    all_bindings[:0] = [
        Binding(replay_key.keys, replay_key.action, replay_key.label, id=replay_key.id, show=False)
        for replay_key in REPLAY_KEYS
    ]
    all_bindings += [
        Binding(key, f"verb('{key}')", find_verbs_on_key(key)[0].label, id=f"verb_{key}", show=False)
        for key in VERB_KEYS
    ]
    return all_bindings


def build_tab_bindings(screen: str) -> list[Binding]:
    """Build the key bindings of a view that move the focus with Tab, and belong to the view itself.

    Textual binds Tab on every screen, and a screen's bindings take precedence over the app's.
    """
    return [
        Binding(
            general_key.keys,
            general_key.action.removeprefix("screen."),
            general_key.label,
            id=general_key.id,
            show=False,
        )
        for general_key in GENERAL_KEYS
        if general_key.id in _TAB_KEYS and screen in general_key.screens
    ]


def build_demo_bindings(controls: Iterable[Control]) -> list[Binding]:
    """Build the key bindings of a demo's strip."""
    return [
        Binding(
            _NAMES_BY_SIGN.get(control.key, control.key),
            f"demo_control('{control.name}')",
            control.label,
            id=f"demo_{control.name}",
            show=False,
        )
        for control in controls
    ]


@cache
def find_verbs_on_key(key: str) -> tuple[Verb, ...]:
    """Return the verbs that share a key; the place under the cursor decides which one runs."""
    return tuple(verb for verb in VERBS if verb.key == key)


def list_general_keys(*, with_demo: bool = False, in_replay: bool = False) -> list[GeneralKey]:
    """Return the general keys of the key table; the keys of a demo only with `with_demo`.

    With `in_replay` the keys without a use in a recording are left out.
    """
    return [
        general_key
        for general_key in GENERAL_KEYS
        if (with_demo or not general_key.in_demo) and (not in_replay or is_used_in_replay(general_key))
    ]


def is_used_in_replay(general_key: GeneralKey) -> bool:
    """Return whether a general key has a use in a recording, on a view that a recording has the data for."""
    views = general_key.screens or LISTS
    return general_key.id not in NOT_IN_REPLAY and any(view in (*LISTS, *RECORDED_VIEWS) for view in views)


def list_footer_keys(screen: str) -> list[GeneralKey]:
    """Return the general keys in the footer of a screen, in the order of the key table."""
    return [
        general_key
        for general_key in GENERAL_KEYS
        if (general_key.in_footer and (not general_key.screens or screen in general_key.screens))
        or general_key.id in _FOOTER_TOO.get(screen, ())
    ]


@cache
def format_keys(keys: str) -> str:
    """Format comma-separated key names for display: `comma` becomes `,`, and all nine digits become `1-9`."""
    signs = " ".join(map(_format_key, keys.split(",")))
    return signs.replace(" ".join(DIGITS), f"{DIGITS[0]}-{DIGITS[-1]}")


def _format_key(key: str) -> str:
    if key in KEY_SIGNS or len(key) == 1:
        return KEY_SIGNS.get(key, key)
    with suppress(KeyError):
        sign = unicodedata.lookup(key.replace("_", " "))
        if sign.isprintable():  # `backspace` and `delete` are names of control characters
            return sign
    return "+".join(part.capitalize() for part in key.split("+"))


# -- under the keymap of the config file ------------------------------------------------------------------------------


def set_keymap(keymap: Mapping[str, str]) -> None:
    """Replace the keymap of the config file.

    `keymap` maps binding ids to keys, as validated by `services.keymap.validate_keymap`.
    """
    _current_keymap.clear()
    _current_keymap.update(keymap)


def list_binding_ids(general_key: GeneralKey) -> tuple[str, ...]:
    """Return the ids of the bindings that a row of the key table covers."""
    return _BINDING_IDS_OF_ROWS.get(general_key.id, (general_key.id,))


def find_current_keys(general_key: GeneralKey) -> str:
    """Return the comma-separated keys of a row of the key table, with the keymap applied."""
    ids = list_binding_ids(general_key)
    if not any(binding_id in _current_keymap for binding_id in ids):
        return general_key.keys
    first_id, *other_ids = ids
    if not other_ids:
        return _current_keymap[first_id]
    return ",".join(
        _current_keymap.get(binding_id, key) for binding_id, key in zip(ids, general_key.keys.split(","), strict=True)
    )


def find_current_key(name: str) -> str:
    """Return the sign of the current key for a row's id, a verb's name or a verb's letter.

    Examples: `find_current_key("filter")`, `find_current_key("pause")`.
    """
    if general_key := _ROWS_BY_ID.get(name):
        return format_keys(find_current_keys(general_key).split(",")[0])
    letter = next((verb.key for verb in VERBS if name in (verb.name, verb.key) and verb.key), name)
    return format_keys(_current_keymap.get(f"verb_{letter}", letter).split(",")[0])


_ROWS_BY_ID = {look.id: look for look in (*GENERAL_KEYS, *REPLAY_KEYS)}
_IDS_BY_SIGN = {  # the first row with the key that a sentence mentions; `Esc` and others are spelled out
    **{verb.key: verb.key for verb in VERBS if verb.key},
    **{
        _format_key(each): look.id
        for look in reversed(GENERAL_KEYS)
        if look.id not in _BINDING_IDS_OF_ROWS
        for each in look.keys.split(",")
    },
    **{"Enter": "open", "Space": "mark"},
}
_KEY_IN_TEXT = re.compile(r"(?<![^\s(])(?:Esc|Enter|Space|Tab|[^\W\d]|[^\w\s])(?![^\s:;,)])")
_WORDS_NOT_KEYS = ("a", "A")


def apply_keymap(text: str) -> str:
    """Replace the keys in a sentence of rqtui by the keys of the keymap. `text` must not contain data."""

    def replace_key_by_keymap(match: re.Match[str]) -> str:
        sign = match[0]
        owner = _IDS_BY_SIGN.get(sign)
        ids = _BINDING_IDS_OF_ROWS.get(owner, (owner, f"verb_{owner}")) if owner and sign not in _WORDS_NOT_KEYS else ()
        return (
            spell_out_signs(find_current_key(owner))
            if owner and any(binding_id in _current_keymap for binding_id in ids)
            else sign
        )

    return _KEY_IN_TEXT.sub(replace_key_by_keymap, text) if _current_keymap else text


def find_view_in_text(text: str) -> str:
    """Return the view that the first key in a sentence of rqtui opens, or an empty string if the key opens none."""
    first = _KEY_IN_TEXT.search(text)
    general_key = _ROWS_BY_ID.get(_IDS_BY_SIGN.get(first[0], "")) if first else None
    return general_key.id if general_key is not None and general_key.id in VIEWS else ""


def find_view_key(view: str) -> str:
    """Return the key that opens a view, as Textual names the key."""
    return find_current_keys(_ROWS_BY_ID[view]).split(",")[0]


def to_textual_key(sign: str) -> str:
    """Return Textual's name of the key that `format_keys` displays as `sign`."""
    return _NAMES_BY_SIGN.get(sign) or _NAMES_BY_WORD.get(sign) or (sign.lower() if "+" in sign else sign)


def spell_out_signs(signs: str) -> str:
    """Replace the signs of Enter and Space by their names."""
    return signs.replace("⏎", "Enter").replace("␣", "Space")


def find_dialog_key(binding_id: str, default: str) -> str:
    """Return the key of a binding outside the key table, such as a dialog's: the configured one, or `default`."""
    return (
        spell_out_signs(format_keys(_current_keymap[binding_id].split(",")[0]))
        if binding_id in _current_keymap
        else default
    )
