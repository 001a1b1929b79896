"""A model of the native queue in plain Python, written from its documentation and not from the scripts.

Each verb takes the arguments of its script and returns the words that the script must reply, with the values that
matter. `systems/native/test_model.py` runs the model and the scripts side by side and compares their states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from native_state import ENDED, LIVE, OPTIONS, AttemptLine, Outcome, State


class Model(State):
    """The model of a native queue, with a method per verb of the queue."""

    def enqueue(self, rows: Sequence[dict[str, Any]]) -> list[Outcome]:
        nearest, moved = self.find_next_due_ms(), []
        outcomes: list[Outcome] = []
        for row in rows:
            id, done = row["id"], self.places["done"]
            is_over = id in done and done[id] <= self.now_ms
            if id in moved or (not is_over and (id in done or id in self.records)):
                outcomes.append("exists")
                continue
            self.erase_job(id)
            due = self.now_ms + row["delay_ms"] if row.get("delay_ms") is not None else row.get("due_ms")
            own = {name: row.get(name) for name in OPTIONS}
            self.records[id] = {"enqueued": self.now_ms, "due": due, "priority": row.get("priority") or 0} | own
            self.records[id]["is_plain"] = due is None and all(row.get(name) is None for name in ("priority", *OPTIONS))
            self.records[id] |= {"name": row.get("name") or "", "body": row["body"]}
            is_later = due is not None and due > self.now_ms
            score = due if is_later else self.assign_ready_score(row.get("priority") or 0)
            self.move_job(id, "scheduled" if is_later else "ready", score)
            self.wake |= not is_later or due < nearest
            moved.append(id)
            outcomes.append("moved")
        if moved:
            self.meta |= {"version": 2, "seq": self.meta.get("seq", 0)}
            self.record_changes("enqueue", moved, enqueued=len(moved))
        return outcomes

    def reserve(self, limit: int, worker: str, ttr_ms: int | None) -> Outcome:
        ids = self.sort_ids("ready")[:limit]
        if "paused" in self.meta or not ids:
            return ("paused" if "paused" in self.meta else "empty", self.compute_ms_to_next_job(), [])
        rows, token = [], max(int(self.meta.get("token", 0)), self.now_ms * 1000 - 1)
        for id in ids:
            token += 1
            record, old = self.records[id], self.lines.get(id, AttemptLine())
            lease = ttr_ms or self.read_setting("ttr_ms", record["ttr_ms"])
            self.lines[id] = replace(
                old,
                attempts=old.attempts + 1,
                token=str(token),
                score=self.places["ready"][id],
                at_ms=self.now_ms,
                worker=worker,
            )
            self.move_job(id, "reserved", self.now_ms + lease)
            rows.append(
                (id, str(token), old.attempts + 1, self.read_setting("max_attempts", record["max_attempts"]), lease)
            )
        self.meta["token"] = token
        self.record_changes("reserve", ids, reserved=len(ids))
        self.wake |= bool(self.places["ready"]) or 0 <= self.compute_ms_to_next_job() <= 10_000
        return ("moved", self.compute_ms_to_next_job(), rows)

    def pull(self, limit: int) -> Outcome:
        ids = self.sort_ids("ready")[:limit]
        if "paused" in self.meta or not ids:
            return ("paused" if "paused" in self.meta else "empty", [])
        for id in ids:
            self.erase_job(id)
        self.record_changes("pull", ids, pulled=len(ids))
        return ("moved", ids)

    def ack(self, rows: Sequence[tuple[bytes, str]], keep_ms: int | None) -> list[Outcome]:
        def ack_row(row: tuple[bytes, str]) -> tuple[Outcome, bytes | None]:
            id, token = row
            if id in acked and token == acked[id]:
                return "done", None
            if id not in acked and self.is_lease_valid(id, token):
                return "moved", self._finish_job(id, keep_ms, acked)
            if (
                id not in acked
                and self.find_job_place(id) == "done"
                and self.lines.get(id, AttemptLine()).token == token
            ):
                return "done", None
            return ("stale" if id in acked or self.has_job_data(id) or id in self.places["done"] else "gone"), None

        acked: dict[bytes, str] = {}
        outcomes, finished = self.apply_to_rows(rows, ack_row)
        if finished:
            self.record_changes("ack", finished, acked=len(finished))
            self.delete_old_done_jobs(10 + len(rows))
        return outcomes

    def _finish_job(self, id: bytes, keep_ms: int | None, acked: dict[bytes, str]) -> bytes:
        """Move an acknowledged job to done, or delete it, and return its id."""
        line, record = self.lines[id], self.records[id]
        acked[id] = line.token
        keep = keep_ms if keep_ms is not None else self.read_setting("keep_ms", record["keep_ms"])
        retention = max(keep, self.read_setting("unique_ms"))
        if not retention:
            self.erase_job(id)
            return id
        self.move_job(id, "done", self.now_ms + retention)
        self.lines[id] = replace(line, at_ms=self.now_ms, flag="-")
        if not keep:
            self.records.pop(id)
            self.errors.pop(id, None)
        return id

    def reject(self, rows: Sequence[tuple[bytes, str, str]], final: bool, delay_ms: int | None) -> list[Outcome]:
        nearest, deaths = self.find_next_due_ms(), 0

        def reject_row(row: tuple[bytes, str, str]) -> tuple[Outcome, bytes | None]:
            nonlocal deaths
            id, token, why = row
            if not self.is_lease_valid(id, token):
                return ("stale" if self.has_job_data(id) else "gone"), None
            line, record = self.lines[id], self.records[id]
            self.record_failure(id, line.at_ms, line.worker, why)
            dies = (
                final or line.flag == "c" or line.attempts >= self.read_setting("max_attempts", record["max_attempts"])
            )
            due = (
                self.now_ms
                if dies
                else self.now_ms + (self._compute_backoff_ms(line, record) if delay_ms is None else delay_ms)
            )
            self.lines[id] = replace(line, token="-", at_ms=due)
            self.move_job(id, "dead" if dies else "scheduled", due)
            deaths += dies
            self.wake |= not dies and due < nearest
            return ("moved", "dead" if dies else "scheduled"), id

        outcomes, moved = self.apply_to_rows(rows, reject_row)
        if moved:
            self.record_changes("reject", moved, rejected=len(moved), dead=deaths)
            if deaths:
                self.delete_old_dead_jobs(10 + 2 * deaths)
        return outcomes

    def _compute_backoff_ms(self, line: AttemptLine, record: dict[str, Any]) -> int:
        """Return how long a rejected job waits before its next attempt."""
        base = self.read_setting("backoff_ms", record["backoff_ms"])
        cap = self.read_setting("backoff_cap_ms", record["backoff_cap_ms"])
        wait = min(cap, base * 2 ** (line.attempts - 1))
        return int(wait / 2 + wait / 2 * (int(line.token[-6:]) % 1009) / 1009)

    def release(self, rows: Sequence[tuple[bytes, str]], delay_ms: int) -> list[Outcome]:
        nearest, due = self.find_next_due_ms(), self.now_ms + delay_ms
        place = "scheduled" if delay_ms else "ready"

        def release_row(row: tuple[bytes, str]) -> tuple[Outcome, bytes | None]:
            id, token = row
            if not self.is_lease_valid(id, token):
                return ("stale" if self.has_job_data(id) else "gone"), None
            line = self.lines[id]
            self.lines[id] = replace(line, attempts=line.attempts - 1, token="-", at_ms=due)
            self.move_job(id, place, due if delay_ms else line.score)
            return ("moved", place), id

        outcomes, moved = self.apply_to_rows(rows, release_row)
        if moved:
            self.wake |= not delay_ms or due < nearest
            self.record_changes("release", moved, released=len(moved))
        return outcomes

    def extend(self, rows: Sequence[tuple[bytes, str]], ttr_ms: int | None) -> list[Outcome]:
        def extend_row(row: tuple[bytes, str]) -> tuple[Outcome, bytes | None]:
            id, token = row
            if not self.is_lease_valid(id, token):
                return ("stale" if self.has_job_data(id) else "gone"), None
            if self.lines[id].flag == "c":
                return "cancelled", None
            deadline = self.now_ms + (ttr_ms or self.read_setting("ttr_ms", self.records[id]["ttr_ms"]))
            self.move_job(id, "reserved", deadline)
            return ("extended", deadline), id

        return self.apply_to_rows(rows, extend_row)[0]

    def dispatch(self, limit: int) -> Outcome:
        before = len(self.places["ready"])
        ids = [id for id in self.sort_ids("scheduled") if self.places["scheduled"][id] <= self.now_ms][:limit]
        for id in ids:
            self.move_job(id, "ready", self.assign_ready_score(self.find_priority(id)))
        if ids:
            self.record_changes("dispatch", ids, dispatched=len(ids))
            self.wake = True
        self.delete_old_done_jobs(10)
        due = self.find_next_due_ms()
        remaining = len(self.places["scheduled"]), before, -1 if due == float("inf") else max(0, int(due) - self.now_ms)
        return ("moved", len(ids), *remaining) if ids else ("empty", *remaining)

    def reap(self, limit: int) -> Outcome:
        ids = [id for id in self.sort_ids("reserved") if self.places["reserved"][id] <= self.now_ms][:limit]
        back = 0
        for id in ids:
            line = self.lines[id]
            self.record_failure(id, line.at_ms, line.worker, "the lease expired")
            lives = line.flag != "c" and line.attempts < self.read_setting(
                "max_attempts", self.records[id]["max_attempts"]
            )
            self.lines[id] = replace(line, token="-", at_ms=self.now_ms)
            self.move_job(id, "ready" if lives else "dead", line.score if lives else self.now_ms)
            back += lives
        if ids:
            self.record_changes("reap", ids, expired=len(ids), dead=len(ids) - back)
            self.wake |= back > 0
        self.delete_old_done_jobs(10)
        self.delete_old_dead_jobs(10 + len(ids))
        deadlines = self.places["reserved"].values()
        next_ms = max(0, min(deadlines) - self.now_ms) if deadlines else -1
        return ("moved", len(ids), back, len(ids) - back, next_ms) if ids else ("empty", next_ms)

    def promote(self, ids: Sequence[bytes]) -> list[Outcome]:
        def promote_id(id: bytes) -> tuple[Outcome, bytes | None]:
            place = self.find_job_place(id)
            if place != "scheduled":
                return (("wrong_place", place) if place else "gone"), None
            score = self.assign_ready_score(self.find_priority(id))
            self.lines[id] = replace(self.lines.get(id, AttemptLine()), score=score, at_ms=self.now_ms)
            self.move_job(id, "ready", score)
            return "moved", id

        outcomes, moved = self.apply_to_rows(ids, promote_id)
        if moved:
            self.wake = True
            self.record_changes("promote", moved, promoted=len(moved))
        return outcomes

    def reschedule(self, ids: Sequence[bytes], due_ms: int) -> list[Outcome]:
        nearest, place = self.find_next_due_ms(), "scheduled" if due_ms > self.now_ms else "ready"

        def reschedule_id(id: bytes) -> tuple[Outcome, bytes | None]:
            if self.find_job_place(id) not in ("scheduled", "ready"):
                return (("wrong_place", self.find_job_place(id)) if self.find_job_place(id) else "gone"), None
            score = self.assign_ready_score(self.find_priority(id))
            self.lines[id] = replace(self.lines.get(id, AttemptLine()), score=score, at_ms=due_ms)
            self.move_job(id, place, due_ms if place == "scheduled" else score)
            return ("moved", place), id

        outcomes, moved = self.apply_to_rows(ids, reschedule_id)
        if moved:
            self.wake |= place == "ready" or due_ms < nearest
            self.record_changes("reschedule", moved, rescheduled=len(moved))
        return outcomes

    def reprioritise(self, ids: Sequence[bytes], priority: int) -> list[Outcome]:
        def reprioritise_id(id: bytes) -> tuple[Outcome, bytes | None]:
            place = self.find_job_place(id)
            if place not in ("scheduled", "ready"):
                return (("wrong_place", place) if place else "gone"), None
            record = self.records[id]
            line = self.lines.get(id) or AttemptLine(at_ms=max(record["enqueued"], record["due"] or 0))
            score = line.score
            if place == "ready":
                score = priority * 2**40 + self.places["ready"][id] % 2**40
                self.places["ready"][id] = score
            self.lines[id] = replace(line, priority=priority, score=score)
            return "changed", id

        outcomes, changed = self.apply_to_rows(ids, reprioritise_id)
        if changed:
            self.record_changes("reprioritise", changed, reprioritised=len(changed))
        return outcomes

    def bump(self, ids: Sequence[bytes]) -> list[Outcome]:
        def explain(id: bytes) -> Outcome:
            place = self.find_job_place(id)
            return "changed" if place == "ready" else ("wrong_place", place) if place else "gone"

        outcomes = [explain(id) for id in ids]
        bumped = list(dict.fromkeys(id for id in ids if id in self.places["ready"]))
        lowest = min(self.places["ready"].values(), default=0) - len(bumped)
        for score, id in enumerate(bumped, lowest):
            record = self.records[id]
            line = self.lines.get(id) or AttemptLine(at_ms=max(record["enqueued"], record["due"] or 0))
            self.lines[id] = replace(line, score=score)
            self.places["ready"][id] = score
        if bumped:
            self.record_changes("bump", bumped, bumped=len(bumped))
        return outcomes

    def requeue(self, ids: Sequence[bytes], keep_attempts: bool) -> list[Outcome]:
        def requeue_id(id: bytes) -> tuple[Outcome, bytes | None]:
            place = self.find_job_place(id)
            if place not in ENDED:
                return (("wrong_place", place) if place else "gone"), None
            if id not in self.records:
                return "bodyless", None
            score, old = self.assign_ready_score(self.find_priority(id)), self.lines.get(id, AttemptLine())
            self.lines[id] = AttemptLine(old.attempts if keep_attempts else 0, "-", score, self.now_ms, old.priority)
            self.move_job(id, "ready", score)
            return "moved", id

        outcomes, moved = self.apply_to_rows(ids, requeue_id)
        if moved:
            self.wake = True
            self.record_changes("requeue", moved, requeued=len(moved))
        return outcomes

    def _explain_refusal(self, id: bytes, token: str, place: str, force: bool, allowed: Sequence[str]) -> Outcome:
        """Return the word with which kill and delete refuse a job, or an empty string."""
        home = self.find_job_place(id)
        if not home:
            return "gone"
        if home not in allowed or place not in ("", home):
            return ("wrong_place", home)
        if home == "reserved" and token not in ("", self.lines[id].token):
            return "stale"
        return "reserved" if home == "reserved" and not force else ""

    def kill(self, rows: Sequence[tuple[bytes, str]], place: str, reason: str, force: bool) -> list[Outcome]:
        def kill_row(row: tuple[bytes, str]) -> tuple[Outcome, bytes | None]:
            id, token = row
            if why := self._explain_refusal(id, token, place, force, LIVE):
                return why, None
            line, is_reserved = self.lines.get(id), self.find_job_place(id) == "reserved"
            began = (line.at_ms, line.worker) if is_reserved and line else (self.now_ms, "")
            self.record_failure(id, *began, reason or "killed")
            if line:
                self.lines[id] = replace(line, token="-", at_ms=self.now_ms, flag="-")
            self.move_job(id, "dead", self.now_ms)
            return "moved", id

        outcomes, moved = self.apply_to_rows(rows, kill_row)
        if moved:
            self.record_changes("kill", moved, killed=len(moved), dead=len(moved))
            self.delete_old_dead_jobs(10 + 2 * len(moved))
        return outcomes

    def delete(self, rows: Sequence[tuple[bytes, str]], place: str, force: bool, is_as_read: bool) -> list[Outcome]:
        def delete_row(row: tuple[bytes, str]) -> tuple[Outcome, bytes | None]:
            id, token = row
            if why := self._explain_refusal(id, token, place, force, (*LIVE, *ENDED)):
                return why, None
            if not is_as_read:
                return "changed", None
            home = self.find_job_place(id)
            self.erase_job(id)
            return ("moved", home), id

        outcomes, moved = self.apply_to_rows(rows, delete_row)
        if moved:
            self.record_changes("delete", moved, deleted=len(moved))
        return outcomes

    def move_there_and_back(self, ids: Sequence[bytes], place: str, is_as_read: bool) -> list[Outcome]:
        """Move jobs to an empty queue and from there back: a ready job is then behind those of its priority."""

        def move_id(id: bytes) -> tuple[Outcome, bytes | None]:
            home = self.find_job_place(id) if id not in seen else ""
            if not home:
                return "gone", None
            if home not in ("scheduled", "ready", "dead") or place not in ("", home):
                return ("wrong_place", home), None
            if not is_as_read:
                return "changed", None
            seen.add(id)
            return ("moved", home), id

        seen: set[bytes] = set()
        outcomes, moved = self.apply_to_rows(ids, move_id)
        if not moved:
            return outcomes
        self.record_changes("move", moved, moved_out=len(moved))
        arrivals = sorted(moved[::-1], key=lambda id: self.places[self.find_job_place(id)][id])  # as `moved` come back
        self.meta |= {"version": 2, "seq": self.meta.get("seq", 0)}
        for id in arrivals:
            if id in self.places["ready"]:
                score = self.assign_ready_score(self.places["ready"][id] // 2**40)
                self.places["ready"][id] = score
                if id in self.lines:
                    self.lines[id] = replace(self.lines[id], score=score)
        self.record_changes("move", arrivals, moved_in=len(moved))
        self.wake |= any(self.find_job_place(id) != "dead" for id in moved)
        return outcomes

    def restore(self, id: bytes, previous: Model) -> list[Outcome]:
        """Restore the job `id` from the earlier state `previous`."""
        if self.find_job_place(id) or id in self.records:
            return ["exists"]
        place, line = previous.find_job_place(id), previous.lines.get(id)
        score = previous.places[place][id]
        if place == "reserved" and line:
            place, score, line = "ready", line.score, replace(line, token="-", at_ms=self.now_ms)
        for target, source in ((self.records, previous.records), (self.errors, previous.errors)):
            if id in source:
                target[id] = source[id]  # type: ignore[index]
        if line:
            self.lines[id] = line
        self.places[place][id] = score
        self.wake |= place in ("ready", "scheduled")
        self.meta["version"] = 2  # its header may be a short one
        self.record_changes("restore", [id], restored=1)
        return [("moved", place)]

    def purge(self, place: str, limit: int, force: bool) -> Outcome:
        live = sum(deadline > self.now_ms for deadline in self.places["reserved"].values())
        if live and not force and place in ("", "reserved"):
            return ("reserved", live)
        if not place:
            total, empty = sum(map(len, self.places.values())), not self.build_keyspace()
            self.__init__(self.now_ms)  # type: ignore[misc]
            return "empty" if empty else ("moved", total, 0)
        ids = self.sort_ids(place)[:limit]
        for id in ids:
            self.erase_job(id)
        if not ids:
            return "empty"
        self.record_changes("purge", [], purged=len(ids))
        return ("moved", len(ids), len(self.places[place]))

    def pause(self) -> Outcome:
        if "paused" in self.meta:
            return "already"
        self.meta |= {"version": 2, "paused": self.now_ms}
        self.events += [("pause", b"")] if self.is_recording_events() else []
        return "paused"

    def resume(self) -> Outcome:
        if self.meta.pop("paused", None) is None:
            return "already"
        self.wake = True
        self.events += [("resume", b"")] if self.is_recording_events() else []
        return "resumed"

    def configure(self, name: str, value: str) -> Outcome:
        self.meta["version"] = 2
        self.meta.pop(name, None)
        self.meta |= {name: value} if value else {}
        return ("configured", 1)

    def cancel(self, rows: Sequence[tuple[bytes, str]]) -> list[Outcome]:
        def cancel_row(row: tuple[bytes, str]) -> tuple[Outcome, bytes | None]:
            id, token = row
            if self.find_job_place(id) != "reserved":
                return (("wrong_place", self.find_job_place(id)) if self.find_job_place(id) else "gone"), None
            if token not in ("", self.lines[id].token):
                return "stale", None
            self.lines[id] = replace(self.lines[id], flag="c")
            return "asked", id

        outcomes, changed = self.apply_to_rows(rows, cancel_row)
        if changed:
            self.record_changes("cancel", changed, cancelled=len(changed))
        return outcomes

    def beat(self, worker: bytes, job: bytes, leave: bool) -> Outcome:
        """Record the heartbeat of a worker, or remove the worker with `leave`; reply with the operator's order."""
        old = self.workers.pop(worker, None)
        if leave:
            return "left"
        order, since = (old[1], old[2]) if old else ("run", self.now_ms)
        self.workers[worker] = [self.now_ms, order, since, job]
        return order

    def send_order(self, worker: bytes, order: str) -> list[Outcome]:
        """Store an operator's order (run, quiet or stop) for a worker."""
        if worker not in self.workers:
            return ["gone"]
        self.workers[worker][1] = order
        return ["asked"]
