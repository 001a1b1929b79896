"""Makes every picture in this folder: python screenshots/make.py

It starts a server of its own, plants the same jobs each time, presses keys, and writes what the screen shows as SVG.
The address on the pictures is made up; rates and ages are those of the moment.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from rqtui import layouts, server
from rqtui.embedded import embedded
from rqtui.engine import Engine, with_layouts
from rqtui.model import Job, Ref
from rqtui.settings import Settings
from rqtui.tui.app import Cockpit

FOLDER = Path(__file__).resolve().parent
SHOWN_URL = "redis://jobs-1:6379/0"
WIDE, NARROW = (160, 45), (80, 24)
KINDS = ("send_invoice", "resize_image", "digest", "reminder", "welcome")
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ERRORS = ("TimeoutError: smtp 10.0.3.7", "HTTPError: 410 Gone", "KeyError: 'currency'")

QUEUE = "mail"
TRAFFIC_S = 4.0  # jobs come and go for so long, so that rates and trends have something to show

# name, size, theme, the queue whose board is open, keys before the picture
PICTURES: tuple[tuple[str, tuple[int, int], str, str, tuple[str, ...]], ...] = (
    ("overview-160x45", WIDE, "rqtui", "", ()),
    ("overview-80x24", NARROW, "rqtui", "", ()),
    ("board-160x45", WIDE, "rqtui", QUEUE, ("j", "j", "j")),
    ("board-80x24", NARROW, "rqtui", QUEUE, ("5", "space", "j", "space", "j")),
    ("job-160x45", WIDE, "rqtui", QUEUE, ("5", "enter")),
    ("delete-80x24", NARROW, "rqtui", QUEUE, ("5", "space", "space", "D")),
    ("new-80x24", NARROW, "rqtui", QUEUE, ("N",)),
    ("board-light-160x45", WIDE, "rqtui-light", QUEUE, ("j", "j", "j")),
)


def main() -> None:
    """All pictures."""
    for name, size, theme, queue, keys in PICTURES:
        with embedded() as running:
            engine = with_layouts(server.connect(running.url), [layouts.make("native")])
            _plant(engine)
            with _traffic(running.url):
                svg = asyncio.run(_picture(running.url, size, theme, queue, keys))
        (FOLDER / f"{name}.svg").write_text(_stable(svg), "utf-8")
        print(f"{name}.svg")


async def _picture(url: str, size: tuple[int, int], theme: str, queue: str, keys: tuple[str, ...]) -> str:
    with _fixed_address(), _fixed_cost():
        app = Cockpit(Settings(url), interval_s=0.3, open_queue=queue, theme_name=theme)
        async with app.run_test(size=size) as pilot:
            await pilot.pause(TRAFFIC_S)
            await _settled(app, pilot)
            for key in keys:
                await pilot.press(key)
                await _settled(app, pilot)
            app.clear_notifications()
            await _settled(app, pilot)
            return app.export_screenshot()


async def _settled(app: Cockpit, pilot: object) -> None:
    """Waits for two more pictures of the queues."""
    for _ in range(2):
        before = app.snapshot
        for _ in range(200):
            await pilot.pause(0.02)  # type: ignore[attr-defined]
            if app.snapshot is not before:
                break


@contextmanager
def _fixed_address() -> Iterator[None]:
    with mock.patch("rqtui.server.mask", lambda _url: SHOWN_URL):
        yield


@contextmanager
def _fixed_cost() -> Iterator[None]:
    """What a tick took differs from run to run; on a picture it is 1.4 ms."""
    with mock.patch("rqtui.tui.display.duration", lambda ms: "1.4 ms" if ms is not None and ms < 1000 else f"{ms} ms"):
        yield


def _plant(engine: Engine) -> None:
    """Three queues: one with jobs in every place, one that is quiet, one that is paused."""
    chance = random.Random(7)
    now_ms = int(time.time() * 1000)
    for queue, waiting, later, running, dead, done in (
        ("mail", 240, 60, 14, 22, 9),
        ("images", 88, 0, 6, 2, 0),
        ("reports", 12, 31, 0, 0, 0),
    ):
        ref = engine.find(queue)
        total = waiting + later + running + dead + done
        for number in range(total):
            kind = chance.choice(KINDS)
            body = b'{"to":"a.meyer@example.org","invoice":%d,"net":119.00,"currency":"EUR","token":"secret"}' % (
                48000 + number
            )
            at_ms = now_ms - (total - number) * 1300
            id = "".join(chance.choice(LETTERS) for _ in range(22))
            form: dict[str, object] = {"now_ms": at_ms, "id": id, "name": kind, "body": body}
            if number >= total - later:
                form["delay_ms"] = chance.choice((440, 90 + 400, 1000, 4000, 86400)) * 1000
            engine.act("enqueue", ref, (), form)
        engine.act("configure", ref, (), {"name": "keep_ms", "value": "86400000"})
        _take(engine, queue, done, lambda jobs, ref=ref: engine.act("ack", ref, jobs))
        _take(engine, queue, dead, lambda jobs, ref=ref: [_fail(engine, ref, job, chance) for job in jobs])
        _take(engine, queue, running, lambda _jobs: None)
        engine.announce(ref)
    engine.act("pause", engine.find("reports"))


@contextmanager
def _traffic(url: str) -> Iterator[None]:
    """About forty jobs a second come into two of the queues and leave them."""
    stop = threading.Event()

    def run() -> None:
        engine = with_layouts(server.connect(url), [layouts.make("native")])
        number = 0
        while not stop.wait(0.05):
            number += 1
            for queue in (QUEUE, "images"):
                ref = engine.find(queue)
                engine.act(
                    "enqueue", ref, (), {"id": f"flow-{number:06}", "name": "digest", "body": b"{}", "priority": -1}
                )
                engine.act("reserve", ref, (), {"limit": 1, "worker": "w1"})
                held = [job for job in engine.page(ref, "reserved", 0, 100).jobs if job.worker == "w1"]
                engine.act("ack", ref, held, {"keep_ms": 0})

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _take(engine: Engine, queue: str, number: int, then: Callable[[list[Job]], object]) -> None:
    if not number:
        return
    ref = engine.find(queue)
    held = {job.id for job in engine.page(ref, "reserved", 0, 500).jobs}
    engine.act("reserve", ref, (), {"limit": number, "worker": "w3", "ttr_ms": 45_000})
    then([job for job in engine.page(ref, "reserved", 0, 500).jobs if job.id not in held])


def _fail(engine: Engine, ref: Ref, job: Job, chance: random.Random) -> None:
    engine.act("reject", ref, [job], {"error": chance.choice(ERRORS), "final": True})


def _stable(svg: str) -> str:
    """One font that every viewer has, spaces kept, times of day fixed."""
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    return re.sub(r"\b\d\d:\d\d:\d\d\b", "12:04:11", svg)


if __name__ == "__main__":
    main()
