"""`run_system_checks` passes for systems that are right, and fails for each fault planted in a copy of RQ."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import arq_subject
import celery_subject
import dispatcher_subject
import msgpack
import orizuru_subject
import pytest
import redisched_subject
import safe_pop_subject
import timeout_sets_subject
from bullmq_subject import BULLMQ
from native_jobs import QUEUE as NATIVE_QUEUE
from native_subject import NATIVE
from redis import Redis
from redis.commands.core import ManagementCommands
from rq_subject import KEYS, QUEUE, RQ
from sidekiq_subject import SIDEKIQ

from rqtui.model import Job
from rqtui.scripts import script as scripts
from rqtui.scripts.include import assemble_script
from rqtui.system_base.system import System
from rqtui.systems import registry
from rqtui.systems.rq.system import Rq
from rqtui.testing import run_system_checks, system_suite


def reset(_attempts: int) -> int:
    return 0


def take_one_back(attempts: int) -> int:
    return max(0, attempts - 1)


SUBJECTS = {
    "native": replace(NATIVE, queue=NATIVE_QUEUE, attempts_after={"requeue": reset, "release": take_one_back}),
    "rq": replace(RQ, queue=QUEUE, shown_facts={"failed": {"name": "tasks.add"}, "queued": {"name": "tasks.add"}}),
    # Sidekiq's own retry by hand (`SortedEntry#retry`, lib/sidekiq/api.rb 6.4) subtracts one from `retry_count`.
    "sidekiq": replace(
        SIDEKIQ,
        queue="default",
        attempts_after={"requeue": take_one_back, "promote": take_one_back, "release": take_one_back},
    ),
    "bullmq": replace(BULLMQ, queue="mail", attempts_after={"requeue": reset}),
}


# Systems whose places depend on the clock: the spec of the system, the time at which its jobs are planted, the subject.
CLOCK_SUBJECTS = {
    "arq": ("arq", arq_subject.NOW, arq_subject.ARQ),
    "celery": (
        "celery",
        celery_subject.NOW,
        replace(celery_subject.CELERY, queue=celery_subject.QUEUE, attempts_after={"release": take_one_back}),
    ),
    "dispatcher": (
        "dispatcher",
        dispatcher_subject.NOW,
        replace(
            dispatcher_subject.DISPATCHER,
            queue=dispatcher_subject.KEYS["ready"],
            identify=lambda job: dispatcher_subject.parse_id(job.body or job.member),
        ),
    ),
    "orizuru": (
        f"orizuru:source={orizuru_subject.SOURCE}",
        orizuru_subject.NOW,
        replace(
            orizuru_subject.ORIZURU,
            queue=orizuru_subject.SOURCE,
            identify=lambda job: read_struct_id(job.body or job.member),
            is_discoverable=False,
        ),
    ),
    "redisched": (
        "redisched:unit=ms",
        redisched_subject.NOW,
        replace(redisched_subject.SUBJECTS["ms"], queue=redisched_subject.TOPIC),
    ),
    "safe_pop": (
        f"safe_pop:queue={safe_pop_subject.QUEUE}",
        safe_pop_subject.NOW,
        replace(safe_pop_subject.SAFE_POP, queue=safe_pop_subject.QUEUE, is_discoverable=False),
    ),
    "timeout_sets": (
        "timeout_sets",
        timeout_sets_subject.NOW,
        replace(timeout_sets_subject.TIMEOUT_SETS, queue="todos", unordered=frozenset(timeout_sets_subject.PLACES)),
    ),
}


def read_struct_id(body: bytes) -> bytes:
    """Return the first field of an orizuru job's struct, or nothing if the body is no struct."""
    fields = msgpack.unpackb(body)
    return fields[0].encode() if isinstance(fields, list) and fields else b""


def stop_clock(patch: pytest.MonkeyPatch, now_ms: int) -> None:
    """Make the scripts of rqtui and the command TIME return one time."""
    sources: dict[int, tuple[str, scripts.Script]] = {}

    def read_source(script: scripts.Script) -> str:
        if id(script) not in sources:
            text = assemble_script(script.file_text, script.path, script.blocks, script)
            sources[id(script)] = text.replace("redis.call('TIME')", f"{{'{now_ms // 1000}', '0'}}"), script
        return sources[id(script)][0]

    def compute_sha(script: scripts.Script) -> str:
        return hashlib.sha1(read_source(script).encode(), usedforsecurity=False).hexdigest()

    patch.setattr(scripts.Script, "source", property(read_source))
    patch.setattr(scripts.Script, "sha", property(compute_sha))
    patch.setattr(ManagementCommands, "time", lambda *_args, **_options: (now_ms // 1000, 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOCK_SUBJECTS)
def test_a_system_whose_places_depend_on_the_clock_passes(
    name: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, now_ms, subject = CLOCK_SUBJECTS[name]
    stop_clock(monkeypatch, now_ms)
    monkeypatch.setattr("rqtui.systems.arq._IDLE_MS", 0)  # the check looks once, and no time passes
    run_system_checks(replace(subject, system=registry.create_system(spec)), client)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_system_that_is_right_passes(name: str, client: Redis) -> None:
    run_system_checks(replace(SUBJECTS[name], system=registry.create_system(name)), client)


def test_a_subject_without_a_system_is_refused(client: Redis) -> None:
    with pytest.raises(ExceptionGroup, match=f"{len(system_suite.SYSTEM_CHECKS)} checks failed") as found:
        run_system_checks(RQ, client)
    assert "needs `system` and `queue`" in str(found.value.exceptions[0])


def plant_in_script(name: str, old: str, new: str, system_name: str = "rq") -> System:
    """Create a system with a script in which `old` is replaced by `new`."""
    system = registry.create_system(system_name)
    script = system.scripts[name]
    assert old in script.source, "the script changed; plant the fault elsewhere"
    faulty = scripts.parse_script(script.source.replace(old, new, 1), script.path)
    system.scripts = FaultyFolder({**system.scripts, name: faulty}, system.scripts.path)
    return system


class FaultyFolder(dict[str, Any]):
    """The scripts of a system by name, with the folder from which they were read."""

    def __init__(self, found: Mapping[str, Any], path: Any) -> None:
        super().__init__(found)
        self.path = path


def override(**methods: Callable[..., Any]) -> System:
    """Create RQ's system with other methods."""
    return type("Faulty", (Rq,), methods)()


def decode_with(**changes: object) -> System:
    """Create RQ's system whose `decode` changes some attributes of each job."""

    def decode(self: Rq, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        return replace(Rq.decode(self, queue, place, row, now_ms), **changes)  # type: ignore[arg-type]

    return override(decode=decode)


def find_no_queue(_self: Rq, _client: Any) -> Iterator[list[str]]:
    yield []


def raise_error(_self: Rq, *_args: object) -> Job:
    raise ValueError("this row is odd")


FAULTS: Sequence[tuple[str, Callable[[], System], str]] = (
    (
        "a count is off by one",
        lambda: plant_in_script("counts", "unpack(row)}", "row[1] + 1, unpack(row, 2)}"),
        "counts",
    ),
    (
        "two final places are swapped",
        lambda: plant_in_script("counts", "finished, failed, canceled}", "failed, finished, canceled}"),
        "counts",
    ),
    ("a page begins at the end", lambda: plant_in_script("page", "'ZRANGE'", "'ZREVRANGE'"), "pages"),
    (
        "a page ignores its offset",
        lambda: plant_in_script("page", "local last, rows = offset", "offset = 0 local last, rows = offset"),
        "pages",
    ),
    (
        "a page has one job too many",
        lambda: plant_in_script("page", "offset + limit - 1, {}", "offset + limit, {}"),
        "pages",
    ),
    (
        "show names the wrong place",
        lambda: plant_in_script("show", "'found', now_ms, place", "'found', now_ms, 'failed'"),
        "jobs_name",
    ),
    (
        "show finds nothing",
        lambda: plant_in_script("show", "local answer = {", "if true then return 'gone' end local answer = {"),
        "jobs_name",
    ),
    ("decode raises", lambda: override(decode=raise_error), "jobs_name"),
    ("decode reports a problem", lambda: decode_with(problem="unread"), "jobs_name"),
    ("decode names another place", lambda: decode_with(place="queued"), "jobs_name"),
    ("decode loses the body", lambda: decode_with(body=None), "jobs_name"),
    ("decode loses the name", lambda: decode_with(name=""), "facts"),
    ("decode loses the id", lambda: decode_with(id=b"same"), "pages"),
    ("discover misses the queue", lambda: override(discover=find_no_queue), "found"),
    (
        "enqueue writes no record",
        lambda: plant_in_script("enqueue", "redis.call('HSET', key, unpack(hash))", ""),
        "new_jobs",
    ),
    ("enqueue lists no id", lambda: plant_in_script("enqueue", "'RPUSH', queued, id", "'LLEN', queued"), "new_jobs"),
    (
        "a record expires in a second",
        lambda: plant_in_script("enqueue", "unpack(hash))\n", "unpack(hash)) redis.call('EXPIRE', key, 1)\n"),
        "new_jobs",
    ),
    (
        "a delay is taken as a due time",
        lambda: plant_in_script("enqueue", "now_ms + delay_ms", "delay_ms + now_ms * 2"),
        "delays",
    ),
    (
        "a delay is taken as seconds",
        lambda: plant_in_script("enqueue", "now_ms + delay_ms", "now_ms + delay_ms * 1000"),
        "delays",
    ),
    ("delete leaves the record", lambda: plant_in_script("delete", "delete_data(job[1], job[2])", ""), "deleted"),
    ("delete leaves the entry", lambda: plant_in_script("delete", "redis.call('ZREM', key, job[1])", ""), "deleted"),
)


FAULTS_OF_VERBS: Sequence[tuple[str, str, str, str, str]] = (
    ("bullmq", "requeue", "'atm', 'ats', 'stc'", "'stc'", "moves"),
    ("bullmq", "promote", "add_ready(queue, job[1], job[2]", "add_ready(queue, job[1], 0", "priority"),
    ("native", "reschedule", "now_ms + delay_ms", "now_ms + delay_ms * 1000", "moves"),
    ("native", "promote", "(tonumber(own) or tonumber(priority or 0))", "0", "priority"),
    ("native", "requeue", "redis.call('ZADD', ready", "redis.call('DEL', jobs) redis.call('ZADD', ready", "moves"),
    ("native", "cancel", "priority, 'c', worker", "priority, '-', worker", "cancelled"),
    ("native", "release", "tonumber(tried) - 1", "tonumber(tried)", "moves"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "script", "old", "new", "check"), FAULTS_OF_VERBS, ids=[f"{row[0]} {row[1]}" for row in FAULTS_OF_VERBS]
)
def test_a_fault_in_a_verb_is_caught(system: str, script: str, old: str, new: str, check: str, client: Redis) -> None:
    with pytest.raises(ExceptionGroup) as found:
        run_system_checks(replace(SUBJECTS[system], system=plant_in_script(script, old, new, system)), client)
    assert check in str(found.value), str(found.value)


def test_attempts_that_are_never_shown_are_caught(client: Redis) -> None:
    def decode(self: Any, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        return replace(kind.decode(self, queue, place, row, now_ms), attempts=0)

    kind: Any = type(registry.create_system("bullmq"))
    faulty = type("Faulty", (kind,), {"decode": decode})()
    with pytest.raises(ExceptionGroup, match="attempts_are_shown"):
        run_system_checks(replace(SUBJECTS["bullmq"], system=faulty), client)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "create", "check"), FAULTS, ids=[name for name, *_rest in FAULTS])
def test_a_planted_fault_is_caught(name: str, create: Callable[[], System], check: str, client: Redis) -> None:
    with pytest.raises(ExceptionGroup) as found:
        run_system_checks(replace(SUBJECTS["rq"], system=create()), client)
    assert check in str(found.value), str(found.value)


def test_a_finding_is_made_and_seen_or_the_check_fails(client: Redis) -> None:
    subject = replace(SUBJECTS["rq"], system=Rq())
    some = {"scheduler_behind": lambda _client: None}
    with pytest.raises(ExceptionGroup) as found:
        run_system_checks(replace(subject, faults=some), client)
    [error] = found.value.exceptions
    assert "`faults` of the Subject does not make: abandoned, " in str(error)


class OneListedText(dict[str, Any]):
    """The texts of RQ's findings, of which the checks see only one kind."""

    def __missing__(self, kind: str) -> Any:
        return Rq().finding_texts[kind]


@pytest.mark.parametrize(("is_made", "failures"), [(True, 0), (False, 1)])
def test_a_fault_that_no_finding_reports_is_caught(client: Redis, is_made: bool, failures: int) -> None:
    system = Rq()
    system.finding_texts = OneListedText(ghost=system.finding_texts["ghost"])

    def make_ghost(redis: Redis) -> None:
        if is_made:
            redis.lpush(KEYS["queued"], b"ghost")

    subject = replace(SUBJECTS["rq"], system=system, faults={"ghost": make_ghost})
    failed: tuple[Exception, ...] = ()
    try:
        run_system_checks(subject, client)
    except* AssertionError as found:
        failed = found.exceptions
    assert len(failed) == failures
    assert all("ghost is not reported after its fault was made" in str(error) for error in failed)
