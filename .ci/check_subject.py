"""Check the subject of a commit message: `python .ci/check_subject.py FILE`, called by pre-commit."""

from __future__ import annotations

import sys
from pathlib import Path

LONGEST = 72  # characters that Git's own listings show without a cut


def find_subject_problem(message: str) -> str:
    """Return what is wrong with the first line of a commit message, or an empty string."""
    subject = next((line for line in message.splitlines() if not line.startswith("#")), "")
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return ""
    if not subject.strip():
        return "The commit message has no subject."
    if len(subject) > LONGEST:
        return f"The subject has {len(subject)} characters; write at most {LONGEST}, and the rest into the body."
    if not subject[0].isupper() or subject.endswith("."):
        return "The subject begins with a capital letter and has no period at its end."
    return ""


if __name__ == "__main__":
    if problem := find_subject_problem(Path(sys.argv[1]).read_text("utf-8")):
        sys.exit(problem)
