"""Random samples of places: which jobs are read, in how many round trips, and where no such sample can be read."""

from __future__ import annotations

import pytest
from redis import Redis

from rqtui.client import Queue
from rqtui.engine.engine import Engine, build_engine
from rqtui.model import Ref, State
from rqtui.reports import sampling
from rqtui.reports.sampling import Part
from rqtui.systems import registry
from rqtui.testing.keyspace import plant

REF = Ref("native", "mail")


@pytest.fixture
def engine(client: Redis) -> Engine:
    return build_engine(client, [registry.create_system(name) for name in ("native", "timeout_sets", "safe_pop")])


def read_numbers(engine: Engine, part: Part) -> list[list[int]]:
    return [[int(job.id) for job in page.jobs] for page in sampling.yield_random_pages(engine, part)]


def test_a_random_sample_covers_all_parts_of_a_place_and_reads_no_job_twice(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": 1, "id": f"{n:05}"} for n in range(3000)])
    part = Part(REF, "ready", State.READY, 1000, 3000)
    pages = read_numbers(engine, part)
    numbers = [number for page in pages for number in page]
    assert [len(page) for page in pages] == [500, 500] and len(set(numbers)) == 1000
    for start in range(0, 3000, 300):
        assert 90 <= sum(start <= number < start + 300 for number in numbers) <= 110, start
    assert numbers != list(range(1000)) and read_numbers(engine, part) == pages


def test_a_short_place_is_read_completely_and_in_order(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": 1, "id": f"{n:05}"} for n in range(20)])
    assert read_numbers(engine, Part(REF, "ready", State.READY, 20, 20)) == [list(range(20))]


def test_a_place_that_shrank_meanwhile_gives_what_is_there(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": 1, "id": f"{n:05}"} for n in range(30)])
    numbers = [n for page in read_numbers(engine, Part(REF, "ready", State.READY, 100, 5000)) for n in page]
    assert len(numbers) == len(set(numbers)) <= 30


def test_sets_and_parts_of_a_key_are_read_from_their_start(client: Redis, engine: Engine) -> None:
    plant(client, {"todos": {f"{n}" for n in range(40)}, "list": [f"{n}" for n in range(40)]})
    for ref, place in ((Ref("timeout_sets", "todos"), "todos"), (Ref("safe_pop", "list"), "ready")):
        part = Part(ref, place, State.READY, 10, 40)
        assert not sampling.can_sample_at_random(engine, part)
        assert sum(len(page) for page in read_numbers(engine, part)) == 10
    assert sampling.can_sample_at_random(engine, Part(REF, "ready", State.READY, 10, 40))
    assert not sampling.can_sample_at_random(engine, Part(REF, "ready", State.READY, 10, 40, of=99, passed=99))
