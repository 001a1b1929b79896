"""BullMQ (Node, 6.7; what 5.81 does otherwise at a pause): a queue, its workers and their look for stalled jobs, from
its wire format: what each step was seen to leave in Redis. Each is a script, as in the original.

    bull:<queue>:meta               hash    version, opts.maxLenEvents, paused
    :<id>                           hash    name, data, opts, timestamp, delay, priority, ats, atm, stc, pb, …
    :<id>:lock                      string  <worker>:<number>, while it runs
    :id                             string  a counter: an id for who gives none
    :wait, :active, :paused         list    ids; LPUSH in, popped at the right
    :delayed                        zset    id by due ms × 4096
    :prioritized                    zset    id by priority × 2^32 + :pc
    :completed, :failed, :waiting-children   zset    id by ms
    :marker                         zset    what wakes a worker
    :stalled, :stalled-check        set, string  ids that the last look saw in active; that there was one
    :<id>:dependencies, :processed  set, hash    of a parent: children that it waits for, and what others returned

Kept faults: BullMQ 5 renames `wait` to `paused` at a pause and back at a resume, and what stood there is in no place;
what stands in `paused` while the queue is not paused is seen by nobody; a child that fails leaves its parent waiting;
a worker whose lock is over ends with an error, and its job runs twice.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from redis.exceptions import ResponseError

VERSION, OLD_VERSION = "bullmq:6.7.0", "bullmq:5.81.5"
LOCK_MS, STALLED_MS = 30_000, 30_000
UNIT, PRIORITY = 4096, 2**32
_MAX_EVENTS = 10_000
Pause = Callable[[str], None]
Clock = Callable[[], float]
Fields = Mapping[str, Any]

_SHARED = """
local p, now = ARGV[1], ARGV[2]
local function tell(event, id, ...)
  redis.call('XADD', p .. 'events', 'MAXLEN', '~', 10000, '*', 'event', event, 'jobId', id, ...)
end
local function wake()
  if redis.call('HEXISTS', p .. 'meta', 'paused') == 0 then redis.call('ZADD', p .. 'marker', 0, '0') end
end
local function alarm()
  local first = redis.call('ZRANGE', p .. 'delayed', 0, 0, 'WITHSCORES')[2]
  if first then redis.call('ZADD', p .. 'marker', string.format('%.0f', math.floor(first / 4096)), '1') end
end
local function push(id)
  local priority = tonumber(redis.call('HGET', p .. id, 'priority') or 0)
  if priority > 0 then
    local score = priority * 4294967296 + redis.call('INCR', p .. 'pc')
    redis.call('ZADD', p .. 'prioritized', string.format('%.0f', score), id)
  else
    redis.call('LPUSH', p .. 'wait', id)
  end
  wake()
end
local function ended(id, token)
  if redis.call('GET', p .. id .. ':lock') ~= token then return false end
  redis.call('DEL', p .. id .. ':lock')
  redis.call('SREM', p .. 'stalled', id)
  return redis.call('LREM', p .. 'active', -1, id) > 0
end
"""
_ADD = (
    _SHARED
    + """
local id, due = ARGV[3], tonumber(ARGV[4])
redis.call('INCR', p .. 'id')
if redis.call('EXISTS', p .. id) == 1 then return 0 end
redis.call('HSET', p .. id, unpack(ARGV, 5))
tell('added', id)
if due > 0 then
  redis.call('ZADD', p .. 'delayed', string.format('%.0f', due * 4096), id)
  tell('delayed', id, 'delay', ARGV[4])
  alarm()
else
  push(id)
  tell('waiting', id)
end
return 1"""
)
_TAKE = (
    _SHARED
    + """
local token, lock_ms, name = ARGV[3], ARGV[4], ARGV[5]
local last = string.format('%.0f', (now + 1) * 4096 - 1)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', p .. 'delayed', 0, last, 'LIMIT', 0, 1000)) do
  redis.call('ZREM', p .. 'delayed', id)
  redis.call('HSET', p .. id, 'delay', 0)
  push(id)
  tell('waiting', id, 'prev', 'delayed')
end
alarm()
if redis.call('HEXISTS', p .. 'meta', 'paused') == 1 then return false end
local id = redis.call('RPOPLPUSH', p .. 'wait', p .. 'active')
if not id then
  id = redis.call('ZPOPMIN', p .. 'prioritized')[1]
  if not id then return false end
  redis.call('LPUSH', p .. 'active', id)
end
redis.call('SET', p .. id .. ':lock', token, 'PX', lock_ms)
redis.call('HSET', p .. id, 'processedOn', now, 'pb', name)
redis.call('HINCRBY', p .. id, 'ats', 1)
tell('active', id, 'prev', 'waiting')
wake()
return {id, redis.call('HMGET', p .. id, 'name', 'data', 'opts', 'atm', 'defa', 'stacktrace')}"""
)
_COMPLETE = (
    _SHARED
    + """
local id, token, value = ARGV[3], ARGV[4], ARGV[5]
if not ended(id, token) then return 0 end
redis.call('HINCRBY', p .. id, 'atm', 1)
redis.call('HSET', p .. id, 'returnvalue', value, 'finishedOn', now)
redis.call('ZADD', p .. 'completed', now, id)
redis.call('HINCRBY', p .. 'metrics:completed', 'count', 1)
tell('completed', id, 'returnvalue', value, 'prev', 'active')
local parent = redis.call('HGET', p .. id, 'parentKey')
if parent and redis.call('SREM', parent .. ':dependencies', p .. id) == 1 then
  redis.call('HSET', parent .. ':processed', p .. id, value)
  local of = string.sub(parent, #p + 1)
  if redis.call('SCARD', parent .. ':dependencies') == 0 and redis.call('ZREM', p .. 'waiting-children', of) == 1 then
    push(of)
    tell('waiting', of, 'prev', 'waiting-children')
  end
end
return 1"""
)
_FAIL = (
    _SHARED
    + """
local id, token, reason, traces, due = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
if not ended(id, token) then return 0 end
redis.call('HINCRBY', p .. id, 'atm', 1)
redis.call('HSET', p .. id, 'failedReason', reason, 'stacktrace', traces)
if due > 0 then
  redis.call('HSET', p .. id, 'delay', string.format('%.0f', due - now))
  redis.call('ZADD', p .. 'delayed', string.format('%.0f', due * 4096), id)
  tell('delayed', id, 'delay', ARGV[7])
  alarm()
  return 1
end
redis.call('HSET', p .. id, 'finishedOn', now)
redis.call('HDEL', p .. id, 'defa')
redis.call('ZADD', p .. 'failed', now, id)
redis.call('HINCRBY', p .. 'metrics:failed', 'count', 1)
tell('failed', id, 'failedReason', reason, 'prev', 'active')
return 1"""
)
_STALLED = (
    _SHARED
    + """
if not redis.call('SET', p .. 'stalled-check', now, 'PX', ARGV[3], 'NX') then return 0 end
local moved = 0
for _, id in ipairs(redis.call('SMEMBERS', p .. 'stalled')) do
  if redis.call('EXISTS', p .. id .. ':lock') == 0 and redis.call('LREM', p .. 'active', 1, id) > 0 then
    if redis.call('HINCRBY', p .. id, 'stc', 1) > 1 then
      redis.call('HSET', p .. id, 'defa', 'job stalled more than allowable limit')
    end
    redis.call('RPUSH', p .. 'wait', id)
    wake()
    tell('waiting', id, 'prev', 'active')
    tell('stalled', id)
    moved = moved + 1
  end
end
redis.call('DEL', p .. 'stalled')
for _, id in ipairs(redis.call('LRANGE', p .. 'active', 0, -1)) do redis.call('SADD', p .. 'stalled', id) end
return moved"""
)
_PAUSE_5 = (
    _SHARED
    + """
local lost = {}
redis.call('HSET', p .. 'meta', 'paused', 1)
if redis.call('EXISTS', p .. 'wait') == 1 then
  lost = redis.call('LRANGE', p .. 'paused', 0, -1)
  redis.call('RENAME', p .. 'wait', p .. 'paused')
end
redis.call('DEL', p .. 'marker')
redis.call('XADD', p .. 'events', 'MAXLEN', '~', 10000, '*', 'event', 'paused')
return lost"""
)
_RESUME_5 = (
    _SHARED
    + """
local lost = {}
redis.call('HDEL', p .. 'meta', 'paused')
if redis.call('EXISTS', p .. 'paused') == 1 then
  lost = redis.call('LRANGE', p .. 'wait', 0, -1)
  redis.call('RENAME', p .. 'paused', p .. 'wait')
end
wake()
redis.call('XADD', p .. 'events', 'MAXLEN', '~', 10000, '*', 'event', 'resumed')
return lost"""
)


def _go_on(_gap: str) -> None:
    """The default between two steps: nothing happens."""


def encoded(value: object) -> str:
    """As `JSON.stringify` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def before(queue: str) -> str:
    """What stands before all keys of a queue."""
    return f"bull:{queue}:"


def connection_name(queue: str, worker: str) -> str:
    """What a worker calls its connection."""
    return f"bull:{base64.b64encode(queue.encode()).decode()}:w:{worker}"


class JobError(Exception):
    """A job threw: the name of the error's class, the message, and where."""

    def __init__(self, kind: str, message: str, *places: str) -> None:
        super().__init__(message)
        self.trace = "\n    at ".join((f"{kind}: {message}", *places))


class Queue:
    """The producer's side. `clock` tells seconds since 1970."""

    def __init__(self, client: Any, queue: str, clock: Clock = time.time) -> None:
        self.client, self.queue, self.clock, self.p = client, queue, clock, before(queue)

    def now_ms(self) -> int:
        """As times stand in a job."""
        return int(self.clock() * 1000)

    def connect(self, version: str = VERSION) -> None:
        """What a Queue writes when it connects: the version is that of the last one."""
        self.client.hset(f"{self.p}meta", mapping={"version": version, "opts.maxLenEvents": _MAX_EVENTS})

    def fields(self, name: str, data: object, opts: Fields, delay_ms: int = 0, **more: object) -> dict[str, Any]:
        """The hash of a new job."""
        priority = opts.get("priority", 0)
        given = {"name": name, "data": encoded(data), "opts": encoded(opts), "timestamp": self.now_ms()}
        return {**given, "delay": delay_ms, "priority": priority, **more}

    def add(self, id: str, name: str, data: object, opts: Fields, delay_ms: int = 0, **more: object) -> bool:
        """`Queue.add`; False where the id is taken, which changes nothing."""
        due_ms = self.now_ms() + delay_ms if delay_ms else 0
        pairs = [part for pair in self.fields(name, data, opts, delay_ms, **more).items() for part in pair]
        return bool(self.client.eval(_ADD, 0, self.p, self.now_ms(), id, due_ms, *pairs))

    def pause_as_5(self, is_paused: bool) -> list[bytes]:
        """`Queue.pause` or `resume` of a program with BullMQ 5; the ids that are in no place any more."""
        self.connect(OLD_VERSION)
        lost: list[bytes] = self.client.eval(_PAUSE_5 if is_paused else _RESUME_5, 0, self.p, self.now_ms())
        return lost

    def look_for_stalled(self) -> int:
        """What every worker does twice a minute, and one of them at a time: how many jobs wait again."""
        return int(self.client.eval(_STALLED, 0, self.p, self.now_ms(), STALLED_MS))


class Worker:
    """A worker of one queue. `run` is given id, name and data of a job, and raises JobError."""

    def __init__(
        self,
        client: Any,
        queue: str,
        name: str,
        run: Callable[[str, str, Any], object] = lambda _id, _name, _data: None,
        pause: Pause = _go_on,
        clock: Clock = time.time,
        lock_ms: int = LOCK_MS,
    ) -> None:
        self.client, self.queue, self.name, self.p = client, Queue(client, queue, clock), name, before(queue)
        self._run, self._pause, self._lock_ms, self._taken = run, pause, lock_ms, 0

    def connect(self) -> None:
        """Its connection tells who it is: BullMQ keeps no other list of workers."""
        with suppress(ResponseError):  # a server that has no names of connections: nobody sees it then
            self.client.client_setname(connection_name(self.queue.queue, self.name))

    def step(self, wait_s: float = 0.05) -> str:
        """One turn (the original waits for the marker for seconds): completed, retried, failed, late or idle."""
        if not (taken := self.take()):
            self.client.bzpopmin(f"{self.p}marker", wait_s)
            return "idle"
        id, token, fields = taken
        try:
            if reason := fields["defa"]:
                raise JobError("UnrecoverableError", reason)
            value = self._run(id, fields["name"], json.loads(fields["data"]))
        except JobError as error:
            self._pause("ran, not yet recorded")
            return self._fail(id, token, fields, error)
        self._pause("ran, not yet recorded")
        args = (self.p, self.queue.now_ms(), id, token, encoded(value))
        return "completed" if self.client.eval(_COMPLETE, 0, *args) else "late"

    def take(self) -> tuple[str, str, dict[str, str]] | None:
        """The next job, locked: its id, the lock, its fields. What is due is queued before."""
        self._taken += 1
        token = f"{self.name}-4b1d-8d2f:{self._taken}"
        found = self.client.eval(_TAKE, 0, self.p, self.queue.now_ms(), token, self._lock_ms, self.name)
        if not found:
            return None
        names = ("name", "data", "opts", "atm", "defa", "stacktrace")
        values = ((value or b"").decode() for value in found[1])
        return found[0].decode(), token, dict(zip(names, values, strict=True))

    def _fail(self, id: str, token: str, fields: Mapping[str, str], error: JobError) -> str:
        opts, attempt = json.loads(fields["opts"] or "{}"), int(fields["atm"] or 0) + 1
        is_last = bool(fields["defa"]) or attempt >= opts.get("attempts", 1)
        now_ms = self.queue.now_ms()
        due_ms = 0 if is_last else now_ms + opts.get("backoff", {}).get("delay", 1)
        traces = encoded([*json.loads(fields["stacktrace"] or "[]"), error.trace])
        args = (self.p, now_ms, id, token, str(error), traces, due_ms)
        if not self.client.eval(_FAIL, 0, *args):
            return "late"
        return "failed" if is_last else "retried"
