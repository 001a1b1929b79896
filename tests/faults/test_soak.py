"""Nothing grows: a rush of jobs for a long time, with a screen, workers and loops, and what each process held."""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import soak_verdict
from families import run_in_one_test
from redis import Redis
from screens import run_on_event_loop, screen
from soak_run import WORDS, Soak, run_soak
from textual.strip import Strip

from rqtui.client.queue import Queue

MB = soak_verdict.MB
LONG_S = float(os.environ.get("RQTUI_SOAK_S", "3600"))
# What a process may grow in the judged time and not be called leaking. Python takes memory from the system a megabyte
# at a time (pymalloc's arenas), and a heap that is used again and again settles late. The short run judges from the
# seventh second on, when the screen still imports and first draws most of its views: 10 MB, measured.
SHORT_RSS, LONG_RSS = {"*": 3 * MB, "screen": 32 * MB}, {"*": 3 * MB, "screen": 6 * MB}
# Redis keeps 2 000 finished jobs and 10 000 events here; whether a sample meets a burst or the calm after it is 1 MB.
SHORT_USED, LONG_USED = 8 * MB, 1 * MB
# A thread that asks while another one does takes a connection more, and keeps it: there are the loop, the heartbeat and
# in `rqtui work` a running job, beside the connection that waits.
CONNECTIONS = {"consumer": 3, "work": 4}
linux = pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")


def check_soak(found: Soak, rss_bytes: dict[str, float], used_bytes: float) -> None:
    """Check all requirements of a soak; the error message contains what went wrong."""
    assert soak_verdict.find_growth(found.samples, rss_bytes, used_bytes, CONNECTIONS) == []
    codes = {name: code for name, (_seconds, code) in found.ends.items()}
    assert codes == dict.fromkeys(codes, 0), f"{found.ends}: {found.words}"
    assert found.left == [], "children outlived a process that was asked to end"
    assert not [name for name, words in found.words.items() if "Traceback" in words], found.words
    assert found.acked > 0
    assert found.shown == WORDS, "the screen did not show all of its views"


def format_figures(found: Soak) -> str:
    """Format the figures of a soak as one line of JSON."""
    return json.dumps({**soak_verdict.summarise_soak(found.samples), "acked": found.acked, "ends_s": found.ends})


@linux
@pytest.mark.matrix
def test_half_a_minute_of_rush_leaves_nothing_behind(tmp_path: Path) -> None:
    found = run_soak(22, every_s=1.0, key_s=0.5, log=tmp_path / "soak.jsonl")
    print(format_figures(found))
    check_soak(found, SHORT_RSS, SHORT_USED)


@linux
@pytest.mark.long
@pytest.mark.timeout(0)
def test_an_hour_of_rush_leaves_nothing_behind(tmp_path: Path) -> None:
    found = run_soak(
        LONG_S, every_s=10.0, key_s=5.0, log=Path(os.environ.get("RQTUI_SOAK_LOG", tmp_path / "soak.jsonl"))
    )
    print(format_figures(found), flush=True)
    check_soak(found, LONG_RSS, LONG_USED)


# ── the judge ────────────────────────────────────────────────────────────────────────────────────────────────


def series(length: int = 60, **each: Any) -> list[dict[str, Any]]:
    """Build samples of one process, ten seconds apart, with values computed from the sample's number."""

    def value(name: str, number: int, usual: Any) -> Any:
        setting = each.get(name, usual)
        return setting(number) if callable(setting) else setting

    return [
        {
            "t_s": 10.0 * number,
            "used_bytes": value("used_bytes", number, 5 * MB),
            "members": {
                "work": {
                    "rss_bytes": value("rss_bytes", number, 40 * MB),
                    "threads": value("threads", number, 3),
                    "fds": value("fds", number, 12),
                    "connections": value("connections", number, 2),
                    "cpu_s": number / 10,
                    "zombies": value("zombies", number, []),
                }
            },
        }
        for number in range(length)
    ]


def noise(number: int) -> int:
    """Something that goes up and down, and nowhere."""
    return (number * 7919) % 13


def find_growth(samples: list[dict[str, Any]]) -> list[str]:
    return soak_verdict.find_growth(samples, {"*": 2 * MB}, 1 * MB)


def test_the_judge_passes_what_is_flat_however_it_trembles() -> None:
    assert find_growth(series()) == []
    assert (
        find_growth(
            series(
                rss_bytes=lambda n: 40 * MB + noise(n) * MB // 4,
                fds=lambda n: 12 + noise(n) % 4,
                threads=lambda n: 3 + n % 2,
                used_bytes=lambda n: 5 * MB + noise(n) * 50_000,
                zombies=lambda n: [n],  # another one each time: it was about to be waited for
            )
        )
        == []
    )


def test_the_judge_passes_what_grows_only_at_first() -> None:
    assert find_growth(series(rss_bytes=lambda n: (30 + min(n, 18)) * MB, threads=lambda n: 3 + min(n, 15))) == []


@run_in_one_test(
    ("leak", "words"),
    [
        ({"rss_bytes": lambda n: 40 * MB + n * 80_000 + noise(n) * MB // 4}, "memory grew by 3.46 MB"),
        ({"rss_bytes": lambda n: 40 * MB + (n // 10) * MB}, "memory grew"),
        ({"used_bytes": lambda n: 5 * MB + n * 40_000 + noise(n) * 10_000}, "used_memory grew by 1.51 MB"),
        ({"threads": lambda n: 3 + n // 20}, "threads grew"),
        ({"fds": lambda n: 12 + noise(n) % 4 + n // 8}, "fds grew"),
        ({"connections": lambda n: 2 + n // 15}, "connections grew"),
        ({"zombies": lambda n: [4711] if n > 50 else []}, "process 4711 stays a zombie"),
    ],
)
def test_the_judge_names_each_leak(leak: dict[str, Any], words: str) -> None:
    [fault] = find_growth(series(**leak))
    assert words in fault


def test_the_judge_passes_a_connection_that_a_member_needs_and_no_more() -> None:
    later = series(connections=lambda n: 2 + (n > 40), fds=lambda n: 12 + (n > 40))
    assert soak_verdict.find_growth(later, {"*": MB}, MB, {"work": 3}) == []
    [fault] = soak_verdict.find_growth(later, {"*": MB}, MB, {"work": 2})
    assert "connections grew" in fault


def test_the_judge_misses_a_member_that_ended() -> None:
    samples = series()
    del samples[40]["members"]["work"]
    assert find_growth(samples) == ["work: it was missing in 1 of 40 samples"]


def test_no_verdict_is_given_from_a_few_attempts() -> None:
    assert find_growth(series(3)) == ["2 samples are too few to judge"]


def test_one_outlier_does_not_move_the_slope() -> None:
    points = [(float(n), 2.0 * n) for n in range(20)]
    points[7] = (7.0, 1e9)
    assert soak_verdict.compute_slope(points) == pytest.approx(2.0)


# ── the screen ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_a_page_that_was_closed_leaves_no_painted_line_behind(url: str, client: Redis) -> None:
    Queue("mail", url).put(1)

    def lines() -> int:
        gc.collect()
        return sum(isinstance(each, Strip) for each in gc.get_objects())

    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        held: list[int] = []
        for _visits in range(3):
            for _visit in range(3):
                await ui.press("question_mark", "escape")
            held.append(lines())
        # A page is 500 lines and pieces of lines; the last one may still be on its way out.
        await ui.until(lambda: lines() - min(held) < 300, f"no more lines than before, {held},")
