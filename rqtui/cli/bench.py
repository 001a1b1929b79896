"""Implement `bench`: measure rqtui's speed and memory on this machine with the modules in `benchmarks/own`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

import rqtui
from rqtui.cli.session import Session
from rqtui.errors import RqtuiError


def bench(
    session: Session,
    part: Annotated[
        str, typer.Argument(metavar="[engine|screen|systems|scale|many]", help="The part to measure.")
    ] = "engine",
) -> int:
    """Measure the speed and the memory use of rqtui on this machine.

    Example: rqtui bench engine --json
    """
    code: int = load_benchmarks().bench(part, as_json=session.as_json)
    return code


def load_benchmarks() -> ModuleType:
    """Import the benchmark package: `benchmarks/own` of a checkout, or `rqtui/benchmarks` of an installed wheel.

    Raises RqtuiError if neither exists.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    name, package = "rqtui.benchmarks", Path(rqtui.__file__).parent
    for folder in (package / "benchmarks", package.parent / "benchmarks" / "own"):
        spec = spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
        if spec is not None and spec.loader is not None and (folder / "__init__.py").is_file():
            sys.modules[name] = package_module = module_from_spec(spec)
            spec.loader.exec_module(package_module)
            return package_module
    raise RqtuiError("the measurements are not there; the installation is incomplete, install rqtui again.")
