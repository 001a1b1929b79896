"""Settings: which Redis, which layouts, what is allowed; made once at the edge, read by the screen and the commands.

Only data: `resolve.in_force` makes it of the command line, the environment and the config file, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqtui.config.thresholds import Rules

DEFAULT_URL = "redis://localhost:6379"
DEFAULT_SYSTEM = "native"  # of a new queue that was named without one
INTERVAL_S = 2.0
SHORTEST_S, LONGEST_S = 0.25, 60.0  # between two pictures


@dataclass(frozen=True, slots=True)
class Settings:
    """What one run of rqtui works on. `layouts` are the words of `--layout`; none: whatever systems are there.

    `badge` is a word that stands before the URL, and `is_guarded` asks for a queue's name before dangerous verbs (the
    badge PROD does). `is_asked_read_only`: --read-only was said; `may_unlock`: changes can be turned on while it
    runs. `denied` are pairs of a queue's pattern (as of a shell) and the verbs refused there; `columns` are those of
    a board by state, `limits` from when on a number is a finding, by queues' patterns, `redact` more patterns of keys
    whose values are masked, `keymap` keys by binding id. `config` is the path of the file that was read, `problems`
    are sentences on what is wrong in it; `notes` are worth a word at the start. `walks_all`: queues are
    looked for among all keys, however many they are.
    """

    url: str = field(default=DEFAULT_URL, repr=False)  # it may hold a password
    layouts: tuple[str, ...] = ()
    read_only: bool = False
    walks_all: bool = False
    is_debug: bool = False
    log_format: str = "text"
    profile: str = ""
    badge: str = ""
    is_guarded: bool = False
    theme: str = ""
    is_calm: bool = False
    is_ascii: bool = False
    denied: tuple[tuple[str, tuple[str, ...]], ...] = ()
    limits: Rules = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    redact: tuple[str, ...] = ()
    keymap: Mapping[str, str] = field(default_factory=dict)
    is_asked_read_only: bool = False
    may_unlock: bool = True
    interval_s: float = INTERVAL_S
    config: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
