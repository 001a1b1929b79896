"""The README is short, and says what is true: its files are there, its commands are commands of rqtui."""

from __future__ import annotations

import re

import pytest
from doc_pages import ROOT, find_commands, find_links, is_command_accepted

README = ROOT / "README.md"
LINES = 130  # a newcomer reads it to the end


def test_the_readme_is_short_and_shows_one_picture() -> None:
    text = README.read_text("utf-8")
    assert len(text.splitlines()) <= LINES
    assert len(re.findall(r"^!\[", text, re.MULTILINE)) == 1


def test_every_file_that_the_readme_links_to_exists() -> None:
    targets = find_links(README)
    assert len(targets) >= 15
    assert not [target for target in targets if not target.exists()]


def test_the_ci_script_ends_with_the_test_command_of_the_readme() -> None:
    command = re.search(r"^(pip install -e \S+ && pytest[-\w ]*\w)", README.read_text("utf-8"), re.MULTILINE)
    assert command
    last = (ROOT / ".ci" / "run").read_text("utf-8").rstrip().splitlines()[-1]
    assert command[1].replace(" -e", " -q -e") == last


def test_the_readme_names_commands_of_each_face() -> None:
    named = {line.split()[1] for line in find_commands(README) if len(line.split()) > 1}
    assert named >= {"put", "work", "snapshot", "act", "undo", "health", "metrics", "migrate", "demo"}


@pytest.mark.parametrize("line", ["rqtui nosuch", "rqtui dispatch --nosuch", "sh dispatch"])
def test_a_line_that_rqtui_does_not_know_would_be_found(line: str) -> None:
    assert not is_command_accepted(line)


def test_the_example_in_python_is_python() -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    compile(example, "README.md", "exec")
