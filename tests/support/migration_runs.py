"""Run the jobs of the native queue `new` after a migration with `rqtui work`, whose command fails each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from redis import Redis
from shell import shell, start_process
from waiting import wait_until

from rqtui import Queue
from rqtui.engine.engine import Engine
from rqtui.model import Ref
from rqtui.systems import registry

TARGET = Ref("native", "new")
_BODY, _HEX = "cat", "od -An -v -tx1 | tr -d ' \\n'"


def run_jobs_until_queue_is_empty(
    client: Redis, url: str, folder: Path, *, succeeds_at: int = 0, is_hex: bool = False
) -> list[str]:
    """Run all jobs of a migrated queue until the queue is empty, and return `ID BODY` of each run in order.

    Scheduled jobs are promoted. The command fails, except at the attempt `succeeds_at`. With `is_hex`, the bodies are
    written in hexadecimal digits.
    """
    log = folder / "runs"
    log.touch()
    note = f"{{ printf '%s ' \"$RQTUI_ID\"; {_HEX if is_hex else _BODY}; echo; }} >> {log}"
    command = f'{note}; [ "$RQTUI_ATTEMPT" -eq {succeeds_at} ]'
    native, queue = Engine(client, [registry.create_system("native")]), Queue(TARGET.queue, client)
    program = start_process(url, "work", str(TARGET), "--", "sh", "-c", command)

    def is_queue_empty() -> bool:
        assert program.poll() is None, program.communicate()
        # One script counts all places: a job that a dispatcher moves between two reads would be in neither.
        counts = queue.counts()
        if counts["ready"] or counts["reserved"]:
            return False
        # The page is empty if a dispatcher took the last job after the count, and promote refuses an empty list.
        if counts["scheduled"] and (jobs := native.fetch_page(TARGET, "scheduled", 0, 200).jobs):
            native.apply_verb("promote", TARGET, jobs, {})
        return not counts["scheduled"]

    try:
        wait_until(is_queue_empty, 120, "all jobs have run", every_s=0.02)
    finally:
        program.terminate()
        program.communicate(timeout=60)
    return log.read_text("latin-1").splitlines()


def list_jobs_by_first_run(runs: Sequence[str]) -> list[str]:
    """Return each job once, in the order of the jobs' first runs."""
    return list(dict.fromkeys(runs))


def migrate_and_run(client: Redis, url: str, source: str, folder: Path, ids: Callable[[], Sequence[str]]) -> list[str]:
    """Migrate a queue to the native system, run its jobs, and return the runs of the jobs `ids`."""
    expected = {*ids()}
    dry = shell(url, "migrate", source, str(TARGET), "--dry-run", "--json")
    real = shell(url, "migrate", source, str(TARGET), "--json")
    assert (dry.code, real.code) == (0, 0), (dry.err, real.err, real.out)
    assert sum(dry.json["would"].values()) == real.json["moved"]
    lines = run_jobs_until_queue_is_empty(client, url, folder)
    return [id for id in (line.partition(" ")[0] for line in lines) if id in expected]  # a body may hold line breaks
