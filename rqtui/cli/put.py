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
from rqtui.cli.json_body import encode_json_body, encode_text, parse_strict_json
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
        str | None, typer.Argument(metavar="[BODY | -]", help="The body as JSON; - reads it from standard input.")
    ] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Choose the id; a second put of the same id changes nothing."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="KIND", help="Name the kind of job.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="90s", help="Run the job after this delay.")] = None,
    due: Annotated[
        str | None, typer.Option("--due", metavar="2026-12-01T08:00Z", help="Run the job at this time or later.")
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option("--priority", metavar="N", help="Set the priority, -4096 to 4095; lower numbers run first."),
    ] = None,
    ttr: Annotated[
        str | None, typer.Option("--ttr", metavar="30s", help="Lease the job for this time whenever a worker takes it.")
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option("--max-attempts", metavar="N", help="Allow N attempts; a job that fails the last one is dead."),
    ] = None,
    backoff: Annotated[
        str | None,
        typer.Option(
            "--backoff",
            metavar="1s..1h",
            help="Wait this long after the first failure, and at most so long after later ones.",
        ),
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="1h", help="Keep the job for this time after it is done.")
    ] = None,
    opts: Annotated[
        str | None,
        typer.Option("--opts", metavar="JSON", help="Set other options of a job that the queue's system supports."),
    ] = None,
    lines: Annotated[
        str | None, typer.Option("--lines", metavar="FILE|-", help='Put one job per line: {"body": …, "id": …}.')
    ] = None,
    is_raw: Annotated[
        bool, typer.Option("--raw", help="Store the body as the given bytes, which need not be JSON.")
    ] = False,
) -> int:
    """Put one or many jobs into a queue.

    A job whose id exists in the queue is left as it is, so the same line may run again. How long a queue keeps an
    id depends on its system: see the page of the system. Sidekiq and Celery store no ids, so --id is refused there.

    Example: rqtui put mail '{"to": "a@b.c"}' --id welcome:42 --delay 3d
    """
    session.refuse_if_read_only("put")
    fields = {
        "id": id, "name": name, "delay": delay, "due": due, "priority": priority, "ttr": ttr,
        "max_attempts": max_attempts, "backoff": backoff, "keep": keep, "opts": opts,
    }  # fmt: skip
    fields = {key: value for key, value in fields.items() if value is not None}
    if lines is None:
        if body is None:
            raise UsageError("put needs a body: JSON such as '{\"to\": 1}', or - to read it, or --lines FILE for many.")
        described = {**_convert_job_fields(fields, ""), "body": _read_body_argument(body, is_raw)}
        return _put_one_job(session, queue, described)
    if body is not None:
        raise UsageError("--lines brings the bodies; leave BODY away.")
    if "id" in fields:
        raise UsageError("--id names one job; with --lines each line has its own.")
    return _put_jobs_from_lines(session, queue, lines, _convert_job_fields(fields, ""))


def _open_queue(session: Session, name: str) -> Queue | _EngineQueue:
    """Open the queue that `put` writes to. Raises Refused if `enqueue` is denied there."""
    engine = session.create_engine()
    ref = engine.resolve_or_discover(name)
    engine.raise_if_refused("enqueue", ref)
    if not engine.systems[ref.system].has_client:
        engine.systems[ref.system].learn_job_format(engine.client, ref.queue)
        return _EngineQueue(engine, ref)
    if ref not in engine.refs and not name.startswith(f"{ref.system}:"):  # it may be an empty queue of another system
        notice = f"{ref.queue} is a new {ref.system} queue"
        output.print_message(f"{notice}; another system's is put into as SYSTEM:QUEUE.")
    from rqtui.client.queue import BYTES, open_queue_on_client

    # One thread puts jobs here, so the queue may use the open connection: another one would take a round trip to open.
    return open_queue_on_client(ref.queue, engine.client, codec=BYTES)


class _EngineQueue:
    """A queue of a system without a Python client. Its methods are those of `Queue` that `put` needs."""

    def __init__(self, engine: Engine, ref: Ref) -> None:
        self.name = ref.queue
        self._engine, self._ref = engine, ref

    def put(self, **described: Any) -> Put:
        """Put one job and return the result, with the id that the system gave the job."""
        return self._send_batch([described])[0]

    def put_batches(self, items: Iterable[dict[str, Any]]) -> Iterator[list[Put]]:
        """Put jobs in batches and yield the results of each batch. A batch is put as a whole or not at all."""
        batch: list[dict[str, Any]] = []
        for item in items:
            batch.append(item)
            if len(batch) == BATCH:
                yield self._send_batch(batch)
                batch = []
        if batch:
            yield self._send_batch(batch)

    def _send_batch(self, items: list[dict[str, Any]]) -> list[Put]:
        """Put one batch of jobs. Raises UsageError for an id that the system cannot store, or Refused."""
        from rqtui.client.calls import Put, build_enqueue_columns

        rows = []
        system = self._engine.systems[self._ref.system]
        if system.body_id_example and any("id" in item for item in items):
            raise UsageError(
                f"{system.name}: an id is refused: {system.name} keeps no record of the ids of its jobs, so a second "
                f"job with the same id would run. Leave it out, or write it into the body, {system.body_id_example}."
            )
        for item in items:
            job_fields = dict(item)
            row: dict[str, Any] = {"body": job_fields.pop("body")}
            row |= {name: job_fields.pop(name) for name in ("id", "opts") if name in job_fields}
            rows.append({**row, **build_enqueue_columns(job_fields)})
        outcomes = self._engine.send_request(system.put_request(self.name, rows))
        for outcome in outcomes:
            if outcome.word == "error":
                raise Refused(outcome.text)
        for word, refused in {one.word: one for one in outcomes if one.word not in ACCEPTED_WORDS}.items():
            output.print_message(f"{documents.format_id(refused.id)} is {word}: {refused.text}.")
        return [Put(to_text(outcome.id), outcome.word) for outcome in outcomes]


def _put_one_job(session: Session, name: str, job_fields: dict[str, Any]) -> int:
    """Put one job and print its result; return the exit code."""
    queue = _open_queue(session, name)
    if "opts" in job_fields and not isinstance(queue, _EngineQueue):
        raise UsageError(f"a job of {queue.name} has no opts; it has {', '.join(_FIELDS[:-1])}.")
    result = queue.put(**job_fields)
    _write_put_results(session, queue.name, [result])
    return DONE if result.word in ACCEPTED_WORDS else REFUSED


def _write_put_results(session: Session, queue: str, puts: list[Put]) -> None:
    """Print the result of each put job, as JSON or as text."""
    if session.as_json:
        results = [{**documents.build_id_fields(to_bytes(put.id)), "word": put.word} for put in puts]
        output.write_json({**documents.build_queue_fields(queue), "results": results})
        return
    from rqtui.text.sanitise import format_id

    texts = {"moved": "enqueued", "exists": "exists already"}
    output.write_lines([f"{format_id(put.id)}  {texts.get(put.word, put.word)}" for put in puts])


def _read_body_argument(argument: str, is_raw: bool) -> bytes:
    """Read a job's body from the argument, or from stdin for `-`. Raises UsageError if it is too long."""
    raw = files.read_limited_bytes(sys.stdin.buffer, MAX_BODY_BYTES + 1) if argument == "-" else to_bytes(argument)
    if len(raw) > MAX_BODY_BYTES:
        raise UsageError(
            f"the body has more than {MAX_BODY_BYTES} bytes, which is the most that Redis stores in one value."
        )
    return raw if is_raw else encode_json_body(raw)


def _convert_job_fields(fields: dict[str, Any], location: str) -> dict[str, Any]:
    """Check the fields of a job and convert them for the client. Raises UsageError for an unknown or invalid field.

    `location` (for example `line 7: `) begins the error message.
    """
    from rqtui import durations

    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise UsageError(f'{location}there is no "{unknown[0]}"; a job has {", ".join(_FIELDS)}.')
    for name in _NUMBERS:
        if name in fields and (not isinstance(fields[name], int) or isinstance(fields[name], bool)):
            raise UsageError(f"{location}{name} is a whole number, not {fields[name]!r:.40}.")
    for name in ("id", "name"):
        if name in fields and not isinstance(fields[name], str):
            raise UsageError(f"{location}{name} is text, not {fields[name]!r:.40}.")
    if "id" in fields and not 1 <= len(to_bytes(fields["id"])) <= ID_BYTES:
        raise UsageError(f"{location}an id has 1 to {ID_BYTES} bytes; this one has {len(to_bytes(fields['id']))}.")
    if "delay" in fields and "due" in fields:
        raise UsageError(f"{location}delay and due exclude each other: give one of them.")
    try:
        for name in _DURATIONS:
            if name in fields:
                durations.parse_duration(fields[name], name)
        if "backoff" in fields:
            durations.parse_duration_range(fields["backoff"])
        return {**fields, "due": _parse_due_time(fields["due"])} if "due" in fields else fields
    except UsageError as error:
        raise UsageError(f"{location}{error}") from None


def _parse_due_time(value: object) -> datetime | int:
    """Parse a due time: ISO 8601 with a time zone, or milliseconds since 1970. Raises UsageError."""
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


def _put_jobs_from_lines(session: Session, name: str, path: str, common: dict[str, Any]) -> int:
    """Put one job for each line of a file or of stdin, print the results, and return the exit code."""
    queue = _open_queue(session, name)
    results: list[Put] = []
    counts_by_word = Counter({"moved": 0, "exists": 0})
    try:
        with _open_lines_source(path) as source, output.show_progress(f"putting into {queue.name}") as bar:
            if _is_regular_file(source):
                start = source.tell()
                bar.total = sum(1 for _line in _read_jobs_from_lines(source, common))
                source.seek(start)
            for puts in queue.put_batches(_read_jobs_from_lines(source, common)):
                for put in puts:
                    counts_by_word[put.word] += 1
                results += puts if session.as_json else ()
                bar.add_steps(len(puts))
    except KeyboardInterrupt:
        in_already = sum(counts_by_word.values())
        output.print_message(f"interrupted: jobs in the queue: {in_already}, and perhaps the batch that was under way.")
        _write_put_summary(session, queue.name, results, counts_by_word)
        return INTERRUPTED
    except RqtuiError as error:
        in_already = sum(counts_by_word.values())
        if not in_already:
            raise
        output.print_message(f"{error} Jobs in the queue from the batches before: {in_already}.")
        _write_put_summary(session, queue.name, results, counts_by_word)
        return REFUSED
    _write_put_summary(session, queue.name, results, counts_by_word)
    return DONE if ACCEPTED_WORDS.issuperset(counts_by_word) else REFUSED


def _write_put_summary(session: Session, queue: str, results: list[Put], counts_by_word: Counter[str]) -> None:
    """Print how many of the jobs from a file were put, and how many existed before."""
    if session.as_json:
        _write_put_results(session, queue, results)
        return
    refusals = [
        f", {number} {outcome_word}"
        for outcome_word, number in counts_by_word.items()
        if outcome_word not in ("moved", "exists")
    ]
    output.write_lines(
        [f"{counts_by_word['moved']} enqueued, {counts_by_word['exists']} exist already{''.join(refusals)}"]
    )


def _open_lines_source(path: str) -> AbstractContextManager[BinaryIO]:
    """Open the file of `--lines`, or stdin for `-`."""
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return files.open_file_or_pipe(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None


def _is_regular_file(source: BinaryIO) -> bool:
    """Return whether `source` is a regular file, which can be read twice. A pipe cannot."""
    try:
        return stat.S_ISREG(os.fstat(source.fileno()).st_mode) and source.seekable()
    except OSError:
        return False


def _read_jobs_from_lines(source: BinaryIO, common: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Parse each non-empty line of `source` into a job for `put_batches`. Raises UsageError that names the line."""
    for number, line in enumerate(iter(lambda: source.readline(MAX_BODY_BYTES + len(b"\n")), b""), 1):
        if not line.strip():
            continue
        location = f"line {number}: "
        if len(line) > MAX_BODY_BYTES:
            raise UsageError(f"{location}it has more than {MAX_BODY_BYTES} bytes.")
        try:
            job = parse_strict_json(line.decode())
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{location}it is not JSON ({error}).") from None
        if not isinstance(job, dict) or "body" not in job:
            raise UsageError(f'{location}a line is an object with a "body", as in {{"body": {{"to": 1}}, "id": "a"}}.')
        fields = {key.replace("-", "_"): value for key, value in job.items() if value is not None or key == "body"}
        body = fields.pop("body")
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        try:
            yield {**common, **_convert_job_fields(fields, location), "body": encode_text(text)}
        except UsageError as error:
            raise UsageError(str(error) if str(error).startswith(location) else f"{location}{error}") from None
