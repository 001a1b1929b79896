"""Read the pages of the documentation: their links and command lines."""

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


def find_links(page: Path) -> list[Path]:
    """Return the files that a page of the documentation links to."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    return [page.parent / target for target in targets]


def find_commands(page: Path) -> list[str]:
    """Return every `rqtui …` command in the shell blocks of a documentation page, without comments."""
    return [line for block in _find_shell_blocks(page.read_text("utf-8")) for line in _split_commands(block)]


def _find_shell_blocks(text: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _split_commands(block: str) -> Iterator[str]:
    """Yield the commands of a shell block, each on one line without its comment."""
    for line in block.splitlines():
        for part in re.split(r" && | \|\|? ", re.sub(r"\s#.*$", "", line)):
            if part.split()[:1] == ["rqtui"]:
                yield part.strip()


def is_command_accepted(line: str) -> bool:
    """Return whether rqtui accepts a command line. `--help` after its words prevents the command from running."""
    program, *arguments = shlex.split(line)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    result = shell(_NOWHERE, *arguments[:at], "--help", *arguments[at:])
    return program == "rqtui" and result.code == 0 and "Usage" in result.out
