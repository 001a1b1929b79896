"""Check that a queue system shows what is in Redis: its Python and its reading scripts together, through the engine.

`run_all` checks that scripts move jobs and lose none. `run_system_checks` checks what people see: the queue is found,
each place counts as many jobs as it holds, pages keep the order at each offset, a job names its place and decodes, a
new job has its body and its time, a moved job keeps its body, priority and attempts, a deleted job leaves nothing, and
each finding appears with its fault and not before.
The places get different numbers of jobs, so that two confused places are noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from redis import Redis

from rqtui.engine.engine import Engine
from rqtui.model import Job, Ref, State
from rqtui.system_base.system import System
from rqtui.testing.subject import JobDatabase, Planted, Subject

_TOLERANCE_MS = 2_000  # between the request of a delay and its time; the clocks of two machines differ less
_DELAY_MS = 90_000
_SHORTEST_TTL_S = 60
_BODY_BYTES = 1_000_000
_LIMITS = (1, 2, 5)
_OFFSETS = (0, 1, 3, -1, -2, -4)
_MOVES: Mapping[str, Mapping[str, object]] = {
    "requeue": {},
    "promote": {},
    "reschedule": {"delay_ms": _DELAY_MS},
    "release": {},
}
"""The verbs of `check_moves_keep_jobs` with their arguments."""


class _Check:
    """The database, engine and queue of one check."""

    def __init__(self, subject: Subject, client: Redis) -> None:
        if subject.system is None or not subject.queue:
            raise ValueError(f"the Subject of {subject.name} needs `system` and `queue` for these checks")
        self.subject, self.client = subject, client
        self.system: System = subject.system
        self.database = JobDatabase(subject, client)
        self.engine = Engine(client, [self.system])
        self.ref = Ref(self.system.name, subject.queue)
        self.stored_places = tuple(place for place in self.system.places if not place.is_from_events)

    def plant_everywhere(self) -> dict[str, list[Planted]]:
        """Plant two jobs in the first place, three in the second, and so on. Return them by place."""
        return {place: self.database.plant(place, number) for number, place in enumerate(self.subject.places, 2)}

    def list_members(self, place: str) -> list[bytes]:
        return self.subject.members(self.client, place)

    def fetch_jobs(self, place: str, offset: int = 0, limit: int = 500) -> list[Job]:
        return [*self.engine.fetch_page(self.ref, place, offset, limit, _BODY_BYTES).jobs]

    def list_all_jobs(self) -> list[Job]:
        return [job for place in self.stored_places for job in self.fetch_jobs(place.name)]

    def identify(self, job: Job) -> bytes:
        return self.subject.identify(job)

    def find_shown_job(self, identity: bytes) -> Job | None:
        """Return the job of this identity from the pages of all places, or None. Fails if it is shown twice."""
        jobs = [job for job in self.list_all_jobs() if self.identify(job) == identity]
        assert len(jobs) <= 1, f"{identity!r} is shown in {' and '.join(job.place for job in jobs)}"
        return jobs[0] if jobs else None

    def put(self, **fields: object) -> Job:
        """Put a job, and return it as the engine reads it. Fails unless exactly one job more is shown."""
        before = {(job.place, self.identify(job)) for job in self.list_all_jobs()}
        body = self.subject.new_body or self.system.body_template.encode()
        [outcome] = self.engine.send_request(self.system.put_request(self.ref.queue, [{"body": body, **fields}]))
        assert outcome.moved, f"enqueue answered {outcome.word}: {outcome.text}"
        new = [job for job in self.list_all_jobs() if (job.place, self.identify(job)) not in before]
        assert len(new) == 1, f"after enqueue, {len(new)} new jobs are shown instead of 1"
        return new[0]


def run_system_checks(subject: Subject, client: Redis) -> None:
    """Run every check on an empty database; fail with the names and errors of all checks that failed.

    The database is emptied. `subject.system` and `subject.queue` must be set.
    """
    failed: dict[str, Exception] = {}
    for check in SYSTEM_CHECKS:
        try:
            check(_Check(subject, client))
        except Exception as error:
            error.add_note(f"in the check {check.__name__} of {subject.name}")
            if isinstance(error, KeyError):
                error.add_note("if this is a column of a row: `returns` of page.lua and show.lua name the columns")
            failed[check.__name__] = error
    if failed:
        raise ExceptionGroup(f"{len(failed)} checks failed: {'; '.join(failed)}", [*failed.values()])


def check_queue_is_found(check: _Check) -> None:
    """Fail unless rqtui finds the queue by its keys, when each place holds jobs and no option names it."""
    if not check.subject.is_discoverable:
        return
    check.plant_everywhere()
    unnamed_system = type(check.system)(is_asked=False)
    unnamed_system.scripts = check.system.scripts
    engine = Engine(check.client, [unnamed_system])
    names = sorted(ref.queue for refs in engine.discover(fully=True) for ref in refs)
    assert check.ref.queue in names, f"the queue {check.ref.queue} was not found; found: {', '.join(names) or 'none'}"
    assert unnamed_system.has_queue(check.client, check.ref.queue), (
        f"`has_queue` says that there is no queue {check.ref.queue}, so a command finds it by its name only with the "
        f"system in front: {check.ref}"
    )


def check_counts_equal_members(check: _Check) -> None:
    """Fail unless each place counts exactly the jobs that it holds."""
    check.plant_everywhere()
    [queue] = check.engine.send_requests([check.system.queue_request(check.ref.queue)])
    for place in check.subject.places:
        counted, held = queue.count_in_place(place), len(check.list_members(place))
        assert counted == held, f"{place}: counts says {counted}, and it holds {held}"


def check_pages_keep_the_order(check: _Check) -> None:
    """Fail unless pages at several offsets and limits are parts of the place in its order."""
    for place in check.subject.places:
        check.database = JobDatabase(check.subject, check.client)
        check.database.plant(place, 7)
        members = check.list_members(place)
        shown = [check.identify(job) for job in check.fetch_jobs(place)]
        if place in check.subject.unordered:
            assert sorted(shown) == sorted(members), f"{place}: page shows {shown}, and the place holds {members}"
            continue
        assert shown == members, f"{place}: page shows {shown}, and the order is {members}"
        for offset in _OFFSETS:
            for limit in _LIMITS:
                jobs = [check.identify(job) for job in check.fetch_jobs(place, offset, limit)]
                end = len(members) + offset + 1
                start = offset if offset >= 0 else max(0, end - limit)
                expected = members[start : start + limit]
                assert jobs == expected, f"{place}: page at {offset}, limit {limit}: {jobs} instead of {expected}"


def check_jobs_name_their_place(check: _Check) -> None:
    """Fail unless each job of a page is found by its id, in the same place and state, and decodes without a problem."""
    for name, planted in check.plant_everywhere().items():
        place = check.system.place(name)
        jobs = check.fetch_jobs(name)
        assert len(jobs) == len(planted), f"{name}: {len(jobs)} of {len(planted)} planted jobs are shown"
        for job in jobs:
            found = check.engine.fetch_job(check.ref, job.id, -1)
            assert found is not None, f"{name}: show does not find {job.id!r}, which page lists"
            for each, source in ((job, "page"), (found, "show")):
                assert (each.place, each.state) == (name, place.state), f"{name}: {source} says {each.place}"
                assert not each.problem, f"{name}: {source}: {each.problem}"
            body = check.subject.body(check.client, check.identify(job))
            assert body is None or found.body is not None, f"{name}: show of {job.id!r} has no body"
            if check.subject.has_plain_bodies and body is not None:
                assert found.body == body, f"{name}: the body is {found.body!r} instead of {body!r}"


def check_facts_are_decoded(check: _Check) -> None:
    """Fail unless each fact that the Subject lists for a place is shown for each job of it."""
    for name, facts in check.subject.shown_facts.items():
        check.database = JobDatabase(check.subject, check.client)
        check.database.plant(name, 3)
        for job in check.fetch_jobs(name):
            found = check.engine.fetch_job(check.ref, job.id, -1)
            for each, source in ((job, "page"), (found, "show")):
                for fact, expected in facts.items():
                    value = getattr(each, fact)
                    assert value == expected, f"{name}: {source} says {fact} {value!r} instead of {expected!r}"


def check_new_jobs_are_shown(check: _Check) -> None:
    """Fail unless a new job is shown once, with a body, and expires in no less than a minute."""
    if "enqueue" not in check.system.scripts:
        return
    keys = set(check.client.scan_iter())
    job = check.put()
    assert not job.problem, f"a new job has the problem: {job.problem}"
    assert job.body is not None or job.body_bytes, "a new job has no body"
    for key in set(check.client.scan_iter()) - keys:
        left_s = check.client.ttl(key)
        assert left_s == -1 or left_s >= _SHORTEST_TTL_S, f"{key!r} of a new job expires in {left_s} s"


def check_delays_are_exact(check: _Check) -> None:
    """Fail unless a job that is put with a delay is due after that delay, within two seconds."""
    script = check.system.scripts.get("enqueue")
    if script is None or not {"delay_ms", "due_ms"} & {
        *(column.name for column in script.each),
        *check.system.converted_fields,
    }:
        return
    job = check.put(delay_ms=_DELAY_MS)
    now_ms = check.engine.fetch_server_time_ms()
    assert job.due_ms is not None, f"a delayed job, in {job.place}, shows no due time"
    error_ms = job.due_ms - now_ms - _DELAY_MS
    assert abs(error_ms) < _TOLERANCE_MS, f"a job with a delay of {_DELAY_MS} ms is due {error_ms} ms off"


def check_attempts_are_shown(check: _Check) -> None:
    """Fail if a system that stores attempts shows none for each planted job."""
    if "tried" in check.system.known_fields:
        check.plant_everywhere()
        attempts = [job.attempts for job in check.list_all_jobs()]
        assert any(attempts), "no planted job shows an attempt, and `known_fields` says that attempts are stored"


def check_moves_keep_jobs(check: _Check) -> None:
    """Fail unless a requeue, promote, reschedule or release keeps body, priority and attempts, and sets the right time.

    A release may refuse a job that a worker holds.
    """
    for verb, arguments in _MOVES.items():
        for place in check.subject.places:
            if not check.system.can(verb, place):
                continue
            check.database = JobDatabase(check.subject, check.client)
            check.database.plant(place, 3)
            before, *_rest = check.fetch_jobs(place)
            [outcome] = check.engine.apply_verb(verb, check.ref, [before], arguments)
            if not outcome.moved and before.state is State.RESERVED:
                continue  # A worker holds it.
            assert outcome.moved, f"{place}: {verb} answered {outcome.word}: {outcome.text}"
            after = check.find_shown_job(check.identify(before))
            assert after is not None, f"{place}: after {verb} the job is not shown"
            _compare_moved_job(check, verb, before, after)


def _compare_moved_job(check: _Check, verb: str, before: Job, after: Job) -> None:
    source = f"{verb} from {before.place} to {after.place}"
    compute_attempts = check.subject.attempts_after.get(verb)
    attempts = compute_attempts(before.attempts) if compute_attempts else before.attempts
    assert not after.problem, f"{source}: {after.problem}"
    assert (after.body is None) == (before.body is None), f"{source}: the job has no body any more"
    assert after.attempts == attempts, f"{source}: the job shows {after.attempts} attempts instead of {attempts}"
    assert after.priority == before.priority, f"{source}: the priority is {after.priority}, not {before.priority}"
    if check.subject.has_plain_bodies:
        assert after.body == before.body, f"{source}: the body is {after.body!r} instead of {before.body!r}"
    if verb == "release" and after.state is State.SCHEDULED:
        assert after.due_ms == before.due_ms, f"{source}: the job is due at {after.due_ms}, not {before.due_ms}"
        return
    error_ms = (after.due_ms or 0) - check.engine.fetch_server_time_ms()
    if verb == "reschedule":
        error_ms -= _DELAY_MS
        assert after.due_ms is not None, f"{source}: the job shows no due time"
        assert abs(error_ms) < _TOLERANCE_MS, f"{source}: the job is due {error_ms} ms off"
    else:
        assert error_ms < _TOLERANCE_MS, f"{source}: the job is due only in {error_ms} ms"


def check_promoted_jobs_keep_their_priority(check: _Check) -> None:
    """Fail unless delayed jobs with the priorities 5 and 3 keep them when promoted, and workers take 3 before 5."""
    script = check.system.scripts.get("enqueue")
    names = {column.name for column in script.each} | {*check.system.converted_fields} if script else set()
    if not {"priority", "delay_ms"} <= names or "promote" not in check.system.scripts:
        return
    promoted = []
    for priority in (5, 3):
        job = check.put(priority=priority, delay_ms=_DELAY_MS)
        assert job.priority == priority, f"a job that was put with priority {priority} shows {job.priority}"
        [outcome] = check.engine.apply_verb("promote", check.ref, [job])
        after = check.find_shown_job(check.identify(job))
        assert outcome.moved and after is not None, f"promote answered {outcome.word}: {outcome.text}"
        assert after.priority == priority, f"promote changes the priority {priority} to {after.priority}"
        promoted.append(after)
    order = [check.identify(job) for job in check.fetch_jobs(promoted[0].place)]
    last, first = (check.identify(job) for job in promoted)
    assert order == [first, last], f"after promote, {promoted[0].place} has the order {order}, not {[first, last]}"


def check_cancelled_jobs_are_shown(check: _Check) -> None:
    """Fail if a cancel answers that it changed a job, and the job is shown as before."""
    for place in check.subject.places:
        if not check.system.can("cancel", place):
            continue
        check.database = JobDatabase(check.subject, check.client)
        check.database.plant(place, 3)
        job, *_rest = check.fetch_jobs(place)
        [outcome] = check.engine.apply_verb("cancel", check.ref, [job])
        after = check.find_shown_job(check.identify(job))
        is_unchanged = after is not None and after.place == place and not after.is_cancelled
        assert not (outcome.moved and is_unchanged), f"{place}: cancel answered {outcome.word} and changed nothing"


def check_deleted_jobs_leave_nothing(check: _Check) -> None:
    """Fail unless a delete, from each place that it takes from, leaves neither an entry nor a record of the job.

    It may refuse a job that a worker holds.
    """
    for place in check.subject.places:
        if not check.system.can("delete", place):
            continue
        check.database = JobDatabase(check.subject, check.client)
        check.database.plant(place, 3)
        first, *_rest = check.fetch_jobs(place)
        [outcome] = check.engine.apply_verb("delete", check.ref, [first])
        if not outcome.moved and first.state is State.RESERVED:
            continue  # A worker holds it.
        assert outcome.moved, f"{place}: delete answered {outcome.word}: {outcome.text}"
        identity = check.identify(first)
        assert identity not in check.list_members(place), f"{place}: the deleted job is still listed"
        facts = check.subject.facts(check.client, identity)
        assert not facts, f"{place}: a deleted job leaves {facts!r}"
        assert len(check.list_members(place)) == 2, f"{place}: delete removed other jobs"


def check_findings_appear_with_their_fault(check: _Check) -> None:
    """Fail unless each kind of `faults.toml` is reported once its fault is made, and not before."""
    makers, texts = check.subject.faults, getattr(check.system, "finding_texts", {})
    if makers is None:
        return
    missing = sorted(set(texts) - set(makers))
    assert not missing, f"`faults` of the Subject does not make: {', '.join(missing)}"
    for kind, make in makers.items():
        check.database = JobDatabase(check.subject, check.client)
        check.plant_everywhere()
        assert kind not in (found := set(_list_finding_kinds(check))), f"{kind} is reported without its fault: {found}"
        make(check.client)
        found = set(_list_finding_kinds(check))
        assert kind in found, f"{kind} is not reported after its fault was made; reported: {found or 'nothing'}"


def _list_finding_kinds(check: _Check) -> Iterator[str]:
    """Yield the kinds of the system's own findings, as `faults.toml` names them."""
    request = check.system.probe_request(check.ref.queue)
    for finding in check.engine.send_request(request) if request else ():
        yield finding.kind.partition(":")[0].replace("-", "_")


SYSTEM_CHECKS: tuple[Callable[[_Check], None], ...] = (
    check_queue_is_found,
    check_counts_equal_members,
    check_pages_keep_the_order,
    check_jobs_name_their_place,
    check_facts_are_decoded,
    check_new_jobs_are_shown,
    check_delays_are_exact,
    check_attempts_are_shown,
    check_moves_keep_jobs,
    check_promoted_jobs_keep_their_priority,
    check_cancelled_jobs_are_shown,
    check_deleted_jobs_leave_nothing,
    check_findings_appear_with_their_fault,
)
