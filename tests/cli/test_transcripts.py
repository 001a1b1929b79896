"""Every line that the commands print about the queue of each system, compared with a kept text.

`test_contract.py` binds the documents of `--json`; these texts bind what people read. Ages, instants and versions are
replaced. After a wanted change, `RQTUI_WRITE_SNAPSHOTS=1 pytest tests/cli/test_transcripts.py` writes the texts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from celery_subject import build_message as celery_message
from normalised_output import list_document_lines, normalise_output
from planted_systems import SYSTEMS, PlantedSystem
from redis import Redis
from screens import Seeded
from shell import Ran, shell
from slow_cases import mark_slow_cases

from rqtui.testing.keyspace import Zset, plant

HOUR_MS = 3_600_000
KEPT = Path(__file__).with_name("transcripts")
COMMANDS = (
    ("snapshot",), ("snapshot", "QUEUE"), ("health",), ("health", "QUEUE"), ("workers",), ("kinds", "QUEUE"),
    ("errors", "QUEUE"), ("group", "QUEUE", "ready"), ("group", "QUEUE", "dead"), ("diff", "QUEUE", "ready", "dead"),
    ("loops",), ("stats", "QUEUE"), ("schedules",), ("check", "QUEUE"),
)  # fmt: skip


def bullmq_keys() -> dict[str, object]:
    """Plant a BullMQ queue with a job in each place but two; `failed` has an error and a stack trace."""
    now_ms = int(time.time() * 1000)
    times = {"name": "send", "data": '{"to":"a@b.c"}', "opts": '{"attempts":3}', "timestamp": str(now_ms - 60_000)}
    error = {"failedReason": "boom", "stacktrace": '["Error: boom\\n  at send (a.js:1)"]', "atm": "3", "ats": "3"}
    places = {"delayed": (now_ms + HOUR_MS) * 4096, "prioritized": 5 * 2**32, "completed": now_ms}
    return {
        "bull:mail:meta": {"opts.maxLenEvents": "10000", "version": "bullmq:5.81.2"},
        "bull:mail:id": "9",
        "bull:mail:wait": ["b", "a"],
        "bull:mail:active": ["active"],
        **{f"bull:mail:{place}": Zset({place: score}) for place, score in places.items()},
        **{f"bull:mail:{id}": {**times, "priority": "0", "delay": "0"} for id in ("a", "b", "active", *places)},
        "bull:mail:failed": Zset({"gone-wrong": now_ms}),
        "bull:mail:gone-wrong": {**times, **error, "finishedOn": str(now_ms)},
    }


def celery_keys() -> dict[str, object]:
    """Plant a queue of Celery: messages that wait, one that a worker holds, one with an ETA, and their details."""
    soon = datetime.fromtimestamp(time.time() + 1800, UTC).isoformat()
    fields = {"expires": soon, "timelimit": [60, 2.5], "root_id": "root", "parent_id": "parent", "group": "group"}
    fields |= {"shadow": "other.name", "ignore_result": True, "stamps": {"by": "us"}, "retries": 1}
    entries = {name: [json.loads(celery_message(name.encode(), **more)), "", "default"] for name, more in {
        "held": {}, "waits": {"eta": soon}, "late": {},
    }.items()}  # fmt: skip
    taken = {"held": time.time() - 60, "waits": time.time() - 60, "late": time.time() - 8000}
    return {
        "_kombu.binding.default": {"default\x06\x16\x06\x16default"},
        "default": [celery_message(b"b"), celery_message(b"a", **fields)],
        "unacked": {f"tag-{name}": json.dumps(entry) for name, entry in entries.items()},
        "unacked_index": Zset({f"tag-{name}": at for name, at in taken.items()}),
    }


OF_THE_NATIVE = [  # commands that are the same for all systems, or that only the native queue has
    tuple(line.split())
    for line in (
        "acl viewer mail", "acl operator mail --user ann", "config", "put mail 1 --id new", "put mail 1 --id new",
        "script native/pause", "script native/nothing", "act pause mail",
        "snapshot mail", "act pause mail", "act resume mail", "act requeue mail dead-1 dead-2 nothing",
        "act reschedule mail new --set delay=1h", "act duplicate mail later --set id=copy", "act cancel mail held",
        "act configure mail --set ttr_ms=1m", "act configure mail --set nonsense=1", "act purge mail --dry-run",
        "act purge mail --place ready --yes", "check mail --repair", "dispatch mail --once", "reap mail --once",
        "operations", "undo", "undo", "jobs mail nowhere", "show mail nothing", "show mail held --reveal",
        "errors mail", "act delete mail --all --place dead --dry-run", "act nonsense mail x", "snapshot nonsense",
    )
]  # fmt: skip
BULLMQ = PlantedSystem("bullmq", "mail", bullmq_keys, ("delete", "a"))
CELERY = PlantedSystem("celery", "default", celery_keys, ("delete", "a"))
NATIVE = PlantedSystem("native", "mail", dict, ("kill", "ready-1"))


def plant_native(client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("held", max_attempts=4)
    seeded.reserve(ttr_ms=3_600_000)
    seeded.bury("dead-1", "dead-2")
    seeded.put("ready-1", "ready-2", priority=3)
    seeded.put("later", delay_ms=1_800_000)
    seeded.engine.apply_verb("beat", seeded.ref, (), {"worker": "w1", "ttl_ms": 3_600_000})


def transcript(url: str, system: PlantedSystem) -> Iterator[str]:
    """Return what each command prints; the jobs of each place are listed, and the first of each is shown."""

    def run(*words: str) -> Ran:
        return shell(url, "--system", system.spec, *words)

    lines = [tuple(system.queue if word == "QUEUE" else word for word in words) for words in COMMANDS]
    lines += [("layouts",)] if system is NATIVE else []  # the same for all
    [queue] = [one for one in run("snapshot", "--json").json["queues"] if one["queue"] == system.queue]
    for place in (one["place"] for one in queue["places"]):
        lines.append(("jobs", system.queue, place))
        listed = run("jobs", system.queue, place, "--json")
        ids = [job["id"] for job in listed.json["jobs"]] if listed.code == 0 else []
        lines += [("show", system.queue, id) for id in ids[:2]]
    readings, (verb, id) = len(lines), system.dangerous
    change = ("act", verb, system.queue, id)
    lines += [(*change, "--dry-run"), (*change, "--yes"), (*change, "--yes"), ("operations",)]
    lines += OF_THE_NATIVE if system is NATIVE else []
    for number, words in enumerate(lines):
        ran = run(*words)
        yield normalise_output(f"$ rqtui {' '.join(words)}  → {ran.code}\n{ran.out}{ran.err}")
        if number < readings:
            ran = run(*words, "--json")
            yield f"$ rqtui {' '.join(words)} --json  → {ran.code}{normalise_output(ran.err)}"
            yield from (line for text in ran.out.splitlines() for line in list_document_lines(json.loads(text)))


FOREIGN = (BULLMQ, CELERY, *SYSTEMS)


@pytest.mark.parametrize("system", mark_slow_cases((NATIVE, *FOREIGN), FOREIGN), ids=str)
def test_commands_print_the_stored_lines(system: PlantedSystem, client: Redis, url: str) -> None:
    plant(client, system.keys())
    if system is NATIVE:
        plant_native(client)
    text = "\n".join(transcript(url, system)) + "\n"
    file = KEPT / f"{system}.txt"
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    assert text.splitlines() == file.read_text("utf-8").splitlines()
