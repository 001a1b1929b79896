"""The scenarios on rqtui's own queues: `poison`, `rush` and `outage`, each a table of events and words for people.

A new one is one more entry in `NATIVE`; it needs a plan (jobs from a seed), kinds (how work on them goes) and
queues. Rates are chosen so that a person can follow with the eye, and so that a demo leaves a small machine at rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from rqtui.scenarios import bodies
from rqtui.scenarios.scenario import CHECK, CONTROLS, FIX, Arrival, Kind, NativeScenario, NewJob, PastGroup, QueuePlan

_HOSTILE_EVERY = 23
_FIRST_EXTRA = 1 << 30  # numbers of jobs from bursts, so that their ids never meet those of the plan
_KEEP_MS = 300_000  # what is done stays visible for a while


# ── poison ───────────────────────────────────────────────────────────────────────────────────────────────────────

POISON = Kind("parse_upload", (700, 1_500), kills=True)
_ORDERS: tuple[tuple[str, str, bodies.Write, float], ...] = (
    ("charge_card", "orders", bodies.order, 3),
    ("render_receipt", "orders", bodies.order, 2),
    ("sync_stock", "orders", bodies.order, 2),
    ("call_webhook", "webhooks", bodies.webhook, 3),
)
_GATEWAYS = tuple(f"TimeoutError: gateway {n} did not answer within 5.0 s" for n in (3, 7, 12))
_HOOKS = (
    "HTTPStatusError: 410 Gone for https://hooks.example/v1/83f2",
    "HTTPStatusError: 503 Service Unavailable, retry after 30 s",
)
_ORDER_KINDS = (
    Kind("charge_card", (250, 900), fails=0.14, doomed=0.03, errors=_GATEWAYS),
    Kind("render_receipt", (200, 700), fails=0.04, doomed=0.08, errors=("KeyError: 'vat_id'",)),
    Kind("sync_stock", (200, 800), fails=0.10, errors=("ConnectionResetError: [Errno 104] reset by 10.0.3.17:5432",)),
    Kind("call_webhook", (200, 700), fails=0.08, doomed=0.12, errors=_HOOKS),
    POISON,
)
_PAST_ERRORS = (
    ("charge_card", "orders", "TimeoutError: gateway {n} did not answer within 5.0 s", 9),
    ("call_webhook", "webhooks", "HTTPStatusError: 410 Gone for https://hooks.example/v1/{n}", 12),
    ("render_receipt", "orders", "KeyError: 'vat_id'", 7),
    ("sync_stock", "orders", "ConnectionResetError: [Errno 104] reset by 10.0.3.{n}:5432", 5),
    ("render_receipt", "orders", "UnicodeEncodeError: 'latin-1' codec can't encode '\\u5bff' in position {n}", 4),
    ("call_webhook", "webhooks", "ValueError: [bold red]{n}[/] \x1b[31mis no status\x1b[0m", 3),
)


def _poison(seed: int) -> Iterator[Arrival]:
    rng = Random(f"poison:{seed}")
    at_ms, next_poison_ms = 0.0, 1_500.0
    for number in range(_FIRST_EXTRA):
        if at_ms >= next_poison_ms:
            next_poison_ms += 25_000
            yield _poisoned(rng, number, int(at_ms))
        else:
            yield _ordered(rng, number, int(at_ms))
        at_ms += 0 if number < 12 else rng.expovariate(1 / 260)


def _poison_extra(seed: int) -> Iterator[Arrival]:
    rng = Random(f"poison-burst:{seed}")
    for number in range(_FIRST_EXTRA, 2 * _FIRST_EXTRA):
        yield _ordered(rng, number, 0)


def _ordered(rng: Random, number: int, at_ms: int) -> Arrival:
    name, queue, write, _ = rng.choices(_ORDERS, [row[3] for row in _ORDERS])[0]
    body = write(rng)
    if number % _HOSTILE_EVERY == _HOSTILE_EVERY - 1:
        body = bodies.HOSTILE[number // _HOSTILE_EVERY % len(bodies.HOSTILE)](rng)
    return Arrival(at_ms, queue, NewJob(bodies.generated_id(rng, number), body, name))


def _poisoned(rng: Random, number: int, at_ms: int, queue: str = "orders") -> Arrival:
    body = bodies.upload(rng)
    return Arrival(at_ms, queue, NewJob(f"upload:{number}:{rng.getrandbits(24):06x}", body, POISON.name))


def poison_job(seed: int, number: int, queue: str) -> Arrival:
    """The `number`-th job of this run that kills its workers, for the strip's key."""
    return _poisoned(Random(f"poison-key:{seed}:{number}"), _FIRST_EXTRA * 2 + number, 0, queue)


def _poison_past(seed: int) -> tuple[PastGroup, ...]:
    rng = Random(f"poison-past:{seed}")
    number, groups = _FIRST_EXTRA * 3, []
    for index, (name, queue, error, count) in enumerate(_PAST_ERRORS):
        jobs = []
        for _ in range(count):
            number += 1
            write = bodies.webhook if queue == "webhooks" else bodies.order
            jobs.append(NewJob(bodies.generated_id(rng, number), write(rng), name, max_attempts=3, backoff_ms=2_000))
        groups.append(PastGroup(56 - 9 * index, queue, error, tuple(jobs)))
    return tuple(groups)


# ── rush ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_PROBE = 1_000  # jobs that arrive at once, to see how fast the server takes them
_RUSH_PER_MS = 12  # jobs that arrive per millisecond: as many as one Python thread writes beside a screen
_CLICKS = ("page_view", "page_view", "add_to_cart")


def _rush(seed: int) -> Iterator[Arrival]:
    rng = Random(f"rush:{seed}")
    for number in range(_FIRST_EXTRA):
        yield _click(rng, number, max(0, number - _PROBE) // _RUSH_PER_MS)


def _rush_extra(seed: int) -> Iterator[Arrival]:
    rng = Random(f"rush-burst:{seed}")
    for number in range(_FIRST_EXTRA, 2 * _FIRST_EXTRA):
        yield _click(rng, number, 0)


def _click(rng: Random, number: int, at_ms: int) -> Arrival:
    id, name = bodies.generated_id(rng, number), rng.choice(_CLICKS)
    return Arrival(at_ms, "clicks", NewJob(id, bodies.event(rng), name))


_RUSH_KINDS = (
    Kind("page_view", (5, 11), fails=0.001, errors=("BufferError: the batch is full, 512 rows",)),
    Kind(
        "add_to_cart", (6, 12), fails=0.002, errors=("IntegrityError: duplicate key value violates unique constraint",)
    ),
)

# ── outage ───────────────────────────────────────────────────────────────────────────────────────────────────────

_HOUR_MS = 3_600_000


def _outage(seed: int) -> Iterator[Arrival]:
    rng = Random(f"outage:{seed}")
    at_ms = 0.0
    for number in range(_FIRST_EXTRA):
        yield _payment(rng, number, int(at_ms))
        at_ms += 0 if number < 8 else rng.expovariate(1 / 150)


def _outage_extra(seed: int) -> Iterator[Arrival]:
    rng = Random(f"outage-burst:{seed}")
    for number in range(_FIRST_EXTRA, 2 * _FIRST_EXTRA):
        yield _payment(rng, number, 0)


def _payment(rng: Random, number: int, at_ms: int) -> Arrival:
    name = rng.choices(("capture", "refund", "settle"), (6, 1, 2))[0]
    delay_ms = rng.randrange(4_000, 26_000) if name == "settle" else None
    return Arrival(at_ms, "payments", NewJob(bodies.generated_id(rng, number), bodies.order(rng), name, delay_ms))


_OUTAGE_KINDS = (
    Kind("capture", (400, 1_400), fails=0.03, errors=("TimeoutError: the bank did not answer within 2.0 s",)),
    Kind("refund", (500, 1_500)),
    Kind("settle", (300, 900)),
)

# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────

_USUAL = {"keep_ms": _KEEP_MS, "done_max": 5_000}


def _kinds(*kinds: Kind) -> dict[str, Kind]:
    return {kind.name: kind for kind in (*kinds, POISON)}


NATIVE: tuple[NativeScenario, ...] = (
    NativeScenario(
        name="poison",
        summary="jobs that fail, retry and die, and one that kills every worker that takes it",
        queues=(
            QueuePlan(
                "orders",
                4,
                settings={
                    **_USUAL,
                    "ttr_ms": 3_000,
                    "max_attempts": 3,
                    "backoff_ms": 1_500,
                    "backoff_cap_ms": 15_000,
                },
            ),
            QueuePlan("webhooks", 2, settings={**_USUAL, "ttr_ms": 4_000, "max_attempts": 3, "backoff_ms": 2_000}),
        ),
        kinds=_kinds(*_ORDER_KINDS),
        plan=_poison,
        extra=_poison_extra,
        past=_poison_past,
        tries=(
            (
                "0",
                "send a poison job: each worker that takes it dies, until its attempts are used up and it is dead",
            ),
            ("5 Enter", "open a dead job: its life-line shows every attempt, who made it and how it failed"),
            ("e", "the errors by group: what fails, how often, since when"),
            ("_ R", "fix the code, then requeue what died of it: it runs to its end now"),
            ("D z", "delete a dead job, and take that back"),
        ),
        watch=("attempts that go up in reserved", "workers that fall silent", "dead that grows, and why"),
        controls=(*CONTROLS, FIX),
    ),
    NativeScenario(
        name="rush",
        summary="100 000 jobs at once, and how long they take; add workers and see it change",
        queues=(QueuePlan("clicks", 8, batch=16, settings={"keep_ms": 20_000, "done_max": 2_000, "ttr_ms": 10_000}),),
        kinds=_kinds(*_RUSH_KINDS),
        plan=_rush,
        extra=_rush_extra,
        tries=(
            ("6", "add a worker, again and again: the drain rate rises, the time left falls"),
            ("P", "pause the queue: workers finish their jobs; P again resumes it"),
            ("9", "send 5 000 more"),
            ("8", "kill a worker: its whole batch comes back when the leases end"),
            ("]", "page through ready: it costs the same at 10 jobs and at 100 000"),
        ),
        watch=("the drain rate and the time left", "the cost of a tick in the header, which does not grow"),
        burst=5_000,
        sizes=(100_000, 10_000),
    ),
    NativeScenario(
        name="outage",
        summary="Redis is gone for ten seconds and comes back: nothing is lost, and a check that proves it",
        queues=(
            QueuePlan(
                "payments",
                5,
                settings={"keep_ms": _HOUR_MS, "ttr_ms": 6_000, "max_attempts": 5, "backoff_ms": 2_000},
            ),
        ),
        kinds=_kinds(*_OUTAGE_KINDS),
        plan=_outage,
        extra=_outage_extra,
        tries=(
            ("!", "hold Redis for ten seconds more, whenever you like"),
            ("Space R", "while it is away: the cursor, marks and pages work, changes are off until it answers"),
            ("%", "look for every job that was put: each is in exactly one place, or it is named"),
            ("8 !", "a worker dies just before: its job comes back when its lease is over"),
            ("3", "right after: leases that ended meanwhile are reaped, and their workers' late acks refused"),
        ),
        watch=(
            "the picture dims and says since when; the next try is counted down",
            "what was sent without an answer is sent again, and a known id is never put twice",
            "nothing lost: % says so",
        ),
        controls=(*CONTROLS, CHECK),
        cut_at_s=12.0,
        acts=((0.2, "cut"), (0.2, "kill"), (0.75, "burst"), (0.8, "poison")),
        is_proved=True,
    ),
)
