"""`rqtui bench` in a tiny form prints every line; no test looks at how fast anything is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.own import bench, engine, runner
from benchmarks.own.line import Bench, Line
from rqtui.config.state_folder import STATE_VARIABLE
from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer
from rqtui.errors import UsageError

ENGINE = (
    "server CPU per lifecycle, one by one",
    "  against bare scripts, one by one",
    "server CPU per lifecycle, in batches of 50",
    "  against bare scripts, in batches of 50",
    "memory per waiting job",
    "put → running on an idle queue, median",
    "drain of no-op jobs, one process",
    "bulk put, 1000 per call",
    "put one by one, awaited, client CPU",
    "put, 100 awaited at once, client CPU",
    "bulk put, awaited, per job, client CPU",
    "drain of no-op jobs, awaited, per job, client CPU",
    "round trips per tick, 1 queue",
    "dramatiq",
    "BullMQ",
)


@pytest.mark.slow
def test_every_measurement_of_the_engine_prints_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("engine", scale=0.01) == 0
    out = capsys.readouterr().out
    for name in ENGINE:
        assert f"\n{name}" in out
    heading = out.splitlines()[0]
    assert "cores" in heading
    assert "Python" in heading
    assert "redis " in heading
    trips = [line.split()[8] for line in out.splitlines() if line.startswith("round trips per tick")]
    assert trips == ["1", "1"]


@pytest.mark.matrix
def test_the_same_as_json_with_machine_and_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("engine", as_json=True, scale=0.01) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"cpu", "cores", "python", "packages", "server"} <= set(found["machine"])
    names = [line["name"] for line in found["results"]]
    assert all(any(name.startswith(expected) for name in names) for expected in ENGINE)
    trips = [line["value"] for line in found["results"] if line["name"].startswith("round trips per tick")]
    assert trips == [1, 1]


@pytest.mark.matrix
def test_on_a_server_that_cannot_report_what_it_spent_everything_else_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bench("engine", as_json=True, server="fake", scale=0.005) == 0
    found = json.loads(capsys.readouterr().out)
    memory = next(line for line in found["results"] if line["name"].startswith("memory"))
    assert memory["value"] is None
    assert "not measured" in memory["note"]


def test_a_server_that_cannot_report_its_cpu_time_gets_a_line_about_that(fake_server: EmbeddedServer) -> None:
    with connect(fake_server.url) as client:
        on = Bench(fake_server, client, 0.001)
        lines = [*engine.measure_lifecycle_cpu(on), *engine.measure_memory_per_job(on)]
    assert len(lines) == 3
    assert all(line.value is None and "not measured" in line.note for line in lines)


def test_a_measurement_has_an_empty_state_folder_and_leaves_the_one_that_was_named(
    fake_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal.jsonl").write_text("{}\n")
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))

    def seen(_on: Bench) -> Iterator[Line]:
        folder = Path(os.environ[STATE_VARIABLE])
        yield Line("files", len([*folder.iterdir()]))
        (folder / "journal.jsonl").write_text("{}\n")

    monkeypatch.setattr(engine, "MEASURES", (seen, seen))
    with connect(fake_server.url) as client:
        found = [*runner.measure_lines("engine", Bench(fake_server, client, 0.001))]
    assert [line.value for line in found] == [0, 0]
    assert os.environ[STATE_VARIABLE] == str(tmp_path)


SCREEN = (
    "rqtui --version",
    "completion",
    "first paint of an empty Textual app",
    "the screen with a queue in which jobs are due in two days",
    "the screen with a queue of waiting jobs, whose age increases",
    "memory of the screen at rest",
    "50 queues at rest",
    "  memory after",
    "  to the terminal per refresh",
    "page change among 10000 jobs",
    "from a key to its paint, median",
    "from a key to its paint on a link of 200 ms",
    "the board of a busy queue",
)


@pytest.mark.matrix
def test_the_screen_is_measured_in_every_line_that_is_promised(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("screen", scale=0.01) == 0
    out = capsys.readouterr().out
    for name in SCREEN:
        [line] = [line for line in out.splitlines() if line.startswith(name)]
        assert "—" not in line, line


MEASURED_LOOPS = (
    "dispatcher: dispatch",
    "redisched: requeue",
    "timeout_sets: clean",
    "safe_pop: reap",
    "orizuru: reap",
)


@pytest.mark.slow
def test_every_loop_is_measured_beside_its_original_and_moves_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("layouts", as_json=True, scale=0.002) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"cpu", "cores", "python", "packages", "server"} <= set(found["machine"])
    lines = {line["name"]: line for line in found["results"]}
    for name in MEASURED_LOOPS:
        assert lines[f"{name}: rqtui"]["note"] == "200 jobs, 3 times"
        assert " of " not in lines[f"{name}: the original"]["note"].partition(",")[0]
        assert lines[f"{name}: the original"]["value"] > 0
    longest = [line for line in found["results"] if "longest call" in line["name"] and line["target"]]
    assert len(longest) == len(MEASURED_LOOPS) + 2, "counting and a page of safe_pop"
    assert all(line["met"] is not None for line in longest)
    assert any(line["name"].startswith("safe_pop: counting 2000 entries") for line in longest)


SYSTEMS = {"RQ": "rq info", "Sidekiq": "Sidekiq's API", "BullMQ": "getJobCounts()", "Celery": "Flower's API"}


@pytest.mark.slow
def test_a_poll_of_every_large_system_is_one_round_trip_and_is_timed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bench("scale", as_json=True, scale=0.002, beside=False) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    lines = {line["name"]: line for line in found}
    for system, tool in SYSTEMS.items():
        assert lines[f"{tool} over 30 queues"]["note"] == "not asked for, not measured"
        for tick in ("a tick of rqtui over 30 queues", "a tick with 2000 jobs in each place of one more"):
            assert lines[f"{system}: {tick}"]["note"].endswith("; 1 round trip")
        assert lines[f"{system}: counting 2000 jobs in each place, longest call"]["met"] is not None
    looks = [line for line in found if line["target"]]
    assert len([line for line in looks if line["name"] == "  a page of each place"]) == len(SYSTEMS)
    assert all(line["met"] is not None and line["note"] for line in looks)


@pytest.mark.beside
def test_the_tools_of_the_systems_count_the_same_queues(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("scale", as_json=True, scale=0.002) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    of_tools = [line for line in found if line["name"].endswith("30 queues") and "a tick of rqtui" not in line["name"]]
    assert len(of_tools) >= len(SYSTEMS)
    assert all("not measured" in line["note"] or "it counted" not in line["note"] for line in of_tools), of_tools


@pytest.mark.matrix
def test_without_a_slow_log_the_longest_call_reports_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("layouts", as_json=True, server="fake", scale=0.0002) == 0
    found = json.loads(capsys.readouterr().out)
    longest = [line for line in found["results"] if "longest call" in line["name"]]
    assert longest
    assert all(line["value"] is None and "no slow log" in line["note"] for line in longest)


@pytest.mark.matrix
def test_many_queues_and_keys_are_measured_in_every_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("many", as_json=True, scale=0.01, beside=False) == 0
    lines = json.loads(capsys.readouterr().out)["results"]
    assert len(lines) == 4 + (2 + 4) * 5
    assert all(line["value"] is not None for line in lines), lines
    assert all(line["note"] == "" or line["note"].endswith("commands") for line in lines)


def test_something_else_cannot_be_measured() -> None:
    with pytest.raises(UsageError, match="engine, screen, systems, scale, many"):
        bench("weather")


def test_a_figure_is_met_or_missed_in_the_direction_of_its_target() -> None:
    assert Line("", 1.4, target="≤ 1.5").is_met is True
    assert Line("", 1.6, target="≤ 1.5").is_met is False
    assert Line("", 70_000.0, target="≥ 60000").is_met is True
    assert Line("", None, target="≥ 60000").is_met is None
    assert Line("", 3.0).is_met is None
