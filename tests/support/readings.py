"""Describe what rqtui reads of a queue: counts, pages, jobs, workers, schedules, kinds of jobs and findings.

`describe_readings` returns the whole text of what rqtui reads from a test database of the conformance suite, and a line
for each key or field of a job that is missing or damaged: the values which change what is read, and a hash of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any

from redis import Redis
from variations import build_damaged_databases, build_steady_redis

from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import RqtuiError
from rqtui.model import State
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Folder, Script
from rqtui.system_base.system import Request, System
from rqtui.systems import registry
from rqtui.testing import keyspace
from rqtui.testing.subject import PreparedScript, Subject
from rqtui.text.names import to_bytes

BODY_BYTES = 4096
LONGEST = 80
EMPTY_VALUES = (None, (), "", b"")


def describe_readings(subject: Subject, spec: str, queue: str, now_ms: int, client: Redis) -> str:
    """Describe what rqtui reads from each place of a system at a fixed time."""
    system = registry.create_system(spec)
    system.scripts = Folder(
        subject.name,
        {name: _build_script_with_fixed_clock(each, now_ms) for name, each in system.scripts.items()},
        system.scripts.path,
    )
    system.now_ms = lambda: now_ms  # type: ignore[method-assign]
    engine = build_engine(client, [system])
    return (
        "\n".join([*_describe_queue(subject, engine, system, queue), *_describe_places(subject, engine, system, queue)])
        + "\n"
    )


def _build_script_with_fixed_clock(script: Script, now_ms: int) -> Script:
    lines = script.source.splitlines(keepends=True)
    start = next(at for at, line in enumerate(lines) if not line.startswith("--"))
    shadow = "local redis = setmetatable({call = steady(redis.call), pcall = steady(redis.pcall)}, {__index = redis})\n"
    return scripts.parse_script(
        "".join([*lines[:start], build_steady_redis(now_ms // 1000), shadow, *lines[start:]]), script.path
    )


def _describe_queue(subject: Subject, engine: Engine, system: System, queue: str) -> Iterator[str]:
    builders: list[Callable[[], Request[Any] | None]] = [
        lambda: system.queue_request(queue),
        lambda: system.workers_request(queue),
        system.schedules_request,
        lambda: system.kinds_request(queue),
        lambda: system.probe_request(queue),
    ]
    reserved = next(
        (place.name for place in system.places if place.state is State.RESERVED and not place.is_from_events), ""
    )
    for place in dict.fromkeys((system.places[0].name, reserved)):
        yield from _describe_differences(
            f"the queue, with another job in {place}", subject, engine, place, lambda job: builders
        )


def _describe_places(subject: Subject, engine: Engine, system: System, queue: str) -> Iterator[str]:
    for place in subject.places:
        name = place

        def build_request_factories(job: bytes, name: str = name) -> list[Callable[[], Request[Any] | None]]:
            return [
                lambda: system.page_request(queue, name, 0, 10, BODY_BYTES),
                lambda: system.job_request(queue, job, BODY_BYTES),
            ]

        yield from _describe_differences(f"the place {place}", subject, engine, place, build_request_factories)


def _describe_differences(
    title: str,
    subject: Subject,
    engine: Engine,
    place: str,
    builders: Callable[[bytes], list[Callable[[], Request[Any] | None]]],
) -> Iterator[str]:
    client = engine.client
    script = next(name for name in ("page", "counts", "tally") if name in subject.scripts)
    prepared = PreparedScript.build(subject, client, script, place, 2)
    text_before, copies = (
        prepared.database.dump(),
        {name: other_lines for name, *other_lines in keyspace.dump_raw_values(client)},
    )
    job = prepared.targets[0].id
    builders_in_use = [build for build in builders(job) if build() is not None]
    base = engine.send_requests_isolated(builders_in_use)  # type: ignore[arg-type]
    yield f"== {title}"
    yield from _format_nested_value(base, "")
    keys = [to_bytes(subject.key(key.name)) for key in subject.scripts[script].keys]
    variations_found = build_damaged_databases(prepared, keys, [], text_before)
    for what, variations in groupby(variations_found, lambda each: each.subject):
        same, other_value, digest = [], [], sha256()
        for variation in variations:
            pipe: Any = client.pipeline(transaction=False)
            for edit in variation.edits:
                pipe.execute_command(*edit)
            pipe.execute()
            results = engine.send_requests_isolated(builders_in_use)  # type: ignore[arg-type]
            for name in {edit[1] for edit in variation.edits}:  # reading writes nothing, so only the edits are undone
                pipe.delete(name)
                if name in copies:
                    pipe.restore(name, *copies[name])
            pipe.execute()
            (same if results == base else other_value).append(variation.value)
            if results != base:
                digest.update("\n".join(_format_nested_value(results, "")).encode())
        if other_value:
            same_values = f"; the same ({' '.join(same)})" if same else ""
            yield f"{what}: other ({' '.join(other_value)}){same_values} #{digest.hexdigest()[:8]}"


def _format_nested_value(value: Any, indent: str) -> Iterator[str]:
    """Yield a line for each field of a value that is not its default, with nested fields below their name."""
    parts = _list_changed_fields(value)
    if isinstance(value, RqtuiError):
        yield f"{indent}{type(value).__name__}: {value}"
    elif parts is None:
        text = ascii(value)
        whole = sha256(text.encode()).hexdigest()[:8]
        yield indent + (text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}… #{whole}")
    else:
        for name, part in parts:
            below = [*_format_nested_value(part, f"{indent}  ")]
            if _list_changed_fields(part) is None and not isinstance(part, RqtuiError):
                yield f"{indent}{name} {below[0].strip()}"
            else:
                yield f"{indent}{name}"
                yield from below


def _list_changed_fields(value: Any) -> list[tuple[str, Any]] | None:
    """Return the names and values of an object's fields that are not their defaults; None for a plain value."""
    if is_dataclass(value):
        attributes = [(each.name, getattr(value, each.name), each.default) for each in fields(value)]
        return [(name, part) for name, part, default in attributes if part != default and part not in EMPTY_VALUES]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(name, part) for name, part in zip(value._fields, value, strict=True) if part not in EMPTY_VALUES]
    if isinstance(value, tuple | list):
        return [(f"- {type(part).__name__}", part) for part in value]
    if isinstance(value, set | frozenset):
        return [("-", part) for part in sorted(value, key=repr)]
    return [(str(name), part) for name, part in value.items()] if isinstance(value, Mapping) else None
