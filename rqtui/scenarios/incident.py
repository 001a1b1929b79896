"""The scenario `incident`: an outage as a person on call meets it, with its causes, its effects and the fix.

The queue `orders` of a shop fails for three reasons: 5 000 jobs are dead, two workers sent no heartbeat for minutes and
hold a hundred leases each, 20 000 jobs are ready, and every second attempt fails until the fix is deployed (`_`). One
reason is planted in a field of the bodies: all declined cards, and no others, have `"card_country": "FR"`.
`mails` and `images` are healthy. All of it precedes the first screen; `docs/tour.md` follows it from the alarm to the
report.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import NamedTuple
from zlib import crc32

from rqtui.scenarios import bodies
from rqtui.scenarios.scenario import CONTROLS, FIX, Arrival, Kind, NativeScenario, NewJob, PastGroup, QueuePlan

_EXTRA, _PAST = 1 << 30, 1 << 31  # first job numbers, so that the ids of bursts and of the past are unique
_CHUNK = 250  # jobs of one cause that die together
_DIED_MINUTES = (40, 13)  # ago: from, to
_SILENT_MINUTES, _WAITING_MINUTES = 12, 10
_WAITING, _SILENT, _HELD_EACH = 20_000, ("orders-eu-7", "orders-eu-9"), 100
_LEASE_MS = 3_600_000  # too long for the reaper to return the jobs during a demo


_DECLINED_COUNTRY, _OTHER_COUNTRIES = "FR", ("DE", "PL", "JP", "BR", "CA", "DK", "EG")
_DECLINED_SHARE = 0.3  # of the orders are paid with a card of that country


def choose_card_country(id: bytes) -> str:
    """Return the country of the card of an order, which follows from the job's id, so that workers know it, too."""
    roll = crc32(b"card:" + id)
    return _DECLINED_COUNTRY if roll < _DECLINED_SHARE * 2**32 else _OTHER_COUNTRIES[roll % len(_OTHER_COUNTRIES)]


def is_card_declined(id: bytes) -> bool:
    """Return whether the card of an order is of the country whose cards are declined."""
    return choose_card_country(id) == _DECLINED_COUNTRY


class _Cause(NamedTuple):
    """The reason why jobs died: their number, names and traceback, whose placeholders are filled per job."""

    dead: int
    names: tuple[str, ...]
    error: str


_TRACE = "Traceback (most recent call last):\n"
_CARD = _Cause(
    2_500,
    ("charge_card",) * 8 + ("refund_card",),
    _TRACE + '  File "/srv/shop/worker.py", line 61, in run\n    task(**body)\n'
    '  File "/srv/shop/charge.py", line 88, in charge\n    raise CardDeclined(charge, customer, code)\n'
    "shop.errors.CardDeclined: charge ch_{mixed} of customer cus_{mixed} was declined (51)\n",
)
_TIMEOUT = _Cause(
    1_300,
    ("notify_warehouse",) * 4 + ("charge_card",),
    _TRACE + '  File "/srv/shop/worker.py", line 61, in run\n    task(**body)\n'
    '  File "/srv/shop/http.py", line 41, in post\n    answer = session.post(url, timeout=5)\n'
    "TimeoutError: POST https://api-{n}.pay.example/v2/{hex} gave no answer in 5.{n} s\n",
)
_DUPLICATE = _Cause(
    1_200,
    ("charge_card", "notify_warehouse"),
    _TRACE + '  File "/srv/shop/worker.py", line 61, in run\n    task(**body)\n'
    '  File "/srv/shop/db.py", line 12, in insert\n    cursor.execute(statement, row)\n'
    'IntegrityError: duplicate key value violates "orders_pkey": ({n}, req_{mixed})\n',
)
_CAUSES = (_CARD, _TIMEOUT, _DUPLICATE)
_DECLINED = Kind("", (250, 900), fails=0.95, errors=(_CARD.error,))
_KINDS = (
    Kind(
        "charge_card",
        (250, 900),
        fails=0.38,
        errors=(_DUPLICATE.error,),
        special=_DECLINED,
        is_special=is_card_declined,
    ),
    Kind(
        "refund_card",
        (250, 900),
        fails=0.24,
        errors=(_DUPLICATE.error,),
        special=_DECLINED,
        is_special=is_card_declined,
    ),
    Kind("notify_warehouse", (200, 700), fails=0.5, errors=(_TIMEOUT.error, _DUPLICATE.error)),
    Kind("send_invoice", (80, 300)),
    Kind("welcome", (80, 300)),
    Kind("resize_image", (300, 900)),
)
_ORDERS = ("charge_card", "charge_card", "charge_card", "notify_warehouse", "notify_warehouse", "refund_card")
_PER_S = {"orders": 9.0, "mails": 6.0, "images": 2.0}


def _build_order(rng: Random, number: int, name: str = "") -> NewJob:
    id = bodies.generate_id(rng, number)
    body = bodies.build_order(rng, card_country=choose_card_country(id.encode()))
    return NewJob(id, body, name or rng.choice(_ORDERS))


def _build_mail(rng: Random, number: int) -> NewJob:
    name, write = rng.choice((("send_invoice", bodies.build_invoice), ("welcome", bodies.build_welcome)))
    delay_ms = rng.randrange(10_000, 240_000) if rng.random() < 0.1 else None
    return NewJob(bodies.generate_id(rng, number), write(rng), name, delay_ms)


def _build_image(rng: Random, number: int) -> NewJob:
    return NewJob(bodies.generate_id(rng, number), bodies.build_image_task(rng), "resize_image")


_JOB_BUILDERS = {"orders": _build_order, "mails": _build_mail, "images": _build_image}


def _plan_arrivals(seed: int) -> Iterator[Arrival]:
    rng, at_ms = Random(f"incident:{seed}"), 0.0
    queues, weights = list(_PER_S), list(_PER_S.values())
    for number in range(_EXTRA):
        (queue,) = rng.choices(queues, weights)
        yield Arrival(int(at_ms), queue, _JOB_BUILDERS[queue](rng, number))
        at_ms += 1_000 * rng.expovariate(sum(weights))


def _plan_burst(seed: int) -> Iterator[Arrival]:
    rng = Random(f"incident-burst:{seed}")
    for number in range(_EXTRA, _PAST):
        yield Arrival(0, "orders", _build_order(rng, number))


def _build_past_groups(seed: int) -> tuple[PastGroup, ...]:
    """Return the state before the first screen: dead jobs, then the jobs of silent workers, then the ready jobs."""
    rng, number = Random(f"incident-past:{seed}"), _PAST

    def yield_jobs(cause: _Cause | None = None) -> Iterator[NewJob]:
        nonlocal number
        while True:
            number += 1
            job = _build_order(rng, number, rng.choice(cause.names if cause else _ORDERS))
            is_declined = is_card_declined(job.id.encode())
            # A declined card fails before its order can be a duplicate; a timeout of the warehouse hits any order.
            if cause is None or cause is _TIMEOUT or is_declined == (cause is _CARD):
                yield job

    dead = [cause for cause in _CAUSES for _ in range(cause.dead // _CHUNK)]
    rest = [(cause, cause.dead % _CHUNK) for cause in _CAUSES if cause.dead % _CHUNK]
    rng.shuffle(dead)
    chunks = [*((cause, _CHUNK) for cause in dead), *rest]
    first, last = _DIED_MINUTES
    groups = [
        PastGroup(
            first - (first - last) * at // len(chunks),
            "orders",
            cause.error,
            tuple(islice(yield_jobs(cause), size)),
        )
        for at, (cause, size) in enumerate(chunks)
    ]
    groups += [
        PastGroup(_SILENT_MINUTES, "orders", "", tuple(islice(yield_jobs(), _HELD_EACH)), worker=name, ttr_ms=_LEASE_MS)
        for name in _SILENT
    ]
    per_minute = _WAITING // _WAITING_MINUTES
    groups += [
        PastGroup(ago, "orders", "", tuple(islice(yield_jobs(), per_minute))) for ago in range(_WAITING_MINUTES, 0, -1)
    ]
    return tuple(groups)


_QUEUE_SETTINGS = {"keep_ms": 300_000, "done_max": 5_000, "max_attempts": 3, "backoff_ms": 20_000}

INCIDENT = NativeScenario(
    name="incident",
    summary="an alarm: find the causes, fix them, report",
    queues=(
        QueuePlan("orders", 7, settings={**_QUEUE_SETTINGS, "ttr_ms": 30_000}),
        QueuePlan("mails", 2, settings={**_QUEUE_SETTINGS, "ttr_ms": 30_000}),
        QueuePlan("images", 2, settings={**_QUEUE_SETTINGS, "ttr_ms": 30_000}),
    ),
    kinds={kind.name: kind for kind in _KINDS},
    plan=_plan_arrivals,
    extra=_plan_burst,
    past=_build_past_groups,
    tries=(
        ("e", "the errors by cause: how many, since when, in which line of which file"),
        ("w", "the workers: two stopped and hold a hundred jobs each; L releases them"),
        ("_ e R", "deploy the fix, then requeue the jobs of one cause, slowly or all at once"),
        ("o s", "write the report: findings, changes and their effect"),
    ),
    watch=("the findings of orders, until all is well", "its dead, held and waiting jobs become fewer"),
    controls=(*(control for control in CONTROLS if control.name != "poison"), FIX),
    acts=((0.2, "kill"), (0.35, "stall"), (0.5, "add"), (0.5, "burst"), (0.6, "fix")),
)
