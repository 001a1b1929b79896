"""What Sidekiq 8 left in Redis in a recorded run: rqtui reads all of it, and writes what it moves as Sidekiq 8 would.

It needs no Ruby, and is part of a plain `pytest`.
"""

from __future__ import annotations

import json

from beside.sidekiq.recorded import plant
from redis import Redis
from shell import shell

PLACES = {
    "schedule": ["later-1", "later-2"],
    "retry": ["fails-1", "fails-2", "flaky"],
    "work": ["slow-1", "slow-2"],
    "dead": ["fatal"],
}


def test_each_place_process_job_and_figure_of_a_recorded_run_is_read_and_moved_in_its_own_format(
    client: Redis, url: str
) -> None:
    def rqtui(*words: str, code: int = 0) -> object:
        ran = shell(url, *words, "--json")
        assert ran.code == code, (words, ran.out, ran.err)
        return ran.json

    header = plant(client)
    assert header["version"] == "8.1.7"
    snapshot = rqtui("snapshot")
    by_name = {
        queue["queue"]: {each["place"]: each["count"] for each in queue["places"]} for queue in snapshot["queues"]
    }
    assert by_name["default"] == {"schedule": 2, "retry": 3, "queue": 3, "work": 2, "lost": 0, "dead": 1}
    assert by_name["low"]["queue"] == 1

    jobs = {place: rqtui("jobs", "sidekiq:default", place)["jobs"] for place in (*PLACES, "queue")}
    assert {place: sorted(job["id"] for job in jobs[place]) for place in PLACES} == PLACES
    first, second, greeting = jobs["queue"]
    assert (first["id"], second["id"], greeting["name"]) == ("waits-1", "waits-2", "GreetJob")
    assert greeting["call"] == 'GreetJob.perform("zoë", loud: true)'
    created_ms = header["at"] * 1000
    for job in (each for place in jobs.values() for each in place):
        assert 0 <= created_ms - job["enqueued_at_ms"] < 60_000, job["id"]
        assert not job["problem"]
    for job in jobs["work"]:
        assert job["worker"].startswith("web-2:")
        assert job["call"] == 'SlowJob.perform("go")'
    dead = rqtui("show", "sidekiq:default", "fatal")
    assert "ArgumentError: no such order" in dead["error"]
    assert "shop.rb:" in dead["error"], "its backtrace is unzipped"
    [worker] = rqtui("workers")
    assert worker["worker"].startswith("web-2:")
    figures = {each["name"]: each for each in rqtui("kinds")["kinds"]}
    assert {"HardJob", "FailJob", "FatalJob", "FlakyJob", "SlowJob", "GreetJob"} <= {*figures}
    [schedule] = rqtui("schedules")
    assert (schedule["queue"], schedule["pattern"]) == ("default", "0 3 * * *")
    kinds = {finding["kind"] for finding in rqtui("health", code=2)["findings"]}
    assert {"no-consumer"} <= kinds
    assert not kinds & {"lost-on-kill", "undecodable", "unreadable", "raw-bytes", "no-retry", "wrong-type"}

    before = client.zrange("dead", 0, 0)[0]
    for verb, id in (("requeue", "fatal"), ("promote", "fails-1"), ("promote", "later-1")):
        rqtui("act", verb, "sidekiq:default", id, "--yes")
    entries_by_jid = {item["jid"]: item for item in map(json.loads, client.lrange("queue:default", 0, -1))}
    for id in ("fatal", "fails-1", "later-1"):
        assert isinstance(entries_by_jid[id]["enqueued_at"], int), id
        assert entries_by_jid[id]["enqueued_at"] > created_ms, id
    now = {"enqueued_at": 0, "retry_count": 0}
    assert {**entries_by_jid["fatal"], **now} == {**json.loads(before), **now}
    assert [*entries_by_jid["fatal"]] == [*json.loads(before)], "the order of its fields"
    assert entries_by_jid["fails-1"]["retry_count"] == -1, "the try is given back, as Sidekiq does"


def test_json_that_is_torn_is_found_and_killed_by_the_name_that_another_run_gave_it(client: Redis, url: str) -> None:
    torn = b'{"retry":true,"queue":"default","class":"HardJob","args":["ada@exam'
    plant(client)
    client.zadd("schedule", {torn: 2_000_000_000})
    kinds = {finding["kind"] for finding in shell(url, "health", "--json").json["findings"]}
    assert "undecodable" in kinds
    [id] = [
        job["id"] for job in shell(url, "jobs", "sidekiq:default", "schedule", "--json").json["jobs"] if job["problem"]
    ]
    assert shell(url, "act", "kill", "sidekiq:default", id, "--yes").code == 0
    assert client.zscore("dead", torn) is not None
    assert client.zscore("schedule", torn) is None
