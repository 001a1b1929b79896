"""Stats: minutes from cumulative counters, depth counted back, and `rqtui stats`; and the plots made of them."""

from __future__ import annotations

import pytest
from families import run_in_one_test
from native_jobs import NOW, enqueue_ids, reserve_one, run_script
from redis import Redis
from shell import shell

from rqtui.client.queue import Queue
from rqtui.engine import history as stats
from rqtui.engine.engine import build_engine
from rqtui.engine.history import History
from rqtui.model import Ref
from rqtui.systems import registry
from rqtui.tui.widgets import plot

MINUTE = 60_000
MAIL = Ref("native", "mail")
START = NOW - NOW % MINUTE


def history(client: Redis, minutes: int = stats.MAX_MINUTES) -> History:
    engine = build_engine(client, [registry.create_system("native")])
    return engine.send_request(stats.build_history_request(engine.systems["native"], "mail", minutes))


def test_minutes_are_differences_and_gaps_are_zero(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", now_ms=START)
    enqueue_ids(any_client, b"c", now_ms=START + MINUTE)
    run_script(any_client, "ack", [reserve_one(any_client, START + 3 * MINUTE)], now_ms=START + 3 * MINUTE)
    found = stats.compute_growth_per_minute([history(any_client)], START - MINUTE, START + 4 * MINUTE)
    assert [minute - START for minute, _grown in found] == [n * MINUTE for n in range(-1, 4)]
    assert [stats.sum_flow_counters(grown, "in") for _minute, grown in found] == [0, 2, 1, 0, 0]
    assert [stats.sum_flow_counters(grown, "out") for _minute, grown in found] == [0, 0, 0, 0, 1]
    assert set(found[4][1]) == stats.list_counter_names(registry.create_system("native")), "settings are no counters"


def test_the_counters_are_those_that_the_scripts_add_to() -> None:
    names = """enqueued reserved pulled acked rejected released expired dead dispatched promoted rescheduled
    reprioritised requeued killed deleted restored reverted purged forgotten cancelled repaired unnoted"""
    native = registry.create_system("native")
    assert stats.list_counter_names(native) >= set(names.split())
    assert not stats.list_counter_names(native) & {arg.name for arg in native.script("configure").args}, (
        "settings are no counters"
    )
    assert not stats.list_counter_names(registry.create_system("dispatcher"))


def test_several_queues_are_added_up() -> None:
    one = History(MAIL, {"enqueued": 5}, {START: {"enqueued": 1}})
    other = History(Ref("native", "images"), {"enqueued": 3}, {})
    assert (
        stats.sum_flow_counters(stats.compute_growth_per_minute([one, other], START, START + MINUTE)[0][1], "in") == 4
    )


def test_a_purge_that_takes_the_counters_away_makes_no_negative_minute() -> None:
    shrunk = History(MAIL, {"enqueued": 2}, {START: {"enqueued": 100}})
    assert stats.sum_flow_counters(stats.compute_growth_per_minute([shrunk], START, START + MINUTE)[0][1], "in") == 0


def test_depth_is_counted_back_from_now() -> None:
    minutes = [
        (START, {"enqueued": 5}),
        (START + MINUTE, {"acked": 2, "dead": 1}),
        (START + 2 * MINUTE, {"requeued": 1}),
    ]
    assert stats.compute_unfinished_per_minute(minutes, 10) == [
        (START, 7),
        (START + MINUTE, 12),
        (START + 2 * MINUTE, 9),
    ]
    assert stats.compute_unfinished_per_minute([(START, {"enqueued": 5})], 2) == [(START, 0)], "never below zero"


def test_a_later_poll_adds_its_minutes() -> None:
    old = History(MAIL, {"acked": 1}, {START: {"acked": 0}})
    new = History(MAIL, {"acked": 9}, {START + MINUTE: {"acked": 4}})
    assert old.merge(new) == History(MAIL, {"acked": 9}, {START: {"acked": 0}, START + MINUTE: {"acked": 4}})


def test_stats_show_minutes_totals_and_rates(client: Redis, url: str) -> None:
    mail = Queue("mail", client)
    for n in range(4):
        mail.put(n)
    for job in mail.reserve(3, worker="w"):
        job.ack()
    (found,) = shell(url, "stats", "mail", "--minutes", "5", "--json").json
    assert (found["queue"], found["layout"], found["waiting"]) == ("mail", "native", 1)
    assert found["totals"]["enqueued"] == 4 and found["totals"]["acked"] == 3
    assert sum(row["in"] for row in found["minutes"]) == 4 and sum(row["out"] for row in found["minutes"]) == 3
    assert len(found["minutes"]) in (5, 6) and found["rates"]["in_s"] == pytest.approx(4 / 300)
    assert found["minutes"][0]["depth"] == 0
    assert "mail" in shell(url, "stats").out


def test_a_system_without_counters_reports_it(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a")
    (found,) = shell(url, "stats", "dispatcher:readytasklist", "--json").json
    assert (found["minutes"], found["totals"], found["waiting"]) == (None, None, 1)
    assert "counts nothing" in shell(url, "stats", "dispatcher:readytasklist").out


@pytest.mark.parametrize("minutes", ["0", "1441", "x"])
def test_minutes_that_cannot_be_are_refused(url: str, minutes: str) -> None:
    assert shell(url, "stats", "--minutes", minutes).code == 2


# -- plots ------------------------------------------------------------------------------------------------------------


def drawn(
    area: list[float | None], line: list[float | None], height: int, top: float, ascii_only: bool = False
) -> list[str]:
    return ["".join(text for text, _of in row) for row in plot.draw_plot(area, line, height, top, ascii_only)]


def test_points_that_fall_together_are_averaged_and_a_level_takes_the_last() -> None:
    points = [(0, 2.0), (5, 4.0), (10, 1.0), (20, None), (40, 3.0)]
    assert plot.resample_points(points, 0, 40, 4) == [3.0, 1.0, None, 3.0]
    assert plot.resample_points(points, 0, 40, 4, is_level=True) == [4.0, 1.0, None, 3.0]


def test_a_value_holds_until_the_next_one_also_from_before_the_beginning() -> None:
    assert plot.resample_points([(-50, 7.0), (25, 1.0)], 0, 40, 4) == [7.0, 7.0, 1.0, 1.0]
    assert plot.resample_points([], 0, 40, 2) == [None, None]


def test_an_area_is_filled_from_below() -> None:
    assert drawn([1, 2, 3, 4], [], 1, 4) == ["⣠⣾"]
    assert drawn([8, 8, 0, 0], [], 2, 8) == ["⣿ ", "⣿ "]
    assert drawn([0.001, None], [], 1, 8) == ["⡀"], "what is not zero is seen"


def test_a_line_above_the_area_is_marked_as_such() -> None:
    assert plot.draw_plot([4, 4], [8, 8], 2, 8) == [[("⠉", plot.LINE)], [("⣿", plot.AREA)]]


def test_ascii_plots_are_ascii() -> None:
    assert drawn([4, 2], [], 2, 4, True) == ["# ", "##"]
    assert "".join(drawn([1, 4], [3, 1], 2, 4, True)).isascii()


@run_in_one_test(("value", "top"), [(0, 1), (0.3, 0.5), (1, 1), (1.2, 2), (7, 10), (10, 10), (431, 500), (1100, 2000)])
def test_the_upper_edge_is_a_round_number(value: float, top: float) -> None:
    assert plot.round_axis_maximum(value) == pytest.approx(top)
