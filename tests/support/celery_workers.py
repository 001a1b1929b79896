"""Workers of Celery for the plain test run: they listen for commands, and reply as recorded from Celery 5.7."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from celery_subject import close_listener
from redis import Redis


class FakeWorkers:
    """Workers that listen on the channel `*.celery.pidbox`, and reply as recorded from Celery 5.7 with Kombu 5.7."""

    def __init__(self, client: Redis, replies: Mapping[str, Mapping[str, object]], prefix: str = "") -> None:
        """Store the replies by worker and command. A worker without a reply to a command stays silent."""
        self.client, self.replies, self.prefix = client, replies, prefix
        self.commands: list[dict[str, object]] = []
        self._pubsubs = [client.pubsub() for _worker in replies]  # each worker is one subscriber
        for pubsub in self._pubsubs:
            pubsub.psubscribe("*.celery.pidbox")
            pubsub.get_message(timeout=5)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Receive commands on the control channel and reply to them, until `close` is called."""
        while not self._stop.is_set():
            if (message := self._pubsubs[0].get_message(timeout=0.05)) and message["type"] == "pmessage":
                command = json.loads(json.loads(message["data"])["body"])
                self.commands.append(command)
                for worker, replies in self.replies.items():
                    if worker in (command["destination"] or [worker]) and command["method"] in replies:
                        self._reply(command, worker, replies[command["method"]])

    def _reply(self, command: Mapping[str, Any], worker: str, value: object) -> None:
        """Push the reply of one worker to a command into the list that the command names."""
        assert command["reply_to"]["exchange"] == ""
        body = base64.b64encode(json.dumps({worker: value}).encode()).decode()
        message = {
            "body": body,
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"ticket": command["ticket"], "clock": 47},
            "properties": {
                "delivery_mode": 1,
                "delivery_info": {"exchange": "", "routing_key": command["reply_to"]["routing_key"]},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": "79d70c6b-5f0c-4b4b-8d68-2f62ffd68f31",
            },
        }
        self.client.lpush(self.prefix + command["reply_to"]["routing_key"], json.dumps(message))

    def close(self) -> None:
        """Stop receiving commands, and end the thread."""
        self._stop.set()
        self._thread.join()
        for pubsub in self._pubsubs:
            close_listener(pubsub)

    def beat(self, active: int = 0) -> None:
        """Publish a heartbeat of each worker in database 0 that reports `active` running tasks."""
        for worker in self.replies:
            event = {"type": "worker-heartbeat", "hostname": worker, "pid": 1, "freq": 2.0, "active": active}
            event |= {"processed": 1, "sw_ident": "py-celery", "sw_ver": "5.7.0"}
            body = base64.b64encode(json.dumps(event).encode()).decode()
            message = {"body": body, "content-type": "application/json", "headers": {}}
            message["properties"] = {"body_encoding": "base64"}
            self.client.publish("/0.celeryev/worker.heartbeat", json.dumps(message))


STATISTICS: Mapping[str, object] = {
    "total": {"shop.hold": 1},
    "pid": 4973,
    "clock": "164",
    "uptime": 81,
    "pool": {
        "implementation": "celery.concurrency.prefork:TaskPool",
        "max-concurrency": 2,
        "processes": [5480, 5487, 7410],
        "max-tasks-per-child": "N/A",
        "timeouts": [0, 0],
    },
    "broker": {"hostname": "127.0.0.1", "userid": None, "virtual_host": "0", "port": 7399, "transport": "redis"},
    "prefetch_count": 8,
    "rusage": {"utime": 2.428078, "stime": 0.152352, "maxrss": 71788},
}


def build_replies(now_s: float, queues: Sequence[str] = ("a", "b")) -> dict[str, object]:
    """Return the replies of a worker of Celery 5.7 of some queues to the questions of `inspect`, shortened."""
    task = {
        "id": "held-1",
        "name": "shop.hold",
        "args": ["go"],
        "kwargs": {"seconds": 600},
        "type": "shop.hold",
        "hostname": "w1@shop",
        "time_start": now_s - 90.5,
        "acknowledged": True,
        "delivery_info": {"exchange": "", "routing_key": "mail", "priority": 0, "redelivered": False},
        "worker_pid": 5487,
    }
    served = [{"name": name, "exchange": {"name": name, "type": "direct"}, "routing_key": name} for name in queues]
    registered = ["shop.add [rate_limit=10/m]", "shop.hold"]
    return {"active": [task], "active_queues": served, "registered": registered, "stats": STATISTICS}
