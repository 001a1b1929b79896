"""Systems whose ended jobs are keys of their own: one walk for all queues, errors, and what a place declares."""

from __future__ import annotations

from arq_subject import HOUR, NOW, QUEUE, encode_result
from redis import Redis

from rqtui.engine.engine import Focus, build_engine
from rqtui.errors import ServerError
from rqtui.model import Place, Ref, State
from rqtui.system_base.system_lint import find_system_faults
from rqtui.systems import registry


def test_queues_that_are_counted_together_share_one_step_of_the_walk(client: Redis) -> None:
    for queue in (QUEUE, "arq:other"):
        client.set(f"arq:result:{queue}", encode_result(queue, "send", queue=queue), px=HOUR)
    system = registry.create_system("arq:queue=arq:queue", "arq:queue=arq:other")
    first, second = (system.queue_request(queue) for queue in (QUEUE, "arq:other"))
    assert [len(request.calls) for request in (first, second)] == [2, 2], "no walk has ended yet"
    engine = build_engine(client, [system])
    refs = tuple(Ref("arq", queue) for queue in (QUEUE, "arq:other"))
    for _refresh in range(2):
        queues = engine.take_snapshot(Focus(refs)).queues
        assert [queue.count_in_place("complete") for queue in queues] == [1, 1]
    shared = [system.queue_request(ref.queue) for ref in refs]
    assert [len(request.calls) for request in shared] == [2, 1]


def test_a_walk_that_fails_is_an_error_of_the_queue_and_of_the_page() -> None:
    system = registry.create_system("arq")
    page = system.page_request(QUEUE, "failed", 0, 10, 100).parse([ServerError("no SCAN")])
    assert (page.error, page.jobs) == ("no SCAN", ())


def test_a_place_of_keys_of_their_own_needs_no_number_in_counts() -> None:
    system = registry.create_system("arq")
    assert find_system_faults(system) == []
    place = system.place("failed")
    assert place.is_key_per_job and not place.is_newest_last
    system.places = (*system.places, Place("lost", State.DEAD, "arq:lost:<id>", "string"))  # type: ignore[misc]
    assert any("no value lost" in sentence for sentence in find_system_faults(system))


def test_a_long_page_is_continued_where_the_previous_one_ended(client: Redis) -> None:
    for number in range(30):
        record = encode_result(f"{number:02}", "send", result=ValueError("x"), at_ms=NOW - number)
        client.set(f"arq:result:{number:02}", record, px=HOUR)
    engine = build_engine(client, [registry.create_system("arq")])
    ids, offset = [], 0
    while offset is not None:
        page = engine.fetch_page(Ref("arq", QUEUE), "failed", offset, 7, 1_000_000)
        ids += [job.id for job in page.jobs]
        offset = page.next
    assert ids == [b"%02d" % number for number in range(30)]
    assert [job.id for job in engine.fetch_page(Ref("arq", QUEUE), "failed", -1, 2, 100).jobs] == [b"28", b"29"]


def test_jobs_that_end_are_counted_once_and_estimates_count_no_runs(client: Redis) -> None:
    def end(id: str, failed: bool) -> None:
        result = ValueError("x") if failed else "sent"
        client.set(f"arq:result:{id}", encode_result(id, "send", result=result, at_ms=read_now_ms() + 1000), px=HOUR)
        client.zrem(QUEUE, id)

    def read_now_ms() -> int:
        seconds, microseconds = client.time()
        return seconds * 1000 + microseconds // 1000

    def count() -> dict[str, int]:
        [queue] = engine.take_snapshot(Focus((Ref("arq", QUEUE),))).queues
        return {name: queue.counters[name] for name in ("in", "out", "failed", "dead")}

    client.set("arq:result:old", encode_result("old", "send", at_ms=NOW), px=HOUR)
    client.zadd(QUEUE, {f"{number}": NOW for number in range(6)})
    engine = build_engine(client, [registry.create_system("arq:queue=arq:queue")])
    assert count() == {"in": 0, "out": 0, "failed": 0, "dead": 0}
    end("0", False)
    end("1", True)
    client.zadd(QUEUE, {"new": NOW})
    assert count() == count() == {"in": 1, "out": 1, "failed": 1, "dead": 1}
    client.mset({f"other:{number}": "x" for number in range(20_000)})
    assert count() == {"in": 1, "out": 1, "failed": 1, "dead": 1}, "an estimate that grows is no run"
    end("2", False)
    for _step in range(60):
        latest = count()
    assert latest == {"in": 1, "out": 2, "failed": 1, "dead": 1}, "it left the queue before its record was met"


def test_requests_of_a_walk_are_built_for_each_refresh(client: Redis) -> None:
    client.mset({f"other:{number}": "x" for number in range(20_000)})
    system = registry.create_system("arq:queue=arq:queue")
    engine = build_engine(client, [system])
    cursors = []
    for _refresh in range(3):
        engine.take_snapshot(Focus((Ref("arq", QUEUE),)))
        cursors.append(system.record_sample.cursor)
    assert len({*cursors}) == 3
