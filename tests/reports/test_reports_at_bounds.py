"""Reports where one number is missing or at a bound: `reports_at_bounds.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/reports/test_reports_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from families import run_in_one_test
from kept_text import assert_lines_match_file, diff_lines, utc_time_zone

from rqtui.connection.connect import ServerInfo
from rqtui.model import Count, EventCoverage, Finding, Job, Queue, Ref, Snapshot, State, Verdict, Worker
from rqtui.operations.journal import Operation, Sighting
from rqtui.reports import redis_panels, workers
from rqtui.reports.postmortem import Curve, Plot, build_markdown, draw_curve
from rqtui.reports.prometheus import Family, format_exposition
from rqtui.reports.redis import Command, Report, SlowCommand
from rqtui.reports.sampling import Extent
from rqtui.reports.workers import WorkerHealth
from rqtui.systems import registry

KEPT = Path(__file__).with_name("reports_at_bounds.txt")
NOW_MS = 1_800_000_000_000
INFO = {
    "connected_slaves": "2", "master_host": "10.0.0.9", "master_link_status": "up", "aof_enabled": "1",
    "aof_last_write_status": "ok", "rdb_last_save_time": "1799999000", "rdb_last_bgsave_status": "ok",
    "used_memory": "899", "maxmemory": "1000", "used_memory_peak": "2048", "evicted_keys": "7",
    "mem_fragmentation_ratio": "1.25", "number_of_cached_scripts": "31", "connected_clients": "9", "maxclients": "100",
    "blocked_clients": "3", "keyspace_hits": "75", "keyspace_misses": "25", "instantaneous_input_kbps": "1.5",
    "instantaneous_output_kbps": "2.5", "total_error_replies": "4", "instantaneous_ops_per_sec": "120",
    "rejected_connections": "5", "expired_keys": "6",
}  # fmt: skip
VALUES = (None, "0", "1", "2", "900", "1001")
WORDS = ("EVALSHA", "0123", "2", "rqtui:{mail}:ready", "rqtui:{mail}:jobs", "limit", "500")
SERVER = ServerInfo("redis", version="7.4", mode="standalone", role="primary", policy="noeviction", uptime_s=3600)
REPORT = Report(
    SERVER,
    INFO,
    now_ms=NOW_MS,
    rtt_ms=0.25,
    skew_ms=0,
    clients=(("rqtui", 2), ("rqtui-worker", 1), ("rqtuix", 1), ("", 4), *((f"app{n}", 1) for n in range(6))),
    commands=(Command("get", 10, 5_000, 2), Command("never", 0, 0), Command("eval", 3, 45_000_000)),
    slow=(SlowCommand(NOW_MS - 60_000, 12_000, WORDS, "reserve", "10.0.0.5:6379"),),
    slower_than_micros=10_000,
    keyspace=(("db0", 12, 3),),
    findings=tuple(Finding("full", name, "", f"{name} text", "do this") for name in ("warning", "critical", "info")),
)


def info_without(name: str, value: str | None) -> Report:
    others = {key: each for key, each in INFO.items() if key != name}
    return replace(REPORT, info=others if value is None else {**others, name: value})


def slow(*words: str, at_ms: int = NOW_MS - 60_000, **more: Any) -> Report:
    return replace(REPORT, slow=(SlowCommand(at_ms, 12_000, words, **more),))


def variations() -> Iterator[tuple[str, Report]]:
    for name in INFO:
        for value in VALUES:
            yield f"{name} is {value}", info_without(name, value)
    for name, values in {
        "role": ("", "replica"), "mode": ("",), "version": ("",), "uptime_s": (None, 0), "policy": ("", "allkeys-lru"),
        "is_persistent": (None, False, True),
    }.items():  # fmt: skip
        for each in values:
            yield f"server {name} is {each!r}", replace(REPORT, server=replace(SERVER, **{name: each}))
    yield (
        "not persistent without append-only file",
        replace(info_without("aof_enabled", "0"), server=replace(SERVER, is_persistent=False)),
    )
    yield (
        "no limit and another policy",
        replace(info_without("maxmemory", "0"), server=replace(SERVER, policy="allkeys-lru")),
    )
    for name, numbers in {
        "skew_ms": (None, -100, -99, 99, 100, 5_000_000), "rtt_ms": (None, 0.0, 99.0),
        "now_ms": (None, NOW_MS - 120_000),
        "clients": ((),), "commands": ((),), "keyspace": ((),), "findings": ((),),
    }.items():  # fmt: skip
        for number in numbers:
            yield f"{name} is {number!r}", replace(REPORT, **{name: number})  # type: ignore[arg-type]
    yield "nine commands", replace(REPORT, commands=tuple(Command(f"c{n}", 1, 999 + n % 2) for n in range(9)))
    for limit in (None, -1, 0, 1, 10_000):
        yield f"nothing slow, limit {limit}", replace(REPORT, slow=(), slower_than_micros=limit)
    yield "a long slow command", slow("SET", "x" * 395, "ab")
    yield "a slow command that is cut", slow("SET", "x" * 396, "a")
    for keys in ("0", "1", "2", "many"):
        yield f"a slow script with {keys} keys", slow("EVALSHA", "0123", keys, "k1", "k2", "arg", script="ack")
    yield "a slow script of two words", slow("EVALSHA", "0123", script="ack")
    yield "a slow command of no client", slow("GET", "key", client="?:0")
    yield "a slow command of 999.4 ms", replace(REPORT, slow=(SlowCommand(NOW_MS, 999_400, ("GET", "key")),))
    yield "a slow command in the future", slow("GET", "key", at_ms=NOW_MS + 5_000)
    for part in ("info", "clients", "slowlog", "time", "persistence"):
        yield f"{part} is missing", replace(REPORT, missing={part: "an ACL denies it"})
    yield "no version", replace(REPORT, server=replace(SERVER, version=""), missing={"info": "an ACL denies it"})


def panel_lines(report: Report) -> list[str]:
    lines = []
    for panel in redis_panels.build_panels(report):
        lines += [f"{panel.name}: {panel.title}{panel.lacks and ' lacks ' + panel.lacks}"]
        lines += [f"{panel.name}: " + "".join(f"<{piece.style}>{piece.text}" for piece in line) for line in panel.lines]
    return lines


def curves() -> Iterator[tuple[str, Curve]]:
    minute_ms = 60_000
    yield "one point", Curve("ready", [(NOW_MS, 5.0)])
    yield "nothing but zero", Curve("ready", [(NOW_MS + n * minute_ms, 0.0) for n in range(3)])
    yield "a gap", Curve("ready", [(NOW_MS, 8.0), (NOW_MS + 3 * minute_ms, 1.0), (NOW_MS + 10 * minute_ms, 4.0)])
    yield "as many as columns", Curve("ready", [(NOW_MS + n * minute_ms, float(n)) for n in range(12)])
    uneven = [0, 1, 2, 3, 20, 21, 22, 23, 24, 25, 26, 30]
    yield "as many as columns, not evenly", Curve("ready", [(NOW_MS + n * minute_ms, 2.0) for n in uneven])
    yield "a spike among many", Curve("ready", [(NOW_MS + n * minute_ms, 9.0 if n == 31 else 1.0) for n in range(60)])


CHANGE = Operation(
    NOW_MS,
    "me@here",
    "requeue",
    "mail",
    "native",
    ids=(b"a", b""),
    count=5,
    answers={"ready again": 4, "gone": 1},
    url="redis://db:6379",
    profile="prod",
    began_ms=NOW_MS - 61_000,
    why="the gateway is back",
    chosen="/err:timeout of dead",
    rate="5/s",
    stopped="stopped by me@here",
    before={"mail": {"dead": 9, "ready": 0}},
    after={"mail": {"dead": 4, "ready": 5}, "news": {"dead": 0}},
)
BARE = Operation(NOW_MS + 9_000, "you@there", "pause", "news", "rq", url="redis://db:6379")
SEEN = Sighting(NOW_MS - 30_000, "mail", "native", "failing", "critical", "51 % of attempts fail")
PLOT = Plot(
    Ref("native", "mail"), (Curve("ready", [(NOW_MS, 1.0), (NOW_MS + 60_000, 3.0)]), Curve("dead", [(NOW_MS, 0.0)]))
)


def pages() -> Iterator[tuple[str, str]]:
    yield "nothing", build_markdown([])
    yield "a problem", build_markdown([], problems=["the journal cannot be read"])
    yield "a finding", build_markdown([], [SEEN])
    yield "a change", build_markdown([CHANGE])
    yield "a bare change", build_markdown([BARE])
    yield "two changes of two servers", build_markdown([BARE, replace(CHANGE, url="redis://other:1")])
    yield "two changes of two profiles", build_markdown([CHANGE, replace(BARE, profile="staging", why=CHANGE.why)])
    yield (
        "a finding that ended and one that only ended",
        build_markdown(
            [BARE], [SEEN, replace(SEEN, at_ms=NOW_MS, is_over=True), replace(SEEN, queue="news", is_over=True)]
        ),
    )
    for name, values in {
        "ids": ((), (b"a", b"b", b"c", b"d", b"e"), (b"\xff",)), "count": (0, 1, 2), "error": ("denied", "me@here"),
        "began_ms": (0, NOW_MS - 999, NOW_MS - 1_000), "why": ("",), "chosen": ("",), "rate": ("",), "stopped": ("",),
        "undone_at_ms": (NOW_MS + 1,), "others": (("news",),), "undo": (("one",),), "answers": ({},),
        "before": ({},), "profile": ("",),
    }.items():  # fmt: skip
        for value in values:
            yield f"{name} is {value!r}", build_markdown([replace(CHANGE, **{name: value})])  # type: ignore[arg-type]
    yield "a plot", build_markdown([], plots=[PLOT])
    yield "a plot of nothing", build_markdown([], plots=[Plot(PLOT.ref, PLOT.curves[1:])])


def text() -> Iterator[str]:
    whole = panel_lines(REPORT)
    yield "== a report of a server"
    yield from whole
    for title, report in variations():
        yield f"== {title}"
        yield from diff_lines(whole, panel_lines(report))
    usual = build_markdown([CHANGE]).splitlines()
    for title, page in pages():
        lines = page.splitlines()
        yield f"== a page: {title}"
        yield from lines if title.startswith(("a ", "two ", "nothing")) else diff_lines(usual, lines)
    for title, curve in curves():
        yield f"== a curve: {title}"
        yield from draw_curve(curve, width=12, height=3)


def test_reports_match_the_stored_text() -> None:
    with utc_time_zone():
        lines = [*text()]
    assert_lines_match_file(lines, KEPT)


HEARD = EventCoverage(NOW_MS)
QUEUES = (
    Queue(
        "mail",
        "native",
        (Count("ready", State.READY, 4), Count("shared", State.DEAD, 2, is_exact=False, shared_total=9)),
        NOW_MS,
        is_paused=True,
        workers=2,
        oldest_ready_ms=1_500,
        overdue=3,
        expired=1,
        counters={"in": 10, "out": 7, "failed": 2, "dead": 1, "reserved": 8, "dispatched": 5, "dead_max": 99},
        verdict=Verdict("critical"),
    ),
    Queue(
        "zeta",
        "native",
        (
            Count("ready", State.READY, 1),
            Count("shared", State.DEAD, 7, shared_total=9),
            Count("ended", State.DONE, 6, coverage=HEARD),
            Count("unheard", State.DONE, 6, coverage=EventCoverage(None)),
        ),
        NOW_MS,
        workers=None,
        oldest_ready_ms=4_000,
        verdict=Verdict("warning"),
    ),
    Queue("other", "native", error="broken", verdict=Verdict("unknown")),
    Queue('a"b\\c\n', "rq", (Count("ready", State.READY, 0),), is_paused=True, verdict=Verdict("strange")),
)


def samples(text: str) -> list[str]:
    return [line.removeprefix("rqtui_") for line in text.splitlines() if not line.startswith("#")]


def test_each_metric_of_a_queue_has_its_labels_and_value() -> None:
    mail = 'layout="native",queue="mail"'
    zeta = 'layout="native",queue="zeta"'
    odd = r'layout="rq",queue="a\"b\\c\\n"'
    lines = samples(format_exposition(Snapshot(queues=QUEUES, taken_ms=NOW_MS), 0.5))
    assert lines == [
        "up 1", "scrape_duration_seconds 0.5", "queues 4", "unread_queues 1",
        f'jobs{{{odd},place="ready",state="ready"}} 0',
        f'jobs{{{mail},place="ready",state="ready"}} 4', f'jobs{{{mail},place="shared",state="dead"}} 2',
        f'jobs{{{zeta},place="ready",state="ready"}} 1', f'jobs{{{zeta},place="shared",state="dead"}} 7',
        f'jobs{{{zeta},place="ended",state="done"}} 6',
        f'jobs_sampled{{{mail},place="shared",state="dead"}} 1',
        f'jobs_sampled{{{zeta},place="shared",state="dead"}} 0',
        'shared_jobs{layout="native",place="shared",state="dead"} 9',
        f"oldest_ready_seconds{{{mail}}} 1.5", f"oldest_ready_seconds{{{zeta}}} 4",
        f"workers{{{odd}}} 0", f"workers{{{mail}}} 2",
        f"overdue_jobs{{{odd}}} 0", f"overdue_jobs{{{mail}}} 3", f"overdue_jobs{{{zeta}}} 0",
        f"expired_leases{{{odd}}} 0", f"expired_leases{{{mail}}} 1", f"expired_leases{{{zeta}}} 0",
        f"paused{{{odd}}} 1", f"paused{{{mail}}} 1", f"paused{{{zeta}}} 0",
        f"severity{{{odd}}} 3", f"severity{{{mail}}} 2", 'severity{layout="native",queue="other"} 3',
        f"severity{{{zeta}}} 1",
        *(
            f'job_transitions_total{{{mail},event="{event}"}} {number}'
            for event, number in QUEUES[0].counters.items() if event != "dead_max"
        ),
    ]  # fmt: skip


@run_in_one_test("most", [2, 3])  # the queue that is itself called "other" is the third
def test_queues_beyond_the_limit_are_one_and_each_metric_has_its_help(most: int) -> None:
    text = format_exposition(Snapshot(queues=QUEUES, taken_ms=NOW_MS), 1.0, max_queues=most)
    other = 'layout="native",queue="other"'
    assert [line for line in samples(text) if other in line] == [
        f'jobs{{{other},place="ready",state="ready"}} 1', f'jobs{{{other},place="shared",state="dead"}} 7',
        f'jobs{{{other},place="ended",state="done"}} 6', f'jobs_sampled{{{other},place="shared",state="dead"}} 0',
        f"oldest_ready_seconds{{{other}}} 4", f"overdue_jobs{{{other}}} 0", f"expired_leases{{{other}}} 0",
        f"paused{{{other}}} 0", f"severity{{{other}}} 3",
    ]  # fmt: skip
    names = {re.split(r"[{ ]", line)[0] for line in samples(text)}
    assert [len(re.findall(rf"# {word} rqtui_", text)) for word in ("HELP", "TYPE")] == [len(names)] * 2
    assert 'queue="zeta"' in format_exposition(Snapshot(queues=QUEUES, taken_ms=NOW_MS), 1.0, max_queues=4)
    assert samples(format_exposition(None, 2.0)) == ["up 0", "scrape_duration_seconds 2"]


def test_five_hundred_queues_have_labels_of_their_own() -> None:
    queues = tuple(Queue(f"q{number:03}", "native") for number in range(501))
    for number in (500, 501):  # of 501 queues the last is called "other"
        lines = samples(format_exposition(Snapshot(queues=queues[:number], taken_ms=NOW_MS), 1.0))
        workers_of = [line for line in lines if line.startswith("workers{")]
        assert (len(workers_of), 'queue="other"' in workers_of[-1]) == (number, number > 500)


def test_equal_labels_are_added_or_their_maximum_is_kept() -> None:
    for is_added, value in ((True, 8), (False, 5)):
        family = Family("n", "gauge", 'a "help" \\', is_added)
        for number in (3, None, 5):
            family.add(number, queue="mail")
        assert [*family.yield_lines()] == ['# HELP n a "help" \\\\', "# TYPE n gauge", f'n{{queue="mail"}} {value}']


def worker(ago_ms: int, **more: Any) -> Worker:
    return Worker("w", "mail", NOW_MS - ago_ms, 1_000, **more)


HELD = Job(b"a", "mail", "native", "reserved", State.RESERVED, b"a", deadline_ms=NOW_MS)


@run_in_one_test(
    "known, jobs, expected",
    [
        (None, [], WorkerHealth.UNSEEN),
        (None, [HELD], WorkerHealth.UNSEEN),
        (None, [replace(HELD, deadline_ms=None)], WorkerHealth.UNSEEN),
        (None, [replace(HELD, deadline_ms=NOW_MS - 1)], WorkerHealth.EXPIRED),
        (None, [HELD, replace(HELD, deadline_ms=NOW_MS - 1)], WorkerHealth.EXPIRED),
        (worker(0), [], WorkerHealth.IDLE),
        (worker(1_000), [], WorkerHealth.IDLE),
        (worker(1_001), [], WorkerHealth.LATE),
        (worker(1_001, order="stop"), [HELD], WorkerHealth.LATE),
        (worker(10_000), [], WorkerHealth.LATE),
        (worker(10_001), [], WorkerHealth.GONE),
        (worker(0), [HELD], WorkerHealth.RUNNING),
        (worker(0, job=b"a"), [], WorkerHealth.RUNNING),
        (worker(0, order="quiet"), [HELD], WorkerHealth.QUIET),
        (worker(0, order="stop"), [], WorkerHealth.STOPPING),
        (worker(0), [replace(HELD, deadline_ms=NOW_MS - 1)], WorkerHealth.RUNNING),
    ],
)
def test_the_health_of_a_worker_changes_at_its_limits(
    known: Worker | None, jobs: list[Job], expected: WorkerHealth
) -> None:
    assert workers.evaluate_health(known, jobs, NOW_MS) is expected


def test_of_more_than_a_hundred_queues_the_busy_ones_are_read() -> None:
    systems = {"native": registry.create_system("native")}
    refs = [Ref("native", f"q{number:03}") for number in range(101)]
    busy = frozenset(refs[-1:])
    assert workers.choose_queues(refs[:100], systems, busy) == tuple(refs[:100])
    assert workers.choose_queues(refs, systems, busy) == (refs[-1], *refs[:99])
    assert workers.choose_queues(refs[1:], systems, busy) == tuple(refs[1:])


@run_in_one_test(
    "looked, of, queues, of_queues, problems, is_complete",
    [
        (0, 0, 0, 0, (), True), (9, 10, 1, 1, (), False), (10, 10, 1, 1, (), True), (11, 10, 1, 1, (), True),
        (10, 10, 1, 2, (), False), (10, 10, 1, 1, ("broken",), False),
    ],
)  # fmt: skip
def test_a_report_is_complete_if_every_job_of_every_queue_was_read(
    looked: int, of: int, queues: int, of_queues: int, problems: tuple[str, ...], is_complete: bool
) -> None:
    assert Extent(NOW_MS, looked, of, queues, of_queues, problems).is_complete is is_complete
    assert Extent(NOW_MS, 0, 0, 0, 0).is_complete and not Extent(NOW_MS, 0, 1, 0, 0).is_complete
