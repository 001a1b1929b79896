"""The Redis scripts of a BullMQ queue, its workers and their stalled-job check, for tests and the demo.

Follows the wire format of BullMQ 6.7 (Node), and of 5.81 for pause and resume. Each step is one script, as in the
original, and leaves the data in Redis that the original was observed to leave.

    bull:<queue>:meta               hash    version, opts.maxLenEvents, paused
    :<id>                           hash    name, data, opts, timestamp, delay, priority, ats, atm, stc, pb, …
    :<id>:lock                      string  <worker>:<number>, while the job runs
    :id                             string  a counter that gives ids to jobs without one
    :wait, :active, :paused         list    ids; LPUSH in, popped at the right
    :delayed                        zset    id by due ms × 4096
    :prioritized                    zset    id by priority × 2^32 + :pc
    :completed, :failed, :waiting-children   zset    id by ms
    :marker                         zset    wakes a worker
    :stalled, :stalled-check        set, string  ids active at the last check; set while the next check is not due
    :<id>:dependencies, :processed  set, hash    of a parent: children that it waits for, and results of the others

The original's faults are kept. BullMQ 5 renames `wait` to `paused` at a pause and back at a resume, and the jobs that
were in the target list are lost. Workers do not see jobs in `paused` while the queue is not paused. A child that fails
leaves its parent waiting. A worker whose lock has expired ends the job with an error, and the job runs twice.
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


def _skip_gap(_gap: str) -> None:
    """Do nothing: the default for the gap between two commands of a program."""


def encode_json(value: object) -> str:
    """Encode a value as `JSON.stringify` does."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def build_key_prefix(queue: str) -> str:
    """Return the prefix of all keys of a queue."""
    return f"bull:{queue}:"


def build_connection_name(queue: str, worker: str) -> str:
    """Return the connection name that a worker sets. A worker may have no name."""
    return f"bull:{base64.b64encode(queue.encode()).decode()}" + (f":w:{worker}" if worker else "")


class JobError(Exception):
    """A job's error: the name of the error's class, the message and the places of its stack trace."""

    def __init__(self, kind: str, message: str, *places: str) -> None:
        super().__init__(message)
        self.trace = "\n    at ".join((f"{kind}: {message}", *places))


class Queue:
    """The producer of one queue, with its pause and its stalled-job check. `clock` returns unix seconds."""

    def __init__(self, client: Any, queue: str, clock: Clock = time.time) -> None:
        self.client, self.queue, self.clock, self.p = client, queue, clock, build_key_prefix(queue)

    def read_clock_ms(self) -> int:
        """Return the current time in unix ms, the unit of times in a job."""
        return int(self.clock() * 1000)

    def connect(self, version: str = VERSION) -> None:
        """Write the queue's `meta` hash as a connecting Queue does. The last client's version stays."""
        self.client.hset(f"{self.p}meta", mapping={"version": version, "opts.maxLenEvents": _MAX_EVENTS})

    def build_fields(self, name: str, data: object, opts: Fields, delay_ms: int = 0, **more: object) -> dict[str, Any]:
        """Build the hash of a new job."""
        priority = opts.get("priority", 0)
        fields = {"name": name, "data": encode_json(data), "opts": encode_json(opts), "timestamp": self.read_clock_ms()}
        return {**fields, "delay": delay_ms, "priority": priority, **more}

    def add(self, id: str, name: str, data: object, opts: Fields, delay_ms: int = 0, **more: object) -> bool:
        """Add a job as `Queue.add` does. Return False, and leave the job unchanged, if its id exists."""
        due_ms = self.read_clock_ms() + delay_ms if delay_ms else 0
        pairs = [part for pair in self.build_fields(name, data, opts, delay_ms, **more).items() for part in pair]
        return bool(self.client.eval(_ADD, 0, self.p, self.read_clock_ms(), id, due_ms, *pairs))

    def pause_or_resume_as_version_5(self, is_paused: bool) -> list[bytes]:
        """Pause or resume the queue as `Queue.pause` and `Queue.resume` of BullMQ 5 do.

        Return the ids that are no longer in any place.
        """
        self.connect(OLD_VERSION)
        lost: list[bytes] = self.client.eval(_PAUSE_5 if is_paused else _RESUME_5, 0, self.p, self.read_clock_ms())
        return lost

    def move_stalled_jobs(self) -> int:
        """Move stalled jobs back to `wait` and return how many were moved.

        Every worker runs this check every 30 s, and Redis lets only one of them do it at a time.
        """
        return int(self.client.eval(_STALLED, 0, self.p, self.read_clock_ms(), STALLED_MS))


class Worker:
    """A worker of one queue. `run` gets a job's id, name and data, and may raise JobError."""

    def __init__(
        self,
        client: Any,
        queue: str,
        name: str,
        run: Callable[[str, str, Any], object] = lambda _id, _name, _data: None,
        pause: Pause = _skip_gap,
        clock: Clock = time.time,
        lock_ms: int = LOCK_MS,
        uuid: str = "",
    ) -> None:
        self.client, self.queue, self.name, self.p = client, Queue(client, queue, clock), name, build_key_prefix(queue)
        self._uuid = uuid or f"{name}-4b1d-8d2f"
        self._run, self._pause, self._lock_ms, self._taken = run, pause, lock_ms, 0

    def connect(self) -> None:
        """Name the connection after the worker. BullMQ keeps no other list of workers."""
        with suppress(ResponseError):  # On a server without connection names the worker stays invisible.
            self.client.client_setname(build_connection_name(self.queue.queue, self.name))

    def step(self, wait_s: float = 0.05) -> str:
        """Run one turn of the worker's loop. The original waits for the marker for several seconds.

        Return completed, retried, failed, late (the lock had expired) or idle.
        """
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
            return self._fail_job(id, token, fields, error)
        self._pause("ran, not yet recorded")
        args = (self.p, self.queue.read_clock_ms(), id, token, encode_json(value))
        return "completed" if self.client.eval(_COMPLETE, 0, *args) else "late"

    def take(self) -> tuple[str, str, dict[str, str]] | None:
        """Enqueue due jobs, then take and lock the next job.

        Return its id, lock token and fields, or None if no job is ready.
        """
        self._taken += 1
        token = f"{self._uuid}:{self._taken}"
        found = self.client.eval(_TAKE, 0, self.p, self.queue.read_clock_ms(), token, self._lock_ms, self.name)
        if not found:
            return None
        names = ("name", "data", "opts", "atm", "defa", "stacktrace")
        values = ((value or b"").decode() for value in found[1])
        return found[0].decode(), token, dict(zip(names, values, strict=True))

    def _fail_job(self, id: str, token: str, fields: Mapping[str, str], error: JobError) -> str:
        opts, attempt = json.loads(fields["opts"] or "{}"), int(fields["atm"] or 0) + 1
        is_last = bool(fields["defa"]) or attempt >= opts.get("attempts", 1)
        now_ms = self.queue.read_clock_ms()
        due_ms = 0 if is_last else now_ms + opts.get("backoff", {}).get("delay", 1)
        traces = encode_json([*json.loads(fields["stacktrace"] or "[]"), error.trace])
        args = (self.p, now_ms, id, token, str(error), traces, due_ms)
        if not self.client.eval(_FAIL, 0, *args):
            return "late"
        return "failed" if is_last else "retried"
