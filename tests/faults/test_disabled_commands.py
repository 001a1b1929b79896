"""Servers as others run them: commands that are disabled or renamed (managed Redis), and protected mode."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from fleet import Fleet, Server
from screens import VIEW_KEYS, run_on_event_loop, screen
from shell import shell

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect

# What managed services and careful administrators take away; all of it at once.
ABOUT_THE_SERVER = (
    "CONFIG", "INFO", "SLOWLOG", "CLIENT", "SCRIPT", "KEYS", "SCAN", "HELLO", "ACL", "COMMAND", "MEMORY", "LATENCY",
    "DBSIZE", "DEBUG", "ROLE", "MONITOR", "BZPOPMIN", "WAIT", "EVALSHA_RO",
)  # fmt: skip


@pytest.fixture(scope="module")
def managed() -> Iterator[Server]:
    with Fleet() as fleet:
        yield fleet.start(without=ABOUT_THE_SERVER)


@pytest.fixture
def bare(managed: Server) -> Server:
    """Return the server with empty databases."""
    managed.client.flushall()
    return managed


def test_commands_and_workers_continue_where_all_commands_about_the_server_are_disabled(bare: Server) -> None:
    url = bare.url
    for line in (
        "put mail 1 --id a", "put mail 1 --id b --delay 1h", "snapshot", "jobs mail ready", "show mail a", "check mail",
        "act promote mail b", "dispatch mail --once", "dispatch --once", "reap --once", "errors mail", "stats mail",
        "act delete mail b --yes", "undo", "redis", "workers", "kinds mail", "metrics", "loops", "events mail",
    ):  # fmt: skip
        ran = shell(url, *line.split())
        assert ran.code == 0, (line, ran)
    assert "rqtui_up 1" in shell(url, "metrics").out
    health = shell(url, "health")
    assert health.code in (0, 1, 3) and "Traceback" not in health.err
    stop, ran_jobs = threading.Event(), []
    with Queue("mail", url) as queue:
        queue.put(1, id="soon", delay=0.2)
        for job in queue.consume(ttr=30, stop=stop):
            with job:
                ran_jobs.append(job.id)
            if len(ran_jobs) == 3:
                stop.set()
        assert sorted(ran_jobs) == ["a", "b", "soon"] and queue.counts()["acked"] == 3


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_shows_all_views_where_all_commands_about_the_server_are_disabled(bare: Server) -> None:
    with Queue("mail", bare.url) as queue:
        queue.put(1, id="a")
        queue.put(1, id="b", delay="1h")
    async with screen(bare.url, (120, 40)) as ui:
        await ui.until(lambda: ui.app.session.snapshot.cost.rtt_ms, "what is measured once in a while")
        for key in VIEW_KEYS.values():
            await ui.press(key, "escape")
        await ui.press("i")
        await ui.until_shown(
            "this server has no INFO", "this server has no SLOWLOG GET", "this server has no CLIENT LIST"
        )
        await ui.press("escape", "enter", "1")
        await ui.until_shown("b")
        await ui.press("R")
        await ui.until(lambda: bare.client.zcard("rqtui:{mail}:ready") == 2, "the promotion")
        assert ui.app.session.connection_loss is None and not [
            toast for toast in ui.toasts if "should not happen" in toast
        ]


@pytest.mark.parametrize("command", ["EVAL", "EVALSHA"])
def test_a_server_without_scripts_is_reported_in_a_sentence_not_in_lua(command: str) -> None:
    with Fleet() as fleet:
        url = fleet.start(without=[command]).url
        for line in ("put mail 1", "act pause mail", "work mail --burst -- true", "reap mail --once"):
            ran = shell(url, *line.split())
            output = " ".join((ran.out + ran.err).split())
            # The first call of a script sends its text, so a command that calls each script once needs no EVALSHA.
            is_done = command == "EVALSHA" and ran.code == 0
            is_told = ran.code in (1, 3) and f"does not know {command}" in output
            assert (is_done or is_told) and "KEYS" not in output, (line, ran)


def test_a_command_that_a_script_misses_is_named(bare: Server) -> None:
    for words in (("health",), ("snapshot",)):
        ran = shell(bare.url, "--system", "safe_pop", *words)  # which is asked for, so that SCAN is needed
        output = " ".join((ran.out + ran.err).split())
        assert "queues of safe_pop cannot be found: this Redis does not know SCAN" in output, ran


def test_protected_mode_is_a_sentence_on_another_address_than_the_loopback() -> None:
    host = _address_of_this_machine()
    with Fleet() as fleet:
        server = fleet.start(bind=f"127.0.0.1 {host}", protected_mode="yes")
        far = server.url.replace("127.0.0.1", host)
        for url in (far, far.replace("redis://", "redis://:secret@")):
            ran = shell(url, "put", "mail", "1")
            assert ran.code == 3 and f"{host}:{server.port} is in protected mode" in ran.err, ran
            assert "Traceback" not in ran.err and "secret" not in ran.err
        server.client.config_set("requirepass", "sesame")
        with connect(far.replace("redis://", "redis://:sesame@")) as client:
            assert client.ping()


def _address_of_this_machine() -> str:
    """Return an address of this machine that is not of the loopback. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # TEST-NET-1, of no host
        except OSError:
            pytest.skip("this machine has the loopback alone")
        host = str(asking.getsockname()[0])
    if host.startswith("127."):
        pytest.skip("this machine has the loopback alone")
    return host
