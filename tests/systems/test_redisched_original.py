"""redisched's own programs beside our scripts: where they lose or confuse jobs, what rqtui does and says instead."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from redis import Redis
from redis.exceptions import ResponseError
from redisched_subject import HOUR, KEYS, NOW, list_ids, plant_job, read_facts, read_outcomes, run_script

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine
from rqtui.engine.loops import build_round
from rqtui.errors import Refused
from rqtui.model import Finding, Ref
from rqtui.scenarios.originals.redisched import Scheduler, Worker
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.testing import keyspace

MAIL = Ref("redisched", "mail")
LATER = NOW + HOUR
UNITS = pytest.mark.parametrize("unit", ["ms", "s"])


def original(client: Redis, unit: str = "ms", at_ms: int = NOW) -> Scheduler:
    """Return the original's primitives, with the test's clock."""
    return Scheduler(client, "mail", unit, clock=lambda: at_ms / 1000)


def reserve_job(client: Redis, ttr_ms: int = 60_000, now_ms: int = NOW) -> tuple[bytes, bytes]:
    """Our reserve: id and token."""
    answer = run_script(client, "reserve", limit=1, ttr_ms=ttr_ms, now_ms=now_ms)
    assert answer.word == "moved"
    return answer.rows[0][0], answer.rows[0][1]


def faults(client: Redis, spec: str = "redisched:topic=mail") -> dict[str, Finding]:
    """Return the system's own findings by kind, the last of each."""
    ask_for = registry.create_system(spec).probe_request("mail")
    assert ask_for is not None
    return {finding.kind: finding for finding in Engine(client, [registry.create_system(spec)]).send_request(ask_for)}


def test_a_put_over_a_reserved_job_overwrites_its_body_and_ours_leaves_it(any_client: Redis) -> None:
    theirs = original(any_client)
    assert theirs.put("a", "first")
    assert theirs.reserve(60_000) == (b"a", b"first")
    assert read_outcomes(run_script(any_client, "enqueue", [(b"a", b"second", None, None)])) == ["exists"]
    assert any_client.hget(KEYS["jobs"], "a") == b"first"
    assert theirs.put("a", "second")
    assert any_client.hget(KEYS["jobs"], "a") == b"second"
    assert "replaced its body" in faults(any_client)["two-places"].text
    assert read_outcomes(run_script(any_client, "repair", [(b"a",)])) == ["moved"]
    assert (list_ids(any_client, "due"), any_client.zcard(KEYS["reserved"])) == ([b"a"], 0)


def test_a_release_without_a_score_loses_the_job_and_ours_puts_it_back(any_client: Redis) -> None:
    theirs = original(any_client)
    theirs.put("a", "body")
    id, token = reserve_job(any_client)
    assert read_outcomes(run_script(any_client, "release", [(id, token)])) == ["moved"]
    assert theirs.reserve(60_000) == (b"a", b"body")
    with pytest.raises(ResponseError):
        theirs.release("a")
    assert (any_client.zcard(KEYS["queued"]), any_client.zcard(KEYS["reserved"])) == (0, 0)
    lost = faults(any_client)["no-place"]
    assert (lost.severity, lost.ids, lost.keys) == ("critical", (b"a",), (KEYS["jobs"],))
    assert read_outcomes(run_script(any_client, "repair", [(b"a",)], unit="ms")) == ["moved"]
    assert theirs.reserve(60_000) == (b"a", b"body")


def test_a_reserve_without_a_ttr_loses_the_job_and_ours_takes_a_minute(server_client: Redis) -> None:
    theirs = original(server_client)
    theirs.put("a", "body")
    with pytest.raises(ResponseError):
        theirs.reserve()
    assert read_facts(server_client, b"a") == {"jobs": b"body"}
    assert read_outcomes(run_script(server_client, "repair", [(b"a",)], unit="ms")) == ["moved"]
    answer = run_script(server_client, "reserve", limit=1)
    assert int(float(answer.rows[0][1])) == NOW + 60_000


def test_a_job_without_a_body_is_handed_out_by_the_original_and_passed_over_by_ours(any_client: Redis) -> None:
    theirs = original(any_client)
    for n in range(60):
        any_client.zadd(KEYS["queued"], {f"ghost-{n:02}": NOW - HOUR})
    theirs.put("a", "body")
    ghosts = list_ids(any_client, "due")[:60]
    assert reserve_job(any_client)[0] == b"a"
    assert list_ids(any_client, "due") == ghosts
    assert run_script(any_client, "pull", limit=10).word == "empty"
    assert f"60 ids in {KEYS['queued']} without a body, such as ghost-00" in faults(any_client)["ghost"].text
    assert theirs.reserve(60_000) == (b"ghost-00", None)
    assert f"1 id in {KEYS['reserved']} without a body, such as ghost-00" in faults(any_client)["ghost"].text
    assert read_outcomes(run_script(any_client, "delete", [(b"ghost-01", None)])) == ["moved"]
    assert read_facts(any_client, b"ghost-01") == {}


def test_a_stale_workers_delete_removes_the_new_owners_job_and_ours_is_refused(any_client: Redis) -> None:
    theirs = original(any_client)
    theirs.put("a", "body")
    id, late = reserve_job(any_client, ttr_ms=100)
    assert run_script(any_client, "reap", limit=10, now_ms=NOW + 101).values["ready"] == 1
    assert read_outcomes(run_script(any_client, "ack", [(id, late)])) == ["stale"]
    id, token = reserve_job(any_client, now_ms=NOW + 102)
    before = keyspace.dump(any_client)
    for verb in ("ack", "release", "extend"):
        assert read_outcomes(run_script(any_client, verb, [(id, late)])) == ["stale"]
    assert read_outcomes(run_script(any_client, "delete", [(id, late)], force=True)) == ["stale"]
    assert not keyspace.diff(before, keyspace.dump(any_client))
    assert theirs.delete("a")
    assert read_outcomes(run_script(any_client, "ack", [(id, token)])) == ["gone"]


def test_a_job_that_kills_its_workers_comes_back_for_ever_and_ours_reports_how_often(any_client: Redis) -> None:
    theirs = original(any_client)
    theirs.put("a", "body")
    for n in range(1, 6):
        now_ms = NOW + n * 100
        assert original(any_client, at_ms=now_ms).reserve(50) == (b"a", b"body")
        assert run_script(any_client, "reap", limit=10, now_ms=now_ms + 60).word == "moved"
        assert ("poison" in faults(any_client)) == (n == 5)
    assert "expired 5 times" in faults(any_client)["poison"].text
    assert run_script(any_client, "reserve", limit=1, now_ms=NOW + HOUR).rows[0][5] == 5
    assert read_outcomes(run_script(any_client, "delete", [(b"a", None)], force=True)) == ["moved"]
    assert keyspace.dump(any_client) == {}


def test_in_a_mixed_topic_the_originals_confuse_units_and_ours_counts_them_apart(any_client: Redis) -> None:
    assert original(any_client, "s").put("tomorrow", "in seconds", delay_s=86_400)
    assert original(any_client, "ms").put("now", "in milliseconds", delay_s=-1)
    assert original(any_client, "s").reserve(60) is None
    counted = run_script(any_client, "counts").values
    assert (counted["queued"], counted["due"]) == (1, 1)
    assert (counted["scores_s"], counted["scores_ms"]) == (1, 1)
    assert counted["due_ms"] == NOW + 86_400_000
    mixed = faults(any_client)["mixed-units"]
    assert "due in seconds and 1 due in milliseconds" in mixed.text and mixed.severity == "critical"
    with pytest.raises(Refused, match="both units.*unit=ms"):
        run_script(any_client, "enqueue", [(b"b", b"", None, None)])
    taken = run_script(any_client, "reserve", limit=10).rows
    assert [row[0] for row in taken] == [b"now"]
    assert original(any_client, "ms").reserve(60_000) == (b"tomorrow", b"in seconds")


def test_a_mixed_topic_is_repaired_by_the_option(any_client: Redis) -> None:
    plant_job(any_client, "queued", "s", LATER // 1000)
    plant_job(any_client, "queued", "ms", LATER)
    assert "mixed-units" in faults(any_client, "redisched:topic=mail,unit=ms")
    assert read_outcomes(run_script(any_client, "reschedule", [(b"s",)], due_ms=LATER, unit="ms")) == ["moved"]
    assert any_client.zscore(KEYS["queued"], "s") == LATER
    assert faults(any_client) == {}


def test_the_oldest_due_of_both_units_come_first(any_client: Redis) -> None:
    plant_job(any_client, "queued", "not yet", NOW + 1)
    plant_job(any_client, "queued", "nor this", NOW // 1000 + 1)
    for n in range(6):
        at_ms = NOW - 60_000 + n * 1000
        plant_job(any_client, "due", f"j{n}", at_ms if n % 2 else at_ms // 1000)
    answer = run_script(any_client, "reserve", limit=4)
    assert [row[0] for row in answer.rows] == [b"j0", b"j1", b"j2", b"j3"]
    assert [row[0] for row in run_script(any_client, "pull", limit=10).rows] == [b"j4", b"j5"]
    assert run_script(any_client, "reserve", limit=10).values == {"next_ms": 1}
    scores = [float(score) for _id, score, *_rest in answer.rows]
    assert [score < 1e11 for score in scores] == [True, False, True, False], "each lease in its job's unit"
    for score in scores:
        assert 0 < (score if score >= 1e11 else score * 1000) - NOW - 60_000 < 1


def test_a_score_below_zero_is_never_taken_by_the_original_and_ours_takes_it(any_client: Redis) -> None:
    plant_job(any_client, "due", "a", -1)
    plant_job(any_client, "reserved", "b", LATER)
    assert original(any_client).reserve(60_000) is None
    assert faults(any_client)["never-due"].ids == (b"a",)
    id, token = reserve_job(any_client)
    assert id == b"a" and float(token) > NOW, "a score that tells no unit is written in that of the others"


@UNITS
def test_the_originals_take_the_jobs_that_rqtui_writes(unit: str, any_client: Redis) -> None:
    theirs, after = original(any_client, unit), original(any_client, unit, NOW + 61_000)
    rows = [(b"a", b"A", None, None), (b"b", b"B", 3_600_000, None), (b"c", b"C", None, NOW - 5000)]
    assert read_outcomes(run_script(any_client, "enqueue", rows, unit=unit)) == ["moved"] * 3
    assert [original(any_client, unit).reserve(60) for _ in range(3)] == [(b"c", b"C"), (b"a", b"A"), None]
    assert read_outcomes(run_script(any_client, "promote", [(b"b",)])) == ["moved"]
    id, token = reserve_job(any_client)
    assert (id, theirs.requeue()) == (b"b", 0)
    assert read_outcomes(extended := run_script(any_client, "extend", [(id, token)], ttr_ms=60_500)) == ["extended"]
    assert float(extended.each[0].values["token"]) > float(token)
    assert after.requeue() >= 1
    assert after.reserve(60) is not None


@UNITS
def test_a_worker_of_the_original_runs_and_deletes_what_we_put(unit: str, any_client: Redis) -> None:
    gaps: list[str] = []
    run_script(any_client, "enqueue", [(b"a", b"A", None, None)], unit=unit)
    worker = Worker(original(any_client, unit), pause=gaps.append)
    assert [worker.step(), worker.step()] == [b"a", None]
    assert (keyspace.dump(any_client), len(gaps)) == ({}, 2)


def test_a_finished_job_that_was_put_again_meanwhile_keeps_its_body(any_client: Redis) -> None:
    theirs = original(any_client)
    theirs.put("a", "first")
    id, token = reserve_job(any_client)
    theirs.put("a", "second")
    assert read_outcomes(run_script(any_client, "ack", [(id, token)])) == ["moved"]
    assert theirs.reserve(60_000) == (b"a", b"second")


# ── beside the original's own programs ───────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_thousand_jobs_run_once_each_beside_the_originals_workers(client: Redis, url: str) -> None:
    theirs = Scheduler(client, "mail")
    for n in range(1000):
        assert theirs.put(f"j{n}", f"body {n}", delay_s=-1 if n % 2 else 0.3)
    crashed = {found[0] for _ in range(50) if (found := theirs.reserve(ttr=100))}
    runs: Counter[bytes] = Counter()
    lock, stop = threading.Lock(), threading.Event()

    def run(id: bytes, body: bytes | None) -> None:
        assert body == b"body " + id[1:]
        with lock:
            runs[id] += 1

    def their_worker(client: Redis) -> Callable[[], object]:
        return Worker(Scheduler(client, "mail"), run).step

    def their_requeuer(client: Redis) -> Callable[[], object]:
        return Scheduler(client, "mail").requeue

    def our_worker(client: Redis) -> Callable[[], object]:
        system = registry.create_system("redisched:topic=mail")

        def step() -> None:
            answer = scripts.run_call(client, system.build_call("reserve", "mail", {"limit": 7, "worker": "w"}))
            for job in system.read_taken_jobs("mail", answer):
                run(job.id, job.body)
                done = scripts.run_call(
                    client, system.build_call("ack", "mail", {}, [{"id": job.id, "token": job.token}])
                )
                assert done.each[0].word == "moved"

        return step

    def our_reaper(client: Redis) -> Callable[[], object]:
        return build_round("reap", client, {"redisched": registry.create_system("redisched")}, lambda: [MAIL])

    def go(make: Callable[[Redis], Callable[[], object]]) -> None:
        with connect(url) as own:
            step = make(own)
            while not stop.is_set():
                step()
                time.sleep(0.001)

    makers = [their_worker] * 3 + [our_worker] * 3 + [their_requeuer, our_reaper]
    threads = [threading.Thread(target=go, args=(make,)) for make in makers]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while (client.hlen(KEYS["jobs"]) or len(runs) < 1000) and time.monotonic() < deadline:
        time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join(5)
    assert len(crashed) == 50
    assert len(runs) == 1000 and set(runs.values()) == {1}
    assert not client.exists(KEYS["jobs"], KEYS["queued"], KEYS["reserved"])
