"""Check the installed packages for known vulnerabilities with pip-audit, and report which packages were not checked.

    python .ci/audit.py [PIP-AUDIT [OPTION…]]

pip-audit exits with 0 for packages that its service does not know, as if they had been checked. Therefore this program
reads the JSON report. The exit code is 1 for a vulnerability, and 0 with a sentence for packages that were not audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

TIMEOUT_S = 90
NOT_AUDITED = "NOT AUDITED"


def build_audit_report(document: Mapping[str, Any], own: Sequence[str] = ("rqtui",)) -> tuple[list[str], int]:
    """Summarise the JSON report of pip-audit in lines of text, and return the lines with the exit code."""
    lines: list[str] = []
    packages = [package for package in document.get("dependencies", ()) if package["name"].lower() not in own]
    skipped = [package["name"] for package in packages if "vulns" not in package or package.get("skip_reason")]
    vulnerable = [package for package in packages if package.get("vulns")]
    for package in vulnerable:
        for vulnerability in package["vulns"]:
            fixed_in = ", ".join(vulnerability.get("fix_versions") or ()) or "no version yet"
            lines.append(f"{package['name']} {package['version']}: {vulnerability['id']}; fixed in {fixed_in}")
    if skipped or not packages:
        lines.append(f"{NOT_AUDITED}: {len(skipped)} of {len(packages)} packages are unknown to the service.")
    lines.append(f"{len(packages) - len(skipped)} packages audited, {len(vulnerable)} with known vulnerabilities.")
    return lines, int(bool(vulnerable))


def audit_packages(command: Sequence[str]) -> tuple[list[str], int]:
    """Run pip-audit on the installed packages and return the summary. Without a report, no package was audited."""
    arguments = [*command, "--format", "json", "--progress-spinner", "off"]
    try:
        completed = subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{NOT_AUDITED}: pip-audit could not be run or did not end: {type(error).__name__}."], 0
    try:
        return build_audit_report(json.loads(completed.stdout))
    except (ValueError, KeyError, TypeError, AttributeError):
        output = (completed.stderr or completed.stdout).strip().splitlines()
        return [
            f"{NOT_AUDITED}: pip-audit ended with {completed.returncode}: {output[-1] if output else 'without output'}"
        ], 0


if __name__ == "__main__":
    lines, code = audit_packages(sys.argv[1:] or [sys.executable, "-m", "pip_audit"])
    print("\n".join(lines))
    sys.exit(code)
