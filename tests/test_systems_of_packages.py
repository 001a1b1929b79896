"""A package that brings a system, as a person installs it: `tests/packages/rqtui-hotqueue`, beside rqtui's own wheel.

Not part of a plain `pytest`: `pytest -m packaging`. `docs/writing-a-system.md` leads through that package.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tests" / "packages" / "rqtui-hotqueue"
TEMPLATE = ROOT / "rqtui" / "scaffold" / "rqtui-jobbox"
PAGE = ROOT / "docs" / "writing-a-system.md"


def test_the_files_shown_on_the_page_are_in_the_packages() -> None:
    blocks = re.findall(r"```(?:python|toml|lua)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    files = [file for folder in (PACKAGE, TEMPLATE) for file in folder.rglob("*")]
    texts = [file.read_text("utf-8") for file in files if file.suffix in (".py", ".toml", ".lua")]
    assert len(blocks) >= 10
    for block in blocks:
        for part in block.strip().split("\n…\n"):
            assert any(part.strip() in text for text in texts), part


@pytest.mark.packaging
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("hatchling", "pip")), reason="needs pip and hatchling"
)
def test_a_package_brings_a_system_to_an_installed_rqtui(client: Redis, url: str, tmp_path: Path) -> None:
    from test_packaging import _installed, _run

    package = tmp_path / "rqtui-hotqueue"
    shutil.copytree(PACKAGE, package)
    for source in (ROOT, package):
        _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=source)
    wheels = [str(wheel) for wheel in sorted(tmp_path.glob("*.whl"))]
    assert len(wheels) == 2
    python = _installed(wheels, tmp_path / "venv")
    rqtui = python.parent / "rqtui"
    entries_by_layout = {
        each["layout"]: each["package"] for each in json.loads(_run(rqtui, "layouts", "--json", cwd=tmp_path))
    }
    assert entries_by_layout["hotqueue"] == "rqtui-hotqueue 1.0" and entries_by_layout["rq"] is None
    client.rpush("hotqueue:mail", "x")
    [queue] = json.loads(_run(rqtui, "--url", url, "snapshot", "--json", cwd=tmp_path))["queues"]
    assert (queue["queue"], queue["layout"], queue["places"][0]["count"]) == ("mail", "hotqueue", 1)
    _run(rqtui, "--url", url, "put", "hotqueue:mail", '{"to": "ada"}', cwd=tmp_path)
    assert client.llen("hotqueue:mail") == 2
    imported = subprocess.run(
        [python, "-X", "importtime", "-m", "rqtui", "--version"], cwd=tmp_path, capture_output=True, text=True
    )
    assert imported.returncode == 0 and "rqtui_hotqueue" not in imported.stderr
    assert "importlib.metadata" not in imported.stderr and "rqtui.systems" not in imported.stderr
    tests = _run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey", "tests", cwd=package)
    assert "6 passed" in tests
