"""TLS with an authority of one's own: who is let in, what is said to the others, and that waiting works over it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from authority import Files, issue_certificates, tls_server
from redis import Redis
from screens import run_on_event_loop, screen
from shell import shell, start_process

from rqtui.client.queue import Queue
from rqtui.client.wakeup import WakeReason, WakeWaiter
from rqtui.connection.connect import connect, read_server_info
from rqtui.errors import RqtuiError, UsageError

LONG_S = 20.0  # generous: a machine under test may be slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return issue_certificates(tmp_path_factory.mktemp("authority"), "localhost")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Another authority, of which the server has never heard."""
    return issue_certificates(tmp_path_factory.mktemp("stranger"), "localhost")


@pytest.fixture(scope="module")
def port(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with tls_server(files, tmp_path_factory.mktemp("tls")) as port:
        yield port


@pytest.fixture(scope="module")
def strict_port(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Start a server that refuses clients without a certificate, and yield its port."""
    with tls_server(files, tmp_path_factory.mktemp("strict"), wants_certificate=True) as port:
        yield port


@pytest.fixture
def tls(port: int, files: Files) -> Iterator[str]:
    """Return the URL of an empty server with TLS."""
    url = f"rediss://localhost:{port}?ssl_ca_certs={files.authority}"
    with connect(url) as client:
        client.flushall()
    yield url


def _ours(port: int, files: Files, pair: Files) -> str:
    keys = f"ssl_certfile={pair.client_certificate}&ssl_keyfile={pair.client_key}"
    return f"rediss://localhost:{port}?ssl_ca_certs={files.authority}&{keys}"


# Who is let in --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_commands_a_client_and_a_worker_speak_tls(tls: str) -> None:
    assert shell(tls, "put", "mail", "hello", "--raw", "--id", "one").code == 0
    assert shell(tls, "snapshot", "--json").json["queues"][0]["places"][1]["count"] == 1
    with start_process(tls, "work", "mail", "--burst", "--", "cat") as worker:
        out, err = worker.communicate(timeout=LONG_S * 3)
    assert b"hello" in out and b"1 acked" in err, (out, err)
    with connect(tls) as client:
        assert client.zcard("rqtui:{mail}:ready") == client.zcard("rqtui:{mail}:reserved") == 0


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_and_its_loops_speak_tls(tls: str) -> None:
    queue = Queue("mail", tls)
    queue.put({"n": 1}, id="later", delay=0.5)
    async with screen(tls) as ui:
        await ui.until_shown("mail")
        with connect(tls) as client:
            await ui.until(lambda: client.zcard("rqtui:{mail}:ready") == 1, "the dispatcher moved what is due")


def test_a_certificate_of_an_unknown_authority_is_refused(port: int, stranger: Files) -> None:
    for trusted in (f"?ssl_ca_certs={stranger.authority}", ""):
        ran = shell(f"rediss://localhost:{port}{trusted}", "put", "mail", "1")
        assert ran.code == 3 and "certificate that is not trusted" in ran.err and "ssl_ca_certs=FILE" in ran.err


def test_a_certificate_for_another_host_is_refused(tls: str, port: int, files: Files) -> None:
    wrong = f"rediss://127.0.0.1:{port}?ssl_ca_certs={files.authority}"  # it was given to localhost alone
    ran = shell(wrong, "put", "mail", "1")
    assert ran.code == 3 and "certificate for another host name" in ran.err
    with pytest.raises(RqtuiError, match="another host name"):
        read_server_info(connect(wrong), wrong)
    with connect(tls) as client:
        assert client.keys() == []


@run_on_event_loop
async def test_the_screen_reports_that_the_host_is_another(port: int, files: Files) -> None:
    async with screen(f"rediss://127.0.0.1:{port}?ssl_ca_certs={files.authority}") as ui:
        await ui.until(lambda: "another host" in " ".join(ui.text().split()), "the sentence")


def test_a_server_that_wants_a_certificate_gets_ours(kind: Any, strict_port: int, files: Files) -> None:
    url = _ours(strict_port, files, files)
    with kind("mail", url) as queue:
        queue.put(b"1", id="one")
        [job] = queue.reserve(1)
        assert (job.id, job.ack()) == ("one", "moved")
    assert shell(url, "snapshot", "--json").code == 0


def test_without_a_certificate_or_with_a_strangers_the_sentence_names_the_option(
    strict_port: int, files: Files, stranger: Files
) -> None:
    for url in (
        f"rediss://localhost:{strict_port}?ssl_ca_certs={files.authority}",
        _ours(strict_port, files, stranger),
    ):
        ran = shell(url, "put", "mail", "1")
        assert ran.code == 3 and "ssl_certfile=FILE&ssl_keyfile=FILE" in ran.err, ran.err


# What is wrong with the URL -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("ssl_nonsense=1", "'ssl_nonsense'"),
        ("ssl_cert_reqs=maybe", "ssl_cert_reqs=maybe"),
        ("ssl_ca_certs={folder}/none.pem", "No such file"),
        ("ssl_ca_certs={folder}/empty.pem", "no certificate in PEM"),
        ("ssl_certfile={folder}/none.pem", "No such file"),
        ("ssl_certfile={files.client_certificate}&ssl_keyfile={files.key}", "no pair"),
        ("ssl_keyfile={files.client_key}", "no ssl_certfile"),
    ],
)
def test_an_option_of_tls_that_cannot_be_used_is_reported_before_anything_connects(
    options: str, said: str, files: Files, tmp_path: Path
) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(UsageError, match="URL") as caught:
        connect(f"rediss://localhost:1?{options.format(folder=tmp_path, files=files)}")
    assert said in str(caught.value)


def test_an_option_of_tls_without_tls_is_reported() -> None:
    with pytest.raises(UsageError, match="rediss://"):
        connect("redis://localhost?ssl_ca_certs=x.pem")


# Waiting --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_consumer_over_tls_is_woken_at_once_and_by_its_timer(kind: Any, tls: str) -> None:
    queue = kind("mail", tls)
    ran: dict[str, float] = {}
    stop = threading.Event()

    def consume() -> None:
        for job in kind("mail", tls).consume(ttr=30, stop=stop):
            with job:
                ran[job.id] = time.monotonic()
                if len(ran) == 40:
                    stop.set()

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        with connect(tls) as client:
            _until(lambda: any(each["cmd"] == "bzpopmin" for each in client.client_list()), "it waits")
        for n in range(20):  # one by one: each has to ring
            queue.put(n, id=f"now-{n}")
            queue.put(n, id=f"due-{n}", delay=0.05)
            _until(lambda n=n: f"due-{n}" in ran, f"due-{n} ran")
    finally:
        stop.set()
        thread.join(LONG_S)
    assert len(ran) == 40 and not thread.is_alive()
    with connect(tls) as client:
        assert client.zcard("rqtui:{mail}:reserved") == 0 and client.zcard("rqtui:{mail}:ready") == 0


@pytest.mark.slow
def test_bytes_already_decrypted_by_tls_end_the_wait(tls: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqtui.client.wakeup.BLOCK_S", 3600.0)  # until which the socket itself stays silent
    with connect(tls, block_s=LONG_S) as client:
        bell = WakeWaiter(client, "rqtui:{mail}:wake")
        try:
            _hold_back_a_reply(bell, client)
            gives_up = threading.Timer(3 * LONG_S, bell.interrupt)
            gives_up.start()
            assert bell.wait(None) is WakeReason.MARKER
            gives_up.cancel()
        finally:
            bell.close()


@pytest.mark.slow
def test_a_marker_that_came_with_the_end_of_the_wait_is_put_back_over_tls(tls: str) -> None:
    with connect(tls, block_s=LONG_S) as client:
        bell = WakeWaiter(client, "rqtui:{mail}:wake")
        try:
            _hold_back_a_reply(bell, client)
            assert client.zcard("rqtui:{mail}:wake") == 0
            bell.cancel_wait()
            assert client.zcard("rqtui:{mail}:wake") == 1
            assert bell.wait(0.05) is WakeReason.MARKER  # the connection is in step
            assert bell.wait(0.05) is WakeReason.TIMER
            bell.cancel_wait()
            assert client.zcard("rqtui:{mail}:wake") == 0
        finally:
            bell.close()


def _hold_back_a_reply(bell: WakeWaiter, client: Redis) -> None:
    """Hold back the reply to a BZPOPMIN inside the TLS connection: its record arrived with another one's."""
    bell._open_wake_connection()
    client.zadd("rqtui:{mail}:wake", {b"wake": 0})
    connection = bell._connection
    connection.send_packed_command(connection.pack_commands([("PING",), ("BZPOPMIN", bell._key, "10")]))
    bell._requested_s = time.monotonic()
    assert connection._sock.recv(7) == b"+PONG\r\n"
    assert connection._sock.pending() > 0, "the server wrote the two replies as two records"


def _until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < deadline, f"{what}: it did not come true"
        time.sleep(0.005)
