"""What each check of the system suite plants and reads, and which wrong answer it notices: `system_checks_kept.txt`.

The system is a table in memory, so that each fault is a line. `RQTUI_WRITE_SNAPSHOTS=1 pytest
tests/testing/test_system_checks_kept.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Bare
from kept_text import assert_lines_match_file

from rqtui.model import Job, Place, State
from rqtui.testing import system_suite

KEPT = Path(__file__).with_name("system_checks_kept.txt")
NOW_MS = 1_800_000_000_000
READY, HELD, LATE = (
    Place("ready", State.READY, "", "list"), Place("held", State.RESERVED, "", "list"),
    Place("late", State.SCHEDULED, "", "zset"),
)  # fmt: skip
VERBS = {
    "requeue": ("held",), "promote": ("late",), "reschedule": ("late",), "release": ("held",), "cancel": ("ready",),
    "delete": ("held",),
}  # fmt: skip


class Table:
    """The jobs of a queue by place, with the answers that the checks get. It writes down what they ask for."""

    def __init__(self, **faults: Any) -> None:
        self.faults, self.log = faults, list[str]()
        self.jobs: dict[str, list[Job]] = {}
        self.facts: dict[str, str] = {}

    def change(self, kind: str, answer: Any) -> Any:
        """Return an answer, or what the fault of this kind makes of it."""
        return self.faults.get(kind, lambda usual: usual)(answer)

    def build_job(self, place: Place, number: int, **more: Any) -> Job:
        due_ms = NOW_MS + 1_000 if place is LATE else None
        values = {"body": b"{}", "due_ms": due_ms, "attempts": 2, "priority": 4, **more}
        return Job(b"%s%d" % (place.name.encode(), number), "q", "s", place.name, place.state, b"", **values)

    def plant(self, name: str, number: int) -> list[bytes]:
        self.log.append(f"plant {number} in {name}")
        self.jobs[name] = [self.build_job(PLACES[name], at) for at in range(number)]
        return [job.id for job in self.jobs[name]]

    def fetch_page(self, _ref: Any, place: str, offset: int, limit: int, body_bytes: int) -> Any:
        self.log.append(f"page {place} {offset} {limit} {body_bytes}")
        jobs = self.jobs.get(place, [])
        end = len(jobs) + offset + 1
        start = offset if offset >= 0 else max(0, end - limit)
        return SimpleNamespace(
            jobs=self.change(f"page {offset} {limit}", self.change("page", jobs[start : start + limit]))
        )

    def fetch_job(self, _ref: Any, id: bytes, body_bytes: int) -> Job | None:
        self.log.append(f"show {id.decode()} {body_bytes}")
        found = next((job for jobs in self.jobs.values() for job in jobs if job.id == id), None)
        return self.change("show", found)

    def apply_verb(self, verb: str, _ref: Any, jobs: list[Job], arguments: Any = None) -> list[Any]:
        self.log.append(f"{verb} {jobs[0].id.decode()} {arguments or ''}")
        [job] = jobs
        self.jobs[job.place].remove(job)
        target = LATE if verb == "reschedule" else READY
        if verb != "delete":
            due_ms = NOW_MS + 90_000 if verb == "reschedule" else None
            moved = replace(job, place=target.name, state=target.state, due_ms=due_ms, is_cancelled=verb == "cancel")
            self.jobs.setdefault(target.name, []).append(self.change("moved", moved))
            self.jobs[target.name].sort(key=lambda each: each.priority)
        return [self.change("outcome", SimpleNamespace(moved=True, word="moved", text=""))]

    def fetch_server_time_ms(self) -> int:
        return NOW_MS

    def send_request(self, request: Any) -> Any:
        return request()

    def send_requests(self, requests: list[Any]) -> list[Any]:
        return [request() for request in requests]

    def count_in_place(self, place: str) -> int:
        return self.change("count", len(self.jobs[place]))

    def put(self, rows: list[dict[str, Any]]) -> Callable[[], list[Any]]:
        def send() -> list[Any]:
            [row] = rows
            self.log.append(f"put {row}")
            place = LATE if "delay_ms" in row else READY
            due_ms = NOW_MS + row["delay_ms"] if "delay_ms" in row else None
            job = self.build_job(place, 90 + len(self.jobs), due_ms=due_ms, priority=row.get("priority", 0))
            self.jobs.setdefault(place.name, []).append(self.change("put", job))
            return [self.change("outcome", SimpleNamespace(moved=True, word="moved", text=""))]

        return send


PLACES = {place.name: place for place in (READY, HELD, LATE)}


def build_check(table: Table, **subject: Any) -> Any:
    """Build a check whose subject, client, system and engine are the table."""
    column = SimpleNamespace(name="delay_ms"), SimpleNamespace(name="priority")
    system = SimpleNamespace(
        scripts={"enqueue": SimpleNamespace(each=column), "promote": 1}, converted_fields={}, known_fields={"tried"},
        place=PLACES.get, body_template="{}", put_request=lambda _queue, rows: table.put(rows),
        queue_request=lambda _queue: lambda: table, can=lambda verb, place: place in VERBS[verb],
        probe_request=lambda _queue: lambda: table.change("findings", []), finding_texts={"stuck": ""},
    )  # fmt: skip
    client = SimpleNamespace(
        scan_iter=lambda: [f"key{at}" for at in range(sum(map(len, table.jobs.values())))],
        ttl=lambda _key: table.change("ttl", -1),
    )
    usual = {
        "places": tuple(PLACES), "unordered": {"held"}, "shown_facts": {"ready": {"attempts": 2}}, "new_body": b"",
        "members": lambda _client, place: [job.id for job in table.jobs[place]], "identify": lambda job: job.id,
        "body": lambda _client, _id: table.change("body", b"{}"), "has_plain_bodies": True, "attempts_after": {},
        "facts": lambda _client, _id: table.change("facts", {}), "faults": {"stuck": lambda _client: None},
    }  # fmt: skip
    return Bare(
        system_suite._Check, subject=SimpleNamespace(**{**usual, **subject}), client=client, system=system,
        database=table, engine=table, ref=SimpleNamespace(queue="q"), stored_places=tuple(PLACES.values()),
    )  # fmt: skip


def replace_all(**fields: Any) -> Callable[[Any], Any]:
    """Return a fault that changes fields of each job, or of one."""

    def change(jobs: Any) -> Any:
        return [replace(job, **fields) for job in jobs] if isinstance(jobs, list) else replace(jobs, **fields)

    return change


def reschedule(due_ms: int) -> Callable[[Job], Job]:
    """Return a fault that changes the due time of a job which was moved to the place of delayed jobs."""
    return lambda job: replace(job, due_ms=due_ms) if job.place == LATE.name else job


def refuse(outcome: Any) -> Any:
    return SimpleNamespace(moved=False, word="refused", text="no")


def find_stuck_jobs() -> Callable[[list[Any]], list[Any]]:
    """Return the answers of a probe which finds `stuck` from the second call on."""
    answers = iter(([], [SimpleNamespace(kind="stuck:ready")]))
    return lambda _findings: next(answers)


def build_cases() -> Iterator[tuple[Callable[[Any], None], str, Any]]:
    """Yield the checks with the title of a fault, and a function that builds the check with it."""
    pages = [(offset, limit) for offset in system_suite._OFFSETS for limit in system_suite._LIMITS]
    faults: dict[Callable[[Any], None], dict[str, dict[str, Any]]] = {
        system_suite.check_counts_equal_members: {"one more": {"count": lambda number: number + 1}},
        system_suite.check_pages_keep_the_order: {
            f"page {offset} {limit} reversed and cut": {f"page {offset} {limit}": lambda jobs: [*reversed(jobs)][:-1]}
            for offset, limit in pages
        },
        system_suite.check_jobs_name_their_place: {
            "a job too few": {"page": lambda jobs: jobs[1:]}, "no job": {"show": lambda _job: None},
            "another place": {"page": replace_all(place="x")}, "another state": {"show": replace_all(state=State.DEAD)},
            "a problem": {"show": replace_all(problem="odd")}, "no body": {"show": replace_all(body=None)},
            "another body": {"show": replace_all(body=b"x")}, "no body in Redis": {"body": lambda _body: None},
        },
        system_suite.check_facts_are_decoded: {
            "another fact": {"page": replace_all(attempts=1)},
            "another fact of one job": {"show": replace_all(attempts=3)},
        },
        system_suite.check_new_jobs_are_shown: {
            "refused": {"outcome": refuse}, "a problem": {"put": replace_all(problem="odd")},
            "no body": {"put": replace_all(body=None)},
            "no body but its size": {"put": replace_all(body=None, body_bytes=1)},
            "not shown": {"page": lambda _jobs: []}, "shown twice": {"page": lambda jobs: [*jobs, *jobs]},
            **{f"expires in {ttl}": {"ttl": lambda _ttl, ttl=ttl: ttl} for ttl in (-2, 0, 1, 59, 60)},
        },
        system_suite.check_delays_are_exact: {
            "no due time": {"put": replace_all(due_ms=None)},
            **{
                f"due {off_ms} ms off": {"put": replace_all(due_ms=NOW_MS + 90_000 + off_ms)}
                for off_ms in (-2_000, -1_999, 1_999, 2_000)
            },
        },
        system_suite.check_attempts_are_shown: {"none": {"page": replace_all(attempts=0)}},
        system_suite.check_moves_keep_jobs: {
            "refused": {"outcome": refuse}, "a problem": {"moved": replace_all(problem="odd")},
            "no body": {"moved": replace_all(body=None)}, "another body": {"moved": replace_all(body=b"x")},
            "another number of attempts": {"moved": replace_all(attempts=0)},
            "another priority": {"moved": replace_all(priority=5)},
            **{
                f"due in {in_ms} ms": {"moved": replace_all(due_ms=NOW_MS + in_ms)}
                for in_ms in (-2_000, 1_999, 2_000)
            },
            **{
                f"rescheduled to {in_ms} ms": {"moved": reschedule(NOW_MS + in_ms)}
                for in_ms in (88_000, 88_001, 91_999, 92_000)
            },
            "no due time": {"moved": replace_all(due_ms=None)},
            "scheduled again": {"moved": replace_all(place="late", state=State.SCHEDULED, due_ms=NOW_MS)},
            "another id": {"moved": replace_all(id=b"x")},
        },
        system_suite.check_promoted_jobs_keep_their_priority: {
            "another priority of a new job": {"put": replace_all(priority=4)},
            "another priority when promoted": {"moved": replace_all(priority=4)},
            "refused": {"outcome": refuse}, "another id": {"moved": replace_all(id=b"x")},
        },
        system_suite.check_cancelled_jobs_are_shown: {
            "unchanged": {"moved": replace_all(is_cancelled=False)}, "refused": {"outcome": refuse},
            "not shown": {"moved": replace_all(id=b"x")},
        },
        system_suite.check_deleted_jobs_leave_nothing: {
            "refused": {"outcome": refuse}, "a record is left": {"facts": lambda _facts: {"jobs": 1}},
        },
        system_suite.check_findings_appear_with_their_fault: {
            "never found": {}, "always found": {"findings": lambda _found: [SimpleNamespace(kind="stuck")]},
        },
    }  # fmt: skip
    for check, changes in faults.items():
        right = {"findings": find_stuck_jobs()}
        for title, fault in {"right": right, **changes}.items():
            yield check, title, fault


def text(patch: pytest.MonkeyPatch) -> Iterator[str]:
    def run(check: Callable[[Any], None], table: Table, **subject: Any) -> str:
        patch.setattr(system_suite, "JobDatabase", lambda _subject, _client: table.jobs.clear() or table)
        try:
            check(build_check(table, **subject))
        except AssertionError as error:
            return str(error).partition("\n")[0]
        return "fine"

    for check, title, fault in build_cases():
        table = Table(**fault)
        yield f"== {check.__name__}, {title}: {run(check, table)}"
        if title == "right":
            yield from (f"  {line}" for line in table.log)
    for check in (system_suite.check_moves_keep_jobs, system_suite.check_deleted_jobs_leave_nothing):
        verdict = run(check, Table(outcome=refuse), places=("held",))
        yield f"== {check.__name__}, refused for a job that a worker holds: {verdict}"


def test_what_each_check_plants_and_notices_matches_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_lines_match_file(text(monkeypatch), KEPT)
