"""The tables of keys: no clash, the case law, and an action behind every key."""

from __future__ import annotations

from importlib import import_module
from itertools import combinations

from families import run_in_one_test
from textual.binding import Binding

from rqtui.scenarios import CONTROLS, SCENARIOS
from rqtui.scenarios.scenario import Scenario, replace_digit_keys
from rqtui.systems import registry
from rqtui.tui import keys
from rqtui.tui.app import Cockpit
from rqtui.tui.screens import board, error_group, job, overview
from rqtui.tui.screens.board import Board
from rqtui.tui.screens.job import JobPage
from rqtui.tui.screens.registry import VIEWS as VIEWS_BY_NAME
from rqtui.tui.view import View
from rqtui.tui.widgets.canary_page import CanaryPage
from rqtui.tui.widgets.filter_line import FilterLine
from rqtui.tui.widgets.finder import Finder, FindLine
from rqtui.tui.widgets.help_page import KeyPage
from rqtui.tui.widgets.question_dialog import Question
from rqtui.tui.widgets.table import Table
from rqtui.tui.widgets.text_dialog import Pages
from rqtui.verbs import VERBS

MODULES = [
    import_module(f"rqtui.tui.screens.{name}")
    for name in (*VIEWS_BY_NAME, "search", "groups", "differences", "incident")
]
VIEWS = {
    view.NAME: view
    for module in (board, error_group, job, overview, *MODULES)
    for view in vars(module).values()
    if isinstance(view, type) and issubclass(view, View) and view.NAME
}
STRIP = {control.key: control for story in SCENARIOS.values() for control in (*CONTROLS, *story.controls)}
SIGNS = {sign: name for name, sign in keys.KEY_SIGNS.items()}
# The terminal, tmux or screen eat these, or a slip of the hand presses them. (X works only while a change runs.)
NEVER = {"ctrl+s", "ctrl+q", "ctrl+a", "ctrl+b", "ctrl+z", "x", "H", "U"}


def list_keys_of_view(view: str) -> list[tuple[str, str]]:
    """Return (key, owner) for every key that works on a view."""
    taken = [
        (key, look.id)
        for look in keys.GENERAL_KEYS
        if not look.screens or view in look.screens
        for key in look.keys.split(",")
    ]
    taken += [(key, f"verb {key}") for key in keys.VERB_KEYS]
    digits = keys.DIGITS if view == "board" else ""  # beyond the places of a board: see the test of the strip's digits
    return taken + [
        (SIGNS.get(key, key), f"demo {control.name}") for key, control in STRIP.items() if key not in digits
    ]


@run_in_one_test("view", VIEWS)
def test_no_key_means_two_things_on_one_screen(view: str) -> None:
    keys_of_view = list_keys_of_view(view)
    clashes = [(a, b) for a, b in combinations(keys_of_view, 2) if a[0] == b[0]]
    assert not clashes


def test_every_screen_of_the_table_is_a_view_and_every_view_has_keys() -> None:
    named = {screen for look in keys.GENERAL_KEYS for screen in look.screens}
    assert named <= VIEWS.keys()
    assert set(VIEWS_BY_NAME) <= VIEWS.keys()


def test_lowercase_looks_and_uppercase_changes() -> None:
    assert not [
        look
        for look in keys.GENERAL_KEYS
        for key in look.keys.split(",")
        if len(key) == 1 and key.isupper() and key not in ("G", "X")  # X stops a change
    ]
    assert not [verb for verb in VERBS if verb.key and not verb.key.isupper()]


def test_the_strip_of_a_demo_takes_no_letters() -> None:
    assert not [key for key in STRIP if key.isalpha()]


@run_in_one_test("story", SCENARIOS.values(), ids=lambda story: story.name)
def test_the_strip_of_a_demo_takes_no_digit_of_a_place_of_its_system(story: Scenario) -> None:
    places = keys.DIGITS[: len(registry.create_system(registry.parse_system_name(story.system)).places)]
    assert not [control.key for control in story.controls if control.key in places]
    moved = replace_digit_keys(story.controls)
    assert not [control.key for control in moved if control.key in keys.DIGITS]
    assert len({control.key for control in moved}) == len(moved)
    for control in moved:
        (binding,) = keys.build_demo_bindings([control])
        assert binding.key.isdigit() or binding.key in keys.KEY_SIGNS


def test_no_key_is_one_that_terminals_eat() -> None:
    bound = {
        key for view in VIEWS for key, whose in list_keys_of_view(view) if whose != "suspend"
    }  # which is Ctrl+Z by custom
    assert not bound & NEVER
    assert not [
        key for key in bound if key.startswith(("alt+", "f1", "f2")) or (key.startswith("ctrl+") and key[-1].isdigit())
    ]


@run_in_one_test("look", keys.GENERAL_KEYS, ids=lambda look: look.id)
def test_every_key_that_looks_has_an_action_behind_it(look: keys.GeneralKey) -> None:
    if not look.action:  # the table or the view binds it itself
        holders = (Table, *(VIEWS[name] for name in look.screens))
        bound = {
            binding.id: binding for holder in holders for binding in holder.BINDINGS if isinstance(binding, Binding)
        }
        assert set(keys.list_binding_ids(look)) <= bound.keys()
        assert set(look.keys.split(",")) <= {
            key for id in keys.list_binding_ids(look) for key in bound[id].key.split(",")
        }
        return
    name = look.action.partition("(")[0]
    if not name.startswith("screen."):
        assert hasattr(Cockpit, f"action_{name}")
        return
    for view in look.screens:
        assert hasattr(VIEWS[view], f"action_{name.removeprefix('screen.')}")


@run_in_one_test("control", STRIP.values(), ids=lambda control: control.name)
def test_every_key_of_the_strip_is_bound_by_a_name_that_textual_knows(control: keys.Control) -> None:
    (binding,) = keys.build_demo_bindings([control])
    assert binding.key.isdigit() or binding.key in keys.KEY_SIGNS


@run_in_one_test(
    "holder",
    [Cockpit, Board, JobPage, Table, Question, Pages, CanaryPage, KeyPage, FilterLine, Finder, FindLine],
    ids=lambda holder: holder.__name__,
)
def test_every_binding_has_an_id_so_that_a_config_file_can_move_it(holder: type) -> None:
    bound = [binding for binding in holder.__dict__["BINDINGS"] if isinstance(binding, Binding)]
    assert bound
    assert all(binding.id for binding in bound)
    ids = [binding.id for binding in bound]
    assert len(set(ids)) == len(ids)
