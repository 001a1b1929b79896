"""Store an unfinished walk over all keys in a file, so that the next command continues it.

There is a file per server, database and set of patterns. It contains names of keys and no secret, and only its owner
may read it. The reader verifies every key with Redis. A file that is broken, from another run of the server or from
another program is ignored. If the file cannot be written, the next command has to walk again; nothing else is affected.
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

from rqtui import files
from rqtui.config.state_folder import create_private_folder
from rqtui.connection.nodes import is_cluster
from rqtui.engine.walk import WalkProgress, WalkResult
from rqtui.text.names import to_bytes, to_text

FOLDER = "walks"
MAX_FILE_BYTES = 256 << 20
MAX_FILES = 50  # The oldest are deleted.
MAX_KEYS = 20_000  # stored keys per walk: for more of them a new walk is faster than verifying each
VERSION = 1


class WalkFile:
    """The file that stores the walk over the keys of one database.

    No file is used without a folder, on a Cluster, or if INFO is denied.
    """

    def __init__(self, folder: Path | None, client: Any, patterns: Sequence[str]) -> None:
        self._folder, self._client = folder, client
        self._patterns = [*patterns]
        self._is_possible = folder is not None and not is_cluster(client)

    def load(self) -> WalkProgress | None:
        """Load the progress that an earlier command stored for the same run of the server; None if there is none."""
        if not self._is_possible or not self._path.is_file() or not (run_id := self._fetch_run_id()):
            return None
        try:
            document = json.loads(files.read_small_file(self._path, MAX_FILE_BYTES))
            if (document["version"], document["run"]) != (VERSION, run_id):
                return None
            complete = None if document["whole"] is None else _parse_walk_result(document["whole"])
            cursor = document["cursor"]
            if not (isinstance(cursor, str) and cursor.isascii() and (cursor.isdigit() or not cursor)):
                return None
            cursors = {"": cursor} if cursor else {}
            statistics = int(document["looked"]), float(document["took_s"]), float(document["due_s"])
            return WalkProgress(complete, _parse_walk_result(document["begun"]), cursors, *statistics)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def save(self, progress: WalkProgress) -> None:
        """Store the progress of a walk for the next command."""
        if not self._is_possible or not (run_id := self._fetch_run_id()):
            return
        document = {
            "version": VERSION,
            "run": run_id,
            "cursor": progress.cursors.get("", ""),
            "looked": progress.keys_walked,
            "took_s": progress.duration_s,
            "due_s": progress.next_due_s,
            "whole": None if progress.complete is None else _build_result_document(progress.complete),
            "begun": _build_result_document(progress.partial),
        }
        with suppress(OSError):
            self._write_walk_file(json.dumps(document).encode())

    def delete(self) -> None:
        """Delete the walk file, so that the next walk starts from the beginning."""
        if self._is_possible:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _write_walk_file(self, data: bytes) -> None:
        """Write the walk file through a temporary file, and delete the oldest walk files above `MAX_FILES`."""
        assert self._folder is not None
        create_private_folder(self._folder)
        descriptor, name = tempfile.mkstemp(dir=self._folder, suffix=".new")  # created with mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(name).replace(self._path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        walk_files = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in walk_files[:-MAX_FILES]:
            path.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        kwargs = self._client.connection_pool.connection_kwargs
        server = kwargs.get("path") or f"{kwargs.get('host')}:{kwargs.get('port')}"
        identity = json.dumps([server, kwargs.get("db") or 0, self._patterns])
        assert self._folder is not None
        return self._folder / f"{hashlib.sha256(identity.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}.json"

    def _fetch_run_id(self) -> str:
        """Return the id of the server's run from INFO; empty if INFO does not contain one."""
        from redis.exceptions import RedisError

        try:
            info: Mapping[str, Any] = self._client.info("server")
        except RedisError:
            return ""
        return str(info.get("run_id", ""))


def _build_result_document(result: WalkResult) -> dict[str, Any]:
    """Build the JSON document of a walk result, with at most `MAX_KEYS` keys."""
    keys_left, keys = MAX_KEYS, {}
    for name, system_keys in result.queue_keys.items():
        keys[name] = [to_text(key) for key in system_keys[:keys_left]]
        keys_left -= len(keys[name])
    examples = {pattern: to_text(key) for pattern, key in result.examples.items()}
    return {"keys": keys, "counts": result.counts, "examples": examples}


def _parse_walk_result(document: Mapping[str, Any]) -> WalkResult:
    """Parse a stored walk result from its JSON document.

    Raises KeyError, TypeError, ValueError or AttributeError if the document has another format.
    """
    return WalkResult(
        {str(name): [to_bytes(str(key)) for key in keys] for name, keys in document["keys"].items()},
        {str(pattern): int(number) for pattern, number in document["counts"].items()},
        {str(pattern): to_bytes(str(key)) for pattern, key in document["examples"].items()},
    )
