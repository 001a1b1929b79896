"""Test forms: a body is edited, duplicated and sent, byte for byte where it was not edited; and pasted text."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from screens import Screen, Seeded, run_on_event_loop, screen
from slow_cases import mark_slow_cases
from textual import events
from textual.widgets import Input, TextArea

from rqtui.errors import UsageError
from rqtui.tui.widgets import body_editor
from rqtui.tui.widgets.question_dialog import Question


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    return Seeded(client)


def bodies(seeded: Seeded, place: str = "ready") -> dict[bytes, bytes | None]:
    """Return the whole bodies of a place, by id."""
    found = [seeded.engine.fetch_job(seeded.ref, job.id, -1) for job in seeded.jobs(place)]
    return {job.id: job.body for job in found if job}


def area(ui: Screen) -> TextArea:
    return ui.app.screen.query_one("#field-body", TextArea)


# ── the words about JSON ─────────────────────────────────────────────────────────────────────────────────────────────


def test_errors_of_json_are_reported_with_line_and_column() -> None:
    assert body_editor.find_json_problem(b'{"a": 1}') == ""
    assert body_editor.find_json_problem(b'{\n  "a": tru\n}') == "not JSON: line 2, column 8: Expecting value."
    assert "NaN is no JSON number" in body_editor.find_json_problem(b"[NaN]")
    assert "nested too deep" in body_editor.find_json_problem(b"[" * 100_000)


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@pytest.mark.slow
@given(JSON)
def test_tidying_changes_nothing_but_the_space_between_the_tokens(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    reformatted = body_editor.reformat_json(text)
    assert json.loads(reformatted) == value
    assert body_editor.reformat_json(reformatted) == reformatted
    assert reformatted.replace("\n", "").replace(" ", "") == text.replace(" ", "").replace("\n", "")


def test_tidying_keeps_numbers_and_repeated_keys_as_they_were_written() -> None:
    reformatted = body_editor.reformat_json('{"a":1.50,"a":12345678901234567890.0,"b":[],"c":{}}')
    assert reformatted == '{\n  "a": 1.50,\n  "a": 12345678901234567890.0,\n  "b": [],\n  "c": {}\n}'


# ── the form ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_json_is_checked_while_it_is_typed(url: str, seeded: Seeded) -> None:
    seeded.put("first")
    async with screen(url) as ui:
        await ui.press("enter", "N")
        await ui.until_shown("Enqueue a job in mail")
        area(ui).text = '{"a" 1}'
        await ui.until_shown("not JSON: line 1, column 6")
        area(ui).text = '{"a": 1}'
        await ui.until(lambda: "not JSON" not in ui.text())
        await ui.press("ctrl+r")
        await ui.until(lambda: area(ui).text == '{\n  "a": 1\n}')
        ui.app.screen.query_one("#field-id", Input).value = "mine"
        ui.app.screen.query_one("#yes").focus()
        await ui.press("enter")
        await ui.until_toast("enqueue: enqueued · mine")
        assert bodies(seeded)[b"mine"] == b'{\n  "a": 1\n}'


ODD = [
    b'{"to":"a@b.c",  "n":1.50}\r\n{"x"\r\n',  # CR LF would come back otherwise from an editor's lines
    b'{ "password":"hunter2", "n": 12345678901234567890 }',
    b"plain text\n\n",
    b"\xff\xfe\x00 binary",
    b"\x1b]52;c;AAAA\x07 an escape",
    b"x" * (body_editor.MAX_EDITABLE_BYTES + 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("body", ODD, ids=["crlf", "secret", "text", "binary", "escape", "long"])
@run_on_event_loop
async def test_a_duplicate_has_the_same_bytes_under_a_new_id(url: str, seeded: Seeded, body: bytes) -> None:
    seeded.engine.apply_verb("enqueue", seeded.ref, (), {"id": "a1", "body": body, "name": "send", "priority": 7})
    seeded.engine.register_queue(seeded.ref)
    async with screen(url) as ui:
        await ui.press("enter", "2", "C")
        await ui.until_shown("Duplicate a1", "kind of job")
        assert ui.app.screen.query_one("#field-name", Input).value == "send"
        assert ui.app.screen.query_one("#field-priority", Input).value == "7"
        if body_editor.explain_unshowable_body(body):
            await ui.until_shown("it goes as it is, byte for byte")
        ui.app.screen.query_one("#field-id", Input).value = "copy"
        ui.app.screen.query_one("#yes").focus()
        await ui.press("enter")
        await ui.until_toast("enqueue: enqueued · copy")
        assert bodies(seeded) == {b"a1": body, b"copy": body}


@pytest.mark.slow
@run_on_event_loop
async def test_a_duplicate_in_another_system_has_the_same_bytes(url: str, client: Redis) -> None:
    body = b"\x82\xa2to\xa1a\xa1n\xff"  # MessagePack
    client.rpush("jobs", body)
    async with screen(url, systems=("orizuru:source=jobs",)) as ui:
        await ui.press("enter", "1", "C")
        await ui.until_shown("Duplicate ", "it goes as it is, byte for byte")
        ui.app.screen.query_one("#yes").focus()
        await ui.press("enter")
        await ui.until_toast("enqueue:")
        assert client.lrange("jobs", 0, -1) == [body, body]


async def editing_again(ui: Screen, seeded: Seeded) -> None:
    """Open the form that edits and retries a dead job."""
    seeded.bury("d1")
    await ui.press("enter", "5")
    await ui.until_shown("d1")
    await ui.press("colon", '"edit and retry')
    await ui.until_shown("Edit and retry a job: enqueue")
    await ui.press("enter")
    await ui.until_shown("Edit and retry d1", "[x] delete the original")


@pytest.mark.slow
@run_on_event_loop
async def test_edit_and_retry_puts_the_new_body_and_takes_the_old_job_away(url: str, seeded: Seeded) -> None:
    seeded.put("other")
    async with screen(url) as ui:
        await editing_again(ui, seeded)
        area(ui).text = '{"to": "fixed@b.c"}'
        ui.app.screen.query_one("#field-id", Input).value = "new"
        ui.app.screen.query_one("#yes").focus()
        await ui.press("enter")
        await ui.until_toast("delete: deleted · d1")
        assert bodies(seeded)[b"new"] == b'{"to": "fixed@b.c"}'
        assert seeded.ids("dead") == []


@pytest.mark.slow
@run_on_event_loop
async def test_the_original_stays_when_it_changed_since_it_was_read(url: str, seeded: Seeded) -> None:
    seeded.put("other")
    async with screen(url) as ui:
        await editing_again(ui, seeded)
        seeded.engine.apply_verb("requeue", seeded.ref, seeded.jobs("dead"))
        ui.app.screen.query_one("#field-id", Input).value = "new"
        ui.app.screen.query_one("#yes").focus()
        await ui.press("enter")
        await ui.until_toast("delete:", "ready")
        assert set(seeded.ids("ready")) == {"other", "d1", "new"}


@pytest.mark.slow
@run_on_event_loop
async def test_the_original_stays_when_it_ran_meanwhile_and_died_again(url: str, seeded: Seeded) -> None:
    seeded.put("other", delay_ms=3_600_000)
    async with screen(url) as ui:
        await editing_again(ui, seeded)
        seeded.engine.apply_verb("requeue", seeded.ref, seeded.jobs("dead"))
        seeded.engine.apply_verb("reject", seeded.ref, seeded.reserve(), {"error": "another end", "final": True})
        ui.app.screen.query_one("#field-id", Input).value = "new"
        ui.app.screen.query_one("#yes").focus()
        await ui.press("enter")
        await ui.until_toast("delete: it has changed since it was read, and stays · d1")
        assert (seeded.ids("dead"), seeded.ids("ready")) == (["d1"], ["new"])


@pytest.mark.slow
@run_on_event_loop
async def test_the_original_stays_when_the_new_job_is_refused(url: str, seeded: Seeded) -> None:
    seeded.put("other")
    async with screen(url) as ui:
        await editing_again(ui, seeded)
        ui.app.screen.query_one("#field-id", Input).value = "other"
        ui.app.screen.query_one("#yes").focus()
        await ui.press("enter")
        await ui.until_toast("enqueue:", "other")
        await ui.until_refreshed()
        assert (seeded.ids("dead"), seeded.ids("ready")) == (["d1"], ["other"])


@run_on_event_loop
async def test_a_job_that_went_meanwhile_cannot_be_copied(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    async with screen(url) as ui:
        await ui.press("enter", "2", "p")  # the rows stay
        seeded.engine.apply_verb("delete", seeded.ref, [job for job in seeded.jobs("ready") if job.id == b"a1"])
        await ui.press("C")
        await ui.until_toast("The job no longer exists.")
        assert seeded.ids("ready") == ["a2"]


# ── $EDITOR ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def script(folder: Path, code: str) -> list[str]:
    """Write an editor that is a Python program: `path` is the file it gets."""
    file = folder / "editor.py"
    file.write_text(f"import sys, os, pathlib\npath = pathlib.Path(sys.argv[1])\n{code}\n")
    return [sys.executable, str(file)]


def test_an_editor_gets_the_bytes_in_a_private_file_that_is_deleted_afterwards(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    code = f"pathlib.Path({str(seen)!r}).write_text(f'{{path}} {{os.stat(path).st_mode}} ' + path.read_bytes().hex())"
    assert body_editor.edit_in_editor(b"\xff\x00", ".json", script(tmp_path, code)) == b"\xff\x00"
    name, mode, held = seen.read_text().split(" ")
    assert (stat.S_IMODE(int(mode)), held, os.path.exists(name)) == (0o600, "ff00", False)


def test_the_text_of_an_editor_becomes_the_body_without_the_added_newline(tmp_path: Path) -> None:
    assert body_editor.edit_in_editor(b"a", ".json", script(tmp_path, "path.write_bytes(b'new\\n')")) == b"new"
    assert body_editor.edit_in_editor(b"a\n", ".json", script(tmp_path, "path.write_bytes(b'new\\n')")) == b"new\n"


def test_an_editor_that_fails_leaves_the_body_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ended with 3; the body is as it was"):
        body_editor.edit_in_editor(b"a", ".json", script(tmp_path, "sys.exit(3)"))
    with pytest.raises(UsageError, match="cannot be run: No such file"):
        body_editor.edit_in_editor(b"a", ".json", [str(tmp_path / "none")])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("os.kill(os.getpid(), 9)", "was ended by signal 9; the body is as it was"),
        ("path.unlink()", "left cannot be read: No such file or directory; the body is as it was"),
        ("path.unlink(); path.mkdir()", "left cannot be read: Is a directory; the body is as it was"),
    ],
)
def test_an_editor_that_leaves_no_file_leaves_the_body_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UsageError, match=said):
        body_editor.edit_in_editor(b"a", ".json", script(tmp_path, code))


def test_where_no_file_can_be_made_the_editor_is_not_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="no file for an editor can be made: No such file or directory; type here"):
        body_editor.edit_in_editor(b"a", ".json", ["true"])


def test_no_shell_reads_the_name_of_an_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    odd = tmp_path / "an 'odd' \"name\"; touch gone $(touch gone)"
    odd.write_text('#!/bin/sh\nprintf new > "$1"\n')
    odd.chmod(0o700)
    assert (
        body_editor.edit_in_editor(b"a", ".json", body_editor.find_editor_command({"EDITOR": shlex.quote(str(odd))}))
        == b"new"
    )
    for words in (
        "true; touch gone",
        "$(touch gone)",
        "`touch gone`",
        "touch gone;true",
        "| touch gone",
        "none\x1b]0;x",
    ):
        with pytest.raises(UsageError, match="the body is as it was") as caught:
            body_editor.edit_in_editor(
                b"a",
                ".json",
                [f"./{(reformatted := body_editor.find_editor_command({'EDITOR': words}))[0]}", *reformatted[1:]],
            )
        assert str(caught.value)
    assert not (tmp_path / "gone").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "shown", "left"),
    [
        ("pass", '"as": "it was"', b'{"as": "it was"}'),
        ("path.write_bytes(b'')", "Enqueue a job", b""),
        ("path.write_bytes(b'{')", "not JSON: line 1", b"{"),
        ("path.write_bytes(bytes(9))", "9 B with control characters", bytes(9)),
        ("path.unlink()", "the body is as it was", b'{"as": "it was"}'),
    ],
)
@run_on_event_loop
async def test_the_result_of_an_editor_is_shown_in_the_form(
    url: str, seeded: Seeded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, shown: str, left: bytes
) -> None:
    monkeypatch.setenv("VISUAL", shlex.join(script(tmp_path, code)))
    seeded.put("a1")
    async with screen(url, (120, 35)) as ui:
        monkeypatch.setattr(type(ui.app), "suspend", lambda _app: nullcontext())  # there is no terminal to hand over
        await ui.press("enter", "N")
        body = ui.app.screen.query_one(body_editor.BodyEditor)
        body.replace_body(b'{"as": "it was"}')
        await ui.press("ctrl+e")
        await ui.until_shown(shown)
        assert body.read_bytes() == left
        assert isinstance(ui.app.screen, Question) and seeded.ids("ready") == ["a1"]


def test_which_editor_is_reported_by_the_environment() -> None:
    assert body_editor.find_editor_command({"EDITOR": "code --wait"}) == ["code", "--wait"]
    assert body_editor.find_editor_command({"EDITOR": "vi", "VISUAL": "emacs"}) == ["emacs"]
    for environ in ({}, {"EDITOR": " "}, {"EDITOR": '"vi'}):
        with pytest.raises(UsageError, match=r"\$EDITOR"):
            body_editor.find_editor_command(environ)


@pytest.mark.slow
@run_on_event_loop
async def test_the_form_reports_when_there_is_no_editor(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    before = {name: os.environ.pop(name) for name in ("EDITOR", "VISUAL") if name in os.environ}
    try:
        async with screen(url) as ui:
            await ui.press("enter", "N", "ctrl+e")
            await ui.until_shown("$EDITOR is not set: export EDITOR=vi")
    finally:
        os.environ.update(before)


# ── what is pasted ───────────────────────────────────────────────────────────────────────────────────────────────────

CAPITALS = "NAKDLERTPUHCZ\nDy\nyyy"


PLACES_OF_PASTING = [(), ("enter",), ("enter", "2", "enter"), ("enter", "2", "D"), ("enter", "2", "C")]


@pytest.mark.parametrize("keys", mark_slow_cases(PLACES_OF_PASTING, PLACES_OF_PASTING[2:]))
@run_on_event_loop
async def test_pasted_capitals_trigger_no_verb_anywhere(url: str, seeded: Seeded, keys: tuple[str, ...]) -> None:
    seeded.put("a1", "a2")
    async with screen(url) as ui:
        await ui.press(*keys)
        if keys[-1:] in (("D",), ("C",)):
            await ui.until(lambda: isinstance(ui.app.screen, Question), "the question, once Redis has answered")
        above = ui.app.screen
        ui.app.post_message(events.Paste(CAPITALS))
        await ui.until_refreshed()
        assert ui.app.screen is above
        assert seeded.ids("ready") == ["a1", "a2"]
        queue = ui.app.session.snapshot.queues[0] if ui.app.session.snapshot else None
        assert queue is not None and not queue.is_paused


@pytest.mark.slow
@run_on_event_loop
async def test_pasted_text_enters_the_field_that_has_the_focus(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    async with screen(url) as ui:
        await ui.press("enter", "N")
        ui.app.screen.query_one("#field-name").focus()
        ui.app.post_message(events.Paste("DELETE"))
        await ui.until(lambda: ui.app.screen.query_one("#field-name", Input).value == "DELETE")
        assert isinstance(ui.app.screen, Question) and seeded.ids("ready") == ["a1"]
