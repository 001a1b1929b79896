"""Poll the due times of many queues in one round trip, shared by all loops of a screen.

If a verb takes jobs from sorted sets whose scores are times in ms, the first members of these sets show when there is
work. Most of the sets are empty, so plain commands first ask how many of twenty exist, then for the first members of
those that exist; this takes a quarter of a script's time. Other queues are not covered here, and none on a Cluster,
where no call spans two queues: `loops.build_round` calls the verb's own script for those.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hiredis import Reader

from rqtui.connection.cluster import Cluster
from rqtui.connection.connect import translate_redis_errors
from rqtui.errors import RqtuiError, Unknown, Unreachable, UsageError
from rqtui.model import Queue, Ref
from rqtui.scripts import script as scripts
from rqtui.scripts.script import pack_command
from rqtui.system_base.system import System
from rqtui.text.names import to_bytes

POLL_INTERVAL_S = 1.0  # interval of the polls, in case a job that is due sooner arrived
SNAPSHOT_GRACE_S = 0.25  # extra wait while snapshots are taken: the next one may contain the due times
DURATION_FACTOR = (
    20  # factor from a poll's duration (the shorter of the last two) to the interval: 1000 queues are 76 kB
)
INTERVAL_PER_KEY_S = (
    2e-4  # least interval per key, 500 times its cost for Redis: 10 000 queues are polled every six seconds
)
HORIZON_S = 10.0  # how far ahead due times are reported, at least; longer than the interval
GROUP_KEYS = 20  # keys per EXISTS command: a thousand instructions of the server per key
MAX_OVERDUE_MS = 86_400_000  # Older due times count as this old.
_TIME_SCORES = frozenset({"due ms", "deadline ms", "forget ms"})
_COUNTED_SCORES = {
    "due ms": 0,
    "deadline ms": 1,
}  # scores whose next time is in a queue's counts: (`next_due_ms`, `next_expiry_ms`)


@dataclass(frozen=True, slots=True, eq=False)
class DuePoll:
    """The result of one poll: when a verb next has work in each of many queues (`time.monotonic`).

    `refs` are the polled queues, as the same object while they are the same. A polled queue without a due time is not
    due until `next_poll_s`. With `is_from_snapshot` the times come from the counts of a snapshot.
    """

    due_s: Mapping[Ref, float]
    refs: Mapping[Ref, None]
    next_poll_s: float
    is_from_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class _Coverage:
    """The queues of a loop, and those of them (`covered`) whose keys contain the due times of the loop's verb."""

    refs: Sequence[Ref]
    covered: Mapping[Ref, None]


@dataclass(slots=True, eq=False)
class _PollPlan:
    """The Redis commands of one poll of due times, for its verbs. A key that several verbs need is read once.

    `groups` are EXISTS commands for `GROUP_KEYS` keys each. `nonempty` has an entry for each key that existed at the
    last poll: the position of the key among all keys, and the command that reads its first member.
    """

    coverages: Mapping[str, _Coverage]
    verbs: Sequence[tuple[str, ...]]
    refs: Sequence[Ref]
    groups: Sequence[bytes]
    nonempty: dict[int, bytes] = field(default_factory=dict)


class DueTimes:
    """Polls the due times of queues once a second for several loops, which share the result. Thread-safe."""

    def __init__(self, systems: Mapping[str, System]) -> None:
        self._systems = systems
        self._lock = threading.Lock()
        self._coverages: dict[str, _Coverage] = {}
        self._plan = _PollPlan({}, (), (), ())
        self._last_request_s: dict[str, float] = {}  # last call by verb: verbs of stopped loops are not polled
        self._polls: dict[str, DuePoll] = {}
        self._snapshot_s = -math.inf  # when a snapshot last replaced a poll
        self._duration_s = (
            0.0  # duration of the last poll; the first one, which loads a script, does not delay the next
        )
        self._is_unavailable = False

    def poll(self, client: Any, verb: str, refs: Sequence[Ref]) -> DuePoll | None:
        """Return the due times of these queues for a verb, polling Redis if the last poll is too old.

        Returns None if due times cannot be polled. Raises Unreachable and Unknown. `refs` must be the same list object
        while the queues are the same.
        """
        if self._is_unavailable or isinstance(client, Cluster):
            return None
        with self._lock:
            coverage = self._coverages.get(verb)
            if coverage is None or coverage.refs is not refs:
                self._coverages[verb] = self._find_covered_queues(verb, refs)
                self._polls.pop(verb, None)
            self._last_request_s[verb] = time.monotonic()
            poll = self._polls.get(verb)
            if poll is None or time.monotonic() >= poll.next_poll_s:
                self._poll_due_times(client)
            return self._polls.get(verb)

    def use_snapshot_counts(self, queues: Mapping[Ref, Queue]) -> None:
        """Take the due times from the counts of a snapshot in place of a poll, if the counts contain all of them.

        Counts say when the next job is due and when the next lease ends, but not when finished jobs must be deleted: if
        there are such jobs, Redis is polled.
        """
        now_s = time.monotonic()
        # A poll reads the same times. Over a slow link it holds the lock for seconds, for which the screen would wait.
        if not self._lock.acquire(blocking=False):
            return
        try:
            in_ms_by_verb = {
                verb: _extract_due_times_of_snapshot(self._systems, verb, coverage, queues)
                for verb, coverage in self._coverages.items()
            }
            requested_verbs = [
                verb
                for verb, request_s in self._last_request_s.items()
                if now_s - request_s < 3 * POLL_INTERVAL_S and verb in in_ms_by_verb
            ]
            if (
                self._is_unavailable
                or not requested_verbs
                or any(in_ms_by_verb[verb] is None for verb in requested_verbs)
            ):
                return
            for verb in requested_verbs:
                due_s = {ref: now_s + in_ms / 1000 for ref, in_ms in (in_ms_by_verb[verb] or {}).items()}
                self._polls[verb] = DuePoll(
                    due_s, self._coverages[verb].covered, now_s + POLL_INTERVAL_S, is_from_snapshot=True
                )
            self._snapshot_s = now_s
        finally:
            self._lock.release()

    def _find_covered_queues(self, verb: str, refs: Sequence[Ref]) -> _Coverage:
        """Find which of these queues have keys that contain the due times of a verb."""
        covered = {ref: None for ref in refs if find_due_keys(self._systems[ref.system], verb, ref.queue)}
        other_coverages = [coverage.covered for coverage in self._coverages.values()]
        return _Coverage(
            refs, next((other_covered for other_covered in other_coverages if other_covered == covered), covered)
        )  # Both loops mostly cover the same queues and share one object.

    def _poll_due_times(self, client: Any) -> None:
        """Poll Redis for the due times of all verbs that a loop requested recently, and store them."""
        began_s = time.monotonic()
        coverages = {
            verb: self._coverages[verb]
            for verb, request_s in self._last_request_s.items()
            if began_s - request_s < 3 * POLL_INTERVAL_S
        }
        if coverages != self._plan.coverages:
            self._plan = self._build_poll_plan(coverages)
        within_ms = int(1000 * max(HORIZON_S, 2 * INTERVAL_PER_KEY_S * len(self._plan.refs)))
        try:
            first_scores, now_ms = _read_first_scores(client, self._plan)
        except (Unreachable, Unknown):
            raise
        except RqtuiError:  # For example an ACL that allows only the keys of the verb's own script.
            self._is_unavailable = True
            self._polls.clear()
            return
        now_s = time.monotonic()
        usual_duration_s, self._duration_s = min(self._duration_s, now_s - began_s), now_s - began_s
        interval_s = POLL_INTERVAL_S + (SNAPSHOT_GRACE_S if began_s - self._snapshot_s < 3 * POLL_INTERVAL_S else 0.0)
        next_s = began_s + max(
            interval_s, DURATION_FACTOR * usual_duration_s, INTERVAL_PER_KEY_S * len(self._plan.refs)
        )
        due_s: dict[str, dict[Ref, float]] = {verb: {} for verb in coverages}
        for number, score in first_scores.items():
            in_ms = max(-MAX_OVERDUE_MS, score - now_ms)
            ref = self._plan.refs[number]
            for verb in self._plan.verbs[number] if in_ms <= within_ms else ():
                due_s[verb][ref] = min(due_s[verb].get(ref, math.inf), now_s + math.ceil(in_ms) / 1000)
        self._polls.update(
            {verb: DuePoll(due_s[verb], coverage.covered, next_s) for verb, coverage in coverages.items()}
        )

    def _build_poll_plan(self, coverages: Mapping[str, _Coverage]) -> _PollPlan:
        """Build the commands of a poll for several verbs. A place that two verbs read is polled once."""
        verbs: list[tuple[str, ...]] = []
        refs: list[Ref] = []
        keys: list[bytes] = []
        verb_tuples: dict[tuple[str, ...], tuple[str, ...]] = {}  # one shared tuple for many keys
        for ref in dict.fromkeys(ref for coverage in coverages.values() for ref in coverage.covered):
            verbs_by_key: dict[str, tuple[str, ...]] = {}
            for verb in (verb for verb, coverage in coverages.items() if ref in coverage.covered):
                for key in find_due_keys(self._systems[ref.system], verb, ref.queue):
                    verbs_by_key[key] = (*verbs_by_key.get(key, ()), verb)
            for key, key_verbs in verbs_by_key.items():
                verbs.append(verb_tuples.setdefault(key_verbs, key_verbs))
                refs.append(ref)
                keys.append(to_bytes(key))
        groups = [
            pack_command((b"EXISTS", *keys[start : start + GROUP_KEYS])) for start in range(0, len(keys), GROUP_KEYS)
        ]
        return _PollPlan(coverages, verbs, refs, groups)


def _read_first_scores(client: Any, plan: _PollPlan) -> tuple[dict[int, float], int]:
    """Read the score of the first member of each non-empty key, by number, and the server's time in ms.

    Takes one round trip, and another one if a key exists that was empty at the last poll. A key that is no sorted set
    counts as due: the script that uses it reports the error.
    """
    if not plan.groups:
        return {}, 0
    clock, *replies = _run_commands(client, [_TIME, *plan.groups, *plan.nonempty.values()])
    counts, first_replies = replies[: len(plan.groups)], replies[len(plan.groups) :]
    first_members = {
        number: first_member
        for number, first_member in zip(plan.nonempty, first_replies, strict=True)
        if first_member != []
    }
    known_counts = Counter(number // GROUP_KEYS for number in first_members)
    commands = dict(plan.nonempty)
    new_commands = {
        number: command
        for group in range(len(counts))
        if counts[group] > known_counts[group]
        for number, command in _yield_first_member_commands(plan, group)
    }
    if new_commands := {number: command for number, command in new_commands.items() if number not in commands}:
        commands |= new_commands
        new_members = _run_commands(client, [*new_commands.values()])
        first_members |= {
            number: first_member
            for number, first_member in zip(new_commands, new_members, strict=True)
            if first_member != []
        }
    plan.nonempty = {number: commands[number] for number in first_members}
    first_scores = {
        number: float(first_member[1]) if isinstance(first_member, list) else -math.inf
        for number, first_member in first_members.items()
    }
    return first_scores, int(clock[0]) * 1000 + int(clock[1]) // 1000


def _yield_first_member_commands(plan: _PollPlan, group: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each key of a group of twenty, with the command that reads its first member."""
    reader = Reader()
    reader.feed(plan.groups[group])
    _exists, *names = reader.gets()
    for number, name in enumerate(names, group * GROUP_KEYS):
        yield number, pack_command((b"ZRANGE", name, b"0", b"0", b"WITHSCORES"))


def _run_commands(client: Any, commands: Sequence[bytes]) -> list[Any]:
    """Run packed Redis commands and return their replies. A WRONGTYPE error is returned, other errors are raised."""
    [reply_of_pipeline] = scripts.send_calls(client, [scripts.build_read_commands(commands, len(commands))])
    if isinstance(reply_of_pipeline, Exception):
        raise reply_of_pipeline
    replies: list[Any] = reply_of_pipeline.values["replies"]
    for reply in replies:
        if isinstance(reply, Exception) and not str(reply).startswith("WRONGTYPE"):
            with translate_redis_errors():
                raise reply
    return replies


_TIME = pack_command((b"TIME",))


def _extract_due_times_of_snapshot(
    systems: Mapping[str, System], verb: str, coverage: _Coverage, queues: Mapping[Ref, Queue]
) -> dict[Ref, int] | None:
    """Return in how many ms a verb has work in each queue, according to the counts of a snapshot.

    Only queues with work within `HORIZON_S` are listed. Returns None if the counts do not contain all due times.
    """
    if not coverage.covered or len(queues) < len(coverage.covered) or not queues.keys() >= coverage.covered.keys():
        return None
    scores_by_system: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    for name in {ref.system for ref in coverage.covered}:
        script, scores_by_place = (
            systems[name].script(verb),
            {place.name: place.score for place in systems[name].places},
        )
        forgets = frozenset(place for place in script.forgets if scores_by_place.get(place) in _TIME_SCORES)
        scores_by_system[name] = frozenset(scores_by_place[source] for source in script.sources), forgets
    if any(not scores <= _COUNTED_SCORES.keys() for scores, _forgets in scores_by_system.values()):
        return None
    due_in_ms: dict[Ref, int] = {}
    for ref in coverage.covered:
        queue, (scores, forgets) = queues[ref], scores_by_system[ref.system]
        if queue.error or any(count.count and count.place in forgets for count in queue.counts):
            return None
        for score in scores:
            in_ms = (queue.next_due_ms, queue.next_expiry_ms)[_COUNTED_SCORES[score]]
            if in_ms is not None and in_ms <= 1000 * HORIZON_S:
                due_in_ms[ref] = min(in_ms, due_in_ms.get(ref, in_ms))
    return due_in_ms


def find_due_keys(system: System, verb: str, queue: str) -> list[str]:
    """Return the sorted sets of a queue whose first members show when a verb has work; empty if there are none."""
    if not system.can(verb):
        return []
    script = system.script(verb)
    timed_places = {place.name for place in system.places if place.score in _TIME_SCORES and not place.where}
    if not timed_places.issuperset(script.sources):
        return []
    try:
        keys = system.keys(queue)
    except UsageError:  # The verb's own call reports an invalid name.
        return []
    return [keys[name] for name in (*script.sources, *script.forgets) if name in timed_places]
