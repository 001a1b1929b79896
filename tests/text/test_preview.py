"""Test previews of bodies in rows: the fields that distinguish jobs, chosen once and kept while they do."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from rqtui.text import preview
from rqtui.text.masking import MASK, set_mask_patterns
from rqtui.text.preview import Field, IdFormat, Preview, RowFields


@pytest.fixture(autouse=True)
def usual_secrets() -> Iterator[None]:
    """Reset the masks after each test, so that one test does not affect the next."""
    yield
    set_mask_patterns(())


def build_rows(*bodies: object, beside: tuple[str, ...] = ()) -> list[RowFields]:
    """Build rows with these bodies; a value that is no text becomes JSON."""
    raw = [body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies]
    return [RowFields(preview.read_preview_fields(body), beside) for body in raw]


def orders(number: int, seed: int = 1) -> list[dict[str, object]]:
    rng = random.Random(seed)
    return [
        {
            "id": f"{rng.getrandbits(64):016x}",
            "queue": "orders",
            "order": 300_000 + at,
            "customer": {"id": rng.randrange(10**6), "email": f"c{rng.randrange(999)}@shop.example.org"},
            "amount": rng.randrange(40_000) / 100,
            "currency": "EUR",
            "created_at": f"2026-11-22T04:{at % 60:02}:11Z",
            "token": f"tok_{at}",
        }
        for at in range(number)
    ]


def labels(fields: tuple[Field, ...]) -> list[str]:
    return [field.label for field in fields]


def test_fields_that_vary_and_are_short_become_columns_in_the_order_of_the_body() -> None:
    chosen = preview.choose_preview_fields(build_rows(*orders(40)))
    assert [field.path for field in chosen.columns] == ["order", "customer.email", "amount"]
    assert labels(chosen.columns) == ["order", "customer", "amount"]
    assert [field.is_number for field in chosen.columns] == [True, False, True]


def test_what_all_share_is_shown_once_and_only_while_they_share_it() -> None:
    rows = build_rows(*orders(20))
    chosen = preview.choose_preview_fields(rows)
    assert [(same.label, same.value) for same in chosen.same] == [("queue", "orders"), ("currency", "EUR")]
    other = build_rows({"queue": "returns", "currency": "EUR"})
    assert [same.label for same in preview.update_field_choice(chosen, rows + other).same] == ["currency"]


def test_mails_show_to_whom_and_what() -> None:
    mails = [
        {"lang": "en", "to": f"{name}@example.org", "template": f"welcome-{n % 3}"} for n, name in enumerate(NAMES)
    ]
    rows = build_rows(*mails)
    chosen = preview.choose_preview_fields(rows)
    assert labels(chosen.columns) == ["to", "template"]
    to = chosen.columns[0]
    assert (to.format_value("ada@example.org"), to.format_value("eve@other.net")) == ("ada@…", "eve@other.net")
    assert preview.format_field_pairs(rows[0].fields, chosen.columns) == "to=ada@… template=welcome-0"


NAMES = ("ada", "bob", "cem", "dora", "eve", "finn", "gül", "hal", "ida", "jo")


def test_jobs_of_several_kinds_show_the_fields_that_each_has() -> None:
    rows = build_rows(*[{"to": f"{n}@a.example"} if n % 2 else {"invoice": 7000 + n} for n in range(20)])
    chosen = preview.choose_preview_fields(rows)
    assert not chosen.columns
    assert preview.format_field_pairs(rows[0].fields, chosen.others) == "invoice=7000"
    assert preview.format_field_pairs(rows[1].fields, chosen.others).startswith("to=1")


def test_values_already_in_the_row_are_not_shown_again() -> None:
    rows = [RowFields({"id": f"j{n}", "class": "Mail", "n": str(n)}, (f"j{n}", "Mail")) for n in range(10)]
    assert labels(preview.choose_preview_fields(rows).columns) == ["n"]


def test_a_body_without_fields_is_its_text_without_what_all_begin_with() -> None:
    rows = build_rows(*[f"resize https://cdn.example.org/media/{n}.jpg".encode() for n in range(10)])
    [field] = preview.choose_preview_fields(rows).columns
    assert (field.path, field.format_value(rows[3].fields[""])) == ("", "…3.jpg")
    assert preview.choose_preview_fields(build_rows(b"", b"")).is_empty


def test_secrets_are_neither_chosen_nor_shown() -> None:
    set_mask_patterns(["iban"])
    rows = build_rows(
        *[{"iban": f"DE{n}", "password": "x", "deep": json.dumps({"token": n}), "n": n} for n in range(10)]
    )
    chosen = preview.choose_preview_fields(rows)
    assert labels(chosen.columns) == ["n"] and chosen.same == ()
    field = Field("iban", "iban")
    assert field.format_value(rows[0].fields["iban"]) == MASK
    assert field.format_value("password=hunter2") == f"password={MASK}"


def test_the_chosen_fields_stay_while_they_distinguish_rows() -> None:
    chosen = preview.choose_preview_fields(build_rows(*orders(40)))
    assert preview.is_choice_still_suitable(chosen, build_rows(*orders(60, seed=2)))
    assert preview.is_choice_still_suitable(chosen, build_rows(*orders(1, seed=3)))
    assert preview.is_choice_still_suitable(chosen, [])
    assert preview.is_choice_still_suitable(chosen, build_rows(*orders(8), *[{"to": n} for n in range(8)])), (
        "half of them"
    )
    assert not preview.is_choice_still_suitable(chosen, build_rows(*orders(8), *[{"to": n} for n in range(9)]))
    assert not preview.is_choice_still_suitable(chosen, build_rows(*[{"to": n} for n in range(20)]))
    assert not preview.is_choice_still_suitable(chosen, build_rows(*[{**orders(1)[0], "to": n} for n in range(20)]))


def test_a_choice_from_few_rows_is_created_again_when_there_are_more() -> None:
    chosen = preview.choose_preview_fields(build_rows(*orders(2)))
    assert preview.is_choice_still_suitable(chosen, build_rows(*orders(3)))
    assert not preview.is_choice_still_suitable(chosen, build_rows(*orders(4)))
    assert not preview.is_choice_still_suitable(Preview(), build_rows(*orders(1)))


def test_hostile_values_are_harmless_in_a_cell() -> None:
    assert Field("a", "a").format_value("\x1b[31m\u202e") == "␛[31m‹202E›"
    chosen = preview.choose_preview_fields(build_rows({"\x1b[1m": 1}, {"\x1b[1m": 2}))
    assert labels(chosen.columns) == ["␛[1m"]


@pytest.mark.parametrize(("wrap", "levels"), [(json.dumps, 2), (lambda value: value, 5)], ids=["as text", "as object"])
def test_fields_are_read_down_to_a_depth_where_json_in_a_text_counts_twice(wrap: object, levels: int) -> None:
    value: object = {"a": "x" * 9}
    for level in range(1, levels + 2):
        value = {"a": wrap(value)}  # type: ignore[operator]
        fields = preview.read_preview_fields(json.dumps(value).encode())
        assert [*fields] == [".".join("a" * (level + 1)) if level <= levels else ""]


def test_names_of_fields_are_as_short_as_the_others_allow() -> None:
    rows = build_rows(
        *[{"order": {"id": n}, "customer": {"id": n + 7, "plan": f"p{n}"}, "args": [n + 1]} for n in range(9)]
    )
    assert labels(preview.choose_preview_fields(rows).columns) == ["order", "customer", "plan", "args.0"]
    twice = build_rows(*[{"from": {"zone": n}, "to": {"zone": n + 1}} for n in range(9)])
    assert labels(preview.choose_preview_fields(twice).columns) == ["from.zone", "to.zone"]


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ids_lose_their_common_beginning() -> None:
    ids = [b"order:eu-west:%d" % n for n in range(98, 120)]
    chosen = preview.choose_id_format(ids)
    assert chosen == IdFormat(3, "order:eu-west:")
    assert preview.shorten_id_to_format(b"order:eu-west:98", chosen) == "98"
    assert preview.shorten_id_to_format(b"returned:7", chosen) == "returned:7"
    assert preview.shorten_id_to_format(b"order:eu-west:", chosen) == "order:eu-west:"


@pytest.mark.parametrize(("beginning", "hidden"), [("abc-", "abc-"), ("ab-", "")])
def test_a_common_beginning_of_up_to_three_characters_is_shown(beginning: str, hidden: str) -> None:
    ids = [f"{beginning}00000000{number}".encode() for number in range(10, 14)]
    assert preview.choose_id_format(ids).beginning == hidden


def test_generated_ids_are_shortened_to_as_few_letters_as_distinguish_them() -> None:
    ids = [b"01jd80108%013x" % (n * 7919) for n in range(60)]
    chosen = preview.choose_id_format(ids)
    assert chosen.tail == 7
    assert len({preview.shorten_id_to_format(id, chosen) for id in ids}) == 60
    assert preview.shorten_id_to_format(b"by hand", chosen) == "by hand"


@pytest.mark.parametrize(
    "ids",
    [[b"job-1", b"job-2"], [b"order:eu:98", b"order:eu:119"], [b"a1"], [b"a1", b"b2"], [b""], [b"mail:", b"mail:1"]],
)
def test_ids_that_share_nothing_are_complete(ids: list[bytes]) -> None:
    chosen = preview.choose_id_format(ids)
    assert [preview.shorten_id_to_format(id, chosen) for id in ids] == [id.decode() or "''" for id in ids]
