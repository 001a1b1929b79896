"""Fuzz every reader of every system on unexpected databases: it returns text and writes nothing.

Counts, pages of each place, single jobs, workers, findings, events and minutes are read as the screen and the command
line read them, and are put into rows, documents and metrics. Only errors of rqtui may be raised.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import fuzz_databases
import fuzzing
import pytest
from fuzz_databases import SUBJECTS
from job_formats import check_job_formats
from planted_systems import SYSTEMS
from redis import Redis

from rqtui.cli import findings, snapshot
from rqtui.engine import history as stats
from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import RqtuiError
from rqtui.model import Focus, PageSelection, Ref, Snapshot
from rqtui.reports import events
from rqtui.reports.prometheus import format_exposition
from rqtui.system_base.system import System
from rqtui.systems import registry
from rqtui.tui.format import copy_formats

QUEUES = {name: (name, "mail") for name in ("native", "bullmq")}
QUEUES["arq"] = ("arq", "arq:queue")
QUEUES |= {system.system: (system.spec, system.queue) for system in SYSTEMS}


def open_engine(client: Redis, system: str) -> tuple[Engine, Ref]:
    """Create an engine on a system, and return it with the queue of the databases."""
    spec, queue = QUEUES[system]
    return build_engine(client, [registry.create_system(spec)]), Ref(system, queue)


def read_everything(engine: Engine, ref: Ref, source: random.Random, ids: list[bytes]) -> None:
    """Read everything about a queue once, as the screen does."""
    system = engine.systems[ref.system]
    wishes = tuple(
        PageSelection(
            ref, place.name, source.choice((0, 0, -1, 1, 7)), source.choice((1, 3, 50)), source.choice((0, 10, 4096))
        )
        for place in system.places
    )
    asks = [ask for ask in (system.workers_request(ref.queue), system.probe_request(ref.queue)) if ask and ask.calls]
    if events.has_events(system):
        asks.append(events.feed_request(system, ref.queue, source.choice(("", "1-1", "0-0")), limit=5))
    if stats.has_minute_counters(system):
        asks.append(stats.build_history_request(system, ref.queue))
    try:
        found = engine.take_snapshot(Focus((ref,), wishes, (ref, source.choice(ids)), requests={"asked": tuple(asks)}))
    except RqtuiError:
        return
    use(found, system, source)


def use(found: Snapshot, system: System, source: random.Random) -> None:
    """Show, print, search and export what was read."""
    for answer in found.results["asked"]:
        assert not isinstance(answer, Exception) or isinstance(answer, RqtuiError), answer
        if isinstance(answer, events.Feed):
            sorted(event.order for event in answer.events)
        if isinstance(answer, stats.History):
            stats.compute_growth_per_minute([answer], found.taken_ms - 3_600_000, found.taken_ms)
    for queue in found.queues:
        json.dumps(snapshot.build_queue_document(queue))
        for finding in queue.findings:
            json.dumps(findings.build_finding_document(finding, "words", system.name, found.taken_ms))
    format_exposition(found, 0.1)
    jobs = [job for page in found.pages for job in page.jobs]
    for job in [*jobs[:6], *([found.job] if found.job else [])]:
        check_job_formats(job, found.taken_ms)
    if jobs:
        job = source.choice(jobs)
        copy_formats.format_jobs_as_json([job], copy_formats.JobSource(system, job.queue, "redis://localhost"))
        copy_formats.format_redis_cli_lines([job], copy_formats.JobSource(system, job.queue, "redis://localhost"))


def rounds(system: str, client: Redis, cases: int) -> Iterator[tuple[int, random.Random, list[bytes]]]:
    """Yield databases planted one after the other, with ids to request."""
    found = fuzz_databases.build_seeds(system, client)
    words = fuzz_databases.collect_words(found)
    ids = [word for word in words if 0 < len(word) < 60]
    for number in range(cases):
        source = random.Random(f"{system} {number}")
        database = fuzz_databases.damage_database(source, source.choice(found).database, words)
        standing = [field for value in database.values() if isinstance(value, dict) for field in value if field] or ids
        fuzz_databases.replace_database(client, database)
        failed = database.get("rqtui:{mail}:errors")
        some = list(failed) if isinstance(failed, dict) and source.random() < 0.4 else standing
        yield number, source, ids if source.random() < 0.1 else some


@fuzzing.parametrize_cases(15)
@pytest.mark.parametrize("system", SUBJECTS)
def test_every_reader_replies_and_writes_nothing_with_any_content_of_the_keys(
    system: str, cases: int, client: Redis
) -> None:
    faults: dict[str, str] = {}
    with fuzzing.print_figures(f"readers of {system}", cases) as seen:
        for number, source, ids in rounds(system, client, cases):
            engine, ref = open_engine(client, system)
            before = client.info("persistence")["rdb_changes_since_last_save"]
            try:
                read_everything(engine, ref, source, ids)
            except Exception as error:
                place = error.__traceback__
                while place is not None and place.tb_next is not None:
                    place = place.tb_next
                where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else ""
                faults.setdefault(
                    f"{type(error).__name__} {where}",
                    f"database {number}: {type(error).__name__}: {error!s:.200} at {where}",
                )
                seen["crashes"] += 1
            wrote = client.info("persistence")["rdb_changes_since_last_save"] - before
            if wrote:
                faults.setdefault("wrote", f"database {number}: it wrote {wrote} times")
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults.values())
