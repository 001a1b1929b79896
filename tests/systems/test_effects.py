"""Every script of every system replies and writes what its kept text says: `effects/SYSTEM/SCRIPT.txt`.

A text has two parts: what the script does in each test database, and what one difference changes. After a wanted
change, `RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/systems/test_effects.py` writes both; review the difference as you
review code.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from effects import describe_effects
from redis import Redis
from redisched_subject import SUBJECTS as REDISCHED
from subjects import SUBJECTS
from variations import describe_variations

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_name("effects")
SECONDS = "redisched-seconds"  # the same scripts where times are in seconds
ORIGINALS = {"orizuru/gc"}  # the original's own script, which its test file runs beside ours
NOT_STEADY = {  # only variations are described, where chance, order and clock are replaced
    "timeout_sets/pull", "timeout_sets/purge", "timeout_sets/reap", "timeout_sets/reserve",  # draw from sets by chance
    "rq/roster",  # replies in the order of a set's table
    "rq/revert",  # writes the instants at which keys expire, which the real clock passes
}  # fmt: skip
SCRIPTS = {
    f"{system}/{name}": subject
    for system, subject in {**SUBJECTS, SECONDS: REDISCHED["s"]}.items()
    for name in sorted(subject.scripts)
    if f"{system}/{name}" not in ORIGINALS
}
VARIATIONS = re.compile("== .*, with one difference")
OF_MANY_QUEUES = {"shared/tally", "shared/walk"}  # tests/engine/test_walk.py and test_counts.py run them


def test_no_script_is_left_out() -> None:
    scripts = {path.relative_to(ROOT / "lua").with_suffix("").as_posix() for path in (ROOT / "lua").glob("*/*.lua")}
    stored = {path.relative_to(KEPT).with_suffix("").as_posix() for path in KEPT.glob("*/*.txt")}
    described = {name for name in SCRIPTS if not name.startswith(SECONDS)}
    assert scripts - OF_MANY_QUEUES == described, "add a Use to tests/support/SYSTEM_subject.py"
    assert stored == {*SCRIPTS}, "RQTUI_WRITE_SNAPSHOTS=1 writes tests/systems/effects/SYSTEM/SCRIPT.txt"


@pytest.mark.parametrize("script", [name for name in SCRIPTS if name not in NOT_STEADY])
def test_a_script_replies_and_writes_what_its_stored_text_contains(script: str, client: Redis) -> None:
    text = describe_effects(SCRIPTS[script], script.partition("/")[2], client)
    check_part_of_stored_text(script, text.splitlines(), is_last=False)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_does_with_one_difference_what_its_stored_text_contains(script: str, client: Redis) -> None:
    lines = [*describe_variations(SCRIPTS[script], script.partition("/")[2], client)]
    check_part_of_stored_text(script, lines, is_last=True)


def check_part_of_stored_text(script: str, lines: list[str], *, is_last: bool) -> None:
    """Compare lines with the part of a stored text before, or from, the first title of variations; or write them."""
    file = KEPT / f"{script}.txt"
    stored = file.read_text("utf-8").splitlines() if file.exists() else []
    start = next((at for at, line in enumerate(stored) if VARIATIONS.fullmatch(line)), len(stored))
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(stored[:start] + lines if is_last else lines + stored[start:]) + "\n", "utf-8")
    else:
        assert lines == (stored[start:] if is_last else stored[:start])
