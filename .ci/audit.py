"""Asks pip-audit whether an installed package has a known vulnerability, and says plainly where nobody could tell.

    python .ci/audit.py [PIP-AUDIT [OPTION…]]

pip-audit ends with 0 where its service does not know the packages, which reads as "all is well" and means "nobody
looked". So its document is read instead: 1 when something was found, and a sentence, with 0, for what was not audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

PATIENCE_S = 90
NOT_AUDITED = "NOT AUDITED"


def told(document: Mapping[str, Any], own: Sequence[str] = ("rqtui",)) -> tuple[list[str], int]:
    """What the document of pip-audit says, as lines, and the exit code."""
    lines: list[str] = []
    packages = [each for each in document.get("dependencies", ()) if each["name"].lower() not in own]
    skipped = [each["name"] for each in packages if "vulns" not in each or each.get("skip_reason")]
    bad = [each for each in packages if each.get("vulns")]
    for each in bad:
        for found in each["vulns"]:
            mended = ", ".join(found.get("fix_versions") or ()) or "no version yet"
            lines.append(f"{each['name']} {each['version']}: {found['id']}; mended in {mended}")
    if skipped or not packages:
        lines.append(f"{NOT_AUDITED}: {len(skipped)} of {len(packages)} packages are not known to the service.")
    lines.append(f"{len(packages) - len(skipped)} packages audited, {len(bad)} with known vulnerabilities.")
    return lines, int(bool(bad))


def audit(command: Sequence[str]) -> tuple[list[str], int]:
    """Runs pip-audit and tells what it found; where it gives no document, nothing was audited."""
    words = [*command, "--format", "json", "--progress-spinner", "off"]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{NOT_AUDITED}: pip-audit could not be run or did not end: {type(error).__name__}."], 0
    try:
        return told(json.loads(ran.stdout))
    except (ValueError, KeyError, TypeError, AttributeError):
        said = (ran.stderr or ran.stdout).strip().splitlines()
        return [f"{NOT_AUDITED}: pip-audit ended with {ran.returncode}: {said[-1] if said else 'without a word'}"], 0


if __name__ == "__main__":
    lines, code = audit(sys.argv[1:] or [sys.executable, "-m", "pip_audit"])
    print("\n".join(lines))
    sys.exit(code)
