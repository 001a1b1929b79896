"""The journal, undo records and drains where one value is at a bound: see `change_records_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/operations/test_change_records_at_bounds.py` writes the text; review the
difference as code.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file, utc_time_zone
from memory_queues import NOW_MS, MemoryQueues, constant

from rqtui.errors import Refused, RqtuiError, ServerError, Unknown, UsageError
from rqtui.model import Job, Outcome, Page, Ref, State
from rqtui.operations import canary, canary_jobs, drain, journal, revert, undo, undo_files
from rqtui.operations.canary import CanaryProgress
from rqtui.operations.canary_jobs import End, FirstJob, Step
from rqtui.operations.journal import Circumstances, Journal, Operation, Sighting
from rqtui.operations.undo_files import AfterState, SavedJob, UndoRecord
from rqtui.systems import registry

KEPT = Path(__file__).with_name("change_records_at_bounds.txt")
MAIL, NEWS = Ref("native", "mail"), Ref("native", "news")
CLOCK = SimpleNamespace(now_s=1_800_000_000.0)
MB = 1 << 20


def job(id: object, state: str = "ready", **more: Any) -> Job:
    return Job(str(id).encode(), "mail", "native", state, State(state), b"m", **more)


def attempt(function: Any, *args: Any, **options: Any) -> str:
    """Return the result of a call, or its error as text."""
    try:
        return repr(function(*args, **options))
    except (RqtuiError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def hide_names(text: str, folder: Path) -> str:
    """Replace what differs from run to run: the folder, random ids and the process."""
    text = text.replace(str(folder), "FOLDER").replace(socket.gethostname(), "HOST")
    text = re.sub(r'"process": "[^"]*"', '"process": "PROCESS"', text)
    return re.sub(r"\b[0-9a-f]{16}\b", "RANDOM", re.sub(r"(\d{13}-\w+)-[0-9a-f]{6}", r"\1-RANDOM", text))


def write_journal(folder: Path) -> Journal:
    written = Journal(folder, "redis://me:secret@db:6379", "prod")
    written.who = "me@here"
    CLOCK.now_s += 1
    written.expect_change(
        "requeue", "mail", "native", Circumstances(5, "token=abcdef", "all", "5/s", before={"mail": {"dead": 9}})
    )
    id = written.begin_change("requeue", "mail", "native", 5)
    written.record_progress(id, 2, {"ready again": 1, "password=x": 1}, "undo-name")
    written.record_stop("requeue", "mail", "native", "stopped")
    written.record_stop("requeue", "other", "native", "never expected")
    written.end_change(id)
    CLOCK.now_s += 1
    first = written.record_change(
        "requeue", "mail", "native", [b"a", b"\xff"], {"ready again": 2}, undo=["r1"], count=1
    )
    written.record_counts_after(first, {"mail": {"dead": 7}})
    CLOCK.now_s += 1
    for other_systems in ((), ("rq",)):
        for queue in ("mail", "news"):
            written.expect_change("pause", queue, "native", Circumstances(before={queue: {"ready": 1}}))
        written.expect_change("pause", "news", "rq", Circumstances(before={"news": {"ready": 2}}))
        written.record_change(
            "pause", "mail", "native", others=["news"], other_systems=other_systems, undo=["r2", "r3"]
        )
        CLOCK.now_s += 1
    written.set_reason("the gateway is back")
    written.record_finding(Sighting(7, "mail", "native", "failing", "critical", "password=x"))
    written.mark_undone("r1")
    written.mark_undone("r2")
    written.end_change(written.begin_change("kill", "mail", "native", 1))
    written.flush_ended()
    written.flush_ended()
    written.record_reveal("show", "mail", "native", [b"a"])
    return written


def journals(folder: Path) -> Iterator[str]:
    written = write_journal(folder / "a")
    for line in (folder / "a" / journal.FILE_NAME).read_text().splitlines():
        yield hide_names(line, folder)
    for operation in (*written.operations, *journal.load_operations(folder / "a")):
        yield f"{operation}"
    written.mark_not_undoable(["r1", "r9"])
    yield f"undo: {[operation.undo for operation in written.operations]}"
    again = Journal(folder / "a", "redis://me:secret@db:6379")
    yield (
        f"another session loads {len(again.load_earlier_operations())}, the same "
        f"{len(written.load_earlier_operations())}"
    )
    elsewhere = Journal(folder / "a", "redis://other:6379")
    yield f"of another Redis: {len(elsewhere.load_earlier_operations())} {elsewhere.load_sightings()}"
    yield f"sightings: {again.load_sightings()} {written.sightings} {Journal(None).load_sightings()}"
    yield f"without a file: {Journal(None).load_earlier_operations()} {Journal(None).recover_interrupted()}"
    for number in (999, 1_000, 1_001):
        operation = Journal(None).record_change("kill", "mail", "native", [b"i"] * number)
        yield f"{number} ids: {len(operation.ids)} of {operation.count}"
    many = Journal(None)
    for number in range(502):
        many.record_change("kill", f"q{number}", "native")
        many.record_finding(Sighting(number, "mail", "native", "failing", "critical", "x"))
    yield (
        f"in memory: {len(many.operations)} {many.operations[-1].queue} {len(many.sightings)} {many.sightings[0].at_ms}"
    )
    operations = [
        json.dumps(journal.to_document(Operation(number, "me", "kill", f"q{number}", "native")))
        for number in range(502)
    ]
    sightings = [
        json.dumps(
            {"finding": journal.build_stored_fields(Sighting(number, "mail", "native", "f", "c", "x")), "url": "u"}
        )
        for number in range(502)
    ]
    write_lines(folder / "b", [*operations, *sightings])
    loaded, seen = journal.load_operations(folder / "b"), journal.load_sightings(folder / "b", "u")
    yield (
        f"loaded: {len(loaded)} {loaded[-1].queue} {len(journal.load_operations(folder / 'b', 3))}; {len(seen)} "
        f"{seen[0].at_ms}"
    )
    for size in (4 * MB - 1, 4 * MB, 4 * MB + 1):
        path = folder / f"c{size}" / journal.FILE_NAME
        write_lines(path.parent, [])
        os.truncate(path, size)
        Journal(path.parent).record_change("kill", "mail", "native")
        yield f"after {size} bytes: {sorted(each.name for each in path.parent.iterdir())}, {path.stat().st_size > MB}"
    for size in (64 * MB, 64 * MB + 1):
        problems: list[str] = []
        os.truncate(folder / "b" / journal.FILE_NAME, size)
        found = journal.load_operations(folder / "b", problems=problems)
        yield hide_names(f"a journal of {size} bytes: {len(found)} operations {problems}", folder)


def write_lines(folder: Path, lines: Iterable[str], name: str = journal.FILE_NAME) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines))


def interrupted_changes(folder: Path) -> Iterator[str]:
    long_ago_ms = NOW_MS - 3_600_000
    begun = {
        "begun": "c1",
        "at_ms": long_ago_ms,
        "verb": "kill",
        "queue": "mail",
        "layout": "native",
        "total": 5,
        "who": "me@elsewhere",
        "process": "",
        "url": "u",
        "profile": "",
        "why": "w",
        "chosen": "c",
        "rate": "r",
        "before": {"mail": {"dead": 5}},
    }
    went = {"went": "c1", "at_ms": long_ago_ms + 9, "done": 5, "answers": {"killed": 5}, "undo": "r1"}
    ended = journal.to_document(Operation(long_ago_ms + 99, "me", "kill", "mail", "native")) | {"ends": ["c1"]}
    own, here = journal._identify_process(os.getpid()), f"me@{socket.gethostname()}"
    for number, (title, lines) in enumerate(
        {
            "begun": [begun],
            "with progress": [begun, went],
            "with other progress": [begun, {**went, "done": 4}, {**went, "went": "c2"}],
            "ended": [begun, went, {"ended": ["c1"]}],
            "with an operation": [begun, went, ended],
            "recovered twice": [begun, ended, ended],
            "undone": [begun, went, {"undone": "r1", "at_ms": long_ago_ms + 20}],
            "another undone": [begun, went, {"undone": "r2", "at_ms": 1}],
            "running here": [{**begun, "who": here, "process": own}],
            "over here": [{**begun, "who": here, "process": "1x"}],
            "of another start": [{**begun, "who": here, "process": f"{os.getpid()}:1"}],
            "of no process": [{**begun, "who": here}],
            "of a future process": [{**begun, "who": here, "process": "99999999999999999999:1"}],
            "counted": [ended, {"counted": [long_ago_ms + 99, "kill", "mail"], "after": {"mail": {"dead": 0}}}],
            "with a reason": [ended, {"why": "y", "of": [[long_ago_ms + 99, "kill", "mail"], [1, "kill", "mail"]]}],
            "damaged": [
                {**begun, "at_ms": -1},
                {**ended, "at_ms": -1},
                {**ended, "count": "x"},
                {},
                {"undone": "r1", "at_ms": "x"},
            ],
            "with one undo": [{**ended, "undo": "r1"}],
            "with unknown fields": [{**ended, "more": 1}],
            "not complete": [{**begun, "total": "x"}],
        }.items()
    ):
        write_lines(folder / str(number), map(json.dumps, lines))
        found = journal._load_journal_entries(folder / str(number))
        yield f"{title}: {hide_names(str(found), folder)}"
    for quiet_ms in (599_999, 600_000, 600_001):
        change = journal._BegunChange({**begun, "at_ms": 0}, round(CLOCK.now_s * 1000) - quiet_ms)
        yield f"quiet for {quiet_ms}: {change.is_alive}"
    write_lines(folder / "r", map(json.dumps, [{**begun, "url": "u"}, {**begun, "begun": "c2", "url": "v"}]))
    recovering = Journal(folder / "r", "u")
    yield f"recovered: {[each.url for each in recovering.recover_interrupted()]} {recovering.recover_interrupted()}"


def files_of_others(folder: Path) -> Iterator[str]:
    folder.mkdir()
    for title, prepare in {
        "missing": lambda _path: None,
        "empty": lambda path: path.touch(),
        "a whole line": lambda path: path.write_bytes(b"x\n"),
        "a cut line": lambda path: path.write_bytes(b"x"),
        "open to others": lambda path: path.touch(0o644),
        "open to a group": lambda path: (path.touch(), path.chmod(0o610)),
        "a second name": lambda path: (path.touch(), os.link(path, folder / f"link of {path.name}")),
        "a folder": lambda path: path.mkdir(),
        "a pipe": os.mkfifo,
        "a link": lambda path: path.symlink_to(folder / "elsewhere"),
    }.items():
        for is_new in (False, True):
            path = folder / f"{title} {is_new}"
            prepare(path)
            result = attempt(journal.append_line, path, b"line\n", is_new=is_new, is_synced=is_new)
            content = path.read_bytes() if path.is_file() else None
            mode = oct(path.lstat().st_mode & 0o777) if path.is_file() else ""
            yield hide_names(f"{title}, new {is_new}: {result} {content!r} {mode}", folder)


def undo_folders(folder: Path) -> Iterator[str]:
    head = ("kill", "native", "mail", "u", "me")
    for number in (198, 199, 200, 201):
        records = folder / f"n{number}"
        write_lines(records, [], "note.txt")
        for at in range(number):
            (records / f"{at + 1}-kill-x.jsonl").touch()
        undo_files.UndoFile(records, *head)
        kept = undo_files.list_records(records)
        yield f"{number} records before: {len(kept)}, oldest {kept[-1]}, {sorted(os.listdir(records))[-1]}"
    for sizes in (((1 << 30) - 1, 1), (1 << 30, 0), (1 << 30, 1), (5, (1 << 30) - 4)):
        records = folder / f"s{sizes[0]}-{sizes[1]}"
        records.mkdir()
        for at, size in enumerate(sizes):
            (records / f"{9 - at}-kill-x.jsonl").touch()
            os.truncate(records / f"{9 - at}-kill-x.jsonl", size)
        undo_files.UndoFile(records, *head)
        yield f"{sizes} bytes before: {undo_files.list_records(records)[1:]}"
    for name in ("5-a", "٣-a", "x-a", "-a", "7"):
        yield f"time of {name}: {undo_files._parse_record_time_ms(name)}"
    for state in (True, False):
        path = folder / f"probe {state}"
        if not state:
            path.write_text("")
        yield hide_names(
            f"probe: {undo_files.find_folder_problem(path, 5)!r} {path.is_dir() and os.listdir(path)}", folder
        )
    (folder / "link").symlink_to(folder / "n198")
    yield hide_names(f"a link: {attempt(undo_files.UndoFile, folder / 'link', *head)}", folder)
    (folder / "probes").mkdir()
    sizes: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undo_files, "append_line", lambda _path, line, **_options: sizes.append(len(line)))
        undo_files.find_folder_problem(folder / "probes")
    yield f"a probe has {sizes} bytes"


ROWS = [
    SavedJob(b"a", "dead", "5", b"record", b"body", b"1 -", b"[]"),
    SavedJob(b"\xff", "ready", "1.5"),
    SavedJob(b"c", "ready", "0", put={"body": b"xyz", "due_ms": 5}),
]


def undo_records(folder: Path) -> Iterator[str]:
    def build(*steps: Any, to_queue: str = "") -> tuple[undo_files.UndoFile, str]:
        CLOCK.now_s += 1
        file = undo_files.UndoFile(folder, "kill", "native", "mail", "u", "me", "native:x=1", to_queue)
        for step in steps:
            step(file)
        return file, file.name

    def read(name: str) -> str:
        return hide_names(attempt(read_in_order, name), folder)

    def read_in_order(name: str) -> UndoRecord:
        record = undo_files.read_record(folder, name)
        ordered: Any = sorted(record.unanswered)
        return replace(record, unanswered=ordered)

    def jobs(file: undo_files.UndoFile) -> None:
        file.write_jobs(ROWS)

    def after(file: undo_files.UndoFile) -> None:
        states = {b"a": AfterState("scheduled", b"2 -"), b"c": AfterState(), b"": AfterState("x")}
        file.write_states_after(states, [replace(ROWS[0], score="6")], [b"\xff", b"unknown"])

    for title, steps in {
        "nothing": (),
        "jobs": (jobs,),
        "outcomes": (jobs, after),
        "two calls": (jobs, after, jobs),
        "two calls without outcomes": (jobs, lambda file: file.write_jobs([SavedJob(b"z")])),
        "no change": (jobs, lambda file: file.write_states_after({}, [], [])),
        "a job without a reply": (jobs, lambda file: file.write_states_after({}, [], [b"a"])),
        "unsaved": (jobs, after, lambda file: file.write_unsaved(3), lambda file: file.write_unsaved(4)),
        "restored": (jobs, after, lambda file: undo_files.mark_jobs_restored(folder, file.name, [b"a", b"\xff", b"?"])),
        "undone": (jobs, after, lambda file: undo_files.mark_undone(folder, file.name)),
    }.items():
        file, name = build(*steps)
        yield f"{title}: {file.can_be_undone} {file.jobs} jobs, {file.bytes} bytes: {read(name)}"
    file, name = build(jobs, after, to_queue="news")
    yield f"to another queue: {read(name)}"
    text = file.path.read_bytes()
    lines = text.splitlines(keepends=True)
    for title, damaged in {
        "edited": text.replace(b'"score"', b'"score"').replace(b"scheduled", b"done"),
        "cut": text[:-9],
        "a cut line between": b"".join([*lines[:1], lines[1][:-9] + b"\n", *lines[2:]]),
        "no head": b"",
        "no JSON": b"x\n",
        "of version 3": text.replace(b'"version":2', b'"version":3'),
        "without a version": text.replace(b',"version":2', b""),
        "a list": b"[]\n",
        "without a sum": lines[0].replace(b'"sum"', b'"other"'),
        "of another time": b"".join([undo_files._build_record_line(name, {**json.loads(lines[0]), "at_ms": "x"})]),
        "of odd rows": b"".join(
            [lines[0], undo_files._build_record_line(name, {"rows": [["a", "b", "x", "", "", "", "", {}]]})]
        ),
    }.items():
        file.path.write_bytes(damaged)
        yield f"{title}: {read(name)}"
    yield read("missing")
    for score in ("5", "5.0", "5.5"):
        for other in (
            replace(ROWS[0], score=score),
            replace(ROWS[0], line=b"x"),
            replace(ROWS[0], place="x"),
            replace(ROWS[0], errors=b"x"),
        ):
            yield (
                f"the same as {other.score} {other.line!r} {other.place} {other.errors!r}: "
                f"{ROWS[0].has_same_state(other)}"
            )


def questions() -> Iterator[str]:
    for name in registry.list_system_names():
        system = registry.create_system(name)
        for verb in ("pause", "kill", "delete", "purge", "move", "requeue", "ack", "rate_limit", "unknown"):
            for place in ("", *(place.name for place in system.places)):
                inverse = undo.find_inverse_script(system, verb)
                yield f"{name} {verb} in {place or 'all'}: {inverse!r}, {undo.describe_undo(system, verb, 1, place)}"
    native = registry.create_system("native")
    for count in (9_999, 10_000, 10_001):
        yield f"{count} jobs: {undo.describe_undo(native, 'kill', count)}"
        for undo_names, undone_ms in (((), 0), (("r",), 0), ((), 5)):
            operation = Operation(
                1, "me", "kill", "mail", "native", count=count, undo=undo_names, undone_at_ms=undone_ms
            )
            yield f"{count} changed, {undo_names} {undone_ms}: {undo.is_too_large_to_undo(operation)}"


def recorders(folder: Path) -> Iterator[str]:
    notes = Journal(folder, "u")
    recorder = undo.UndoRecorder(folder, "u", notes)
    queues = MemoryQueues({MAIL: {"dead": []}})
    yield f"problem {recorder.problem!r} {recorder.check_problem()!r}"
    for total in (9_999, 10_000, 10_001):
        recorder.begin_change("kill", Ref("native", f"q{total}"), total)
        yield f"{total}: {recorder._open_files.get(('kill', Ref('native', f'q{total}')), 'open')}"
    for verb, count, total in (
        ("kill", 1, 0),
        ("kill", 2, 0),
        ("kill", 1, 2),
        ("pause", 0, 0),
        ("reap", 0, 0),
        ("reap", 1, 0),
    ):
        ref = Ref("native", f"{verb}-{count}-{total}")
        if total:
            recorder.begin_change(verb, ref, total)
        recorder._begin_journal_entry(queues.engine, verb, ref, count)
        begun = (verb, ref) in recorder._change_ids
        recorder._begin_journal_entry(queues.engine, verb, ref, 50)
        yield f"{verb} of {count}, expected {total}: begun {begun}, then {(verb, ref) in recorder._change_ids}"
    for moved in (0, 1, 2):
        for id, values in ((b"a", {}), (b"", {}), (b"", {"moved": moved})):
            ref = Ref("native", f"outcomes {id!r} {values} {moved}")
            recorder.record_outcomes(
                "kill", ref, [Outcome("kill", id, "word", "" if moved else "text", moved, values)] * 2
            )
            progress = recorder.open_changes()["kill", ref]
            yield f"{id!r} {values} moved {moved}: {progress.count} {progress.ids} {dict(progress.answers)}"
    for number in (999, 1_000, 1_001):
        recorder.record_outcomes("kill", Ref("native", f"{number}"), [Outcome("kill", b"i", "moved", "", 1)] * number)
        recorder.record_outcomes("kill", Ref("native", f"{number}"), [Outcome("kill", b"j", "moved", "", 1)] * 2)
        progress = recorder.open_changes()["kill", Ref("native", f"{number}")]
        yield f"{number} ids: {len(progress.ids)} {progress.count}"
    yield (
        f"ended: {recorder.end_change('kill', 'native', '1000')!r} "
        f"{('kill', Ref('native', '1000')) in recorder.open_changes()}"
    )
    recorder.discard_unchanged(lambda verb, _ref: verb == "reap")
    yield f"left: {sorted(str(ref) for _verb, ref in recorder._change_ids)}"
    for system in ("native", "rq", "safe_pop"):
        for verb in ("kill", "delete", "pause"):
            for number in (1, 499, 500, 501):
                requests = recorder.build_read_requests(registry.create_system(system), verb, "mail", [b"i"] * number)
                yield f"{system} {verb} of {number} reads ahead: {[len(each.calls[0].argv) for each in requests]}"
    recorder.problem = "no space"
    yield f"with a problem: {recorder.build_read_requests(registry.create_system('native'), 'kill', 'mail', [b'i'])}"


def jobs_for_enqueue() -> Iterator[str]:
    due = {"due_ms": NOW_MS + 5_000}
    for state, now in (
        ("ready", job("a", body=b"x")),
        ("ready", job("a", body=b"x", **due)),
        ("scheduled", job("a", "scheduled", body=b"x", **due)),
        ("scheduled", job("a", "scheduled", body=b"x")),
        ("scheduled", job("a", body=b"x", **due)),
        ("ready", job("a", body=None)),
        ("ready", None),
    ):
        queues = MemoryQueues({MAIL: {"ready": []}})
        queues.engine.systems["native"].job_request = lambda _queue, _id, _bytes, now=now: constant(now)
        rows = undo._read_jobs_for_enqueue(queues.engine, MAIL, [job("a", state)])
        yield f"{state}, now {now and (now.place, now.due_ms, now.body)}: {[row.put for row in rows.values()]}"


def undo_chunks() -> Iterator[str]:
    def describe(chunks: Iterable[list[tuple[SavedJob, AfterState]]]) -> list[str]:
        return [f"{len(chunk)} from {chunk[0][0].id.decode()}" for chunk in chunks]

    record = UndoRecord("r", "delete", "rq", "mail", "u", "me", 1)
    for system_name, place in (("native", "ready"), ("rq", "queued")):
        system = registry.create_system(system_name)
        for number in (0, 1, 499, 500, 501, 1_001):
            rows = [(SavedJob(b"%d" % at, place), AfterState()) for at in range(number)]
            yield f"{number} of {place}: {describe(revert._split_into_undo_chunks(system, 'restore', record, rows))}"
        for size in (4 * MB - 1, 4 * MB, 4 * MB + 1):
            rows = [(SavedJob(b"%d" % at, place, body=bytes(size - 1)), AfterState()) for at in range(3)]
            yield (
                f"3 of {size} bytes in {place}: "
                f"{describe(revert._split_into_undo_chunks(system, 'restore', record, rows))}"
            )
        for script in ("restore", "enqueue"):
            record.chunk_numbers = {b"0": 1, b"1": 1, b"2": 3, b"3": 3, b"4": 5}
            rows = [(SavedJob(b"%d" % at, place), AfterState()) for at in range(6)]
            yield (
                f"of several calls in {place}, {script}: "
                f"{describe(revert._split_into_undo_chunks(system, script, record, rows))}"
            )
    for script in ("enqueue", "restore", "revert", "move"):
        for row in ROWS:
            yield f"{script}: {dict(revert._build_undo_row(script, row, AfterState('ready', b'x' * (row is ROWS[0]))))}"
    results = [
        SimpleNamespace(word=word, text="text", values={"a": 1})
        for word in ("moved", "exists", "changed", "gone", "odd")
    ]
    replies: list[Any] = [SimpleNamespace(each=results), Unknown("lost"), Refused("refused"), ServerError("denied")]
    for reply in replies:
        outcomes = revert._parse_undo_outcomes([b"%d" % at for at in range(5)], reply)
        yield (
            f"{reply if isinstance(reply, Exception) else 'answered'}: "
            f"{[(each.id, each.word, each.text, each.moved, each.values) for each in outcomes]}"
        )
    with pytest.raises(KeyError):
        revert._parse_undo_outcomes([b"a"], KeyError("a fault of the program"))
    for bad in ((), (b"2",), (b"0", b"4"), (b"0", b"1", b"2", b"3", b"4")):
        sent: list[list[str]] = []

        def send(_engine: Any, _ref: Any, _script: str, chunk: Any, _to: str, bad: Any = bad, sent: Any = sent) -> Any:
            sent.append([row.id.decode() for row, _state in chunk])
            if any(row.id in bad for row, _state in chunk):
                return Refused("one is wrong")
            return SimpleNamespace(each=[SimpleNamespace(word="moved", text="", values={})] * len(chunk))

        rows = [(SavedJob(b"%d" % at, "ready"), AfterState()) for at in range(5)]
        engine: Any = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(revert, "_send_undo_chunk", send)
            steps = [*revert._restore_jobs(engine, MAIL, "restore", [rows[:3], rows[3:]], "")]
        yield f"{bad} refused: {sent} {[[(each.id, each.word) for each in step] for step in steps]}"


def canaries() -> Iterator[str]:
    base = FirstJob(MAIL, job("a"), 1_000)
    ends = {
        "none": base,
        "taken": replace(base, steps=(Step(State.READY, 1_000), Step(State.RESERVED, 1_500))),
        "retried": replace(base, steps=(Step(State.RESERVED, 1_500), Step(State.READY, 1_600))),
        "done": replace(base, end=End.DONE, ended_ms=2_600),
        "seen done": replace(base, end=End.DONE, ended_ms=2_600, is_end_seen=True),
        "failed": replace(base, end=End.FAILED, ended_ms=2_200, error="CardDeclined: no"),
        "failed without an error": replace(base, end=End.FAILED, ended_ms=2_200),
        "no time": replace(base, end=End.FAILED),
        "unknown": replace(base, end=End.UNKNOWN, ended_ms=2_000),
        "not moved": replace(base, is_moved=False, error="it is not dead"),
        "at a line": replace(
            base, end=End.FAILED, ended_ms=5, error='Traceback\n  File "/app/a.py", line 8, in f\n    x()\nE: no'
        ),
    }
    for title, record in ends.items():
        yield f"{title}: {record.describe_end()!r} {record.taken_ms} {record.is_running} {record.failed_at!r}"
    for total in (1, 2):
        for end in (None, *End):
            records = (replace(base, end=end, error="E " * 60 if end else ""), *(base,) * (total - 1))
            progress = CanaryProgress(records, 5, 1.0)
            stop: Any = SimpleNamespace(_pending=[], _taken_s={}, _run_s=60.0, _wait_s=300.0)
            reason = canary.Canary._explain_stop(stop, progress, 9.0)
            yield (
                f"{total}, {end}: {progress.describe()}, {progress.has_passed}, {progress.describe_pass(total, 5.0)} "
                f"{reason!r}"
            )
    keys = [(MAIL, b"a"), (MAIL, b"b")]
    for pending in (keys[:0], keys[:1], keys):
        for left_s in (0.0, 0.5):
            for taken in ({}, {keys[0]: 5.0}):
                stop = SimpleNamespace(_pending=pending, _taken_s=taken, _run_s=60.0, _wait_s=300.0)
                progress = CanaryProgress((base,) * 2, 5, left_s)
                reason = canary.Canary._explain_stop(stop, progress, 9.0)
                yield f"{len(pending)} pending, {left_s} s left, {len(taken)} taken: {reason!r}"
    for remaining in (0, 1, 2):
        yield f"{remaining} remain: {CanaryProgress((ends['done'],), 5, 1.0).describe_pass(remaining, 20.0)}"
    states = {
        "none": None,
        "ready": job("a", since_ms=1_700),
        "ready before": job("a", since_ms=900),
        "reserved": job("a", "reserved", reserved_ms=1_600, worker="w"),
        "reserved without a time": job("a", "reserved"),
        "done": job("a", "done", ended_ms=1_900, reserved_ms=1_600),
        "done before": job("a", "done", ended_ms=500),
        "done without a time": job("a", "done"),
        "dead": job("a", "dead", error="E", since_ms=1_900, worker="v"),
        "retried": job(
            "a", "scheduled", error="E", history=(canary_attempt(1_200, 1_300), canary_attempt(1_600, 1_800))
        ),
        "retried without an end": job("a", "scheduled", error="E", history=(canary_attempt(1_600, 0),)),
        "future": job("a", "reserved", reserved_ms=3_001),
        "near future": job("a", "reserved", reserved_ms=3_000),
    }
    for first_title, first in states.items():
        for title, second in states.items():
            for stores in (True, False):
                record = canary_jobs.record_poll(base, first, 2_000, stores_failed_jobs=stores)
                if record.end is None:
                    record = canary_jobs.record_poll(record, second, 2_500, stores_failed_jobs=stores)
                elif title != "none":
                    continue
                steps = [(step.state.value, step.at_ms, step.is_seen, step.worker) for step in record.steps]
                end = (
                    record.end and record.end.value,
                    record.ended_ms,
                    record.is_end_seen,
                    record.error,
                    record.missing_ms,
                )
                if stores or "none" in (first_title, title):
                    yield f"{first_title}, {title}, stores {stores}: {steps} {end}"


def canary_attempt(start_ms: int, end_ms: int) -> Any:
    from rqtui.model import Attempt

    return Attempt(start_ms, end_ms, "w", "E")


def followed_jobs() -> Iterator[str]:
    for verb_moved in (0, 1):
        clock = SimpleNamespace(now_s=100.0)
        queues = MemoryQueues({MAIL: {"ready": [job("a"), job("b")]}})
        followed = canary.Canary(
            queues.engine, [queues.engine.systems["native"]], 2, clock=lambda clock=clock: clock.now_s
        )
        outcomes = [
            (MAIL, Outcome("requeue", b"a", "moved", "ready again", 1)),
            (MAIL, Outcome("requeue", b"b", "gone", "it is gone", verb_moved)),
        ]
        queues.engine.explain_denial = lambda _verb, _ref: "denied"  # type: ignore[method-assign]
        followed.follow_jobs(
            "requeue", [(MAIL, job("a")), (MAIL, job("b")), (MAIL, job("c"))], outcomes[: 1 + verb_moved], 1_000
        )
        for after_s in (0, 299.75, 0.25, 1):
            clock.now_s += after_s
            progress = followed.poll_jobs(1_000 + round(1000 * (clock.now_s - 100)))
            ends = [(record.job.id, record.end and record.end.value, record.error) for record in progress.jobs]
            yield (
                f"moved {verb_moved} after {clock.now_s - 100}: {ends} {progress.wait_left_s} {progress.stop_reason!r}"
            )
    queues = MemoryQueues({MAIL: {"reserved": [job("a", "reserved", reserved_ms=1_000)]}})
    clock = SimpleNamespace(now_s=100.0)
    followed = canary.Canary(queues.engine, [queues.engine.systems["native"]], 1, clock=lambda: clock.now_s)
    followed.follow_jobs("requeue", [(MAIL, job("a"))], [(MAIL, Outcome("requeue", b"a", "moved", "", 1))], 1_000)
    for after_s in (0, 500, 3_099.5, 0.5, 1):
        clock.now_s += after_s
        progress = followed.poll_jobs(2_000)
        yield f"running for {clock.now_s - 100}: {progress.wait_left_s} {progress.stop_reason!r}"
    for name in registry.list_system_names():
        system = registry.create_system(name)
        yield f"{name}: stores failed {canary.stores_failed_jobs(system)}, {attempt(canary.check_canary, [system], 1)}"
    for number in (19_999, 20_000):
        queues = MemoryQueues(
            {MAIL: {"ready": [job("x")] * number, "reserved": [job("a", "reserved")]}},
            can_find_by_id=False,
            has_ids=True,
        )
        followed = canary.Canary(queues.engine, [queues.engine.systems["native"]], 1)

        def find(followed: Any = followed) -> list[tuple[bytes, str]]:
            return [(id, found.place) for id, found in followed._walk_to_jobs(MAIL, {b"a"}).items()]

        yield f"walked over {number}: {attempt(find)}"
        yield f"  {queues.reads[0]} … {queues.reads[-1]}, {len(queues.reads)}"


def drains() -> Iterator[str]:
    target = Ref("native", "new")
    for name in registry.list_system_names():
        if name == "native":
            continue
        queues = MemoryQueues({Ref(name, "mail"): {}})
        try:
            found = drain.choose_drains(queues.engine, Ref(name, "mail"), target)
        except UsageError as error:
            yield f"{name}: {error}"
            continue
        for each in found:
            places = [place.name for place in each.places]
            yield (
                f"{name}: {type(each).__name__} from {places}, batch ids {each.needs_batch_ids}, shared "
                f"{each.is_shared}"
            )
            each_limits = []
            for sizes in (
                (),
                (0,),
                (8 * MB,),
                (MB,),
                (100,) * 4,
                (1,) * 16,
                (1,) * 64,
                (1,) * 200,
                (40_000,) * 200,
                (43_000,) * 200,
            ):
                each._adapt_batch_size([job(at, body_bytes=size) for at, size in enumerate(sizes)])
                each_limits.append(each._limit)
            yield f"  limits {each_limits}"
    for system, key in (("rq", "queued"), ("safe_pop", "ready")):
        queues = MemoryQueues({Ref(system, "mail"): {key: [replace(job(at), system=system) for at in range(201)]}})
        [first, *_others] = drain.choose_drains(queues.engine, Ref(system, "mail"), target)
        previewed = [(place.name, len(jobs)) for place, jobs in first.yield_preview()]
        yield f"{system}: {previewed} {queues.reads[:3]}"


class LockClient:
    """A client of a server whose lock another migration has, until it is asked a number of times."""

    def __init__(self, taken: int = 0, name: bytes | None = None, owner: bytes | None = None) -> None:
        self.taken, self.name, self.owner, self.calls = taken, name, owner, list[str]()

    def set(self, key: bytes, value: Any, nx: bool = False, px: int | None = None) -> bool:
        if nx and self.taken:
            self.taken -= 1
            return False
        self.calls.append(f"set {key.decode()} nx={nx} px={px}")
        if nx:
            self.owner = value.encode()
        return True

    def get(self, key: bytes) -> bytes | None:
        return self.owner if key.endswith(b"migrator") else self.name

    def pexpire(self, key: bytes, ms: int) -> None:
        self.calls.append(f"pexpire {key.decode()} {ms}")

    def delete(self, *keys: bytes) -> None:
        self.calls.append(f"delete {b' '.join(keys).decode()}")


def locks() -> Iterator[str]:
    ref, target = Ref("dispatcher", "mail"), Ref("native", "new")

    def build(client: LockClient, batch: list[Job]) -> Any:
        queues = MemoryQueues({ref: {}})
        queues.engine.client = client  # type: ignore[assignment]
        made = drain.ParkDrain(queues.engine, ref, target)
        made.load_unfinished_batch = lambda: batch  # type: ignore[method-assign]
        return made

    jobs = [job("a", body=b"x"), job("b", body=b"x"), job("c", body=b"x"), job("d", body=b"y")]
    for taken in (0, 1, 79, 80, 81, 82):
        client, slept = LockClient(taken), list[float]()
        clock = SimpleNamespace(now_s=0.0)

        def sleep(seconds: float, clock: Any = clock, slept: Any = slept) -> None:
            slept.append(seconds)
            clock.now_s += seconds

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(drain, "time", SimpleNamespace(monotonic=lambda clock=clock: clock.now_s, sleep=sleep))
            result = attempt(build(client, []).prepare_drain)
        yield f"taken {taken} times: {result}, slept {len(slept)} times, {round(sum(slept), 1)} s, {client.calls}"
    for name in (None, b"0123 native:new", b"0123 native:old"):
        for batch in ([], jobs[:1], jobs[:2]):
            client = LockClient(name=name)
            made = build(client, batch)
            yield f"batch of {len(batch)} called {name!r}: {attempt(made.prepare_drain)} {client.calls}"
            yield f"  {len(made._batch_name)} {made._is_finished} {made.find_originals([b'a'])}"
            yield (
                "  copies "
                f"{[(copy.id if made._batch_name == '0123' else len(copy.id)) for copy in made.build_copies(jobs)]}"
            )
    for owner in (b"own", b"other", None):
        for is_finished in (False, True):
            client = LockClient(owner=owner)
            made = build(client, [])
            made._lock_token, made._is_finished = "own", is_finished
            yield (
                f"lock of {owner!r}, finished {is_finished}: {attempt(made._renew_lock)} {attempt(made.clean_up, [])} "
                f"{client.calls}"
            )
    client = LockClient()
    made = build(client, jobs[:1])
    batches = iter([jobs[:2], jobs[:3], []])
    made.take_new_batch = lambda: next(batches)
    made.prepare_drain()
    yield (
        f"batches: {[(len(batch), made._is_finished) for batch in made.take_batches()]} {client.calls[-4:]} "
        f"{made._limit}"
    )


def shared_batches() -> Iterator[str]:
    """Yield from which offsets a drain reads a place, depending on how many jobs of each batch were deleted."""
    for number in (0, 1, 199, 200, 201, 500):
        for share in (0, 1, 2):
            jobs = [job(at, "scheduled") for at in range(number)]
            queues = MemoryQueues({MAIL: {"scheduled": jobs}})
            made = drain.ScheduledDrain(queues.engine, MAIL, queues.engine.systems["native"].place("scheduled"))

            def delete(
                _verb: str, _ref: Any, batch: Any, form: Any, jobs: Any = jobs, share: int = share
            ) -> list[Outcome]:
                gone = {each.id for each in batch[: len(batch) * share // 2]}
                jobs[:] = [each for each in jobs if each.id not in gone]
                return [
                    Outcome("delete", each.id, "moved" if each.id in gone else "kept", str(form), int(each.id in gone))
                    for each in batch
                ]

            queues.engine.apply_verb = delete  # type: ignore[method-assign]
            taken, outcomes = [], []
            for batch in made.take_batches():
                taken.append(len(batch))
                outcomes += made.delete_originals(batch)
            yield f"{number}, {share}/2 deleted: {taken}, {sum(each.moved for each in outcomes)} moved, {queues.reads}"
            yield f"  {made.delete_originals([])} {outcomes[:1] and outcomes[0].text}"
    queues = MemoryQueues({MAIL: {"ready": [job("a"), job("b", "reserved"), job("c", "done")]}})
    yield f"originals: {[*map(sorted, drain.Drain(queues.engine, MAIL).find_originals([b'a', b'b', b'c', b'd']))]}"
    places = [queues.engine.systems["native"].place(name) for name in ("ready", "scheduled")]
    both = drain.DeleteDrain(queues.engine, MAIL, places)
    yield (
        f"originals that wait: {[*map(sorted, both.find_originals([b'a', b'b', b'c', b'd']))]} "
        f"{[len(batch) for batch in both.take_batches()]}"
    )
    broken = Page("mail", "native", "ready", (), 0, error="the key is a string")
    queues.engine.fetch_scan_page = lambda *_args: broken  # type: ignore[method-assign]
    yield attempt(list, both.take_batches())


def text(folder: Path) -> Iterator[str]:
    parts: Mapping[str, Iterator[str]] = {
        "journals": journals(folder / "journals"),
        "interrupted changes": interrupted_changes(folder / "interrupted"),
        "files of others": files_of_others(folder / "files"),
        "undo folders": undo_folders(folder / "folders"),
        "undo records": undo_records(folder / "records"),
        "questions": questions(),
        "recorders": recorders(folder / "recorders"),
        "undo chunks": undo_chunks(),
        "jobs for enqueue": jobs_for_enqueue(),
        "canaries": canaries(),
        "followed jobs": followed_jobs(),
        "drains": drains(),
        "locks": locks(),
        "shared batches": shared_batches(),
    }
    for title, lines in parts.items():
        yield f"== {title}"
        yield from lines


@pytest.mark.slow
def test_records_of_changes_match_the_stored_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(time=lambda: CLOCK.now_s, monotonic=lambda: 0.0, sleep=lambda _seconds: None)
    CLOCK.now_s = 1_800_000_000.0
    monkeypatch.setattr(journal, "time", clock)
    monkeypatch.setattr(undo_files, "time", clock)
    with utc_time_zone():
        lines = [hide_names(line, tmp_path) for line in text(tmp_path)]
    assert_lines_match_file(lines, KEPT)
