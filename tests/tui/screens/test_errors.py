"""The view of errors: what it shows, and what the keys do there."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from planted_jobs import add_failed_jobs, add_held_jobs, add_worker
from redis import Redis
from screens import WIDE, run_on_event_loop, screen
from text_snapshots import check_snapshot, clock  # noqa: F401 (a fixture)

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import Queue
from rqtui.engine.engine import Engine
from rqtui.reports import errors
from rqtui.tui.screens import report_view
from rqtui.tui.screens.error_group import ErrorGroup
from rqtui.tui.screens.errors import Errors as ErrorsView


@pytest.mark.slow
@run_on_event_loop
async def test_a_group_is_run_again_in_all_its_queues(url: str, client: Redis) -> None:
    mail, images = Queue("mail", client), Queue("images", client)
    add_failed_jobs(mail, "TimeoutError: 1 s", "TimeoutError: 2 s", "KeyError: 'x'")
    add_failed_jobs(images, "TimeoutError: 3 s")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("e", "quotation_mark")
        await ui.until_shown("of all queues", "TimeoutError: # s", "KeyError")
        await ui.press("g", "R")
        await ui.until_shown("Requeue 3 jobs of 2 queues")
        await ui.press("y")
        await ui.until(lambda: client.zcard(build_queue_keys("mail")["dead"]) == 1, "those of mail")
        await ui.until(lambda: client.zcard(build_queue_keys("images")["dead"]) == 0, "and of images")
        assert client.zcard(build_queue_keys("mail")["ready"]) == 2
        await ui.until_shown("1 error ", "dead 1 ", "▌×")  # the row under the cursor stays until it leaves


@run_on_event_loop
async def test_the_keys_of_verbs_are_grey_while_the_first_report_is_built(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of a group may be a retrying job at first, which R would promote, and a dead one later."""
    can_finish = threading.Event()
    build_report = ErrorsView.build_report

    def build_report_slowly(view: ErrorsView, engine: Engine) -> Iterator[errors.Errors | None]:
        for report in build_report(view, engine):
            yield report
            while report is not None and not can_finish.wait(0.05):
                yield report

    monkeypatch.setattr(ErrorsView, "build_report", build_report_slowly)
    monkeypatch.setattr(report_view, "SHOW_PARTIAL_AFTER_S", 0.0)
    add_failed_jobs(Queue("mail", client), "TimeoutError: 1 s")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("TimeoutError")
        assert ui.app.check_verb("R") is None and ui.app.check_verb("D") is None
        can_finish.set()
        await ui.until(lambda: ui.app.check_verb("R"), "the end of the report")
        await ui.until_shown("R requeue", "D delete")


@pytest.mark.slow
@run_on_event_loop
async def test_members_beyond_the_sample_are_acted_on_too(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "MAX_PER_PLACE", 2)
    add_failed_jobs(Queue("mail", client), *[f"TimeoutError: {n} s" for n in range(6)])
    async with screen(url, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("2 of 6 jobs read", "TimeoutError: # s")
        await ui.press("R")
        await ui.until(lambda: ui.app.screen is not ui.app.navigation.view, "a question")
        await ui.press("y")
        await ui.until(lambda: client.zcard(build_queue_keys("mail")["dead"]) == 0, "all six")


@pytest.mark.slow
@run_on_event_loop
async def test_enter_shows_the_whole_error_and_the_jobs_and_enter_again_the_job(url: str, client: Redis) -> None:
    add_failed_jobs(Queue("mail", client), "TimeoutError: 1 s\n    at the\n    very end")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("TimeoutError: # s")
        await ui.press("enter")
        await ui.until_shown("very end", "dead", "1 that were read with this error")
        assert isinstance(ui.app.navigation.view, ErrorGroup)
        await ui.press("enter")
        await ui.until(lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "job", "the job")
        await ui.press("escape", "escape")
        await ui.until_shown("errors of mail")


@pytest.mark.slow
@run_on_event_loop
async def test_markup_in_data_is_shown_as_text(url: str, client: Redis) -> None:
    add_failed_jobs(Queue("mail", client), "\x1b]0;owned\x07[bold]x[/bold] \u202e", name="[red]\u202ekind")
    add_held_jobs(client, "w[/]\u202e", "id\x07")
    add_worker(client, "\x1b[31mbeats", 1)
    async with screen(url, WIDE, open_queue="mail") as ui:
        for key, words in (("e", "[bold]x[/bold]"), ("b", "[red]"), ("w", "w[/]")):
            await ui.press(key)
            await ui.until_shown(words)
            assert not {"\x1b", "\x07", "\u202e"} & set(ui.text())
        await ui.press("e")
        await ui.until_shown("[bold]x[/bold]")
        await ui.press("enter")
        await ui.until_shown("with this error")
        assert not {"\x1b", "\x07", "\u202e"} & set(ui.text())


@pytest.mark.slow
@run_on_event_loop
async def test_a_session_that_may_not_change_offers_no_verbs(url: str, client: Redis) -> None:
    add_failed_jobs(Queue("mail", client), "TimeoutError: 1 s")
    async with screen(url, read_only=True, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("TimeoutError: # s")
        await ui.press("R", "D")
        await ui.until_refreshed()
        assert ui.app.screen is ui.app.navigation.view
        assert client.zcard(build_queue_keys("mail")["dead"]) == 1


@pytest.mark.slow
@run_on_event_loop
async def test_esc_ends_the_search_for_members_before_anything_is_changed(url: str, client: Redis) -> None:
    add_failed_jobs(Queue("mail", client), "TimeoutError: 1 s")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("TimeoutError: # s")
        view = ui.app.navigation.view
        assert view is not None
        group_verb = ui.app.verb_starter.find_verb_of_key("R")
        assert group_verb is not None and view.handle_verb(group_verb)
        assert view.step_back()
        await ui.until_refreshed()
        assert ui.app.screen is view
        assert client.zcard(build_queue_keys("mail")["dead"]) == 1


@pytest.mark.slow
@run_on_event_loop
async def test_a_job_list_that_does_not_fit_the_filter_reports_what_to_press(url: str, client: Redis) -> None:
    add_failed_jobs(Queue("mail", client), "TimeoutError: 1 s")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("TimeoutError: # s")
        await ui.press("slash", '"nosuch', "enter")
        await ui.until_shown("nothing matches /nosuch")


@pytest.mark.slow
@run_on_event_loop
async def test_a_report_with_very_many_rows_draws_the_first_of_them(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_view, "MOST_ROWS", 3)
    add_failed_jobs(Queue("mail", client), *[f"Error{letter}: x" for letter in "ABCDE"])
    async with screen(url, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("5 errors", "ErrorC", "the first 3 of 5")
        assert "ErrorD" not in ui.text()
        await ui.press("slash", '"ErrorE', "enter")
        await ui.until_shown("ErrorE: x")


@pytest.mark.slow
@run_on_event_loop
async def test_a_lost_link_leaves_the_report_and_a_new_one_comes_with_it(url: str, client: Redis) -> None:
    add_failed_jobs(Queue("mail", client), "TimeoutError: 1 s")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("TimeoutError: # s")
        for each in client.client_list():
            if int(each["id"]) != client.client_id():
                client.client_kill_filter(_id=each["id"])
        add_failed_jobs(Queue("mail", client), "KeyError: 'x'")
        await ui.press("r")
        await ui.until_shown("KeyError: 'x'", "TimeoutError: # s")


def build_traceback(why: str, line: int = 88) -> str:
    """Build the traceback of a declined card."""
    frames = f'  File "/app/charge.py", line {line}, in charge\n    raise Declined(f"card declined: {{answer}}")\n'
    return f"Traceback (most recent call last):\n{frames}charge.Declined: {why}"


@pytest.mark.slow
@run_on_event_loop
async def test_brackets_widen_and_narrow_the_groups_and_the_cursor_stays_on_its_error(url: str, client: Redis) -> None:
    add_failed_jobs(
        Queue("mail", client),
        "TimeoutError: 1 s",
        build_traceback("expired card"),
        build_traceback("no funds"),
        "charge.Declined: x",
    )
    async with screen(url, WIDE, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("3 errors", "by cause", "charge.py:88", "50 %")
        view = ui.app.navigation.view
        assert isinstance(view, ErrorsView)
        view.table.move_to(next(group.id for group in view.list_error_groups() if group.count == 2))
        await ui.press("right_square_bracket")
        await ui.until_shown("4 errors", "by message", "expired card", "no funds")
        assert "Declined" in view.find_selected_group().message  # type: ignore[union-attr]
        await ui.press("right_square_bracket")
        await ui.until_shown("the narrowest groups")
        await ui.press("left_square_bracket", "left_square_bracket", "left_square_bracket")
        await ui.until_shown("2 errors", "by class", "75 %")
        assert view.find_selected_group().count == 3  # type: ignore[union-attr]


@pytest.mark.slow
@run_on_event_loop
async def test_a_cursor_that_was_not_moved_stays_on_the_most_frequent_error(url: str, client: Redis) -> None:
    mail = Queue("mail", client)
    add_failed_jobs(mail, "ErrorA: x", "ErrorA: x", "ErrorB: x")
    async with screen(url, WIDE, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("2 errors", "ErrorA", "ErrorB")
        view = ui.app.navigation.view
        assert isinstance(view, ErrorsView)

        def message() -> str:
            group = view.find_selected_group()
            return group.message if group else ""

        async def fail_more(times: int, error: str) -> None:
            dead = sum(group.dead for group in view.list_error_groups())
            add_failed_jobs(mail, *[error] * times)
            await ui.press("r")
            await ui.until(
                lambda: sum(group.dead for group in view.list_error_groups()) == dead + times, "they are counted"
            )

        assert message() == "ErrorA: x"
        await fail_more(4, "ErrorB: x")
        await ui.until(lambda: message() == "ErrorB: x", "the first row")
        await fail_more(9, build_traceback("no funds"))
        await ui.until(lambda: "Declined" in message(), "the first row, though there is another column now")
        await ui.press("down")
        assert message() == "ErrorB: x"
        await fail_more(20, "ErrorC: x")
        assert message() == "ErrorB: x" and view.table.rows[2].id == view.table.cursor_id
        await ui.press("g")
        assert message() == "ErrorC: x"
        await fail_more(30, "ErrorA: x")
        await ui.until(lambda: message() == "ErrorA: x", "g follows the first row again")


@pytest.mark.slow
@run_on_event_loop
async def test_a_key_affects_the_jobs_that_the_row_counts_and_later_ones_are_reported(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail = Queue("mail", client)
    monkeypatch.setattr(errors, "MAX_PER_PLACE", 20)
    # Two groups whose messages overlap: the words of one fit into the wording of the other, but for its last word.
    users = [f"no such user {name}" for name in ("ada", "bob", "cyd", "dan", "eve", "fay", "gil", "hal", "ida", "jim")]
    add_failed_jobs(mail, "no such user kim", *users, "no such team red")
    async with screen(url, WIDE, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("2 errors", "no such user #", "no such team red")
        add_failed_jobs(mail, "no such user lou", "no such team blue", "no such user was found")
        await ui.press("g", "R")
        await ui.until_shown("Requeue 12 jobs?", "1 job found now, not yet counted in the list.")
        await ui.press("y")
        left = ["no such team blue", "no such team red", "no such user was found"]
        await ui.until(lambda: client.zcard(build_queue_keys("mail")["dead"]) == len(left), "the group alone")
        await ui.press("r")
        await ui.until_shown("3 errors")
        view = ui.app.navigation.view
        assert isinstance(view, ErrorsView)
        assert sorted(group.message for group in view.list_error_groups()) == left


@pytest.mark.slow
@run_on_event_loop
async def test_the_page_of_a_group_reports_how_many_where_and_since_when(url: str, client: Redis) -> None:
    add_failed_jobs(
        Queue("mail", client),
        build_traceback("expired card"),
        build_traceback("no funds"),
        "TimeoutError: 1 s",
        "TimeoutError: 2 s",
    )
    async with screen(url, WIDE, open_queue="mail") as ui:
        await ui.press("e")
        await ui.until_shown("charge.py:88")
        view = ui.app.navigation.view
        assert isinstance(view, ErrorsView)
        view.table.move_to(next(group.id for group in view.list_error_groups() if group.frame))
        await ui.press("enter")
        await ui.until_shown("charge.py:88 · 2 jobs, 50 % of all · first", "last", "raise Declined(")
