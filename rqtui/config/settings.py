"""Define the settings of one run: which Redis, which systems, and which changes are allowed.

This module has only data, for the screen and the commands. `resolve.resolve_settings` builds the settings from the
command line, the environment and the config file, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqtui.config.thresholds import Rules

DEFAULT_URL = "redis://localhost:6379"
DEFAULT_SYSTEM = "native"  # the system of a new queue that is named without one
INTERVAL_S = 2.0
RECORD_MB, RECORD_DAYS = 200, 30  # the bounds of a recording
RECORD_JOBS, MAX_RECORD_JOBS = 0, 100  # jobs of each place that are recorded once per minute, and most of them
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.25, 60.0  # limits of the time between two refreshes


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective settings of one run of rqtui: which Redis, which systems, and which changes are allowed."""

    url: str = field(default=DEFAULT_URL, repr=False)  # not in repr(), since it may have a password
    systems: tuple[str, ...] = ()  # the values of `--system`; empty: all systems found
    read_only: bool = False
    walks_all: bool = False  # search all keys for queues, however many keys there are
    is_debug: bool = False
    log_format: str = "text"
    profile: str = ""
    badge: str = ""  # a word shown before the URL
    is_guarded: bool = False  # a dangerous verb asks for the name of the queue, as with the badge PROD
    theme: str = ""
    is_calm: bool = False
    is_ascii: bool = False
    denied: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (glob pattern of queues, the verbs refused there)
    limits: Rules = ()  # thresholds of findings, by glob pattern of queues
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns of a board, by state
    redact: tuple[str, ...] = ()  # more patterns of names whose values are masked
    keymap: Mapping[str, str] = field(default_factory=dict)  # keys by binding id
    is_asked_read_only: bool = False  # --read-only was given
    may_unlock: bool = True  # changes can be allowed while rqtui runs
    interval_s: float = INTERVAL_S
    is_recording: bool = True  # the screen records what it reads
    record_mb: int = RECORD_MB  # the largest size of a recording in MB; older records are merged or deleted
    record_days: int = RECORD_DAYS  # the age at which records are deleted
    record_jobs: int = RECORD_JOBS  # the first jobs of each place that are recorded once per minute; 0: none
    config: str = ""  # the path of the config file
    problems: tuple[str, ...] = ()  # errors in the config file, as sentences
    notes: tuple[str, ...] = ()  # notes shown at the start
