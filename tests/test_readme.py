"""The README says what is true: its pictures and links are there, its commands exist."""

from __future__ import annotations

import re

from readme_tables import README


def test_every_file_that_the_readme_links_to_exists() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README.read_text("utf-8"))
    assert len(targets) >= 5
    missing = [target for target in targets if not (README.parent / target).exists()]
    assert not missing


def test_the_ci_script_ends_with_the_test_command_of_the_readme() -> None:
    command = re.search(r"^(pip install -e \S+ && pytest[-\w ]*\w)", README.read_text("utf-8"), re.MULTILINE)
    assert command
    last = (README.parent / ".ci" / "run").read_text("utf-8").rstrip().splitlines()[-1]
    assert command[1].replace(" -e", " -q -e") == last
