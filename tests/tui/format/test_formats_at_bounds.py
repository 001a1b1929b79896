"""What rows, columns and lines of the screen are at each bound of their values: `formats_at_bounds.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/format/test_formats_at_bounds.py` writes the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bare_objects import SYSTEMS, describe
from kept_text import assert_lines_match_file, utc_time_zone
from textual.theme import Theme

from rqtui.engine.loops import Round, ScriptStep
from rqtui.model import Attempt, Count, Fact, Finding, Job, Queue, Rate, RecentActivity, Ref, State, Verdict
from rqtui.operations.canary import CanaryProgress
from rqtui.operations.canary_jobs import End, FirstJob, Step
from rqtui.operations.journal import Operation
from rqtui.text import preview
from rqtui.text.pieces import Piece, convert_cell_to_pieces
from rqtui.tui import keys
from rqtui.tui.format import canary, columns, copy_formats, groups, jobs, queues, recent, rows, theme, timeline
from rqtui.tui.format.rows import Column, LazyCells, ListWindow, Row

KEPT = Path(__file__).with_name("formats_at_bounds.txt")
NOW_MS = 1_800_000_000_000
MAIL, NEWS, JOBS = Ref("native", "mail"), Ref("native", "news"), Ref("rq", "jobs")
JOB = Job(
    b"job-0000-0001", "mail", "native", "dead", State.DEAD, b"job-0000-0001", name="send", body=b'{"to": "a"}',
    body_bytes=11, enqueued_ms=NOW_MS - 9_000, since_ms=NOW_MS - 4_000, attempts=1,
)  # fmt: skip


def write_cells(cells: Any) -> str:
    """Return the cells of a row with the styles of their pieces."""
    return " | ".join(
        " ".join(
            f"{piece.text}<{piece.style}>" if piece.style else piece.text for piece in convert_cell_to_pieces(cell)
        )
        for cell in cells
    )


def write_columns(all_columns: Any) -> str:
    """Return the keys, titles, widths and drops of columns."""
    return " ".join(
        f"{each.key}:{each.title}:{each.width}/{each.weight}/{each.most}/{each.drop}{each.align[0]}{each.style[:1]}"
        for each in all_columns
    )


# ── columns of jobs ──────────────────────────────────────────────────────────────────────────────────────────────────


def build_page(number: int, **fields: Any) -> list[Job]:
    """Return jobs whose bodies differ."""
    bodies = [b'{"to": "user%d", "n": %d}' % (at, at) for at in range(number)]
    return [
        replace(JOB, id=b"job-%04d" % at, member=b"job-%04d" % at, **{"body": body, **fields})
        for at, body in enumerate(bodies)
    ]


def write_choice(choice: columns.ColumnChoice) -> str:
    body = choice.body
    parts = [[field.path for field in body.columns], [field.path for field in body.others], body.rows_read]
    return (
        f"{sorted(choice.filled)} {parts} {choice.common_values} {choice.name_cells} {choice.has_problem} "
        f"{len(choice.workers)} {choice.has_rare_errors} {tuple(choice.ids)}"
    )


def describe_choices() -> Iterator[str]:
    """Yield the columns chosen for pages of jobs, one page after another."""
    pages: dict[str, tuple[list[Job], ...]] = {
        "none": ([],),
        "seven": (build_page(7),),
        "eight": (build_page(8),),
        "eight, then others": (build_page(8), build_page(8, body=b'{"x": 1}'), build_page(9, name="other")),
        "seven, then eight": (build_page(7), build_page(8), build_page(14), build_page(16)),
        "empty": (build_page(8, body=b"", body_bytes=0), build_page(2)),
        "unnamed": (build_page(9, name=""), build_page(9, name="a-name-of-many-letters-and-words")),
        "names": ([*build_page(8), *build_page(1, name="日本語" * 9)],),
        "called": (build_page(9, call="send(1)"), build_page(9)),
        "problem": (build_page(9, problem="broken"), build_page(9)),
        "tried": (build_page(9, attempts=0), build_page(9, attempts=2, max_attempts=5), [*build_page(9), JOB]),
        "timed": (build_page(9, since_ms=None), build_page(9, state=State.SCHEDULED, since_ms=None)),
        "leased": (
            build_page(9, state=State.RESERVED, deadline_ms=NOW_MS, reserved_ms=NOW_MS - 5_000, worker="w"),
            build_page(9, state=State.RESERVED, worker=""),
        ),
    }
    for number in (0, 2, 3, 5, 6, 7):
        failed = [replace(job, error="E" if at < number else "") for at, job in enumerate(build_page(10))]
        pages[f"{number} errors"] = (failed,)
        pages[f"{number} errors after few"] = (build_page(10), failed)
        pages[f"{number} errors after many"] = (build_page(10, error="E"), failed)
    for number in (99, 100, 101):
        known = [replace(job, worker=f"w{at}") for at, job in enumerate(build_page(number))]
        pages[f"{number} workers"] = (known[:60], known[60:])
        pages[f"{number} workers and again"] = (known, known[:3])
    for title, shown in pages.items():
        choice = columns.ColumnChoice()
        for page in shown:
            choice = columns.choose_job_columns(choice, page, NOW_MS)
            yield f"{title}, {len(page)} jobs: {write_choice(choice)}"
            for state in (State.RESERVED, State.DEAD):
                names = columns.choose_column_names(state, choice.filled)
                yield f"  {state}: {write_columns(columns.build_columns(state, names, 16, choice))}"


def describe_columns() -> Iterator[str]:
    """Yield columns by their names, and how they are adapted to a narrow pane."""
    usual = columns.ColumnChoice()
    chosen = columns.choose_job_columns(usual, build_page(9), NOW_MS)
    choices = {
        "usual": usual,
        "chosen": chosen,
        "long names": usual._replace(name_cells=40),
        "short names": usual._replace(name_cells=4),
        "problems": usual._replace(has_problem=True, name_cells=60),
        "rare errors": usual._replace(has_rare_errors=True),
        "short ids": usual._replace(ids=preview.IdFormat(5, "job-", 0)),
        "ids of 2": usual._replace(ids=preview.IdFormat(2)),
        "ids of 40": usual._replace(ids=preview.IdFormat(40)),
        "others": usual._replace(body=chosen.body._replace(columns=(), others=chosen.body.columns)),
        "both": usual._replace(body=chosen.body._replace(others=chosen.body.columns)),
    }
    for title, choice in choices.items():
        for state, is_timed in (
            (State.SCHEDULED, True),
            (State.SCHEDULED, False),
            (State.RESERVED, True),
            (State.DEAD, True),
        ):
            for names in (columns.NAMES[1:], ("time",), ("job", "owner"), ("error", "body.a.b")):
                for are_configured in (False, True):
                    built = columns.build_columns(
                        state, names, 16, choice, are_configured=are_configured, is_timed=is_timed
                    )
                    if title in ("usual", "chosen", "both") or names[0] != "time":
                        yield f"{title} {state} {is_timed} {len(names)} {are_configured}: {write_columns(built)}"
        built = columns.build_columns(State.DEAD, columns.NAMES[1:], 16, choice)
        yield f"{title} beside: {write_columns(columns.adapt_columns_to_side_pane(built))}"
        alone = columns.build_columns(State.DEAD, ("time",), 8, choice)
        yield f"{title} alone beside: {write_columns(columns.adapt_columns_to_side_pane(alone))}"
        for gone_to in (None, "", "ready"):
            for names in (columns.NAMES[1:], ("fields", "time"), ("time",), ("job",), ()):
                row = columns.build_job_row(JOB, NOW_MS, 8, names, choice, gone_to)
                yield f"  row {gone_to} {len(names)}: {row.is_gone} {write_cells(row.cells)}"
    for settings in (
        {},
        {"dead": ["id", "job", "body.", "body.x", "nope"]},
        {"board": ["time"]},
        {"dead": [], "board": ["job"]},
    ):
        yield f"configured {settings}: {columns.read_configured_columns(settings, State.DEAD)}"
    for filled in (frozenset({"job"}), frozenset({"job", "worker"})):
        for known in (frozenset[str](), frozenset({"owner"})):
            names = [columns.choose_column_names(state, filled, (), known) for state in State]
            yield f"names of {sorted(filled)} {sorted(known)}: {names}"
    yield f"configured names: {columns.choose_column_names(State.DEAD, frozenset(), ('size',))}"
    for ids in ((), (b"a",), (b"a" * 4,), (b"a" * 5,), (b"a" * 20, b"b")):
        yield f"cells of {ids}: {[columns.compute_id_cells(ids, most) for most in (3, 4, 8, 16)]}"
    for names in ((), ("job",), ("call",), ("fields",), ("body",), ("body.x",), ("job", "body.x")):
        yield f"bytes of {names}: {columns.count_needed_body_bytes(names)}"


def describe_cells() -> Iterator[str]:
    """Yield the cells of jobs at each bound of their fields."""
    names = ("job", "call", "time", "lease", "tried", "error", "worker", "priority", "size", "enqueued", "body")
    for state in State:
        for changes in (
            {},
            {"since_ms": None},
            {"since_ms": NOW_MS + 1_000},
            {"due_ms": NOW_MS},
            {"due_ms": NOW_MS - 1_000},
            {"deadline_ms": NOW_MS},
            {"deadline_ms": NOW_MS - 1_000},
            {"deadline_ms": NOW_MS + 5_000, "reserved_ms": NOW_MS - 5_000},
            {"deadline_ms": NOW_MS + 5_000, "reserved_ms": NOW_MS + 5_000},
            {"deadline_ms": NOW_MS + 5_000, "reserved_ms": None, "ttr_ms": 10_000},
            {"deadline_ms": NOW_MS + 5_000, "reserved_ms": None, "ttr_ms": None},
            {"enqueued_ms": None, "attempts": 0, "body": None, "name": ""},
            {"attempts": 1, "max_attempts": 0, "priority": 1, "body": b""},
            {"attempts": 0, "max_attempts": 3, "priority": -1, "error": "Traceback:\nKeyError: 'a'", "worker": "w"},
        ):
            if state not in (State.SCHEDULED, State.RESERVED, State.DEAD):
                continue
            job = replace(JOB, state=state, **changes)
            row = columns.build_job_row(job, NOW_MS, 16, names)
            yield f"{state} {changes}: {columns.compute_lease_length_ms(job)} {write_cells(row.cells)}"
    for body, size in (
        (b'{"a": [1, {"b": "x"}], "t": "tok", "s": "y"}', 40),
        (b'{"a": [1, {"b": "x"', 40),
        (b"", 40),
        (b"text", 4),
    ):
        job = replace(JOB, body=body, body_bytes=size)
        paths = (
            "body.a",
            "body.a.0",
            "body.a.1",
            "body.a.2",
            "body.a.1.b",
            "body.a.x",
            "body.a.-1",
            "body.b",
            "body.password",
            "body.s",
        )
        yield f"paths in {body!r} of {size}: {write_cells(columns.build_job_row(job, NOW_MS, 16, paths).cells)}"
    for body, member in ((None, b"job-0000-0001"), (None, b'{"x": 1}'), (b"job-0000-0001", b""), (b"a" * 11, b"")):
        job = replace(JOB, body=body, member=member)
        row = columns.build_job_row(job, NOW_MS, 16, ("body.a", "call"))
        yield f"missing in {body!r} {member!r}: {write_cells(row.cells)}"
    for length in (8, 9, 16, 17, 64, 65):
        job = replace(JOB, id=b"x" * length)
        short, long = (
            [write_cells(columns.build_job_row(job, NOW_MS, cells, names).cells[:1]) for names in ((), ("job",))]
            for cells in (columns.SHORT_ID_CELLS, columns.LONG_ID_CELLS)
        )
        yield f"id of {length}: {short} {long}"


# ── rows and windows of tables ───────────────────────────────────────────────────────────────────────────────────────


def describe_tables() -> Iterator[str]:
    """Yield which columns fit, and where the cursor is after a list changed."""
    sets = {
        "plain": (Column("a", width=5), Column("b", width=5, drop=1), Column("c", width=5, drop=2)),
        "equal drops": (Column("a", width=5, drop=1), Column("b", width=5, drop=1), Column("c", width=5, drop=1)),
        "flexible": (Column("a", width=4, weight=1), Column("b", width=4, weight=2), Column("c", width=4, drop=1)),
        "limited": (
            Column("a", width=4, weight=1, most=6),
            Column("b", width=4, weight=1, most=9),
            Column("c", width=4),
        ),
        "limited below": (Column("a", width=6, weight=1, most=4), Column("b", width=4, weight=3)),
    }
    yield f"a usual column: {Column('a')}"
    for title, each in sets.items():
        for gap in (1, 2):
            texts = {}
            for width in range(0, 31):
                texts.setdefault(str([tuple(slot) for slot in rows.fit_columns(each, width, gap)]), width)
            yield from (f"{title}, gap {gap}, from {width}: {text}" for text, width in texts.items())
    previous_rows = tuple(Row(name, ()) for name in "abcde")
    for previous_offset, previous_total in ((0, 5), (10, 15), (10, 30)):
        previous = ListWindow(previous_rows, previous_offset, previous_total)
        for fresh in ("abcde", "abde", "bcde", "abcd", "xabcdey", "", "edcba", "xyz", "acxe"):
            for offset, total in ((0, 0), (9, 0), (10, 15), (10, 30)):
                parts = []
                for cursor, position in ((None, 12), ("c", 12), ("a", 10), ("e", 14), ("z", 12)):
                    row = Row(cursor, ()) if cursor else None
                    window, place = rows.keep_cursor_row(
                        previous, tuple(Row(name, ()) for name in fresh), offset, total, row, position
                    )
                    parts.append(
                        f"{cursor}@{place}/{window.ghost}/{window.total}/{len(window.rows)}/"
                        f"{''.join(sorted(map(str, window.arrived)))}"
                    )
                if offset == previous_offset or fresh in ("abde", "xabcdey"):
                    yield f"{previous_offset} of {previous_total}, {fresh!r} at {offset} of {total}: {' '.join(parts)}"
    yield f"new window: {ListWindow()}"
    window = ListWindow(previous_rows, 10, 30, 12)
    found = [(place, row.id if (row := window.find_row(place)) else None) for place in (9, 10, 14, 15)]
    bare = window.remove_ghost()
    yield f"window: {window.end} {found} {bare.total} {[row.id for row in bare.rows]} {bare.remove_ghost() is bare}"
    replaced = window.replace_rows((Row("c", ("new",)), Row("x", ())))
    yield f"replaced: {[row.cells for row in replaced.rows]} {replaced.total} {replaced.ghost} {replaced.offset}"
    calls: list[object] = []
    lazy = LazyCells(lambda row_id: calls.append(row_id) or ("one", "two"), "a")
    row = Row("a", lazy)
    yield f"lazy: {calls} {len(lazy)} {lazy[1]} {row.with_built_cells.cells} {calls}"
    yield f"not lazy: {Row('b', ('x',)).with_built_cells.cells}"


# ── the overview ─────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_overview() -> Iterator[str]:
    for width in (80, 109, 110, 120, 161, 162, 175, 176, 205, 206, 219, 220):
        for refs in ((MAIL,), (MAIL, JOBS)):
            for longest, verdict in ((0, 0), (9, 36), (10, 37), (20, 46), (21, 47), (28, 60), (29, 61), (99, 99)):
                shape = queues.choose_overview_shape(width, refs, frozenset({"mail"}), longest, verdict)
                if width in (109, 110) or longest == 9:
                    yield f"shape of {width} {len(refs)} {longest} {verdict}: {tuple(shape)[:6]}"
    for shape in (
        queues.OverviewShape(),
        queues.OverviewShape(is_narrow=True, is_one_system=True, name=9),
        queues.OverviewShape(is_narrow=True, name=14),
        queues.OverviewShape(is_narrow=True, name=15),
        queues.OverviewShape(bar=13),
        queues.OverviewShape(bar=44, is_one_system=True),
    ):
        yield f"columns of {tuple(shape)[:6]}: {write_columns(queues.build_overview_columns(shape))}"
    counts = (Count("ready", State.READY, 7), Count("old", State.READY, 5, False), Count("dead", State.DEAD, 0))
    verdict = Verdict("critical", "51 % of the attempts fail: look at the errors", "failing", NOW_MS + 41_000)
    finding = Finding(
        "failing", "critical", "mail", "51 % of the attempts fail", "look at the errors", key="e", jobs=12_345
    )
    full = Queue(
        "mail",
        "native",
        counts,
        NOW_MS,
        workers=2,
        oldest_ready_ms=61_000,
        findings=(finding,),
        verdict=verdict,
        counters={"in": 5, "out": 3},
    )
    still = full._replace(findings=(), verdict=Verdict(), workers=0, oldest_ready_ms=None)
    variants: dict[str, tuple[Queue | None, Rate | None]] = {
        "uncounted": (None, None),
        "full": (full, Rate(1.0, 2.0, history=tuple(float(at) for at in range(12)))),
        "still": (still, Rate(history=(0.0, 0.0))),
        "without rate": (still._replace(workers=None), None),
        "without out": (still._replace(counters={}), Rate()),
        "empty": (still._replace(counts=()), Rate()),
        "without deadline": (full._replace(verdict=verdict._replace(until_ms=None)), Rate()),
        "late": (full._replace(verdict=verdict._replace(until_ms=NOW_MS)), Rate()),
        "by key": (
            full._replace(findings=(replace(finding, remedy=""),), verdict=Verdict("critical", "fails · e")),
            Rate(),
        ),
        "no fix": (full._replace(findings=(replace(finding, remedy="", key=""),)), Rate()),
        "another fix": (full._replace(verdict=Verdict("critical", "fails")), Rate()),
        "another kind": (full._replace(findings=(replace(finding, kind="some-new-kind", severity="warning"),)), Rate()),
        "no share": (full._replace(findings=(replace(finding, text="fails"),)), Rate()),
        "a place of events": (
            full._replace(counts=(Count("done", State.DONE, -1), Count("ready", State.READY, 100_000))),
            Rate(),
        ),
        "millions": (full._replace(counts=tuple(Count(state, state, 12_345_678) for state in State)), Rate()),
        "tens": (full._replace(counts=tuple(Count(state, state, 10 * at) for at, state in enumerate(State))), Rate()),
    }
    shapes = (
        queues.OverviewShape(),
        queues.OverviewShape(is_narrow=True, is_one_system=True),
        queues.OverviewShape(bar=30),
    )
    for title, (queue, rate) in variants.items():
        for shape in shapes:
            for since in (None, queues.ChangesSince(312, 0)):
                if since is None or title == "full":
                    row = queues.build_queue_row("id", "mail", "native", queue, rate, shape, since, NOW_MS)
                    yield f"row {title} {shape.is_narrow} {shape.bar}: {write_cells(row.cells)}"
        yield f"  shown {describe(queues.collect_shown_values(queue, rate))} {queues.format_time_left(queue, NOW_MS)!r}"
        keys_of = [queues.compute_queue_sort_key(sort, "mail", queue, rate) for sort in queues.SORTS]
        yield f"  sorted {keys_of} {tuple(queues.find_row_signs(queue)) if queue else None}"
    for since in (
        None,
        queues.ChangesSince(),
        queues.ChangesSince(1, 0),
        queues.ChangesSince(0, 1),
        queues.ChangesSince(312, 290),
    ):
        yield f"since {since}: {describe(queues.format_changes(since))}"
    for previous, current in (
        ({"in": 5, "out": 3}, {"in": 9, "out": 3}),
        ({"in": 5}, {"in": 4, "out": 3}),
        ({}, {"in": 4}),
        ({}, {}),
    ):
        more = full._replace(counters=current, counts=(Count("ready", State.READY, 15),))
        former = full._replace(counters=previous)
        changes = [queues.compute_changes(*pair) for pair in ((former, more), (more, former), (more, full))]
        yield f"changes {previous} {current}: {describe(changes)}"
    measured = [full._replace(verdict=Verdict(text="x" * cells)) for cells in (57, 58, 59)]
    longest_cells = [
        queues.measure_longest_verdict(each) for each in ((), (still,), (full,), *((each,) for each in measured))
    ]
    yield f"longest verdict: {longest_cells}"
    for text in ("it fails", ": look", " · e", "·"):
        yield f"fitted {text!r}: {queues._fit_verdict(text, 3)!r}"
    for signs in ((), (queues.RowSigns(True, False),), (queues.RowSigns(False, True), queues.RowSigns(False, False))):
        for is_complete in (False, True):
            yield f"legend {signs} {is_complete}: {queues.format_legend(signs, is_complete=is_complete)!r}"
    for numbers in ((), (0,), (1,), (1, 1), (1, 99), (50, 50), (3, 1000, 0, 7)):
        counted = [(state, number) for state, number in zip(State, numbers, strict=False)]
        for width in (7, 8, 9, 12, 30):
            bar = queues.build_state_bar(counted, width, {State.READY})
            yield f"bar of {numbers} in {width}: {[(str(state), text) for state, text in bar]}"


# ── one job, recent events, canaries, themes ─────────────────────────────────────────────────────────────────────────


def describe_timelines() -> Iterator[str]:
    day_ms = 86_400_000
    histories = {
        "none": (),
        "one": (Attempt(NOW_MS - 5_000, NOW_MS - 4_000, "w1", "KeyError: 'a'"),),
        "days": (
            Attempt(NOW_MS - 2 * day_ms, NOW_MS - day_ms, "w1", "E: " + "word " * 60),
            Attempt(NOW_MS - day_ms, NOW_MS, "", ""),
        ),
        "unknown times": (
            Attempt(0, 0, "w1", "E"), Attempt(NOW_MS - 3_000, 0, "", "E2"), Attempt(0, NOW_MS - 2_000, "", "E3")
        ),
        **{
            f"an error of {number} lines": (
                Attempt(NOW_MS - 3_000, NOW_MS - 2_000, "w", "E: " + " ".join(each * 21 for each in "vwxyz"[:number])),
            )
            for number in (3, 4, 5)
        },
    }  # fmt: skip
    for title, history in histories.items():
        for changes in (
            {},
            {"enqueued_ms": None, "since_ms": None},
            {"state": State.SCHEDULED, "due_ms": NOW_MS},
            {"state": State.SCHEDULED, "due_ms": NOW_MS + 1},
            {"state": State.RESERVED, "reserved_ms": NOW_MS - 1_000, "deadline_ms": NOW_MS + 9_000, "worker": "w9"},
            {"state": State.RESERVED, "attempts": 5},
            {"state": State.DONE, "attempts": 5},
            {"attempts": 0, "error": "lost"},
            {"attempts": 7, "error": "lost\nfor good"},
        ):
            job = replace(JOB, history=history, **changes)
            if title in ("none", "one", "days") or not changes:
                yield f"{title} {changes}: {timeline.format_attempt_errors(job).plain[:300]!r}"
            for width in (12, 20, 34, 80):
                if title != "none" and (width == 34 or not changes):
                    yield f"  in {width}"
                    yield from (
                        f"  |{line}" for line in timeline.format_job_timeline(job, width, NOW_MS).plain.split("\n")
                    )
    for number in (59, 60, 61):
        errors = "\n".join(f"line {at}" for at in range(number))
        job = replace(JOB, history=(Attempt(1, 2, "", errors),))
        for each in (job, replace(JOB, error=errors)):
            lines = timeline.format_attempt_errors(each).plain.split("\n")
            yield f"{number} lines of an error: {len(lines)} {lines[1:4]} {lines[-1]}"


def describe_recent() -> Iterator[str]:
    def event(
        at_s: float, verb: str = "dispatch", ref: Ref = MAIL, moved: int = 1, words: str = "", more: int = 0
    ) -> recent.RecentEvent:
        return recent.RecentEvent(at_s, verb, ref, words, moved, more)

    lists = {
        "none": [],
        "joined": [event(1.0), event(11.0)],
        "apart": [event(1.0), event(11.001)],
        "joined after another": [event(1.0, ref=NEWS), event(2.0), event(3.0)],
        "other queue": [event(1.0), event(2.0, ref=NEWS)],
        "other verb": [event(1.0), event(2.0, "reap")],
        "a change": [event(1.0), event(2.0, moved=0, words="w"), event(3.0)],
        "changes": [event(1.0, moved=0, words="a"), event(2.0, moved=0, words="b")],
        "unordered": [event(3.0, "requeue", moved=0, words="late"), event(1.0), event(2.0)],
    }
    for title, events in lists.items():
        for limit in (0, 1, 2, 9):
            yield f"{title}, {limit}: {describe(recent.list_recent_events((), events, limit))}"
    steps = (ScriptStep("dispatch", MAIL, 0, 1, {}, 1.0), ScriptStep("dispatch", MAIL, 4, 1, {}, 2.0))
    loop: Any = SimpleNamespace(rounds=[Round(steps), Round(error="away")])
    yield f"loop: {describe(recent.list_recent_events((loop,), (), 9))}"
    for is_over in (False, True):
        sighting: Any = SimpleNamespace(at_ms=2_500, queue="mail", system="native", text="51 %", is_over=is_over)
        yield f"finding {is_over}: {describe(recent.convert_finding_change(sighting))}"
    operation = Operation(
        1_500, "me", "delete", "mail", "native", (b"j1",), 3, others=("news", "x"), other_systems=("rq", "rq")
    )
    yield f"operation: {describe(recent.convert_operation(operation))}"
    events = [
        event(1.0, "finding", moved=0, words="word " * 20), event(2.0, "over", moved=0, words="short"),
        event(3.0, moved=1_234), event(4.0, "requeue", words="w" * 30, more=2),
    ]  # fmt: skip
    for width in (20, 47, 48, 49, 80):
        for wanted in (0, 4, 5, 6, 7, 20):
            lines = recent.format_recent_events(events, width, {"mail"}, rows=wanted)
            yield f"recent in {width} x {wanted}: {[len(line) for line in lines.plain.split(chr(10))]}"
    yield f"recent: {describe(recent.format_recent_events(events, 80, rows=9))}"
    yield f"no event: {describe(recent.format_recent_events((), 80, rows=0))}"


def describe_canaries() -> Iterator[str]:
    def first(at: int, end: End | None = None, **fields: Any) -> FirstJob:
        return FirstJob(MAIL, replace(JOB, id=b"j%d" % at), NOW_MS - 10_000, end=end, **fields)

    ready, running = Step(State.READY, NOW_MS - 10_000), Step(State.RESERVED, NOW_MS - 4_000, True, "worker-1")
    sets = {
        "none": (),
        "sent": (first(1),),
        "ready": (first(1, steps=(ready,)),),
        "running": (first(1, steps=(ready, running)), first(2, steps=(ready, running._replace(at_ms=NOW_MS - 9_000)))),
        "ended": (
            first(1, End.DONE, steps=(ready, running), ended_ms=NOW_MS - 1_000),
            first(2, End.FAILED, steps=(ready, running), ended_ms=NOW_MS, error="KeyError: 'a' " * 9, is_end_seen=True),
            first(3, End.UNKNOWN),
            first(4, End.FAILED, is_moved=False, error="not there"),
        ),
    }
    for title, records in sets.items():
        for wait_left_s in (-1.0, 0.0, 60.0):
            progress = CanaryProgress(records, NOW_MS, wait_left_s)
            yield f"{title} {wait_left_s}: {canary.describe_counts(progress)}"
            yield f"  usual {canary.describe_limit(progress, 300.0, 3_600.0)}"
            yield f"  run of 4 s {canary.describe_limit(progress, 300.0, 4.0)}"
        yield f"  legend {describe(canary.format_bar_legend(progress))}"
        for record in records:
            yield f"  steps {canary.describe_steps(record, 'requeued', NOW_MS)}"
        for width in (40, 59, 60, 109, 110, 140):
            for height in range(0, 14, 3):
                lines = canary.format_first_jobs(progress, "requeued", width, height)
                if height in (0, 12):
                    yield f"  in {width} x {height}: {len(lines)}"
                    yield from (f"  |{line.plain}" for line in lines)
                else:
                    yield f"  in {width} x {height}: {len(lines)}"
    for span_s in (
        0,
        1,
        1.001,
        2,
        5,
        10,
        20,
        30,
        60,
        120,
        300,
        600,
        1200,
        1800,
        3600,
        7200,
        14_400,
        43_200,
        86_400,
        86_401,
    ):
        progress = CanaryProgress(
            (replace(first(1, steps=(ready,)), sent_ms=NOW_MS - round(1000 * span_s)),), NOW_MS, 1.0
        )
        yield f"bar of {span_s} s: {canary.choose_bar_span_ms(progress)}"
    for steps in (["requeued", "ready 1s"], ["requeued", "ready 1s on worker w", "running on worker x"], ["end"]):
        for width in (8, 12, 20, 40):
            yield f"wrapped {len(steps)} in {width}: {canary._wrap_steps(steps, width)}"


def describe_themes() -> Iterator[str]:
    for environ in (
        {},
        {"NO_COLOR": "1"},
        {"TERM": "xterm"},
        {"TERM": "xterm-256color"},
        {"COLORTERM": "truecolor"},
        {"TERM": "dumb"},
    ):
        yield f"theme of {environ}: {[theme.choose_theme_name(environ, name) for name in (None, 'nord')]}"
    colours = {
        name: f"#{at:02x}4{at}6{at}"
        for at, name in enumerate(
            ("primary", "secondary", "warning", "error", "success", "accent", "foreground", "background", "panel")
        )
    }
    others = [Theme(f"dark {dark}", dark=dark, **colours) for dark in (False, True)]
    for each in (*theme.THEMES, *others):
        variables = theme.compute_default_variables(each)
        yield f"variables of {each.name}: {describe(variables)}"
        for name in theme.INKS:
            yield f"  {name}: {theme.resolve_style({**variables, **each.variables}, name)}"
        used = ("block-cursor-background", "input-selection-background")
        yield f"  {each.dark} {each.ansi} {[each.variables.get(name) for name in used]}"
    yield f"unknown: {theme.resolve_style({}, 'nothing')!s} {theme.resolve_style({}, 'muted')!s}"


def describe_groups() -> Iterator[str]:
    names = [Ref("native", f"mail-worker-{at:02}") for at in range(21)]
    for refs in (
        names[:20],
        names,
        [MAIL, *names[:20]],
        [Ref("native", "a:b:c"), Ref("rq", "a:b:d"), Ref("native", "a:e"), Ref("native", "z")],
    ):
        grouped = [(group.prefix, len(group.refs), group.system) for group in groups.group_queues(refs)]
        prefixes = [sorted(groups.collect_group_prefixes(refs, "", level)) for level in (0, 1, 2)]
        yield f"groups of {len(refs)}: {grouped} {groups.count_group_levels(refs)} {prefixes}"
    first = Queue(
        "a:b",
        "native",
        (Count("ready", State.READY, 3), Count("dead", State.DEAD, 1)),
        5,
        workers=2,
        oldest_ready_ms=9,
        counters={"in": 1},
    )
    second = Queue(
        "a:c",
        "rq",
        (Count("ready", State.READY, 4),),
        7,
        workers=3,
        is_paused=True,
        verdict=Verdict("critical", "fails"),
        findings=(Finding("k", "critical", "a:c", "fails"),),
        counters={"in": 2, "out": 5},
    )
    for members in (
        (),
        (first,),
        (first, second),
        (second, second),
        (first._replace(workers=None),),
        (first._replace(oldest_ready_ms=0),),
    ):
        for sharing in ((), ("native", "rq")):
            group = groups.QueueGroup("a:", (MAIL, JOBS))
            yield f"sum of {len(members)} {sharing}: {describe(groups.sum_group_queues(group, members, sharing))}"
            yield f"  workers {groups.count_group_workers(members, sharing)}"
    rates = (
        Rate(1.0, 2.0, 0.5, (1.0, 2.0, 3.0), recent=RecentActivity(5, 3, 1), window_ms=9),
        Rate(history=(0.0,) * 5),
        Rate(1.0, history=(4.0,)),
    )
    for number in range(4):
        yield f"rates of {number}: {describe(groups.sum_queue_rates(rates[:number]))}"


def describe_copies() -> Iterator[str]:
    """Yield what is copied to the clipboard of ids, URLs and cells."""
    for job_id in (b"", b"a", b"a b", b"\xff", b'a"b', b"\n\r\t\\", bytes((0x1F, 0x20, 0x7E, 0x7F, 0x80))):
        yield f"id {job_id!r}: {copy_formats.format_job_ids([replace(JOB, id=job_id)], None)!r}"  # type: ignore[arg-type]
    for url in (
        "redis://localhost", "redis://u:p@h:6380/0", "rediss://u@h/2", "unix:///tmp/a%20b?db=1", "unix://u@/tmp/s",
        "redis://h:6379/1?password=x&db=2", "redis://:p@h/3?a=1", "redis://h?db=0", "redis://h/4?db=",
        "redis+sentinel://u:p@a,b/mymaster", "rediss+sentinel://a,b/mymaster/2", "redis+cluster://u@a:1,b",
    ):  # fmt: skip
        yield f"url {url}: {copy_formats._build_connection_options(url)} {copy_formats._remove_url_password(url)}"
    for name in ("native", "celery", "dispatcher", "rq"):
        system = SYSTEMS[name]
        source = copy_formats.JobSource(system, "mail", "redis://h")
        for place in system.places:
            job = replace(JOB, place=place.name, id=b"i'1" if place.name == "dead" else b"i1", member=b"m1")
            yield f"{name} {place.name}: {copy_formats.format_redis_cli_lines([job], source).decode()}"
    plain = replace(JOB, due_ms=None, priority=0, ttr_ms=None, max_attempts=None, name="", body=None)
    for job in (plain, replace(JOB, due_ms=0, priority=1, ttr_ms=1, max_attempts=1), replace(plain, id=b"\xff")):
        yield f"python {copy_formats.format_python_program([job], source)!r}"
    for number in (0, 1, 2):
        text = copy_formats.format_jobs_as_json([JOB] * number, source).decode()
        bodies = copy_formats.join_job_bodies([plain, JOB][:number], source)
        yield f"json of {number}: {text[:40]!r} {len(text.splitlines())} {bodies!r}"
        for each in copy_formats.COPY_FORMATS:
            copied = copy_formats.convert_jobs(each, [JOB] * number, source)
            yield f"  {each.key} {each.label} {each.needs_body} {each.needs_client}: {copied.description}"
    cells = (
        "=1",
        "-3.5 s",
        "-x",
        "+5",
        "@a",
        "＝1",
        Piece(" =a ", "muted"),
        (Piece("="), Piece("b")),
        "5",
        "-12:30",
        "+1abcd",
    )
    table = copy_formats.convert_table_rows(
        [Column(f"c{at}", "" if at == 3 else f"t{at}") for at in range(12)], [Row("a", cells), Row("b", cells[:2])]
    )
    yield f"table {table.data!r} {table.description}"


def describe_facts() -> Iterator[str]:
    """Yield the layout of names and values, and facts at each bound of their length and time."""
    for width in (44, 45):
        for cells in (8, 9, 10, 11, 20, 21, 22, 23):
            layout = jobs.choose_property_layout((Fact("n" * cells, "x"), Fact("m", "y")), width)
            yield f"layout of {cells} in {width}: {tuple(layout)}"
    for width in (0, 14, 20, 30):
        layout = jobs.PropertyLayout(10, width)
        for name in ("n" * 9, "n" * 10, "n" * 11):
            for value in ("", "v" * 4, "v" * 10, "v" * 11, "v" * 20, "v" * 21, "words " * 6, "v" * 12 + " w"):
                yield f"line {len(name)} {len(value)} in {width}: {layout.format_line(name, value).plain!r}"
    facts = (Fact("now", NOW_MS, "instant"), Fact("past", NOW_MS - 1, "instant"), Fact("next", NOW_MS + 1, "instant"),
             Fact("bad", "x", "instant"), Fact("parent", "b1", "ref"), Fact("child", "b2", "ref"),
             Fact("trace", "\n".join("abcde"), "text"))  # fmt: skip
    for most in (3, 4, 5, 6):
        for chosen in (-1, 0, 1):
            text = jobs.format_job_facts(facts, NOW_MS, chosen_link=chosen, max_lines=most)
            yield f"facts {most} {chosen}: {text.plain!r} {[str(span.style) for span in text.spans][:12]}"
    for lines in (98, 99, 100, 101):
        whole = jobs.format_job_facts((Fact("trace", "\n".join("x" * lines), "text"),), NOW_MS).plain
        yield f"facts of {lines} lines: {whole.count(chr(10))} {whole[-40:]!r}"
    for text in ('{"a": 1, "b": [true, null, -1.5e3]}', '"x": y', '"' + "a" * 65_534 + '"', '"' + "a" * 65_535 + '"'):
        spans = jobs.highlight_json(text).spans
        yield f"coloured {len(text)}: {[(span.start, span.end, span.style) for span in spans]}"
    for body, size in ((None, 0), (None, 5), (b"", 0), (b"{}", 2)):
        yield f"body {body!r} {size}: {describe(jobs.format_job_body(replace(JOB, body=body, body_bytes=size), 40))}"


def test_formats_at_their_bounds_match_the_stored_text() -> None:
    keys.set_keymap({})
    parts = (
        describe_choices, describe_columns, describe_cells, describe_tables, describe_overview, describe_timelines,
        describe_recent, describe_canaries, describe_themes, describe_groups, describe_copies, describe_facts,
    )  # fmt: skip
    with utc_time_zone():
        assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)
