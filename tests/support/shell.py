"""Run rqtui's command line in tests: `shell` in this process, which is fast, `start_process` as a separate program."""

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


# The commands are built once per test process, because building them takes longer than running most of them.
_build_application = functools.cache(program.build_application)
_get_command = functools.cache(typer.main.get_command)


@dataclass(frozen=True)
class Ran:
    """The result of one command line of rqtui: exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the only JSON document on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Return the JSON documents on stdout, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


class _Stream(io.TextIOWrapper):
    """A text stream stored as bytes, as a real stdout is."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode("utf-8", "backslashreplace")  # type: ignore[attr-defined]


def build_environment(url: str) -> dict[str, str]:
    """Build environment variables with `url` as the default Redis and without the current user's config file.

    PYTHONUNBUFFERED is empty, so that programs buffer their output as they do for users.
    """
    variables = {"RQTUI_URL": url, "REDIS_URL": "", "RQTUI_CONFIG": os.devnull, "PYTHONPATH": str(ROOT)}
    return {**os.environ, **variables, "PYTHONUNBUFFERED": ""}


def shell(url: str, *words: str, stdin: bytes = b"") -> Ran:
    """Run `rqtui WORDS…` in this process, with a stdin that is not a terminal."""
    out, err = _Stream(), _Stream()
    with (
        patch.dict(os.environ, build_environment(url)),
        patch.object(program, "build_application", _build_application),
        patch.object(typer.main, "get_command", _get_command),
        patch.object(sys, "stdin", _Stream(stdin)),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = program.main(list(words))
    return Ran(code, out.text, err.text)


def start_process(url: str, *words: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start `python -m rqtui WORDS…` with pipes and return the process. The caller ends the process."""
    return subprocess.Popen(
        [sys.executable, "-m", "rqtui", *words],
        env=build_environment(url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        **options,
    )
