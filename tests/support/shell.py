"""The command line in tests: `shell` runs it in this process (fast), `process` as a program of its own."""

from __future__ import annotations

import functools
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer.main

from rqtui.cli import main as program

ROOT = Path(__file__).resolve().parents[2]


# The commands are made once in a process of tests: that takes longer than what most of them do.
_application = functools.cache(program.application)
_command = functools.cache(typer.main.get_command)


@dataclass(frozen=True)
class Ran:
    """What one command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The documents of a stream, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


class _Stream(io.TextIOWrapper):
    """Text that is kept as bytes, as a real stdout is."""

    def __init__(self, given: bytes = b"") -> None:
        super().__init__(io.BytesIO(given), encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode("utf-8", "backslashreplace")  # type: ignore[attr-defined]


def environment(url: str) -> dict[str, str]:
    """Variables under which `url` is the default Redis, and no config file of the person who runs the tests counts.

    What a program prints is buffered, as it is for who starts it without PYTHONUNBUFFERED.
    """
    ours = {"RQTUI_URL": url, "REDIS_URL": "", "RQTUI_CONFIG": os.devnull, "PYTHONPATH": str(ROOT)}
    return {**os.environ, **ours, "PYTHONUNBUFFERED": ""}


def shell(url: str, *words: str, stdin: bytes = b"") -> Ran:
    """`rqtui WORDS…` in this process; stdin is no terminal."""
    out, err = _Stream(), _Stream()
    with (
        patch.dict(os.environ, environment(url)),
        patch.object(program, "application", _application),
        patch.object(typer.main, "get_command", _command),
        patch.object(sys, "stdin", _Stream(stdin)),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = program.main(list(words))
    return Ran(code, out.text, err.text)


def process(url: str, *words: str, **options: Any) -> subprocess.Popen[bytes]:
    """`python -m rqtui WORDS…` with pipes; the caller ends it."""
    return subprocess.Popen(
        [sys.executable, "-m", "rqtui", *words],
        env=environment(url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        **options,
    )
