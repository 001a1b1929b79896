"""Compare the replies that processes got (a history) with the final contents of Redis, and report contradictions.

The functions are pure: they use no Redis and no clock. The contents of a line of the history, by its `op`:

    put       queue ids                 answer: words, one per id
    begin     queue id token attempt most         a worker starts a leased job, requested at `since`, for `ttr_s`;
                                                  token is None if the worker cannot know it
    end       queue id token attempt verb      its work is over; `verb` will be requested
    settled   queue id token attempt verb word        the reply to that request
    reserve   queue ttr_s               answer: leases [[id, token, attempt, most], …]
    pull      queue count               answer: ids
    act       queue verb ids            answer: words; an operator
    look      alive                     a screen: whether its threads live
    server    event                     killed: a request sent before `t` got no later reply
    ended     name code error           a process that ended without a signal of the conductor

`tail_s`: how long before a kill of the server acknowledged writes may have been lost with it. Redis appends to its file
before it answers (`beforeSleep` flushes the file first, then the replies), and a killed process does not take what it
has written from the kernel: so none, `always` as `everysec`. One exception: while an fsync of `everysec` is under way,
the append waits for it for up to two seconds and the reply does not (`flushAppendOnlyFile`, src/aof.c of Redis).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from faults.history import Line

TAIL_S = {
    "always": 0.0,
    "everysec": 2.5,
}  # two seconds by the server's clock of whole seconds, and one turn of its loop
MS = 0.001  # scripts use whole milliseconds, so a lease may end that much sooner
PLACES = ("scheduled", "ready", "reserved", "done", "dead")

# From where an event of the queue's stream may take a job, and what it does to the attempts.
MOVES: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    verb: (frozenset(before.split()), frozenset(after.split()))
    for verb, before, after in (
        ("enqueue", "nowhere done", "ready scheduled"),
        ("reserve", "ready", "reserved dead"),
        ("ack", "reserved", "done nowhere"),
        ("reject", "reserved", "scheduled dead"),
        ("release", "reserved", "ready scheduled"),
        ("dispatch", "scheduled", "ready dead"),
        ("reap", "reserved", "ready dead"),
        ("promote", "scheduled", "ready"),
        ("reschedule", "scheduled ready", "scheduled ready"),
        ("reprioritise", "scheduled ready", "scheduled ready"),
        ("cancel", "reserved", "reserved"),
        ("requeue", "dead done", "ready"),
        ("kill", "scheduled ready reserved", "dead"),
        ("delete", "scheduled ready reserved done dead", "nowhere"),
        ("pull", "ready", "nowhere"),
    )
}


@dataclass(frozen=True)
class Dump:
    """The contents of one queue: ids by place, lines of attempts by id, the last token, events, and what `check` found.

    `events` are (verb, id), oldest first; None if the beginning of the stream was trimmed. If the queue does not
    remember done jobs, an id may be put again after it is done, and only the events show how often it was done.
    """

    places: Mapping[str, Mapping[str, float]]
    attempts: Mapping[str, str]
    token: int
    events: Sequence[tuple[str, str]] | None
    found: Sequence[object] = ()
    remembers: bool = True

    def homes(self, id: str) -> list[str]:
        """Return the places that hold a job."""
        return [place for place in PLACES if id in self.places.get(place, {})]

    def lives(self, id: str) -> float:
        """Return how often a job was accepted."""
        if self.remembers:
            return 1
        return math.inf if self.events is None else sum(event == ("enqueue", id) for event in self.events)

    def forgotten(self) -> frozenset[str]:
        """Return ids that may be missing: their last event was a pull, or done in a queue that forgets done jobs."""
        last = {id: verb for verb, id in self.events or ()}
        ends = ("pull",) if self.remembers else ("pull", "ack")
        return frozenset(id for id, verb in last.items() if verb in ends)


@dataclass(frozen=True)
class Lease:
    """One lease as its holder saw it: known since `t`, requested after `since`."""

    t: float
    since: float
    by: str
    token: int
    id: str
    attempt: int
    most: int
    ttr_s: float = 0.0


@dataclass
class Facts:
    """The facts of a history about one queue."""

    sure: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))  # id -> when put
    asked: Counter[str] = field(default_factory=Counter)  # id -> how often a put was asked for
    nothing: Counter[str] = field(default_factory=Counter)  # … and said to have done nothing
    leases: list[Lease] = field(default_factory=list)
    claims: list[tuple[float, list[int]]] = field(default_factory=list)  # asked at, the tokens that were answered
    ran: set[tuple[str, str | int]] = field(default_factory=set)  # (id, token), or attempt where no token is known
    finished: dict[str, list[tuple[float, float, str, str | int]]] = field(default_factory=lambda: defaultdict(list))
    settled: list[tuple[str, str, int, str]] = field(default_factory=list)  # by id token verb, answered `moved`
    given_up: dict[tuple[str, str], float] = field(default_factory=dict)  # (id, token) -> when its holder ended
    deleted: set[str] = field(default_factory=set)  # ids that a client requested to delete
    acted_on: set[str] = field(default_factory=set)  # … or anything else, by hand
    pulled: Counter[str] = field(default_factory=Counter)  # ids that were answered
    pulls: int = 0  # how many jobs were asked for


def check_history(history: Iterable[Line], dumps: Mapping[str, Dump], tail_s: float = 0.0) -> list[str]:
    """Return a sentence for each broken promise; empty when every promise was kept.

    `find_errors` also returns what was excused.
    """
    return find_errors(history, dumps, tail_s)[0]


def find_errors(history: Iterable[Line], dumps: Mapping[str, Dump], tail_s: float = 0.0) -> tuple[list[str], int]:
    """Return a sentence for each broken promise, and the number of contradictions excused by a lost tail."""
    facts, windows, found = collect_facts(history, tail_s)
    forgiven = 0
    for queue, dump in dumps.items():
        about = facts[queue]
        for sentence, times in _find_contradictions(about, dump):
            if any(start <= end_w and end >= start_w for start, end in times for start_w, end_w in windows):
                forgiven += 1
            else:
                found.append(f"queue {queue}: {sentence}")
    return found, forgiven


def _find_contradictions(facts: Facts, dump: Dump) -> Iterator[tuple[str, Sequence[tuple[float, float]]]]:
    """Yield each contradiction, and the time of the reply that a lost tail of the file would excuse."""
    for rule in (
        _find_lost_jobs, _find_unknown_jobs, _find_double_places, _find_overlapping_leases, _find_late_changes,
        _find_lost_acks, _find_jobs_done_without_run, _find_broken_paths,
        _find_reused_tokens, _find_wrong_attempts, _find_wrong_pulls,
    ):  # fmt: skip
        yield from rule(facts, dump)


def collect_facts(
    history: Iterable[Line], tail_s: float
) -> tuple[dict[str, Facts], list[tuple[float, float]], list[str]]:
    """Return the facts by queue, the windows in which acknowledged writes may be lost, and the processes' errors."""
    facts: dict[str, Facts] = defaultdict(Facts)
    windows: list[tuple[float, float]] = []
    found: list[str] = []
    open_calls: dict[tuple[str, str, int], Line] = {}
    begun: dict[tuple[str, str, str | int], float] = {}
    for line in history:
        op, by, t = line["op"], line["by"], line["t"]
        if op == "server" and line["event"] == "killed" and tail_s:
            windows.append((t - tail_s, t))
        elif op == "look" and not line["alive"]:
            found.append(f"{by}: a thread of the screen is dead")
        elif op == "ended":
            found.append(f"{line['name']} ended by itself with {line['code']}: {line['error']}")
        elif op in _CALLS:
            if line["is"] == "ask":
                open_calls[by, op, line["n"]] = line
                _CALLS[op](facts[line["queue"]], line, None)
            elif ask := open_calls.pop((by, op, line["n"]), None):
                _CALLS[op](facts[ask["queue"]], ask, line)
        elif op in ("begin", "end", "settled"):
            about, owner = facts[line["queue"]], line["token"] or line["attempt"]
            key = (line["queue"], line["id"], owner)
            if op == "begin":
                begun[key] = t
                if line["token"]:
                    lease_fields = (
                        int(line["token"]),
                        line["id"],
                        line["attempt"],
                        line["most"],
                        line.get("ttr_s", 0.0),
                    )
                    about.leases.append(Lease(t, line.get("since", t), by, *lease_fields))
            elif op == "end":
                begun[key] = t
                about.ran.add((line["id"], owner))
                about.given_up[line["id"], str(line["token"])] = t
            if op == "settled" and line["token"] and line["word"] == "moved":
                about.settled.append((by, line["id"], int(line["token"]), line["verb"]))
            if op == "settled" and line["verb"] == "ack" and line["word"] in ("moved", "done"):
                about.finished[line["id"]].append((begun.get(key, t), t, by, owner))
    return facts, windows, found


def _record_put(facts: Facts, ask: Line, answer: Line | None) -> None:
    if answer is None:
        facts.asked.update(ask["ids"])
    elif answer["is"] == "nothing":
        facts.nothing.update(ask["ids"])
    elif answer["is"] == "answer":
        for id in ask["ids"]:
            facts.sure[id].append((ask["t"], answer["t"]))


def _record_reserve(facts: Facts, ask: Line, answer: Line | None) -> None:
    if answer is not None and answer["is"] == "answer":
        facts.claims.append((ask["t"], [int(token) for _, token, _, _ in answer["leases"]]))
        for id, token, attempt, most in answer["leases"]:
            lease_fields = (int(token), id, attempt, most, ask.get("ttr_s", 0.0))
            facts.leases.append(Lease(answer["t"], ask["t"], ask["by"], *lease_fields))


def _record_act(facts: Facts, ask: Line, answer: Line | None) -> None:
    if answer is None:
        (facts.deleted if ask["verb"] == "delete" else facts.acted_on).update(ask["ids"])


def _record_pull(facts: Facts, ask: Line, answer: Line | None) -> None:
    if answer is None:
        facts.pulls += ask["count"]
    elif answer["is"] == "answer":
        facts.pulled.update(answer["ids"])


_CALLS = {"put": _record_put, "reserve": _record_reserve, "act": _record_act, "pull": _record_pull}
Found = Iterator[tuple[str, Sequence[tuple[float, float]]]]


def _find_lost_jobs(facts: Facts, dump: Dump) -> Found:
    """Yield acknowledged jobs that are missing: not done, dead or in a place, nor pulled or deleted on request."""
    taken = dump.forgotten()
    if dump.events is None and not dump.remembers:
        return
    for id, lease_fields in facts.sure.items():
        homes = dump.homes(id)
        if len(homes) > 1:
            yield f"job {id} is in {' and '.join(homes)}", ()
        elif not homes and id not in facts.deleted | taken:
            # Its put may be excused by a lost tail only if every answer about it was: any other proves that it was in.
            yield f"job {id} was acknowledged and is nowhere", lease_fields if len(lease_fields) == 1 else ()


def _find_unknown_jobs(facts: Facts, dump: Dump) -> Found:
    for place in PLACES:
        for id in dump.places.get(place, {}):
            if id not in facts.asked:
                yield f"job {id} is in {place}, and nobody put it", ()
            elif facts.nothing[id] >= facts.asked[id]:
                yield f"job {id} is in {place}, though its put was said to have done nothing", ()


def _find_double_places(facts: Facts, dump: Dump) -> Found:
    for id, times in facts.finished.items():
        owners = dict.fromkeys((by, owner) for _, _, by, owner in times)
        if len(owners) > 1 and len(owners) > dump.lives(id) and id not in facts.deleted:
            names = " and ".join(f"{by} ({owner})" for by, owner in owners)
            yield f"job {id} was finished by {names}", [(start, end) for start, end, _, _ in times[:-1]]


def _find_overlapping_leases(facts: Facts, dump: Dump) -> Found:
    """Yield jobs that a worker got while another worker's lease was neither given up nor expired."""
    holder: dict[str, Lease] = {}
    for lease in sorted(facts.leases, key=lambda lease: (lease.token, lease.t)):
        before = holder.get(lease.id, lease)
        holder[lease.id] = lease if before.token < lease.token else before
        ends = min(before.since + before.ttr_s - MS, facts.given_up.get((lease.id, str(before.token)), math.inf))
        if before.token < lease.token and lease.t < ends and lease.id not in facts.deleted | facts.acted_on:
            yield f"{lease.by} got job {lease.id} while {before.by} held it", [(before.since, before.t)]


def _find_late_changes(facts: Facts, dump: Dump) -> Found:
    """Yield changes by a worker whose job another worker had got before the request."""
    later: dict[str, list[Lease]] = defaultdict(list)
    for lease in facts.leases:
        later[lease.id].append(lease)
    for by, id, token, verb in facts.settled:
        asked = facts.given_up.get((id, str(token)), 0.0)
        for lease in later[id]:
            if lease.token > token and lease.t < asked:
                yield f"{by} settled job {id} ({verb}) after {lease.by} had got it", [(lease.since, lease.t)]


def _find_lost_acks(facts: Facts, dump: Dump) -> Found:
    for id, times in facts.finished.items():
        if id in facts.deleted or (not dump.remembers and (not dump.homes(id) or dump.lives(id) > 1)):
            continue
        attempts, token = _read_attempts(dump, id)
        if dump.homes(id) != ["done"]:
            yield f"job {id} was finished, and is in {dump.homes(id) or 'no place'}", [(s, e) for s, e, _, _ in times]
        elif not any(owner in (token, attempts) for _, _, _, owner in times):
            yield f"job {id} was finished by one lease, and is done by {token}", [(s, e) for s, e, _, _ in times]


def _find_jobs_done_without_run(facts: Facts, dump: Dump) -> Found:
    acked = {id for verb, id in dump.events or () if verb == "ack"}
    for id in acked & dump.forgotten() - {id for id, _ in facts.ran}:
        yield f"job {id} is done and forgotten, and nobody ran it to its end", ()
    for id in dump.places.get("done", {}):
        attempts, token = _read_attempts(dump, id)
        if (id, token) not in facts.ran and (id, attempts) not in facts.ran:
            yield f"job {id} is done by {token} (attempt {attempts}), which never ran it to its end", ()


def _find_broken_paths(facts: Facts, dump: Dump) -> Found:
    """Yield jobs whose events are no path through the places, or do not end in their place with their attempts."""
    for problem in dump.found:
        yield f"check found {problem}", ()
    if dump.events is None:
        return
    where: dict[str, frozenset[str]] = {}
    tried: Counter[str] = Counter()
    for verb, id in dump.events:
        if verb not in MOVES:
            continue
        before, after = MOVES[verb]
        if not where.get(id, frozenset({"nowhere"})) & before:
            yield f"job {id}: {verb} while it was in {' or '.join(sorted(where.get(id, {'nowhere'})))}", ()
        where[id] = after
        tried[id] = _compute_attempts(verb, tried[id])
    for id, ends in where.items():
        homes = dump.homes(id) or ["nowhere"]
        if not set(homes) & ends:
            yield f"job {id} is in {' and '.join(homes)}; its events end in {' or '.join(sorted(ends))}", ()
        if homes != ["nowhere"] and _read_attempts(dump, id)[0] != tried[id]:
            yield f"job {id} has {_read_attempts(dump, id)[0]} attempts; its events tell of {tried[id]}", ()


def _find_reused_tokens(facts: Facts, dump: Dump) -> Found:
    """Yield tokens that were given out twice or are not above all earlier tokens."""
    holders: dict[int, Lease] = {}
    last_of: Counter[str] = Counter()
    for lease in facts.leases:
        first = holders.setdefault(lease.token, lease)
        if (first.by, first.id) != (lease.by, lease.id):
            yield f"token {lease.token} went to {first.by} for {first.id} and to {lease.by} for {lease.id}", ()
        if first is lease and lease.token < last_of[lease.by]:
            yield f"{lease.by} got token {lease.token} for {lease.id} after {last_of[lease.by]}", ()
        last_of[lease.by] = max(lease.token, last_of[lease.by])
        if lease.token > dump.token:
            yield f"token {lease.token} was given out, the queue remembers {dump.token}", [(lease.since, lease.t)]
    seen = sorted((lease.t, lease.token) for lease in holders.values())
    at, highest = 0, 0
    for asked, tokens in sorted(facts.claims):
        while at < len(seen) and seen[at][0] < asked:
            highest, at = max(highest, seen[at][1]), at + 1
        if tokens and min(tokens) <= highest:
            yield f"token {min(tokens)} was given out after {highest}", ()


def _find_wrong_attempts(facts: Facts, dump: Dump) -> Found:
    """Yield wrong attempt numbers: more than allowed, or others than the events show, in their order."""
    given_tokens: dict[str, list[int]] = defaultdict(list)
    tried: Counter[str] = Counter()
    for verb, id in dump.events or ():
        tried[id] = _compute_attempts(verb, tried[id])
        if verb == "reserve":
            given_tokens[id].append(tried[id])
    leases_by_job: dict[str, dict[int, Lease]] = defaultdict(dict)
    for lease in sorted(facts.leases, key=lambda lease: lease.token):
        leases_by_job[lease.id].setdefault(lease.token, lease)
        if lease.attempt > lease.most:
            yield f"job {lease.id} was handed out for attempt {lease.attempt} of {lease.most}", ()
    for id, leases in leases_by_job.items():
        if dump.events is None or id in facts.deleted:
            continue
        rest, lease_fields = iter(given_tokens[id]), [lease.attempt for lease in leases.values()]
        if not all(attempt in rest for attempt in lease_fields):
            times = [(lease.since, lease.t) for lease in leases.values()]
            yield f"job {id} was handed out for attempts {lease_fields}; its events tell of {given_tokens[id]}", times


def _find_wrong_pulls(facts: Facts, dump: Dump) -> Found:
    """Yield jobs that were pulled twice, and pulls of more jobs than were requested."""
    for id, times in facts.pulled.items():
        if times > 1 or dump.homes(id):
            yield f"job {id} was pulled {times} times and is in {dump.homes(id) or 'no place'}", ()
    gone = sum(verb == "pull" for verb, _ in dump.events or ())
    if gone > facts.pulls:
        yield f"{facts.pulls} jobs were asked for by pull, and {gone} left", ()


def _compute_attempts(verb: str, attempts: int) -> int:
    """Return the attempts of a job after one of its events."""
    return {"reserve": attempts + 1, "release": attempts - 1, "enqueue": 0, "requeue": 0}.get(verb, attempts)


def _read_attempts(dump: Dump, id: str) -> tuple[int, str]:
    """Return attempts and token in the line of a job; 0 and `-` if it was never reserved."""
    words = dump.attempts.get(id, "0 -").split(" ")
    return int(words[0]), words[1]
