"""Long names in few cells: distinct ones stay distinct, and what they share is what is left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from rqtui.text.elision import create_name_fitter, elide_names, find_shared_name_prefix
from rqtui.text.sanitise import safe

QUEUES = frozenset(
    f"acme.production.{zone}.{team}-worker-{number:02}"
    for zone in ("eu-west-1", "us-east-1", "us-east-2")
    for team in ("billing", "mail", "search-indexing")
    for number in range(33)
)
PARTS = st.lists(
    st.sampled_from(["acme", "production", "eu-west-1", "a", "b7", "worker", "漢字", "é", "-"]), min_size=1
)
LONG = st.tuples(PARTS, st.sampled_from([".", ":", "/", "-", ""])).map(lambda made: made[1].join(made[0]))
NAMES = st.frozensets(st.one_of(LONG, st.text(min_size=1, max_size=60).map(safe).filter(bool)), max_size=40)


@pytest.mark.parametrize("cases", [100, pytest.param(1000, marks=pytest.mark.matrix)])
def test_distinct_names_stay_distinct_and_fit(cases: int) -> None:
    @settings(max_examples=cases)
    @given(NAMES, st.integers(min_value=5, max_value=60))
    def stay_distinct(names: frozenset[str], width: int) -> None:
        labels = elide_names(names, width)
        assert labels.keys() == names
        assert len(set(labels.values())) == len(names)
        assert all(cell_len(shown) <= width for shown in labels.values())
        assert all(shown == name for name, shown in labels.items() if cell_len(name) <= width)

    stay_distinct()


@given(NAMES, st.integers(min_value=-1, max_value=4))
def test_no_space_at_all_is_no_error(names: frozenset[str], width: int) -> None:
    assert all(cell_len(shown) <= max(0, width) for shown in elide_names(names, width).values())


@pytest.mark.parametrize("width", [30, 24, 20, 16])
def test_three_hundred_long_names_are_distinguished_without_numbers(width: int) -> None:
    labels = elide_names(QUEUES, width)
    assert len(set(labels.values())) == len(QUEUES) == 297
    assert not any("#" in shown for shown in labels.values())


def test_parts_shared_by_all_names_are_left_out_first() -> None:
    names = frozenset({"acme.production.eu-west-1.mail-worker-07", "acme.production.us-east-1.mail-worker-07"})
    assert set(elide_names(names, 26).values()) == {"…eu-west-1.mail-worker-07", "…us-east-1.mail-worker-07"}
    assert set(elide_names(names, 16).values()) == {"…eu-…worker-07", "…us-…worker-07"}


def test_a_long_name_without_neighbours_keeps_its_ends() -> None:
    name = "616702fc681b4d90bd451d86ddacaa67"
    assert create_name_fitter([name])(name, 12) == "61670…acaa67"
    assert create_name_fitter(["acme.mail-worker-07"])("acme.mail-worker-07", 12) == "…worker-07"


def test_a_name_that_is_not_among_them_fits_too() -> None:
    fit = create_name_fitter(["a" * 40, "b" * 40])
    assert cell_len(fit("c" * 40, 10)) == 10
    assert fit("short", 10) == "short"


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        (("acme.production.a", "acme.production.b"), "acme.production."),
        (("acme.production.a", "acme.staging.a"), "acme."),
        (("mail:eu", "mail:"), ""),
        (("mail:eu", "mailbox:eu"), ""),
        (("mail", "images"), ""),
        (("acme.a",), ""),
        (("a.b", "a."), ""),
    ],
)
def test_levels_that_all_names_share(names: tuple[str, ...], shared: str) -> None:
    assert find_shared_name_prefix(names) == shared


def test_words_are_levels_where_that_is_requested() -> None:
    names = ("billing-worker-01", "billing-worker-02")
    assert (find_shared_name_prefix(names), find_shared_name_prefix(names, splits_at_hyphens=True)) == (
        "",
        "billing-worker-",
    )


def test_names_with_a_host_keep_their_end_as_far_as_it_fits() -> None:
    names = frozenset({"celery@web-1", "celery@web-2"})
    assert [sorted(elide_names(names, width).values()) for width in (4, 8)] == [["…1", "…2"], ["…web-1", "…web-2"]]
