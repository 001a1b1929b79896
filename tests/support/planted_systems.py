"""The systems of others as the shell's tests plant and call them: a queue of each with a job in every place."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from shapes import ACT, PAGE, PUT, TAKEN, fits
from shell import Ran, shell

from rqtui.testing.keyspace import Zset

HOUR_S = 3600
CALL = zlib.compress(b"\x80\x02(X\x09\x00\x00\x00tasks.addN)}t.")  # tasks.add()
NOWHERE = "redis://127.0.0.1:1"


def now_s() -> int:
    return int(time.time())


@dataclass(frozen=True)
class System:
    """A system, the queue of it that the tests use, jobs in each of its places, and a verb of it that asks first."""

    spec: str
    queue: str
    keys: Callable[[], dict[str, object]]  # each place holds one job, the ready one two
    dangerous: tuple[str, ...]
    body: str = "[1]"  # a job as it is put
    unplanted: Mapping[str, int] = field(default_factory=dict, compare=False)  # places that no key can fill

    @property
    def layout(self) -> str:
        return self.spec.partition(":")[0]

    def __str__(self) -> str:
        return self.layout


DISPATCHER = System(
    "dispatcher:ready=readytasklist",
    "readytasklist",
    lambda: {"readytasklist": ["a", "b"], "delayedtaskset": Zset({"later": now_s() + HOUR_S})},
    ("delete", "a"),
)
REDISCHED = System(
    "redisched:topic=mail,unit=ms",
    "mail",
    lambda: {
        "__REDIS_SCHED_JOBS__mail": {id: f'"{id}"' for id in ("a", "b", "later", "held", "late")},
        "__REDIS_SCHED_QUEUED__mail": Zset({"a": 1e12, "b": 1e12 + 1, "later": (now_s() + HOUR_S) * 1000}),
        "__REDIS_SCHED_RESERVED__mail": Zset({"held": (now_s() + HOUR_S) * 1000, "late": 1e12}),
    },
    ("delete", "a"),
)
TIMEOUT_SETS = System(
    "timeout_sets:todos=todos",
    "todos",
    lambda: {"todos": {"1", "2"}, "in_progress": {"3"}, "3-lock": "", "done": {"4"}},
    ("delete", "1"),
)
ORIZURU = System(
    "orizuru:source=jobs",
    "jobs",
    lambda: {
        "jobs": [b"\x91\x02", b"\x91\x01"],
        "orizuru:consumers": {"c"},
        "orizuru:consumers:c:processing": [b"\x91\x03"],
        "orizuru:consumers:c:unacked": [b"\x91\x04"],
        "orizuru:consumers:c:heartbeat": "1",
        "orizuru:heartbeats": {"c": str(now_s() * 1000)},
    },
    ("delete", "\\x91\\x01"),
)
SAFE_POP = System(
    "safe_pop:queue=crawl",
    "crawl",
    lambda: {
        "crawl": [f"late|{now_s() - HOUR_S}", f"held|{now_s()}", "b", "a"],
        "crawl:data:a": "the body",
        "crawl:done": {"elsewhere"},
    },
    ("delete", "a"),
)
RQ = System(
    "rq",
    "default",
    lambda: {
        "rq:queues": {"rq:queue:default"},
        "rq:queue:default": ["a", "b"],
        "rq:queue:default:intermediate": ["between"],
        "rq:wip:default": Zset({"held:e1": now_s() + HOUR_S}),
        "rq:scheduled:default": Zset({"later": now_s() + HOUR_S}),
        **{f"rq:{name}:default": Zset({name: now_s()}) for name in ("deferred", "ready", "canceled")},
        **{f"rq:{name}:default": Zset({name: now_s() + HOUR_S}) for name in ("finished", "failed")},
        **{
            f"rq:job:{id}": {"data": CALL, "origin": "default", "status": status}
            for id, status in (
                ("a", "queued"),
                ("b", "queued"),
                ("between", "queued"),
                ("held", "started"),
                ("later", "scheduled"),
                ("ready", "ready_to_enqueue"),
                *((name, name) for name in ("deferred", "canceled", "finished", "failed")),
            )
        },
    },
    ("delete", "a"),
    '{"func": "tasks.add"}',
)


def hard_job(jid: str) -> str:
    return f'{{"class":"HardJob","args":[],"retry":true,"queue":"default","jid":"{jid}","created_at":1.25e9}}'


SIDEKIQ = System(
    "sidekiq",
    "default",
    lambda: {
        "queues": {"default"},
        "queue:default": [hard_job("b"), hard_job("a")],
        "schedule": Zset({hard_job("later"): now_s() + HOUR_S}),
        "retry": Zset({hard_job("again"): now_s() + HOUR_S}),
        "dead": Zset({hard_job("dead"): now_s()}),
        "processes": {"host:1:x"},
        "host:1:x": {
            "info": '{"queues":["default"],"concurrency":5}',
            "beat": str(now_s()),
            "busy": "1",
            "quiet": "false",
        },
        "host:1:x:work": {"t": json.dumps({"queue": "default", "payload": hard_job("held"), "run_at": now_s()})},
    },
    ("delete", "a"),
    '{"class": "HardJob", "args": []}',
    {"lost": 0},
)
SYSTEMS = (DISPATCHER, REDISCHED, TIMEOUT_SETS, ORIZURU, SAFE_POP, RQ, SIDEKIQ)
PLACES = [
    *((DISPATCHER, place, name) for place, name in (("delayed", "scheduled"), ("ready", "ready"))),
    *(
        (REDISCHED, place, name)
        for place, name in (("queued", "scheduled"), ("due", "ready"), ("reserved", "reserved"))
    ),
    (REDISCHED, "expired", "expired"),
    *(
        (TIMEOUT_SETS, place, name)
        for place, name in (("todos", "ready"), ("in_progress", "reserved"), ("done", "done"))
    ),
    *((ORIZURU, place, name) for place, name in (("source", "ready"), ("processing", "reserved"), ("unacked", "dead"))),
    *((SAFE_POP, place, name) for place, name in (("ready", "ready"), ("in_progress", "reserved"))),
    (SAFE_POP, "expired", "expired"),
    *((RQ, place, name) for place, name in (("scheduled", "scheduled"), ("queued", "ready"), ("started", "reserved"))),
    *((RQ, place, name) for place, name in (("finished", "done"), ("failed", "dead"))),
    *((SIDEKIQ, place, name) for place, name in (("schedule", "scheduled"), ("queue", "ready"), ("work", "reserved"))),
    (SIDEKIQ, "dead", "dead"),
]
every_system = pytest.mark.parametrize("system", SYSTEMS, ids=str)


@dataclass(frozen=True)
class Shell:
    """The command line at one Redis, with the layout of one system."""

    url: str
    system: System

    def run(self, *words: str, code: int = 0, stdin: bytes = b"") -> Ran:
        """A command line that ends with `code`, and without a traceback."""
        ran = shell(self.url, "--layout", self.system.spec, *words, stdin=stdin)
        assert ran.code == code, (words, ran.code, ran.out, ran.err)
        assert "Traceback" not in ran.err
        assert "should not happen" not in ran.err
        return ran

    def put(self, *words: str, code: int = 0, stdin: bytes = b"") -> list[str]:
        """The words that `put` answers."""
        document = self.run("put", self.system.queue, *words, "--json", code=code, stdin=stdin).json
        fits(document, PUT)
        return [result["word"] for result in document["results"]]

    def act(self, verb: str, *words: str, code: int = 0) -> list[str]:
        """The words that `act VERB` answers."""
        document = self.run("act", verb, self.system.queue, *words, "--yes", "--json", code=code).json
        fits(document, ACT)
        return [result["word"] for result in document["results"]]

    def take(self, verb: str, *words: str) -> list[dict[str, object]]:
        """The jobs that `reserve` or `pull` hands out."""
        document = self.run("act", verb, self.system.queue, *words, "--yes", "--json").json
        fits(document, TAKEN)
        assert document["moved"] == len(document["results"])
        return [result["job"] for result in document["results"]]

    def ids(self, place: str, *words: str) -> list[str]:
        """The ids in a place."""
        document = self.run("jobs", self.system.queue, place, *words, "--json").json
        fits(document, PAGE)
        return [job["id"] for job in document["jobs"]]

    def refused(self, *words: str, code: int = 2) -> str:
        """What is said about a command line that is refused; nothing is on stdout then."""
        ran = self.run(*words, code=code)
        assert ran.out == ""
        return ran.err.replace("\n", " ")
