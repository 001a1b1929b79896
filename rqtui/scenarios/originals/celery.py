"""The Redis commands of Celery (celery and kombu 5.7, with `-E`), in the observed order, for tests and the demo.

Follows the wire format of a producer, workers and the workers' sweep of unacked messages.

    <queue>, <queue>\\x06\\x163, …6, …9   list    messages in JSON by priority, 0 the highest; LPUSH in, BRPOP out
    unacked                             hash    delivery tag → [message, exchange, routing key], of all queues
    unacked_index                       zset    delivery tag by the time it was taken (s)
    unacked_mutex                       string  the consumer that sweeps
    _kombu.binding.<exchange>           set     <routing key>\\x06\\x16<pattern>\\x06\\x16<queue>
    celery-task-meta-<id>               string  result in JSON, for a day; published on a channel of the same name
    /<db>.celeryev/worker.*, task.*     channel heartbeats and task events
    /<db>.celery.pidbox                 channel commands to workers: revoke, terminate, cancel_consumer, …

The original's faults are kept. An entry that is not JSON ends the worker that takes it, and JSON that is not a message
is lost. A task that is not acked late is lost with the worker that runs it. The other messages of a killed worker stay
in `unacked` until the visibility timeout is over and another worker sweeps. Every consumer restores messages by its own
timeout, so a task whose ETA is later than that runs twice. A command is stored only in the memory of the workers that
received it. Prefork is left out: a worker runs one task at a time, and fetches messages between two tasks.
"""

from __future__ import annotations

import heapq
import json
import threading
import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

SEP, STEPS = "\x06\x16", (0, 3, 6, 9)
VISIBILITY_S, BEAT_S, RESULT_S = 3600.0, 2.0, 86_400
SWEEP_S = 100.0  # unacked_restore_interval × unacked_restore_throttle
PIDBOX = "celery.pidbox"
_MUTEX_MS = 300_000
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
Pause = Callable[[str], None]
Clock = Callable[[], float]
Message = dict[str, Any]


def _skip_gap(_gap: str) -> None:
    """Do nothing: the default for the gap between two commands of a program."""


def encode_json(value: object) -> bytes:
    """Encode a value as JSON the way kombu does."""
    return json.dumps(value).encode()


def encode_body(value: object) -> str:
    """Encode a message body: JSON in base64."""
    return b64encode(encode_json(value)).decode()


def decode_body(message: Mapping[str, Any]) -> Any:
    """Decode a message body, with or without base64."""
    body = message["body"]
    return json.loads(b64decode(body) if message["properties"].get("body_encoding") == "base64" else body)


def format_time(at_s: float) -> str:
    """Format unix seconds as messages and results store a time."""
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def build_list_key(queue: str, priority: int = 0) -> str:
    """Return the list for a priority: the list of the highest step that is not above the priority."""
    step = max((step for step in STEPS if step <= priority), default=0)
    return f"{queue}{SEP}{step}" if step else queue


def build_list_keys(queue: str) -> list[str]:
    """Return the lists of a queue in the order in which workers read them."""
    return [build_list_key(queue, step) for step in STEPS]


def build_result_key(id: str) -> str:
    """Return the key of a task's result, which is also the name of its channel."""
    return f"celery-task-meta-{id}"


def build_channel(client: Any, name: str) -> str:
    """Return the channel of a fanout exchange or of one of its topics, in the client's database."""
    return f"/{client.connection_pool.connection_kwargs.get('db') or 0}.{name}"


def bind_queue(client: Any, exchange: str, routing_key: str, queue: str) -> None:
    """Bind a queue to an exchange, as an entry in the exchange's set of bindings."""
    client.sadd(f"_kombu.binding.{exchange}", SEP.join((routing_key, "", queue)))


def build_task_message(
    name: str,
    id: str,
    queue: str,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    priority: int = 0,
    eta_s: float | None = None,
    retries: int = 0,
    origin: str = "gen4211@shop",
) -> Message:
    """Build the message of a task as `apply_async` does."""
    kwargs = kwargs or {}
    headers: dict[str, object] = {
        "lang": "py",
        "task": name,
        "id": id,
        "shadow": None,
        "eta": None if eta_s is None else format_time(eta_s),
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": retries,
        "timelimit": [None, None],
        "root_id": id,
        "parent_id": id if retries else None,
        "argsrepr": repr(tuple(args)),
        "kwargsrepr": repr(dict(kwargs)),
        "origin": origin,
        "ignore_result": False,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
    embed = dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))
    more = {"correlation_id": id, "reply_to": str(uuid5(NAMESPACE_OID, origin)), "delivery_mode": 2}
    tag = str(uuid5(NAMESPACE_OID, f"{id}:{retries}"))
    return _build_message([list(args), kwargs, embed], headers, "", queue, tag, priority, more)


def _build_message(
    body: object,
    headers: Mapping[str, object],
    exchange: str,
    routing_key: str,
    tag: str = "",
    priority: int = 0,
    more: Mapping[str, object] | None = None,
) -> Message:
    """Build a message with the properties that Kombu adds to every message."""
    return {
        "body": encode_body(body),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": dict(headers),
        "properties": {
            **(more or {"delivery_mode": 1}),
            "delivery_info": {"exchange": exchange, "routing_key": routing_key},
            "priority": priority,
            "body_encoding": "base64",
            "delivery_tag": tag or str(uuid4()),
        },
    }


def declare_queue(client: Any, queue: str) -> None:
    """Declare a queue, as producers and workers do before they use it."""
    for kind in ("binding", "binding_permanent"):
        client.sadd(f"_kombu.{kind}.{queue}", SEP.join((queue, "", queue)))


def publish_message(client: Any, queue: str, message: Mapping[str, Any]) -> None:
    """Push a message to the list of its priority."""
    client.lpush(build_list_key(queue, message["properties"].get("priority", 0)), encode_json(message))


def reserve_message(client: Any, queue: str, message: Mapping[str, Any], at_s: float) -> str:
    """Add a taken message to `unacked`, until it is acked. Return its delivery tag."""
    tag: str = message["properties"]["delivery_tag"]
    pipe = client.pipeline(transaction=True)
    pipe.zadd("unacked_index", {tag: at_s})
    pipe.hset("unacked", tag, encode_json([message, "", queue]))
    pipe.execute()
    return tag


def ack_message(client: Any, tag: str) -> None:
    """Remove a message from `unacked`."""
    pipe = client.pipeline(transaction=True)
    pipe.zrem("unacked_index", tag)
    pipe.hdel("unacked", tag)
    pipe.execute()


def restore_message(client: Any, tag: str) -> bool:
    """Move an unacked message to the right end of its list, where it is taken next.

    Return whether the message was still in `unacked`.
    """

    def move_message_to_list(pipe: Any) -> bool:
        raw = pipe.hget("unacked", tag)
        pipe.multi()
        pipe.zrem("unacked_index", tag)
        pipe.hdel("unacked", tag)
        if raw is None:
            return False
        message, _exchange, queue = json.loads(raw)
        message["headers"]["redelivered"] = message["properties"]["delivery_info"]["redelivered"] = True
        pipe.rpush(build_list_key(queue, message["properties"].get("priority", 0)), encode_json(message))
        return True

    return bool(client.transaction(move_message_to_list, "unacked", value_from_callable=True))


def restore_overdue_messages(client: Any, visibility_s: float, now_s: float | None = None) -> int:
    """Restore the messages that were taken longer ago than this consumer's visibility timeout.

    Return how many messages were restored, 0 if another consumer is sweeping.
    """
    before_s = (time.time() if now_s is None else now_s) - visibility_s
    token = uuid4().hex
    if not client.set("unacked_mutex", token, nx=True, px=_MUTEX_MS):
        return 0
    try:
        tags = client.zrevrangebyscore("unacked_index", before_s, 0)
        return sum(restore_message(client, tag.decode()) for tag in tags)
    finally:
        client.eval(_RELEASE, 1, "unacked_mutex", token)


# -- commands -------------------------------------------------------------------------------------------------------


def add_unread_replies(client: Any, mailbox: str, hosts: Iterable[str], at_s: float) -> None:
    """Add replies of workers to an `inspect` command that was killed before it read them.

    Their list is never deleted.
    """
    for host in hosts:
        _send_reply(client, f"{mailbox}.reply.{PIDBOX}", mailbox, host, {"ok": "pong", "at": at_s}, mailbox)


def _send_reply(client: Any, queue: str, routing_key: str, host: str, reply: object, ticket: str) -> None:
    """Send the reply of a worker to a command, as a message in the mailbox of its sender."""
    headers = {"ticket": ticket, "clock": 1}
    client.lpush(queue, encode_json(_build_message({host: reply}, headers, f"reply.{PIDBOX}", routing_key)))


# -- a worker -------------------------------------------------------------------------------------------------------


class TaskError(Exception):
    """A task's error: the name of its class, its message, its traceback and the seconds until its retry.

    Without `retry_s` the task is not retried.
    """

    def __init__(self, kind: str, message: str, trace: str, retry_s: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.trace, self.retry_s = kind, message, trace, retry_s

    def __repr__(self) -> str:
        return f"{self.kind}({self.message!r})"


class Terminated(Exception):
    """Raised when a running task is terminated by a command."""


class Unreadable(Exception):
    """Raised when a worker takes an entry that it cannot read. The entry is lost.

    `ends` is True for an entry that is not JSON: it ends the worker. JSON that is not a message only restarts
    the worker's consumer.
    """

    def __init__(self, raw: bytes, *, ends: bool) -> None:
        super().__init__("Expecting value: line 1 column 1 (char 0)")
        self.raw, self.ends = raw, ends


@dataclass(frozen=True, slots=True, order=True)
class _Held:
    """A message that a worker has fetched and not yet run, ordered by ETA and then by arrival."""

    eta_s: float
    number: int
    message: Message = field(compare=False)

    @property
    def id(self) -> str:
        """The task id of the fetched message."""
        return str(self.message["headers"]["id"])

    @property
    def tag(self) -> str:
        """The delivery tag of the fetched message."""
        return str(self.message["properties"]["delivery_tag"])


class Worker:
    """A worker of one queue: takes tasks, runs them and publishes events.

    A task for whose name `acks_late` returns True is acked after it has run. `run` gets the headers and the arguments
    of a task. It may raise TaskError, or Terminated if `is_terminated` returns True. `step` is called by the worker's
    own thread. `run_background_step` may be called by another thread at any time, so that heartbeats and commands
    continue while a task runs. `prefetch` is how many messages the worker holds at most, without those whose ETA is
    still ahead.
    """

    def __init__(
        self,
        client: Any,
        queue: str,
        host: str,
        run: Callable[[Mapping[str, Any], list[Any], dict[str, Any]], object] = lambda *_: None,
        pause: Pause = _skip_gap,
        clock: Clock = time.time,
        *,
        acks_late: Callable[[str], bool] = lambda _task: True,
        visibility_s: float = VISIBILITY_S,
        sweep_s: float = SWEEP_S,
        prefetch: int = 4,
        number: int = 1,
    ) -> None:
        self.client, self.queue, self.clock = client, queue, clock
        self.host = host if "@" in host else f"celery@{host}"
        self._run, self._pause, self._acks_late = run, pause, acks_late
        self._visibility_s, self._sweep_s, self._prefetch, self._pid = visibility_s, sweep_s, prefetch, 4000 + number
        self._ready: deque[_Held] = deque()
        self._later: list[_Held] = []
        self._numbers, self._ticks = count(), count(1)
        self._revoked: set[str] = set()
        self._terminated: set[str] = set()
        self.last_id = self._running = ""
        self._processed = 0
        self._is_consuming = True
        self._events: list[dict[str, object]] = []
        self._pidbox: Any = None
        self._beat_at_s = self._sweep_at_s = 0.0
        self._lock = threading.Lock()
        self._is_gone = False
        self._orders: Mapping[str, Callable[[Mapping[str, Any], Any], object]] = {
            "revoke": self._revoke_tasks,
            "terminate": self._terminate_tasks,
            "cancel_consumer": self._cancel_consumer,
            "add_consumer": self._add_consumer,
            "ping": lambda _arguments, _client: {"ok": "pong"},
        }

    # -- its life -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Declare the queue, subscribe to commands and publish that the worker is online."""
        declare_queue(self.client, self.queue)
        bind_queue(self.client, PIDBOX, "", f"{self.host}.{PIDBOX}")
        self._pidbox = self.client.pubsub(ignore_subscribe_messages=True)
        self._pidbox.psubscribe(build_channel(self.client, PIDBOX))
        self._publish_state("worker-online", self.client)

    def run_background_step(self, client: Any) -> None:
        """Obey commands, send heartbeats and sweep, as the worker's main process does while tasks run."""
        with self._lock:
            if self._is_gone or self._pidbox is None:
                return
            while message := self._pidbox.get_message():
                with suppress(ValueError, KeyError, TypeError, AttributeError):  # not a command: the original logs it
                    self._obey_command(json.loads(message["data"]), client)
            now_s = self.clock()
            if now_s >= self._beat_at_s + BEAT_S:
                self._beat_at_s = now_s
                self._publish_state("worker-heartbeat", client)
            if now_s >= self._sweep_at_s + self._sweep_s:
                self._sweep_at_s = now_s
                restore_overdue_messages(client, self._visibility_s, now_s)

    def die(self) -> None:
        """Stop the worker as SIGKILL does: close its connection and leave its messages in `unacked`."""
        with self._lock:
            self._is_gone = True
            if self._pidbox is not None:
                self._pidbox.close()

    def leave(self) -> None:
        """Stop the worker as SIGTERM does: restore its messages and publish that it is offline."""
        for held in reversed([*self._ready, *sorted(self._later)]):
            restore_message(self.client, held.tag)
        self._ready.clear()
        self._later.clear()
        self.exit()

    def exit(self) -> None:
        """Stop the worker and publish that it is offline. Its messages stay in `unacked`."""
        self.die()
        self.client.srem(f"_kombu.binding.{PIDBOX}", SEP.join(("", "", f"{self.host}.{PIDBOX}")))
        self._publish_state("worker-offline", self.client)

    def is_terminated(self, id: str) -> bool:
        """Return whether a command asked to terminate the running task."""
        return id in self._terminated

    # -- a turn -------------------------------------------------------------------------------------------------------

    def step(self, wait_s: float = 0.05) -> str:
        """Run one turn of the worker's loop. Return the outcome of the task `last_id`, or idle.

        The outcome is succeeded, retried, failed or revoked. Raises Unreadable for an entry that is not a message.
        """
        self._fetch_messages(wait_s)
        held = self._pop_next_due_message()
        if held is None:
            return "idle"
        try:
            return self._run_task(held)
        finally:
            self._running = ""
            self._send_task_events()

    def _fetch_messages(self, wait_s: float) -> None:
        """Take as many messages as the worker may hold. Wait for the first one if it holds none."""
        while self._is_consuming and len(self._ready) < self._prefetch:
            is_idle = not self._ready and not (self._later and self._later[0].eta_s <= self.clock())
            raw = self._pop_message(wait_s if is_idle else 0.0)
            if raw is None:
                break
            try:
                message = json.loads(raw)
            except ValueError as error:
                raise Unreadable(raw, ends=True) from error
            try:
                self._take_message(message)
            except (KeyError, TypeError, ValueError) as error:
                raise Unreadable(raw, ends=False) from error
        self._send_task_events()

    def _pop_message(self, wait_s: float) -> bytes | None:
        """Pop the next message of the queue's lists, waiting up to `wait_s`; None if there is none."""
        if wait_s:
            found = self.client.brpop(build_list_keys(self.queue), wait_s)
            return found[1] if found else None
        for key in build_list_keys(self.queue):
            raw: bytes | None = self.client.rpop(key)
            if raw is not None:
                return raw
        return None

    def _take_message(self, message: Message) -> None:
        """Add a message to `unacked` and to the held messages, and publish that the task was received."""
        headers = message["headers"]
        other_fields = {name: headers.get(name) for name in ("root_id", "parent_id", "retries", "eta", "expires")}
        call_fields = {
            "name": headers["task"],
            "args": headers.get("argsrepr", ""),
            "kwargs": headers.get("kwargsrepr", ""),
        }
        eta_s = datetime.fromisoformat(headers["eta"]).timestamp() if headers.get("eta") else 0.0
        held = _Held(eta_s, next(self._numbers), message)
        self._publish_event("task-received", held.id, **call_fields, **other_fields)
        reserve_message(self.client, self.queue, message, self.clock())
        if eta_s > self.clock():
            heapq.heappush(self._later, held)
        else:
            self._ready.append(held)

    def _pop_next_due_message(self) -> _Held | None:
        """Remove and return the fetched message to run next: one whose ETA has come, else the first one without ETA."""
        if self._later and self._later[0].eta_s <= self.clock():
            return heapq.heappop(self._later)
        return self._ready.popleft() if self._ready else None

    def _run_task(self, held: _Held) -> str:
        """Run the task of a held message, publish its events and store its result."""
        self.last_id, headers = held.id, held.message["headers"]
        if held.id in self._revoked:
            self._end_revoked_task(held, terminated=False)
            ack_message(self.client, held.tag)
            return "revoked"
        self._running = held.id
        self._processed += 1
        is_late = self._acks_late(headers["task"])
        if not is_late:
            ack_message(self.client, held.tag)
        self._publish_event("task-started", held.id)
        self._send_task_events()
        began_s = self.clock()
        args, kwargs, _embed = decode_body(held.message)
        try:
            result = self._run(headers, args, kwargs)
        except Terminated:
            self._end_revoked_task(held, terminated=True)
            word = "revoked"
        except TaskError as error:
            word = self._fail_task(held, error, args, kwargs)
        else:
            self._store_result(held.id, "SUCCESS", result)
            self._publish_event("task-succeeded", held.id, result=repr(result), runtime=self.clock() - began_s)
            word = "succeeded"
        if is_late:
            self._pause("ran, not yet acked")
            ack_message(self.client, held.tag)
        return word

    def _fail_task(self, held: _Held, error: TaskError, args: list[Any], kwargs: dict[str, Any]) -> str:
        """Record the failure of a task: put its retry into the queue if there is one, store the error, and ack."""
        error_fields = {"exc_type": error.kind, "exc_message": [error.message], "exc_module": "builtins"}
        is_again = error.retry_s is not None
        if error.retry_s is not None:
            headers, eta_s = held.message["headers"], self.clock() + error.retry_s
            again = build_task_message(
                headers["task"],
                held.id,
                self.queue,
                args,
                kwargs,
                priority=held.message["properties"].get("priority", 0),
                eta_s=eta_s,
                retries=headers.get("retries", 0) + 1,
            )
            publish_message(self.client, self.queue, again)
        self._store_result(held.id, "RETRY" if is_again else "FAILURE", error_fields, error.trace)
        self._publish_event(
            "task-retried" if is_again else "task-failed", held.id, exception=repr(error), traceback=error.trace
        )
        ack_message(self.client, held.tag)
        return "retried" if is_again else "failed"

    def _end_revoked_task(self, held: _Held, *, terminated: bool) -> None:
        """Store the result of a revoked task, and publish that it was revoked."""
        self._terminated.discard(held.id)
        self._store_revoked_result(held.id, self.client)
        signum = "15" if terminated else None
        self._publish_event("task-revoked", held.id, terminated=terminated, signum=signum, expired=False)

    # -- results and events -------------------------------------------------------------------------------------------

    def _store_result(self, id: str, status: str, result: object, trace: str | None = None, client: Any = None) -> None:
        """Store a result for a day and publish it to waiting clients."""
        result_fields = {
            "status": status,
            "result": result,
            "traceback": trace,
            "children": [],
            "date_done": None if status == "RETRY" else format_time(self.clock()),
            "task_id": id,
        }
        pipe = (client or self.client).pipeline(transaction=True)
        pipe.execute_command("SETEX", build_result_key(id), RESULT_S, encode_json(result_fields))
        pipe.publish(build_result_key(id), encode_json(result_fields))
        pipe.execute()

    def _store_revoked_result(self, id: str, client: Any) -> None:
        """Store the result of a revoked task."""
        error_fields = {"exc_type": "TaskRevokedError", "exc_message": ["revoked"], "exc_module": "celery.exceptions"}
        self._store_result(id, "REVOKED", error_fields, client=client)

    def _build_event(self, type: str, **more: object) -> dict[str, object]:
        """Build an event of this worker with the current time and counter."""
        first = {"hostname": self.host, "utcoffset": 0, "pid": self._pid, "clock": next(self._ticks)}
        return {**first, **more, "timestamp": self.clock(), "type": type}

    def _publish_event(self, type: str, id: str, **more: object) -> None:
        """Add the event of a task to the events that are sent next."""
        self._events.append(self._build_event(type, uuid=id, **more))

    def _send_task_events(self) -> None:
        """Publish the stored task events in one message."""
        events, self._events = self._events, []
        if events:
            self._send_message("task.multi", events, self.client)

    def _publish_state(self, type: str, client: Any) -> None:
        """Publish an event about the worker itself, such as a heartbeat."""
        body = self._build_event(
            type,
            freq=BEAT_S,
            active=int(bool(self._running)),
            processed=self._processed,
            loadavg=[0.42, 0.38, 0.31],
            sw_ident="py-celery",
            sw_ver="5.7.0",
            sw_sys="Linux",
        )
        self._send_message(type.replace("-", "."), body, client)

    def _send_message(self, topic: str, body: object, client: Any) -> None:
        """Publish a message on the channel of a topic."""
        message = _build_message(body, {"hostname": self.host}, "celeryev", topic)
        client.publish(build_channel(client, f"celeryev/{topic}"), encode_json(message))

    # -- commands -----------------------------------------------------------------------------------------------------

    def _obey_command(self, message: Message, client: Any) -> None:
        """Obey a command from the mailbox. Commands for other workers, expired and unknown ones are ignored."""
        order = decode_body(message)
        destination, expires_s = order.get("destination"), message.get("headers", {}).get("expires")
        if (destination and self.host not in destination) or (expires_s and expires_s < self.clock()):
            return
        obey = self._orders.get(str(order.get("method")))
        if obey is None:
            return
        reply = obey(order.get("arguments") or {}, client)
        to = order.get("reply_to")
        if not to:
            return
        for member in client.smembers(f"_kombu.binding.{to['exchange']}"):
            routing_key, _pattern, queue = member.decode().split(SEP)
            if routing_key == to["routing_key"]:
                _send_reply(client, queue, routing_key, self.host, reply, str(order.get("ticket")))

    def _revoke_tasks(self, arguments: Mapping[str, Any], client: Any) -> object:
        """Store the ids of revoked tasks, and terminate the running task if the command says so."""
        task_ids = arguments.get("task_id") or []
        ids = [task_ids] if isinstance(task_ids, str) else list(task_ids)
        self._revoked.update(ids)
        for id in ids:
            if arguments.get("terminate") and id == self._running:
                self._terminated.add(id)
            else:
                self._store_revoked_result(id, client)
        return {"ok": f"tasks {', '.join(ids)} flagged as revoked"}

    def _terminate_tasks(self, arguments: Mapping[str, Any], client: Any) -> object:
        """Revoke tasks and terminate the running one, as the control command `terminate` does."""
        self._revoke_tasks({**arguments, "terminate": True}, client)
        return {"ok": f"terminate: {arguments.get('task_id')}"}

    def _cancel_consumer(self, arguments: Mapping[str, Any], _client: Any) -> object:
        """Stop fetching messages of a queue, as the control command `cancel_consumer` does."""
        if arguments.get("queue") == self.queue:
            self._is_consuming = False
        return {"ok": f"no longer consuming from {arguments.get('queue')}"}

    def _add_consumer(self, arguments: Mapping[str, Any], _client: Any) -> object:
        """Fetch messages of a queue again, as the control command `add_consumer` does."""
        if arguments.get("queue") == self.queue:
            self._is_consuming = True
        return {"ok": f"add consumer {arguments.get('queue')}"}
