"""Implement `script`: print complete Lua scripts, for redis-cli and other languages, without connecting to Redis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from rqtui.cli import output
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import UsageError
from rqtui.scripts.script import Script, load_scripts


def script(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="[SYSTEM/VERB]", help="The script.")] = "",
    folder: Annotated[
        Path | None, typer.Option("--all", metavar="DIR", help="Write every script there, as DIR/SYSTEM/VERB.lua.")
    ] = None,
) -> int:
    """Print the complete Lua script of a verb, with its header and its blocks; needs no Redis.

    Example: rqtui script native/promote
    """
    from rqtui.systems import registry

    if bool(name) == (folder is not None):
        raise UsageError("script takes SYSTEM/VERB, or --all DIR; `rqtui systems` lists the systems and their verbs.")
    systems, left_out = registry.create_all_systems()
    folders: dict[str, Mapping[str, Script]] = {system.name: system.scripts for system in systems}
    folders["shared"] = load_scripts("shared")
    for sentence in left_out:
        output.print_message(sentence)
    if folder is None:
        output.write_bytes(_find_bundled_script(folders, name).source.encode())
        return DONE
    number = _write_script_files(folders, folder)
    output.print_message(f"wrote {number} scripts to {folder}.")
    return REFUSED if left_out else DONE


def _find_bundled_script(folders: Mapping[str, Mapping[str, Script]], name: str) -> Script:
    system, _, verb = name.partition("/")
    if system not in folders:
        raise UsageError(f"there is no system {system}; the systems: {', '.join(folders)}.")
    if verb not in folders[system]:
        raise UsageError(f"{name} is no script; those of {system}: {', '.join(folders[system])}.")
    return folders[system][verb]


def _write_script_files(folders: Mapping[str, Mapping[str, Script]], folder: Path) -> int:
    """Write each script to FOLDER/SYSTEM/VERB.lua and return the number of files. Existing files are overwritten."""
    try:
        for system, scripts in folders.items():
            (folder / system).mkdir(parents=True, exist_ok=True)
            for verb, script in scripts.items():
                (folder / system / f"{verb}.lua").write_bytes(script.source.encode())
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}.") from error
    return sum(map(len, folders.values()))
