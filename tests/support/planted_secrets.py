"""Plant queues of several systems with a secret in each part of a job that its producer writes.

Every secret is distinct, so that a leak names its source. `find_leaks` finds them in printed or written text.
"""

from __future__ import annotations

import base64
import json
import pickle
import time
import zlib

from redis import Redis

from rqtui.client.queue import Queue

SOURCES = (
    "body", "nested", "text", "error", "header", "name", "worker", "argument", "described", "url", "stderr", "stdout",
    "meta", "trace", "slow", "field", "client", "reason", "filter", "schedule", "jid", "packed",
)  # fmt: skip
SECRET = {source: f"zq{number}{source.upper()}x7" for number, source in enumerate(SOURCES, 10)}
DEAD_ERROR = (
    f"HTTPError: 401 for https://pay:{SECRET['url']}@api.example.com/charge?api_key={SECRET['error']}&n=1\n"
    f"  headers: {{'Authorization': 'Bearer {SECRET['header']}', 'x-api-key': '{SECRET['error']}'}}\n"
    f'  body: {{"token": "{SECRET["body"]}"}}\n'
    f"  login with password: {SECRET['error']}"  # without quotes or `=`, as a sentence about a queue may be
)
BODY = {
    "to": "bob@example.com",
    "token": SECRET["body"],
    "headers": [["X-Api-Key", SECRET["header"]]],
    "inner": json.dumps({"apiKey": SECRET["nested"], "n": 1}),
    "note": f"login with password={SECRET['text']} now",
}


def find_leaks(text: str | bytes) -> list[str]:
    """Return the sources of the planted secrets that `text` contains, in clear or in base64 of any alignment."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return [source for source, secret in SECRET.items() if any(form in raw for form in _encode_secret(secret))]


def _encode_secret(secret: str) -> list[bytes]:
    raw = secret.encode()
    aligned = [base64.b64encode(b"x" * shift + raw)[4 if shift else 0 : -4] for shift in range(3)]
    return [raw, *aligned]


def plant_secrets(client: Redis) -> None:
    """Write queues whose jobs have secrets; `mail` is native and has a job in each place."""
    _plant_native_queue(client)
    _plant_celery_queue(client)
    _plant_rq_queue(client)
    _plant_sidekiq_queue(client)
    _plant_bullmq_queue(client)


def _plant_native_queue(client: Redis) -> None:
    queue = Queue("mail", client)
    name = f"charge:token:{SECRET['name']}"
    queue.put(BODY, id="later", name=name, delay="1h")
    for id in ("held", "dead", "retried", "done"):
        queue.put(BODY, id=id, name=name, keep="1h")
    _held, dead, retried, done = queue.reserve(4, worker=f"w1:token:{SECRET['worker']}")
    dead.reject(DEAD_ERROR, final=True)
    retried.reject(DEAD_ERROR)
    done.ack()
    queue.put(BODY, id="ready", name=name)
    queue.put(f"password: {SECRET['text']}".encode(), id="plain")
    queue.put(b"\x00\x01\x02token\x00=" + SECRET["packed"].encode() + b"\xff\xfe", id="packed")


def _plant_celery_queue(client: Redis) -> None:
    def build_message(id: str) -> dict[str, object]:
        call = [[1], {"token": SECRET["argument"]}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
        return {
            "body": base64.b64encode(json.dumps(call).encode()).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {
                "lang": "py", "task": "pay.charge", "id": id, "root_id": id, "eta": None, "expires": None, "retries": 0,
                "argsrepr": "(1,)", "kwargsrepr": f"{{'token': '{SECRET['described']}'}}", "origin": "gen1@host",
                "timelimit": [None, None],
            },
            "properties": {
                "correlation_id": id, "reply_to": "", "delivery_mode": 2, "priority": 0, "body_encoding": "base64",
                "delivery_info": {"exchange": "", "routing_key": "celery"}, "delivery_tag": f"tag-{id}",
            },
        }  # fmt: skip

    client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")
    client.lpush("celery", json.dumps(build_message("c1")))
    client.hset("unacked", "tag-c2", json.dumps([build_message("c2"), "", "celery"]))
    client.zadd("unacked_index", {"tag-c2": time.time() - 10})
    client.set(
        "celery-task-meta-c3",
        json.dumps(
            {
                "status": "FAILURE", "task_id": "c3", "date_done": "2026-11-20T10:00:00+00:00", "children": [],
                "result": {"exc_type": "HTTPError", "exc_message": [f"401 token={SECRET['meta']}"], "exc_module": "m"},
                "traceback": f"Traceback (most recent call last):\n  x-api-key: {SECRET['trace']}\nHTTPError: no",
                "name": "pay.charge", "args": [1], "kwargs": {"token": SECRET["argument"]}, "queue": "celery",
                "worker": "celery@host", "retries": 0,
            }
        ),
    )  # fmt: skip


def _plant_rq_queue(client: Redis) -> None:
    call = zlib.compress(pickle.dumps(("pay.charge", None, (1,), {"api_key": SECRET["argument"]})))
    for id, status in (("r1", "queued"), ("r2", "failed")):
        client.hset(
            f"rq:job:{id}",
            mapping={
                "data": call, "origin": "default", "status": status, "created_at": "2026-11-20T10:00:00.000000Z",
                "enqueued_at": "2026-11-20T10:00:00.000000Z", "timeout": 180,
                "description": f"pay.charge(1, api_key='{SECRET['described']}')",
                "meta": zlib.compress(pickle.dumps({"password": SECRET["meta"]})),
                "exc_info": zlib.compress(DEAD_ERROR.encode()),
            },
        )  # fmt: skip
    client.sadd("rq:queues", "rq:queue:default")
    client.rpush("rq:queue:default", "r1")
    client.zadd("rq:failed:default", {"r2": time.time() + 3600})


def _plant_sidekiq_queue(client: Redis) -> None:
    active = {
        "job_class": "Pay",
        "arguments": [{"api_key": SECRET["argument"]}, json.dumps({"token": SECRET["nested"]})],
    }
    for jid, more in (("s1", {}), ("s2", {"error_class": "HTTPError", "error_message": f"password={SECRET['error']}"})):
        job = {"class": "Pay", "args": [active], "jid": jid, "queue": "pay", "retry": 3, "created_at": 1.7e9, **more}
        if more:
            backtrace = base64.b64encode(zlib.compress(json.dumps([f"a.rb token={SECRET['trace']}"]).encode())).decode()
            fields = {"failed_at": 1.7e9, "retry_count": 1, "error_backtrace": backtrace}
            client.zadd("dead", {json.dumps({**job, **fields}): time.time()})
        else:
            client.lpush("queue:pay", json.dumps(job))
    client.sadd("queues", "pay")


def _plant_bullmq_queue(client: Redis) -> None:
    client.hset("bull:video:meta", mapping={"version": "bullmq:5.81.0", "opts.maxLenEvents": "10000"})
    data = json.dumps({"token": SECRET["body"], "apiKey": SECRET["nested"]})
    for id, more in (
        ("1", {}),
        ("2", {"failedReason": f"token={SECRET['reason']}", "stacktrace": json.dumps([f"x-api-key: {SECRET['trace']}"]),
               "finishedOn": "1763000000000", "atm": "1"}),
    ):  # fmt: skip
        name = f"enc?token={SECRET['name']}"
        client.hset(
            f"bull:video:{id}", mapping={"name": name, "data": data, "opts": "{}", "timestamp": "1763000000000", **more}
        )
    client.lpush("bull:video:wait", "1")
    client.zadd("bull:video:failed", {"2": 1763000000000})
    repeat = {
        "name": f"n?token={SECRET['schedule']}",
        "pattern": "* * * * *",
        "data": json.dumps({"token": SECRET["schedule"]}),
    }
    client.hset("bull:video:repeat:tick", mapping={**repeat, "ic": "1", "every": "60000"})
    client.zadd("bull:video:repeat", {"tick": (time.time() + 60) * 1000})


def fill_slow_log(client: Redis) -> None:
    """Fill Redis's slow log with commands that carry secrets, some of them cut by Redis."""
    client.config_set("slowlog-log-slower-than", 0)
    client.set("other:1", json.dumps({"token": SECRET["slow"], "more": "x" * 300}))
    client.hset("other:2", "password", SECRET["field"])
    client.rpush("other:3", json.dumps({"text": json.dumps({"api_key": SECRET["slow"]})}))
    client.client_setname(f"app?token={SECRET['client']}")
    client.config_set("slowlog-log-slower-than", -1)
