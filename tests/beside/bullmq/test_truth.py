"""Situations of the truth suite, made by stock BullMQ. Limits, and workers that end in several ways."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest
from beside import truth
from beside.bullmq.stock import P, Stock
from beside.stock import Worker
from redis import Redis
from waiting import wait_until

from rqtui.engine.engine import build_engine
from rqtui.systems.registry import create_systems

pytestmark = pytest.mark.beside


class Scene(truth.Scene):
    """The queue `mail` of BullMQ."""

    system = "bullmq"
    queue = "mail"

    def __init__(self, stock: Stock) -> None:
        super().__init__(stock)
        self._workers: list[Worker] = []

    def _put(self, name: str, data: object, ids: Sequence[str], **options: object) -> None:
        self.stock.do("many", queue=self.queue, rows=[[name, data, {"jobId": id, **options}] for id in ids])

    def put(self, *ids: str) -> None:
        self._put("work", {}, ids)

    def put_failing(self, *ids: str) -> None:
        self._put("confirm", {"order": 7}, ids)

    def put_due(self, *ids: str) -> None:
        self._put("work", {}, ids, delay=1)

    def put_held(self, *ids: str) -> None:
        self._put("hold", {"key": "go"}, ids)

    def start(self, name: str) -> Worker:
        self._workers.append(self.stock.start(name=name, threads=self.slots))
        return self._workers[-1]

    def are_done(self, ids: Sequence[str]) -> bool:
        return set(self.stock.states(*ids).values()) == {"completed"}

    def are_failed(self, ids: Sequence[str]) -> bool:
        return set(self.stock.states(*ids).values()) == {"failed"}

    def silence(self, worker: Worker) -> None:
        """Suspend the other workers, which would take the jobs back within a minute."""
        for each in self._workers:
            if each.process.poll() is None:
                each.stop()

    def pause(self) -> None:
        self.stock.do("whole", queue=self.queue, verb="pause")

    def fail_parent(self) -> None:
        for at in range(3):
            child = {
                "name": "confirm",
                "queueName": self.queue,
                "data": {"order": at},
                "opts": {"jobId": f"child-{at}"},
            }
            order = {"name": "work", "queueName": self.queue, "opts": {"jobId": f"order-{at}"}, "children": [child]}
            self.stock.do("flow", tree=order)
        self.start("w1")
        for at in range(3):
            self.stock.until(f"child-{at}", "failed")

    def ready_key(self) -> str:
        return f"{P}wait"


@pytest.mark.parametrize("id", truth.find_rows("bullmq"))
def test_a_situation_is_reported(id: str, stock: Stock) -> None:
    truth.check(Scene(stock), id)


def test_a_queue_that_works_at_its_limit_is_information(stock: Stock, client: Redis) -> None:
    stock.do("whole", queue="mail", verb="setGlobalConcurrency", words=[1])
    stock.run_holding("held", "first")
    stock.add("next-1", "next-2")
    finding = stock.find_finding("at-limit")
    assert (finding["severity"], finding["jobs"]) == ("info", 2)
    assert "at its limit of 1 job at once" in finding["text"]
    client.set("go", 1)
    for id in ("held", "next-1", "next-2"):
        stock.until(id, "completed")
    assert not stock.has_finding("at-limit")


def test_a_killed_worker_without_a_name_is_known_by_a_lock_that_is_not_renewed(stock: Stock, client: Redis) -> None:
    stock.add("held", name="hold", data={"key": "go"})
    worker = stock.start(is_named=False)
    stock.until_ran("held")
    worker.kill()
    engine = build_engine(client, create_systems(["bullmq"]))
    engine.take_snapshot()  # sees how long the lock of a living worker lasts
    client.pexpire("bull:mail:held:lock", 10_000)  # as after twenty seconds
    assert stock.find_finding("late-locks")["severity"] == "info", "one look does not know the lockDuration"
    findings = engine.send_request(engine.systems["bullmq"].probe_request("mail"))
    assert [(finding.kind, finding.severity) for finding in findings or ()] == [("worker-gone", "warning")]
    assert "1 held by 1 worker without a name, which renews no lock" in findings[0].text


def test_a_worker_that_stops_the_polite_way_is_no_warning_while_it_ends_its_job(stock: Stock, client: Redis) -> None:
    worker = stock.run_holding("held", "closing")
    stock.start(name="other")
    worker.process.send_signal(signal.SIGTERM)
    wait_until(lambda: not any(each["name"].endswith(":w:closing") for each in client.client_list()), what="it closes")
    finding = stock.find_finding("worker-gone")
    assert (finding["severity"], finding["jobs"]) == ("info", 1)
    client.set("go", 1)
    stock.until("held", "completed")
    assert not stock.has_finding("worker-gone")
