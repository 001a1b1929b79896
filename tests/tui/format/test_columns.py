"""What a board shows of its jobs: chosen columns, values out of bodies, what is masked, and samples of sets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgpack
import pytest
from redis import Redis
from screens import Screen, Seeded, on_screen, screen, text_of

from rqtui.config.settings import Settings
from rqtui.errors import UsageError
from rqtui.model import Job, Ref, State
from rqtui.scenarios.originals import timeout_sets
from rqtui.text import formats
from rqtui.text.body import MASK, also_mask, body_view, is_secret
from rqtui.text.pieces import pieces_of
from rqtui.tui.app import Cockpit
from rqtui.tui.format import columns
from rqtui.tui.screens.board import Board

BODY = {"user": {"id": 7, "tags": ["new", "eu"], "password": "hunter2"}, "note": "x\x1b[31m"}


@pytest.fixture(autouse=True)
def usual_secrets() -> Iterator[None]:
    """What one test masks is none of the next one's business."""
    yield
    also_mask(())


def job(body: bytes, **more: object) -> Job:
    """A waiting job."""
    known = {"body": body, "body_bytes": len(body), "name": "send", "enqueued_ms": 0, "since_ms": 0, **more}
    return Job(b"a1", "mail", "native", "ready", State.READY, b"a1", **known)  # type: ignore[arg-type]


def texts(one: Job, *names: str) -> list[str]:
    """The cells of its row, without the id."""
    row = columns.row(one, 60_000, 16, names)
    return ["".join(piece.text for piece in pieces_of(cell)) for cell in row.cells[1:]]


@pytest.mark.parametrize("pack", [lambda value: json.dumps(value).encode(), msgpack.packb], ids=["json", "msgpack"])
def test_a_column_shows_the_value_at_a_path_of_the_body(pack: object) -> None:
    one = job(pack(BODY))  # type: ignore[operator]
    assert texts(one, "body.user.id", "body.user.tags", "body.user.tags.1", "body.nobody") == [
        "7",
        '["new", "eu"]',
        "eu",
        formats.ZERO,
    ]


def test_values_of_bodies_are_masked_and_harmless() -> None:
    one = job(json.dumps(BODY).encode())
    assert texts(one, "body.user.password", "body.user", "body.note") == [
        MASK,
        '{"id": 7, "tags": ["new", "eu"], "password": ••••••••}',
        "x␛[31m",
    ]


def test_of_a_body_that_is_cut_off_no_value_is_claimed() -> None:
    assert texts(job(b'{"a": 1, "b', body_bytes=4_000), "body.a") == ["…"]
    assert texts(job(b"\xff\x00"), "body.a") == [formats.ZERO]


def test_the_settings_name_columns_by_state_or_for_all_boards_and_others_are_told() -> None:
    settings = {"dead": ("job", "errr", "body.a"), "board": ("id", "job", "size", "body.")}
    assert columns.wanted(settings, State.DEAD) == (("job", "body.a"), ("errr",))
    assert columns.wanted(settings, State.READY) == (("job", "size"), ("body.",))
    assert columns.wanted({}, State.READY) == ((), ())


def test_where_it_is_narrow_the_last_of_the_chosen_columns_go_first() -> None:
    made = columns.columns(State.DEAD, ("error", "job", "size"), 16, are_chosen=True)
    assert [column.drop for column in made] == [0, 1, 2, 3]


def test_a_pattern_of_the_config_masks_bodies_columns_texts_and_errors_too() -> None:
    body = b'{"iban": "DE02", "customer": {"ssn": "123"}}'
    assert "DE02" in body_view(body).text
    assert columns.error_line("Refused: iban=DE02") == "Refused: iban=DE02"
    also_mask(["iban", "^ssn$"])
    for viewer in ("", "text", "hex"):
        assert "DE02" not in body_view(body, viewer=viewer).text
    assert "123" not in body_view(body).text
    assert "DE02" in body_view(body, revealed=True).text
    assert columns.error_line("Refused: iban=DE02") == f"Refused: iban={MASK}"
    assert texts(job(body), "body.customer.ssn", "body") == [
        MASK,
        f'{{ "iban": {MASK}, "customer": {{ "ssn": {MASK} }} }}',
    ]


def test_a_pattern_that_cannot_be_read_is_said_and_changes_nothing() -> None:
    with pytest.raises(UsageError, match=r"redaction pattern '\(' cannot be read"):
        also_mask(["iban", "("])
    assert not is_secret("iban") and is_secret("api_token")


@on_screen
async def test_a_board_shows_the_columns_of_the_settings_and_says_which_are_none(url: str, client: Redis) -> None:
    Seeded(client).put("a1", body=json.dumps(BODY).encode(), priority=3)
    chosen = {"ready": ("job", "body.user.id", "body.user.password", "priority", "nope")}
    app = Cockpit(Settings(url, columns=chosen), interval_s=0.25)
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        it = Screen(app, pilot)
        await it.until(lambda: app.session.snapshot is not None)
        await it.press("enter")
        await it.until_shown("a1", "prio", "password")
        await it.until_told("no such column: nope")
        row = next(line for line in text_of(app).splitlines() if "a1" in line)
        assert row.split()[1:6] == ["a1", "send", "7", MASK, "3"]
        assert "hunter2" not in text_of(app)


@on_screen
async def test_the_bracket_at_the_end_of_a_sample_takes_other_members(url: str, client: Redis) -> None:
    many = 25_000
    client.sadd(timeout_sets.DONE, *range(many))
    client.sadd(timeout_sets.TODOS, 1_000_000)
    async with screen(url, (100, 24), layouts=("timeout_sets",)) as it:
        it.app.open_board(Ref("timeout_sets", "todos"))
        await it.until(lambda: isinstance(it.app.navigation.view, Board) and it.app.navigation.view.is_drawn)
        await it.until_refreshed()
        await it.press("3")
        board = it.app.navigation.view
        assert isinstance(board, Board)
        await it.until_shown("a sample of 25 000")
        pane = board.pane()
        first = {row.id for row in pane.rows}
        await it.press("right_square_bracket")
        await it.until_refreshed()
        assert pane.in_sight[0] > 0  # a page on, in the same sample
        await it.press("G")
        await it.until(lambda: pane.is_at_end and pane.cursor_id is not None)
        await it.press("right_square_bracket")
        await it.until(lambda: pane.rows and pane.in_sight[0] == 0 and not first & {row.id for row in pane.rows})
        assert client.scard(timeout_sets.DONE) == many
