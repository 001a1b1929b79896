"""`rqtui snapshot` on a terminal that is too narrow for its table."""

from __future__ import annotations

from rich.cells import cell_len

from rqtui.cli.snapshot import fit_queue_table
from rqtui.text.formats import ZERO

TITLES = ["queue", "layout", "scheduled", "ready", "reserved", "done", "dead", "workers", "oldest", "verdict"]
ROWS = [
    [
        f"acme.production.{zone}.mail-worker-{n:02}",
        "native",
        ZERO,
        "12",
        ZERO,
        ZERO,
        "3",
        "0",
        "35m46",
        "no live worker",
    ]
    for zone in ("eu-west-1", "us-east-1")
    for n in range(20)
]


def test_a_narrow_table_keeps_numbers_and_what_distinguishes_names() -> None:
    for width in (80, 100, 120):
        titles, rows = fit_queue_table(TITLES, ROWS, width)
        assert {"queue", "ready", "dead", "verdict"} <= set(titles)
        assert len({row[0] for row in rows}) == len(ROWS)
        assert all(row[titles.index("ready")] == "12" for row in rows)
        widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
        assert sum(widths) + 2 * (len(titles) - 1) <= width


def test_a_table_that_fits_stays_as_it_is() -> None:
    assert fit_queue_table(TITLES, ROWS, 200) == (TITLES, ROWS)
