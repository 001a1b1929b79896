"""Test `new-system`: the package that it writes is complete and passes its own tests; bad names write nothing."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell import Ran, shell

from rqtui.cli.new_system import write_package
from rqtui.connection import embedded
from rqtui.system_base.system_lint import find_system_faults

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_new_system(*words: str) -> Ran:
    return shell("redis://127.0.0.1:1", "new-system", *words)


def test_the_package_has_the_new_name_everywhere(folder: Path) -> None:
    ran = run_new_system("tiny_jobs", "--json")
    document = json.loads(ran.out)
    assert (ran.code, document["layout"], document["folder"]) == (0, "tiny_jobs", "rqtui-tiny_jobs")
    package = folder / "rqtui-tiny_jobs"
    found = sorted(str(path.relative_to(package)) for path in package.rglob("*") if path.is_file())
    assert found == document["files"]
    assert {"pyproject.toml", "rqtui_tiny_jobs/__init__.py", "rqtui_tiny_jobs/lua/page.lua"} <= set(found)
    assert not [path for path in package.rglob("*") if path.is_file() and "jobbox" in path.read_text("utf-8").lower()]
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["entry-points"]["rqtui.systems"] == {"tiny_jobs": "rqtui_tiny_jobs:TinyJobsQueues"}


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    write_package("tiny_jobs", tmp_path / "p")
    yield tmp_path / "p"
    sys.modules.pop("rqtui_tiny_jobs", None)


def test_the_package_fits_its_scripts_and_texts(package: Path) -> None:
    spec = importlib.util.spec_from_file_location("rqtui_tiny_jobs", package / "rqtui_tiny_jobs/__init__.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert find_system_faults(module.TinyJobsQueues()) == []


@pytest.mark.slow
@pytest.mark.skipif(embedded.find_server_program() is None, reason="needs redis-server or valkey-server")
def test_the_package_passes_its_own_tests_even_if_it_has_the_name_of_a_class_of_rqtui(tmp_path: Path) -> None:
    package = tmp_path / "p"
    write_package("job", package)
    environment = {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{ROOT}"}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey", str(package)],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert " passed" in ran.stdout and "skipped" not in ran.stdout


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rq", "rq is a system already"),
        ("native", "native is a system already"),
        ("Tiny", "is no name of a system"),
        ("my-jobs", "; for example my_jobs"),
        ("tiny jobs", "is no name of a system"),
        ("../tiny", "is no name of a system"),
        ("class", "is no name of a system"),
        ("1tiny", "is no name of a system"),
        ("tiny_", "is no name of a system"),
        ("t" * 41, "is no name of a system"),
        ("", "is no name of a system"),
    ],
)
def test_a_name_that_no_system_can_have_writes_nothing(name: str, expected: str, folder: Path) -> None:
    ran = run_new_system(name)
    assert ran.code == 2 and expected in ran.err
    assert list(folder.iterdir()) == []


def test_an_existing_folder_is_not_touched(folder: Path) -> None:
    (folder / "mine").mkdir()
    ran = run_new_system("tiny", "--folder", "mine")
    assert ran.code == 2 and "mine exists already; name another folder with --folder." in ran.err
    assert list((folder / "mine").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_sentence(folder: Path) -> None:
    (folder / "file").write_text("x")
    ran = run_new_system("tiny", "--folder", "file/below")
    assert ran.code == 2 and "could not be written: Not a directory." in ran.err
