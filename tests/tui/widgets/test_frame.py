"""Test the lines above a screen, as pieces of text: what they say of a queue, and what a narrow line omits first."""

from __future__ import annotations

from textual.content import Content

from rqtui.model import Count, Queue, Rate, RecentActivity, State
from rqtui.tui.widgets import frame

QUEUE = Queue(
    "mail",
    "native",
    counts=tuple(Count(state.value, state, at * 111) for at, state in enumerate(State, 1)),
    counters={"in": 10, "out": 10},
    oldest_ready_ms=252_000,
    workers=3,
    next_due_ms=9_000,
)
RATE = Rate(
    in_s=2.0,
    out_s=14.0,
    failed_s=2.0,
    history=(14.0,) * 40,
    recent=RecentActivity(309_000, completed=630, failed=90),
    window_ms=67_000,
)


def format_frame(queue: Queue = QUEUE, rate: Rate = RATE, width: int = 78, system: str = "native") -> str:
    left, right = frame.format_board_line(queue, rate, width, system)
    assert left.cell_length + right.cell_length <= width
    return f"{left.plain}|{right.plain}"


def test_the_line_of_a_board_with_tabs_shows_what_its_tabs_do_not() -> None:
    words = format_frame(width=134)
    assert words.startswith(
        "mail  native   12 % fail (5 min)   oldest 4m12   drains in 18s   workers 3   next due in 9s|"
    )
    assert "in 2/s  out 14/s  (1 min)" in words and not any(str(count.count) in words for count in QUEUE.counts)
    late = format_frame(QUEUE._replace(overdue=7, next_due_ms=-5_000, expired=2, is_paused=True), width=118)
    assert "paused" in late and "7 due" in late and "2 leases over" in late and "next" not in late


def test_where_space_is_short_the_rates_and_the_most_pressing_stay() -> None:
    for width in range(24, 130):
        words = format_frame(QUEUE._replace(name="acme.production.mail"), width=width)
        assert "12 % fail (5 min)" in words or width < 43, words
        assert "out 14/s" in words, words


def test_the_totals_of_all_queues_name_the_time_of_their_rates_and_of_the_failing_share() -> None:
    assert frame.format_overview_totals(3, RATE).plain == (
        "3 queues   in 2/s   out 14/s (1 min)   12 % of attempts fail (5 min)"
    )
    few = RATE._replace(recent=RecentActivity(50_000, completed=999, failed=1), window_ms=50_000)
    assert frame.format_overview_totals(3, few, 1, is_short=True).plain == (
        "1 of 3 queues  in 2/s  out 14/s (<1 min)  <1 % fail (<1 min)"
    )
    for ended, long, short in (
        (1, "1 of 1 attempts failed", "1 of 1 fail"),
        (9, "1 of 9 attempts failed", "1 of 9 fail"),
        (10, "10 % of attempts fail", "10 % fail"),
    ):
        few = Rate(recent=RecentActivity(4_000, completed=ended - 1, failed=1), window_ms=4_000)
        assert frame.format_overview_totals(1, few).plain.endswith(f"   {long} (<1 min)"), "a small sample is no share"
        assert frame.format_overview_totals(1, few, is_short=True).plain.endswith(f"  {short} (<1 min)")
    assert frame.format_overview_totals(1, Rate()).plain == "1 queue   in 0/s   out 0/s", "no time is known yet"


def test_a_queue_without_further_facts_shows_its_name() -> None:
    quiet = Queue("mail", "native", counts=QUEUE.counts, workers=None)
    assert format_frame(quiet, Rate()) == "mail  native|"


def test_the_first_line_keeps_the_finding_about_the_server_and_the_mode_on_a_narrow_terminal() -> None:
    problem = Content.assemble(("▲ Redis memory is 94 % full  ", "$state-reserved"), frame.format_key_hint("i", ""))
    status = frame.Status(
        "redis://jobs-1.example.com:6379/0", "native · 3 queues", "3 queues", problem=problem, mode=Content("write")
    )
    for width in (58, 78, 118, 158):
        left, right = frame.format_status_line(status, {}, width)
        assert left.cell_length + right.cell_length < width
        assert right.plain.startswith("▲ Redis memory is 94 % full  i") and right.plain.endswith("write")
        assert ("3 queues" in left.plain) == (width > 58)
