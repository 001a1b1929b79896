"""Test `.ci/audit.py`: a vulnerability fails, and a package that was not audited is never reported as fine."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "audit.py"
FINE = {"name": "rich", "version": "15.0", "vulns": []}
UNKNOWN = {"name": "textual", "skip_reason": "Dependency not found on PyPI and could not be audited: textual (8.2)"}
BAD = {"name": "redis", "version": "4.5", "vulns": [{"id": "CVE-2023-28858", "fix_versions": ["4.5.3"]}]}


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("packages", "code", "says_not_audited"),
    [([FINE], 0, False), ([FINE, UNKNOWN], 0, True), ([UNKNOWN], 0, True), ([], 0, True), ([UNKNOWN, BAD], 1, True)],
)
def test_a_finding_fails_and_what_was_not_audited_is_reported(
    audit: ModuleType, packages: list[dict[str, Any]], code: int, says_not_audited: bool
) -> None:
    # pip-audit itself ends with 0 for what it does not know
    program = f"print({json.dumps({'dependencies': packages, 'fixes': []})!r})"
    lines, ended = audit.audit_packages([sys.executable, "-c", program])
    assert ended == code and (audit.NOT_AUDITED in " ".join(lines)) is says_not_audited
    assert code == 0 or any("CVE-2023-28858" in line and "4.5.3" in line for line in lines)


@pytest.mark.parametrize("program", ["raise SystemExit('no network')", "print('{}')", "print('[]')", "print('null')"])
def test_without_a_document_nothing_is_reported_as_audited(audit: ModuleType, program: str) -> None:
    lines, ended = audit.audit_packages([sys.executable, "-c", program])
    assert ended == 0 and lines[0].startswith(audit.NOT_AUDITED)


def test_a_program_that_is_not_there_is_reported(audit: ModuleType) -> None:
    assert audit.audit_packages(["/nowhere/pip-audit"])[0][0].startswith(audit.NOT_AUDITED)
