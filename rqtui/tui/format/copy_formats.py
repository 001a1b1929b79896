"""Convert jobs or table rows to bytes for the clipboard: ids, JSON, redis-cli lines, Python, raw bodies, rows.

The functions are pure. JSON is masked like the screen, unless secrets are shown there. Raw bodies and Python contain
the unmasked bytes, because the user asked for them by name.
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
from rqtui.text.pieces import Cell, convert_cell_to_pieces
from rqtui.text.sanitise import safe
from rqtui.tui.format.rows import Column, Row

if TYPE_CHECKING:
    from rqtui.system_base.system import System


@dataclass(frozen=True, slots=True)
class ClipboardData:
    """The bytes to copy to the clipboard, and a short description of them, such as `3 ids`."""

    data: bytes
    description: str


@dataclass(frozen=True, slots=True)
class JobSource:
    """The origin of the copied jobs: the system of their queue, its name, and the URL of the Redis server."""

    system: System
    queue: str
    url: str = field(repr=False)  # it may hold a password
    is_revealed: bool = False


@dataclass(frozen=True, slots=True)
class CopyFormat:
    """A format in which jobs can be copied to the clipboard: its key, its label, and what it needs of the jobs."""

    key: str
    label: str
    convert: Callable[[Sequence[Job], JobSource], bytes]
    noun: str  # the noun for one item, such as `id`
    needs_body: bool = True
    needs_client: bool = False  # its output needs a queue that `rqtui.client` supports


# ── formats ────────────────────────────────────────────────────────────────────────────────────────────────────


def format_job_ids(jobs: Sequence[Job], _source: JobSource) -> bytes:
    """Return the job ids, one per line.

    Ids with special characters or without valid text are quoted as redis-cli does.
    """
    return b"\n".join(job.id if _is_plain_text(job.id) else _quote_for_redis_cli(job.id).encode() for job in jobs)


def format_jobs_as_json(jobs: Sequence[Job], source: JobSource) -> bytes:
    """Return the documents of `rqtui show --json` in ASCII: one object for one job, a list for several."""
    with reveal_secrets(source.is_revealed):
        job_documents = [
            {**documents.build_job_document(job), "history": documents.build_attempt_documents(job)} for job in jobs
        ]
    return json.dumps(job_documents[0] if len(job_documents) == 1 else job_documents, indent=2).encode()


def format_redis_cli_lines(jobs: Sequence[Job], source: JobSource) -> bytes:
    """Return for each job a redis-cli command line that reads it, joined by line breaks.

    The password is left out: redis-cli takes it from REDISCLI_AUTH.
    """
    return "\n".join(_format_redis_cli_line(job, source) for job in jobs).encode()


def format_python_program(jobs: Sequence[Job], source: JobSource) -> bytes:
    """Return a Python program that enqueues copies of the jobs with the same ids."""
    url = _remove_url_password(source.url)
    lines = ["from rqtui.client import Queue", "", f"queue = Queue({source.queue!r}, {url!r})"]
    lines += [f"queue.put({', '.join(_format_put_arguments(job))})" for job in jobs]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def join_job_bodies(jobs: Sequence[Job], _source: JobSource) -> bytes:
    """Return the unchanged bodies of the jobs, one per line. A body with line breaks takes several lines."""
    return b"\n".join(job.body or b"" for job in jobs)


COPY_FORMATS: tuple[CopyFormat, ...] = (
    CopyFormat("i", "id", format_job_ids, "id", needs_body=False),
    CopyFormat("j", "JSON, as rqtui show --json", format_jobs_as_json, "job"),
    CopyFormat("r", "redis-cli line that reads it (in clear)", format_redis_cli_lines, "line"),
    CopyFormat("p", "Python that puts the same (in clear)", format_python_program, "job", needs_client=True),
    CopyFormat("b", "body, its raw bytes (in clear)", join_job_bodies, "body"),
)


def convert_jobs(copy_format: CopyFormat, jobs: Sequence[Job], source: JobSource) -> ClipboardData:
    """Convert jobs to a copy format, for the clipboard."""
    return ClipboardData(copy_format.convert(jobs, source), formats.format_quantity(len(jobs), copy_format.noun))


# ── table rows ────────────────────────────────────────────────────────────────────────────────────────────────────


# With their East Asian full-width forms. Tabs and line ends, which also begin a formula, were removed before.
_BEGINS_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[-+]?[\d.,:]+ ?[a-zA-Zµ%]{0,3}")  # `-3.5 s` is no formula


def convert_table_rows(columns: Sequence[Column], rows: Iterable[Row]) -> ClipboardData:
    """Convert table rows to tab-separated values for the clipboard, below a line with the columns' titles."""
    titled_indices = [index for index, column in enumerate(columns) if column.title]
    lines = ["\t".join(columns[index].title for index in titled_indices)]
    lines += [
        "\t".join(_format_spreadsheet_cell(row.cells[index]) for index in titled_indices if index < len(row.cells))
        for row in rows
    ]
    return ClipboardData(
        "\n".join(lines).encode("utf-8", "backslashreplace"), formats.format_quantity(len(lines) - 1, "row")
    )


def _format_spreadsheet_cell(cell: Cell) -> str:
    """Return the text of a table cell for the clipboard.

    A text that a spreadsheet would run as a formula gets a `'` before it.
    """
    text = safe("".join(piece.text for piece in convert_cell_to_pieces(cell))).strip()
    return f"'{text}" if text.startswith(_BEGINS_FORMULA) and not _NUMBER.fullmatch(text) else text


# ── conversions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_plain_text(job_id: bytes) -> bool:
    """Return whether a job id is non-empty text without special characters."""
    try:
        return safe(job_id) == job_id.decode() != ""
    except UnicodeDecodeError:
        return False


def _format_redis_cli_line(job: Job, source: JobSource) -> str:
    """Return the redis-cli command line that reads one job."""
    words = ["redis-cli", *_build_connection_options(source.url)]
    command = [*_build_read_command(job, source)]
    if all(_is_plain_text(word) and b'"' not in word and b"'" not in word for word in command):
        return shlex.join([*words, *(word.decode() for word in command)])
    return shlex.join([*words, "--quoted-input", *(_quote_for_redis_cli(word) for word in command)])


def _build_read_command(job: Job, source: JobSource) -> tuple[bytes, ...]:
    """Return the Redis command that shows a job: its record, else its entry in the key of its place."""
    keys = source.system.keys(source.queue)
    if "jobs" in keys:
        return b"HGET", _encode_name(keys["jobs"]), job.id
    place = source.system.place(job.place)
    if place.is_from_events:  # no key holds such a job; this command receives the next one
        return b"PSUBSCRIBE", *map(_encode_name, source.system.event_patterns())
    place_key = place.key.replace("<queue>", source.queue).replace("<worker>", job.worker)
    key = keys.get(place.name, keys.get("entries", place_key))
    build_command = _READ_COMMANDS.get(place.type)
    command, *arguments = build_command(job) if build_command else (b"TYPE",)
    return command, _encode_name(key).replace(b"<id>", job.id), *arguments


# The command and the arguments after the key, by the key's type. Packages may add places of other types.
_READ_COMMANDS: Mapping[str, Callable[[Job], tuple[bytes, ...]]] = {
    "zset": lambda job: (b"ZSCORE", job.member),
    "list": lambda job: (b"LPOS", job.member),
    "set": lambda job: (b"SISMEMBER", job.member),
    "hash": lambda job: (b"HGET", job.member),
    "string": lambda _job: (b"GET",),
    "stream": lambda job: (b"XRANGE", job.id, job.id),
}


def _encode_name(text: str) -> bytes:
    return to_bytes(text)


def _quote_for_redis_cli(raw: bytes) -> str:
    r"""Quote bytes as redis-cli does: `"a\\xff\\n"`."""
    escapes = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
    characters = (escapes.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in raw)
    return f'"{"".join(characters)}"'


def _build_connection_options(url: str) -> list[str]:
    """Return the connection options of redis-cli for a Redis URL; default values are left out."""
    parts = urlsplit(url)
    user = ["--user", unquote(parts.username)] if parts.username else []
    number = urls.find_database(url)
    database = ["-n", number] if number != "0" else []
    if parts.scheme == "unix":
        return ["-s", unquote(parts.path), *database, *user]
    hosts = urls.parse_multi_host_url(url, "the URL")
    if hosts is not None and hosts.kind == "cluster":
        return ["-c", *_build_connection_options(hosts.single)]
    if hosts is not None:  # redis-cli cannot ask sentinels: the user fills in the address that they return
        return ["-h", f"PRIMARY-OF-{hosts.service}", "-p", "PORT", *_build_connection_options(hosts.single)[4:]]
    return [
        "-h",
        parts.hostname or "localhost",
        "-p",
        str(parts.port or 6379),
        *database,
        *(["--tls"] if parts.scheme == "rediss" else []),
        *user,
    ]


def _remove_url_password(url: str) -> str:
    """Return the Redis URL without its password."""
    parts = urlsplit(url)
    if parts.password is None and "password=" not in parts.query:
        return url
    address = parts.netloc.rpartition("@")[2]
    query = "&".join(word for word in parts.query.split("&") if word and "password=" not in word.lower())
    user = f"{parts.username}@" if parts.username else ""
    return parts._replace(netloc=user + address, query=query).geturl()


def _format_put_arguments(job: Job) -> list[str]:
    """Return the arguments of `Queue.put` as Python source that enqueue a copy of the job.

    Unknown values and the defaults of the queue are left out.
    """
    job_id: object = job.id.decode() if _is_plain_text(job.id) else job.id
    options = {
        "id": ascii(job_id),
        "name": ascii(job.name) if job.name else "",
        "due": str(job.due_ms) if job.due_ms is not None else "",
        "priority": str(job.priority) if job.priority else "",
        "ttr": f'"{job.ttr_ms}ms"' if job.ttr_ms else "",
        "max_attempts": str(job.max_attempts) if job.max_attempts else "",
    }
    return [ascii(job.body or b""), *(f"{name}={value}" for name, value in options.items() if value)]
