"""What commands accept, request and print at the bounds of their options: `commands_at_bounds.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/cli/test_commands_at_bounds.py` writes the text; review the difference as code.
"""

# ruff: noqa: B023  # each function runs in the turn of the loop that defines it

from __future__ import annotations

import errno
import io
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_output import Output
from kept_text import assert_lines_match_file, utc_time_zone
from memory_queues import MemoryQueues
from service_stage import MAIL, NEWS, SYSTEMS, Recorder, describe
from text_snapshots import stopped_clock  # noqa: F401

from rqtui import errors, verbs
from rqtui.cli import (
    acl,
    act,
    act_confirmation,
    act_duplicate,
    act_options,
    check,
    demo,
    events,
    incident,
    jobs,
    logs,
    migrate,
    new_system,
    output,
    redis,
    screen,
    session,
    settled_snapshot,
    show,
    signals,
    stats,
    work,
)
from rqtui.cli.act_options import ActRequest, CanaryOptions, Target
from rqtui.cli.session import Session
from rqtui.client.subprocess_worker import JobRun
from rqtui.config.settings import Settings
from rqtui.connection.connect import ServerInfo
from rqtui.engine import history
from rqtui.model import (
    Count,
    EventCoverage,
    Finding,
    Job,
    Outcome,
    Page,
    Queue,
    Rate,
    RecentActivity,
    Ref,
    Snapshot,
    State,
)
from rqtui.operations.journal import Operation, Sighting
from rqtui.operations.migration import Report, Skipped
from rqtui.reports import redis as redis_reports
from rqtui.reports.events import Event, Feed
from rqtui.scripts.script import Reply

KEPT = Path(__file__).with_name("commands_at_bounds.txt")
NOW_MS = 1_800_000_000_000
JOB = Job(b"j1", "mail", "native", "dead", State.DEAD, b"j1", name="send")
SESSION: Any = Session(Settings("redis://here"))


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def build_listing(
    output_: Output,
    places: dict[str, int],
    *,
    shared: tuple[str, ...] = (),
    newest_last: tuple[str, ...] = (),
    **page: Any,
) -> Any:
    """Build an engine whose places hold numbered jobs, and that writes down how they are read."""
    stored = {
        name: [replace(JOB, id=b"%s-%d" % (name.encode(), number), place=name) for number in range(count)]
        for name, count in places.items()
    }

    def scan(name: str, first: int, size: int, title: str) -> Page:
        output_.lines.append(f"{title} {name} {first} {size}")
        found = stored[name][first : first + size]
        following = first + size if first + size < len(stored[name]) else None
        return Page("mail", "native", name, tuple(found), len(stored[name]), offset=first, next=following, **page)

    def scan_backward(_queue: str, name: str, older: int | None, size: int, _body_bytes: int) -> Page:
        older = len(stored[name]) if older is None else older
        first = max(0, older - size)
        output_.lines.append(f"backward {name} {older} {size}")
        found, offset = stored[name][first:older][::-1], len(stored[name]) - older
        following = offset + len(found) if first else None
        return Page("mail", "native", name, tuple(found), len(stored[name]), offset=offset, next=following, **page)

    system = SimpleNamespace(
        is_shared=lambda name: name in shared,
        place=lambda name: SimpleNamespace(is_newest_last=name in newest_last),
        scan_request=lambda _queue, name, first, size, _body_bytes: scan(name, first, size, "scan"),
        backward_scan_request=scan_backward,
    )
    return SimpleNamespace(
        systems={"native": system}, send_request=lambda reply: reply,
        fetch_page=lambda _ref, name, first, size, _body_bytes: scan(name, first, size, "page"),
    )  # fmt: skip


def describe_page(result: Any) -> str:
    page, following = result if isinstance(result, tuple) else (result, "")
    ids = [job.id.decode() for job in page.jobs]
    shown = ids if len(ids) < 9 else [*ids[:2], "…", ids[-1]]
    return f"{len(ids)} {shown} of {page.total} {page.is_exact} at {page.offset}, then {page.next} {following!r}"


def describe_jobs(out: Output) -> Iterator[str]:
    out.describe_progress()

    def last_is_even(job: Job) -> bool:
        return int(job.id.rsplit(b"-")[-1]) % 2 == 0

    for limit in (-1, 0, 1):
        yield from out.run(
            f"limit {limit}", jobs.jobs, SimpleNamespace(create_engine=lambda: 1 / 0), "mail", None, limit
        )
    for cursor in (None, "", "0", "17", "9" * 15, "9" * 16, "x", "-1", "²", "a:7", "b:7", "c:7", ":7", "a:b:1"):
        for places in (["a"], ["a", "b"]):
            yield from out.run(f"cursor {cursor} of {places}", jobs._parse_cursor, cursor, places)
    yield f"next: {[jobs._format_cursor(*each) for each in ((None,), (0,), (7,), (None, 'a'), (0, 'a'))]}"
    limits: tuple[tuple[int, int], ...] = (
        (1, 0),
        (3, 0),
        (3, 2),
        (4, 3),
        (6, 0),
        (7, 0),
        (8, 0),
        (2, 6),
        (2, 7),
        (500, 0),
        (501, 0),
    )
    for newest_last in ((), ("dead",)):
        for limit, offset in limits:
            for accepts in (None, last_is_even, lambda _job: False):
                engine = build_listing(out, {"dead": 7}, newest_last=newest_last)
                read = jobs._read_filtered_page
                yield from out.run(
                    f"{limit} from {offset} {newest_last}",
                    lambda *args: describe_page(read(*args)),
                    engine,
                    MAIL,
                    "dead",
                    limit,
                    offset,
                    accepts,
                )
    for size, limit in ((1001, 1001), (1001, 500), (1001, 1000), (1000, 1000), (999, 1000)):
        for newest_last in ((), ("dead",)):
            engine = build_listing(out, {"dead": size}, newest_last=newest_last)
            yield from out.run(
                f"{limit} of {size} {newest_last}",
                lambda *args: describe_page(jobs._read_filtered_page(*args)),
                engine,
                MAIL,
                "dead",
                limit,
                0,
                None,
            )
    with pytest.MonkeyPatch.context() as patch:
        for most in (9, 10, 11):
            patch.setattr(jobs, "MAX_SCANNED_JOBS", most)
            patch.setattr(jobs, "PAGE_JOBS", 5)
            for shared in ((), ("dead",)):
                for newest_last in ((), ("dead",)):
                    engine = build_listing(out, {"dead": 10}, shared=shared, newest_last=newest_last)
                    yield from out.run(
                        f"at most {most} {shared} {newest_last}",
                        lambda *args: describe_page(jobs._read_filtered_page(*args)),
                        engine,
                        MAIL,
                        "dead",
                        3,
                        0,
                        lambda _job: False,
                    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "PAGE_JOBS", 2)
        for limit in (1, 2, 3, 5, 6):
            for newest_last in ((), ("dead",)):
                engine = build_listing(out, {"dead": 10}, newest_last=newest_last)
                arguments = (engine, MAIL, "dead", limit, 0, last_is_even)
                yield from out.run(
                    f"{limit} even ones {newest_last}",
                    lambda *args: describe_page(jobs._read_filtered_page(*args)),
                    *arguments,
                )
    sizes: list[int] = []

    def read_many(_queue: str, name: str, first: int, size: int, _body_bytes: int) -> Page:
        sizes.append(size)
        return Page("mail", "native", name, (JOB,) * size, 200_000, offset=first, next=first + size)

    engine.systems["native"].scan_request = read_many
    engine.systems["native"].place = lambda _name: SimpleNamespace(is_newest_last=False)
    for limit, accepts in ((1_000_000, None), (50, lambda _job: False)):
        sizes.clear()
        if accepts is not None:
            page = jobs._read_filtered_page(engine, MAIL, "dead", limit, 0, accepts)
            yield f"a filter that nothing matches reads {sum(sizes)} in {len(sizes)} steps, next {page.next}"
    mixed = [replace(JOB, state=state, due_ms=5) for state in (State.SCHEDULED, State.DEAD, State.RESERVED)]
    yield f"titles {[jobs._choose_time_title(mixed[number:]) for number in range(3)]}"
    for page in ({}, {"place_total": 5}, {"place_total": 40}, {"is_exact": False}):
        for limit, offset in ((2, 0), (7, 0), (8, 0), (3, 2), (9, 6)):
            for newest_last in ((), ("dead",)):
                engine = build_listing(out, {"dead": 7}, shared=("dead",), newest_last=newest_last, **page)
                yield from out.run(
                    f"shared {limit} from {offset} {page} {newest_last}",
                    lambda *args: describe_page(jobs._read_filtered_page(*args)),
                    engine,
                    MAIL,
                    "dead",
                    limit,
                    offset,
                    None,
                )
    for at, offset, limit in ((0, 0, 2), (0, 0, 3), (0, 0, 4), (0, 1, 2), (1, 0, 5), (1, 1, 1), (2, 0, 9), (0, 0, 9)):
        for places in ({"a": 3, "b": 2, "c": 0}, {"a": 3, "b": 0, "c": 4}, {"a": 3}):
            if at < len(places):
                engine = build_listing(out, places)
                yield from out.run(
                    f"{limit} of {places} from {at}:{offset}",
                    lambda *args: describe_page(jobs._read_page_of_places(*args)),
                    engine,
                    MAIL,
                    list(places),
                    at,
                    offset,
                    limit,
                    None,
                )
    for coverage in (None, EventCoverage(NOW_MS)):
        engine = build_listing(out, {"a": 1, "b": 1}, coverage=coverage, place_total=9, is_exact=False)
        page, following = jobs._read_page_of_places(engine, MAIL, ["a", "b"], 0, 0, 9, None)
        yield f"of two places: {page.coverage} {page.total} {page.is_exact} {page.place_total} {following}"
    for shared in ((), ("a",)):
        for place_total in (None, 9):
            engine = build_listing(out, {"a": 2}, shared=shared, place_total=place_total)
            yield f"totals {shared} {place_total}: {describe_page(jobs._read_place_totals(engine, MAIL, 'a'))}"
    failing: Any = SimpleNamespace(
        **{
            **vars(engine),
            "fetch_page": lambda *_args: Page("mail", "native", "a", (), 0, error="wrong type"),
            "send_request": lambda _request: Page("mail", "native", "a", (), 0, error="wrong type"),
        }
    )
    yield from out.run("an error", jobs._read_unfiltered_page, failing, MAIL, "a", 0, 1)
    yield from out.run("an error of a scan", jobs._read_scan_page, failing, MAIL, "a", 0, 1)
    for job in (
        replace(JOB, call="c" * 200),
        replace(JOB, call="c" * 201),
        replace(JOB, body=b"b" * 60),
        replace(JOB, body=b"b" * 61),
        replace(JOB, body_bytes=5_000),
    ):
        summary = jobs._summarize_job(job)
        yield f"summary of {len(summary)} letters: {summary[-9:]}"
    for number in (1, 2):
        yield from out.run(
            f"{number} places",
            jobs._write_job_table,
            Page("mail", "native", "dead", (replace(JOB, id=b"x" * 49),), 1),
            NOW_MS,
            frozenset(),
            "5",
            "mail",
            ["a", "b"][:number],
        )
    queue, count = Queue("mail", "native"), Count("dead", State.DEAD, 3)
    for recorded in (
        None,
        SimpleNamespace(taken_ms=NOW_MS, total=None, is_exact=True),
        SimpleNamespace(taken_ms=NOW_MS, total=7, is_exact=False),
    ):
        for found in ([], [JOB], [replace(JOB, attempts=1)], [replace(JOB, max_attempts=2)]):
            yield from out.run(
                f"recorded {recorded is not None} {len(found)}",
                jobs._write_recorded_place,
                queue,
                count,
                recorded,
                found,
            )
        for of_place in (count, Count("dead", State.DEAD, 3, coverage=EventCoverage(None))):
            yield from out.run("document", jobs._build_recorded_place_document, queue, of_place, recorded, None)


def describe_job_lists(out: Output) -> Iterator[str]:
    """Yield what `jobs` prints of a whole queue and of one place, which pages it reads, and what it reports."""
    full, empty = Page("mail", "native", "dead", (JOB,), 1), Page("mail", "native", "dead", (), 0)
    pages: dict[str, Any] = {"ready": full, "scheduled": empty, "dead": full, "done": errors.WrongType("done: a list.")}

    def read(_engine: Any, _ref: Ref, name: str, limit: int, offset: int, accepts: Any) -> Page:
        out.lines.append(f"read {name} {limit} {offset} {accepts is not None}")
        page = pages.get(name, empty)
        if isinstance(page, Exception):
            raise page
        return replace(page, place=name)

    out.patch.setattr(jobs, "_read_filtered_page", read)
    out.patch.setattr(jobs, "_build_scan_request", lambda _engine, _ref, name, first, size: f"{name} {first} {size}")
    for name in ("report_unknown_queue", "report_places_without_events"):
        out.patch.setattr(jobs, name, lambda *_args, name=name: out.lines.append(name))
    wrong = Finding("wrong-type", "critical", "mail", "x", keys=("rqtui:{mail}:done",))
    stories: dict[str, tuple[tuple[Count, ...], tuple[Finding, ...], str]] = {
        "nothing": ((Count("ready", State.READY, 0), Count("dead", State.DEAD, 0)), (), ""),
        "one": ((Count("ready", State.READY, 0), Count("dead", State.DEAD, 1)), (), ""),
        "an estimate": ((Count("scheduled", State.SCHEDULED, 0, is_exact=False),), (), ""),
        "unknown": ((Count("dead", State.DEAD, 0, coverage=EventCoverage(None)),), (), ""),
        "a wrong key": ((Count("ready", State.READY, 1),), (wrong,), ""),
        "only a wrong key": ((), (wrong,), ""),
        "another finding": ((), (replace(wrong, kind="other"),), ""),
        "broken": ((), (), "cannot be counted"),
    }
    for name, (counts, found, error) in stories.items():
        queue = Queue("mail", "native", counts, findings=found, error=error)
        engine = Recorder(
            "engine", out.lines, systems=SYSTEMS, take_snapshot=lambda _focus: Snapshot(NOW_MS, (queue,)),
            resolve_or_discover=lambda _name: MAIL, format_argument=lambda ref: ref.queue,
            fetch_server_time_ms=lambda: out.lines.append("time") or NOW_MS,
        )  # fmt: skip
        out.patch.setattr(Session, "create_engine", lambda _self, engine=engine: engine)
        for expression in (None, "x"):
            for as_json in (False, True):
                asked = Session(Settings(), as_json)
                title = f"jobs, {name}, filter {expression}, JSON {as_json}"
                yield from out.run(title, jobs.jobs, asked, "mail", None, 7, expression=expression)
    for place in ("dead", "reserved"):
        for as_json in (False, True):
            yield from out.run(f"place {place}", jobs.jobs, Session(Settings(), as_json), "mail", place, 7)
    yield from out.run("a cursor without a place", jobs.jobs, SESSION, "mail", None, 7, cursor="5")
    yield from out.run("a cursor and a time", jobs.jobs, SESSION, "mail", "dead", 7, cursor="5", at="1h")
    recorded = SimpleNamespace(taken_ms=NOW_MS, total=3, is_exact=True)
    cases: tuple[tuple[Count, Any], ...] = (
        (Count("ready", State.READY, 0), None), (Count("ready", State.READY, 2), None),
        (Count("ready", State.READY, 0, is_exact=False), None), (Count("ready", State.READY, 0), recorded),
    )  # fmt: skip
    moment = SimpleNamespace(
        snapshot=Snapshot(NOW_MS, (Queue("mail", "native"),)), at_ms=NOW_MS, begin_ms=NOW_MS, span_ms=60_000
    )
    out.patch.setattr(jobs, "_select_recorded_jobs", lambda recorded, *_rest: ([JOB] * (recorded is not None), None))
    for count, page in cases:
        for number, place in ((1, None), (1, "ready"), (2, "ready")):
            if number == 1 or page is not None:
                out.patch.setattr(jobs, "read_recorded_pages", lambda *_args: (moment, [(count, page)] * number))
                for as_json in (False, True)[: 2 if page else 1]:
                    with utc_time_zone():
                        yield from out.run(
                            f"recorded {count.count} {count.is_exact} {page is not None} {number} {place} {as_json}",
                            jobs._write_recorded_jobs,
                            Session(Settings(), as_json),
                            "1h",
                            "mail",
                            place,
                            7,
                            lambda _job: True,
                        )


# ── act ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_act(out: Output) -> Iterator[str]:
    drip = next(verb for verb in verbs.VERBS if verb.script == "requeue")
    canaries = [
        CanaryOptions(),
        *(CanaryOptions(number) for number in (-1, 0, 1)),
        CanaryOptions(None, "5m"),
        CanaryOptions(None, None, "5m"),
        *(
            CanaryOptions(3, wait, run)
            for wait, run in (
                ("999ms", None),
                ("1s", "1s"),
                ("1001ms", None),
                (None, "999ms"),
                (None, "1500ms"),
                ("x", None),
            )
        ),
    ]
    for variant in (None, drip):
        for rate in (None, "5/s", "x"):
            for failures, depth in ((None, None), (0, None), (1, None), (None, 0), (None, 1), (7, 9)):
                yield from out.run(
                    f"{variant is None} {rate} {failures} {depth}",
                    act_options.parse_rate_limit,
                    variant,
                    rate,
                    failures,
                    depth,
                    CanaryOptions(),
                )
        for canary in canaries:
            yield from out.run(
                f"{variant is None} {tuple(canary)}", act_options.parse_rate_limit, variant, None, None, None, canary
            )
    native, rq = SYSTEMS["native"], SYSTEMS["rq"]
    for system in (native, rq):
        for name in ("requeue", "delete", "purge", "release", "reserve", "enqueue", "pause", "promote", "reap"):
            if name not in system.scripts:
                continue
            script = system.script(name)
            target = act_options.find_verb_target(script)
            yield (
                f"== {system.name} {name}: {target} {act_options.takes_place(script)} "
                f"{act_options.changes_one_place(script, system)}"
            )
            yield f"  {[act_options.takes_field(script, field) for field in ('force', 'token', 'id', 'none')]}"
            yield from out.run("canary", act_options.check_canary_verb, system, script)
            for place in ("dead", "ready", "failed", "reserved", "nosuch", "done"):
                yield from out.run(f"place {place}", act_options.find_place, system, script, place)
            for id_count in (0, 1, 2):
                for token in (None, "", "t"):
                    for is_forced in (False, True):
                        yield from out.run(
                            f"guards {id_count} {token!r} {is_forced}",
                            act_options.build_force_and_token,
                            script,
                            id_count,
                            token,
                            is_forced=is_forced,
                        )
            base = ActRequest(Ref(system.name, "mail"))
            for request in (
                base,
                replace(base, ids=(b"a",)),
                replace(base, place="dead"),
                replace(base, expression=""),
                replace(base, everything=True),
                replace(base, place="dead", everything=True),
                replace(base, place="dead", expression="x"),
                replace(base, place="dead", expression="x", everything=True),
                replace(base, ids=(b"a",), place="dead"),
                replace(base, is_dry_run=True, limit=1001),
                replace(base, rate_limit=act_options.parse_rate_limit(None, "5/s", None, None, CanaryOptions())),
            ):
                yield from out.run(
                    f"options {describe(request)}", act_options.check_act_options, request, script, target, system
                )
                yield (
                    f"  {request.has_filter} {request.selects_jobs} {request.is_whole_place} "
                    f"{replace(request, limit=1).is_whole_place}"
                )
    yield f"{[*Target]}"
    yield (
        f"limits "
        f"{[act_options.choose_hand_out_limit(replace(base, limit=limit)) for limit in (None, 0, 1, 999, 1000, 1001)]}"
    )
    for ids in ((), ("a",), ("a", "b")):
        for options in ((), (None, ""), ("x",)):
            yield from out.run(f"one id {ids} {options}", act_options.require_one_id, "edit", ids, options)


def describe_act_steps(out: Output) -> Iterator[str]:
    """Yield how `act` runs a change step by step: what it sends, and when it ends, with and without a signal."""
    script, stop = SYSTEMS["native"].script("requeue"), signals.Stop()
    done = Outcome("requeue", b"j1", "moved", "ready again", 1)
    bar = Recorder("bar", out.lines)

    def collect_outcomes(*args: Any) -> str:
        outcomes, reason = act._collect_outcomes(*args)
        return f"{len(outcomes)} outcomes {reason!r}"

    def apply_in_batches(*args: Any) -> str:
        outcome, reason = act._apply_verb_in_batches(*args)
        return f"{outcome.word} {outcome.moved} {outcome.values} {reason!r}"

    def run_steps(*args: Any) -> str:
        change = act._run_rate_limited_steps(*args)
        return (
            f"{len(change.outcomes)} of {change.total}, {change.stop_reason!r}, interrupted {change.is_interrupted}, "
            f"canary {change.canary and len(change.canary.jobs)}"
        )

    out.patch.setattr(act, "stop_on_signals", lambda _client: nullcontext(stop))
    out.patch.setattr(output, "show_progress", lambda *words: out.lines.append(f"progress {words}") or nullcontext(bar))
    for total in (1, 2, 3):
        for stops_at in (0, 1, 2):
            stop.clear()

            def yield_chunks(stops_at: int = stops_at, total: int = total) -> Iterator[list[Outcome]]:
                for number in range(1, total + 1):
                    if number == stops_at:
                        stop.set()
                    yield [done]

            yield from out.run(
                f"{total} chunks, signal at {stops_at}",
                collect_outcomes,
                yield_chunks(),
                None,
                bar,
                total,
            )
    stop.clear()
    jobs_ = [replace(JOB, id=b"j%d" % number, error="no", history=()) for number in range(6)]
    pages = [[jobs_[0], jobs_[1]], [jobs_[1], jobs_[2]], [], [jobs_[0], jobs_[3], jobs_[3]]]

    def walk_pages(_ref: Ref, _place: str, size: int, body_bytes: int) -> Iterator[Page]:
        for number, page in enumerate(pages):
            out.lines.append(f"page {number} of {size} with {body_bytes}")
            yield Page("mail", "native", "dead", tuple(page), 6)

    engine: Any = Recorder("engine", out.lines, systems=SYSTEMS, walk_pages=walk_pages, client=None)
    request = ActRequest(MAIL, place="dead", expression="")
    for expression, limit in (("", None), ("", 1), ("", 2), ("", 3), ("", 4), ("body~a@b", None), ("error=other", 1)):
        asked = replace(request, expression=expression, limit=limit)
        for load in (act._load_matching_jobs, lambda *args: sum(act._iterate_matching_jobs(*args), [])):
            yield from out.run(
                f"jobs with {expression!r}, at most {limit}",
                lambda load, asked: [(job.id, job.body, job.error) for job in load(engine, asked)],
                load,
                asked,
            )
    for most in (2, 3):
        out.patch.setattr(act, "RECENT_IDS", most)
        found = [[job.id for job in chunk] for chunk in act._iterate_matching_jobs(engine, request)]
        yield f"with {most} ids compared: {found}"
    purge = SYSTEMS["native"].script("purge")
    stories: dict[str, list[tuple[str, int, Any]]] = {
        "one call": [("moved", 5, 0)], "no more known": [("moved", 5, None)], "nothing": [("empty", 0, 0)],
        "three calls": [("moved", 5, 7), ("moved", 4, 3), ("moved", 3, 0)],
        "new jobs arrive": [("moved", 5, 2), ("moved", 2, 9), ("moved", 1, 1)],
        "another client purges": [("moved", 5, 7), ("empty", 0, 0)], "refused": [("moved", 5, 7), ("gone", 0, 0)],
    }  # fmt: skip
    for name, replies in stories.items():
        for limit in (None, 5, 6):
            for is_stopped in (False, True):
                left = [*replies]

                def apply_verb(_verb: str, _ref: Ref, _jobs: Any, form: Any, left: Any = left) -> list[Outcome]:
                    out.lines.append(f"send {form}")
                    word, most, remaining = left.pop(0)
                    moved = min(most, form["limit"])
                    values = {"moved": moved} if remaining is None else {"moved": moved, "left": remaining}
                    return [Outcome("purge", b"", word, word, moved, values)]

                if is_stopped:
                    stop.set()
                engine.apply_verb = apply_verb
                yield from out.run(
                    f"purge, {name}, at most {limit}, signal {is_stopped}",
                    apply_in_batches,
                    engine,
                    replace(request, limit=limit),
                    purge,
                    {"place": "dead"},
                )
                stop.clear()
    engine.yield_verb_steps = lambda *args: out.lines.append(f"steps {args[3]}") or iter([[done], [done, done]])
    for limit in (None, 2):
        for is_stopped in (False, True):
            if is_stopped:
                stop.set()
            asked = replace(request, limit=limit)
            yield from out.run(
                f"purge by job {limit}", act._purge_shared_place, engine, asked, purge, {"place": "dead"}
            )
            stop.clear()
    from rqtui.operations import rate_limit, undo
    from rqtui.operations.rate_limit import Step

    first = SimpleNamespace(ref=MAIL, job=JOB, end=None, describe_end=lambda: "done after 1 s")
    second = SimpleNamespace(**{**vars(first), "end": "done", "job": jobs_[0]})

    def canary(*records: Any, passed: bool = False) -> Any:
        return SimpleNamespace(
            jobs=records, has_passed=passed, describe_pass=lambda left, rate: f"passed, {left} at {rate}"
        )

    for existing, steps in (
        (0, [Step((), 0, 0, 0, 0, "done")]),
        (1, [Step(((MAIL, done),), 1, 2, 0, 0), Step(((MAIL, done),), 2, 2, 0, 0, "stopped at 5 failures")]),
        (1, [Step((), 1, number, 0, 0, canary=canary(first, second, passed=True)) for number in (1, 2)]),
        (1, [Step((), 1, 3, 0, 0, canary=canary(*each)) for each in ((second,), (first, second), (second, second))]),
        (2, [Step(((MAIL, done),) * 2, 2, 3, 0, 0), KeyboardInterrupt()]),
        (2, [KeyboardInterrupt()]),
    ):

        def yield_steps(*_args: Any, place: str, steps: Any = steps, **_options: Any) -> Iterator[Any]:
            out.lines.append(f"place {place!r}")
            for step in steps:
                if isinstance(step, BaseException):
                    raise step
                yield step

        out.patch.setattr(rate_limit, "yield_rate_limited_steps", yield_steps)
        out.patch.setattr(act, "time", SimpleNamespace(sleep=lambda seconds: out.lines.append(f"sleep {seconds}")))
        for asked in (request, replace(request, everything=True, expression=None)):
            yield from out.run(
                f"{len(steps)} steps, {existing} jobs",
                run_steps,
                engine,
                asked,
                script,
                {},
                SimpleNamespace(jobs_per_s=5),
                [JOB] * existing,
                4 if asked.is_whole_place else existing,
            )
    yield from describe_act_reads(out, request)
    for name in ("requeue", "purge"):
        for number in (undo.MAX_SAVED_JOBS, undo.MAX_SAVED_JOBS + 1):
            yield from out.run(
                f"undo of {name} of {number}",
                act_confirmation._warn_if_too_large_to_undo,
                engine,
                request,
                SYSTEMS["native"].script(name),
                number,
            )


def describe_act_reads(out: Output, request: ActRequest) -> Iterator[str]:
    """Yield what `act` reads of a place and of named jobs before it changes them."""
    for number in (0, 1, 3):
        queues = MemoryQueues({MAIL: {"dead": [replace(JOB, id=b"j%d" % at) for at in range(number)]}})
        yield from out.run(f"{number} jobs of a place", act._count_jobs_of_place, queues.engine, request)
        yield f"  {queues.reads}"
        named = replace(request, ids=(b"j0", b"j1", b"j0"))
        yield from out.run(f"named jobs of {number}", act._load_named_jobs, queues.engine, named)
        yield f"  {queues.reads}"
    odd: Any = SimpleNamespace(fetch_page=lambda *_args: Page("mail", "native", "dead", (), 0, error="holds a string"))
    yield from out.run("a place of another type", act._count_jobs_of_place, odd, request)
    sizes = list[int]()

    def send_requests(requests: Sequence[Any]) -> list[None]:
        sizes.append(len(requests))
        return [None] * len(requests)

    many: Any = SimpleNamespace(systems=SYSTEMS, send_requests=send_requests)
    for number in (0, 1, act.LOOKUP_BATCH, act.LOOKUP_BATCH + 1, 2 * act.LOOKUP_BATCH + 1):
        sizes.clear()
        loaded = act._load_named_jobs(many, replace(request, ids=tuple(b"%d" % at for at in range(number))))
        yield f"{number} ids: {len(loaded)} jobs in calls of {sizes}"
    for name, ids, is_confirmed in (
        ("requeue", (), False), ("requeue", (b"a",), False), ("requeue", (b"a", b"b"), False), ("kill", (b"a",), False),
        ("kill", (b"a",), True), ("kill", (b"a", b"b"), True), ("pause", (b"a",), False),
    ):  # fmt: skip
        script, asked = SYSTEMS["native"].script(name), replace(request, ids=ids, is_confirmed=is_confirmed)
        yield f"read ahead for {name} of {len(ids)}, confirmed {is_confirmed}: " + str(
            act._choose_ids_to_read_ahead(asked, script)
        )
    yield from out.run("no setting", act._send_queue_settings, many, request, SYSTEMS["native"].script("configure"), {})


# ── what commands share ──────────────────────────────────────────────────────────────────────────────────────────────


def describe_sessions(out: Output) -> Iterator[str]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.RqtuiError)]
    for kind in kinds:
        try:
            yield f"{kind.__name__}: {session.choose_exit_code(kind('x'))}"
        except TypeError:
            yield f"{kind.__name__} needs more"
    for no_wait in (True, False):
        for failures in (
            [],
            [errors.ServerError("away")],
            [errors.ServerError("away")] * 6,
            [errors.WrongType("x")],
            [errors.UsageError("x")],
        ):
            left: list[Exception] = [*failures]

            def begin(left: list[Exception] = left) -> str:
                if left:
                    raise left.pop(0)
                return "done"

            clock = SimpleNamespace(sleep=lambda seconds: out.lines.append(f"sleep {seconds:.2f}"))
            out.patch.setattr(session, "time", clock)
            yield from out.run(
                f"retry {len(failures)} {no_wait}", SESSION.retry_until_redis_answers, begin, no_wait=no_wait
            )
    engine: Any = SimpleNamespace(refs=[MAIL, NEWS], resolve_or_discover=lambda name: Ref("native", name))
    for names in ((), ("news",), ("news", "mail", "news")):
        yield f"queues {names}: {describe(SESSION.find_queues(engine, names))}"
    for settings in (
        Settings(),
        Settings(read_only=True, profile="eu"),
        Settings(read_only=True),
        Settings(read_only=True, is_asked_read_only=True, profile="eu"),
    ):
        yield from out.run("read-only", Session(settings).refuse_if_read_only, "put")
    yield session.Session(Settings("redis://:pw@here:6380")).format_retry_message("away.", 2.5)

    def work(error: BaseException | None, code: int | None = None) -> Callable[[], int | None]:
        def run() -> int | None:
            if error is not None:
                raise error
            return code

        return run

    out.patch.setattr(session, "discard_stdout", lambda: out.lines.append("discarded"))
    out.patch.setattr(
        session, "interrupt_on_signals", lambda runs_on: out.lines.append(f"runs on {runs_on}") or nullcontext([])
    )
    named = OSError(errno.ENOSPC, "No space left")
    named.filename = "file"
    raised = (
        None,
        BrokenPipeError(),
        KeyboardInterrupt(),
        errors.UsageError("bad"),
        errors.Refused("no"),
        OSError(errno.ENOSPC, "No space left"),
        named,
        ValueError("x"),
    )
    for error in raised:
        for failure in (None, 3):
            for given in (None, {"is_debug": True}):
                if given is None or error is None or isinstance(error, OSError | ValueError | errors.RqtuiError):
                    yield from out.run(
                        f"{error!r} {failure} {given}",
                        session.run_with_error_handling,
                        work(error),
                        failure,
                        given,
                        "work",
                    )
    for code in (None, 0, 5):
        yield from out.run(f"code {code}", session.run_with_error_handling, work(None, code))
    for error in (BrokenPipeError(), OSError(errno.ENOSPC, "No space left")):

        def flush(error: OSError = error) -> None:
            raise error

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session, "sys", SimpleNamespace(argv=[], stdout=SimpleNamespace(flush=flush)))
            yield from out.run(f"{error!r} at the end", session.run_with_error_handling, work(None, 5))
    for received in (
        (),
        (signals.signal.SIGINT,),
        (signals.signal.SIGTERM,),
        (signals.signal.SIGHUP,),
        (signals.signal.SIGTERM, signals.signal.SIGINT),
    ):
        yield (
            f"signals {received}: "
            f"{[signals.choose_signal_exit_code(received, command) for command in ('', 'jobs', *signals.LONG_RUNNING)]}"
        )


def describe_output(out: Output) -> Iterator[str]:
    flushes: list[str] = []

    class Terminal(io.StringIO):
        """A text stream that is a terminal."""

        def isatty(self) -> bool:
            return True

    class Buffer:
        """The bytes of a stream, written down with each flush."""

        def __init__(self, name: str) -> None:
            self.name, self.buffer = name, self

        def isatty(self) -> bool:
            return False

        def write(self, text: object) -> None:
            out.lines.append(f"{self.name} {text!r}")

        def flush(self) -> None:
            out.lines.append(f"{self.name} flushed")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, Buffer(name))
        for write in (
            lambda: output.print_note("note"), lambda: output.write_json([1], is_stream=True),
            lambda: output.write_json([1]), lambda: output.write_lines(["a"]),
            lambda: output.write_indented(["a"], " "),
            lambda: output.print_line_of_other_program(b"a", sys.stderr), lambda: output.write_bytes(b"raw"),
            lambda: output.write_table(("a",), [("b",)]), lambda: output.print_traceback(ValueError("x")),
        ):  # fmt: skip
            out.lines.clear()
            write()
            flushes.append(f"{out.lines}")
    yield from flushes
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("COLUMNS", "50"), ("TERM", "xterm"), ("NO_COLOR", "1")):
            patch.setenv(name, value)
        patch.setattr(sys, "stdout", stream := Terminal())
        output.clear_terminal()
        output.write_table(("name", "number"), [("x" * 60, "1"), ("[red]y", "1000")], right=("number",))
        table = stream.getvalue()
    yield from table.split("\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "os", Recorder("os", out.lines, devnull="null device", O_WRONLY="for writing"))
        yield from out.run("discarding", session.discard_stdout)
    for is_terminal in (False, True):
        for document in ({"a": [1, 2], "b": "\x7f"}, {"a": []}):
            for is_stream in (False, True):
                with pytest.MonkeyPatch.context() as patch:
                    if is_terminal:
                        patch.setattr(sys, "stdout", stream := Terminal())
                    lines = [
                        *out.run(f"json {is_terminal} {is_stream}", output.write_json, document, is_stream=is_stream)
                    ]
                yield from lines
                if is_terminal:
                    yield repr(stream.getvalue())
        for rows in ([], [1], [1, {"a": "\x7f"}], [[1, 2], 3]):
            with pytest.MonkeyPatch.context() as patch:
                if is_terminal:
                    patch.setattr(sys, "stdout", stream := Terminal())
                lines = [
                    *out.run(
                        f"long json {is_terminal} {rows}",
                        output.write_long_json,
                        {"first": 1, "rows": [], "last": [2]},
                        "rows",
                        rows,
                    )
                ]
            yield from lines
            if is_terminal:
                yield repr(stream.getvalue())
    yield from out.run(
        "table",
        output.write_table,
        ("a", "number", "é"),
        [("x" * 9, "1", ""), ("y", "1000000", "日本")],
        right=("number",),
    )
    yield from out.run("indented", output.write_indented, ["a\nb", "c\n", "\nd"], "    ")
    for line in (b"\x1b[31mred\x1b[0m\r", b"a\tb\x07", b"\xff"):
        yield from out.run(f"line {line!r}", output.print_line_of_other_program, line, sys.stdout)
    yield from out.run("no terminal", output.clear_terminal)
    yield from out.run("no width", output.measure_terminal_width)
    for elapsed_s in (0.9, 1.0, 1.1):
        for is_terminal in (False, True):
            with pytest.MonkeyPatch.context() as patch:
                if is_terminal:
                    patch.setattr(sys, "stderr", Terminal())
                times = iter((5.0, 5.0 + elapsed_s, 5.0 + elapsed_s, 5.0 + elapsed_s))
                patch.setattr(output, "time", SimpleNamespace(monotonic=lambda times=times: next(times)))
                patch.setattr(
                    output.Progress,
                    "_open_bar",
                    lambda self: self.__dict__.update(_bar=Recorder("bar", out.lines), _task=7),
                )

                def count_steps() -> int:
                    with output.show_progress("looking", 9) as bar:
                        bar.add_steps(2)
                        bar.add_steps(3)
                    return bar.done

                lines = [*out.run(f"progress after {elapsed_s} {is_terminal}", count_steps)]
            yield from lines


# ── events, stats, migrate, incident ─────────────────────────────────────────────────────────────────────────────────


def describe_events(out: Output) -> Iterator[str]:
    made = [
        Event(MAIL, NOW_MS + number, 0, "reserve", b"j%d" % number, "w1", "more" * (number == 1)) for number in range(5)
    ]
    feeds = {MAIL: Feed(MAIL, (made[0], made[3]), until_ms=0), NEWS: Feed(NEWS, (made[1], made[2], made[4]))}
    reads: list[Any] = []
    out.patch.setattr(
        events, "open_engine", lambda _session, queues, runs_on: (SimpleNamespace(systems=SYSTEMS), [MAIL, NEWS])
    )
    out.patch.setattr(
        events,
        "_read_new_events",
        lambda _engine, refs, last, limit, _printed, newest: (
            reads.append((limit, newest)) or out.lines.append(f"read {limit} {newest}") or feeds
        ),
    )
    out.patch.setattr(events, "_turn_on_event_recording", lambda *_args, aloud: out.lines.append(f"on {aloud}"))
    out.patch.setattr(events, "_follow_events", lambda *_args, is_all: out.lines.append(f"follow {is_all}") or 7)
    for limit in (-1, 0, 1, 2, 100, 1000, 1001):
        yield from out.run(f"limit {limit}", events.events, SESSION, None, limit=limit)
    for options in (
        {"follow": True},
        {"is_record": True},
        {"follow": True, "queues": ["mail"]},
        {"expression": "j1"},
        {"expression": "!j1", "limit": 1},
    ):
        for settings in (Settings(), Settings(read_only=True)):
            for as_json in (False, True):
                yield from out.run(
                    f"{options} {settings.read_only} {as_json}", events.events, Session(settings, as_json), **options
                )
    out.patch.setattr("rqtui.reports.events.has_events", lambda system: system.name != "native")
    for queues in (None, ["mail"]):
        yield from out.run(f"silent {queues}", events.events, SESSION, queues)
    for event in (
        replace(made[1], at_ms=NOW_MS + 7),
        replace(made[0], verb="reject"),
        replace(made[0], verb="v" * 13, ref=Ref("native", "q" * 17), worker=""),
    ):
        yield from out.run("line", events._write_events, SESSION, [event])
    for event, put in (
        (made[0], {}),
        (replace(made[0], verb="enqueue"), {}),
        (replace(made[0], verb="enqueue"), {MAIL: {b"j0"}}),
        (made[0], {MAIL: {b"j0"}}),
    ):
        yield f"printed {events._was_enqueue_printed(event, put)}"


def describe_following(out: Output) -> Iterator[str]:
    """Yield what `--follow` reads and prints in rounds with new queues, failures and events."""
    from rqtui.cli.signals import Stop

    late = Ref("native", "late")
    enqueued = Event(late, NOW_MS, 0, "enqueue", b"new")
    replies: list[Any] = [
        {MAIL: Feed(MAIL, (), is_known=True)},
        errors.ServerError("away"),
        errors.ServerError("away"),
        {MAIL: Feed(MAIL, (Event(MAIL, NOW_MS + 5, 1, "ack", b"a"),))},
        errors.ServerError("away"),
        {MAIL: Feed(MAIL), late: Feed(late, (), is_known=False)},
        {MAIL: Feed(MAIL), late: Feed(late, (enqueued, Event(late, NOW_MS + 1, 0, "reserve", b"new")))},
    ]
    for is_all in (False, True):
        for read_only in (False, True):
            left, clock, found = [*replies], [100.0], [late]

            def read(
                _engine: Any,
                refs: list[Ref],
                last: dict[Ref, str],
                limit: int,
                _printed: Any,
                newest: bool,
                left: list[Any] = left,
            ) -> Any:
                out.lines.append(f"read {describe(refs)} {describe(last)} {limit} {newest}")
                reply = left.pop(0)
                if isinstance(reply, Exception):
                    raise reply
                return {ref: reply.get(ref, Feed(ref, is_known=False)) for ref in refs}

            class Stopping(Stop):
                """An event that is set after all replies."""

                def wait(
                    self, timeout: float | None = None, left: list[Any] = left, clock: list[float] = clock
                ) -> bool:
                    out.lines.append(f"wait {timeout:.2f}")
                    clock[0] += 1.0
                    return not left

            out.patch.undo()
            out.patch.setattr(events, "stop_on_signals", lambda _client: nullcontext(Stopping()))
            out.patch.setattr(events, "time", SimpleNamespace(monotonic=lambda clock=clock: clock[0]))
            out.patch.setattr(events, "_read_new_events", read)
            out.patch.setattr(events, "_turn_on_event_recording", lambda *_args, aloud: out.lines.append(f"on {aloud}"))
            out.patch.setattr(events, "compute_reconnect_delay_s", lambda failures: 10.0 + failures)
            out.patch.setattr(
                events,
                "_find_new_queues",
                lambda _engine, _known, found=found: out.lines.append("search") or ({found.pop()} if found else set()),
            )
            out.patch.setattr(events, "_build_enqueue_events", lambda _engine, _ref: [enqueued])
            engine: Any = SimpleNamespace(client=None)
            follow = events._follow_events
            feeds = {MAIL: Feed(MAIL, is_known=False), **({} if is_all else {late: Feed(late, is_known=False)})}
            yield from out.run(
                f"follow, all {is_all}, read-only {read_only}",
                follow,
                Session(Settings(read_only=read_only)),
                engine,
                feeds,
                lambda _event: True,
                {},
                is_all=is_all,
            )
    out.patch.undo()
    engine = SimpleNamespace(
        systems={"native": SimpleNamespace(places=[SimpleNamespace(name="a"), SimpleNamespace(name="b")])},
        fetch_page=lambda ref, name, *rest: (
            out.lines.append(f"page {name} {rest}")
            or Page("mail", "native", name, (replace(JOB, enqueued_ms=5), JOB), 2)
        ),
    )
    yield from out.run("enqueued", events._build_enqueue_events, engine, MAIL)
    for is_recording in (False, True):
        for is_read_only in (False, True):
            for feeds_ in ([], [Feed(MAIL, until_ms=-1 if is_recording else 0)]):
                yield from out.run(
                    f"recording {is_recording} {len(feeds_)}",
                    events._report_missing_recording,
                    feeds_,
                    is_read_only=is_read_only,
                )


def describe_stats(out: Output) -> Iterator[str]:
    for minutes in (-1, 0, 1, 1440, 1441):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                stats, "open_engine", lambda _session, _queues: (_ for _ in ()).throw(errors.Refused("opened"))
            )
            yield from out.run(f"{minutes} minutes", stats.stats, SESSION, None, minutes)
            for span in ("59m", "3599999ms", "1h", "366d", "367d", "x"):
                if minutes == 1:
                    yield from out.run(f"span {span}", stats.stats, SESSION, None, stats.DEFAULT_MINUTES, span)
                    yield from out.run(f"span {span} and minutes", stats.stats, SESSION, None, 59, span)
    for refs in ([MAIL], [MAIL, NEWS]):
        numbers = {name: 40 for group in history.FLOWS.values() for name in group}
        counted = history.History(MAIL, numbers, {NOW_MS // 60_000 * 60_000: numbers}, NOW_MS - 600_000)
        for reply in (errors.Refused("denied"), counted, history.History(MAIL), None):
            for as_json in (False, True):
                engine = SimpleNamespace(
                    systems={"native": SimpleNamespace(missing_history="keeps no counts")},
                    take_snapshot=lambda focus: Snapshot(
                        NOW_MS, tuple(Queue(ref.queue, "native") for ref in focus.queues)
                    ),
                    send_requests_isolated=lambda requests: [request() for request in requests],
                )
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(stats, "open_engine", lambda *_args: (engine, refs))
                    patch.setattr(stats, "open_recording", lambda _session: None)
                    patch.setattr(history, "has_history", lambda _system: reply is not None)
                    patch.setattr(history, "has_daily_counters", lambda _system: False)
                    patch.setattr(
                        history, "build_history_request", lambda *args: out.lines.append(f"minutes {args[1:]}") or reply
                    )
                    yield from out.run(
                        f"stats of {len(refs)} {type(reply).__name__} {as_json}",
                        stats.stats,
                        Session(Settings(), as_json),
                        None,
                        5,
                    )
    minute = history.MINUTE_MS
    begin = NOW_MS // minute * minute
    counters = {name: 40 for group in history.FLOWS.values() for name in group}
    for shown in (None, counters, {next(iter(counters)): 40}):
        for number in (0, 1, 2, 3):
            for minutes in (1, 2, 60):
                kept = {begin - minute * back: {name: 40 - 5 * back for name in shown or ()} for back in range(number)}
                past = None if shown is None else history.History(MAIL, shown, kept, begin - 9 * minute)
                queue = Queue("mail", "native", (Count("ready", State.READY, 3), Count("done", State.DONE, 9)))
                yield from out.run(
                    f"{shown and len(shown)} counters, {number} of {minutes} minutes",
                    stats._build_queue_statistics,
                    MAIL,
                    queue,
                    past,
                    minutes,
                    NOW_MS,
                )
    steps = [
        {
            "at_ms": NOW_MS - 3_600_000 * (3 - number),
            "span_ms": 3_600_000,
            "watched_ms": watched,
            "in": 5,
            "out": 7 * number,
            "failed": 1,
            "died": 0,
        }
        for number, watched in enumerate((3_600_000, 0, 60_000))
    ]
    span = {"begin_at_ms": NOW_MS - 3 * 3_600_000, "end_at_ms": NOW_MS, "step_ms": 3_600_000}
    for number in (0, 1, 11, 12, 13, 14):
        marks = [
            {"at_ms": NOW_MS - 1000 * (20 - each), "kind": "finding" if each % 2 else "change", "text": f"mark {each}"}
            for each in range(number)
        ]
        document = {
            "steps": steps if number else [],
            "layout": "native",
            "marks": marks,
            "taken_at_ms": NOW_MS,
            "span": span,
            "recorded": {"watched_ms": 3_660_000, "estimated": ["in"] if number > 11 else []},
        }
        yield from out.run(f"{number} marks", stats._write_span, [document], ["mail"], 3 * 3_600_000)
    day = {"processed": 50, "failed": 2}
    row = {"out": 5}
    recorded = {"begin_at_ms": NOW_MS - 60_000, "end_at_ms": NOW_MS, "watched_ms": 59_000, "estimated": []}
    for days, rows, seen in (
        ([day], None, None),
        ([day, {**day, "processed": 60}], None, None),
        (None, [row] * 41, None),
        (None, [row], recorded),
        (None, [row], {**recorded, "estimated": ["in", "out"]}),
        (None, None, None),
    ):
        document = {"days": days, "minutes": rows, "recorded": seen}
        yield f"trend: {stats._format_trend(document, 'keeps no counts')!r}"
        for rates in (None, {"in_s": 0.0, "out_s": 1.5, "failed_s": None}):
            table = {**document, "rates": rates, "layout": "native", "waiting": 3}
            yield from out.run("table", stats._write_statistics_table, [("mail", "none")], [table], 60)


def describe_migrate(out: Output) -> Iterator[str]:
    out.describe_progress()
    skipped = Skipped(b"s", "asks for more")
    for report in (
        Report(),
        Report(5, 1, 2, {"ready": 3, "dead": 1}, [skipped], [skipped], {"ready": 0, "dead": 2}),
        Report(1, skipped=[skipped] * 50),
        Report(1, losses=[skipped] * 51),
    ):
        for dry_run in (False, True):
            for code in (0, 3):
                for as_json in (False, True):
                    migration: Any = SimpleNamespace(report=report, source=Ref("rq", "a b"), target=MAIL)
                    lines = [
                        *out.run(
                            f"{report.moved} {dry_run} {code} {as_json}",
                            migrate._write_migration_report,
                            Session(Settings(), as_json),
                            migration,
                            code,
                            dry_run=dry_run,
                        )
                    ]
                    yield from (line[:300] for line in [*lines[:8], *lines[-3:]])
    yield f"ids {[migrate._shorten_id('x' * length) for length in (39, 40, 41)]}"
    for source, systems in (
        ("rq:a", ()),
        ("rq:a", ("celery",)),
        ("a", ("rq",)),
        ("rq:a", ("rq:x=1", "native")),
        ("a", ()),
    ):
        yield (
            f"systems for {source} {systems}: "
            f"{migrate._add_systems(Session(Settings(systems=systems)), source).settings.systems}"
        )
    for error, closing, stops in (
        (None, None, 0),
        (errors.ServerError("away."), None, 0),
        (errors.UsageError("bad."), None, 0),
        (None, errors.Refused("no."), 0),
        (errors.ServerError("away."), errors.Refused("no."), 0),
        (None, None, 1),
        (None, None, 2),
        (None, errors.Refused("no."), 2),
    ):
        for is_complete in (False, True):
            stop = signals.Stop()
            stop.code = 130 if stops == 2 else 0

            def move(error: Any = error, stop: Any = stop, stops: int = stops) -> Iterator[int]:
                for number in (1, 2, 3):
                    out.lines.append(f"move {number}")
                    yield number
                    if stops:
                        stop.set()
                if error is not None:
                    raise error

            def close(closing: Any = closing) -> None:
                out.lines.append("close")
                if closing is not None:
                    raise closing

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(migrate, "stop_on_signals", lambda stop=stop: nullcontext(stop))
                moving: Any = SimpleNamespace(
                    move_jobs=move, close=close, report=SimpleNamespace(is_complete=is_complete)
                )
                yield from out.run(
                    f"migrate {error!r} {closing!r} {stops} {is_complete}", migrate._run_migration, moving, 9
                )
    for source, target in (
        ("rq:a", "mail"),
        ("rq:a", "native:"),
        ("rq:a", "rq:b"),
        ("nosuch:a", "native:b"),
        ("a", ":b"),
    ):
        yield from out.run(f"{source} to {target}", migrate.migrate, SESSION, source, target, dry_run=True)
    yield from out.run("read-only", migrate.migrate, Session(Settings(read_only=True)), "rq:a", "native:b")


def describe_incident(out: Output) -> Iterator[str]:
    findings = (Finding("a", "info", "mail", "x"), Finding("b", "info", "mail", "y"), Finding("a", "info", "mail", "z"))
    for kind in (None, "a", "b", "c"):
        for queue in (Queue("mail", "native", findings=findings), Queue("mail", "native")):
            put = incident._put_kind_first
            yield from out.run(f"first {kind}", lambda *args: [each.text for each in put(*args).findings], queue, kind)
    group = SimpleNamespace(dead=3, example=SimpleNamespace(system="native", place="dead"))
    empty = SimpleNamespace(dead=0, example=SimpleNamespace(system="", place="dead"))
    comparison = SimpleNamespace(a=SimpleNamespace(selection="dead"), b=SimpleNamespace(selection="done"))
    for groups in (None, [empty], [empty, group], [group], [SimpleNamespace(dead=0, example=group.example), group]):
        for compared in (None, comparison):
            report: Any = SimpleNamespace(
                queue=Queue("mail", "native", findings=findings),
                comparison=compared,
                errors=None if groups is None else SimpleNamespace(groups=groups),
            )
            yield from out.run(
                f"commands {groups and len(groups)} {compared is not None}", incident.list_commands, report, "mail"
            )


def describe_check(out: Output) -> Iterator[str]:
    """Yield what `check` prints of misplaced jobs, found in several calls, and what it repairs."""
    out.describe_progress()
    twice, nowhere = (b"j1", "two_places", "ready dead"), (b"j2", "no_place", "")
    stories: dict[str, list[Any]] = {
        "nothing": [Reply("end", "", {"checked": 0})],
        "found": [Reply("more", "", {"checked": 5, "walk": "ready", "cursor": "7"}, [twice, nowhere]),
                  Reply("more", "", {"checked": 3, "walk": "jobs", "cursor": "0"}, [twice]),
                  Reply("end", "", {"checked": 2})],
    }  # fmt: skip
    for name, replies in stories.items():
        for repaired in (None, (), (b"j1",)):
            for as_json in (False, True):
                left = [*replies, *([Reply("end", "", {"checked": 8})] if repaired else replies)]

                def run_call(_client: Any, call: Any, left: Any = left) -> Reply:
                    out.lines.append(f"call {describe(call.keys[1:2])} {describe(call.argv)}")
                    return left.pop(0)  # type: ignore[no-any-return]

                def yield_steps(_verb: str, _ref: Ref, jobs: Any, repaired: Any = repaired) -> Iterator[Any]:
                    yield [Outcome("repair", job.id, "moved", "", int(job.id in repaired)) for job in jobs]

                queue = Queue("mail", "native", (Count("ready", State.READY, 6), Count("dead", State.DEAD, 2)))
                engine = SimpleNamespace(
                    systems=SYSTEMS, client=None, resolve_or_discover=lambda _name: MAIL,
                    take_snapshot=lambda _focus: Snapshot(NOW_MS, (queue,)), format_argument=lambda ref: ref.queue,
                    yield_verb_steps=yield_steps, raise_if_refused=lambda *_args: None, change_recorder=None,
                )  # fmt: skip
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("rqtui.scripts.script.run_call", run_call)
                    patch.setattr(check, "report_unknown_queue", lambda *_args: out.lines.append("is it known?"))
                    patch.setattr(Session, "create_engine", lambda _self, engine=engine: engine)
                    yield from out.run(
                        f"check, {name}, repairs {repaired}, JSON {as_json}",
                        check.check,
                        Session(Settings(), as_json),
                        "mail",
                        repair=repaired is not None,
                    )
    queue = queue._replace(error="wrong type")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "create_engine", lambda _self: engine)
        yield from out.run("check of a broken queue", check.check, Session(Settings()), "mail")


def describe_past_incident(out: Output) -> Iterator[str]:
    """Yield which changes and findings the page of a past moment has, with and without an open recording."""
    queue = Queue("mail", "native", findings=(Finding("failing", "critical", "mail", "51 % fail"),))
    cause = SimpleNamespace(cause="Timeout", jobs=3)
    moment = SimpleNamespace(
        snapshot=Snapshot(NOW_MS, (queue,)), at_ms=NOW_MS, begin_ms=NOW_MS - 60_000, span_ms=60_000, causes=(cause,)
    )
    times = [NOW_MS + by_ms for by_ms in (-86_400_001, -86_400_000, -1, 0, 1)]
    operations = [Operation(at_ms, "me", "requeue", "mail", "native") for at_ms in times]
    sightings = [Sighting(at_ms, "mail", "native", "failing", "critical", "fails") for at_ms in times]

    def add_past(report: Any, _recording: Any, earlier: Any, seen: Any) -> Any:
        out.lines.append(
            f"before: {[each.at_ms - NOW_MS for each in earlier]} {[each.at_ms - NOW_MS for each in seen]}"
        )
        return report

    out.patch.setattr(incident, "read_recorded_moment", lambda _session, _at, _queues: moment)
    out.patch.setattr(incident, "load_journal", lambda _url: (operations, sightings, ["the journal is damaged."]))
    out.patch.setattr(incident, "_add_recorded_past", add_past)
    for recording in (None, nullcontext("recording")):
        out.patch.setattr(incident, "open_recording", lambda _session, recording=recording: recording)
        for as_json in (False, True):
            with utc_time_zone():
                yield from out.run(
                    f"past incident {recording is not None} {as_json}",
                    incident._write_past_incident,
                    Session(Settings("redis://here"), as_json),
                    "mail",
                    None,
                    "1h",
                )


def describe_demo(out: Output) -> Iterator[str]:
    """Yield what is printed of the result of a demo, with each of its numbers at zero and one."""
    places = {"scheduled": 1, "ready": 2, "reserved": 3, "done": 4, "dead": 5}
    usual = {
        "put": 60, "done": 40, "jobs_s": 8.5, "failed": 1, "retries": 2, "dead": 3, "dispatched": 4, "stale": 5,
        "reaped": {"mail": 6, "news": 1}, "workers_lost": 2, "lost": 0, "findings": [], "digest": "4f", "seed": 7,
        "server": {"title": "Redis 7"},
        "queues": [{"queue": name, **places} for name in ("mail", "news")],
    }  # fmt: skip
    finding = {"queue": "mail", "ids": ["j1", "j2"], "text": "are in two places"}
    for change in (
        {}, {"put": 1}, {"failed": 0}, {"retries": 1}, {"stale": 1}, {"workers_lost": 1}, {"lost": 1},
        {"findings": [finding]}, {"findings": [finding] * 2, "lost": 2}, {"proof": {"text": "all ended"}},
        {"proof": {"text": "all ended", "missing": 1}}, {"proof": {"text": "all ended", "doubled": 1}},
    ):  # fmt: skip
        yield from out.run(f"demo with {change}", demo._print_demo_result, {**usual, **change}, False)
    for lost in (0, 1):
        yield from out.run(f"{lost} lost, as JSON", demo._print_demo_result, {**usual, "lost": lost}, True)
    foreign = {
        **usual, "elapsed_ms": 1_500, "withdrawn": 0, "failed": 0, "again": 0, "dispatched": 0, "reaped": 0, "late": 0,
        "stale": 0, "workers_lost": 0, "lost_with_workers": 0, "given_up": 0, "standing": 0, "said": [], "errors": [],
        "queues": [{"queue": name, "counted": {"wait": 1, "dead": 0}} for name in ("mail", "news")],
    }  # fmt: skip
    del foreign["retries"]
    for change in (
        *({name: 1} for name, number in foreign.items() if number == 0),
        {"said": [{"text": "mail is late"}] * 2}, {"errors": ["read mail", "read news"]}, {"elapsed_ms": 200_000},
    ):  # fmt: skip
        yield from out.run(
            f"demo of another system with {change}", demo._print_demo_result, {**foreign, **change}, False
        )
    running = SimpleNamespace(kind="Redis 7", url="redis://127.0.0.1:7", pid=9, folder="folder")
    out.patch.setattr("rqtui.connection.embedded.start_server", lambda _kind: nullcontext(running))

    def create_run(scenario: Any, *args: Any) -> Any:
        out.lines.append(f"run of {scenario.name} with {args}")
        return nullcontext(SimpleNamespace(queues=["mail"]))

    def run_headless(scenario: Any, *args: Any, server_pid: int) -> dict[str, Any]:
        out.lines.append(f"run of {scenario.name} with {args} of {server_pid}")
        return usual

    def open_screen(settings: Settings, _run: Any, **options: Any) -> int:
        out.lines.append(f"screen of {settings.url}, systems {settings.systems}, {settings.read_only}, {options}")
        return 7

    out.patch.setattr("rqtui.scenarios.create_run", create_run)
    out.patch.setattr("rqtui.scenarios.run_headless", run_headless)
    out.patch.setattr("rqtui.tui.app.run", open_screen)
    terminal = SimpleNamespace(isatty=lambda: True)
    out.patch.setattr(demo, "sys", SimpleNamespace(stdin=terminal, stdout=terminal, stderr=sys.stderr))
    for options in ({}, {"read_only": True, "seed": 3}, {"headless": True}, {"headless": True, "seconds": 2.5}):
        yield from out.run(f"demo with {options}", demo.run_scenario, "delays", **options)


def describe_recorded_minutes(out: Output) -> Iterator[str]:
    """Yield which queues `health` counts again with the minutes of a recording, and which facts stay unknown."""
    from rqtui.engine.health.rules import MIN_WATCHED_MS

    queue = Queue("mail", "native")

    def use_recording(has_totals: bool, watched_ms: int | None, checkpoints: tuple[str, ...], is_counted: bool) -> Any:
        def take_snapshot(focus: Any) -> Snapshot:
            out.lines.append(f"again {describe(focus.queues)}, thorough {focus.is_thorough}")
            return Snapshot(NOW_MS, (queue._replace(workers=9),), rates={MAIL: Rate()} if is_counted else {})

        find_totals = {True: "totals"}.get
        engine: Any = Recorder(
            "engine", out.lines, find_totals=lambda _ref: find_totals(has_totals), take_snapshot=take_snapshot
        )
        out.patch.setattr(
            "rqtui.recording.history.read_checkpoints", lambda *_args: out.lines.append("read") or checkpoints
        )
        rates = {} if watched_ms is None else {MAIL: Rate(recent=RecentActivity(duration_ms=watched_ms))}
        taken, recording = Snapshot(NOW_MS, (queue,), rates=rates), SimpleNamespace()
        queues, unknown = settled_snapshot._use_recording(engine, recording, taken, {MAIL: queue}, {MAIL: ("all",)})
        return f"{queues[MAIL].workers} workers, unknown {describe(unknown)}"

    out.patch.setattr("rqtui.recording.history.apply_recorded_starts", lambda _recording, queues: queues)
    for facts in ((), ("growth",)):
        out.patch.setattr("rqtui.engine.health.rules.find_unwatched_facts", lambda *_args: facts)
        for case in (
            (False, 0, ("checkpoint",), True), (True, None, ("checkpoint",), True), (True, 0, (), True),
            *((True, MIN_WATCHED_MS + by, ("checkpoint",), True) for by in (-1, 0, 1)),
            (True, 0, ("checkpoint",), False),
        ):  # fmt: skip
            yield from out.run(f"recorded {case}, then {facts}", use_recording, *case)


def describe_work(out: Output) -> Iterator[str]:
    """Yield what `work` needs before it begins, and how it prints runs, lines of the command, and its end."""
    run = JobRun("j1", "send", 2, "acked", 0, 1.2345)
    runs = (
        run, replace(run, id="\udcff", name=""), replace(run, outcome="lost", exit_code=-9, error="one\ntoken=abc\n"),
        replace(run, exit_code=None, seconds=0.0004),
        replace(run, seconds=599.5), replace(run, error="e" * 200), replace(run, error="e" * 201),
    )  # fmt: skip
    printer: Any
    for as_json in (False, True):
        printer = work._RunPrinter(Session(Settings(), as_json), "mail")
        for each in runs:
            yield from out.run(f"a run, JSON {as_json}", printer, each)
        for stream in (1, 2):
            yield from out.run(f"a line of {stream}, JSON {as_json}", printer.print_command_line, "j1", stream, b"text")
    for has_client in (False, True):
        engine = Recorder(
            "engine", out.lines, resolve_or_discover=lambda _name: MAIL,
            systems={"native": SimpleNamespace(has_client=has_client)},
        )  # fmt: skip
        asked: Any = SimpleNamespace(create_engine=lambda runs_on, engine=engine: engine)
        yield from out.run(f"work on a queue with a client: {has_client}", work._resolve_work_queue, asked, "mail")
    stop = signals.Stop()
    out.patch.setattr(work, "stop_on_signals", lambda _client: nullcontext(stop))
    out.patch.setattr(work, "set_up_logging", lambda log_format: out.lines.append(f"logs as {log_format}"))
    out.patch.setattr(work, "_resolve_work_queue", lambda _session, _queue: MAIL)
    out.patch.setattr("rqtui.client.queue.Queue", lambda *_args, **_options: nullcontext(SimpleNamespace(client=None)))
    for counts in ({}, {"acked": 2, "rejected": 1}):
        for as_json in (False, True):

            def run_commands(_queue: Any, *args: Any, counts: Any = counts, **options: Any) -> Any:
                del options["report"], options["say"], options["stop"]
                out.lines.append(f"run {args} {options}")
                return counts

            out.patch.setattr("rqtui.client.subprocess_worker.run_command_per_job", run_commands)
            for ttr in (None, "5s"):
                yield from out.run(
                    f"work with {counts} {as_json} {ttr}",
                    work.work,
                    Session(Settings(), as_json),
                    "mail",
                    ["true"],
                    ttr=ttr,
                    no_wait=True,
                )
    for options in ({"concurrency": 0}, {"max_jobs": 0}, {"ttr": "x"}, {"command": ["/nosuch"]}, {"command": None}):
        given = {"command": ["true"], **options}
        yield from out.run(f"work with {options}", work.work, Session(Settings()), "mail", **given, no_wait=True)
    yield from out.run("work, read-only", work.work, Session(Settings(read_only=True)), "mail", ["true"])


def describe_names(out: Output) -> Iterator[str]:
    """Yield which names a new system and a user can have."""
    for name in (
        "a",
        "ab",
        "a_b",
        "a1",
        "1a",
        "_a",
        "a_",
        "A b",
        "class",
        "Class",
        "a" * 40,
        "a" * 41,
        "native",
        "-",
        "é",
    ):
        yield from out.run(f"system {name}", new_system.check_system_name, name)
    engine = SimpleNamespace(systems=SYSTEMS, resolve=lambda name: Ref("native", name))
    out.patch.setattr(acl, "create_engine", lambda _settings: engine)
    out.patch.setattr(
        "rqtui.reports.acl.compute_rights", lambda *args, **options: out.lines.append(f"{args[0]} {options}")
    )
    out.patch.setattr("rqtui.reports.acl.format_acl_command", lambda *_args, **options: f"ACL {options}")
    for user in ("", "me", "a b", "a\tb", "a\x1bb"):
        yield from out.run(f"user {user!r}", acl.acl, SESSION, "viewer", ["mail"], user=user)
    for flags in ({"is_old": True}, {"with_server": True}, {"with_nodes": True}):
        yield from out.run(f"rights {flags}", acl.acl, SESSION, "viewer", [], user="", **flags)


def describe_redis(out: Output) -> Iterator[str]:
    """Yield what `redis` prints of a server about which everything, or nothing, is known."""
    empty = redis_reports.Report(ServerInfo("unknown"), {})
    info = {
        "used_memory_peak": "900", "evicted_keys": "3", "blocked_clients": "2", "instantaneous_ops_per_sec": "7.5",
        "maxmemory_policy": "noeviction",
    }  # fmt: skip
    server = ServerInfo("redis", "7.0", "primary", "standalone", 500, 0, "noeviction", False, 4, 60)
    slow = redis_reports.SlowCommand(NOW_MS, 12_000, ("GET", "k"), "native/ack", "w1")
    finding = Finding("memory", "critical", "", "memory is full", remedy="add memory")
    full = redis_reports.Report(
        server, info, NOW_MS, 0.25, -3, (("w1", 2),), (redis_reports.Command("get", 5, 50, 1),),
        (slow, replace(slow, script="", client="")), 10_000, (("0", 9, 1),), (finding,), {"slow": "no right"},
    )  # fmt: skip
    for name, report in {"empty": empty, "full": full}.items():
        out.patch.setattr("rqtui.reports.redis.read_report", lambda _client, report=report: report)
        for as_json in (False, True):
            asked: Any = Session(Settings("redis://:pw@here"), as_json)
            out.patch.setattr(Session, "create_engine", lambda _self: SimpleNamespace(client=None))
            with utc_time_zone():
                yield from out.run(f"redis, {name}, JSON {as_json}", redis.redis, asked)


def describe_terminals(out: Output) -> Iterator[str]:
    """Yield when a screen is opened, and how Python is set up for it."""
    out.patch.setattr(screen, "gc", Recorder("gc", out.lines))
    for has_input in (False, True):
        for has_output in (False, True):
            out.patch.setattr(
                screen,
                "sys",
                SimpleNamespace(
                    stdin=SimpleNamespace(isatty=lambda has_input=has_input: has_input),
                    stdout=SimpleNamespace(isatty=lambda has_output=has_output: has_output),
                    setswitchinterval=lambda seconds: out.lines.append(f"switch after {seconds} s"),
                ),
            )
            for result in (7, errors.Refused("no."))[: 2 if has_input and has_output else 1]:

                def open_app(_settings: Settings, *_rest: Any, result: Any = result) -> int:
                    out.lines.append("open")
                    if isinstance(result, Exception):
                        raise result
                    return int(result)

                out.patch.setattr("rqtui.tui.app.run", open_app)
                out.patch.setattr("rqtui.tui.app.run_replay", open_app)
                title = f"terminal {has_input} {has_output} {result!r}"
                yield from out.run(f"screen, {title}", screen.screen, Settings())
                yield from out.run(f"replay, {title}", screen.replay_screen, Settings(), Path("recording"), None)


def describe_whole_bodies(out: Output) -> Iterator[str]:
    """Yield how much of a body is read to show a job, and to copy it."""
    engine: Any = Recorder("engine", out.lines, systems=SYSTEMS, resolve_or_discover=lambda name: Ref("native", name))
    session: Any = SimpleNamespace(create_engine=lambda: engine, as_json=False)
    for options in ((False, False), (True, False), (False, True)):
        yield from out.run(f"show with {options}", show.show, session, "mail", "j1", *options)
    variant = verbs.find_verb("duplicate")
    yield from out.run("duplicate", act_duplicate.copy_one_job, session, engine, MAIL, variant, b"j1", [], {})


def describe_logs(_out: Output) -> Iterator[str]:
    """Yield log records as they are printed, as text and as JSON."""
    record = logging.LogRecord("rqtui.client", logging.WARNING, "", 1, "lost %s\x1b[1m\x7f", ("redis://:pw@h",), None)
    record.created = NOW_MS / 1000
    for log_format in ("text", "json"):
        with pytest.MonkeyPatch.context() as patch:
            logger = logging.Logger("rqtui")
            patch.setattr(logs, "logging", SimpleNamespace(**{**vars(logging), "getLogger": lambda _name: logger}))
            logs.set_up_logging(log_format)
        yield f"log as {log_format}: {logger.handlers[0].format(record)!r} from {logger.level}"
        failed = logging.makeLogRecord({**vars(record), "exc_info": (ValueError, ValueError("token=abc"), None)})
        yield f"  with an error: {logger.handlers[0].format(failed)!r}"


def test_what_commands_do_at_bounds_matches_the_stored_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines: list[str] = []
    for part in (
        describe_jobs,
        describe_job_lists,
        describe_act,
        describe_act_steps,
        describe_sessions,
        describe_output,
        describe_events,
        describe_following,
        describe_stats,
        describe_migrate,
        describe_incident,
        describe_check,
        describe_past_incident,
        describe_demo,
        describe_recorded_minutes,
        describe_work,
        describe_names,
        describe_redis,
        describe_terminals,
        describe_whole_bodies,
        describe_logs,
    ):
        with pytest.MonkeyPatch.context() as patch:
            lines += part(Output(capsys, patch))
    assert_lines_match_file(lines, KEPT)
