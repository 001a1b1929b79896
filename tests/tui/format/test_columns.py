"""What a board shows of its jobs: chosen columns, values out of bodies, what is masked, and samples of sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import msgpack
import pytest
from redis import Redis
from screens import Screen, Seeded, read_text, run_on_event_loop, screen

from rqtui.config.settings import Settings
from rqtui.errors import UsageError
from rqtui.model import Job, Ref, State
from rqtui.scenarios.originals import timeout_sets
from rqtui.text import formats
from rqtui.text.body import render_body
from rqtui.text.masking import MASK, is_secret_name, set_mask_patterns
from rqtui.text.pieces import convert_cell_to_pieces
from rqtui.tui.app import Cockpit
from rqtui.tui.format import columns
from rqtui.tui.format.rows import fit_columns
from rqtui.tui.screens.board import Board

BODY = {"user": {"id": 7, "tags": ["new", "eu"], "password": "hunter2"}, "note": "x\x1b[31m"}


@pytest.fixture(autouse=True)
def usual_secrets() -> Iterator[None]:
    """Reset the masks after each test, so that one test does not affect the next."""
    yield
    set_mask_patterns(())


def job(body: bytes, **more: object) -> Job:
    """Build a waiting job."""
    fields = {"body": body, "body_bytes": len(body), "name": "send", "enqueued_ms": 0, "since_ms": 0, **more}
    return Job(b"a1", "mail", "native", "ready", State.READY, b"a1", **fields)  # type: ignore[arg-type]


def texts(one: Job, *names: str) -> list[str]:
    """Return the cells of a job's row, without the id."""
    row = columns.build_job_row(one, 60_000, 16, names)
    return ["".join(piece.text for piece in convert_cell_to_pieces(cell)) for cell in row.cells[1:]]


@pytest.mark.parametrize("pack", [lambda value: json.dumps(value).encode(), msgpack.packb], ids=["json", "msgpack"])
def test_a_column_shows_the_value_at_a_path_of_the_body(pack: object) -> None:
    one = job(pack(BODY))  # type: ignore[operator]
    assert texts(one, "body.user.id", "body.user.tags", "body.user.tags.1", "body.nobody") == [
        "7",
        '["new", "eu"]',
        "eu",
        formats.NONE,
    ]


def test_values_of_bodies_are_masked_and_harmless() -> None:
    one = job(json.dumps(BODY).encode())
    assert texts(one, "body.user.password", "body.user", "body.note") == [
        MASK,
        '{"id": 7, "tags": ["new", "eu"], "password": ••••••••}',
        "x␛[31m",
    ]


def test_only_complete_values_of_a_cut_body_are_shown() -> None:
    cut = job(b'{"a": 1, "to": "ada@exa', body_bytes=4_000)
    assert texts(cut, "body.a", "body.to", "body.b") == ["1", "ada@exa…", "…"]
    assert texts(job(b'{"a": {"b": 1, "c": 2', body_bytes=4_000), "body.a", "body.a.b") == ["…", "1"]
    assert texts(job(b"\xff\x00"), "body.a") == [formats.NONE]


# ── fields that distinguish the jobs of a page────────────────────────────────────────────────────────────────


def page(number: int, **more: object) -> list[Job]:
    """Dead orders, as they come out of a place."""
    items = []
    for at in range(number):
        body = {"id": f"{at * 7919:024x}", "queue": "orders", "order": 300_100 + at, "to": f"c{at}@shop.example"}
        fields = {"name": "charge" if at % 2 else "notify", "attempts": 5, "max_attempts": 5, **more}
        items.append(replace(job(json.dumps(body).encode(), **fields), id=b"order:2026-11:%d" % at, state=State.DEAD))
    return items


def heads(state: State, choice: columns.ColumnChoice, width: int) -> list[str]:
    """Return the titles of the columns that a pane of this width shows."""
    result = columns.build_columns(
        state, columns.choose_column_names(state, choice.filled), columns.LONG_ID_CELLS, choice
    )
    return [result[slot.column].title for slot in fit_columns(result, width, 2)]


def test_a_wide_place_has_a_column_per_field_and_a_narrow_one_the_job_and_the_best_field() -> None:
    choice = columns.choose_job_columns(columns.ColumnChoice(), page(20, error="CardDeclined: 51"), 0)
    assert heads(State.DEAD, choice, 120) == ["…id", "job", "order", "to", "died", "last error"]
    assert heads(State.DEAD, choice, 50) == ["…id", "job", "order", "died", "last error"]
    assert heads(State.DEAD, choice, 24) == ["job", "order", "died"]
    assert heads(State.DEAD, choice, 15) == ["order", "died"]


def test_what_all_jobs_share_is_shown_in_the_frame_and_in_no_row() -> None:
    choice = columns.choose_job_columns(columns.ColumnChoice(), page(20, name="charge"), 0)
    assert choice.common_values == (("job", "charge"), ("attempts", "5/5"), ("queue", "orders"))
    assert heads(State.DEAD, choice, 120) == ["…id", "order", "to", "died"]
    few = columns.choose_job_columns(columns.ColumnChoice(), page(3, name="charge"), 0)
    assert few.common_values == (("queue", "orders"),) and "job" in few.filled


def test_a_column_that_is_empty_in_all_rows_yields_its_cells_and_a_filled_one_stays() -> None:
    fresh = page(20, attempts=0)
    choice = columns.choose_job_columns(columns.ColumnChoice(), fresh, 0)
    assert {"tried", "error", "worker"}.isdisjoint(choice.filled)
    failed = columns.choose_job_columns(choice, [*fresh[1:], replace(fresh[0], attempts=1, error="E")], 0)
    assert {"tried", "error"} <= failed.filled
    assert columns.choose_job_columns(failed, fresh, 0).filled == failed.filled


def test_a_column_of_few_errors_leaves_its_cells_to_names_and_fields() -> None:
    def measure_widths(choice: columns.ColumnChoice) -> dict[str, int]:
        names = columns.choose_column_names(State.READY, choice.filled)
        result = columns.build_columns(State.READY, names, columns.SHORT_ID_CELLS, choice)
        return {result[slot.column].key: slot.width for slot in fit_columns(result, 80, 2)}

    jobs = page(20, name="send_reminder_of_an_invoice")
    failing = [replace(each, name=f"{each.name}{at % 2}", error="TimeoutError: smtp") for at, each in enumerate(jobs)]
    few = [*failing[:4], *(replace(each, error="") for each in failing[4:])]
    rare = columns.choose_job_columns(columns.ColumnChoice(), few, 0)
    common = columns.choose_job_columns(columns.ColumnChoice(), failing, 0)
    assert measure_widths(rare)["job"] > measure_widths(common)["job"] < len(failing[0].name)
    assert measure_widths(rare)["error"] < measure_widths(common)["error"]
    half = [*failing[:9], *few[9:]]
    assert columns.choose_job_columns(rare, half, 0).has_rare_errors
    assert not columns.choose_job_columns(common, half, 0).has_rare_errors, "the widths stay"


def test_columns_stay_from_page_to_page_and_change_when_they_distinguish_nothing() -> None:
    jobs = page(60)
    choice = columns.choose_job_columns(columns.ColumnChoice(), jobs[:40], 0)
    names = columns.choose_column_names(State.DEAD, choice.filled)
    before = columns.build_columns(State.DEAD, names, 16, choice)
    for part in (jobs[20:], jobs[30:31], jobs[:40]):
        choice = columns.choose_job_columns(choice, part, 0)
        assert (
            columns.build_columns(State.DEAD, columns.choose_column_names(State.DEAD, choice.filled), 16, choice)
            == before
        )
    mails = [replace(each, body=b'{"mail": "m%d"}' % at) for at, each in enumerate(jobs)]
    other = columns.choose_job_columns(choice, mails, 0)
    assert [field.path for field in other.body.columns] == ["mail"]


def test_a_name_shown_once_appears_on_the_rows_again_with_the_first_other_name() -> None:
    jobs = page(20, name="charge")
    choice = columns.choose_job_columns(columns.ColumnChoice(), jobs, 0)
    assert "job" not in choice.filled
    mixed = columns.choose_job_columns(choice, [*jobs[1:], replace(jobs[0], name="notify")], 0)
    assert "job" in mixed.filled and ("job", "charge") not in mixed.common_values


def test_secrets_do_not_distinguish_jobs() -> None:
    jobs = [job(json.dumps({"token": f"t{n}", "n": n}).encode()) for n in range(20)]
    choice = columns.choose_job_columns(columns.ColumnChoice(), jobs, 0)
    row = columns.build_job_row(jobs[3], 0, 16, ("fields",), choice)
    assert [str(cell) for cell in row.cells[1:]] == ["3"]


def test_a_body_that_was_too_long_to_fetch_is_no_empty_one() -> None:
    jobs = page(20)
    choice = columns.choose_job_columns(columns.ColumnChoice(), jobs, 0)
    long = columns.build_job_row(
        replace(jobs[0], body=None, member=jobs[0].id, body_bytes=30_000_000), 0, 16, ("fields",), choice
    )
    assert {convert_cell_to_pieces(cell)[0].text for cell in long.cells[1:]} == {"…"}


def test_the_settings_name_columns_by_state_or_for_all_boards_and_others_are_reported() -> None:
    settings = {"dead": ("job", "errr", "body.a"), "board": ("id", "job", "size", "body.")}
    assert columns.read_configured_columns(settings, State.DEAD) == (("job", "body.a"), ("errr",))
    assert columns.read_configured_columns(settings, State.READY) == (("job", "size"), ("body.",))
    assert columns.read_configured_columns({}, State.READY) == ((), ())


def test_where_it_is_narrow_the_last_of_the_chosen_columns_go_first() -> None:
    result = columns.build_columns(State.DEAD, ("error", "job", "size"), 16, are_configured=True)
    assert [column.drop for column in result] == [0, 1, 2, 3]


def test_a_pattern_of_the_config_masks_bodies_columns_texts_and_errors_too() -> None:
    body = b'{"iban": "DE02", "customer": {"ssn": "123"}}'
    assert "DE02" in render_body(body).text
    assert columns.format_error_line("Refused: iban=DE02") == "Refused: iban=DE02"
    set_mask_patterns(["iban", "^ssn$"])
    for viewer in ("", "text", "hex"):
        assert "DE02" not in render_body(body, viewer=viewer).text
    assert "123" not in render_body(body).text
    assert "DE02" in render_body(body, revealed=True).text
    assert columns.format_error_line("Refused: iban=DE02") == f"Refused: iban={MASK}"
    assert texts(job(body), "body.customer.ssn", "body") == [
        MASK,
        f'{{ "iban": {MASK}, "customer": {{ "ssn": {MASK} }} }}',
    ]


def test_a_pattern_that_cannot_be_read_is_reported_and_changes_nothing() -> None:
    with pytest.raises(UsageError, match=r"redaction pattern '\(' cannot be read"):
        set_mask_patterns(["iban", "("])
    assert not is_secret_name("iban") and is_secret_name("api_token")


@run_on_event_loop
async def test_a_board_shows_the_columns_of_the_settings_and_names_which_are_none(url: str, client: Redis) -> None:
    Seeded(client).put("a1", body=json.dumps(BODY).encode(), priority=3)
    chosen = {"ready": ("job", "body.user.id", "body.user.password", "priority", "nope")}
    app = Cockpit(Settings(url, columns=chosen), interval_s=0.25)
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        ui = Screen(app, pilot)
        await ui.until(lambda: app.session.snapshot is not None)
        await ui.press("enter")
        await ui.until_shown("a1", "prio", "password")
        await ui.until_toast("unknown column: nope")
        row = next(line for line in read_text(app).splitlines() if "a1" in line)
        assert row.split()[1:6] == ["a1", "send", "7", MASK, "3"]
        assert "hunter2" not in read_text(app)


@pytest.mark.slow
@run_on_event_loop
async def test_the_bracket_at_the_end_of_a_sample_takes_other_members(url: str, client: Redis) -> None:
    many = 25_000
    client.sadd(timeout_sets.DONE, *range(many))
    client.sadd(timeout_sets.TODOS, 1_000_000)
    async with screen(url, (100, 24), systems=("timeout_sets",)) as ui:
        ui.app.open_board(Ref("timeout_sets", "todos"))
        await ui.until(lambda: isinstance(ui.app.navigation.view, Board) and ui.app.navigation.view.is_drawn)
        await ui.until_refreshed()
        await ui.press("3")
        board = ui.app.navigation.view
        assert isinstance(board, Board)
        await ui.until_shown("part of 25 000")
        pane = board.find_current_pane()
        first = {row.id for row in pane.rows}
        await ui.press("right_square_bracket")
        await ui.until_refreshed()
        assert pane.visible_range[0] > 0  # a page on, in the same sample
        await ui.press("G")
        await ui.until(lambda: pane.is_at_end and pane.cursor_id is not None)
        await ui.press("right_square_bracket")
        await ui.until(lambda: pane.rows and pane.visible_range[0] == 0 and not first & {row.id for row in pane.rows})
        assert client.scard(timeout_sets.DONE) == many
