"""Convert the first jobs of a place to the JSON of a recording, and read them back as the page of a board.

A recorded job has what a row of a board needs: id, kind, times, attempts, worker, priority, the error in one line, and
the beginning of its body. Texts have the names and the form of `--json`. Secrets are masked before anything is cut, and
also if a command runs with `--reveal`. `page_collector.py` decides which pages are recorded.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rqtui.config.settings import MAX_RECORD_JOBS
from rqtui.errors import RecordingError
from rqtui.model import Count, Fact, Job, Page, PageRecord, Ref, State
from rqtui.recording.records import MINUTE_MS, RecordedPage
from rqtui.recording.store import Reader, translate_damaged_jobs
from rqtui.reports.jobs import build_body_document, build_job_document, encode_text
from rqtui.text.body import convert_binary_to_json
from rqtui.text.fields import Number, parse_partial_body
from rqtui.text.masking import mask_json_value, mask_text, reveal_secrets
from rqtui.text.tracebacks import summarize_error

PREVIEW_BYTES = 1024  # of a body
MAX_TEXT = 500  # characters of another text
MAX_PAGE_BYTES = 256 * 1024  # of the JSON of a page; jobs at its end are left out
MAX_NUMBER = 1 << 63  # of times and counts; a job of another program may have any number
NOT_RECORDED = "The number of jobs is recorded; the jobs are not."
NOT_IN_RECORD = "the whole error, earlier attempts, other fields"

# Members of a recorded job, and the attribute of `Job` of each. A member that is absent has the default of `Job`.
_TEXTS = {"name": "name", "call": "call", "worker": "worker", "error": "error", "problem": "problem"}
_NUMBERS = {
    "enqueued_at_ms": "enqueued_ms",
    "due_at_ms": "due_ms",
    "reserved_at_ms": "reserved_ms",
    "deadline_at_ms": "deadline_ms",
    "since_at_ms": "since_ms",
    "priority": "priority",
    "ttr_ms": "ttr_ms",
    "attempts": "attempts",
    "max_attempts": "max_attempts",
}


# -- writing -----------------------------------------------------------------------------------------------------------


def build_recorded_page(ref: Ref, page: Page, taken_ms: int, limit: int, *, is_exact: bool) -> RecordedPage:
    """Build the record of the first `limit` jobs of a page. `is_exact` is whether the number of jobs is exact."""
    documents: list[str] = []
    free_bytes = MAX_PAGE_BYTES
    with reveal_secrets(is_revealed=False):
        for job in page.jobs[:limit]:
            document = json.dumps(_build_recorded_job(job), ensure_ascii=False, separators=(",", ":"))
            free_bytes -= len(document)
            if free_bytes < 0:
                break
            documents.append(document)
    jobs = f"[{','.join(documents)}]".encode("utf-8", "replace").decode()
    return RecordedPage(ref, taken_ms - taken_ms % MINUTE_MS, page.place, taken_ms, page.job_count, is_exact, jobs)


def _build_recorded_job(job: Job) -> dict[str, Any]:
    """Build the members of a recorded job, with secrets masked. Members without a value are left out."""
    error = mask_text(summarize_error(mask_text(job.error))) if job.error else ""
    document = build_job_document(replace(job, error=error, body=None))
    members: dict[str, Any] = {name: document[name] for name in ("id", "id_encoding") if name in document}
    members |= {name: text[:MAX_TEXT] for name in _TEXTS if (text := document[name])}
    numbers = {**document, "since_at_ms": job.since_ms}
    members |= {name: int(value) for name in _NUMBERS if (value := numbers[name]) and abs(value) <= MAX_NUMBER}
    if job.is_cancelled:
        members["cancelled"] = True
    head = job.member if job.body is None else job.body
    if head and head != job.id:
        members["body"] = _build_recorded_body(head, max(job.body_bytes, len(head)))
    elif job.body_bytes:
        members["body"] = {"bytes": job.body_bytes, "encoding": "omitted"}
    return members


def _build_recorded_body(head: bytes, size: int) -> dict[str, Any]:
    """Build the body of a recorded job from the part of it that was read: its size, its encoding, and a text.

    The text is JSON if the encoding is json or msgpack. The encoding is `omitted` if the text is only a preview.
    """
    document = build_body_document(head, size)
    encoding, value = document["encoding"], document["value"]
    if encoding in ("json", "msgpack"):
        text = json.dumps(value, ensure_ascii=False)
    elif encoding in ("utf-8", "masked"):
        text = value
    else:
        encoding, text = "omitted", _build_preview(head, is_whole=len(head) >= size)
    raw = text.encode("utf-8", "replace")
    if len(raw) > PREVIEW_BYTES:
        encoding = "omitted"
    text = raw[:PREVIEW_BYTES].decode("utf-8", "ignore")
    return {"bytes": size, "encoding": encoding, **({"text": text} if text else {})}


def _build_preview(head: bytes, *, is_whole: bool) -> str:
    """Return a body, or its beginning, as text with secrets masked; empty for binary data that cannot be read.

    JSON, MessagePack and pickles become JSON, which ends early if the end of the body is missing.
    """
    inner = convert_binary_to_json(head) if is_whole else ""
    try:
        content = json.loads(inner) if inner else parse_partial_body(head)
        if content is not None:
            return json.dumps(mask_json_value(_convert_to_json_types(content)), ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        pass  # A text, or binary data.
    return mask_text(inner or _decode_beginning(head))


def _convert_to_json_types(value: Any) -> Any:
    """Convert a part of a body, as `parse_partial_body` returns it, to the types of JSON."""
    if isinstance(value, Mapping):
        return {str(key): _convert_to_json_types(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_convert_to_json_types(member) for member in value]
    if isinstance(value, Number):
        return json.loads(value)
    return encode_text(value) if isinstance(value, bytes) else value


def _decode_beginning(head: bytes) -> str:
    """Return the beginning of a text, of which the last character may be cut; empty for binary data."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        text = head[: error.start].decode() if error.start > len(head) - 4 and error.start else ""
    controls = sum(char < " " and char not in "\n\r\t" for char in text)
    return "" if controls * 10 > len(text) else text


# -- reading -----------------------------------------------------------------------------------------------------------


def find_recorded_page(reader: Reader, ref: Ref, count: Count, at_ms: int, minute_ms: int) -> RecordedPage | None:
    """Return the page of a place that was recorded last until a point in time, or None.

    `count` is the place with its number of jobs in the recorded minute or hour that begins at `minute_ms`. A page from
    before that minute is left out if the place was empty then. Raises RecordingError.
    """
    page = reader.read_job_page(ref, count.place, at_ms)
    return None if page is not None and page.at_ms < minute_ms and is_known_empty(count) else page


def is_known_empty(count: Count) -> bool:
    """Return whether a place is known to have no job, so that its jobs are known without a page."""
    return not count.count and count.is_exact and count.is_count_known


def read_recorded_page(reader: Reader, ref: Ref, count: Count, at_ms: int, minute_ms: int) -> Page:
    """Read the jobs of a place that were recorded last until a point in time, as the page of a board.

    A page without jobs has an error, which says that the jobs were not recorded or cannot be read, unless the place is
    known to be empty. See `find_recorded_page`.
    """
    try:
        recorded = find_recorded_page(reader, ref, count, at_ms, minute_ms)
        if recorded is not None:
            return build_page(recorded, count.state)
    except RecordingError as error:
        return Page(ref.queue, ref.system, count.place, (), 0, error=str(error))
    return Page(ref.queue, ref.system, count.place, (), 0, error="" if is_known_empty(count) else NOT_RECORDED)


def build_page(recorded: RecordedPage, state: State) -> Page:
    """Build the page of a board from a recorded page. Raises RecordingError if its jobs cannot be read."""
    jobs = parse_recorded_jobs(recorded, state)
    return Page(
        recorded.ref.queue,
        recorded.ref.system,
        recorded.place,
        jobs,
        len(jobs),
        record=PageRecord(recorded.taken_ms, recorded.total, recorded.is_exact),
    )


def build_recorded_documents(recorded: RecordedPage, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Build the `--json` documents of the jobs of a recorded page. Members that are not recorded are None.

    A body of which only a part was recorded has the encoding `omitted`, and the part as `preview`. Raises
    RecordingError if a body cannot be read.
    """
    with translate_damaged_jobs(recorded.place):
        return [
            {**build_job_document(job), "body": _build_body_document(stored.get("body"))}
            for job, stored in zip(jobs, json.loads(recorded.jobs), strict=True)
        ]


def _build_body_document(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Build the JSON document of a recorded body. None: the job has no body."""
    if stored is None:
        return build_body_document(b"", 0)
    size, encoding, text = stored["bytes"], str(stored["encoding"]), stored.get("text")
    if encoding == "omitted" or text is None:
        preview = {"preview": mask_text(text)} if text else {}
        return {"bytes": size, "encoding": "omitted", "value": None, **preview}
    value = json.loads(text) if encoding in ("json", "msgpack") else text
    return {"bytes": size, "encoding": encoding, "value": mask_json_value(value)}


def parse_recorded_jobs(page: RecordedPage, state: State) -> tuple[Job, ...]:
    """Parse the jobs of a recorded page. Raises RecordingError if a writer cannot have written them."""
    with translate_damaged_jobs(page.place):
        documents = json.loads(page.jobs)
        if not isinstance(documents, list) or len(documents) > MAX_RECORD_JOBS:
            raise ValueError("no list of jobs")
        return tuple(_parse_job(page, state, document) for document in documents)


def _parse_job(page: RecordedPage, state: State, document: Mapping[str, Any]) -> Job:
    id = document["id"].encode()
    if document.get("id_encoding") == "base64":
        id = base64.b64decode(id, validate=True)
    fields: dict[str, Any] = {_TEXTS[name]: _require_text(document[name]) for name in _TEXTS if name in document}
    fields |= {_NUMBERS[name]: _require_number(document[name]) for name in _NUMBERS if name in document}
    body = document.get("body", {})
    text = body.get("text")
    missing = NOT_IN_RECORD if body.get("encoding") != "omitted" else f"the whole body, {NOT_IN_RECORD}"
    return Job(
        id,
        page.ref.queue,
        page.ref.system,
        page.place,
        state,
        b"",
        body=None if text is None else _require_text(text).encode(),
        body_bytes=_require_number(body.get("bytes", 0)),
        is_cancelled=bool(document.get("cancelled")),
        facts=(Fact("recorded", page.taken_ms, "instant"), Fact("not recorded", missing)),
        **fields,
    )


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a text is expected")
    return value


def _require_number(value: Any) -> int:
    if not isinstance(value, int) or abs(value) > MAX_NUMBER:
        raise TypeError(f"{type(value).__name__} where a number is expected")
    return value
