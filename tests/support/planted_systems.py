"""A queue of each system except the native one with a job in every place, for tests of the command line."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from json_shapes import ACT, PAGE, PUT, TAKE, check_shape
from shell import Ran, shell

from rqtui.testing.keyspace import Zset

HOUR_S = 3600
CALL = zlib.compress(b"\x80\x02(X\x09\x00\x00\x00tasks.addN)}t.")  # tasks.add()
NOWHERE = "redis://127.0.0.1:1"


def read_now_s() -> int:
    return int(time.time())


@dataclass(frozen=True)
class PlantedSystem:
    """Another queue system with a test queue, jobs in each of its places, and a verb that asks for confirmation."""

    spec: str
    queue: str
    keys: Callable[[], dict[str, object]]  # each place holds one job, the ready one two
    dangerous: tuple[str, ...]
    body: str = "[1]"  # an argument of `put`
    unplanted: Mapping[str, int] = field(default_factory=dict, compare=False)  # places without a key, with their counts

    @property
    def system(self) -> str:
        return self.spec.partition(":")[0]

    def __str__(self) -> str:
        return self.system


DISPATCHER = PlantedSystem(
    "dispatcher:ready=readytasklist",
    "readytasklist",
    lambda: {"readytasklist": ["a", "b"], "delayedtaskset": Zset({"later": read_now_s() + HOUR_S})},
    ("delete", "a"),
)
REDISCHED = PlantedSystem(
    "redisched:topic=mail,unit=ms",
    "mail",
    lambda: {
        "__REDIS_SCHED_JOBS__mail": {id: f'"{id}"' for id in ("a", "b", "later", "held", "late")},
        "__REDIS_SCHED_QUEUED__mail": Zset({"a": 1e12, "b": 1e12 + 1, "later": (read_now_s() + HOUR_S) * 1000}),
        "__REDIS_SCHED_RESERVED__mail": Zset({"held": (read_now_s() + HOUR_S) * 1000, "late": 1e12}),
    },
    ("delete", "a"),
)
TIMEOUT_SETS = PlantedSystem(
    "timeout_sets:todos=todos",
    "todos",
    lambda: {"todos": {"1", "2"}, "in_progress": {"3"}, "3-lock": "", "done": {"4"}},
    ("delete", "1"),
)
ORIZURU = PlantedSystem(
    "orizuru:source=jobs",
    "jobs",
    lambda: {
        "jobs": [b"\x91\x02", b"\x91\x01"],
        "orizuru:consumers": {"c"},
        "orizuru:consumers:c:processing": [b"\x91\x03"],
        "orizuru:consumers:c:unacked": [b"\x91\x04"],
        "orizuru:consumers:c:heartbeat": "1",
        "orizuru:heartbeats": {"c": str(read_now_s() * 1000)},
    },
    ("delete", "\\x91\\x01"),
)
SAFE_POP = PlantedSystem(
    "safe_pop:queue=crawl",
    "crawl",
    lambda: {
        "crawl": [f"late|{read_now_s() - HOUR_S}", f"held|{read_now_s()}", "b", "a"],
        "crawl:data:a": "the body",
        "crawl:done": {"elsewhere"},
    },
    ("delete", "a"),
)
RQ = PlantedSystem(
    "rq",
    "default",
    lambda: {
        "rq:queues": {"rq:queue:default"},
        "rq:queue:default": ["a", "b"],
        "rq:queue:default:intermediate": ["between"],
        "rq:wip:default": Zset({"held:e1": read_now_s() + HOUR_S}),
        "rq:scheduled:default": Zset({"later": read_now_s() + HOUR_S}),
        **{f"rq:{name}:default": Zset({name: read_now_s()}) for name in ("deferred", "ready", "canceled")},
        **{f"rq:{name}:default": Zset({name: read_now_s() + HOUR_S}) for name in ("finished", "failed")},
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


def build_sidekiq_job(jid: str) -> str:
    return f'{{"class":"HardJob","args":[],"retry":true,"queue":"default","jid":"{jid}","created_at":1.25e9}}'


SIDEKIQ = PlantedSystem(
    "sidekiq",
    "default",
    lambda: {
        "queues": {"default"},
        "queue:default": [build_sidekiq_job("b"), build_sidekiq_job("a")],
        "schedule": Zset({build_sidekiq_job("later"): read_now_s() + HOUR_S}),
        "retry": Zset({build_sidekiq_job("again"): read_now_s() + HOUR_S}),
        "dead": Zset({build_sidekiq_job("dead"): read_now_s()}),
        "processes": {"host:1:x"},
        "host:1:x": {
            "info": '{"queues":["default"],"concurrency":5}',
            "beat": str(read_now_s()),
            "busy": "1",
            "quiet": "false",
        },
        "host:1:x:work": {
            "t": json.dumps({"queue": "default", "payload": build_sidekiq_job("held"), "run_at": read_now_s()})
        },
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
    """The command line of rqtui for one Redis server and one system."""

    url: str
    system: PlantedSystem

    def run(self, *words: str, code: int = 0, stdin: bytes = b"") -> Ran:
        """Run a command line of rqtui, check its exit code, and check that it prints no traceback."""
        result = shell(self.url, "--system", self.system.spec, *words, stdin=stdin)
        assert result.code == code, (words, result.code, result.out, result.err)
        assert "Traceback" not in result.err
        assert "should not happen" not in result.err
        return result

    def put(self, *words: str, code: int = 0, stdin: bytes = b"") -> list[str]:
        """Run `rqtui put` and return the words of its results."""
        document = self.run("put", self.system.queue, *words, "--json", code=code, stdin=stdin).json
        check_shape(document, PUT)
        return [result["word"] for result in document["results"]]

    def act(self, verb: str, *words: str, code: int = 0) -> list[str]:
        """Run `rqtui act VERB` and return the words of its results."""
        document = self.run("act", verb, self.system.queue, *words, "--yes", "--json", code=code).json
        check_shape(document, ACT)
        return [result["word"] for result in document["results"]]

    def take(self, verb: str, *words: str) -> list[dict[str, object]]:
        """Run `rqtui act reserve` or `pull` and return the jobs."""
        document = self.run("act", verb, self.system.queue, *words, "--yes", "--json").json
        check_shape(document, TAKE)
        assert document["moved"] == len(document["results"])
        return [result["job"] for result in document["results"]]

    def ids(self, place: str, *words: str) -> list[str]:
        """Return the ids of the jobs in a place of the system."""
        document = self.run("jobs", self.system.queue, place, *words, "--json").json
        check_shape(document, PAGE)
        return [job["id"] for job in document["jobs"]]

    def refused(self, *words: str, code: int = 2) -> str:
        """Run a command line that rqtui must refuse, and return its error message. Stdout must be empty."""
        result = self.run(*words, code=code)
        assert result.out == ""
        return result.err.replace("\n", " ")
