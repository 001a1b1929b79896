"""The generated tables of the README: keys, and what each layout can do. `python tests/readme_tables.py` rewrites them.

`test_readme.py` fails when they are stale.
"""

from __future__ import annotations

import re
from pathlib import Path

from rqtui import layouts
from rqtui.tui import keys
from rqtui.verbs import VERBS

README = Path(__file__).resolve().parent.parent / "README.md"


def keys_table() -> str:
    """Every key with what it does."""
    rows = ["| key | does | where |", "|---|---|---|"]
    for look in keys.looks():
        name = keys.shown(look.keys).replace("|", "\\|")
        rows.append(f"| `{name}` | {look.help} | {', '.join(look.screens) or 'everywhere'} |")
    for key in keys.VERB_KEYS:
        for verb in keys.verbs_of(key):
            takes = ", ".join(verb.takes) or f"the {verb.scope}"
            rows.append(f"| `{key}` | {verb.label}{' (asks first)' if verb.danger else ''} | {takes} |")
    return "\n".join(rows)


def verbs_table() -> str:
    """Layout × verb: from which places to which, as the headers of the scripts say."""
    systems = [layouts.make(name) for name in layouts.names()]
    rows = ["| verb | " + " | ".join(system.name for system in systems) + " |", "|---|" + "---|" * len(systems)]
    for verb in VERBS:
        cells = [_moves(system.scripts[verb.name]) if verb.name in system.scripts else "–" for system in systems]
        if any(cell != "–" for cell in cells):
            rows.append(f"| `{verb.name}` | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _moves(script: object) -> str:
    moves = [
        f"{' '.join(move.sources)} → {' or '.join([*move.targets, *(['gone'] if move.leaves else [])])}".strip()
        for move in script.moves  # type: ignore[attr-defined]
    ]
    return "; ".join(moves) or "✓"


TABLES = {"keys": keys_table, "verbs": verbs_table}


def written(text: str) -> str:
    """The README with its tables as they should be."""
    for name, table in TABLES.items():
        pattern = rf"(<!-- {name}: [^\n]* -->\n).*?(<!-- end -->)"
        made = table()
        text, found = re.subn(pattern, lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text, flags=re.DOTALL)
        if found != 1:
            raise SystemExit(f"README.md has no place for the table of {name}")
    return text


if __name__ == "__main__":
    README.write_text(written(README.read_text("utf-8")), "utf-8")
