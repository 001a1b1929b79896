"""Test recent activity: steps of a loop on one queue are one line, and two queues of one name are distinguished."""

from __future__ import annotations

from rqtui.engine.loops import Loop, Round, ScriptStep
from rqtui.model import Ref
from rqtui.text.names import find_duplicate_names
from rqtui.tui.format import recent

RQ, SIDEKIQ, MAIL = Ref("rq", "default"), Ref("sidekiq", "default"), Ref("rq", "mail")


def build_loop(*refs: Ref) -> Loop:
    loop = Loop("reap", Round)
    loop.rounds.append(
        Round(tuple(ScriptStep("reap", ref, 2, at_s=1_800_000_000.0 + at) for at, ref in enumerate(refs)))
    )
    return loop


def test_steps_on_queues_of_one_name_in_two_systems_are_two_lines_each_with_its_system() -> None:
    entries = recent.list_recent_events([build_loop(RQ, RQ, SIDEKIQ, MAIL)], [], 9)
    assert [(each.ref, each.moved) for each in entries] == [(MAIL, 2), (SIDEKIQ, 2), (RQ, 4)]
    text = recent.format_recent_events(entries, 80, find_duplicate_names([RQ, SIDEKIQ, MAIL]), rows=0).plain
    assert [line.split()[2] for line in text.splitlines()] == ["mail", "sidekiq:default", "rq:default"]


def test_a_change_of_several_queues_names_the_first_with_its_system_where_another_has_its_name() -> None:
    change = recent.RecentEvent(0.0, "pause", RQ, "paused", more=2)
    assert change.format_queues({"default"}) == "rq:default and 2 more"
    assert change.format_queues(()) == "default and 2 more"


def test_a_long_sentence_is_wrapped_only_where_rows_are_empty() -> None:
    sentence = "no worker serves this queue, and 17 jobs are ready"
    events = [recent.RecentEvent(1.0 * at, "finding", MAIL, sentence) for at in range(3)]

    def build_lines(rows: int) -> list[str]:
        return recent.format_recent_events(events, 70, rows=rows).plain.splitlines()

    assert [len(build_lines(rows)) for rows in (0, 3, 4, 5, 6, 9)] == [3, 3, 4, 5, 6, 6]
    newest, continuation, *others = build_lines(4)
    assert " ".join(f"{newest[40:]} {continuation}".split()) == sentence
    assert all(line.endswith("…") and len(line) <= 70 for line in others)
