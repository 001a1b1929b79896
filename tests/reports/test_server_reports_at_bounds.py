"""Rights, schedules, events, documents of jobs and the report on a server: see `server_reports_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/reports/test_server_reports_at_bounds.py` writes the text; review the difference
as code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file, utc_time_zone
from memory_queues import NOW_MS, REFUSED
from redis.exceptions import NoPermissionError, ResponseError

from rqtui.errors import Denied, RqtuiError, ServerError
from rqtui.model import Attempt, Count, Fact, Job, Page, Queue, Ref, Schedule, Snapshot, State, Verdict
from rqtui.reports import (
    acl,
    attributes,
    events,
    jobs,
    loops,
    other_databases,
    prometheus,
    redis,
    schedules,
    shared_places,
)
from rqtui.reports.events import Event, Feed
from rqtui.system_base.system import Request
from rqtui.systems import registry

KEPT = Path(__file__).with_name("server_reports_at_bounds.txt")
MAIL, NEWS = Ref("native", "mail"), Ref("native", "news")


def attempt(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    try:
        return repr(function(*args, **options))
    except (RqtuiError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def job(id: object, state: str = "ready", **more: Any) -> Job:
    return Job(str(id).encode(), "mail", "native", state, State(state), b"", **more)


def rights() -> Iterator[str]:
    systems = {name: registry.create_system(name) for name in registry.list_system_names()}
    native, rq = systems["native"], systems["rq"]
    for title, queues in {
        **{name: [(system, "mail")] for name, system in systems.items()},
        "two of native": [(native, "mail"), (native, "news")],
        "rq and native": [(rq, "a*[b]"), (native, "mail")],
        "two of rq": [(rq, "mail"), (rq, "news")],
        "none": [],
    }.items():
        for role in acl.ROLES:
            for major in (6, 7, 8):
                found = acl.compute_rights(role, queues, major=major)
                text = acl.format_acl_command(role, found, major=major)
                digest = sha256(text.encode()).hexdigest()[:8]
                numbers = f"{len(found.keys)} keys, {len(found.commands)} commands, {len(found.channels)} channels"
                yield f"{role} of {title} on {major}: {numbers}, {found.reads_only} {text[:90]!r} #{digest}"
    for with_server in (False, True):
        for with_nodes in (False, True):
            found = acl.compute_rights("viewer", [(native, "mail")], with_server=with_server, with_nodes=with_nodes)
            yield f"server {with_server}, nodes {with_nodes}: {found.commands}"
    yield attempt(acl.compute_rights, "admin", [])
    for word in ("plain", "a b", "", "é", '"', "'", "\\", "~", "!", "\x1f", "\x7f", "a\x7eb", "a\x20"):
        yield f"{word!r}: {acl._quote_for_redis_cli(word)} {acl._escape_pattern(word + '*?[x]')}"
    empty = acl.Rights((), (), True)
    yield f"{acl.format_acl_command('viewer', empty)} | {acl.format_acl_command('viewer', empty, user='me', major=6)}"
    yield f"{acl.format_acl_command('worker', acl.Rights(('k',), ('get',), False, ('c*',)))}"


def listed_schedules() -> Iterator[str]:
    plan = Schedule("nightly", "rq", "mail", "0 3 * * *")
    every = [
        plan._replace(next_ms=next_ms, name=name, queue=queue)
        for next_ms in (None, 0, 5, 9)
        for name in ("b", "a")
        for queue in ("news", "mail")
    ]
    for refs in ((), [Ref("rq", "mail")], [Ref("native", "mail")]):
        found, problems = schedules.parse_schedules([every, REFUSED, REFUSED, (plan,)], refs)
        yield f"of {refs}: {[(each.next_ms, each.name, each.queue) for each in found]} {problems}"
    for is_explicit in (False, True):
        for present in ((), ("rq",)):
            system: Any = SimpleNamespace(is_explicit=is_explicit, schedules_request=lambda: Request((), tuple))
            none: Any = SimpleNamespace(is_explicit=True, schedules_request=lambda: None)
            [request] = schedules.build_schedule_requests({"rq": system, "other": none}, present)[schedules.GROUP]
            yield f"explicit {is_explicit}, present {present}: {request.may_fail} {request.parse((Denied('no'), 1))!r}"  # type: ignore[arg-type]
    for names in (
        [],
        ["native"],
        ["rq"],
        ["sidekiq"],
        ["native", "celery"],
        ["rq", "native"],
        ["bullmq"],
        ["arq", "celery@shop"],
    ):
        yield f"none of {names}: {attempt(schedules.explain_missing_schedules, names)}"
    for name in registry.list_system_names():
        yield f"{name}: {schedules.has_schedules(registry.create_system(name))}"


def recorded_events() -> Iterator[str]:
    rows = [("5-0", "reject", b"a", b"w", b"why"), ("6-12", "ack", b"", b"", b"")]
    values = {"now_ms": 9, "until_ms": 0, "total": 2, "left": True, "known": False}
    reply: Any = SimpleNamespace(rows=rows, values=values)
    feed = events._parse_feed(MAIL, [reply])
    yield (
        f"{feed} {feed.last} {feed.is_recording} {[each.is_failure for each in feed.events]} "
        f"{[each.key for each in feed.events]}"
    )
    yield (
        f"{[each.order for each in feed.events]} {Feed(MAIL).last!r} "
        f"{[Feed(MAIL, until_ms=ms).is_recording for ms in (-1, 0, 1)]}"
    )
    yield f"{Feed(MAIL)}"
    yield attempt(events._parse_feed, MAIL, [REFUSED])
    native = registry.create_system("native")
    yield (
        f"{events.feed_request(native, 'mail').calls[0].argv} "
        f"{events.feed_request(native, 'mail', '5-0', limit=3, newest=False).calls[0].argv}"
    )
    for name in registry.list_system_names():
        yield f"{name}: {events.has_events(registry.create_system(name))}"
    for expression in (
        "",
        "ack",
        "!ack",
        "/^rej/",
        "!/^rej/",
        "/a\\/b/",
        "mail",
        "why",
        "w !why",
        "/open",
        "/[",
        "reject why",
        "ACK",
    ):
        for event in (Event(MAIL, 5, 0, "reject", b"a/b", "w", "why"), Event(MAIL, 5, 0, "ack", b"\xff")):
            matches = attempt(lambda expression=expression, event=event: events.build_event_matcher(expression)(event))
            yield f"{expression!r} on {event.verb}: {matches}"
    for read_only in (False, True):
        for denial in ("", "denied by a rule"):
            sent: list[object] = []

            def send(requests: list[Request[str]], sent: list[object] = sent) -> list[str]:
                sent.append([request.calls[0].argv for request in requests])
                return [request.parse([[None, ServerError("lost")][at % 2]]) for at, request in enumerate(requests)]  # type: ignore[list-item]

            systems = {name: registry.create_system(name) for name in ("native", "rq")}
            engine: Any = SimpleNamespace(
                read_only=read_only,
                systems=systems,
                send_requests=send,
                explain_denial=lambda _verb, ref, denial=denial: denial if ref == NEWS else "",
            )
            for refs in ([], [MAIL], [MAIL, NEWS, Ref("native", "other"), Ref("rq", "jobs")]):
                until = {ref: 5 for ref in refs if ref.queue != "other"} | ({Ref("native", "more"): 7} if refs else {})
                found = attempt(
                    events.record_events, engine, [*refs, Ref("native", "more")][: len(refs) + bool(refs)], until
                )
                yield f"recorded, read-only {read_only}, {denial!r}, {len(refs)} queues: {found} {sent}"
                sent.clear()


def job_documents() -> Iterator[str]:
    whole = job(
        "a",
        "dead",
        token=b"t",
        name="send",
        call="send()",
        enqueued_ms=0,
        due_ms=1,
        reserved_ms=2,
        deadline_ms=3,
        ttr_ms=4,
        attempts=5,
        max_attempts=6,
        worker="w",
        error="token=abc",
        problem="caf\udce9 token=x",
        body=b'{"a":1}',
        body_bytes=7,
        history=(Attempt(0, 0, "", ""), Attempt(1, 2, "w", "E")),
        is_cancelled=True,
    )
    for each in (
        whole,
        job("b"),
        Job(b"\xff", "caf\udce9", "rq", "queued", State.READY, b"", name="\udce9", worker="\ud83d"),
    ):
        yield f"{json.dumps(jobs.build_job_document(each))} {jobs.build_attempt_documents(each)}"
    for name in ("mail", "caf\udce9", "", "base64:/w=="):
        yield (
            f"{name!r}: {jobs.build_queue_fields(name)} {jobs.format_command_line_word(name)} "
            f"{attempt(jobs.parse_id, jobs.format_command_line_word(name))}"
        )
    for fact in (
        Fact("n", 0),
        Fact("n", 5, "duration"),
        Fact("password", "x"),
        Fact("password", "x", "ref", "news"),
        Fact("n", '{"token":"x","a":1}', "json"),
        Fact("n", "{", "json"),
        Fact("n", b"\xff"),
        Fact("n", b"\xfftoken=abcdef"),
        Fact("n", "token=x"),
        Fact("n", "token=x", "ref"),
        Fact("n", "[" * 2_000, "json"),
    ):
        yield f"{fact.name} {fact.kind}: {json.dumps(jobs.build_fact_documents([fact]))[:200]}"
    for raw in (
        b"NaN",
        b"1e309",
        b"-Infinity",
        b"[1e308]",
        b"\x81\x01\x02",
        b"\x81\xc3\x01",
        b"\x81\xc0\x90",
        b"\x92\xd6\xff\x00\x00\x00\x01\x01",
        b"\xfftoken=abc",
        b"\xff" * 9,
    ):
        yield f"body {raw!r}: {jobs.build_body_document(raw, len(raw))}"
    for value in ("", "a", "token=abc", b"\xff", b"\xfftoken=abc", "\udcfftoken=abc", "\ud83d"):
        yield f"text {value!r}: {jobs.mask_job_text(value)!r}"
    yield jobs.escape_undecodable("caf\udce9")


def job_attributes() -> Iterator[str]:
    for each in (
        job("a"),
        job(
            "b",
            body=b'{"a":{"b":1},"token":"x"}',
            body_bytes=99,
            name="n",
            worker="w",
            attempts=0,
            priority=3,
            enqueued_ms=NOW_MS,
        ),
        job("c", "done", body=b"text", ended_ms=NOW_MS, reserved_ms=NOW_MS - 5),
        job("d", "done", ended_ms=NOW_MS, reserved_ms=NOW_MS + 5),
        job("e", "dead", since_ms=NOW_MS, reserved_ms=1),
        job("f", "dead", ran_ms=7, since_ms=10**18),
        job("g", enqueued_ms=0),
    ):
        for host in ("", "here"):
            found = attributes.read_attributes(each, host)
            yield f"{each.id.decode()} {host}: {found} {attributes.compute_run_ms(each)}"
    for name in ("kind", "worker", "host", "error", "age", ".", ".a", "a", "", "priority"):
        yield f"group by {name!r}: {attributes.is_group_field(name)}"
    for field in ("kind", "worker", "host", "error", "age", ".a", ".token", ".list.0", ".list"):
        for each in (
            job("a"),
            job(
                "b",
                name="n token=x",
                worker="w",
                error="KeyError: 'x'",
                body=b'{"a":[1,1],"token":5,"list":["x","y"]}',
                enqueued_ms=NOW_MS - 5,
            ),
        ):
            for host in ("", "here"):
                yield (
                    f"{field} of {each.id.decode()} {host}: "
                    f"{attributes.list_group_values(each, field, NOW_MS, lambda _worker, host=host: host)}"
                )


INFO: dict[Any, Any] = {
    b"redis_version": b"7.4.0",
    "used_memory": 5,
    "cmdstat_get": {"calls": 2, "usec": 9, "failed_calls": 1, "rejected_calls": 2},
    b"cmdstat_client|list": {b"x": 1},
    "cmdstat_odd": 5,
    "db0": {"keys": 3, "expires": 1},
    "db1": {},
    "dbx": {"keys": 1},
    "db2": 7,
    **{f"cmdstat_c{at}": {"calls": 1, "usec": 100 - at} for at in range(14)},
}


def server_reports() -> Iterator[str]:
    names = [b"rqtui", b"", b"rqtui", *(b"n%d" % at for at in range(14))]
    clients = b"\n".join(b"id=%d name=%s addr=x" % (at, name) for at, name in enumerate(names)) + b"\nid=5\n"
    sha = next(iter(redis._map_script_names_by_digest()))
    slow = [
        [1, 5, 9, [b"GET", b"k"]],
        [1, 5, 9, [b"GET"], b"1.2.3.4:5"],
        [1, 5, 9, [b"GET"], b"1.2.3.4:5", b"me"],
        [1, 5, 9, [b"GET"], b"1.2.3.4:5", b""],
        [1, 5, 9, [b"EVALSHA", sha.encode(), b"1", b"k"]],
        [1, 5, 9, [b"evalsha_ro", sha.encode()]],
        [1, 5, 9, [b"EVALSHA"]],
        [1, 5, 9, [b"SET", b"token", b"x"]],
        [1, 5],
        "odd",
        [1, 5, 9, []],
    ]
    answers: dict[str, Any] = {
        "HELLO": [b"server", b"redis", b"version", b"7.4.0", b"mode", b"standalone", b"role", b"master"],
        "INFO all": INFO,
        "CONFIG GET save": [b"save", b"3600 1"],
        "CLIENT LIST": clients,
        f"SLOWLOG GET {redis.MAX_SLOW}": slow,
        "CONFIG GET slowlog-log-slower-than": [b"slowlog-log-slower-than", b"-1"],
    }

    class Client:
        """A client whose server replies as `replies` says."""

        def __init__(self, replies: dict[str, Any], skew_s: float = 0.0) -> None:
            self.replies, self.skew_s, self.sent = replies, skew_s, list[str]()
            self.connection_pool = SimpleNamespace(connection_kwargs={"username": "ops"} if skew_s else {})

        def time(self) -> tuple[int, int]:
            if isinstance(error := self.replies.get("TIME"), Exception):
                raise error
            return 1_800_000_000 + int(self.skew_s), 500_999

        def pipeline(self, transaction: bool) -> Any:
            def execute(raise_on_error: bool) -> list[Any]:
                return [self.replies.get(command, ResponseError("unknown command")) for command in self.sent]

            return SimpleNamespace(execute_command=lambda *words: self.sent.append(" ".join(words)), execute=execute)

    for title, replies, skew_s in (
        ("all", answers, 0),
        ("skewed", answers, 90),
        ("nothing", {}, 0),
        ("denied", dict.fromkeys(answers, NoPermissionError("NOPERM no")), 5),
        ("no time", {**answers, "TIME": ResponseError("NOPERM")}, 0),
        (
            "odd values",
            {**answers, "CONFIG GET slowlog-log-slower-than": {"slowlog-log-slower-than": "x"}, "CLIENT LIST": None},
            0,
        ),
    ):
        with pytest.MonkeyPatch.context() as patch:
            ticks = iter((5.0, 5.25))
            clock = SimpleNamespace(monotonic=lambda ticks=ticks: next(ticks), time=lambda: 1_800_000_000.0)
            patch.setattr(redis, "time", clock)
            patch.setattr(redis, "is_cluster", lambda _client: False)
            client = Client(replies, skew_s)
            report = redis.read_report(client)
        yield (
            f"{title}: {report.now_ms} {report.rtt_ms} {report.skew_ms} {report.server} {report.missing} {client.sent}"
        )
        yield f"  {report.clients} {[(each.name, each.calls, each.micros, each.failed) for each in report.commands]}"
        for each in report.slow:
            words = each.words if sha not in each.words else "sha"
            yield f"  {each.at_ms} {each.micros} {words} {bool(each.script)} {each.client!r}"
        yield f"  {report.slower_than_micros} {report.keyspace} {[finding.kind for finding in report.findings]}"
    for value in ("5", "5.5", "", "x", "-5", "5.5.5", "."):
        yield (
            f"number {value}: {redis.Report(report.server, {'n': value}).read_number('n') if value != '.' else ''} "
            f"{redis._parse_int(value)}"
        )
    for reply in ({b"a": b"b"}, [b"a", b"b", b"c"], None, b"x", ("a", 1)):
        yield f"pairs {reply!r}: {redis._parse_field_pairs(reply)}"
    for missing in (None, {}, {"a": "why"}, {"a": "", "b": "other"}):
        yield f"missing {missing}: {redis.Report(report.server, {}, missing=missing).explain_missing('a', 'b')!r}"


def metrics() -> Iterator[str]:
    def queue(name: str, ready: int, **more: Any) -> Queue:
        return Queue(
            name,
            "native",
            (Count("ready", State.READY, ready),),
            NOW_MS,
            workers=1,
            oldest_ready_ms=ready * 1_000,
            verdict=Verdict("ok"),
            **more,
        )

    for number in (499, 500, 501, 502):
        lines = prometheus.format_exposition(
            Snapshot(NOW_MS, tuple(queue(f"q{at:03}", at) for at in range(number))), 0.5
        ).splitlines()
        yield (
            f"{number} queues: {len(lines)} lines "
            f"{[line for line in lines if 'other' in line and not line.startswith('#')]}"
        )
    for most in (1, 2, 3):
        queues = [
            queue("other", 5),
            queue("a", 1, is_paused=True),
            queue("zeta", 7, error="" if most < 3 else "broken"),
        ]
        lines = [line for family in prometheus.build_families(queues, most) for line in family.yield_lines()]
        yield f"most {most}: {[line for line in lines if not line.startswith('#')]}"
    for name in ('a"b', "a\\b", "a\nb", "\x1b[0m", "caf\udce9", "é"):
        yield f"{name!r}: {prometheus._escape_label(name)} {prometheus._escape_label(name, is_label=False)}"
    for value in (0, 1, 0.5, 1.0, 1e21, 0.1 + 0.2):
        yield f"{value}: {prometheus._format_metric_value(value)}"
    yield prometheus.format_exposition(None, 1.0)


def places_and_databases() -> Iterator[str]:
    def queue(name: str, *counts: Count) -> Queue:
        return Queue(name, "celery", counts, NOW_MS)

    def shared(number: int, total: int | None, *, is_exact: bool = True) -> Count:
        return Count("unacked", State.RESERVED, number, is_exact, total)

    for title, queues in {
        "none": [],
        "not shared": [queue("a", shared(3, None))],
        "all counted": [queue("a", shared(3, 5)), queue("b", shared(2, 5))],
        "some of none": [queue("a", shared(3, 7)), queue("b", shared(2, 6))],
        "more counted": [queue("a", shared(9, 5))],
        "sampled": [queue("a", shared(3, 9, is_exact=False))],
        "one": [queue("a", shared(3, 4))],
    }.items():
        for complete in ((), ("celery",)):
            places = shared_places.list_shared_places(queues, complete)
            counts = [shared_places.count_in_state(queues, state, complete) for state in (State.RESERVED, State.DEAD)]
            totals = [each and (each.count, each.is_exact) for each in counts]
            yield (
                f"{title}, {complete}: {[tuple(each) for each in places]} {totals} "
                f"{shared_places.describe_unassigned(places)!r}"
            )
    for url in (
        "redis://h:1",
        "redis://h:1/0",
        "redis://h/5?a=b&db=3",
        "unix:///x?db=1",
        "unix:///x?a=b",
        "redis+sentinel://a,b/mymaster/0",
        "redis+sentinel://a,b/mymaster",
        "redis://h/1/2",
    ):
        yield f"{url}: {other_databases.build_database_url(url, 7)}"
    found = [other_databases.OtherDatabase(number, number, ("rq", "celery")[:number]) for number in (1, 2)]
    yield (
        other_databases.describe_other_databases(found, "redis://u:p@h:1/0")
        + "|"
        + other_databases.describe_other_databases([], "u")
    )
    for number in (15, 16, 17):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(other_databases, "_find_queues", lambda _client, at, _settings: at)
            patch.setattr(other_databases, "find_database_number", lambda _client: 3)
            patch.setattr(other_databases, "is_cluster", lambda _client: False)
            settings: Any = None
            yield f"{number} databases: {[*other_databases.find_other_databases(None, settings, range(number + 1))]}"


def loop_reports() -> Iterator[str]:
    systems = {name: registry.create_system(name) for name in ("native", "sidekiq", "rq")}
    queues = {
        Ref(system, f"q{at:02}"): Queue(
            f"q{at:02}", system, next_due_ms=due, next_expiry_ms=expiry, overdue=overdue, expired=overdue
        )
        for system in systems
        for at, (due, expiry, overdue) in enumerate(
            [(None, None, 0), (5, -5, 0), (-3, None, 2), (0, 0, 1), (None, 7, 3)]
        )
    }
    for verb in ("dispatch", "reap"):
        yield f"{verb}: {loops.count_late_jobs(verb, queues.values(), systems)} late"
        for ref, queue in queues.items():
            yield f"  {ref}: {loops.compute_ms_until_work(verb, queue, systems)}"
        for most in (0, 1, 3, 99):
            for first in ((), [Ref("native", "q04"), Ref("native", "q00")]):
                chosen = loops.select_places(verb, queues, systems, most, first)
                yield f"  {most} after {len(first)}: {[f'{ref} {place}' for ref, place in chosen]}"
    upcoming = [
        job("a", "scheduled", due_ms=NOW_MS - 5),
        job("b", "scheduled"),
        job("c", "reserved", deadline_ms=NOW_MS + 5),
        job("d", "reserved", due_ms=1),
    ]
    snapshot = Snapshot(
        NOW_MS, (), (Page("mail", "native", "x", tuple(upcoming), 4), Page("mail", "rq", "x", tuple(upcoming[:1]), 1))
    )
    yield f"upcoming: {[(each.in_ms, each.verb, each.job.id) for each in loops.yield_upcoming_jobs(snapshot, systems)]}"
    many = {
        Ref("native", f"q{at:02}"): Queue(f"q{at:02}", "native", next_due_ms=at, next_expiry_ms=at) for at in range(22)
    }
    taken: list[Any] = []

    def take(focus: Any) -> Any:
        taken.append((len(focus.queues), len(focus.pages), {(page.offset, page.limit) for page in focus.pages}))
        return Snapshot(NOW_MS, tuple(many.values()) if focus.queues else (), snapshot.pages)

    for named in ([{"name": "rqtui-reaper"}, {"name": "rqtui-reaper"}, {}], None):

        def list_clients(named: Any = named) -> Any:
            if named is None:
                raise NoPermissionError("no")
            return named

        engine: Any = SimpleNamespace(
            systems=systems, take_snapshot=take, client=SimpleNamespace(client_list=list_clients)
        )
        for most in (1, 2):
            report = loops.build_loop_report(engine, [*many], most)
            yield (
                f"{most} next: {[tuple(each) for each in report.loops]} {[each.in_ms for each in report.coming]} "
                f"{taken}"
            )
            taken.clear()


PARTS = (
    rights,
    listed_schedules,
    recorded_events,
    job_documents,
    job_attributes,
    server_reports,
    metrics,
    places_and_databases,
    loop_reports,
)


def text() -> Iterator[str]:
    for part in PARTS:
        yield f"== {part.__name__}"
        yield from part()


def test_server_reports_match_the_stored_text() -> None:
    with utc_time_zone():
        lines = [*text()]
    assert_lines_match_file(lines, KEPT)
