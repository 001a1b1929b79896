"""The file in which a walk over many keys is kept for the next command: one per server, database and set of patterns.

It holds names of keys and no secret, and only its owner may read it. Whoever reads it asks Redis about every key before
it is believed, and a file that is broken, of another run of the server or of nobody's making is as good as none. One
that cannot be written costs the next command a walk, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rqtui.config.state_folder import own_folder
from rqtui.connection.nodes import is_cluster
from rqtui.engine.walk import Found, Progress
from rqtui.text.names import to_bytes, to_text

FOLDER = "walks"
FILES = 50  # the oldest go
KEYS = 20_000  # of one walk that are kept: more of them are quicker found by walking than asked for one by one
VERSION = 1


class WalkFile:
    """The file of one database. Without a folder, on a Cluster, or where INFO is denied or unknown, there is none."""

    def __init__(self, folder: Path | None, client: Any, patterns: Sequence[str]) -> None:
        self._folder, self._client = folder, client
        self._patterns = [*patterns]
        self._is_possible = folder is not None and not is_cluster(client)

    def load(self) -> Progress | None:
        """What an earlier command kept of this run of the server; None: nothing that can be used."""
        if not self._is_possible or not self._path.is_file() or not (run := self._run()):
            return None
        try:
            told = json.loads(self._path.read_text("utf-8"))
            if (told["version"], told["run"]) != (VERSION, run):
                return None
            whole = None if told["whole"] is None else _found(told["whole"])
            cursor = told["cursor"]
            if not (isinstance(cursor, str) and cursor.isascii() and (cursor.isdigit() or not cursor)):
                return None
            cursors = {"": cursor} if cursor else {}
            numbers = int(told["looked"]), float(told["took_s"]), float(told["due_s"])
            return Progress(whole, _found(told["begun"]), cursors, *numbers)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def save(self, progress: Progress) -> None:
        """Keeps this for the next command; a whole walk that one look makes anew is not kept."""
        if not self._is_possible or not (run := self._run()):
            return
        document = {
            "version": VERSION,
            "run": run,
            "cursor": progress.cursors.get("", ""),
            "looked": progress.looked,
            "took_s": progress.took_s,
            "due_s": progress.due_s,
            "whole": None if progress.whole is None else _told(progress.whole),
            "begun": _told(progress.begun),
        }
        with suppress(OSError):
            self._write(json.dumps(document).encode())

    def forget(self) -> None:
        """Takes the file away."""
        if self._is_possible:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _write(self, data: bytes) -> None:
        assert self._folder is not None
        own_folder(self._folder)
        number, name = tempfile.mkstemp(dir=self._folder, suffix=".new")  # 0600, and nobody else's
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            Path(name).replace(self._path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        files = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in files[:-FILES]:
            path.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        kwargs = self._client.connection_pool.connection_kwargs
        server = kwargs.get("path") or f"{kwargs.get('host')}:{kwargs.get('port')}"
        words = json.dumps([server, kwargs.get("db") or 0, self._patterns])
        assert self._folder is not None
        return self._folder / f"{hashlib.sha256(words.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}.json"

    def _run(self) -> str:
        """The id of the server's run; empty where it is not told."""
        from redis.exceptions import RedisError

        try:
            info: Mapping[str, Any] = self._client.info("server")
        except RedisError:
            return ""
        return str(info.get("run_id", ""))


def _told(found: Found) -> dict[str, Any]:
    left, keys = KEYS, {}
    for name, of_layout in found.keys.items():
        keys[name] = [to_text(key) for key in of_layout[:left]]
        left -= len(keys[name])
    examples = {pattern: to_text(key) for pattern, key in found.examples.items()}
    return {"keys": keys, "counts": found.counts, "examples": examples}


def _found(told: Mapping[str, Any]) -> Found:
    """Raises what a document of another shape makes it raise."""
    return Found(
        {str(name): [to_bytes(str(key)) for key in keys] for name, keys in told["keys"].items()},
        {str(pattern): int(number) for pattern, number in told["counts"].items()},
        {str(pattern): to_bytes(str(key)) for pattern, key in told["examples"].items()},
    )
