"""The page for a post-mortem: one timeline of findings and changes, each change in full, plots as text."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from redis import Redis
from screens import Seeded
from shell import shell

from rqtui.connection.connect import hide_url_passwords
from rqtui.model import Ref, State
from rqtui.operations import journal
from rqtui.operations.journal import Circumstances, Journal, Sighting
from rqtui.operations.watch import Sample
from rqtui.reports import postmortem
from rqtui.reports.postmortem import Curve

MINUTE = 60_000
HOW = Circumstances(
    1_000, "the gateway is back", "/err:timeout of dead", "5/s, stops at 20 failures", before={"mail": {"dead": 9}}
)


def write_changes(folder: Path | None) -> Journal:
    stored = Journal(folder, "redis://db:6379", "prod")
    stored.expect_change("requeue", "mail", "native", HOW)
    stored.record_stop("requeue", "mail", "native", "stopped by me@here after 7 of 9")
    stored.record_counts_after(
        stored.record_change("requeue", "mail", "native", [b"a"], {"ready again": 7}), {"mail": {"dead": 2, "ready": 7}}
    )
    return stored


def test_a_change_is_kept_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    (result,) = write_changes(tmp_path).operations
    assert (result.began_ms, result.why, result.chosen, result.rate) == (HOW.began_ms, HOW.why, HOW.chosen, HOW.rate)
    assert result.stopped == "stopped by me@here after 7 of 9"
    assert (result.before, result.after) == ({"mail": {"dead": 9}}, {"mail": {"dead": 2, "ready": 7}})
    assert journal.load_operations(tmp_path) == [result]
    (actual,) = postmortem.build_document([result])["operations"]
    assert actual["filter"] == HOW.chosen and actual["after"] == {"mail": {"dead": 2, "ready": 7}}
    assert json.loads(json.dumps(actual)) == actual | {"undo": [], "others": [], "other_systems": []}


def test_facts_about_one_change_are_not_used_for_the_next() -> None:
    stored = write_changes(None)
    assert stored.record_change("requeue", "mail", "native", [b"b"], {"ready again": 1}).why == ""


def test_a_reason_given_later_applies_to_all_changes_of_the_session(tmp_path: Path) -> None:
    stored = write_changes(tmp_path)
    stored.record_change("kill", "mail", "native", [b"x"], {"killed": 1})
    stored.set_reason("cleaning up")
    stored.record_change("delete", "mail", "native", [b"y"], {"deleted": 1})
    actual = {each.verb: each.why for each in journal.load_operations(tmp_path)}
    assert actual == {"requeue": HOW.why, "kill": "cleaning up", "delete": "cleaning up"}
    assert {each.verb: each.why for each in stored.operations} == actual


def test_a_change_that_was_cut_short_has_them_too(tmp_path: Path) -> None:
    stored = Journal(tmp_path, "redis://db:6379")
    stored.expect_change("requeue", "mail", "native", HOW)
    id = stored.begin_change("requeue", "mail", "native", 9)
    stored.record_progress(id, 4, {"ready again": 4}, "")
    file = tmp_path / journal.FILE_NAME
    file.write_text(file.read_text().replace('"process": "', '"process": "1999999999:'))  # its program is gone
    (cut,) = journal.load_operations(tmp_path)
    assert (cut.why, cut.chosen, cut.rate, cut.before) == (HOW.why, HOW.chosen, HOW.rate, HOW.before)
    assert cut.describe_interruption() == "was cut short: requeue (mail), 4 of 9"


def test_the_page_shows_findings_and_changes_in_one_line_of_time() -> None:
    (result,) = write_changes(None).operations
    found = [
        Sighting(result.at_ms - 9 * MINUTE, "mail", "native", "failing", "critical", "51 % of attempts fail"),
        Sighting(result.at_ms + MINUTE, "mail", "native", "failing", "critical", "51 % of attempts fail", True),
    ]
    page = postmortem.build_markdown([result], found)
    rows = [line for line in page.splitlines() if re.match(r"\| [12][09]\d\d-", line)]
    assert "times of the zone" not in page, "the change began on another day"
    assert [row.split(" | ")[1] for row in rows] == ["change", "critical", "change", "over"]
    assert "requeue begins: /err:timeout of dead, at 5/s, stops at 20 failures, the gateway is back |" in rows[0]
    assert "requeue (1 job): 7 × ready again; stopped by me@here after 7 of 9 |" in rows[2]
    assert rows[3].endswith("51 % of attempts fail after 10m00 |")
    assert "* why: the gateway is back" in page
    assert "; counts: dead 9 → 2, ready 0 → 7\n" in page


def test_a_page_of_one_day_names_it_once() -> None:
    noon_ms = 1_795_694_400_000
    page = postmortem.build_markdown([], [Sighting(noon_ms, "mail", "native", "paused", "warning", "paused")])
    day, zone = journal.format_clock(noon_ms)[:10], journal.format_clock(noon_ms)[20:]
    assert f"* {day}, times of the zone UTC{zone}\n" in page and page.count(day) == 1
    assert f"| {journal.format_clock(noon_ms)[11:19]} | warning | native:mail | paused |" in page


def test_the_page_begins_with_the_causes_and_reports_how_many_jobs_were_read(client: Redis) -> None:
    trace = 'Traceback (most recent call last):\n  File "/srv/charge.py", line 88, in charge\n    card.debit()\n'
    here = Seeded(client)
    for id, error in (("a", "Declined: token=s3cr3t"), ("b", "Declined: token=s3cr3t"), ("c", "TimeoutError: 5 s")):
        here.put(id)
        here.engine.apply_verb("reject", here.ref, here.reserve(), {"error": trace + error, "final": True})
    causes = postmortem.load_error_causes(here.engine, [here.ref])
    assert causes and (causes.failed_jobs, causes.jobs_read, causes.jobs) == (3, 3, 3)
    page = postmortem.build_markdown([], [], causes=causes)
    assert page.index("## Causes") < page.index("| 2 | Declined: ") < page.index("| 1 | TimeoutError: ")
    assert page.count("| charge.py:88 |") == 2 and "3 jobs, dead or waiting for a retry." in page
    documents = postmortem.build_document([], [], causes)["causes"]
    assert [(each["jobs"], each["line"]) for each in documents] == [(2, "charge.py:88"), (1, "charge.py:88")]
    assert documents[0]["first_ms"] <= documents[0]["last_ms"] and documents[0]["example"]
    assert "s3cr3t" not in page + json.dumps(documents)
    assert "1 of 3 jobs" in postmortem.build_markdown([], [], causes=causes._replace(jobs_read=1))
    fewer = causes._replace(groups=causes.groups[:1])
    assert postmortem.choose_larger_causes(fewer, causes) is causes
    assert postmortem.choose_larger_causes(None, fewer) is fewer and postmortem.choose_larger_causes(None, None) is None


def test_counts_show_only_the_places_that_changed() -> None:
    assert postmortem.format_count_changes({"q": {"dead": 2, "ready": 1}}, {"q": {"ready": 1}}) == "dead 2 → 0"
    assert postmortem.format_count_changes({"q": {"dead": 2}}, {"q": {"dead": 2}}) == "unchanged"
    several = postmortem.format_count_changes({"a": {"dead": 1}, "b": {}}, {"a": {}, "b": {"dead": 1}})
    assert several == "a: dead 1 → 0; b: dead 0 → 1"


def test_a_page_without_changes_reports_it_and_shows_what_was_found() -> None:
    found = [Sighting(MINUTE, "mail", "native", "paused", "warning", "paused")]
    page = postmortem.build_markdown([], found)
    assert "No change was made." in page and "| warning | native:mail | paused |" in page


def test_a_curve_is_drawn_as_high_as_it_is() -> None:
    points = [(minute * MINUTE, float(minute % 30)) for minute in range(61)]
    name, *rows, hours = postmortem.draw_curve(Curve("failed per minute", points), width=60, height=4)
    assert name == "failed per minute, at most 29"
    assert len(rows) == 4 and all(len(row) <= 60 for row in rows) and len(hours) == 60
    assert rows[0].count("█") < rows[3].count("█")
    flat = postmortem.draw_curve(Curve("dead", [(0, 5.0), (MINUTE, 5.0)]), width=10, height=2)
    assert flat[1:3] == ["█" * 10, "█" * 10]


def test_plots_come_from_what_a_screen_saw_of_any_system() -> None:
    ref = Ref("redisched", "mail")
    many = [Sample(at * 10_000, dict.fromkeys(State, at)) for at in range(3)]
    (plot,) = postmortem.plot_samples({ref: many, Ref("native", "once"): many[:1]})
    assert plot.ref == ref and [curve.name for curve in plot.curves] == ["ready", "reserved", "dead"]
    assert "ready, at most 2" in postmortem.build_markdown([], [], [plot])


def test_findings_are_in_the_file_for_the_server_they_were_found_on(tmp_path: Path) -> None:
    found = Sighting(MINUTE, "mail", "native", "paused", "warning", "paused")
    Journal(tmp_path, "redis://a:1").record_finding(found)
    with (tmp_path / journal.FILE_NAME).open("ab") as file:
        file.write(b'{"finding": {"at_ms": "x"}, "url": "redis://a:1"}\n{"finding": 7, "url": "redis://a:1"}\n[]\n')
    assert journal.load_sightings(tmp_path, "redis://a:1") == [found]
    assert journal.load_sightings(tmp_path, "redis://b:1") == []
    assert journal.load_operations(tmp_path) == []


def test_act_writes_down_why_which_how_fast_and_what_stood_there(client: Redis, url: str, state_folder: Path) -> None:
    Seeded(client).bury("a", "b", "c")
    Journal(state_folder, hide_url_passwords(url)).record_finding(
        Sighting(int(time.time() * 1000), "mail", "native", "paused", "warning", "it is paused")
    )
    words = ("act", "requeue", "mail", "--place", "dead", "--filter", "id:/[ab]/", "--rate", "100/s")
    ran = shell(url, *words, "--stop-at-failures", "7", "--why", "the disk was full")
    assert ran.code == 0, ran.err
    (actual,) = shell(url, "operations", "--json").json["operations"]
    assert (actual["why"], actual["filter"]) == ("the disk was full", "/id:/[ab]/ of dead")
    assert actual["rate"] == "100/s, stops at 7 failures"
    assert actual["before"]["mail"]["dead"] == 3
    assert (actual["after"]["mail"]["dead"], actual["after"]["mail"]["ready"]) == (1, 2)
    assert actual["began_ms"] <= actual["at_ms"]
    page = shell(url, "operations", "--markdown").out
    assert "it is paused" in page and "* why: the disk was full" in page


def test_a_page_reports_findings_from_an_hour_before_the_first_change_on(url: str, state_folder: Path) -> None:
    book, now_ms = Journal(state_folder, hide_url_passwords(url)), int(time.time() * 1000)
    for minutes, words in ((61, "paused long ago"), (50, "paused again")):
        book.record_finding(Sighting(now_ms - minutes * MINUTE, "mail", "native", "paused", "warning", words))
    operation = book.record_change("pause", "mail", "native", [b"a"])
    page = shell(url, "operations", "--markdown").out
    assert not operation.began_ms and "paused again" in page and "long ago" not in page
