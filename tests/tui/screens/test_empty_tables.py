"""The sentence of a table without rows: each reason has its own, and the most useful one is shown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rqtui.model import Ref
from rqtui.systems import registry
from rqtui.tui.screens.events import Events
from rqtui.tui.screens.report_view import ReportView
from rqtui.tui.screens.schedules import Schedules
from rqtui.tui.screens.workers import EMPTY, Workers

MAIL, TASKS, STEPS = Ref("native", "mail"), Ref("celery", "mail"), Ref("dispatcher", "readytasklist")
SYSTEMS = {name: registry.create_system(name) for name in ("native", "celery", "dispatcher", "orizuru", "rq")}
EMPTY_FEED = SimpleNamespace(is_known=True, is_recording=False)


def explain(view: type[Any], usual: dict[str, Any], **changes: Any) -> str:
    text: str = view.explain_empty_table(SimpleNamespace(**{**usual, **changes}))
    return text


EVENTS: dict[str, Any] = {
    "_refs": (MAIL,), "_read_refs": (MAIL,), "_read_error": "", "_feeds": {MAIL: EMPTY_FEED}, "filter_text": "",
    "session": SimpleNamespace(is_read_only=False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"_refs": ()}, "no queues yet: Esc, then N enqueues a job"),
        ({"_read_refs": ()}, "native records no events; the steps of this screen and its loops appear here"),
        ({"_read_error": "denied.", "_feeds": {}}, "no events can be read: denied."),
        ({"_read_error": "denied."}, "recording begins …"),
        ({"filter_text": "a"}, "no event matches the filter: / changes it, Esc in it shows all"),
        (
            {"_feeds": {MAIL: EMPTY_FEED, TASKS: SimpleNamespace(is_known=False, is_recording=False)}},
            "this queue holds nothing yet: N enqueues a job",
        ),
        (
            {"_feeds": {MAIL: EMPTY_FEED, TASKS: SimpleNamespace(is_known=True, is_recording=True)}},
            "no event since recording began; new events appear here",
        ),
        ({}, "recording begins …"),
        ({"session": SimpleNamespace(is_read_only=True)}, "nothing is recorded"),
    ],
)
def test_a_feed_without_events_says_why(changes: dict[str, Any], text: str) -> None:
    assert explain(Events, EVENTS, **changes) == text


REPORT: dict[str, Any] = {
    "_error": "", "report": object(), "_report_request": None, "_expression": "",
    "explain_empty_report": lambda: "none",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"_error": "It is away."}, "It is away. r tries again"),
        ({"report": None}, "reading …"),
        ({"_report_request": 1}, "reading …"),
        ({"_expression": "a[b"}, "nothing matches /a[b: / and Esc clear it"),
        ({}, "none"),
    ],
)
def test_a_report_without_rows_says_why(changes: dict[str, Any], text: str) -> None:
    assert explain(ReportView, REPORT, **changes) == text


SCHEDULES: dict[str, Any] = {
    "_expression": "", "_schedules": (), "refs": (), "session": SimpleNamespace(systems=SYSTEMS, refs=(MAIL,)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"_expression": "a", "_schedules": (1,)}, "no schedule matches /a: / and Esc clear it"),
        ({"refs": (MAIL, Ref("rq", "mail"))}, 'no schedule enqueues into this queue: " shows all queues'),
        ({"_expression": "a"}, "no system found here stores schedules in Redis"),
        ({"refs": (MAIL,)}, "no system found here stores schedules in Redis"),
    ],
)
def test_a_list_without_schedules_says_why(changes: dict[str, Any], text: str) -> None:
    assert explain(Schedules, SCHEDULES, **changes).startswith(text)


def explain_workers(*refs: Ref, expression: str = "", entries: tuple[object, ...] = ()) -> str:
    usual = {
        "list_queues_in_scope": lambda _refs: refs,
        "_stores_workers": lambda ref: ref.system in ("native", "celery"),
        "session": SimpleNamespace(systems=SYSTEMS, refs=refs),
    }
    return explain(Workers, usual, _expression=expression, _entries=entries)


def test_a_list_without_workers_says_why() -> None:
    assert explain_workers(MAIL) == explain_workers() == explain_workers(MAIL, expression="a") == EMPTY
    assert explain_workers(MAIL, expression="a", entries=(1,)) == "no worker matches /a: / and Esc clear it"
    assert explain_workers(STEPS) == "dispatcher stores no names of workers: Esc goes back"
    names = explain_workers(STEPS, Ref("orizuru", "q"))
    assert names == "dispatcher and orizuru store no names of workers: Esc goes back"
    assert explain_workers(MAIL, TASKS) == "waiting for heartbeats of celery, which only publishes them"
