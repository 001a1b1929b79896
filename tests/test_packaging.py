"""The scripts and the benchmarks are found wherever rqtui is run from: wheel, sdist, editable install, checkout.

Not part of a plain `pytest`: `pytest -m packaging` builds the packages and installs each into a throwaway virtual
environment, which borrows the dependencies of the running one.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = sorted({path.parent.name for path in (ROOT / "lua").glob("*/*.lua")})
SCRIPTS = sorted(f"{path.parent.name}/{path.stem}" for path in (ROOT / "lua").glob("*/*.lua"))

LOAD = """
import sys
from rqtui.scripts import script as scripts
print(scripts.__file__, file=sys.stderr)
for folder in sys.argv[1:]:
    for name, script in scripts.load_scripts(folder).items():
        assert "-- include:" not in script.source
        print(f"{folder}/{name}")
"""

MEASURE = """
import importlib, sys
from rqtui.cli.bench import load_benchmarks
found = load_benchmarks()
print(found.__file__, file=sys.stderr)
for part in ("screen", "systems"):
    assert importlib.import_module(f"{found.__name__}.{part}").MEASURES
sys.exit(found.bench("engine", as_json=True, server="fake", scale=0.001))
"""

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("hatchling", "pip")),
        reason="needs pip and hatchling: pip install -e '.[dev]'",
    ),
]


def _run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the sdist, and return their folder."""
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


def _installed(what: list[str], folder: Path) -> Path:
    """Install a package into a new virtual environment without dependencies, and return its Python."""
    _run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=ROOT)
    python = folder / "bin" / "python"
    site = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    # Behind the environment's own folder, and its .pth files are not read: our own editable install stays hidden.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n" + sysconfig.get_path("platlib") + "\n")
    pip = (sys.executable, "-m", "pip", "--python", python)
    _run(*pip, "install", "-q", "--no-deps", "--no-index", "--no-build-isolation", *what, cwd=folder)
    return python


def _loaded(python: Path | str, cwd: Path) -> list[str]:
    return sorted(_run(python, "-c", LOAD, *FOLDERS, cwd=cwd).split())


def _measured(python: Path | str, cwd: Path) -> list[str]:
    """Return the names of what a short `rqtui bench engine` measured."""
    return [line["name"] for line in json.loads(_run(python, "-c", MEASURE, cwd=cwd))["results"]]


@pytest.mark.parametrize("kind", ["wheel", "sdist", "editable"])
def test_every_script_loads_and_every_bench_runs_from(kind: str, built: Path, tmp_path: Path) -> None:
    what = {
        "wheel": lambda: [str(next(built.glob("*.whl")))],
        "sdist": lambda: [str(next(built.glob("*.tar.gz")))],
        "editable": lambda: ["-e", str(ROOT)],
    }[kind]()
    python = _installed(what, tmp_path / "venv")
    assert _loaded(python, tmp_path) == SCRIPTS
    version = _run(python.parent / "rqtui", "--version", cwd=tmp_path)
    assert "0." in version
    _run(python.parent / "rqtui", "new-system", "tiny", cwd=tmp_path)
    assert (tmp_path / "rqtui-tiny/rqtui_tiny/lua/page.lua").is_file()
    assert "drain of no-op jobs, one process" in _measured(python, tmp_path)
    refused = subprocess.run(
        [python.parent / "rqtui", "bench", "weather"], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 2 and "engine, screen, systems" in refused.stderr


def test_every_script_loads_and_every_bench_runs_from_a_checkout() -> None:
    assert _loaded(sys.executable, ROOT) == SCRIPTS
    assert "drain of no-op jobs, one process" in _measured(sys.executable, ROOT)


def test_the_wheel_holds_the_scripts_the_types_the_style_sheet_and_the_benches(built: Path) -> None:
    names = set(zipfile.ZipFile(next(built.glob("*.whl"))).namelist())
    words = {f"rqtui/{path.relative_to(ROOT)}" for path in (ROOT / "lua").rglob("*.toml")}
    words |= {f"rqtui/{path.relative_to(ROOT)}" for path in (ROOT / "lua").rglob("blocks/*.lua")}
    scaffold = ROOT / "rqtui" / "scaffold"
    template = {
        str(path.relative_to(ROOT)) for path in scaffold.rglob("*.*") if path.suffix in (".py", ".lua", ".toml")
    }
    assert len(template) > 15
    assert words and {f"rqtui/lua/{script}.lua" for script in SCRIPTS} | words | {"rqtui/py.typed"} | template <= names
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "rqtui").rglob("*.tcss")}
    assert shipped <= names and not any(name.startswith(("tests/", "lua/", "benchmarks/")) for name in names)
    own = ROOT / "benchmarks" / "own"
    stored = [path.relative_to(own) for path in own.rglob("*.*") if path.suffix in (".py", ".rb", ".js")]
    measuring = {f"rqtui/benchmarks/{path.as_posix()}" for path in stored}
    assert {name for name in names if name.startswith("rqtui/benchmarks/")} == measuring
