"""Convert jobs or table rows to bytes for the clipboard: ids, JSON, redis-cli lines, Python, raw bodies, rows.

The functions are pure. JSON is masked like the screen, unless secrets are shown there. Raw bodies and Python hold the
unmasked bytes, because the user asked for them by name.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rqtui.connection import urls
from rqtui.model import Job
from rqtui.reports import jobs as documents
from rqtui.text import formats
from rqtui.text.masking import reveal_secrets
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, to_pieces
from rqtui.text.sanitise import safe
from rqtui.tui.format.rows import Column, Row

if TYPE_CHECKING:
    from rqtui.system_base.system import System


@dataclass(frozen=True, slots=True)
class ClipboardData:
    """The bytes for the clipboard, and a short description of them, such as `3 ids`."""

    data: bytes
    description: str


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of the copied jobs: the system of their queue, its name, and the URL of the Redis."""

    system: System
    queue: str
    url: str = field(repr=False)  # it may hold a password
    is_revealed: bool = False


@dataclass(frozen=True, slots=True)
class CopyFormat:
    """A format to copy jobs in: its key, its label, and whether it needs the jobs' bodies."""

    key: str
    label: str
    convert: Callable[[Sequence[Job], Source], bytes]
    noun: str  # the noun for one item, such as `id`
    needs_body: bool = True
    needs_client: bool = False  # its output needs a queue that `rqtui.client` supports


# ── forms ────────────────────────────────────────────────────────────────────────────────────────────────────


def format_ids(jobs: Sequence[Job], _source: Source) -> bytes:
    """Return one id per line. Ids with special characters or without valid text are quoted as redis-cli quotes them."""
    return b"\n".join(job.id if _is_plain(job.id) else _quote(job.id).encode() for job in jobs)


def as_json(jobs: Sequence[Job], source: Source) -> bytes:
    """Return the documents of `rqtui show --json` in ASCII: one object, or a list of several."""
    with reveal_secrets(source.is_revealed):
        shown = [{**documents.build_job_document(job), "history": documents.build_history(job)} for job in jobs]
    return json.dumps(shown[0] if len(shown) == 1 else shown, indent=2).encode()


def format_redis_cli(jobs: Sequence[Job], source: Source) -> bytes:
    """Return a redis-cli command for each job that reads it.

    The password is left out: redis-cli takes it from REDISCLI_AUTH.
    """
    return "\n".join(_format_redis_cli(job, source) for job in jobs).encode()


def format_python(jobs: Sequence[Job], source: Source) -> bytes:
    """Return a Python program that puts the same jobs under the same ids."""
    url = _remove_password(source.url)
    lines = ["from rqtui.client import Queue", "", f"queue = Queue({source.queue!r}, {url!r})"]
    lines += [f"queue.put({', '.join(_format_arguments(job))})" for job in jobs]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def join_bodies(jobs: Sequence[Job], _source: Source) -> bytes:
    """Return the unchanged bodies, one per line. A body with line breaks takes several lines."""
    return b"\n".join(job.body or b"" for job in jobs)


COPY_FORMATS: tuple[CopyFormat, ...] = (
    CopyFormat("i", "id", format_ids, "id", needs_body=False),
    CopyFormat("j", "JSON, as rqtui show --json", as_json, "job"),
    CopyFormat("r", "redis-cli line that reads it (in clear)", format_redis_cli, "line"),
    CopyFormat("p", "Python that puts the same (in clear)", format_python, "job", needs_client=True),
    CopyFormat("b", "body, its raw bytes (in clear)", join_bodies, "body"),
)


def convert_jobs(form: CopyFormat, jobs: Sequence[Job], source: Source) -> ClipboardData:
    """Convert jobs to a format, for the clipboard."""
    return ClipboardData(form.convert(jobs, source), formats.format_quantity(len(jobs), form.noun))


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────


# With their East Asian full-width forms. Tabs and line ends, which also begin a formula, were removed before.
_BEGINS_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_FIGURE = re.compile(r"[-+]?[\d.,:]+ ?[a-zA-Zµ%]{0,3}")  # `-3.5 s` is no formula


def convert_rows(columns: Sequence[Column], shown: Iterable[Row]) -> ClipboardData:
    """Return table rows as tab-separated values below the columns' titles, with the texts of the screen."""
    titled = [at for at, column in enumerate(columns) if column.title]
    lines = ["\t".join(columns[at].title for at in titled)]
    lines += ["\t".join(_format_cell(row.cells[at]) for at in titled if at < len(row.cells)) for row in shown]
    return ClipboardData(
        "\n".join(lines).encode("utf-8", "backslashreplace"), formats.format_quantity(len(lines) - 1, "row")
    )


def _format_cell(cell: Cell) -> str:
    """Return the text of a cell; a text that a spreadsheet would run as a formula gets a `'` before it."""
    text = safe("".join(piece.text for piece in to_pieces(cell))).strip()
    return f"'{text}" if text.startswith(_BEGINS_FORMULA) and not _FIGURE.fullmatch(text) else text


# ── how ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_plain(id: bytes) -> bool:
    """Return whether the id is non-empty text without special characters."""
    try:
        return safe(id) == id.decode() != ""
    except UnicodeDecodeError:
        return False


def _format_redis_cli(job: Job, source: Source) -> str:
    """Return the redis-cli command line that reads one job."""
    words = ["redis-cli", *_build_connection_options(source.url)]
    command = [*_build_read_command(job, source)]
    if all(_is_plain(word) and b'"' not in word and b"'" not in word for word in command):
        return shlex.join([*words, *(word.decode() for word in command)])
    return shlex.join([*words, "--quoted-input", *(_quote(word) for word in command)])


def _build_read_command(job: Job, source: Source) -> tuple[bytes, ...]:
    """Return the Redis command that shows a job: its record, else its entry in the place."""
    keys = source.system.keys(source.queue)
    if "jobs" in keys:
        return b"HGET", _encode(keys["jobs"]), job.id
    place = source.system.place(job.place)
    if place.is_from_events:  # no key holds such a job; this command receives the next one
        return b"PSUBSCRIBE", *map(_encode, source.system.event_patterns())
    place_key = place.key.replace("<queue>", source.queue).replace("<worker>", job.worker)
    key = keys.get(place.name, keys.get("entries", place_key))
    read = _READ_COMMANDS.get(place.type)
    command, *arguments = read(job) if read else (b"TYPE",)
    return command, _encode(key), *arguments


# The command and the arguments after the key, by the key's type. Packages may add places of other types.
_READ_COMMANDS: Mapping[str, Callable[[Job], tuple[bytes, ...]]] = {
    "zset": lambda job: (b"ZSCORE", job.member),
    "list": lambda job: (b"LPOS", job.member),
    "set": lambda job: (b"SISMEMBER", job.member),
    "hash": lambda job: (b"HGET", job.member),
    "string": lambda _job: (b"GET",),
    "stream": lambda job: (b"XRANGE", job.id, job.id),
}


def _encode(text: str) -> bytes:
    return to_bytes(text)


def _quote(raw: bytes) -> str:
    """Quote bytes as redis-cli does: `"a\\xff\\n"`."""
    named = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
    shown = (named.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in raw)
    return f'"{"".join(shown)}"'


def _build_connection_options(url: str) -> list[str]:
    """Return the connection options of redis-cli for a URL; default values are left out."""
    parts = urlsplit(url)
    user = ["--user", unquote(parts.username)] if parts.username else []
    if parts.scheme == "unix":
        return ["-s", unquote(parts.path), *user]
    hosts = urls.parse_hosts(url, "the URL")
    if hosts is not None and hosts.kind == "cluster":
        return ["-c", *_build_connection_options(hosts.single)]
    if hosts is not None:  # redis-cli cannot ask sentinels: the user fills in the address that they return
        return ["-h", f"PRIMARY-OF-{hosts.service}", "-p", "PORT", *_build_connection_options(hosts.single)[4:]]
    database = parts.path.strip("/")
    return [
        "-h",
        parts.hostname or "localhost",
        "-p",
        str(parts.port or 6379),
        *(["-n", database] if database not in ("", "0") else []),
        *(["--tls"] if parts.scheme == "rediss" else []),
        *user,
    ]


def _remove_password(url: str) -> str:
    """Return the URL without its password."""
    parts = urlsplit(url)
    if parts.password is None and "password=" not in parts.query:
        return url
    where = parts.netloc.rpartition("@")[2]
    query = "&".join(word for word in parts.query.split("&") if word and "password=" not in word.lower())
    user = f"{parts.username}@" if parts.username else ""
    return parts._replace(netloc=user + where, query=query).geturl()


def _format_arguments(job: Job) -> list[str]:
    """Return the arguments of `Queue.put` for a job, without unknown values and values left to the queue's defaults."""
    id: object = job.id.decode() if _is_plain(job.id) else job.id
    given = {
        "id": ascii(id),
        "name": ascii(job.name) if job.name else "",
        "due": str(job.due_ms) if job.due_ms is not None else "",
        "priority": str(job.priority) if job.priority else "",
        "ttr": f'"{job.ttr_ms}ms"' if job.ttr_ms else "",
        "max_attempts": str(job.max_attempts) if job.max_attempts else "",
    }
    return [ascii(job.body or b""), *(f"{name}={value}" for name, value in given.items() if value)]
