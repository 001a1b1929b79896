"""The data of the screenshots and of the snapshot tests: the same queues, ids and ages each time.

Everything is written by the scripts, at instants before `NOW`; the app that shows it has its clock stopped there, and
figures that depend on the machine (rates, cost, what the loops did) are given.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import blake2s
from typing import Any

from redis import Redis
from textual.pilot import Pilot
from textual.strip import Strip

from rqtui.client.native_keys import build_queue_keys
from rqtui.config.settings import Settings
from rqtui.connection import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.engine.loops import Loop, Round, ScriptStep
from rqtui.model import Cost, Job, Rate, RecentActivity, Ref
from rqtui.scripts.script import Call
from rqtui.system_base.system import Request, System
from rqtui.systems.native import Native
from rqtui.tui import session
from rqtui.tui.app import Cockpit
from rqtui.tui.view import View

NOW = 1_795_219_200_000  # 2026-11-21 00:00:00 UTC
URL = "redis://jobs-1:6379/0"
RATES = {"mail": (12.0, 14.0), "images": (3.0, 3.0), "webhooks": (6.0, 5.5), "thumbnails": (40.0, 41.0)}
QUEUES = ("mail", "images", "webhooks", "thumbnails", "exports", "digests", "reports")
KINDS = {
    "mail": ("send_invoice", "send_invoice", "digest", "welcome", "reminder"),
    "images": ("resize_image", "strip_exif"),
    "webhooks": ("call_webhook",),
}
ERRORS = (
    "TimeoutError: smtp 10.0.0.7 did not answer within 5.0 s",
    "SMTPRecipientsRefused: 550 no such user",
    "KeyError: 'vat_id'",
)


class Still(Native):
    """The native system with its clock stopped."""

    def _build_script_call(self, script: str, queue: str, **args: object) -> Call:
        known = {arg.name for arg in self.script(script).args}
        return super()._build_script_call(script, queue, **({"now_ms": NOW} if "now_ms" in known else {}), **args)

    def queues_request(self, queues: Sequence[str]) -> None:
        """Return None, so that each queue is requested separately with the stopped clock."""


class StillCockpit(Cockpit):
    """The app at `NOW`, with fixed values for what depends on the machine."""

    def __init__(self, url: str, *, systems: Sequence[System] = (), read_only: bool = False, **options: Any) -> None:
        def make(_settings: Settings) -> Engine:
            return Engine(connect.connect(url), systems or [Still()], read_only)

        super().__init__(Settings(URL, read_only=read_only), interval_s=2.0, create_engine=make, **options)
        self._has_others = bool(systems)
        self.paints = 0
        self.loops.start_loops = self._show_loops  # type: ignore[method-assign]

    def post_display_hook(self) -> None:
        """Count a paint. Textual calls this hook for tests."""
        self.paints += 1

    def is_pictured_for(self, view: View) -> bool:
        """Return whether the last refresh has the data of the view."""
        return self.session.last_focus == view.build_focus(self.session.refs)

    def _show_loops(self, _engine: Engine) -> None:
        steps = {"dispatch": [("mail", 118), ("images", 9), ("mail", 64)], "reap": [("thumbnails", 2)]}
        for verb, moved in steps.items() if not self.session.settings.read_only else ():
            done = (
                []
                if self._has_others
                else [
                    ScriptStep(verb, Ref("native", queue), number, at_s=NOW / 1000 - 40 + 12 * at)
                    for at, (queue, number) in enumerate(moved)
                ]
            )
            loop = Loop(verb, lambda: Round(wait_s=3600.0))
            loop.rounds.append(Round(tuple(done)))
            loop.start()
            self.session.loops[verb] = loop

    def on_refreshed(self, message: session.Refreshed) -> None:
        """Replace the rates and the cost of the snapshot before the app handles it."""
        snapshot = message.event.snapshot
        rates = {Ref(queue.system, queue.name): _rate(queue.name) for queue in snapshot.queues}
        pages = len(snapshot.pages) + len(snapshot.queues)
        still = replace(snapshot, rates=rates, cost=Cost(pages, 1, 1.4))
        ticker = self.session.ticker
        ticker.wait_s = ticker.interval_s  # a busy machine would widen it
        message.event = message.event._replace(snapshot=still)


@asynccontextmanager
async def open_still_app(
    url: str, size: tuple[int, int], keys: Sequence[str], *, queues: Collection[str] = QUEUES, **options: Any
) -> AsyncIterator[StillCockpit]:
    """Run the app and press the keys. If the first key is a seeded queue, its board is opened."""
    queue = keys[0] if keys and keys[0] in queues else ""
    app = StillCockpit(url, open_queue=queue, **options)
    app.session.ticker._server_check_s = math.inf  # another clock, and nothing on disk
    async with app.run_test(size=size) as pilot:
        await wait_until_still(app, pilot, looks=1)
        for key in keys[bool(queue) :]:
            await pilot.press(key)
            await wait_until_still(app, pilot, looks=1)
        await wait_until_still(app, pilot)
        yield app


async def wait_until_still(app: StillCockpit, pilot: Pilot[None], looks: int = 5) -> None:
    """Wait until the view has its data, and the screen has not changed in so many checks.

    A screen that was not painted again is not rendered, because that is most of the cost of a check.
    """
    before: list[Strip] = []
    drawn: list[Strip] = []
    same, painted = 0, -1
    while same < looks:
        await pilot.pause(0.03)
        is_pictured = (
            app.session.snapshot is not None
            and app.navigation.view is not None
            and app.is_pictured_for(app.navigation.view)
        )
        if not is_pictured and app.session.snapshot is not None:
            app.request_refresh()  # rather than at the next tick
        if app.paints != painted:
            drawn, painted = app.screen._compositor.render_strips(), app.paints
        is_answered = is_pictured and not app.session._callbacks
        now = drawn if is_answered or app.session.connection_loss else []
        same = same + 1 if now and now == before else 0
        before = now


def _rate(queue: str) -> Rate:
    in_s, out_s = RATES.get(queue, (0.0, 0.0))
    rng = random.Random(queue)
    history = tuple(out_s * (0.15 + 0.6 * at / 60 + 0.4 * rng.random()) for at in range(60)) if out_s else ()
    failed_s = 0.04 * out_s if queue == "webhooks" else 0.0
    recent = RecentActivity(300_000, completed=round(300 * out_s), failed=round(300 * failed_s))
    return Rate(in_s, out_s, failed_s, history, recent=recent, window_ms=60_000)


def stop_the_clock() -> None:
    """Stop the clock at `NOW`, and print times in UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    time.time = lambda: NOW / 1000  # type: ignore[assignment]


class Seed:
    """A queue that is written by the native scripts at times before `NOW`."""

    def __init__(self, client: Redis, queue: str) -> None:
        self.client, self.queue = client, queue
        self.engine = build_engine(client, [Native()])
        self.system = self.engine.systems["native"]
        self.ref = Ref("native", queue)
        self.rng = random.Random(queue)
        self.number = 0

    def put(self, number: int, from_ms: int, to_ms: int = 0, **options: object) -> list[str]:
        """Add `number` jobs, enqueued evenly between `from_ms` and `to_ms` before NOW. Return their ids."""
        ids = []
        for at in range(number):
            self.number += 1
            before_ms = from_ms + (to_ms - from_ms) * at // max(1, number)
            ids.append(self.id(self.number))
            row = {
                "id": ids[-1],
                "body": self.body(self.number),
                "name": self.rng.choice(KINDS.get(self.queue, ("job",))),
            }
            self.do(
                "enqueue",
                before_ms,
                {},
                [{**row, **{k: v(self.rng) if callable(v) else v for k, v in options.items()}}],
            )
        self.client.sadd("rqtui:queues", self.queue)
        return ids

    def id(self, number: int) -> str:
        """Return an id like a uuid7, which starts like the ids of its time."""
        return f"01jd8{number:04x}" + blake2s(f"{self.queue}:{number}".encode(), digest_size=8).hexdigest()[:13]

    def body(self, number: int) -> bytes:
        """Return the body of an invoice job."""
        net = self.rng.randrange(900, 90_000) / 100
        person = self.rng.choice(("a.meyer", "zoë", "hanako", "o.nwosu"))
        invoice = {"to": f"{person}@example.org", "invoice": 48_000 + number, "net": net, "currency": "EUR"}
        return json.dumps({**invoice, "token": "sesame"}, ensure_ascii=False).encode()

    def take(self, number: int, before_ms: int, worker: str = "w1", **options: object) -> list[Job]:
        """Reserve jobs and return all reserved jobs."""
        self.do("reserve", before_ms, {"limit": number, "worker": worker, **options})
        return [job for job in self.engine.fetch_page(self.ref, "reserved", 0, 1000).jobs if job.worker == worker]

    def fail(self, jobs: Sequence[Job], before_ms: int, error: str, **options: object) -> None:
        """Reject these jobs."""
        rows = [{"id": job.id, "token": job.token, "error": error} for job in jobs]
        self.do("reject", before_ms, dict(options), rows)

    def finish(self, jobs: Sequence[Job], before_ms: int) -> None:
        """Ack these jobs and keep them for an hour."""
        self.do("ack", before_ms, {"keep_ms": 3_600_000}, [{"id": job.id, "token": job.token} for job in jobs])

    def beat(self, *workers: str) -> None:
        """Send heartbeats of workers."""
        for worker in workers:
            self.do("beat", 1000, {"worker": worker, "ttl_ms": 60_000, "host": "jobs-1", "pid": "4711"})

    def do(
        self, verb: str, before_ms: int, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Any:
        """Run one script at a time before NOW."""
        call = self.system.build_call(verb, self.queue, {"now_ms": NOW - before_ms, **args}, rows)
        return self.engine.send_request(Request((call,), lambda answers: answers[0]))


def seed_queues(client: Redis) -> None:
    """Add all queues of the screenshots."""
    client.flushall()
    mail = Seed(client, "mail")
    mail.put(21, 6_000_000, 5_000_000)
    for before_ms in range(5_000_000, 200_000, -240_000):
        taken = mail.take(1, before_ms, "w2")
        mail.fail(taken, before_ms - 700, ERRORS[before_ms // 240_000 % 3], final=True)
    mail.put(240, 252_000, 2_000)
    mail.finish(mail.take(12, 60_000, "w4"), 55_000)
    for number, worker in enumerate(("w1", "w2", "w3", "w4", "w1", "w2")):
        mail.do("reserve", 27_000 - 4_600 * number, {"limit": 1, "worker": worker, "ttr_ms": 30_000})
    mail.put(4, 300_000, 290_000, priority=-1)
    mail.fail(mail.take(4, 280_000, "w5"), 279_000, ERRORS[0], delay_ms=1000)
    mail.do("dispatch", 270_000, {"limit": 100})
    mail.put(60, 9_000, 1_000, delay_ms=lambda rng: rng.randrange(12_000, 900_000))
    mail.put(30, 9_000, 1_000, delay_ms=lambda rng: rng.randrange(3_600_000, 260_000_000))
    mail.beat("w1", "w2", "w3", "w4")
    images = Seed(client, "images")
    images.put(88, 4_000, 100)
    images.take(12, 3_000, "i1")
    images.put(9, 4_000, 100, delay_ms=60_000)
    images.beat("i1", "i2")
    webhooks = Seed(client, "webhooks")
    webhooks.put(41, 700_000, 600_000)
    webhooks.fail(webhooks.take(41, 500_000, "h1"), 400_000, "HTTPStatusError: 410 Gone", final=True)
    webhooks.put(2, 900, 100)
    webhooks.beat("h1")
    Seed(client, "thumbnails").put(4, 700, 100)
    Seed(client, "exports").put(31, 5_000, 100, delay_ms=3_600_000)
    digests = Seed(client, "digests")
    digests.put(17, 552_000, 60_000)
    reports = Seed(client, "reports")
    reports.put(3, 40_000, 10_000)
    reports.do("pause", 8_000, {})


def seed_history(client: Redis) -> None:
    """Write a day of counters and the last events of `mail`, as the scripts write them."""
    names = build_queue_keys("mail")
    rng = random.Random("history")
    counters = {"enqueued": 9_000, "acked": 8_700, "rejected": 410, "expired": 12, "dispatched": 2_100}
    client.delete(names["minutes"], names["events"])
    for minute in range(NOW - 86_400_000, NOW, 60_000):
        client.xadd(names["minutes"], dict(counters), id=f"{minute}-0")
        hour = (minute // 3_600_000) % 24
        busy = 4 + 9 * (8 <= hour <= 18) + (14 if 21 <= hour <= 22 else 0)
        arrived = max(0, round(rng.gauss(busy, 2.5)))
        counters["enqueued"] += arrived
        counters["acked"] += max(0, arrived + round(rng.gauss(0, 2)))
        counters["rejected"] += rng.random() < 0.3
    client.hset(names["meta"], mapping={**counters, "events": "on"})
    story = ("enqueue", "reserve", "ack", "reserve", "enqueue", "dispatch", "reserve", "ack", "reject", "ack")
    targets = {"enqueue": "scheduled", "dispatch": "ready", "reserve": "reserved", "ack": "done", "reject": "dead"}
    job_ids = {verb: client.zrange(names[place], 0, -1) for verb, place in targets.items()}
    for number in range(60):
        verb = story[number % len(story)]
        worker = f"w{number % 4 + 1}" if verb in ("reserve", "ack", "reject") else ""
        said = {"verb": verb, "id": job_ids[verb][number % len(job_ids[verb])]} | ({"worker": worker} if worker else {})
        client.xadd(names["events"], said, id=f"{NOW - 730 * (60 - number)}-0")


__all__ = ["NOW", "Seed", "Still", "StillCockpit", "seed_queues", "open_still_app", "stop_the_clock"]
