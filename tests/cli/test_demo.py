"""`rqtui demo` without a screen: on every server, as words and as JSON, and what it refuses."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from ptys import run_in_pty
from waiting import wait_until

from rqtui.cli.demo import _format_job_check, list_scenarios
from rqtui.cli.demo import run_scenario as demo
from rqtui.connection.embedded import start_server
from rqtui.errors import UsageError

FIELDS = {"scenario", "layout", "seed", "server", "elapsed_ms", "put", "done", "jobs_s", "lost", "queues", "findings"}
BRIEF = (
    "delays",
    "onboarding",
    "consumers",
    "latecomer",
    "rq",
    "celery",
    "sidekiq",
    "bullmq",
    "poison",
    "rush",
    "outage",
    "incident",
)  # `timeouts` plays to its end


@pytest.fixture(
    params=["auto", *(pytest.param(kind, marks=pytest.mark.matrix) for kind in ("system", "wheel", "fake"))]
)
def server(request: pytest.FixtureRequest) -> str:
    """Return the server that a demo chooses by itself, and each kind of server; skip those that are not installed."""
    kind = str(request.param)
    try:
        start_server(kind).stop()
    except UsageError as error:
        pytest.skip(str(error))
    return kind


@pytest.mark.parametrize("scenario", BRIEF)
def test_the_demo_plays_headless_on_every_server(
    server: str, scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds in (1.5, 15.0, 60.0):  # a machine that is busy with other tests may have no job done after the first
        assert demo(scenario, seed=3, server=server, headless=True, seconds=seconds, as_json=True) == 0
        out, err = capsys.readouterr()
        found = json.loads(out)
        if found["done"] and found["put"] >= 40:
            break
    assert set(found) >= FIELDS
    assert found["findings"] == []
    assert found["lost"] == 0
    assert found["put"] >= 40
    assert found["done"] >= 1
    assert found["server"]["url"] in err
    assert found["server"]["title"].split()[0] in err


def test_the_demo_describes_in_a_sentence_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo("poison", headless=True, seconds=1) == 0
    out, err = capsys.readouterr()
    assert "jobs put" in out
    assert "none lost" in out
    assert "orders" in out
    assert err.count("\n") == 2
    assert "redis-cli -u redis://127.0.0.1:" in err


def test_the_demo_reports_how_every_job_of_another_system_is_accounted_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(headless=True, seconds=3) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[-1].startswith("delays: ")
    put = int(out.split(" jobs put")[0])
    [line] = [line for line in out.splitlines() if line.startswith("check: ")]
    parts = [int(part.split()[0]) for part in line.removeprefix("check: ").partition(" put are ")[2].split(" + ")]
    assert sum(parts) == put
    assert "per second" in out
    assert "dispatched by rqtui" in out
    assert "jobs lost with them: this system has no leases" in out


@pytest.mark.matrix
@pytest.mark.timeout(200)
def test_timeouts_prints_items_per_second_and_ends_with_all_of_them_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo("timeouts", headless=True) == 0
    out, err = capsys.readouterr()
    assert "to its end" in err
    assert out.startswith("10 000 jobs put, 10 000 done in ")
    assert " per second" in out.splitlines()[0]
    assert "todos 0  in_progress 0  done 10000" in out


@pytest.mark.slow
def test_the_same_seed_prints_the_same_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for _ in range(2):
        demo("poison", seed=11, headless=True, seconds=1, as_json=True)
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["digest"] == found[1]["digest"]
    assert found[0]["put"] == found[1]["put"]


@pytest.mark.parametrize(
    "wrong",
    [{"scenario": "chaos"}, {"server": "cloud"}, {"seconds": 0.0}, {"seconds": float("nan")}, {"seed": -1}],
    ids=str,
)
def test_impossible_input_is_refused_in_a_sentence(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        demo(headless=True, **wrong)  # type: ignore[arg-type]


def test_without_a_terminal_the_screen_is_refused_before_a_server_starts() -> None:
    with pytest.raises(UsageError, match="--headless"):
        demo("delays")


def test_the_scenarios_are_listed_with_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_scenarios() == 0
    words = capsys.readouterr().out
    assert list_scenarios(as_json=True) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [story["scenario"] for story in listed] == [
        "incident",
        *BRIEF[:2],
        "timeouts",
        *(name for name in BRIEF[2:] if name != "incident"),
    ]
    assert all(story["scenario"] in words and story["try"] and story["watch"] for story in listed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["demo", "rush"], b""),
        pytest.param(["redis://127.0.0.1:1"], b"d", marks=pytest.mark.matrix),
        (["demo", "rush", "--headless"], b""),
    ],
    ids=["its screen", "the demo of a screen without Redis", "headless"],
)
def test_a_demo_that_is_killed_leaves_no_folder_behind(tmp_path: Path, words: list[str], key: bytes) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    with run_in_pty([sys.executable, "-m", "rqtui", *words], TMPDIR=str(folder), RQTUI_CONFIG=os.devnull) as terminal:

        def is_at_play() -> bool:
            terminal.read(0.1)
            return bool([*folder.glob("*/log")]) and ("--headless" in words or bool([*folder.glob("*/undo")]))

        if key:
            terminal.until(b"No answer")
            terminal.press(key)
        wait_until(is_at_play, 30, "it plays, and can be undone")
        assert words[0] != "demo" or b"rush: " in terminal.output
        terminal.process.kill()
        terminal.process.wait()
        wait_until(lambda: not [*folder.iterdir()], 30, "its folder is gone")


def test_the_number_of_lost_jobs_is_reported() -> None:
    found = {"findings": [], "lost": 2, "digest": "4f", "seed": 1, "server": {"title": "Redis 7"}}
    assert _format_job_check(found) == ["  LOST 2 jobs", "jobs 4f (seed 1) on Redis 7"]
