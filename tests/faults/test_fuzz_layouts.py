"""Every reader of every layout, over databases that nobody should have: it answers, in words, and it writes nothing.

Counts, pages of each place, single jobs, workers, findings, events and minutes are read as the screen and the command
line read them, and what was read is put into their rows, documents and metrics. Only errors of ours may come out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import fuzz_worlds
import fuzzing
import pytest
from fuzz_worlds import SUBJECTS
from planted_systems import SYSTEMS
from redis import Redis
from showing import show

from rqtui.cli import findings, snapshot
from rqtui.engine import history as stats
from rqtui.engine.engine import Engine, with_layouts
from rqtui.errors import RqtuiError
from rqtui.layout.layout import Layout
from rqtui.model import Focus, PageWish, Ref, Snapshot
from rqtui.reports import events
from rqtui.reports.prometheus import exposition
from rqtui.systems import registry
from rqtui.tui.format import copy_formats

QUEUES = {name: (name, "mail") for name in ("native", "bullmq")}
QUEUES |= {system.layout: (system.spec, system.queue) for system in SYSTEMS}


def opened(client: Redis, layout: str) -> tuple[Engine, Ref]:
    """An engine on that system, and the queue that the databases hold."""
    spec, queue = QUEUES[layout]
    return with_layouts(client, [registry.make(spec)]), Ref(layout, queue)


def look(engine: Engine, ref: Ref, source: random.Random, ids: list[bytes]) -> None:
    """One look as the screen takes it, at everything there is."""
    layout = engine.layouts[ref.layout]
    wishes = tuple(
        PageWish(
            ref, place.name, source.choice((0, 0, -1, 1, 7)), source.choice((1, 3, 50)), source.choice((0, 10, 4096))
        )
        for place in layout.places
    )
    asks = [ask for ask in (layout.workers_ask(ref.queue), layout.inspect_ask(ref.queue)) if ask and ask.calls]
    if events.has_events(layout):
        asks.append(events.feed_ask(layout, ref.queue, source.choice(("", "1-1", "0-0")), limit=5))
    if stats.has_stats(layout):
        asks.append(stats.history_ask(layout, ref.queue))
    try:
        found = engine.snapshot(Focus((ref,), wishes, (ref, source.choice(ids)), asks={"asked": tuple(asks)}))
    except RqtuiError:
        return
    use(found, layout, source)


def use(found: Snapshot, layout: Layout, source: random.Random) -> None:
    """What was read, as it is shown, printed, searched and exported."""
    for answer in found.answers["asked"]:
        assert not isinstance(answer, Exception) or isinstance(answer, RqtuiError), answer
        if isinstance(answer, events.Feed):
            sorted(event.order for event in answer.events)
        if isinstance(answer, stats.History):
            stats.per_minute([answer], found.taken_ms - 3_600_000, found.taken_ms)
    for queue in found.queues:
        json.dumps(snapshot.queue_document(queue))
        for finding in queue.findings:
            json.dumps(findings.document(finding, "words"))
    exposition(found, 0.1)
    jobs = [job for page in found.pages for job in page.jobs]
    for job in [*jobs[:6], *([found.job] if found.job else [])]:
        show(job, found.taken_ms)
    if jobs:
        job = source.choice(jobs)
        copy_formats.as_json([job], copy_formats.Source(layout, job.queue, "redis://localhost"))
        copy_formats.redis_cli([job], copy_formats.Source(layout, job.queue, "redis://localhost"))


def rounds(layout: str, client: Redis, cases: int) -> Iterator[tuple[int, random.Random, list[bytes]]]:
    """Databases planted one after the other, with ids to ask for."""
    found = fuzz_worlds.seeds(layout, client)
    known = fuzz_worlds.words(found)
    ids = [word for word in known if 0 < len(word) < 60]
    for number in range(cases):
        source = random.Random(f"{layout} {number}")
        world = fuzz_worlds.damage(source, source.choice(found).world, known)
        standing = [field for value in world.values() if isinstance(value, dict) for field in value if field] or ids
        fuzz_worlds.plant(client, world)
        failed = world.get("rqtui:{mail}:errors")
        some = list(failed) if isinstance(failed, dict) and source.random() < 0.4 else standing
        yield number, source, ids if source.random() < 0.1 else some


@fuzzing.forms(15)
@pytest.mark.parametrize("layout", SUBJECTS)
def test_whatever_the_keys_hold_every_reader_answers_and_writes_nothing(layout: str, cases: int, client: Redis) -> None:
    faults: dict[str, str] = {}
    with fuzzing.figures(f"readers of {layout}", cases) as seen:
        for number, source, ids in rounds(layout, client, cases):
            engine, ref = opened(client, layout)
            before = client.info("persistence")["rdb_changes_since_last_save"]
            try:
                look(engine, ref, source, ids)
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
