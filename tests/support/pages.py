"""The pages of the documentation, as tests look at them: their links, and the command lines that they print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from shell import shell

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "lua" / "README.md", ROOT / "contrib" / "README.md"]
)
_NOWHERE = "redis://127.0.0.1:1"


def links(page: Path) -> list[Path]:
    """The files that a page links to."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    return [page.parent / target for target in targets]


def commands(page: Path) -> list[str]:
    """Every `rqtui …` of the blocks of shell on a page, one command each, without its comment."""
    return [line for block in _blocks(page.read_text("utf-8")) for line in _commands(block)]


def _blocks(text: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _commands(block: str) -> Iterator[str]:
    for line in block.splitlines():
        for part in re.split(r" && | \|\|? ", re.sub(r"\s#.*$", "", line)):
            if part.split()[:1] == ["rqtui"]:
                yield part.strip()


def is_taken(line: str) -> bool:
    """Whether rqtui understands the line; `--help` behind its words keeps it from being run."""
    program, *words = shlex.split(line)
    at = words.index("--") if "--" in words else len(words)
    ran = shell(_NOWHERE, *words[:at], "--help", *words[at:])
    return program == "rqtui" and ran.code == 0 and "Usage" in ran.out
