"""Read and write `verdicts.toml`, the verdicts of the truth suite that are not right."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).with_name("verdicts.toml")
HEADER = """# The cells of the truth suite that are not right, and those that do not apply, by system and situation.
# `before`, `afterwards` and `once` are the ways of asking; a way that is not named is right. `why` is the reason.
"""
_WORDS = ("before", "afterwards", "once", "does_not_apply")
Cells = dict[str, dict[str, str]]
Verdicts = dict[str, dict[str, str]]


def load() -> dict[str, Cells]:
    """Return the cells that are not right, by system and situation."""
    document = tomllib.loads(FILE.read_text("utf-8"))
    return {system: cells for system, cells in document.items() if system != "situations"}


def load_titles() -> dict[str, str]:
    """Return the titles of the situations."""
    titles: dict[str, str] = tomllib.loads(FILE.read_text("utf-8"))["situations"]
    return titles


def keep_words(cell: Mapping[str, str]) -> dict[str, str]:
    """Return a cell without its reason."""
    return {name: cell[name] for name in _WORDS if name in cell}


def write(system: str, found: Verdicts) -> None:
    """Write the cells of one system.

    A reason stays while the verdicts of its cell stay; a new cell gets what was reported.
    """
    from truth.situations import SITUATIONS  # Imported late: the generator of the docs needs no Redis.

    cells = load() if FILE.exists() else {}
    before = cells.get(system, {})
    merged: Cells = {}
    for id, cell in found.items():
        merged[id] = keep_words(cell)
        if "does_not_apply" not in cell:
            is_same = id in before and keep_words(before[id]) == merged[id]
            merged[id]["why"] = before[id]["why"] if is_same else f"TODO: it reported {cell['reported']}"
    cells[system] = merged
    lines = [HEADER, "[situations]", *(f"{each.id} = {_quote(each.title)}" for each in SITUATIONS)]
    for name, its in sorted(cells.items()):
        lines += ["", f"[{name}]"]
        for id, cell in its.items():
            lines.append(f"{id} = {{{', '.join(f'{key} = {_quote(value)}' for key, value in cell.items())}}}")
    FILE.write_text("\n".join(lines) + "\n", "utf-8")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
