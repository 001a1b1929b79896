"""Fuzz local files that are torn, damaged or written by another program: undo records and the journal.

A record that cannot be read is reported as a sentence. Lines of the journal that cannot be read are left out, the
others are shown. An undo may restore what a record contains; it never ends in anything but outcomes or an error of
rqtui.
"""

from __future__ import annotations

import json
import random
import string
from collections import Counter
from pathlib import Path

import fuzzing
from native_jobs import NATIVE_KEYS
from redis import Redis

from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import RqtuiError
from rqtui.operations import revert, undo_files
from rqtui.operations.journal import FILE_NAME, Journal, describe_undo, format_clock, load_operations
from rqtui.operations.undo_files import AfterState, SavedJob
from rqtui.reports.postmortem import build_document, build_markdown
from rqtui.systems import registry

VERBS = ("delete", "requeue", "kill", "purge", "pause", "reschedule", "promote")
RECORD = b"1795219200000 - 0 - - - - - - job\n{}"
VALUES = (
    None, True, 0, -1, 1.5, 10**30, 10**4000, float("inf"), float("nan"), "", "x", "\udcff", "\ud800", "mail", "ready",
    [], {}, [[]], [None],
    [["a"] * 8], [["a", "", "", "", "", "", "", {}]], {"body": 1}, [["a", "ready", "1", RECORD.decode(), "", "", "",
    {}]],
    [["a", "ready", "nan", "x", "", "", "", {"id": "x", "priority": None}]], [["a", "ready", ""]], "\x1b[2J", "../../x",
)  # fmt: skip


def records(folder: Path) -> list[bytes]:
    """Whole undo records, as several verbs leave them."""
    items = []
    for verb in VERBS:
        file = undo_files.UndoFile(folder, verb, "native", "mail", "", "somebody@here")
        rows = [SavedJob(b"%d\xff" % at, "ready", "1e12", RECORD, b"\x00" * 9, b"", b"[]") for at in range(3)]
        rows.append(SavedJob(b"held", "dead", "5", RECORD, put={"id": b"x", "priority": 3}))
        file.write_jobs(rows)
        file.write_states_after({row.id: AfterState("ready", b"") for row in rows[:2]}, [rows[0]], [rows[2].id])
        undo_files.mark_jobs_restored(folder, file.name, [rows[1].id])
        items.append(file.path.read_bytes())
        file.path.unlink()
    return items


def damage_file(source: random.Random, whole: bytes) -> bytes:
    """Return a file's bytes with changed bytes, values or lines, torn, or replaced by another file."""
    kind = source.randrange(6)
    if kind == 0:
        return whole[: source.randrange(len(whole) + 1)]
    if kind == 1:
        return fuzzing.damage_bytes(source, whole)
    if kind == 2:
        return source.choice(fuzzing.BYTES) + b"\n" + source.randbytes(source.randrange(30))
    lines = whole.splitlines()
    at = source.randrange(len(lines))
    if kind == 3:
        lines[at] = source.choice(fuzzing.BYTES)
    elif kind == 4:
        lines.insert(at, source.choice(lines))
    else:
        lines[at] = json.dumps(_replace_value(source, json.loads(lines[at]))).encode()
    return b"\n".join(lines)


def _replace_value(source: random.Random, value: object) -> object:
    """Return a document with one of its values replaced or removed."""
    if isinstance(value, dict | list) and value and source.random() < 0.8:
        names = list(value) if isinstance(value, dict) else range(len(value))
        at = source.choice(list(names))
        members = dict(value) if isinstance(value, dict) else dict(enumerate(value))
        if source.random() < 0.1:
            del members[at]
        else:
            members[at] = _replace_value(source, members[at])
        return members if isinstance(value, dict) else list(members.values())
    return source.choice(VALUES)


def is_refused(engine: Engine, folder: Path, name: str) -> bool:
    """Revert an undo record if possible, and return whether it was refused."""
    try:
        for outcomes in revert.revert_record(engine, folder, name):
            assert all(outcome.text for outcome in outcomes)
    except RqtuiError as error:
        assert str(error)
        return True
    return False


@fuzzing.parametrize_cases(40)
def test_a_torn_or_hostile_undo_record_is_a_sentence(cases: int, tmp_path: Path, client: Redis) -> None:
    folder = tmp_path / "undo"
    whole = records(folder)
    engine = build_engine(client, [registry.create_system("native"), registry.create_system("safe_pop:queue=mail")])
    client.hset(NATIVE_KEYS["meta"], mapping={"version": 1})
    with fuzzing.print_figures("undo records", cases) as seen:
        for number in range(cases):
            source = random.Random(f"undo {number}")
            name = source.choice(("1-delete-a", "²-x", "x", "9" * 30, "-"))
            path = folder / f"{name}.jsonl"
            raw = damage_file(source, source.choice(whole))
            path.write_bytes(raw)
            try:
                assert name in undo_files.list_records(folder)
                seen["refused" if is_refused(engine, folder, name) else "read"] += 1
            except Exception as error:
                raise AssertionError(f"record {number} {raw[:300]!r}: {error!r}") from error
            finally:
                path.unlink()


def journal(folder: Path) -> bytes:
    """Write a journal of three operations, of which one was undone."""
    new_journal = Journal(folder, "redis://u:p@h/0", "prod")
    new_journal.record_change(
        "delete", "mail", "native", [b"a\xff", b"b"], {"deleted": 2}, undo=["1-delete-a"], others=["x"]
    )
    new_journal.record_change("pause", "mail", "native", error="no")
    new_journal.record_change("kill", "mail", "safe_pop", [b"c"], {"dead": 1}, undo=["2-kill-b", "3-kill-c"])
    new_journal.mark_undone("1-delete-a")
    return (folder / FILE_NAME).read_bytes()


@fuzzing.parametrize_cases(40)
def test_a_torn_or_hostile_journal_shows_what_of_it_can_be_read(cases: int, tmp_path: Path) -> None:
    whole = journal(tmp_path)
    with fuzzing.print_figures("journals of operations", cases) as seen:
        for number in range(cases):
            source = random.Random(f"journal {number}")
            raw = damage_file(source, whole)
            (tmp_path / FILE_NAME).write_bytes(raw)
            try:
                found = load_operations(tmp_path)
                json.dumps(build_document(found))
                for each in found:
                    assert (
                        describe_undo(each)
                        and format_clock(each.at_ms)
                        and isinstance(each.describe_outcomes() + each.queue_label, str)
                    )
                assert all(letter in string.printable or letter.isprintable() for letter in build_markdown(found))
            except Exception as error:
                raise AssertionError(f"journal {number} {raw[:400]!r}: {error!r}") from error
            seen[f"{len(found)} operations"] += 1


def test_lines_that_are_whole_are_read_beside_those_that_are_not(tmp_path: Path) -> None:
    whole = journal(tmp_path)
    broken = b'{"at_ms": "yesterday"}\n[1]\n' + b"[" * 90_000 + b"\n"
    (tmp_path / FILE_NAME).write_bytes(broken + whole + b'{"undone": "2-k')
    assert Counter(each.verb for each in load_operations(tmp_path)) == {"delete": 1, "pause": 1, "kill": 1}
