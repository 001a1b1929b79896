"""Implement `put`: put one job from the command line, or many from lines of JSON.

A body is JSON: a string is stored as its UTF-8, anything else as its text. `--raw` takes bytes as they are. All lines
of a regular file are read and checked before the first job is sent; those of a pipe are checked batch by batch.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from rqtui import files
from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUE
from rqtui.cli.json_body import encode_body, encode_text, parse_json
from rqtui.cli.session import DONE, INTERRUPTED, REFUSED, Session
from rqtui.errors import Refused, RqtuiError, UsageError
from rqtui.ids import ID_BYTES
from rqtui.text.names import to_bytes, to_text

if TYPE_CHECKING:
    from rqtui.client.queue import Put, Queue
    from rqtui.engine.engine import Engine
    from rqtui.model import Ref

_FIELDS = ("body", "id", "name", "delay", "due", "priority", "ttr", "max_attempts", "backoff", "keep", "opts")
_DURATIONS = ("delay", "ttr", "keep")
BATCH = 1000  # jobs per call
MAX_BODY_BYTES = (
    512 << 20
)  # the most that Redis stores in one value; longer lines and bodies are refused and never read whole
ACCEPTED_WORDS = frozenset({"moved", "exists", "done"})  # the job is in the queue; any other word is a refusal
_NUMBERS = ("priority", "max_attempts")


def put(
    session: Session,
    queue: QUEUE,
    body: Annotated[
        str | None, typer.Argument(metavar="[BODY | -]", help="JSON; - reads it from standard input.")
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Yours; a second put of it is a no-op, or --id is refused.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="KIND", help="The kind of job.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="90s", help="Not before so long from now.")] = None,
    due: Annotated[str | None, typer.Option("--due", metavar="2026-12-01T08:00Z", help="Not before then.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", metavar="N", help="-4096 to 4095, lower first.")] = None,
    ttr: Annotated[str | None, typer.Option("--ttr", metavar="30s", help="How long a lease lasts.")] = None,
    max_attempts: Annotated[int | None, typer.Option("--max-attempts", metavar="N", help="Then it is dead.")] = None,
    backoff: Annotated[str | None, typer.Option("--backoff", metavar="1s..1h", help="First and longest wait.")] = None,
    keep: Annotated[str | None, typer.Option("--keep", metavar="1h", help="How long it stays when done.")] = None,
    opts: Annotated[
        str | None, typer.Option("--opts", metavar="JSON", help="What else the system of a queue knows of a job.")
    ] = None,
    lines: Annotated[
        str | None, typer.Option("--lines", metavar="FILE|-", help='Many: {"body": …, "id": …} per line.')
    ] = None,
    is_raw: Annotated[bool, typer.Option("--raw", help="The body is bytes, not JSON; stored as it is.")] = False,
) -> int:
    """Put a job, or many, into a queue.

    An id that the queue knows already is left as it is, so the same line may run again. How long a queue knows an id
    depends on its system: see its page. Sidekiq and Celery keep no record of ids, so --id is refused there.

    Example: rqtui put mail '{"to": "a@b.c"}' --id welcome:42 --delay 3d
    """
    session.refuse_if_read_only("put")
    given = {
        "id": id, "name": name, "delay": delay, "due": due, "priority": priority, "ttr": ttr,
        "max_attempts": max_attempts, "backoff": backoff, "keep": keep, "opts": opts,
    }  # fmt: skip
    given = {key: value for key, value in given.items() if value is not None}
    if lines is None:
        if body is None:
            raise UsageError("put needs a body: JSON such as '{\"to\": 1}', or - to read it, or --lines FILE for many.")
        described = {**_check_fields(given, ""), "body": _read_body(body, is_raw)}
        return _put_one(session, queue, described)
    if body is not None:
        raise UsageError("--lines brings the bodies; leave BODY away.")
    if "id" in given:
        raise UsageError("--id names one job; with --lines each line has its own.")
    return _put_lines(session, queue, lines, _check_fields(given, ""))


def _open_queue(session: Session, name: str) -> Queue | _ForeignQueue:
    """Return the queue to put into. Raises Refused if `enqueue` is denied there."""
    engine = session.create_engine()
    ref = engine.resolve_or_discover(name)
    engine.raise_if_refused("enqueue", ref)
    if not engine.systems[ref.system].has_client:
        engine.systems[ref.system].learn_job_format(engine.client, ref.queue)
        return _ForeignQueue(engine, ref)
    if ref not in engine.refs and not name.startswith(f"{ref.system}:"):  # it may be an empty queue of another system
        new = f"{ref.queue} is a new {ref.system} queue"
        output.print_message(f"{new}; another system's is put into as SYSTEM:QUEUE.")
    from rqtui.client.queue import BYTES, Queue

    return Queue(ref.queue, engine.client, codec=BYTES)


class _ForeignQueue:
    """A queue of a system without a client class, with the methods of `Queue` that `put` needs."""

    def __init__(self, engine: Engine, ref: Ref) -> None:
        self.name = ref.queue
        self._engine, self._ref = engine, ref

    def put(self, **described: Any) -> Put:
        """Put one job and return its result, with the id that the system gave it."""
        return self._send([described])[0]

    def put_batches(self, items: Iterable[dict[str, Any]]) -> Iterator[list[Put]]:
        """Put jobs in batches and yield the results of each batch. Each call puts all of its jobs or none."""
        batch: list[dict[str, Any]] = []
        for item in items:
            batch.append(item)
            if len(batch) == BATCH:
                yield self._send(batch)
                batch = []
        if batch:
            yield self._send(batch)

    def _send(self, items: list[dict[str, Any]]) -> list[Put]:
        """Put one batch. Raises UsageError for an id that the system cannot record, and Refused for an error reply."""
        from rqtui.client.calls import Put, build_columns

        rows = []
        system = self._engine.systems[self._ref.system]
        if system.body_id_example and any("id" in item for item in items):
            raise UsageError(
                f"{system.name}: an id is refused, since nothing tells whether it was put before: {system.name} keeps "
                f"no record of the ids of its jobs. Leave it out, or name it in the body, {system.body_id_example}: a "
                "second put of that runs again."
            )
        for item in items:
            given = dict(item)
            row: dict[str, Any] = {"body": given.pop("body")}
            row |= {name: given.pop(name) for name in ("id", "opts") if name in given}
            rows.append({**row, **build_columns(given)})
        outcomes = self._engine.send_request(system.put_request(self.name, rows))
        for outcome in outcomes:
            if outcome.word == "error":
                raise Refused(outcome.text)
        for word, refused in {one.word: one for one in outcomes if one.word not in ACCEPTED_WORDS}.items():
            output.print_message(f"{documents.format_id(refused.id)} is {word}: {refused.text}.")
        return [Put(to_text(outcome.id), outcome.word) for outcome in outcomes]


def _put_one(session: Session, name: str, described: dict[str, Any]) -> int:
    queue = _open_queue(session, name)
    if "opts" in described and not isinstance(queue, _ForeignQueue):
        raise UsageError(f"a job of {queue.name} has no opts; it has {', '.join(_FIELDS[:-1])}.")
    done = queue.put(**described)
    _write_results(session, queue.name, [done])
    return DONE if done.word in ACCEPTED_WORDS else REFUSED


def _write_results(session: Session, queue: str, puts: list[Put]) -> None:
    if session.as_json:
        results = [{**documents.build_id_fields(to_bytes(put.id)), "word": put.word} for put in puts]
        output.write_json({**documents.build_queue_fields(queue), "results": results})
        return
    from rqtui.text.sanitise import format_id

    words = {"moved": "enqueued", "exists": "exists already"}
    output.write_lines([f"{format_id(put.id)}  {words.get(put.word, put.word)}" for put in puts])


def _read_body(word: str, is_raw: bool) -> bytes:
    """Read the body from the argument, or from stdin for `-`, and encode it. Raises UsageError if it is too long."""
    raw = files.read_limited_bytes(sys.stdin.buffer, MAX_BODY_BYTES + 1) if word == "-" else to_bytes(word)
    if len(raw) > MAX_BODY_BYTES:
        raise UsageError(
            f"the body has more than {MAX_BODY_BYTES} bytes, which is the most that Redis stores in one value."
        )
    return raw if is_raw else encode_body(raw)


def _check_fields(given: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the fields of a job as the client takes them. Raises UsageError for an unknown or invalid field.

    `where` (for example `line 7: `) begins the error message.
    """
    from rqtui import durations

    unknown = [name for name in given if name not in _FIELDS]
    if unknown:
        raise UsageError(f'{where}there is no "{unknown[0]}"; a job has {", ".join(_FIELDS)}.')
    for name in _NUMBERS:
        if name in given and (not isinstance(given[name], int) or isinstance(given[name], bool)):
            raise UsageError(f"{where}{name} is a whole number, not {given[name]!r:.40}.")
    for name in ("id", "name"):
        if name in given and not isinstance(given[name], str):
            raise UsageError(f"{where}{name} is text, not {given[name]!r:.40}.")
    if "id" in given and not 1 <= len(to_bytes(given["id"])) <= ID_BYTES:
        raise UsageError(f"{where}an id has 1 to {ID_BYTES} bytes; this one has {len(to_bytes(given['id']))}.")
    if "delay" in given and "due" in given:
        raise UsageError(f"{where}delay and due exclude each other: give one of them.")
    try:
        for name in _DURATIONS:
            if name in given:
                durations.parse_duration(given[name], name)
        if "backoff" in given:
            durations.parse_duration_range(given["backoff"])
        return {**given, "due": _parse_due(given["due"])} if "due" in given else given
    except UsageError as error:
        raise UsageError(f"{where}{error}") from None


def _parse_due(value: object) -> datetime | int:
    """Parse a point in time: ISO 8601 with a time zone, or milliseconds since 1970. Raises UsageError."""
    from rqtui import durations

    instant: Any = value
    if isinstance(value, str):
        try:
            instant = int(value) if value.isascii() and value.isdigit() else datetime.fromisoformat(value)
        except ValueError:
            raise UsageError(
                f"due cannot be {value!r:.40}: write 2026-12-01T08:00Z, or milliseconds since 1970."
            ) from None
    return durations.parse_instant(instant)


# ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _put_lines(session: Session, name: str, path: str, common: dict[str, Any]) -> int:
    """Put a job for each line of a file or of stdin, and print the results; return the exit code."""
    queue = _open_queue(session, name)
    results: list[Put] = []
    words = Counter({"moved": 0, "exists": 0})
    try:
        with _open_source(path) as source, output.show_progress(f"putting into {queue.name}") as bar:
            if _is_regular_file(source):
                start = source.tell()
                bar.total = sum(1 for _line in _read_jobs(source, common))
                source.seek(start)
            for puts in queue.put_batches(_read_jobs(source, common)):
                for put in puts:
                    words[put.word] += 1
                results += puts if session.as_json else ()
                bar.step(len(puts))
    except KeyboardInterrupt:
        in_already = sum(words.values())
        output.print_message(f"interrupted: jobs in the queue: {in_already}, and perhaps the batch that was under way.")
        _write_summary(session, queue.name, results, words)
        return INTERRUPTED
    except RqtuiError as error:
        in_already = sum(words.values())
        if not in_already:
            raise
        output.print_message(f"{error} Jobs in the queue from the batches before: {in_already}.")
        _write_summary(session, queue.name, results, words)
        return REFUSED
    _write_summary(session, queue.name, results, words)
    return DONE if words.keys() <= ACCEPTED_WORDS else REFUSED


def _write_summary(session: Session, queue: str, results: list[Put], words: Counter[str]) -> None:
    if session.as_json:
        _write_results(session, queue, results)
        return
    rest = [f", {number} {word}" for word, number in words.items() if word not in ("moved", "exists")]
    output.write_lines([f"{words['moved']} enqueued, {words['exists']} exist already{''.join(rest)}"])


def _open_source(path: str) -> AbstractContextManager[BinaryIO]:
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return files.open_file_or_pipe(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None


def _is_regular_file(source: BinaryIO) -> bool:
    """Return whether the source is a regular file, which can be read twice; a pipe cannot."""
    try:
        return stat.S_ISREG(os.fstat(source.fileno()).st_mode) and source.seekable()
    except OSError:
        return False


def _read_jobs(source: BinaryIO, common: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each line as a job for `put_batches`, without empty lines. Raises UsageError that names the line."""
    for number, line in enumerate(iter(lambda: source.readline(MAX_BODY_BYTES + 1), b""), 1):
        if not line.strip():
            continue
        where = f"line {number}: "
        if len(line) > MAX_BODY_BYTES:
            raise UsageError(f"{where}it has more than {MAX_BODY_BYTES} bytes.")
        try:
            job = parse_json(line.decode())
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where}it is not JSON ({error}).") from None
        if not isinstance(job, dict) or "body" not in job:
            raise UsageError(f'{where}a line is an object with a "body", as in {{"body": {{"to": 1}}, "id": "a"}}.')
        named = {key.replace("-", "_"): value for key, value in job.items() if value is not None or key == "body"}
        body = named.pop("body")
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        try:
            yield {**common, **_check_fields(named, where), "body": encode_text(text)}
        except UsageError as error:
            raise UsageError(str(error) if str(error).startswith(where) else f"{where}{error}") from None
