"""Implement `new-system`: write a Python package that teaches rqtui another queue system, without connecting to Redis.

The package is a copy of `rqtui/scaffold/rqtui-jobbox` under another name. It works as it is: its tests pass, and rqtui
shows the queues of the example system under the new name.
"""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from rqtui.cli import output
from rqtui.cli.session import DONE, Session
from rqtui.errors import UsageError

# The names that the copy replaces. The class is called `JobboxQueues`: a system called job would otherwise have a class
# `Job`, which hides the `Job` that the template imports.
_TEMPLATE, _TITLE = "jobbox", "Jobbox"
_NAME = re.compile(r"[a-z](?:[a-z0-9_]{0,38}[a-z0-9])?", re.ASCII)  # pip refuses a name that ends with _
_SUFFIXES = (".py", ".lua", ".toml", ".md")  # others are no files of the template, such as compiled modules


def new_system(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the system, such as tiny_jobs.")],
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="The new folder; by default ./rqtui-NAME.")
    ] = None,
) -> int:
    """Write a package that teaches rqtui another queue system, with scripts and tests; needs no Redis.

    Example: rqtui new-system tiny_jobs
    """
    target = folder if folder is not None else Path(f"rqtui-{name}")
    check_system_name(name)
    if target.exists():
        raise UsageError(f"{target} exists already; name another folder with --folder.")
    written = write_package(name, target)
    if session.as_json:
        output.write_json({"layout": name, "folder": str(target), "files": written})
        return DONE
    output.write_lines(
        [
            f"{target}: a package with {len(written)} files, which shows the queues of an example system as {name}",
            "Next:",
            f"  cd {target} && pip install -e '.[test]'",
            f"  rqtui systems --check {name} && pytest",
            "Then change it to the keys of the real system; README.md lists the steps.",
        ]
    )
    return DONE


def check_system_name(name: str) -> None:
    """Raise UsageError unless a new system can have this name: a word in lower case that no other system has."""
    from rqtui.systems import registry

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        usable = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")
        hint = f"; for example {usable}" if _NAME.fullmatch(usable) and not keyword.iskeyword(usable) else ""
        raise UsageError(
            f"{name!r:.60} is no name of a system: use 1 to 40 of a-z, 0-9 and _, a letter first and no _ last{hint}."
        )
    if name in registry.list_system_names():
        raise UsageError(f"{name} is a system already; `rqtui systems` lists all.")


def write_package(name: str, target: Path) -> list[str]:
    """Write a copy of the template for the system `name` into the new folder `target`.

    Returns the paths of the files in `target`, sorted. Raises UsageError if a file cannot be written.
    """
    title = "".join(word.capitalize() for word in name.split("_"))
    written = []
    try:
        for path, source in _list_template_files(files("rqtui") / "scaffold" / f"rqtui-{_TEMPLATE}", ""):
            new_path = path.replace(_TEMPLATE, name)
            text = source.read_text("utf-8").replace(_TEMPLATE, name).replace(_TITLE, title)
            file = target / new_path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
            written.append(new_path)
    except OSError as error:
        raise UsageError(f"{target} could not be written: {error.strerror or error}.") from None
    return sorted(written)


def _list_template_files(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    """Return the files below a folder of the template, each with its path there."""
    found = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            found += _list_template_files(entry, f"{path}/")
        elif entry.name.endswith(_SUFFIXES):
            found.append((path, entry))
    return found
