"""Run one process of a history: `python -m faults.actors KIND OPTIONS`, OPTIONS being a JSON object.

Each process runs until SIGTERM, and then ends with 0; any other end is a fault. The processes choose by a random source
of their own, seeded by the conductor, and record their requests and the replies in the history.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aio_facade
from faults.history import History

from rqtui.client.leased_job import Job
from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine
from rqtui.engine.loops import Loop, build_round
from rqtui.engine.ticker import Ticker
from rqtui.errors import RqtuiError, ServerError
from rqtui.model import Focus, PageSelection, Ref
from rqtui.systems import registry

TTR_S = 0.6
TRIES = 3  # of a put or an ack whose answer was an error


class Actor:
    """The parts that all processes of a history share: names, random source, history, and the stop event."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        settings = SimpleNamespace(**options)
        self.name, self.url, self.queues, self.most = settings.name, settings.url, settings.queues, settings.most
        self.chance = random.Random(settings.seed)
        self.history = History(Path(settings.history), settings.name)
        self.kind: Any = Queue
        self.stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop.set())

    def queue(self) -> Queue:
        """Open one of the queues, chosen at random."""
        result: Queue = self.kind(self.chance.choice(self.queues), self.url)
        return result

    def pause(self, seconds: float) -> None:
        """Wait for about so many seconds, or until the end."""
        self.stop.wait(seconds * self.chance.uniform(0.5, 1.5))


def run_producer(actor: Actor) -> None:
    """Put `most` jobs with ids of its own, one by one and many at once, due now and later, some refused."""
    chance, result = actor.chance, 0
    queues = {name: actor.kind(name, actor.url) for name in actor.queues}
    while result < actor.most and not actor.stop.is_set():
        queue = queues[chance.choice(actor.queues)]
        items = [_build_item(chance, f"{actor.name}:{result + n}") for n in range(chance.choice((1, 1, 2, 5, 20)))]
        result += len(items)
        if chance.random() < 0.05:
            items[-1]["priority"] = 99_999  # refuses the whole batch
            _put_items(actor, queue, items)
        else:
            for _try in range(TRIES):
                if _put_items(actor, queue, items) or actor.stop.is_set():
                    break
                actor.pause(0.3)
        actor.pause(0.12)
    actor.stop.wait()


def _build_item(chance: random.Random, id: str) -> dict[str, Any]:
    item: dict[str, Any] = {"id": id, "body": {"id": id}, "priority": chance.choice((0, 0, 0, 0, -5, 7))}
    if chance.random() < 0.3:
        item["delay"] = chance.uniform(0.05, 2)
    if chance.random() < 0.05:
        item["body"] = "x" * 6000  # is stored in `bodies`
    return item


def _put_items(actor: Actor, queue: Queue, items: Sequence[dict[str, Any]]) -> bool:
    def put_and_collect_words() -> list[str]:
        if len(items) == 1:
            return [queue.put(**items[0]).word]
        return [put.word for put in queue.put_many(items)]

    ids = [item["id"] for item in items]
    return (
        actor.history.call("put", put_and_collect_words, lambda words: {"words": words}, queue=queue.name, ids=ids)
        is not None
    )


def run_consumer(actor: Actor) -> None:
    """Run the jobs of `Queue.run_consumer`: ack, fail, release, or take long."""
    queue, open_jobs = actor.queue(), list[tuple[Job, str]]()
    batch = actor.chance.choice((1, 10, 100))
    for job in queue.consume(ttr=TTR_S, batch=batch, worker=actor.name, stop=actor.stop):
        verb = _draw_outcome(actor)
        with contextlib.suppress(RqtuiError), job:
            _record_begin(actor, job)
            actor.stop.wait(_draw_run_seconds(actor))
            _record_end(actor, job, verb)
            if verb == "reject":
                raise ValueError("fails now and then")
            if verb == "release":
                job.settle_later("release")
        open_jobs = _record_outcomes(actor, [*open_jobs, (job, verb)])
    _record_outcomes(actor, open_jobs)


def run_lease_holder(actor: Actor) -> None:
    """Reserve a few jobs and settle them by single calls."""
    queue = actor.queue()
    while not actor.stop.is_set():
        count = actor.chance.choice((1, 1, 3, 10))
        jobs = actor.history.call(
            "reserve",
            lambda count=count: queue.reserve(count, ttr=TTR_S, worker=actor.name),
            lambda jobs: {"leases": [[job.id, job.token, job.attempt, job.max_attempts] for job in jobs]},
            queue=queue.name,
            ttr_s=TTR_S,
        )
        for job in jobs or ():
            verb = _draw_outcome(actor)
            _record_begin(actor, job)
            time.sleep(_draw_run_seconds(actor) / 4)
            _record_end(actor, job, verb)
            _settle_job(actor, job, verb)
        if not jobs:
            actor.pause(0.1)


def _settle_job(actor: Actor, job: Job, verb: str) -> None:
    settle = {"ack": job.ack, "reject": lambda: job.reject("fails now and then"), "release": job.release}[verb]
    for _try in range(TRIES):
        try:
            _record_outcome(actor, job, verb, settle())
            return
        except ServerError:
            actor.pause(0.2)


def _draw_outcome(actor: Actor) -> str:
    return actor.chance.choices(("ack", "reject", "release"), (88, 8, 4))[0]


def _draw_run_seconds(actor: Actor) -> float:
    return actor.chance.choices((0.0, 0.005, 0.05, 2 * TTR_S), (500, 400, 95, 5))[0]


def _record_begin(actor: Actor, job: Job) -> None:
    since = job.until_s - job.ttr_ms / 1000
    actor.history.note("begin", **_build_job_fields(job), most=job.max_attempts, since=since, ttr_s=job.ttr_ms / 1000)


def _record_end(actor: Actor, job: Job, verb: str) -> None:
    actor.history.note("end", **_build_job_fields(job), verb=verb)


def _record_outcome(actor: Actor, job: Job, verb: str, word: str) -> None:
    actor.history.note("settled", **_build_job_fields(job), verb=verb, word=word)


def _record_outcomes(actor: Actor, jobs: Sequence[tuple[Job, str]]) -> list[tuple[Job, str]]:
    """Record the outcomes that are known now, and return the other jobs."""
    for job, verb in jobs:
        if job.outcome not in ("", "sent"):
            _record_outcome(actor, job, verb, job.outcome)
    return [(job, verb) for job, verb in jobs if job.outcome in ("", "sent")]


def _build_job_fields(job: Job) -> dict[str, Any]:
    return {"queue": job.queue, "id": job.id, "token": job.token, "attempt": job.attempt}


def run_screen_engine(actor: Actor) -> None:
    """Run the engine of a screen: snapshots of all queues and a page, a dispatcher and a reaper."""
    refs = [Ref("native", name) for name in actor.queues]
    loops = [
        Loop(
            verb,
            build_round(
                verb, connect(actor.url), {"native": registry.create_system("native")}, lambda: refs, max_wait_s=0.2
            ),
        )
        for verb in ("dispatch", "reap")
    ]
    ticker = Ticker(lambda: Engine(connect(actor.url), [registry.create_system("native")]), lambda _message: None, 0.3)
    ticker.start()
    for loop in loops:
        loop.start()
    while not actor.stop.is_set():
        place = actor.chance.choice(("scheduled", "ready", "reserved", "dead"))
        ticker.set_next_focus(Focus(queues=tuple(refs), pages=(PageSelection(actor.chance.choice(refs), place),)))
        actor.pause(0.5)
        names = {thread.name for thread in threading.enumerate()}
        alive = "rqtui-ticker" in names and all(loop.is_running for loop in loops)
        actor.history.note("look", alive=alive)
    for thread in (ticker, *loops):
        thread.stop()


def run_operator(actor: Actor) -> None:
    """Run an operator on the engine: any verb on a few jobs of a place that the verb takes jobs from."""
    engine = Engine(connect(actor.url), [registry.create_system("native")])
    while not actor.stop.is_set():
        ref = Ref("native", actor.chance.choice(actor.queues))
        verb, place, form = actor.chance.choice(_VERBS)
        with contextlib.suppress(ServerError):
            jobs = [*engine.fetch_page(ref, place, 0, 20).jobs]
            chosen = actor.chance.sample(jobs, min(len(jobs), actor.chance.choice((1, 1, 3))))
            if chosen or not place:
                actor.history.call(
                    "act",
                    lambda verb=verb, ref=ref, chosen=chosen, form=form: engine.apply_verb(verb, ref, chosen, form),
                    lambda outcomes: {"words": [outcome.word for outcome in outcomes]},
                    queue=ref.queue,
                    verb=verb,
                    ids=[job.id.decode() for job in chosen],
                )
        actor.pause(0.08)


_VERBS: Sequence[tuple[str, str, dict[str, object]]] = (
    ("requeue", "dead", {}),
    ("delete", "dead", {}),
    ("delete", "ready", {}),
    ("kill", "ready", {"reason": "an operator says so"}),
    ("kill", "reserved", {"reason": "an operator says so", "force": True}),
    ("promote", "scheduled", {}),
    ("reschedule", "scheduled", {"delay_ms": 300}),
    ("reschedule", "ready", {"delay_ms": 300}),
    ("reprioritise", "ready", {"priority": 3}),
    ("bump", "ready", {}),
    ("extend", "reserved", {"ttr_ms": 600}),
    ("release", "reserved", {}),
    ("reject", "reserved", {"error": "an operator says so"}),
    ("cancel", "reserved", {}),
)


def run_command_lines(actor: Actor) -> None:
    """Run `rqtui put` and `rqtui act` as a person at the command line, a process each."""
    count = 0
    while not actor.stop.is_set():
        queue, verb = actor.chance.choice(actor.queues), actor.chance.choice(("put", "put", "requeue", "pause"))
        id = f"{actor.name}:{count}"
        count += 1
        if verb == "put":
            words = [
                "put",
                queue,
                '{"by": "hand"}',
                "--id",
                id,
                "--delay",
                actor.chance.choice(("0", "500ms")),
                "--json",
            ]
            actor.history.call(
                "put", lambda words=words: _run_rqtui(actor, words), _list_result_words, queue=queue, ids=[id]
            )
        elif verb == "requeue":
            words = ["act", verb, queue, "--place", "dead", "--all", "--yes", "--json"]
            fields = {"queue": queue, "verb": verb, "ids": []}
            actor.history.call("act", lambda words=words: _run_rqtui(actor, words), lambda _: {}, **fields)
        else:
            for each in ("pause", "resume"):
                with contextlib.suppress(ServerError):
                    _run_rqtui(actor, ["act", each, queue, "--yes", "--json"])
        actor.pause(0.5)


def _run_rqtui(actor: Actor, words: Sequence[str]) -> dict[str, Any]:
    ran = subprocess.run([sys.executable, "-m", "rqtui", "-u", actor.url, *words], capture_output=True, text=True)
    if ran.returncode == 0:
        return dict(json.loads(ran.stdout))
    if ran.returncode not in (1, 3) or "Traceback" in ran.stderr:
        raise RuntimeError(f"rqtui {' '.join(words)} ended with {ran.returncode}: {ran.stderr}")
    raise ServerError(ran.stderr)


def _list_result_words(document: Mapping[str, Any]) -> dict[str, Any]:
    return {"words": [result["word"] for result in document["results"]]}


def run_with_aio(work: Callable[[Actor], None]) -> Callable[[Actor], None]:
    """Return the same work for `rqtui.aio`, whose loop runs on a thread beside it."""

    def run_work_on_loop(actor: Actor) -> None:
        actor.kind = aio_facade.Queue
        work(actor)

    return run_work_on_loop


KINDS: Mapping[str, Callable[[Actor], None]] = {
    "produce": run_producer,
    "consume": run_consumer,
    "lease": run_lease_holder,
    "produce-awaited": run_with_aio(run_producer),
    "consume-awaited": run_with_aio(run_consumer),
    "look": run_screen_engine,
    "operate": run_operator,
    "command": run_command_lines,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](Actor(json.loads(sys.argv[2])))
