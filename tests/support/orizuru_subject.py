"""The system orizuru for the conformance suite: jobs are planted with the commands of its producer and consumers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgpack
from redis import Redis

from rqtui.scenarios.originals import orizuru as original
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use

NOW, HOUR, SILENT = 1_780_000_000_000, 3_600_000, 60_000
SOURCE, ALIVE = "jobs", "alive"
SCRIPTS = scripts.load_scripts("orizuru")
PLACES = ("source", "processing", "unacked")
SEEN = "rqtui:{orizuru}:seen"
KEYS = {"source": SOURCE, "consumers": original.CONSUMERS, "heartbeats": original.HEARTBEATS, "seen": SEEN}
Jobs = Sequence[Planted]


def build_body(id: bytes) -> bytes:
    """Build the body of an orizuru job: a struct whose first field is the job's id. Every third one is long."""
    number = int(id.rpartition(b"-")[2])
    return original.encode_struct(id.decode(), "x" * (6000 if number % 3 == 0 else 3))


def build_seen_record(entry: bytes, since_ms: int, length: int = 1) -> bytes:
    """Build the reaper's record about an orizuru list: since when the list has this length and newest entry."""
    return b"%d %d %d %s" % (since_ms, length, len(entry), entry[:64])


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant orizuru jobs in a place. A ripe job in processing gets a dead consumer, the longest silent first."""
    pipe = client.pipeline(transaction=False)
    jobs = []
    pipe.sadd(original.CONSUMERS, ALIVE).hset(original.HEARTBEATS, ALIVE, NOW)
    pipe.set(original.build_key(ALIVE, "heartbeat"), NOW, px=HOUR)
    for id in ids:
        worker = "" if place == "source" else ALIVE
        if ripe and place == "processing":
            worker = f"dead-{id.decode()}"
            pipe.hset(original.HEARTBEATS, worker, NOW - HOUR + int(id.rpartition(b"-")[2]))
            pipe.hset(SEEN, worker, build_seen_record(build_body(id), NOW - HOUR))
        pipe.lpush(SOURCE if place == "source" else original.build_key(worker, place), build_body(id))
        jobs.append(Planted(id, place, worker))
    pipe.execute()
    return jobs


def read_lists_of_place(client: Redis, place: str) -> dict[bytes, list[bytes]]:
    """Return the Redis lists of an orizuru place by key, each from its oldest entry on."""
    keys = (
        [SOURCE.encode()] if place == "source" else sorted(client.scan_iter(original.build_key("*", place), count=1000))
    )
    return {key: client.lrange(key, 0, -1)[::-1] for key in keys}


def list_ids(client: Redis, place: str) -> list[bytes]:
    return [
        msgpack.unpackb(entry)[0].encode()
        for entries in read_lists_of_place(client, place).values()
        for entry in entries
    ]


def read_facts(client: Redis, id: bytes) -> list[tuple[bytes, int]]:
    """Return (key, count) of each orizuru list that contains the job."""
    items = [item for place in PLACES for item in read_lists_of_place(client, place).items()]
    return [(key, entries.count(build_body(id))) for key, entries in items if build_body(id) in entries]


def read_body(client: Redis, id: bytes) -> bytes | None:
    return build_body(id) if read_facts(client, id) else None


def request_by_entry(**args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request with one row per orizuru job, named by its entry."""
    return lambda jobs: Request(args, [{"member": build_body(job.id), "worker": job.token} for job in jobs])


def request_limit(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, "limit": len(jobs), **args})


def request_queue(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, "silent_ms": SILENT, **args})


def request_delete(jobs: Jobs) -> Request:
    return request_by_entry(place=jobs[0].place or "source")(jobs)


def request_show(jobs: Jobs) -> Request:
    return request_show_of_entry(build_body(jobs[0].id))


def request_show_of_entry(entry: bytes) -> Request:
    identity = {"head": entry, "size": len(entry), "tail": entry[-64:]}
    return Request({"now_ms": NOW, "silent_ms": SILENT, "body_bytes": -1, **identity})


def request_unknown_job(request: Callable[[Jobs], Request]) -> Callable[[JobDatabase], Request]:
    return lambda database: request([database.create_absent_job()])


def empty_place_and_request(place: str, request: Callable[[Jobs], Request]) -> Callable[[JobDatabase], Request]:
    def empty_place_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(*read_lists_of_place(database.client, place))
        return request([Planted(b"")])

    return empty_place_and_build_request


def request_long_search(database: JobDatabase) -> Request:
    """Build a request for missing jobs in an orizuru list that is so long that the search stops early."""
    database.client.rpush(SOURCE, *[original.encode_struct("other-1", n) for n in range(1200)])
    return Request({"place": "source"}, [(b"nothing", "")] * 1000)


def check_counts(database: JobDatabase, reply: Reply) -> None:
    assert {place: reply.values[place] for place in PLACES} == {
        p: len(ids) for p, ids in database.read_members().items()
    }
    assert (reply.values["workers"], reply.values["consumers"], reply.values["exact"]) == (1, 1, True)


def check_page(database: JobDatabase, reply: Reply) -> None:
    entries = [build_body(id) for id in database.read_members()["processing"]]
    assert [(row[0], row[1], row[2], row[3]) for row in reply.rows] == [
        (entry if len(entry) <= 4096 else entry[:4096], len(entry), entry[-64:], ALIVE.encode()) for entry in entries
    ]
    assert reply.values["total"] == len(entries)
    assert all(row[4] == NOW and NOW < row[5] <= NOW + HOUR for row in reply.rows)


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    assert reply.values["place"] == "processing" and reply.values["worker"] == ALIVE.encode()
    assert reply.values["head"] in [build_body(id) for id in database.read_members()["processing"]]


def check_no_problems(database: JobDatabase, reply: Reply) -> None:
    assert reply.rows == [] and reply.values["looked"] == sum(map(len, database.read_members().values()))


def check_roster_reply(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `roster` lists the orizuru consumers."""
    [(name, heartbeat, left_ms, processing, unacked, registered)] = reply.rows
    assert (name, heartbeat, registered) == (ALIVE.encode(), NOW, True) and 0 < left_ms <= HOUR
    assert (processing, unacked) == (
        len(database.read_members()["processing"]),
        len(database.read_members()["unacked"]),
    )


RESERVE = request_limit(silent_ms=SILENT, worker="w1", ttr_ms=30_000)
REAP, GC = request_limit(silent_ms=SILENT), request_limit(silent_ms=SILENT, gc=True)
GONE = {"gone": request_unknown_job(request_by_entry())}
USES = {
    "ack": Use(request_by_entry(), reach=GONE),
    "reject": Use(request_by_entry(), reach=GONE),
    "release": Use(request_by_entry(), reach=GONE),
    "requeue": Use(request_by_entry(), reach=GONE),
    "delete": Use(request_delete, reach={"gone": request_unknown_job(request_delete), "later": request_long_search}),
    "enqueue": Use(lambda jobs: Request({}, [(build_body(job.id),) for job in jobs]), repeats=True),
    "reserve": Use(RESERVE, chooses=True, reach={"empty": empty_place_and_request("source", RESERVE)}),
    "pull": Use(request_limit(), chooses=True, reach={"empty": empty_place_and_request("source", request_limit())}),
    "reap": Use(
        REAP, ("processing",), chooses=True, ripe=True, reach={"empty": empty_place_and_request("processing", REAP)}
    ),
    "gc": Use(GC, ("unacked",), chooses=True, reach={"empty": empty_place_and_request("unacked", GC)}),
    "counts": Use(request_queue(), knows_jobs=False, reads=check_counts),
    "page": Use(
        request_queue(place="processing", offset=0, limit=100, body_bytes=20),
        ("processing",),
        knows_jobs=False,
        reads=check_page,
    ),
    "show": Use(
        request_show, ("processing",), reads=check_shown_job, reach={"gone": request_unknown_job(request_show)}
    ),
    "faults": Use(request_queue(), knows_jobs=False, reads=check_no_problems),
    "roster": Use(lambda jobs: Request(), ("processing",), knows_jobs=False, reads=check_roster_reply),
}

ORIZURU = Subject(
    "orizuru",
    {**SCRIPTS, "gc": SCRIPTS["reap"]},  # one script, two uses
    PLACES,
    lambda name: KEYS.get(name, original.CONSUMERS),
    plant_jobs,
    list_ids,
    read_facts,
    read_body,
    USES,
    lambda key: re.fullmatch(r"orizuru:consumers:.*:(processing|unacked|heartbeat)", key) is not None,
)
