"""What a command does with each of its options and each pair of them: `option_pairs/` has every outcome.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/cli/test_option_pairs.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest
from native_jobs import PLACES, list_ids
from normalised_output import list_document_lines, normalise_output
from redis import Redis
from screens import Seeded
from shell import shell

from rqtui.testing import keyspace

KEPT = Path(__file__).with_name("option_pairs")
ACT = (
    "dead-1", "nothing", "--place dead", "--all", "--place dead --all", "--filter nonsense:x", "--filter err:smtp",
    "--limit 1", "--token 1", "--force", "--set delay=1h", "--dry-run", "--rate 1000/s", "--stop-at-failures 1",
    "--stop-at-depth 1", "--canary 0", "--why x", "--yes",
)  # fmt: skip
COMMANDS: dict[str, tuple[str, ...]] = {
    **{f"act {verb} mail": ACT for verb in ("requeue", "delete", "purge", "pause", "duplicate", "drip-requeue")},
    "put mail": (
        "1", "nonsense", "--id a", "--id dead-1", "--name send", "--delay 90s", "--delay x", "--due 2036-12-01T08:00Z",
        "--due x", "--priority 4095", "--priority 4096", "--ttr 30s", "--max-attempts 1", "--max-attempts 0",
        "--backoff 1s..1h", "--backoff x", "--keep 1h", "--opts {}", "--raw", "--lines /dev/null",
    ),
    "jobs mail": (
        "dead", "ready", "nonsense", "--limit 1", "--limit 0", "--limit 1001", "--cursor 0", "--cursor 1", "--cursor x",
        "--filter err:smtp", "--filter id:dead-1", "--filter !smtp", "--filter nonsense:x", "--filter /[/",
    ),
    "show mail": ("dead-1", "ready-1", "nothing", "--body", "--raw", "--json"),
    "errors": ("mail", "nothing", "--by class", "--by frame", "--by cause", "--by message", "--by x", "--json"),
    "check mail": ("dead-1", "--repair", "--json"),
    "dispatch": ("mail", "nothing", "--once", "--batch-size 0", "--batch-size 1", "--batch-size 1001", "--json -v"),
    "reap": ("mail", "nothing", "--once", "--limit 0", "--limit 1", "--limit 1001", "--every 0", "--gc", "--json -v"),
    "events": ("mail", "nothing", "--limit 0", "--limit 1", "--filter enqueue", "--filter !x", "--json"),
    "loops": ("mail", "nothing", "--limit 0", "--limit 1", "--json"),
    "operations": ("--limit 0", "--limit 1", "--all", "--json"),
    "acl": ("viewer", "operator", "nonsense", "mail", "other", "--user ann", "--redis6", "--server", "--cluster"),
    "config": ("--path", "--example", "--json"),
    "snapshot": ("mail", "nothing", "rq:mail", "--walk", "--read-only", "--json", "--system rq", "--system x"),
    "health": ("mail", "nothing", "--json", "--system rq", "--system native"),
    "workers": ("mail", "nothing", "--json"),
    "kinds": ("mail", "nothing", "--json"),
    "group mail": (
        "dead", "ready", "nonsense", "--by kind", "--by error", "--by .n", "--by nonsense", "--limit 0", "--limit 1",
        "--filter err:smtp", "--filter /[/", "--json",
    ),
    "diff mail": (
        "dead", "dead ready", "nonsense", "--filter err:smtp", "--filter /[/", "--against id:ready-1", "--json",
    ),
    "migrate": ("rq:mail", "native:new", "native:mail", "--dry-run", "--lossy", "--json"),
}  # fmt: skip
ENDS = ("dispatch", "reap")  # only with --once


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_options_are_combined_or_refused_as_in_the_stored_text(client: Redis, url: str, command: str) -> None:
    seeded = Seeded(client)
    seeded.bury("dead-1", "dead-2")
    seeded.put("ready-1")
    copies, lines = keyspace.dump_raw_values(client), []
    options = COMMANDS[command]
    for pair in [(), *((each,) for each in options), *combinations(options, 2)]:
        words = " ".join(pair if command not in ENDS or "--once" in pair else (*pair, "--once"))
        client.flushall()
        keyspace.restore_raw_values(client, copies)
        ran = shell(url, *command.split(), *words.split())
        counts = " ".join(str(len(list_ids(client, place))) for place in PLACES)
        actual_lines = normalise_output(ran.out + ran.err).splitlines() or [""]
        if "--json" in pair and ran.out.startswith(("{", "[")):
            actual_lines = [line for text in ran.out.splitlines() for line in list_document_lines(json.loads(text))]
        lines.append(f"{words} → {ran.code}, {counts}: {' '.join(actual_lines[:1])} #{_hash(actual_lines)}")
    file = KEPT / f"{command.replace(' ', '-')}.txt"
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(lines) + "\n", "utf-8")
    assert lines == file.read_text("utf-8").splitlines()


def _hash(lines: list[str]) -> str:
    return sha256("\n".join(lines).encode()).hexdigest()[:8]
