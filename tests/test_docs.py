"""The pages of `docs/` say what is true: links, command lines, generated tables, and the table "where to look"."""

from __future__ import annotations

import re
from pathlib import Path

import generated_tables
import pytest
from doc_pages import PAGES, ROOT, find_commands, find_links, is_command_accepted

TEMPLATE = re.compile(r"SYSTEM|VERB|VIEW|COMMAND")  # a word that stands for a name
ARCHITECTURE = ROOT / "docs" / "architecture.md"
ASKED = (  # with one of these words a reader opens the right file first
    "the sentence that a failed `rqtui migrate` prints",
    "the colour of a late lease",
    "what `T` sends",
    "how a queue of redisched is found",
)


def name(page: Path) -> str:
    """Return the name of a page for the names of tests."""
    return str(page.relative_to(ROOT))


def test_every_file_that_a_page_links_to_exists() -> None:
    missing = [f"{name(page)}: {target}" for page in PAGES for target in find_links(page) if not target.exists()]
    assert not missing


@pytest.mark.slow
def test_every_command_line_of_a_page_is_one_of_rqtui() -> None:
    lines = {line: page for page in PAGES for line in find_commands(page)}
    assert len(lines) >= 50
    unknown = [f"{name(page)}: {line}" for line, page in lines.items() if not is_command_accepted(line)]
    assert not unknown


@pytest.mark.parametrize("page", generated_tables.TABLES, ids=name)
def test_the_tables_of_a_page_are_those_of_the_code(page: Path) -> None:
    assert page.read_text("utf-8") == generated_tables.render_page(page), (
        "run: python tests/support/generated_tables.py"
    )


def test_where_to_look_names_one_file_for_each_question_and_a_word_that_is_in_it() -> None:
    table = ARCHITECTURE.read_text("utf-8").partition("## Where to look")[2]
    rows = re.findall(r"^\| (.+) \| `([^`|]+)` \| `([^`|]+)` \|$", table, re.MULTILINE)
    assert len(rows) == 27 and {question for question, _file, _word in rows} >= set(ASKED)
    wrong = [row for row in rows if not (ROOT / row[1]).is_file() or row[2] not in (ROOT / row[1]).read_text("utf-8")]
    assert not wrong


def test_every_file_and_folder_that_a_page_names_exists() -> None:
    named = re.compile(r"`((?:rqtui|lua|tests|benchmarks|screenshots|contrib|docs)/[\w./-]*)`")
    missing = [
        f"{name(page)}: {path}"
        for page in PAGES
        for path in named.findall(page.read_text("utf-8"))
        if not TEMPLATE.search(path) and not (ROOT / path).exists()
    ]
    assert not missing
