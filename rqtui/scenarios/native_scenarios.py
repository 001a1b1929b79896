"""The scenarios on rqtui's own queues: `poison`, `rush` and `outage`, each with its plan, job kinds and texts.

A new scenario is one more entry in `NATIVE`. It needs a plan (jobs from a seed), kinds (how work on the jobs ends) and
queues. The rates are low enough to follow on screen and to leave a small machine mostly idle. `registry.py` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from rqtui.scenarios import bodies
from rqtui.scenarios.scenario import CHECK, CONTROLS, FIX, Arrival, Kind, NativeScenario, NewJob, PastGroup, QueuePlan

_HOSTILE_EVERY = 23
_FIRST_EXTRA = 1 << 30  # numbers of jobs from bursts, so that their ids never meet those of the plan
_KEEP_MS = 300_000  # ms for which completed jobs stay visible


# ── poison ───────────────────────────────────────────────────────────────────────────────────────────────────────

POISON = Kind("parse_upload", (700, 1_500), kills=True)
_ORDERS: tuple[tuple[str, str, bodies.BodyBuilder, float], ...] = (
    ("charge_card", "orders", bodies.build_order, 3),
    ("render_receipt", "orders", bodies.build_order, 2),
    ("sync_stock", "orders", bodies.build_order, 2),
    ("call_webhook", "webhooks", bodies.build_webhook, 3),
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


def _plan_poison(seed: int) -> Iterator[Arrival]:
    rng = Random(f"poison:{seed}")
    at_ms, next_poison_ms = 0.0, 1_500.0
    for number in range(_FIRST_EXTRA):
        if at_ms >= next_poison_ms:
            next_poison_ms += 25_000
            yield _build_poison_arrival(rng, number, int(at_ms))
        else:
            yield _build_order_arrival(rng, number, int(at_ms))
        at_ms += 0 if number < 12 else rng.expovariate(1 / 260)


def _plan_poison_burst(seed: int) -> Iterator[Arrival]:
    rng = Random(f"poison-burst:{seed}")
    for number in range(_FIRST_EXTRA, 2 * _FIRST_EXTRA):
        yield _build_order_arrival(rng, number, 0)


def _build_order_arrival(rng: Random, number: int, at_ms: int) -> Arrival:
    name, queue, write, _ = rng.choices(_ORDERS, [row[3] for row in _ORDERS])[0]
    body = write(rng)
    if number % _HOSTILE_EVERY == _HOSTILE_EVERY - 1:
        body = bodies.HOSTILE[number // _HOSTILE_EVERY % len(bodies.HOSTILE)](rng)
    return Arrival(at_ms, queue, NewJob(bodies.generate_id(rng, number), body, name))


def _build_poison_arrival(rng: Random, number: int, at_ms: int, queue: str = "orders") -> Arrival:
    body = bodies.build_upload(rng)
    return Arrival(at_ms, queue, NewJob(f"upload:{number}:{rng.getrandbits(24):06x}", body, POISON.name))


def build_poison_job(seed: int, number: int, queue: str) -> Arrival:
    """Return the `number`-th job of this run that kills every worker which takes it; a key of the demo puts it."""
    return _build_poison_arrival(Random(f"poison-key:{seed}:{number}"), _FIRST_EXTRA * 2 + number, 0, queue)


def _build_poison_past(seed: int) -> tuple[PastGroup, ...]:
    rng = Random(f"poison-past:{seed}")
    number, groups = _FIRST_EXTRA * 3, []
    for index, (name, queue, error, count) in enumerate(_PAST_ERRORS):
        jobs = []
        for _ in range(count):
            number += 1
            write = bodies.build_webhook if queue == "webhooks" else bodies.build_order
            jobs.append(NewJob(bodies.generate_id(rng, number), write(rng), name, max_attempts=3, backoff_ms=2_000))
        groups.append(PastGroup(56 - 9 * index, queue, error, tuple(jobs)))
    return tuple(groups)


# ── rush ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_PROBE = 1_000  # jobs that arrive at once, to measure how fast the server accepts them
_RUSH_PER_MS = 12  # jobs that arrive per millisecond: as many as one Python thread writes beside a screen
_CLICKS = ("page_view", "page_view", "add_to_cart")


def _plan_rush(seed: int) -> Iterator[Arrival]:
    rng = Random(f"rush:{seed}")
    for number in range(_FIRST_EXTRA):
        yield _build_click(rng, number, max(0, number - _PROBE) // _RUSH_PER_MS)


def _plan_rush_burst(seed: int) -> Iterator[Arrival]:
    rng = Random(f"rush-burst:{seed}")
    for number in range(_FIRST_EXTRA, 2 * _FIRST_EXTRA):
        yield _build_click(rng, number, 0)


def _build_click(rng: Random, number: int, at_ms: int) -> Arrival:
    id, name = bodies.generate_id(rng, number), rng.choice(_CLICKS)
    return Arrival(at_ms, "clicks", NewJob(id, bodies.build_event(rng), name))


_RUSH_KINDS = (
    Kind("page_view", (5, 11), fails=0.001, errors=("BufferError: the batch is full, 512 rows",)),
    Kind(
        "add_to_cart", (6, 12), fails=0.002, errors=("IntegrityError: duplicate key value violates unique constraint",)
    ),
)

# ── outage ───────────────────────────────────────────────────────────────────────────────────────────────────────

_HOUR_MS = 3_600_000


def _plan_outage(seed: int) -> Iterator[Arrival]:
    rng = Random(f"outage:{seed}")
    at_ms = 0.0
    for number in range(_FIRST_EXTRA):
        yield _build_payment(rng, number, int(at_ms))
        at_ms += 0 if number < 8 else rng.expovariate(1 / 150)


def _plan_outage_burst(seed: int) -> Iterator[Arrival]:
    rng = Random(f"outage-burst:{seed}")
    for number in range(_FIRST_EXTRA, 2 * _FIRST_EXTRA):
        yield _build_payment(rng, number, 0)


def _build_payment(rng: Random, number: int, at_ms: int) -> Arrival:
    name = rng.choices(("capture", "refund", "settle"), (6, 1, 2))[0]
    delay_ms = rng.randrange(4_000, 26_000) if name == "settle" else None
    return Arrival(at_ms, "payments", NewJob(bodies.generate_id(rng, number), bodies.build_order(rng), name, delay_ms))


_OUTAGE_KINDS = (
    Kind("capture", (400, 1_400), fails=0.03, errors=("TimeoutError: the bank did not answer within 2.0 s",)),
    Kind("refund", (500, 1_500)),
    Kind("settle", (300, 900)),
)

# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────

_QUEUE_SETTINGS = {"keep_ms": _KEEP_MS, "done_max": 5_000}


def _map_kinds_by_name(*kinds: Kind) -> dict[str, Kind]:
    return {kind.name: kind for kind in (*kinds, POISON)}


NATIVE: tuple[NativeScenario, ...] = (
    NativeScenario(
        name="poison",
        summary="jobs that die, and one that kills its workers",
        queues=(
            QueuePlan(
                "orders",
                4,
                settings={
                    **_QUEUE_SETTINGS,
                    "ttr_ms": 3_000,
                    "max_attempts": 3,
                    "backoff_ms": 1_500,
                    "backoff_cap_ms": 15_000,
                },
            ),
            QueuePlan(
                "webhooks", 2, settings={**_QUEUE_SETTINGS, "ttr_ms": 4_000, "max_attempts": 3, "backoff_ms": 2_000}
            ),
        ),
        kinds=_map_kinds_by_name(*_ORDER_KINDS),
        plan=_plan_poison,
        extra=_plan_poison_burst,
        past=_build_poison_past,
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
        summary="100 000 jobs at once, and more workers",
        queues=(QueuePlan("clicks", 8, batch=16, settings={"keep_ms": 20_000, "done_max": 2_000, "ttr_ms": 10_000}),),
        kinds=_map_kinds_by_name(*_RUSH_KINDS),
        plan=_plan_rush,
        extra=_plan_rush_burst,
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
        summary="Redis is away for ten seconds; nothing is lost",
        queues=(
            QueuePlan(
                "payments",
                5,
                settings={"keep_ms": _HOUR_MS, "ttr_ms": 6_000, "max_attempts": 5, "backoff_ms": 2_000},
            ),
        ),
        kinds=_map_kinds_by_name(*_OUTAGE_KINDS),
        plan=_plan_outage,
        extra=_plan_outage_burst,
        tries=(
            ("!", "stop Redis for ten more seconds, at any time"),
            ("Space R", "while it is away: cursor, marks and pages work, changes are off until it answers"),
            ("%", "check every job that was put: each is in exactly one place, or is listed"),
            ("8 !", "kill a worker just before: its job is ready again when its lease expires"),
            ("3", "right after: expired leases are reaped, and late acks of their workers are refused"),
        ),
        watch=(
            "the screen dims and shows since when, and a countdown to the next try",
            "what was sent without an answer is sent again, and a known id is never put twice",
            "% reports that no job is lost",
        ),
        controls=(*CONTROLS, CHECK),
        cut_at_s=12.0,
        acts=((0.2, "cut"), (0.2, "kill"), (0.75, "burst"), (0.8, "poison")),
        is_proved=True,
    ),
)
