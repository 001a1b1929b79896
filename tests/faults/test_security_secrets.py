"""Secrets that were planted in jobs come out nowhere: not in a command, a view, a copy, a report, a log or a file.

The commands are those of `COMMANDS`, the views those of `VIEWS`, the forms of copies those of `FORMS`: a new one is
tried without a change here, and fails if it needs arguments that this page does not know.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from planted_secrets import BODY, DEAD_ERROR, SECRET, fill_slow_log, find_leaks, plant_secrets
from redis import Redis
from screens import VIEW_KEYS, open_view, return_to_overview, run_on_event_loop, screen
from shell import Ran, shell

from rqtui.cli.main import COMMANDS
from rqtui.config.settings import Settings
from rqtui.model import Ref
from rqtui.operations import journal
from rqtui.reports import jobs as documents
from rqtui.session import create_engine
from rqtui.text.masking import MASK
from rqtui.tui.format import copy_formats
from rqtui.tui.screens.registry import VIEWS
from rqtui.tui.services import crash

JOBS = (
    ("mail", "ready"), ("mail", "dead"), ("mail", "held"), ("mail", "later"), ("mail", "plain"), ("mail", "packed"),
    ("celery:celery", "c1"), ("celery:celery", "c2"), ("celery:celery", "c3"),
    ("rq:default", "r1"), ("rq:default", "r2"),
    ("sidekiq:pay", "s1"), ("sidekiq:pay", "s2"), ("bullmq:video", "1"), ("bullmq:video", "2"),
)  # fmt: skip
QUEUES = tuple(dict.fromkeys(queue for queue, _id in JOBS))
PRINTS_SECRETS = f"echo out token={SECRET['stdout']}; echo 'err x-api-key: {SECRET['stderr']}' >&2; exit 1"
CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "jobs": tuple((queue,) for queue in QUEUES),
    "show": JOBS,
    "search": tuple((expression,) for expression in ("dead", "plain", "token", "mail")),
    "group": tuple(
        ("mail", place, "--by", by)
        for place in ("ready", "dead")
        for by in ("kind", "worker", "error", ".token", ".password", ".note", ".url")
    ),
    "diff": (("mail", "dead", "ready"), ("mail", "dead,ready,scheduled,reserved", "--filter", "err:a")),
    "incident": tuple((queue,) for queue in QUEUES),
    "errors": ((), *(("--by", by) for by in ("class", "frame", "cause", "message")), ("mail",)),
    "check": (("mail",),),
    "record": (("--once",), ("--once", "--jobs", "100"), ("--status",)),
    "replay": ((),),
    "put": (("mail", json.dumps(BODY), "--id", "put"),),
    "act": (
        ("requeue", "mail", "--place", "dead", "--filter", f"body:token={SECRET['filter']}", "--yes"),
        ("requeue", "mail", "dead", "--dry-run"),
        ("delete", "mail", "plain", "--yes", "--why", f"token={SECRET['filter']}"),
    ),
    "work": (("mail", "--burst", "--max-jobs", "2", "--", "sh", "-c", PRINTS_SECRETS),),
    "dispatch": (("--once", "-v"),),
    "reap": (("--once", "-v"),),
    "migrate": (("bullmq:video", "native:video", "--dry-run"), ("sidekiq:pay", "native:pay")),
    "undo": (("--list",),),
    "operations": ((), ("--markdown",), ("--all",)),
    "events": ((), ("mail",)),
    "acl": (("viewer", "mail"),),
}
WITHOUT_DATA = {"demo", "bench", "script", "new-system"}  # they print no data of the server under test


@pytest.fixture
def world(client: Redis, url: str, settings: Callable[[str, str], None]) -> Iterator[str]:
    """Plant the queues with secrets, and return the URL of the server."""
    settings("slowlog-log-slower-than", "-1")
    client.execute_command("SLOWLOG", "RESET")
    plant_secrets(client)
    fill_slow_log(client)
    yield url
    client.execute_command("SLOWLOG", "RESET")
    client.client_setname("")


def _run_command(url: str, *words: str) -> Ran:
    ran = shell(url, *words)
    assert ran.code in (0, 1, 2) and "usage" not in ran.err.lower(), (words, ran.err)
    return ran


@pytest.mark.slow
def test_no_command_prints_a_secret(world: str, state_folder: Path) -> None:
    found: list[str] = []
    masked = 0
    for name, how in COMMANDS.items():
        if name in WITHOUT_DATA:
            continue
        for words in CALLS.get(name, ((),)):
            for more in ((), ("--json",), ("--debug", "--log-format", "json"))[
                : None if how.get("has_json", True) else 1
            ]:
                at = words.index("--") if "--" in words else len(words)
                ran = _run_command(world, name, *words[:at], *more, *words[at:])
                assert ran.code < 2 or "failure" in how, (name, words, more, ran.err)  # monitoring has its own codes
                masked += (ran.out + ran.err).count(MASK) + ran.out.count(json.dumps(MASK)[1:-1])
                if leaked := find_leaks(ran.out + ran.err):
                    lines = [line for line in (ran.out + ran.err).splitlines() if find_leaks(line)]
                    found.append(f"{name} {words} {more}: {leaked}: {lines[0][:300]}")
    assert not found, "\n".join(found)
    assert masked > 200, "there were secrets to mask"
    stored_files = [path for path in state_folder.rglob("*") if path.is_file() and "undo" not in path.parts]
    assert any(path.name == journal.FILE_NAME for path in stored_files)
    assert any(path.suffix == ".rqt" for path in stored_files)
    assert [(path.name, find_leaks(path.read_bytes())) for path in stored_files if find_leaks(path.read_bytes())] == []


def test_recorded_jobs_of_every_system_have_no_secret(world: str, state_folder: Path, tmp_path: Path) -> None:
    assert _run_command(world, "record", "--once", "--jobs", "100").code == 0
    assert (
        _run_command(world, "record", "--export", str(tmp_path / "export.rqt"), "--json").json["rows"]["job_page"] > 9
    )
    with closing(sqlite3.connect(tmp_path / "export.rqt")) as connection:
        rows = connection.execute("SELECT system, jobs FROM job_page JOIN queue ON queue.id = queue_id").fetchall()
    rows = [(system, zlib.decompress(jobs).decode()) for system, jobs in rows]
    assert {system for system, _jobs in rows} == {"native", "celery", "rq", "sidekiq", "bullmq"}
    assert [(system, find_leaks(jobs)) for system, jobs in rows if find_leaks(jobs)] == []
    assert sum(jobs.count(MASK) for _system, jobs in rows) > 20, "there were secrets to mask"
    for path in (tmp_path / "export.rqt", *state_folder.rglob("*.rqt*")):
        assert not find_leaks(path.read_bytes()), path
    end_ms = _run_command(world, "record", "--status", "--json").json["end_at_ms"]
    at = datetime.fromtimestamp(end_ms / 1000 + 0.0005, UTC).isoformat()
    for queue in QUEUES:
        for more in ((), ("--json",), ("--reveal",)):
            ran = _run_command(world, "jobs", queue, "--at", at, *more)
            assert ran.code == 0 and not find_leaks(ran.out + ran.err), (queue, more)


def test_reveal_shows_what_was_requested_and_is_in_the_journal(world: str) -> None:
    for name, how in COMMANDS.items():
        assert (_run_command(world, name, "--help").out.count("--reveal") > 0) is bool(how.get("reveals")), name
    for words, source in (
        (("show", "mail", "dead"), "body"), (("show", "mail", "dead", "--json"), "error"),
        (("jobs", "mail", "--json"), "name"),
        (("errors", "mail", "--json"), "url"), (("redis",), "slow"), (("workers", "--json"), "worker"),
        (("show", "celery:celery", "c1"), "argument"),
    ):  # fmt: skip
        assert source not in find_leaks(_run_command(world, *words).out), words
        assert source in find_leaks(_run_command(world, *words, "--reveal").out), words
    [newest, *_older] = document = _run_command(world, "operations", "--json").json["operations"]
    assert newest["verb"] == "reveal" and newest["answers"] == {"shown in clear: show celery:celery c1": 1}
    assert newest["who"] == journal.find_current_user() and len(document) == 7
    _run_command(
        world,
        "act",
        "requeue",
        "mail",
        "--all",
        "--place",
        "dead",
        "--why",
        f"token={SECRET['filter']}",
        "--reveal",
        "--yes",
    )
    output = _run_command(world, "operations").out
    assert not find_leaks(_run_command(world, "operations", "--json").out)
    assert "shown in clear: show mail dead" in output and journal.find_current_user() in output


def test_a_job_that_is_handed_over_keeps_its_body_and_raw_bytes_stay_raw(world: str, client: Redis) -> None:
    [result] = _run_command(world, "act", "pull", "mail", "--yes", "--json").json["results"]
    assert result["job"]["body"]["value"] == BODY
    assert json.loads(_run_command(world, "show", "mail", "dead", "--raw").out) == BODY
    _run_command(world, "act", "delete", "mail", "dead", "--yes")
    _run_command(world, "undo")
    assert json.loads(_run_command(world, "show", "mail", "dead", "--raw").out) == BODY


def test_a_failed_celery_job_is_shown_with_its_error(world: str) -> None:
    ran = _run_command(world, "show", "celery:celery", "c3")
    assert "HTTPError" in ran.out and "none" not in ran.out, ran.out


def test_an_address_without_a_scheme_is_not_echoed_with_its_password(url: str) -> None:
    for word in (f"op:{SECRET['url']}@host", f"op:{SECRET['url']}@host:6379/0", f":{SECRET['url']}@host"):
        for words in (
            (word,),
            ("snapshot", "--url", word),
            ("jobs", "mail", "dead", word),
        ):
            ran = shell(url, *words)
            assert ran.code and not find_leaks(ran.out + ran.err), (words, ran.err)


def test_a_traceback_a_log_and_a_crash_report_hide_secrets(world: str, capsys: pytest.CaptureFixture[str]) -> None:
    from rqtui.cli import output

    try:
        raise ValueError(f"{DEAD_ERROR} {BODY!r} {json.dumps(BODY)}")
    except ValueError as error:
        assert (
            find_leaks("".join(traceback.format_exception(error)))
            and find_leaks(crash.format_masked_traceback(error)) == []
        )
        assert find_leaks(crash.format_crash_message(error, world, is_debug=True)) == []
        output.print_traceback(error)
    assert find_leaks(capsys.readouterr().err) == []


def test_no_copy_format_has_a_secret_unless_its_name_says_so(world: str) -> None:
    engine = create_engine(Settings(url=world))
    for queue, id in JOBS:
        ref = engine.resolve_or_discover(queue)
        job = engine.fetch_job(ref, id.encode(), -1)
        assert job is not None
        for form in copy_formats.COPY_FORMATS:
            clipboard_data = copy_formats.convert_jobs(
                form, [job], copy_formats.JobSource(engine.systems[ref.system], ref.queue, world)
            )
            assert "in clear" in form.label or find_leaks(clipboard_data.data) == [], (
                queue,
                id,
                form.label,
                clipboard_data.data,
            )
    revealed = copy_formats.JobSource(engine.systems["native"], "mail", world, is_revealed=True)
    job = engine.fetch_job(Ref("native", "mail"), b"dead", -1)
    assert (
        job is not None
        and "body" in find_leaks(copy_formats.format_jobs_as_json([job], revealed))
        and find_leaks(str(documents.build_job_document(job))) == []
    )


@pytest.mark.slow
@run_on_event_loop
async def test_no_view_of_the_screen_shows_a_secret(world: str, state_folder: Path) -> None:
    assert set(VIEW_KEYS) == set(VIEWS), "a key opens each view"
    journal.Journal(state_folder, world).record_change("requeue", "mail", "native", error=f"token={SECRET['filter']}")
    found: list[str] = []
    seen = ""
    async with screen(world, (200, 60)) as ui:

        def check_screen(where: str) -> None:
            nonlocal seen
            text = ui.text()
            seen += text
            if leaked := find_leaks(text):
                found.append(
                    f"{where}: {leaked}: {[line.strip() for line in text.splitlines() if find_leaks(line)][0][:200]}"
                )

        await ui.until_shown("mail")
        check_screen("overview")
        for name in VIEWS:
            await open_view(ui, name)
            check_screen(name)
            for key in ("j", "enter"):
                await ui.press(key)
                check_screen(f"{name}, {key}")
            await return_to_overview(ui)
        engine = create_engine(Settings(url=world))
        for queue in QUEUES:
            ref = engine.resolve_or_discover(queue)
            ui.app.navigation.open_board(ref)
            await ui.until(lambda: ui.app.navigation.view.NAME == "board", queue)
            await ui.until_refreshed()
            for place in range(1, len(engine.systems[ref.system].places) + 1):
                await ui.press(str(place))
                check_screen(f"board {queue} {place}")
            await return_to_overview(ui)
        for queue, id in JOBS:
            ref = engine.resolve_or_discover(queue)
            job = engine.fetch_job(ref, id.encode(), -1)
            assert job is not None, (queue, id)
            ui.app.navigation.open_job(ref, job)
            await ui.until(lambda: ui.app.navigation.view.NAME == "job", id)
            for key in ("j", "v", "v", "G"):
                await ui.press(key)
                check_screen(f"job {queue} {id} {key}")
            await return_to_overview(ui)
    assert not found, "\n".join(found)
    assert seen.count("••••") > 20, "there were secrets to mask"


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_records_who_revealed_a_job(world: str, state_folder: Path) -> None:
    async with screen(world, (160, 45)) as ui:
        await ui.until_shown("mail")
        engine = create_engine(Settings(url=world))
        job = engine.fetch_job(Ref("native", "mail"), b"dead", -1)
        assert job is not None
        ui.app.navigation.open_job(Ref("native", "mail"), job)
        await ui.until(lambda: ui.app.navigation.view.NAME == "job")
        assert not find_leaks(ui.text())
        await ui.press("c")
        await ui.until(lambda: find_leaks(ui.text()))
        await ui.press("c")
        await ui.until(lambda: not find_leaks(ui.text()))
    [noted] = journal.load_operations(state_folder)
    assert (noted.verb, noted.queue, noted.who) == ("reveal", "mail", journal.find_current_user()) and noted.ids, (
        sys.version
    )
