"""Build the generated tables of the docs: layers, keys, commands, verbs per system, scripts of the native queue.

`python tests/support/generated_tables.py` rewrites them.
`test_docs.py` fails when a page is stale.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import typer

from rqtui.cli import main
from rqtui.config import thresholds
from rqtui.engine import history as stats
from rqtui.engine.health import rules
from rqtui.scripts.script import Script
from rqtui.systems import registry
from rqtui.tui import keys
from rqtui.verbs import VERBS

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 76  # cells of the diagram of the layers


def build_keys_table() -> str:
    """Build the documentation table of all keys of the screen and what each does."""
    rows = ["| key | does | where |", "|---|---|---|"]
    for look in keys.list_general_keys():
        name = keys.format_keys(look.keys).replace("|", "\\|")
        rows.append(f"| `{name}` | {look.help} | {', '.join(look.screens) or 'everywhere'} |")
    for look in keys.REPLAY_KEYS:
        rows.append(f"| `{keys.format_keys(look.keys)}` | {look.help} | a recording (`rqtui replay`) |")
    for key in keys.VERB_KEYS:
        for verb in keys.find_verbs_on_key(key):
            takes = ", ".join(verb.takes) or f"the {verb.scope}"
            rows.append(
                f"| `{key}` | {verb.label}{' (asks first)' if verb.is_dangerous or verb.effect else ''} | {takes} |"
            )
    return "\n".join(rows)


def build_commands_tables() -> str:
    """Build the tables of command-line options: common options, options of the screen, options of each command."""
    group = typer.main.get_command(main.build_application())
    commands = {name: group.get_command(typer.Context(group), name) for name in main.COMMANDS}
    rows = {name: _build_option_rows(name, command) for name, command in commands.items()}
    of_all = [row for row in rows["snapshot"] if all(row in others or "--json" in row for others in rows.values())]
    of_screen = [row for row in _build_option_rows("", group) if row not in of_all]
    parts = [
        "### Every command",
        "",
        *_add_table_header(of_all),
        "",
        "### `rqtui [URL]`",
        "",
        *_add_table_header(of_screen),
    ]
    for name, command in commands.items():
        parts += ["", f"### `rqtui {name}`", "", _format_command_help(command.help or ""), ""]
        parts += _add_table_header([row for row in rows[name] if row not in of_all])
    return "\n".join(parts).rstrip()


def _build_option_rows(name: str, command: typer.core.TyperCommand) -> list[str]:
    """Build a table row for each argument and option of a command."""
    context = typer.Context(command, info_name=name)
    records = filter(None, (param.get_help_record(context) for param in command.params))
    cells = (
        (words.replace("|", "\\|"), " ".join(help_text.split()).replace("|", "\\|")) for words, help_text in records
    )
    return [f"| `{words}` | {help_text} |" for words, help_text in cells]


def _add_table_header(rows: list[str]) -> list[str]:
    return ["| takes | means |", "|---|---|", *rows] if rows else []


def _format_command_help(help: str) -> str:
    """Format the help of a command as Markdown paragraphs, with the example as a shell line."""
    paragraphs, _example, example = textwrap.dedent(help).strip().partition("Example: ")
    words = " ".join(paragraphs.split())
    return f"{words}\n\n```sh\n{example.strip()}\n```" if example else words


def build_verbs_table() -> str:
    """Build the table of verbs per system, with the places between which each verb moves jobs."""
    systems = [registry.create_system(name) for name in registry.list_system_names()]
    rows = ["| verb | " + " | ".join(system.name for system in systems) + " |", "|---|" + "---|" * len(systems)]
    for verb in VERBS:
        cells = [
            _format_script_moves(system.scripts[verb.name]) if verb.name in system.scripts else "–"
            for system in systems
        ]
        if any(cell != "–" for cell in cells):
            rows.append(f"| `{verb.name}` | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def build_known_verbs_table() -> str:
    """Build the table of the verbs that people can use, with the states from which each takes jobs, and its fields."""
    rows = ["| script | acts on | fields of its form |", "|---|---|---|"]
    for verb in VERBS:
        if not verb.script:
            acts_on = f"jobs that are {', '.join(verb.takes)}" if verb.takes else f"a {verb.scope}"
            fields = ", ".join(f"`{field.name}`" for field in verb.form if field.verb in ("", verb.name))
            rows.append(f"| `{verb.name}` | {acts_on} | {fields} |")
    return "\n".join(rows)


def build_native_table() -> str:
    """Build the table of the native queue's scripts: what each does, and between which places jobs move."""
    scripts = registry.create_system("native").scripts
    order = {verb.name: number for number, verb in enumerate(VERBS)}
    rows = ["| script | from → to | does |", "|---|---|---|"]
    for script in sorted(scripts.values(), key=lambda script: (script.read_only, order.get(script.name, len(order)))):
        moves = "reads only" if script.read_only else _format_script_moves(script) if script.moves else ""
        rows.append(f"| `{script.name}` | {moves} | {script.summary} |")
    return "\n".join(rows)


def build_counters_list() -> str:
    """Build the list of the counters of the native queue."""
    return "\n".join(
        textwrap.wrap(f"`{' '.join(sorted(stats.list_counter_names(registry.create_system('native'))))}`", 120)
    )


def _format_script_moves(script: Script) -> str:
    away = "another queue" if script.moves_to_queue else "gone"
    moves = [
        f"{' '.join(move.sources)} → {' or '.join([*move.targets, *([away] if move.leaves else [])])}".strip()
        for move in script.moves
    ]
    return "; ".join(moves) or "✓"


def build_layers_table() -> str:
    """Build a diagram and a table of modules for each import contract about layers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    tables = [
        _build_layer_rows(container, contract["layers"])
        for contract in contracts
        if contract["type"] == "layers"
        for container in contract["containers"]
    ]
    return "\n\n".join(tables)


def _build_layer_rows(container: str, layers: list[str]) -> str:
    beam = "├" + "─" * WIDTH + "┤"
    lines = ["\n".join(f"│{line:^{WIDTH}}│" for line in textwrap.wrap(layer, WIDTH - 2)) for layer in layers]
    diagram = ["```", beam.replace("├", "┌").replace("┤", "┐"), f"\n{beam}\n".join(lines)]
    diagram += [beam.replace("├", "└").replace("┤", "┘"), "```"]
    modules = [name.strip("() ") for layer in layers for name in re.split("[:|]", layer)]
    rows = [f"| `{name}` | {_read_module_summary(container, name)} |" for name in modules]
    return "\n".join([f"### `{container}`", "", *diagram, "", "| module | owns |", "|---|---|", *rows])


def _read_module_summary(container: str, name: str) -> str:
    """Return the first line of the docstring of a package or module."""
    path = ROOT.joinpath(*f"{container}.{name}".split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").splitlines()[0].replace("|", "\\|")


def build_kinds_table() -> str:
    """Build the table of finding kinds: those of queues and the server, then those in the systems' `faults.toml`."""
    rows = [
        "| kind | found where |",
        "|---|---|",
        *(f"| `{kind}` | {text} |" for kind, text in rules.FINDING_KINDS.items()),
    ]
    systems: dict[str, set[str]] = {}
    for name in registry.list_system_names():
        path = registry.create_system(name).scripts.path / "faults.toml"
        for kind in tomllib.loads(path.read_text("utf-8")) if path.is_file() else ():
            systems.setdefault(kind.partition(":")[0].replace("_", "-"), set()).add(name)
    for kind in sorted(systems.keys() - rules.FINDING_KINDS.keys()):
        rows.append(f"| `{kind}` | reported only by {', '.join(sorted(systems[kind]))} |")
    return "\n".join(rows)


def build_thresholds_table() -> str:
    """Build the documentation table of health thresholds with their defaults."""
    rows = ["| key | about | warning | critical |", "|---|---|---|---|"]
    for name, rule in thresholds.RULES.items():
        limits = [
            rule.unit.format(each) if each is not None else "never" for each in getattr(thresholds.DEFAULTS, name)
        ]
        unit = " %" if rule.unit is thresholds.PERCENT else ""
        cells = " | ".join(f"{limit}{unit if limit != 'never' else ''}" for limit in limits)
        rows.append(f"| `{name}` | {rule.means} | {cells} |")
    return "\n".join(rows)


WAYS = {"before": "screen open before", "afterwards": "screen opened afterwards", "once": "one `rqtui health`"}
VERDICTS = ("missed", "false", "unknown")


def build_truth_tables() -> str:
    """Build the tables of the truth suite: verdicts per system and way of asking, and the cells that are not right."""
    document = tomllib.loads((ROOT / "tests" / "truth" / "verdicts.toml").read_text("utf-8"))
    titles: dict[str, str] = document.pop("situations")
    rows = ["| system | asked by | situations | right | missed | false | unknown |", "|---|---|---|---|---|---|---|"]
    for system, cells in document.items():
        number = len(titles) - sum("does_not_apply" in cell for cell in cells.values())
        for way, name in WAYS.items():
            found = [sum(cell.get(way) == verdict for cell in cells.values()) for verdict in VERDICTS]
            rows.append(f"| {system} | {name} | {number} | {number - sum(found)} | {' | '.join(map(str, found))} |")
    rows += [
        "",
        "Cells that are not right:",
        "",
        "| situation | system | asked by | verdict | why |",
        "|---|---|---|---|---|",
    ]
    for id, title in titles.items():
        for system, cells in document.items():
            cell = cells.get(id, {})
            for verdict in VERDICTS:
                ways = ", ".join(name for way, name in WAYS.items() if cell.get(way) == verdict)
                if ways:
                    rows.append(f"| {id}: {title} | {system} | {ways} | {verdict} | {cell['why']} |")
    rows += ["", "Situations that do not apply:", "", "| situation | systems |", "|---|---|"]
    for id in titles:
        reasons: dict[str, list[str]] = {}
        for system, cells in document.items():
            if reason := cells.get(id, {}).get("does_not_apply"):
                reasons.setdefault(reason, []).append(system)
        if reasons:
            rows.append(f"| {id} | {'; '.join(', '.join(its) + ': ' + reason for reason, its in reasons.items())} |")
    return "\n".join(rows)


def build_system_attributes_table() -> str:
    """Build the table of the class attributes of a system, from the comment above or behind each in the source."""
    rows, listed = ["| attribute | default | what it switches on |", "|---|---|---|"], set()
    for path, name in (("system_base/system.py", "System"), ("system_base/foreign_system.py", "ForeignSystem")):
        for attribute, default, comment in _read_attributes(ROOT / "rqtui" / path, name):
            if attribute in listed:
                continue  # only the default differs
            listed.add(attribute)
            rows.append(f"| `{attribute}` | {f'`{default}`' if default else 'needed'} | {comment} |")
    return "\n".join(rows)


def build_fields_table(class_name: str) -> str:
    """Build the table of the fields of a class in `model.py`, from the comment above or behind each in the source."""
    rows = ["| field | default | meaning |", "|---|---|---|"]
    for field, default, comment in _read_attributes(ROOT / "rqtui" / "model.py", class_name):
        rows.append(f"| `{field}` | {f'`{default}`' if default else 'needed'} | {comment} |")
    return "\n".join(rows)


def build_system_methods_table() -> str:
    """Build the table of the methods that the class of a system may have, from their docstrings.

    Methods that only a `System` without `ForeignSystem` has to write are left out.
    """
    foreign = _read_methods(ROOT / "rqtui/system_base/foreign_system.py", "ForeignSystem")
    own = _read_methods(ROOT / "rqtui/system_base/system.py", "System", "hooks that a subclass implements")
    entry = _read_methods(ROOT / "rqtui/system_base/foreign_system.py", "EntrySystem")
    methods = [method for method in own if method.name not in {method.name for method in foreign}]
    methods += [method for method in foreign if method.section == "what a subclass says"]
    methods += [method for method in entry if method.name in ("decode_entry", "extract_body")]
    rows = ["| method | needed | what it does |", "|---|---|---|"]
    for method in methods:
        needed = _METHOD_NEEDS.get(method.name, "always" if method.is_needed else "")
        rows.append(f"| `{method.signature}` | {needed} | {method.text} |")
    return "\n".join(rows)


_METHOD_NEEDS = {
    "decode": "of a `ForeignSystem`",
    "decode_entry": "of an `EntrySystem`",
    "extract_body": "an `EntrySystem` may have it",
    "rewrite_member": "if a script has the column `new`",
}


class _Method(NamedTuple):
    owner: str
    name: str
    signature: str
    text: str  # its docstring
    is_needed: bool  # the class raises NotImplementedError
    section: str  # the title of the comment `# -- title ---` above it


def _read_methods(path: Path, class_name: str, section: str = "") -> list[_Method]:
    """Return the public methods of a class with a docstring, in the order of the source; only those of one section."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    [found] = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == class_name]
    methods = []
    for node in found.body:
        document = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
        if not isinstance(node, ast.FunctionDef) or document is None or node.name.startswith("_"):
            continue
        titles = [line.strip("- #") for line in lines[: node.lineno] if line.startswith("    # -- ")]
        names = ", ".join(each.arg for each in node.args.args[1:])
        is_property = any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)
        summary = " ".join(document.split()).replace("|", "\\|")
        is_needed = ast.unparse(node.body[-1]) == "raise NotImplementedError"
        title = titles[-1] if titles else ""
        if not is_property and section in ("", title):
            methods.append(_Method(class_name, node.name, f"{node.name}({names})", summary, is_needed, title))
    return methods


def _read_attributes(path: Path, class_name: str) -> list[tuple[str, str, str]]:
    """Return the name, the default (empty: none) and the comment of each annotated attribute of a class."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    module = ast.parse(text).body
    [found] = [node for node in module if isinstance(node, ast.ClassDef) and node.name == class_name]
    constants = {
        ast.unparse(node.targets[0]): ast.unparse(node.value) for node in module if isinstance(node, ast.Assign)
    }
    attributes = []
    for node in found.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            _code, _hash, behind = lines[last - 1].partition("  # ")
            above = []
            while lines[first - 1].startswith("    # "):
                first -= 1
                above.insert(0, lines[first].removeprefix("    # "))
            default = ast.unparse(node.value) if node.value is not None else ""
            default = constants.get(default, default)
            if len(default) > 40:
                default = "…"
            comment = (" ".join(above) or behind).replace("|", "\\|")
            if not comment:
                raise SystemExit(f"{path.relative_to(ROOT)}:{node.lineno}: {node.target.id} needs a comment")
            attributes.append((node.target.id, default, comment))
    return attributes


TABLES: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    ROOT / "docs" / "architecture.md": {"layers": build_layers_table},
    ROOT / "docs" / "commands.md": {"commands": build_commands_tables},
    ROOT / "docs" / "health.md": {
        "kinds": build_kinds_table,
        "thresholds": build_thresholds_table,
        "truth": build_truth_tables,
    },
    ROOT / "docs" / "keys.md": {"keys": build_keys_table},
    ROOT / "docs" / "systems" / "README.md": {"verbs": build_verbs_table},
    ROOT / "docs" / "writing-a-system.md": {
        "verbs": build_known_verbs_table,
        "attributes": build_system_attributes_table,
        "methods": build_system_methods_table,
        "fields": partial(build_fields_table, "Job"),
        "place": partial(build_fields_table, "Place"),
        "worker": partial(build_fields_table, "Worker"),
    },
    ROOT / "lua" / "README.md": {"native": build_native_table, "counters": build_counters_list},
}


def render_page(page: Path) -> str:
    """Return the text of a documentation page with its generated tables rebuilt."""
    text = page.read_text("utf-8")
    for name, table in TABLES[page].items():
        pattern = rf"(<!-- {name}: [^\n]* -->\n).*?(<!-- end -->)"
        content = table()
        text, count = re.subn(
            pattern, lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text, flags=re.DOTALL
        )
        if count != 1:
            raise SystemExit(f"{page.relative_to(ROOT)} has no place for the table of {name}")
    return text


if __name__ == "__main__":
    for page in TABLES:
        page.write_text(render_page(page), "utf-8")
