"""The generated tables of the pages: floors, keys, commands, what each layout can do, the scripts of the native queue.

`python tests/support/generated_tables.py` rewrites them.

`test_docs.py` fails when a page is stale.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import typer

from rqtui.cli import main
from rqtui.config import thresholds
from rqtui.engine import health
from rqtui.engine import history as stats
from rqtui.scripts.script import Script
from rqtui.systems import registry
from rqtui.tui import keys
from rqtui.verbs import VERBS

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 76  # cells of the picture of the floors


def keys_table() -> str:
    """Every key with what it does."""
    rows = ["| key | does | where |", "|---|---|---|"]
    for look in keys.looks():
        name = keys.shown(look.keys).replace("|", "\\|")
        rows.append(f"| `{name}` | {look.help} | {', '.join(look.screens) or 'everywhere'} |")
    for key in keys.VERB_KEYS:
        for verb in keys.verbs_of(key):
            takes = ", ".join(verb.takes) or f"the {verb.scope}"
            rows.append(f"| `{key}` | {verb.label}{' (asks first)' if verb.danger or verb.effect else ''} | {takes} |")
    return "\n".join(rows)


def commands_tables() -> str:
    """Every command with its options, behind those that all have and those of the screen."""
    group = typer.main.get_command(main.application())
    found = {name: group.get_command(typer.Context(group), name) for name in main.COMMANDS}
    rows = {name: _options(name, command) for name, command in found.items()}
    of_all = [row for row in rows["snapshot"] if all(row in others or "--json" in row for others in rows.values())]
    of_screen = [row for row in _options("", group) if row not in of_all]
    parts = ["### Every command", "", *_option_rows(of_all), "", "### `rqtui [URL]`", "", *_option_rows(of_screen)]
    for name, command in found.items():
        parts += ["", f"### `rqtui {name}`", "", _said(command.help or ""), ""]
        parts += _option_rows([row for row in rows[name] if row not in of_all])
    return "\n".join(parts).rstrip()


def _options(name: str, command: typer.core.TyperCommand) -> list[str]:
    """A row per argument and option."""
    context = typer.Context(command, info_name=name)
    records = filter(None, (param.get_help_record(context) for param in command.params))
    cells = ((words.replace("|", "\\|"), " ".join(told.split()).replace("|", "\\|")) for words, told in records)
    return [f"| `{words}` | {told} |" for words, told in cells]


def _option_rows(rows: list[str]) -> list[str]:
    return ["| takes | means |", "|---|---|", *rows] if rows else []


def _said(help: str) -> str:
    """The paragraphs of a command's help, and its example as a line of a shell."""
    told, _line, example = textwrap.dedent(help).strip().partition("Example: ")
    words = " ".join(told.split())
    return f"{words}\n\n```sh\n{example.strip()}\n```" if example else words


def verbs_table() -> str:
    """Layout × verb: from which places to which, as the headers of the scripts say."""
    systems = [registry.make(name) for name in registry.names()]
    rows = ["| verb | " + " | ".join(system.name for system in systems) + " |", "|---|" + "---|" * len(systems)]
    for verb in VERBS:
        cells = [_moves(system.scripts[verb.name]) if verb.name in system.scripts else "–" for system in systems]
        if any(cell != "–" for cell in cells):
            rows.append(f"| `{verb.name}` | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def native_table() -> str:
    """Every script of the native queue: from which places to which, and what it does."""
    found = registry.make("native").scripts
    order = {verb.name: number for number, verb in enumerate(VERBS)}
    rows = ["| script | from → to | does |", "|---|---|---|"]
    for script in sorted(found.values(), key=lambda script: (script.read_only, order.get(script.name, len(order)))):
        moves = "reads only" if script.read_only else _moves(script) if script.moves else ""
        rows.append(f"| `{script.name}` | {moves} | {script.summary} |")
    return "\n".join(rows)


def counters() -> str:
    """What the scripts of the native queue count."""
    return "\n".join(textwrap.wrap(f"`{' '.join(sorted(stats.counters(registry.make('native'))))}`", 120))


def _moves(script: Script) -> str:
    moves = [
        f"{' '.join(move.sources)} → {' or '.join([*move.targets, *(['gone'] if move.leaves else [])])}".strip()
        for move in script.moves
    ]
    return "; ".join(moves) or "✓"


def floors_table() -> str:
    """Each house of the layers contracts: a picture of its floors, and what each room owns."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    made = [
        _house(container, contract["layers"])
        for contract in contracts
        if contract["type"] == "layers"
        for container in contract["containers"]
    ]
    return "\n\n".join(made)


def _house(container: str, layers: list[str]) -> str:
    beam = "├" + "─" * WIDTH + "┤"
    lines = ["\n".join(f"│{line:^{WIDTH}}│" for line in textwrap.wrap(layer, WIDTH - 2)) for layer in layers]
    picture = ["```", beam.replace("├", "┌").replace("┤", "┐"), f"\n{beam}\n".join(lines)]
    picture += [beam.replace("├", "└").replace("┤", "┘"), "```"]
    rooms = [name.strip("() ") for layer in layers for name in re.split("[:|]", layer)]
    rows = [f"| `{name}` | {_owns(container, name)} |" for name in rooms]
    return "\n".join([f"### `{container}`", "", *picture, "", "| room | owns |", "|---|---|", *rows])


def _owns(container: str, name: str) -> str:
    """The first line of the docstring of a package or module."""
    path = ROOT.joinpath(*f"{container}.{name}".split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").splitlines()[0].replace("|", "\\|")


def kinds_table() -> str:
    """Every kind of finding: about a queue and the server, then those of the systems, by their `faults.toml`."""
    rows = ["| kind | found where |", "|---|---|", *(f"| `{kind}` | {text} |" for kind, text in health.KINDS.items())]
    found: dict[str, set[str]] = {}
    for name in registry.names():
        path = registry.make(name).scripts.path / "faults.toml"
        for kind in tomllib.loads(path.read_text("utf-8")) if path.is_file() else ():
            found.setdefault(kind.partition(":")[0].replace("_", "-"), set()).add(name)
    for kind in sorted(found.keys() - health.KINDS.keys()):
        rows.append(f"| `{kind}` | a fault of {', '.join(sorted(found[kind]))}, in its own words |")
    return "\n".join(rows)


def thresholds_table() -> str:
    """Every threshold with its defaults."""
    rows = ["| key | about | warning | critical |", "|---|---|---|---|"]
    for name, rule in thresholds.RULES.items():
        limits = [
            rule.unit.written(each) if each is not None else "never" for each in getattr(thresholds.DEFAULTS, name)
        ]
        unit = " %" if rule.unit is thresholds.PERCENT else ""
        told = " | ".join(f"{limit}{unit if limit != 'never' else ''}" for limit in limits)
        rows.append(f"| `{name}` | {rule.means} | {told} |")
    return "\n".join(rows)


TABLES: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    ROOT / "docs" / "architecture.md": {"floors": floors_table},
    ROOT / "docs" / "commands.md": {"commands": commands_tables},
    ROOT / "docs" / "health.md": {"kinds": kinds_table, "thresholds": thresholds_table},
    ROOT / "docs" / "keys.md": {"keys": keys_table},
    ROOT / "docs" / "systems" / "README.md": {"verbs": verbs_table},
    ROOT / "lua" / "README.md": {"native": native_table, "counters": counters},
}


def written(page: Path) -> str:
    """The page with its tables as they should be."""
    text = page.read_text("utf-8")
    for name, table in TABLES[page].items():
        pattern = rf"(<!-- {name}: [^\n]* -->\n).*?(<!-- end -->)"
        made = table()
        text, found = re.subn(pattern, lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text, flags=re.DOTALL)
        if found != 1:
            raise SystemExit(f"{page.relative_to(ROOT)} has no place for the table of {name}")
    return text


if __name__ == "__main__":
    for page in TABLES:
        page.write_text(written(page), "utf-8")
