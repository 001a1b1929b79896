"""The overview: groups, sorts, the filter, the freeze, the header's words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from families import run_in_one_test
from redis import Redis
from screens import NARROW, WIDE, Screen, Seeded, read_text, run_on_event_loop, screen
from textual.events import AppBlur, AppFocus

from rqtui.client.queue import Queue as Client
from rqtui.config.settings import Settings
from rqtui.config.thresholds import Limit
from rqtui.errors import UsageError
from rqtui.model import Count, Finding, Queue, Rate, Ref, Snapshot, State, Verdict
from rqtui.text import formats
from rqtui.text.pieces import convert_cell_to_pieces
from rqtui.tui.app import Cockpit
from rqtui.tui.format import groups, queues
from rqtui.tui.format.groups import QueueGroup
from rqtui.tui.format.rows import LazyCells, Row
from rqtui.tui.screens.overview import Overview
from rqtui.tui.widgets.table import Table

pytestmark = pytest.mark.newest_textual

EU, US, IMAGES = (Ref("native", name) for name in ("mail:eu", "mail:us", "images"))


def patient(url: str) -> Settings:
    """Set thresholds under which an idle queue is no finding: after five seconds such queues would come first."""
    return Settings(url, limits=(("*", {"late": Limit(3_600_000)}),))


def find_snapshot(ui: Screen) -> Snapshot:
    """Return the newest snapshot of the app."""
    assert ui.app.session.snapshot is not None
    return ui.app.session.snapshot


def build_queue(name: str, **numbers: int) -> Queue:
    counts = tuple(Count(state.value, state, numbers.get(state.value, 0)) for state in State)
    return Queue(name, "native", counts, workers=1, counters={"in": 10, "out": 4})


# ── pure ─────────────────────────────────────────────────────────────────────────────────────────────────────


@run_in_one_test(
    ("name", "prefix"),
    [
        ("mail:eu", "mail:"),
        ("mail:eu:west", "mail:"),
        ("a.b", "a."),
        ("a/b", "a/"),
        ("mail", ""),
        ("mail:", ""),
        (":x", ""),
    ],
)
def test_a_prefix_ends_with_the_first_sign_that_separates(name: str, prefix: str) -> None:
    assert groups.find_name_prefix(name) == prefix


def refs(*names: str) -> list[Ref]:
    return [Ref("native", name) for name in names]


def test_groups_nest_and_leave_out_levels_that_all_share() -> None:
    queues_ = refs("acme.eu.mail.a", "acme.eu.mail.b", "acme.eu.web", "acme.us.mail", "solo")
    [acme, solo] = groups.group_queues(queues_)
    assert (acme.prefix, len(acme.refs), solo.prefix) == ("acme.", 4, "")
    [eu, us] = groups.group_queues(acme.refs, acme.prefix)
    assert (eu.prefix, len(eu.refs), us.prefix) == ("acme.eu.", 3, "")
    assert [each.prefix for each in groups.group_queues(eu.refs, eu.prefix)] == ["acme.eu.mail.", ""]
    assert groups.count_group_levels(queues_) == 3
    assert groups.collect_group_prefixes(queues_, "", 2) == {"acme.", "acme.eu."}
    assert [each.prefix for each in groups.group_queues(refs("a.b.c.1", "a.b.c.2", "x"))] == ["a.b.c.", ""]


def test_many_names_without_levels_are_grouped_by_their_words() -> None:
    many = refs(*(f"eu.{team}-worker-{n:02}" for team in ("billing", "mail") for n in range(12)))
    assert [each.prefix for each in groups.group_queues(many, "eu.")] == ["eu.billing-worker-", "eu.mail-worker-"]
    assert [each.prefix for each in groups.group_queues(refs("send-a", "send-b"))] == ["", ""]


def test_none_unknown_and_not_looked_yet_have_three_signs() -> None:
    shape = queues.OverviewShape()
    queue = Queue("x", "orizuru", build_queue("", ready=2).counts[:1], workers=None)
    row = queues.build_queue_row("x", "x", "orizuru", queue, Rate(), shape, None, 0)
    keys = [column.key for column in queues.build_overview_columns(shape)]

    def sign(row: Row, key: str) -> str:
        return "".join(piece.text for piece in convert_cell_to_pieces(row.cells[keys.index(key)]))

    assert sign(row, "dead") == sign(row, "workers") == sign(row, "rate") == formats.UNKNOWN
    counts = queues.build_queue_row("y", "y", "native", build_queue("y"), Rate(), shape, None, 0)
    assert (sign(counts, "dead"), sign(counts, "rate")) == ("0", "0/s")
    assert (
        sign(queues.build_queue_row("z", "z", "native", build_queue("z"), None, shape, None, 0), "rate")
        == formats.NOT_YET
    )
    assert sign(queues.build_queue_row("z", "z", "native", None, None, shape, None, 0), "dead") == formats.NOT_YET
    assert queues.format_legend([queues.find_row_signs(build_queue("y"))], is_complete=True) == ""
    assert queues.format_legend([queues.find_row_signs(queue)], is_complete=False) == (
        "? not stored by the system     … not counted yet"
    )


def test_a_queue_that_shares_its_prefix_with_none_is_a_group_of_its_own() -> None:
    queue_groups = groups.group_queues([EU, IMAGES, US, Ref("native", "web:a")])
    assert [(group.prefix, len(group.refs)) for group in queue_groups] == [("mail:", 2), ("", 1), ("", 1)]


def test_a_group_sums_its_queues_and_has_the_worst_verdict() -> None:
    group = QueueGroup("mail:", (EU, US))
    bad = Finding("paused", "warning", "mail:us", "paused")
    worse = Queue(
        "mail:us",
        "native",
        build_queue("", ready=4, dead=1).counts,
        workers=None,
        oldest_ready_ms=9_000,
        findings=(bad,),
        verdict=Verdict("warning", "paused: P resumes it", "paused"),
    )
    total = groups.sum_group_queues(group, [build_queue("mail:eu", ready=3), worse])
    assert total is not None
    assert (total.count_in_state(State.READY), total.count_in_state(State.DEAD)) == (7, 1)
    assert (total.workers, total.oldest_ready_ms) == (1, 9_000)
    assert total.verdict.text == "2 queues · us: paused: P resumes it"
    assert groups.sum_queue_rates([Rate(1, 2, 0, (1.0, 2.0)), Rate(3, 4, 0, (5.0,))]) == Rate(4, 6, 0, (1.0, 7.0))
    quiet = Rate(0, 0, 0, (0.0, 0.0, 0.0))
    assert groups.sum_queue_rates([Rate(1, 2, 0, (1.0, 2.0)), quiet]).history == (0.0, 1.0, 2.0), (
        "as long as the longest"
    )
    assert groups.sum_queue_rates([quiet, Rate()]).history == quiet.history and groups.sum_queue_rates([]) == Rate()


def test_a_sum_of_queues_that_were_not_all_counted_is_not_exact() -> None:
    total = groups.sum_group_queues(QueueGroup("mail:", (EU, US)), [build_queue("mail:eu", ready=3)])
    assert total is not None
    assert not any(count.is_exact for count in total.counts)
    assert groups.sum_group_queues(QueueGroup("mail:", (EU, US)), []) is None


@run_in_one_test("width", [30, 44])
@run_in_one_test("numbers", [(1, 1, 1, 1, 1), (0, 5, 0, 0, 1_000_000), (12_431, 0, 64, 9_912, 3), (0, 0, 7, 0, 0)])
def test_a_bar_contains_every_count_and_has_the_requested_width(width: int, numbers: tuple[int, ...]) -> None:
    parts = queues.build_state_bar(list(zip(State, numbers, strict=True)), width)
    assert sum(len(text) for _state, text in parts) == width
    assert [state for state, _text in parts] == [state for state, n in zip(State, numbers, strict=True) if n]
    assert all(text.split()[0][0].isdigit() and text.endswith(" ") for _state, text in parts)


def test_an_empty_queue_has_an_empty_bar() -> None:
    assert queues.build_state_bar([(state, 0) for state in State], 30) == []


def test_the_system_has_a_column_only_where_there_are_several() -> None:
    one, two = (
        queues.choose_overview_shape(160, [EU, US], frozenset(), 0, 0),
        queues.choose_overview_shape(160, [EU, Ref("orizuru", "jobs")], frozenset(), 0, 0),
    )
    titles = [[column.key for column in queues.build_overview_columns(shape)] for shape in (one, two)]
    assert ["layout" in keys for keys in titles] == [False, True]
    for shape, keys in zip((one, two), titles, strict=True):
        assert len(queues.build_queue_row("id", "x", "native", build_queue("x"), None, shape, None, 0).cells) == len(
            keys
        )
        assert len(queues.build_queue_row("id", "x", "native", None, None, shape, None, 0).cells) == len(keys)


def test_a_long_verdict_gets_the_cells_of_share_and_trend() -> None:
    long = Finding(
        "dead-many", "warning", "eu", "5 000 jobs are dead, all of them in the last 24 h, mostly CardDeclined"
    )
    verdict = Verdict("warning", long.text)
    cells = queues.measure_longest_verdict([Queue("eu", "native", findings=(long,), verdict=verdict)])
    assert cells == queues.LONG_VERDICT_CELLS
    assert queues.measure_longest_verdict([Queue("us", "native", verdict=Verdict(text="x" * 99))]) == 0, "no finding"
    columns = queues.build_overview_columns(queues.choose_overview_shape(160, [EU, US], frozenset(), 0, cells))
    assert columns[-1].width == cells
    rest = sorted(columns, key=lambda column: -column.drop)[:2]
    assert [column.key for column in rest] == ["share", "spark"], "these are left out first"


@run_in_one_test(
    ("sort", "first"),
    [("name", "a"), ("ready", "b"), ("dead", "c"), ("oldest", "d"), ("out", "e"), ("worst first", "f")],
)
def test_every_sort_puts_another_queue_first(sort: str, first: str) -> None:
    values = {name: build_queue(name, ready=name == "b", dead=name == "c") for name in "abcdef"}
    values["d"] = Queue("d", "native", oldest_ready_ms=5)
    values["f"] = Queue("f", "native", findings=(Finding("failing", "critical", "f", "bad"),))
    rates = {"e": Rate(out_s=3.0)}
    order = sorted(values, key=lambda name: queues.compute_queue_sort_key(sort, name, values[name], rates.get(name)))
    assert order[0] == first


def test_added_and_removed_jobs_are_computed_from_counters_else_from_counts() -> None:
    before, now = build_queue("mail"), build_queue("mail", ready=3)
    assert queues.compute_changes(before, now) == (0, 0)
    assert queues.compute_changes(before, Queue("mail", "native", counters={"in": 322, "out": 294})) == (312, 290)
    assert queues.compute_changes(Queue("x", "orizuru"), Queue("x", "orizuru", now.counts)) == (3, 0)


# ── on the screen ────────────────────────────────────────────────────────────────────────────────────────────


def rows(ui: Screen) -> list[str]:
    """Return the first words of the table's lines."""
    table = ui.text().partition("╰")[0]
    lines = [line.strip("│▌ ◆×") for line in table.splitlines() if line.startswith("│")]
    return [line.split("  ")[0].strip() for line in lines if line.strip()][1:]


def seed(client: Redis) -> None:
    for name, number in (("mail:eu", 3), ("mail:us", 4), ("images", 2)):
        Seeded(client, name).put(*[f"{name}-{n}" for n in range(number)])


@run_on_event_loop
async def test_groups_fold_unfold_and_keep_the_cursor(url: str, client: Redis) -> None:
    seed(client)
    async with screen(patient(url)) as ui:
        await ui.until_shown("mail:eu")
        await ui.press("j")
        await ui.press("quotation_mark")
        await ui.until(lambda: rows(ui) == ["images", "▸ mail:"], "two rows")
        view = ui.app.navigation.view
        assert isinstance(view, Overview)
        assert view.list_scope_queues() == (EU, US)  # the cursor went to the group of its queue
        assert view.build_target().ref is None
        await ui.press("enter")
        await ui.until(lambda: rows(ui) == ["images", "▾ mail:", "mail:eu", "mail:us"], "an unfolded group")
        assert view.list_scope_queues() == (EU, US)
        await ui.press("j", "quotation_mark")
        await ui.until(lambda: rows(ui) == ["images", "mail:eu", "mail:us"], "no groups")
        assert view.list_scope_queues() == (EU,)


@pytest.mark.slow
@run_on_event_loop
async def test_long_names_lose_what_all_begin_with_and_groups_nest(url: str, client: Redis) -> None:
    names = [f"acme.production.{zone}.mail-worker-{n}" for zone in ("eu-west-1", "us-east-1") for n in (7, 8)]
    for name in names:
        Seeded(client, name).put("a1")
    async with screen(url, (120, 30)) as ui:
        await ui.until_shown("acme.production. is left out of the names")
        await ui.press("s")  # by name
        await ui.until(lambda: rows(ui)[:2] == ["eu-west-1.mail-worker-7", "eu-west-1.mail-worker-8"], "the rest")
        await ui.until_shown(f"─  {names[0]}")  # the whole name of the row under the cursor
        await ui.press("quotation_mark")
        await ui.until(lambda: rows(ui)[:2] == ["▸ eu-west-1.", "▸ us-east-1."], "two groups")
        await ui.press("enter")
        await ui.until(lambda: rows(ui)[:3] == ["▾ eu-west-1.", "mail-worker-7", "mail-worker-8"], "its queues")
        await ui.press("j", "enter")
        await ui.until_shown("mail-worker-7   scheduled")


@run_on_event_loop
async def test_the_sum_of_a_group_is_in_its_row(url: str, client: Redis) -> None:
    seed(client)
    async with screen(url, WIDE) as ui:
        await ui.press("quotation_mark")
        await ui.until(lambda: any("mail:" in line and " 7 " in line for line in ui.text().splitlines()), "3 + 4")


@pytest.mark.slow
@run_on_event_loop
async def test_the_filter_works_while_it_is_typed_and_escape_ends_it(url: str, client: Redis) -> None:
    seed(client)
    async with screen(url) as ui:
        await ui.until_shown("mail:us")
        await ui.press("slash", '"us')
        await ui.until(lambda: rows(ui) == ["mail:us"], "one row while typing")
        await ui.press("enter")
        await ui.until_shown("/us", "1 of 3 queues")
        await ui.press("slash", "escape")
        await ui.until(lambda: len(rows(ui)) == 3, "all rows again")
        assert "of 3" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_the_filter_takes_what_is_not_and_searches_jobs_for_their_fields(url: str, client: Redis) -> None:
    seed(client)
    async with screen(url) as ui:
        await ui.press("slash", '"!mail', "enter")
        await ui.until(lambda: rows(ui) == ["images"], "all but mail")
        await ui.press("slash", "escape", "slash", '"id:4', "enter")
        await ui.until_shown("matching jobs of all queues", "/id:4")


def test_a_field_is_no_filter_of_queues() -> None:
    with pytest.raises(UsageError, match="name, system and verdict"):
        Overview().apply_filter("err:timeout")


@pytest.mark.slow
@run_on_event_loop
async def test_frozen_rows_stay_while_the_counters_run(url: str, client: Redis) -> None:
    seed(client)
    async with screen(url, WIDE) as ui:
        await ui.press("s", "s")  # by name, by ready
        await ui.until(lambda: rows(ui)[:3] == ["mail:us", "mail:eu", "images"], "by ready")
        await ui.press("p")
        Seeded(client, "images").put(*[f"more-{n}" for n in range(30)])
        await ui.until_shown("+30 −0", "frozen: p continues")
        await ui.until(lambda: any("images" in line and " 32 " in line for line in ui.text().splitlines()), "32")
        assert rows(ui)[:3] == ["mail:us", "mail:eu", "images"]
        await ui.press("p")
        await ui.until(lambda: rows(ui)[:3] == ["images", "mail:us", "mail:eu"], "in order again")
        assert "+30" not in ui.text()


@run_on_event_loop
async def test_a_guarded_profile_has_its_badge_and_its_frame(url: str, client: Redis) -> None:
    seed(client)
    settings = Settings(url, badge="PROD", profile="jobs-eu", is_guarded=True)
    app = Cockpit(settings, interval_s=0.25)
    async with app.run_test(size=NARROW) as pilot:
        ui = Screen(app, pilot)
        await ui.until_shown("PROD", "jobs-eu", "mail:eu")
        table = app.screen.query_one("#queues")
        red = app.get_css_variables()["state-dead"]
        assert table.styles.border_top[1].hex.lower() == red.lower()


@run_on_event_loop
async def test_an_unseen_terminal_is_refreshed_rarely_and_at_once_when_it_is_seen_again(
    url: str, client: Redis
) -> None:
    seed(client)
    async with screen(url, WIDE, interval_s=60) as ui:
        await ui.until_shown("commands in")
        ui.app.post_message(AppBlur())
        await ui.until_shown("300 s, resting")
        await ui.until(lambda: ui.app.session.ticker.wait_s >= 300, "the next picture is far away")
        ui.app.post_message(AppFocus())
        await ui.until_refreshed()
        await ui.until(lambda: "resting" not in ui.text(), "no rest")


@pytest.mark.slow
@run_on_event_loop
async def test_a_thousand_queues_are_one_round_trip_and_all_get_counted(url: str, client: Redis) -> None:
    pipe = client.pipeline()
    for number in range(1000):
        pipe.hset(f"rqtui:{{q{number:04}}}:meta", mapping={"version": 1, "in": 1})
        pipe.sadd("rqtui:queues", f"q{number:04}")
    pipe.execute()
    async with screen(url) as ui:
        await ui.until_shown("1 000 queues")
        # The first snapshots have all queues, until the overview has named the visible ones.
        await ui.until(lambda: len(find_snapshot(ui).queues) <= 140, "a picture of those in sight and some others")
        assert find_snapshot(ui).cost.round_trips == 1
        await ui.press("G")
        await ui.until_shown("q0999")
        await ui.until(lambda: "not counted" not in read_text(ui.app), "those in sight are counted")


@pytest.mark.slow
@run_on_event_loop
async def test_among_many_queues_a_counted_one_moves_and_rows_out_of_sight_show_the_cached_counts(
    url: str, client: Redis
) -> None:
    names = [f"q{number:03}" for number in range(300)]
    for name in names:
        Client(name, client).put("x")
    async with screen(patient(url)) as ui:
        await ui.until_shown("300 queues")
        overview = ui.app.navigation.view
        assert isinstance(overview, Overview)
        table = overview.query_one("#queues", Table)
        await ui.until(lambda: len(find_snapshot(ui).queues) <= 140, "a picture of those in sight and some others")
        ids = [str(row.id) for row in table.rows]
        assert ids == [f"native:{name}" for name in names]
        seen = table.visible_range[1]
        out_of_sight = [row.cells for row in table.rows[seen + 1 :]]
        assert all(isinstance(cells, LazyCells) for cells in out_of_sight), "nobody has looked at them"
        Client("q250", client).pause()
        await ui.until(lambda: str(table.rows[0].id) == "native:q250", "what is paused stands first")
        assert [str(row.id) for row in table.rows[1:]] == [id for id in ids if id != "native:q250"]
        Client("q299", client).put_many(["x"] * 41)
        await ui.until(
            lambda: overview._counted_queues[Ref("native", "q299")].count_in_place("ready") == 42,
            "it is counted in its turn",
        )
        await ui.press("G")
        await ui.until(lambda: any("q299" in line and "42" in line for line in read_text(ui.app).splitlines()), "42")
        Client("q250", client).resume()
        await ui.until(lambda: [str(row.id) for row in table.rows] == ids, "all are where they were")


@run_on_event_loop
async def test_a_server_that_is_nearly_full_is_reported_above_the_queues(
    client: Redis, url: str, settings: Callable[[str, str], None]
) -> None:
    Seeded(client).put("a")
    client.setrange("ballast", 30_000_000, "x")  # beside which the buffers of connections are small
    settings("maxmemory-policy", "noeviction")
    settings("maxmemory", str(int(client.info("memory")["used_memory"] * 1.06)))
    async with screen(url) as ui:
        await ui.until(lambda: "▲ Redis memory is 9" in ui.text().splitlines()[0], "the finding is in the header")
        assert "% full  i" in ui.text().splitlines()[0]
        settings("maxmemory", "0")
        ui.app.session.ticker._server_check_s = 0.0
        await ui.until(lambda: "▲ Redis memory" not in ui.text(), "the finding ended with its cause")


@pytest.mark.slow
@run_on_event_loop
async def test_the_command_in_a_verdict_is_whole_or_only_in_the_details(url: str, client: Redis) -> None:
    Seeded(client).put(*(f"job{number:02}" for number in range(20)))
    sentence, command = "no worker serves this queue, and 20 jobs are ready", "start a worker: rqtui work mail"

    def read_row(ui: Screen) -> str:
        return next((line for line in ui.text().split("\n") if line.startswith("│▌")), "")

    async with screen(url, (120, 45)) as ui:
        await ui.until_shown(sentence, command.removeprefix("start a worker: "))
        for width, is_shown in ((120, False), (160, False), (250, True)):
            await ui.pilot.resize_terminal(width, 45)
            await ui.until(lambda width=width: len(read_row(ui)) == width, "the row has the new width")
            row = read_row(ui)
            assert sentence in row and (command in row) is is_shown, row
            assert "…" not in row and (": start" in row) is is_shown, row
            assert "rqtui work mail -- COMMAND" in "".join(ui.text().split("\n")[10:])
