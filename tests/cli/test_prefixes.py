"""Several key prefixes of one system at once: BullMQ, RQ and Sidekiq."""

from __future__ import annotations

from typing import Any

import pytest
from bullmq_subject import plant_job, plant_queue, plant_scheduler
from redis import Redis
from shell import Ran, shell

BOTH = ("--system", "bullmq", "--system", "bullmq:prefix=shop")


@pytest.fixture
def mail(client: Redis) -> Redis:
    """Plant the queue `mail` under the prefix `shop` and, with one more job, under `bull`."""
    plant_queue(client)
    plant_job(client, "a", "wait")
    plant_scheduler(client, "tick")
    for key in client.keys("bull:*"):
        client.copy(key, key.replace(b"bull:", b"shop:", 1))
    plant_job(client, "b", "wait")
    return client


def run(url: str, *words: str, code: int = 0, systems: tuple[str, ...] = BOTH) -> Ran:
    ran = shell(url, *systems, *words)
    assert ran.code == code, (ran.out, ran.err)
    return ran


def count_ready(document: Any) -> dict[str, int]:
    return {
        queue["layout"]: sum(place["count"] for place in queue["places"] if place["state"] == "ready")
        for queue in document["queues"]
    }


def test_two_prefixes_of_bullmq_are_two_systems_with_queues_of_their_own(mail: Redis, url: str) -> None:
    assert count_ready(run(url, "snapshot", "--json").json) == {"bullmq": 2, "bullmq@shop": 1}
    assert [job["id"] for job in run(url, "jobs", "bullmq@shop:mail", "wait", "--json").json["jobs"]] == ["a"]
    assert {each["layout"] for each in run(url, "schedules", "--json").json} == {"bullmq", "bullmq@shop"}


def test_a_change_of_one_prefix_leaves_the_other_and_its_undo_finds_its_own(mail: Redis, url: str) -> None:
    run(url, "act", "kill", "bullmq@shop:mail", "a", "--yes")
    assert (mail.zcard("shop:mail:failed"), mail.zcard("bull:mail:failed")) == (1, 0)
    refused = run(url, "undo", systems=(), code=2)
    assert "say --system bullmq:prefix=shop" in refused.err
    run(url, "undo")
    assert (mail.zcard("shop:mail:failed"), mail.lrange("shop:mail:wait", 0, -1)) == (0, [b"a"])


def test_an_undo_finds_its_prefix_if_it_is_the_only_one(mail: Redis, url: str) -> None:
    run(url, "act", "kill", "bullmq@shop:mail", "a", "--yes")
    run(url, "undo", systems=BOTH[2:])
    assert mail.lrange("shop:mail:wait", 0, -1) == [b"a"]


def test_a_fix_names_the_prefix_of_its_queue(mail: Redis, url: str) -> None:
    mail.delete("shop:mail:repeat:tick")
    for key in mail.keys("shop:mail:repeat:tick:*"):
        mail.delete(key)
    [finding] = [one for one in run(url, "health", "--json", code=2).json["findings"] if "scheduler" in one["text"]]
    assert "unschedule --system bullmq:prefix=shop bullmq:mail" in finding["remedy"]


def test_a_queue_of_another_prefix_is_migrated(mail: Redis, url: str) -> None:
    assert run(url, "migrate", "bullmq@shop:mail", "native:mail", "--json", code=1).json["moved"] == 1, (
        "not the scheduler's job"
    )
    assert (mail.llen("shop:mail:wait"), mail.llen("bull:mail:wait")) == (0, 2)


def test_several_rq_apps_and_sidekiq_namespaces_are_shown_together(client: Redis, url: str) -> None:
    for prefix in ("rq", "shop:rq"):
        client.sadd(f"{prefix}:queues", f"{prefix}:queue:low")
        client.rpush(f"{prefix}:queue:low", "a")
        client.hset(f"{prefix}:job:a", mapping={"origin": "low", "description": "tasks.run()"})
    client.sadd("shop:queues", "low")
    client.lpush("shop:queue:low", '{"class":"HardJob","args":[],"jid":"0123456789abcdef01234567","queue":"low"}')
    systems = ("--system", "rq", "--system", "rq:prefix=shop:rq", "--system", "sidekiq", "--system")
    document = run(url, "snapshot", "--json", systems=(*systems, "sidekiq:namespace=shop")).json
    assert count_ready(document) == {"rq": 1, "rq@shop-rq": 1, "sidekiq@shop": 1}
