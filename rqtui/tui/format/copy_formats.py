"""What can be copied of a job or a list, as bytes: ids, JSON, a redis-cli line, Python, the raw body, rows of a table.

Pure functions over what is on the screen. JSON is masked like the screen, unless what is secret is shown there; the
raw body and the Python that puts the same are what somebody asked for by name, and hold the bytes as they are.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from rqtui.connection import urls
from rqtui.model import Job
from rqtui.reports import jobs as documents
from rqtui.text import formats
from rqtui.text.body import MASK, is_secret, mask_text
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, pieces_of
from rqtui.text.sanitise import safe
from rqtui.tui.format.rows import Column, Row

if TYPE_CHECKING:
    from rqtui.layout.layout import Layout


@dataclass(frozen=True, slots=True)
class Copied:
    """The bytes, and what they are in words: `3 ids`."""

    data: bytes
    what: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where jobs stand: the layout of their queue, its name, and the URL of the Redis."""

    layout: Layout
    queue: str
    url: str = field(repr=False)  # it may hold a password
    is_revealed: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """A way to copy jobs: its key, what it is called, and whether it needs their bodies."""

    key: str
    label: str
    make: Callable[[Sequence[Job], Source], bytes]
    noun: str  # what one of them is
    needs_body: bool = True
    needs_client: bool = False  # what it makes speaks by `rqtui.client`


# ── forms ────────────────────────────────────────────────────────────────────────────────────────────────────


def ids(jobs: Sequence[Job], _source: Source) -> bytes:
    """One id per line; one that a shell would obey, or that is no text, is quoted as redis-cli quotes it."""
    return b"\n".join(job.id if _is_plain(job.id) else _quoted(job.id).encode() for job in jobs)


def as_json(jobs: Sequence[Job], source: Source) -> bytes:
    """The documents of `rqtui show --json`, a list where they are several; pure ASCII as well."""
    made = [{**documents.job(job), "history": documents.history(job)} for job in jobs]
    shown = made if source.is_revealed else [_masked(document) for document in made]
    return json.dumps(shown[0] if len(shown) == 1 else shown, indent=2).encode()


def redis_cli(jobs: Sequence[Job], source: Source) -> bytes:
    """A line per job that reads it with redis-cli; without the password, which redis-cli takes from REDISCLI_AUTH."""
    return "\n".join(_redis_cli(job, source) for job in jobs).encode()


def python(jobs: Sequence[Job], source: Source) -> bytes:
    """A program that puts the same jobs, under the same ids."""
    url = _without_password(source.url)
    lines = ["from rqtui.client import Queue", "", f"queue = Queue({source.queue!r}, {url!r})"]
    lines += [f"queue.put({', '.join(_arguments(job))})" for job in jobs]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def bodies(jobs: Sequence[Job], _source: Source) -> bytes:
    """The bodies as they are; several are a line each, as far as they have no line breaks themselves."""
    return b"\n".join(job.body or b"" for job in jobs)


FORMS: tuple[Form, ...] = (
    Form("i", "id", ids, "id", needs_body=False),
    Form("j", "JSON, as rqtui show --json", as_json, "job"),
    Form("r", "redis-cli line that reads it", redis_cli, "line"),
    Form("p", "Python that puts the same (in clear)", python, "job", needs_client=True),
    Form("b", "body, its raw bytes (in clear)", bodies, "body"),
)


def copied(form: Form, jobs: Sequence[Job], source: Source) -> Copied:
    """Jobs in a form."""
    return Copied(form.make(jobs, source), formats.numbered(len(jobs), form.noun))


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────


# Also as East Asian keyboards have them; tabs and line ends, which do it too, are gone by then.
_BEGINS_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_FIGURE = re.compile(r"[-+]?[\d.,:]+ ?[a-zA-Zµ%]{0,3}")  # `-3.5 s` is no formula


def rows(columns: Sequence[Column], shown: Iterable[Row]) -> Copied:
    """Rows of a table as tab-separated values under the columns' titles, in the words of the screen."""
    titled = [at for at, column in enumerate(columns) if column.title]
    lines = ["\t".join(columns[at].title for at in titled)]
    lines += ["\t".join(_words(row.cells[at]) for at in titled if at < len(row.cells)) for row in shown]
    return Copied("\n".join(lines).encode("utf-8", "backslashreplace"), formats.numbered(len(lines) - 1, "row"))


def _words(cell: Cell) -> str:
    """The text of a cell; what a spreadsheet would calculate when it is pasted there is marked as text."""
    text = safe("".join(piece.text for piece in pieces_of(cell))).strip()
    return f"'{text}" if text.startswith(_BEGINS_FORMULA) and not _FIGURE.fullmatch(text) else text


# ── how ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_plain(id: bytes) -> bool:
    try:
        return safe(id) == id.decode() != ""
    except UnicodeDecodeError:
        return False


def _masked(document: Mapping[str, Any]) -> dict[str, Any]:
    """A job's document with what is secret in its body and its errors masked, by the rules of the screen."""
    body = document["body"]
    hide = _masked_bytes if body["encoding"] == "base64" else _hidden
    return {
        **document,
        "error": _hidden(document["error"]),
        "history": _hidden(document["history"]),
        "body": {**body, "value": hide(body["value"])},
    }


def _hidden(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: MASK if is_secret(key) else _hidden(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_hidden(each) for each in value]
    return mask_text(value) if isinstance(value, str) else value


def _masked_bytes(encoded: str) -> str:
    """Bytes in base64, unless there are words of a secret in them."""
    text = base64.b64decode(encoded).decode("latin-1")
    return encoded if mask_text(text) == text else MASK


def _redis_cli(job: Job, source: Source) -> str:
    words = ["redis-cli", *_connection(source.url)]
    asked = [*_reading(job, source)]
    if all(_is_plain(word) and b'"' not in word and b"'" not in word for word in asked):
        return shlex.join([*words, *(word.decode() for word in asked)])
    return shlex.join([*words, "--quoted-input", *(_quoted(word) for word in asked)])


def _reading(job: Job, source: Source) -> tuple[bytes, ...]:
    """The command that shows a job where it is kept: its record, else its entry in the place."""
    keys = source.layout.keys(source.queue)
    if "jobs" in keys:
        return b"HGET", _bytes(keys["jobs"]), job.id
    place = source.layout.place(job.place)
    if place.is_heard:  # no key holds it: this is how one hears the next
        return b"PSUBSCRIBE", *map(_bytes, source.layout.hears())
    made = place.key.replace("<queue>", source.queue).replace("<worker>", job.worker)
    key = keys.get(place.name, keys.get("entries", made))
    command = {"zset": b"ZSCORE", "list": b"LPOS", "set": b"SISMEMBER", "hash": b"HGET"}[place.type]
    return command, _bytes(key), job.member


def _bytes(text: str) -> bytes:
    return to_bytes(text)


def _quoted(raw: bytes) -> str:
    """Bytes as redis-cli writes and reads them: `"a\\xff\\n"`."""
    named = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
    shown = (named.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in raw)
    return f'"{"".join(shown)}"'


def _connection(url: str) -> list[str]:
    """Where to connect, as options of redis-cli; what is usual is left out."""
    parts = urlsplit(url)
    user = ["--user", unquote(parts.username)] if parts.username else []
    if parts.scheme == "unix":
        return ["-s", unquote(parts.path), *user]
    hosts = urls.hosts_of(url, "the URL")
    if hosts is not None and hosts.kind == "cluster":
        return ["-c", *_connection(hosts.single)]
    if hosts is not None:  # redis-cli asks no sentinels: a person fills in whom they name
        return ["-h", f"PRIMARY-OF-{hosts.service}", "-p", "PORT", *_connection(hosts.single)[4:]]
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


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None and "password=" not in parts.query:
        return url
    where = parts.netloc.rpartition("@")[2]
    query = "&".join(word for word in parts.query.split("&") if word and "password=" not in word.lower())
    user = f"{parts.username}@" if parts.username else ""
    return parts._replace(netloc=user + where, query=query).geturl()


def _arguments(job: Job) -> list[str]:
    """What `Queue.put` is called with; what the queue decides by default is left out where it is not known."""
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
