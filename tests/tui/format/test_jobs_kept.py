"""What the screen writes about a job, a place and a series of numbers is what the texts `*_kept.txt` say.

Each field of a job is varied alone, in each state, without a screen or a server. A kept text has the lines that such a
job has and the complete one lacks (`+`), and the opposite (`-`). After a wanted change, `RQTUI_WRITE_SNAPSHOTS=1 pytest
tests/tui/format/test_jobs_kept.py` writes the texts; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kept_text import assert_lines_match_file, diff_lines
from text_snapshots import stopped_clock  # noqa: F401

from rqtui.model import Attempt, Fact, Job, Place, Queue, State
from rqtui.text import preview
from rqtui.text.pieces import convert_cell_to_pieces
from rqtui.tui.format import columns, jobs, timeline
from rqtui.tui.widgets import plot

HERE = Path(__file__).parent
NOW = 1_790_000_000_000
KNOWN_FIELDS = frozenset({"name", "tried", "priority", "lease"})
SECRET_ERROR = "Traceback (most recent call last):\n  File 'a.py', line 1\nKeyError: password=hunter2"
COMPLETE = Job(
    b"a1", "mail", "native", "place", State.READY, b"a1", name="send", body=b'{"to": "ada", "token": "tok_1"}',
    body_bytes=30, enqueued_ms=NOW - 90_000, due_ms=NOW + 60_000, deadline_ms=NOW + 30_000, reserved_ms=NOW - 20_000,
    since_ms=NOW - 5_000, priority=3, ttr_ms=40_000, attempts=2, max_attempts=5, worker="w1 token=abc1234567",
    error=SECRET_ERROR, call="mail.send(to='ada', token='tok_1')",
    history=(Attempt(NOW - 80_000, NOW - 79_000, "w0", SECRET_ERROR), Attempt(NOW - 60_000, 0, "", "")),
    facts=(Fact("result ttl", 40_000, "duration"), Fact("seen", NOW - 1000, "instant"),
           Fact("next", NOW + 1000, "instant"), Fact("parent", "b2", "ref"), Fact("child", "b3", "ref"),
           Fact("options", '{"a": [1, null]}', "json"),
           Fact("trace", "\n".join(f"line {number}" for number in range(5)), "text")),
)  # fmt: skip
VARIATIONS: tuple[dict[str, object], ...] = (
    {"name": ""}, {"call": ""}, {"body": None}, {"body": None, "body_bytes": 0}, {"body": b"", "body_bytes": 0},
    {"body_bytes": 4000}, {"member": b"entry"}, {"body": None, "member": b'{"to": "eve"}', "call": ""},
    {"enqueued_ms": None}, {"enqueued_ms": 0}, {"due_ms": None}, {"due_ms": NOW}, {"due_ms": NOW - 1},
    {"due_ms": NOW - 70_000}, {"due_ms": NOW - 172_800_000}, {"deadline_ms": None}, {"deadline_ms": NOW},
    {"deadline_ms": NOW - 2_000}, {"reserved_ms": None}, {"reserved_ms": NOW + 30_000}, {"since_ms": None},
    {"since_ms": NOW + 9_000}, {"priority": 0}, {"ttr_ms": None}, {"ttr_ms": None, "reserved_ms": None},
    {"attempts": 0}, {"attempts": 1}, {"max_attempts": None}, {"worker": ""}, {"error": ""}, {"history": ()},
    {"history": (), "error": "\n".join(f"line {number}" for number in range(62))},
    {"history": (Attempt(0, NOW - 1, "", "\n".join(f"line {number}" for number in range(61))),)},
    {"history": (Attempt(NOW - 3, NOW - 1, "w", "\n".join(f"line {number}" for number in range(60))),)},
    {"is_cancelled": True}, {"problem": "its record says password=hunter2"}, {"facts": ()},
)  # fmt: skip
_TIMES = {"due_ms", "deadline_ms", "reserved_ms", "since_ms", "ttr_ms", "attempts"}
FORMS = {  # known fields, whether secrets are shown, and the width of a pane
    "no known field": (frozenset[str](), False, 0),
    "revealed, 30 cells": (KNOWN_FIELDS, True, 30),
    "60 cells": (KNOWN_FIELDS, False, 60),
}
LOOPS = ("dispatch", "reap")  # scripts of the system


def describe_job(
    job: Job, known_fields: frozenset[str] = KNOWN_FIELDS, is_revealed: bool = False, width: int = 0
) -> list[str]:
    """Return all that the screen writes about a job, with the styles as markup."""
    layout = jobs.choose_property_layout(job.facts, width) if width else jobs.UNLIMITED_LAYOUT
    body_preview = preview.choose_preview_fields(
        [preview.RowFields(preview.read_preview_fields(COMPLETE.body or b""), ())]
    )
    choice = columns.ColumnChoice(body=body_preview)
    names = (*(name for name in columns.NAMES if name != "id"), "owner", "body.to", "body.token", "body.none")
    cells = columns.build_job_row(job, NOW, 16, names, choice).cells
    encoding, body = jobs.format_job_body(job, width or 80, is_revealed)
    contents = [
        jobs.format_job_properties(job, NOW, known_fields, is_revealed, layout),
        jobs.format_job_facts(
            job.facts, NOW, is_revealed=is_revealed, chosen_link=1, max_lines=4, layout=layout
        ),
        timeline.format_job_timeline(job, width or 80, NOW, is_revealed),
        timeline.format_attempt_errors(job, is_revealed),
        body,
    ]  # fmt: skip
    pieces = [" ".join(f"{piece.text}<{piece.style}>" for piece in convert_cell_to_pieces(cell)) for cell in cells]
    texts = [f"{number}: {text}" for number, text in enumerate(pieces)]
    for place, each in (("", names), ("dead", names), ("", ("fields", "time")), ("", ("time",)), ("dead", ())):
        row = columns.build_job_row(job, NOW, 16, each, choice, place)
        texts.append(
            f"left for {place!r}: {[cell if cell in ('gone', '→dead') else '' for cell in row.cells]} {row.is_gone}"
        )
    return [*(line for content in contents for line in content.markup.splitlines()), f"encoding {encoding}", *texts]


def describe_all_jobs() -> Iterator[str]:
    usual: list[str] = []
    for state in State:
        job = replace(COMPLETE, state=state)
        lines = describe_job(job)
        yield from (f"== {state}", *diff_lines(usual, lines))
        usual = lines
        for title, form in FORMS.items():
            yield from (f"-- {state}, {title}", *diff_lines(lines, describe_job(job, *form)))
        for variation in VARIATIONS:
            if state not in (State.RESERVED, State.DEAD) and not _TIMES & {*variation}:
                continue  # nothing else depends on the state
            title = ", ".join(f"{name} {_shorten(value)}" for name, value in variation.items())
            yield from (f"-- {state}, {title}", *diff_lines(lines, describe_job(replace(job, **variation))))  # type: ignore[arg-type]


def _shorten(value: object) -> str:
    return f"now{value - NOW:+}" if isinstance(value, int) and value > 10**12 else repr(value)[:60]


def test_texts_about_a_job_match_the_stored_text(stopped_clock: None) -> None:  # noqa: F811
    assert_lines_match_file(describe_all_jobs(), HERE / "jobs_kept.txt")


def describe_place_hints() -> Iterator[str]:
    """Yield the hints of all places of a system with a place for late jobs, and of one without."""
    places = (
        Place("later", State.SCHEDULED, "k", "zset", "due ms"), Place("waiting", State.READY, "k", "list"),
        Place("next", State.READY, "k", "list"), Place("dead", State.DEAD, "k", "list"),
        Place("done", State.DONE, "k", "list"),
        Place("leased", State.RESERVED, "k", "zset", "deadline ms", "score > now"),
        Place("over", State.RESERVED, "k", "zset", "deadline ms", "score <= now"),
    )  # fmt: skip
    bounds = (None, -jobs.LATE_MS - 1, -jobs.LATE_MS, 0, 1)
    changes: list[dict[str, object]] = [{}, {"is_paused": True}, {"next_due_ms": 61_000}, {"next_expiry_ms": 61_000}]
    changes += [{"overdue": 4, "next_due_ms": ms} for ms in bounds]
    changes += [{"expired": 4, "next_expiry_ms": ms} for ms in bounds]
    for each in (places, (*places[:5], places[5]._replace(where=""))):
        for place in each:
            assert not jobs.build_place_hints(None, place, each, LOOPS)
            for change in changes:
                if hints := jobs.build_place_hints(Queue("q", "s")._replace(**change), place, each, LOOPS):
                    yield f"{place.name} of {len(each)}, {change}: {hints}"
            for can_change in (True, False):
                sentence = jobs.format_empty_place(place, each, is_late=place.name == "over", can_change=can_change)
                yield f"{place.name} of {len(each)}, empty{'' if can_change else ', read-only'}: {sentence}"


def describe_plots() -> Iterator[str]:
    """Yield plots of short series with unknown values, zeros and values above the top, and resampled points."""
    series: tuple[tuple[float | None, ...], ...] = (
        (), (0,), (None,), (0, 1, 2, 3, 4, 5, 6, 7, 8), (8, None, 0, 0.01, 4), (3, 3, 9), (None, 5, None, 1),
    )  # fmt: skip
    for area in series:
        for line in series:
            for height, ascii_only in ((1, False), (2, False), (1, True), (3, True)):
                yield f"{area} {line} {height}: {plot.draw_plot(area, line, height, 8, ascii_only)}"
            for ascii_only in (False, True):
                lower = [min(part or 0, whole or 0) for part, whole in zip((*line, *area), area, strict=False)]
                yield f"{area} {lower} stacked: {plot.draw_stacked_plot(area, lower, 2, 8, {0, 2}, ascii_only)}"
    points = (
        (-5, 7.0),
        (0, 1.0),
        (9, 3.0),
        (10, None),
        (20, None),
        (20.5, 4.0),
        (30, 5.0),
        (35, 6.0),
        (40, 8.0),
        (41, 9.0),
    )
    for first in range(len(points)):
        for is_level in (False, True):
            values = plot.resample_points(points[first:], 0, 40, 4, is_level=is_level)
            yield f"resampled from {points[first]}, {'levels' if is_level else 'means'}: {values}"
    yield f"resampled to no column: {plot.resample_points((), 0, 40, 0)}"
    for value in (-1, 0, 0.0001, 0.9, 1, 1.0005, 1.01, 2, 2.1, 5, 5.1, 9.9, 10.005, 11, 99, 101):
        yield f"axis of {value}: {plot.round_axis_maximum(value)}"


def test_hints_of_places_match_the_stored_text() -> None:
    assert_lines_match_file(describe_place_hints(), HERE / "hints_kept.txt")


def test_plots_match_the_stored_text() -> None:
    assert_lines_match_file(describe_plots(), HERE / "plots_kept.txt")
