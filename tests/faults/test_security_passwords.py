"""A password that was planted is found nowhere: not in output, files, process lists, screens, copies or errors.

It is made of letters that are written differently in a URL, and each way of writing it is looked for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from families import run_in_one_test
from redis import Redis
from screens import run_on_event_loop, screen
from shell import ROOT, build_environment, shell

from rqtui.client.queue import Queue
from rqtui.config.file import parse_config_text
from rqtui.config.resolve import CommandLine, resolve_settings
from rqtui.config.settings import Settings
from rqtui.connection.connect import connect, hide_url_passwords
from rqtui.connection.passwords import add_url_password
from rqtui.errors import RqtuiError
from rqtui.model import Job, State
from rqtui.systems import registry
from rqtui.tui.format import copy_formats
from rqtui.tui.services import crash

SECRET = "p@ss:w/rd%41 #?é&s"
WRITTEN = quote(SECRET, safe="")
# As it is, as a URL has it, as repr and JSON write it, and the parts that are left when it is cut at a wrong place.
TRACES = (SECRET, WRITTEN, ascii(SECRET)[1:-1], "w/rd", "ss:w", "rd%41", "rd%2541", "rdA", "p%40ss", "#?", "%23%3F")


def traces(text: str | bytes) -> list[str]:
    """Return which spellings of the secret a text contains."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return [each for each in TRACES if each.encode() in raw]


@pytest.fixture
def guarded(client: Redis, url: str, settings: Callable[[str, str], None]) -> Iterator[str]:
    """Return the URLs of a server with this password, for the user `default` and for a read-only user."""
    client.execute_command("CONFIG", "SET", "requirepass", SECRET)
    client.auth(SECRET)
    client.acl_setuser("poor", enabled=True, passwords=[f"+{SECRET}"], commands=["+ping", "+client|setname"])
    yield url.replace("redis://", f"redis://:{WRITTEN}@")
    with connect(url.replace("redis://", f"redis://:{WRITTEN}@")) as again:
        again.acl_deluser("poor")
        again.execute_command("CONFIG", "SET", "requirepass", "")


def _bytes_below(folder: Path) -> bytes:
    return b"\n".join(
        str(path).encode() + b"\n" + (path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*")
    )


# Objects and text -----------------------------------------------------------------------------------------------------


def test_no_object_that_holds_a_url_shows_the_password() -> None:
    url = f"redis://user:{WRITTEN}@localhost/0?client_name=x"
    client = connect(url)
    sentinels = f"redis+sentinel://user:{WRITTEN}@localhost:1/main?sentinel_password={WRITTEN}"
    held = [
        Settings(url=url), CommandLine(url=url),
        resolve_settings(CommandLine(url=url), {"RQTUI_CONFIG": os.devnull}), client,
        client.connection_pool, client.connection_pool.make_connection(), Queue("mail", url), connect(sentinels),
        parse_config_text(Path("config.toml"), f'[profiles.a]\nurl = "{url}"\n'),
        copy_formats.JobSource(registry.create_system("native"), "mail", url),
    ]  # fmt: skip
    for each in held:
        assert traces(repr(each) + str(each)) == [], type(each)


@run_in_one_test(
    "url",
    [
        "redis://user:{0}@host/0", "unix://:{0}@/run/redis.sock", "redis://host?password={0}", "redis://host?Password={0}",
        "redis://host?pass%77ord={0}", "redis://host?passwort={0}", "rediss://host?ssl_password={0}", "redis://:{0}",
        "redis:/:{0}@host", "//:{0}@host", "redis//:{0}@host", ":{0}@host:6379", "user:{0}@host", "http://u:{0}@host",
        "redis+sentinel://:{0}@a:1,b:2/main?sentinel_password={0}", "redis://user:{0}@host:port",
        "redis://us er:{0}@host", "redis://host/0?password={0}#{0}", "redis://user:{0}@host/0?x=%5B#",
    ],
)  # fmt: skip
def test_a_url_that_is_right_or_wrong_is_reported_without_its_password(url: str) -> None:
    for written in (WRITTEN, "p@ss:w/rd" if "@" in url else "p.ss", "hunter-two"):
        shown = url.format(written)
        assert "hunter" not in hide_url_passwords(shown) and traces(hide_url_passwords(shown)) == [], (
            hide_url_passwords(shown)
        )
        ran = shell("", "snapshot", "--url", shown)
        assert ran.code in (2, 3) and "hunter" not in ran.err and traces(ran.err) == [], ran.err


def test_parts_of_a_url_without_a_secret_stay_readable() -> None:
    for url in ("redis://user@host:6379/0", "redis://host:1/2?db=3&client_name=me", "unix:///run/redis.sock?db=2"):
        assert hide_url_passwords(url) == url


# Everything that is printed and written -------------------------------------------------------------------------------


def test_no_command_and_no_file_holds_the_password(guarded: str, state_folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.prod]\nurl = "{guarded}"\n')
    poor = guarded.replace("redis://:", "redis://poor:")
    wrong = guarded.replace(WRITTEN, WRITTEN + "x")
    outputs = []
    for url, *words in (
        (guarded, "put", "mail", "1", "--id", "a"), (guarded, "put", "mail", "2", "--id", "b"),
        (guarded, "snapshot", "--json"), (guarded, "jobs", "mail", "ready"), (guarded, "show", "mail", "a", "--json"),
        (guarded, "health"), (guarded, "metrics"), (guarded, "acl", "viewer", "mail"), (guarded, "config", "--json"),
        (guarded, "--config", str(config), "--profile", "prod", "config"),
        (guarded, "act", "delete", "mail", "a", "--yes"),
        (guarded, "operations", "--json"), (guarded, "undo", "--list"), (guarded, "undo"), (guarded, "workers"),
        (guarded, "dispatch", "--once"), (guarded, "reap", "--once", "--json"), (guarded, "redis"), (guarded, "loops"),
        (poor, "put", "mail", "3"), (poor, "snapshot"), (poor, "redis"), (wrong, "put", "mail", "3"),
        (wrong, "snapshot", "--json"), (guarded, "nonsense"), (guarded, "put"), (guarded + "/nonsense", "snapshot"),
        ("", guarded, "more"), ("", guarded.replace("redis:", "reddis:")),
        ("", "snapshot", "--url", guarded, "surplus"),
    ):  # fmt: skip
        ran = shell(url, *words)
        outputs.append(f"{words}\n{ran.out}\n{ran.err}")
        assert traces(ran.out + ran.err) == [], (words, ran.out, ran.err)
    assert sum("NOPERM" in each or "denie" in each.lower() for each in outputs) >= 2  # they did meet the refusals
    assert traces(_bytes_below(state_folder)) == []
    assert list(state_folder.rglob("*.jsonl")), "there were files to look into"


@pytest.mark.slow
def test_a_traceback_of_debug_does_not_hold_it(guarded: str) -> None:
    bad = guarded.replace(WRITTEN, WRITTEN + "x")
    ran = subprocess.run(
        [sys.executable, "-m", "rqtui", "snapshot", "--debug"],
        env=build_environment(bad),
        capture_output=True,
        check=False,
    )
    assert b"Traceback" in ran.stderr and traces(ran.stderr + ran.stdout) == []
    for bad in (f"redis://:{WRITTEN}@127.0.0.1:1", f"redis://:{WRITTEN}@127.0.0.1:1/x"):
        with pytest.raises(RqtuiError) as raised:
            shell(bad, "snapshot", "--debug")
        text = "".join(traceback.format_exception(raised.value))  # as the program's end has it
        assert "Traceback" in text and traces(text) == [], bad


@pytest.mark.slow
def test_no_process_that_we_start_has_it_on_its_command_line(guarded: str, tmp_path: Path) -> None:
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("needs /proc")
    Queue("mail", guarded).put(1)
    command = f"echo up > {tmp_path}/up; while [ ! -e {tmp_path}/enough ]; do sleep 0.05; done"
    words = [sys.executable, "-m", "rqtui", "work", "mail", "--max-jobs", "1", "--", "sh", "-c", command]
    worker = subprocess.Popen(words, env=build_environment(guarded), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        _until((tmp_path / "up").exists)
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(path.read_bytes())
            except OSError:  # it has ended
                continue
        assert any(b"echo up" in line for line in lines) and traces(b"\n".join(lines)) == []
    finally:
        (tmp_path / "enough").touch()
        out, _ = worker.communicate(timeout=60)
    assert b"1 acked" in out and traces(out) == []


def _until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# The screen -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@run_on_event_loop
async def test_no_view_image_or_copy_of_the_screen_holds_it(guarded: str) -> None:
    Queue("mail", guarded).put({"a": 1}, id="one")
    seen = []
    async with screen(guarded, (120, 40)) as ui:
        await ui.until_shown("mail")
        for key in ("enter", "o", "escape", "i", "escape", "t", "escape", "question_mark", "escape", "colon"):
            await ui.press(key)
            seen += [ui.text(), ui.app.export_screenshot()]
        assert traces("\n".join(seen)) == []
        assert "***" in "\n".join(seen)
        try:
            raise ValueError(f"of {guarded} with {SECRET}")
        except ValueError as error:
            ui.app._exception = error
            ui.app._fatal_error()
        written = "".join(str(each) for each in ui.app._exit_renderables)
        file = Path(written[written.index("in /") + 3 :].split(";")[0])
        assert traces(file.read_text()) == [], file.read_text()
        file.unlink()
        ui.app._exception = None
        ui.app._exit_renderables.clear()
        ui.app._return_code = 0


@run_on_event_loop
async def test_the_editor_of_a_url_that_did_not_answer_does_not_hold_it() -> None:
    async with screen(f"redis://:{WRITTEN}@127.0.0.1:1/0") as ui:
        await ui.press("e")
        assert "***" in ui.text() and traces(ui.text() + ui.app.export_screenshot()) == []


def test_copies_of_a_job_do_not_contain_the_secret() -> None:
    job = Job(b"one", "mail", "native", "ready", State.READY, b"one", body=b"{}")
    for way in ("redis://user:{0}@host:1/2", "redis://host?password={0}", "rediss://host?ssl_password={0}"):
        for form in copy_formats.COPY_FORMATS:
            clipboard_data = copy_formats.convert_jobs(
                form, [job], copy_formats.JobSource(registry.create_system("native"), "mail", way.format(WRITTEN))
            )
            assert traces(clipboard_data.data) == [], (form, clipboard_data.data)


def test_a_crash_report_masks_the_password_wherever_it_is() -> None:
    try:
        raise RuntimeError(f"redis://user:{WRITTEN}@host and ?password={WRITTEN}&x")
    except RuntimeError as error:
        assert traces(crash.mask_secrets(str(error))) == []


# Other ways in --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["redis://host:1/2", "redis://me@host", "unix:///run/redis.sock?db=1", "rediss://[::1]:1"]
)
def test_a_password_is_filled_into_a_url_that_names_none(url: str) -> None:
    options = connect(add_url_password(url, SECRET)).connection_pool.connection_kwargs
    before = connect(url).connection_pool.connection_kwargs
    assert options["password"] == SECRET
    same = ("host", "port", "path", "db", "username")
    assert {name: options.get(name) for name in same} == {name: before.get(name) for name in same}
    assert add_url_password(add_url_password(url, SECRET), "other") == add_url_password(url, SECRET)


def _resolve_settings(environ: dict[str, str], **given: str) -> Settings:
    return resolve_settings(CommandLine(**given), {"RQTUI_CONFIG": os.devnull, **environ}).settings


def test_the_environment_or_a_file_gives_the_password(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    for environ in ({"RQTUI_PASSWORD": SECRET}, {"RQTUI_PASSWORD_FILE": str(tmp_path / "secret")}):
        assert _resolve_settings(environ, url="redis://host").url == f"redis://:{WRITTEN}@host"
        assert _resolve_settings({**environ, "RQTUI_URL": "redis://:own@host"}).url == "redis://:own@host"


def test_a_profiles_password_comes_from_its_file_and_never_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.a]\nurl = "redis://host"\npassword_file = "{tmp_path}/secret"\n'
                      '[profiles.b]\nurl = "redis://other"\n')  # fmt: skip
    fields = {"config": str(config)}
    assert _resolve_settings({"RQTUI_PASSWORD": "x"}, profile="a", **fields).url == f"redis://:{WRITTEN}@host"
    assert _resolve_settings({"RQTUI_PASSWORD": "x"}, profile="b", **fields).url == "redis://other"
    config.write_text(f'[profiles.a]\nurl = "redis://host"\npassword_file = "{tmp_path}/none"\n')
    assert "No such file" in _resolve_settings({}, profile="a", **fields).problems[0]


def test_a_password_file_that_cannot_be_read_is_reported_and_nothing_is_sent(url: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "rqtui", "put", "mail", "1"],
        env={**build_environment(url), "RQTUI_PASSWORD_FILE": str(tmp_path / "none")},
        cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 2 and b"RQTUI_PASSWORD_FILE" in ran.stderr and b"No such file" in ran.stderr
