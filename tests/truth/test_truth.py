"""The truth suite: what rqtui reports of each situation in eleven systems, asked in three ways.

`verdicts.toml` has the verdict of each cell that is not right, with the reason; every other cell that applies is right.
A better verdict fails the test as a worse one does, until the file is changed.
`RQTUI_WRITE_SNAPSHOTS=1 pytest -n 0 -m "" tests/truth` rewrites the file; review the difference as code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from slow_cases import mark_slow_cases
from truth import verdicts
from truth.simulated_clock import SimulatedClock
from truth.situations import SILENCE_S, SITUATIONS
from truth.ways import WAYS, create_world, watch
from truth.worlds import WORLDS, DoesNotApply


@pytest.fixture
def clock(client: Redis) -> Iterator[SimulatedClock]:
    clock = SimulatedClock(client)
    with pytest.MonkeyPatch.context() as patch:
        clock.install(patch)
        yield clock


@pytest.mark.parametrize("system", mark_slow_cases(WORLDS, [name for name in WORLDS if name != "native"]))
def test_the_verdicts_of_all_situations_match_the_committed_file(
    system: str, client: Redis, url: str, clock: SimulatedClock
) -> None:
    found: verdicts.Verdicts = {}
    for situation in SITUATIONS:
        world = create_world(WORLDS[system], client, clock, f"{url.partition('?')[0].rstrip('/').removesuffix('/0')}/0")
        try:
            actual = watch(world, situation)
        except DoesNotApply as reason:
            found[situation.id] = {"does_not_apply": str(reason)}
            continue
        wrong = {way: actual[way] for way in WAYS if actual[way].word != "right"}
        if wrong:
            found[situation.id] = {way: verdict.word for way, verdict in wrong.items()}
            found[situation.id]["reported"] = next(iter(wrong.values())).reason
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        verdicts.write(system, found)
    expected = verdicts.load()[system]
    words = {id: {way: word for way, word in cell.items() if way != "reported"} for id, cell in found.items()}
    reported = {id: cell.get("reported") for id, cell in found.items()}
    assert words == {id: verdicts.keep_words(cell) for id, cell in expected.items()}, reported


def test_each_cell_that_is_not_right_has_a_sentence() -> None:
    cells = [(system, id, cell) for system, cells in verdicts.load().items() for id, cell in cells.items()]
    sentences = {(system, id): cell.get("does_not_apply") or cell.get("why", "") for system, id, cell in cells}
    assert not [where for where, sentence in sentences.items() if not sentence or sentence.startswith("TODO")]


def test_the_file_names_the_situations_as_the_suite_does() -> None:
    assert verdicts.load_titles() == {each.id: each.title for each in SITUATIONS}


def test_the_docs_name_the_time_after_which_a_lost_worker_must_be_reported() -> None:
    text = (Path(__file__).parents[2] / "docs" / "health.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (\w+) \| (\d+) s \| ", text.partition("### How soon a lost worker is reported")[2], re.MULTILINE
    )
    assert {system: int(seconds) for system, seconds in rows} == SILENCE_S
