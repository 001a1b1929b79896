"""Test features that no other program has: each has a screenshot and a test; both are named here and exist."""

from __future__ import annotations

import ast
from pathlib import Path

from families import run_in_one_test
from shell import shell
from text_snapshots import FOLDER, check_snapshot

TESTS = Path(__file__).parent
# what: the stored image, words that show it there, and the test that uses it
STARS: dict[str, tuple[str, str, str]] = {
    "life-line": (
        "job-160x45",
        "life-line",
        "tui/screens/test_job.py::test_a_life_line_has_every_step_with_the_time_since_the_one_before",
    ),
    "error groups": (
        "errors-80x24",
        "#",
        "tui/screens/test_errors.py::test_a_group_is_run_again_in_all_its_queues",
    ),
    "loops": (
        "loops-80x24",
        "nothing late",
        "tui/screens/test_loops.py::test_a_loop_is_stopped_stepped_and_started_here",
    ),
    "reaper preview": (
        "loops-next-80x24",
        "next jobs",
        "tui/screens/test_loops.py::test_the_next_victims_are_shown_before_they_are_taken",
    ),
    "operations": (
        "operations-80x24",
        "answers",
        "tui/screens/test_operations.py::test_a_purge_is_one_operation_and_comes_back",
    ),
    "verdict": (
        "overview-80x24",
        "no worker serves this queue",
        "engine/test_health.py::test_a_verdict_explains_why_and_what_helps",
    ),
    "unlock and lock": (
        "read-only-80x24",
        "read-only",
        "tui/services/test_write_lock.py::test_the_palette_unlocks_and_locks",
    ),
    "dry run": (
        "dry-run-80x24",
        "as old as",
        "tui/services/test_bulk_changes.py::test_all_in_a_place_get_a_dry_run_before_anything_happens",
    ),
    "undo": (
        "delete-80x24",
        "z undoes it",
        "tui/screens/test_operations.py::test_undo_reports_what_it_could_not_restore",
    ),
    "drip requeue": (
        "drip-120x35",
        "At 5/s this takes",
        "operations/test_rate_limit.py::test_a_throttled_requeue_on_the_screen_stops_at_its_limit",
    ),
    "freeze": (
        "overview-frozen-80x24",
        "frozen",
        "tui/screens/test_overview.py::test_frozen_rows_stay_while_the_counters_run",
    ),
    "cost meter": (
        "overview-160x45",
        "commands in ",
        "tui/test_hard_cases.py::test_the_header_shows_what_a_refresh_costs",
    ),
    "acl": ("acl-viewer", "ACL SETUSER", "test_stars.py::test_the_least_rights_of_a_viewer_match_their_snapshots"),
}


@run_in_one_test("star", STARS)
def test_a_star_is_shown_by_a_stored_picture_and_used_by_a_test(star: str) -> None:
    picture, words, test = STARS[star]
    assert words in (FOLDER / f"{picture}.txt").read_text("utf-8")
    file, _colons, name = test.partition("::")
    found = [
        each
        for each in ast.walk(ast.parse((TESTS / file).read_text("utf-8")))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == name
    ]
    assert len(found) == 1
    assert not any("skip" in ast.unparse(mark) for mark in found[0].decorator_list)


def test_the_least_rights_of_a_viewer_match_their_snapshots(url: str) -> None:
    check_snapshot("acl-viewer", shell(url, "acl", "viewer", "mail").out.rstrip("\n"))
