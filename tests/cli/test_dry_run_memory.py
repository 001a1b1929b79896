"""`act --dry-run` over a large place: the memory does not grow with the jobs, and the answers are all there."""

from __future__ import annotations

import tracemalloc

import pytest
from redis import Redis
from shell import shell

from rqtui.client import Queue

JOBS = 12_000
MOST_BYTES = 4_000_000  # the jobs themselves take 8 MB


@pytest.mark.slow
def test_a_dry_run_over_a_large_place_keeps_no_job_in_memory(client: Redis, url: str) -> None:
    with Queue("big", url) as queue:
        queue.put_many([b"body"] * JOBS)
    shell(url, "act", "delete", "big", "--place", "ready", "--all", "--dry-run", "--limit", "1")  # imports
    tracemalloc.start()
    try:
        ran = shell(url, "act", "delete", "big", "--place", "ready", "--all", "--dry-run")
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ran.code == 0 and f"delete: {JOBS} would" in ran.err
    assert peak < MOST_BYTES


def test_a_dry_run_as_json_has_an_answer_for_each_job(client: Redis, url: str) -> None:
    with Queue("big", url) as queue:
        ids = {put.id for put in queue.put_many([b"body"] * 1_234)}
    ran = shell(url, "act", "delete", "big", "--place", "ready", "--all", "--dry-run", "--json")
    assert ran.code == 0 and ran.json["dry_run"] is True and ran.json["plan"]["total"] == 1_234
    assert {row["id"] for row in ran.json["results"]} == ids and len(ran.json["results"]) == 1_234
    none = shell(url, "act", "delete", "big", "--place", "dead", "--all", "--dry-run", "--json")
    assert none.json["results"] == [] and none.json["plan"]["total"] == 0
    few = shell(url, "act", "delete", "big", "--place", "ready", "--all", "--dry-run", "--json", "--limit", "501")
    assert len(few.json["results"]) == 501
