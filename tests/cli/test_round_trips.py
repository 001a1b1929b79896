"""Count the round trips of commands on a server that has none of their scripts yet.

Over a link of two seconds each round trip is two seconds of waiting, whatever it asks for.
"""

from __future__ import annotations

import pytest
from redis import Redis
from shell import shell
from socket_writes import record_socket_writes

from rqtui.client.queue import Queue, open_queue_on_client
from rqtui.connection.connect import connect


@pytest.mark.parametrize(
    ("command", "code", "most"),
    [
        (("put", "mail", '{"to": "a"}'), 0, 4),
        (("put", "fresh", '{"to": "a"}'), 0, 4),
        (("snapshot",), 0, 6),
        (("health",), 1, 6),
        (("act", "promote", "mail", "later"), 0, 4),
        (("act", "delete", "mail", "later", "--yes"), 0, 4),
        (("jobs", "mail"), 0, 5),
        (("jobs", "mail", "ready"), 0, 4),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_command_takes_few_round_trips(
    command: tuple[str, ...], code: int, most: int, url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put_jobs(client)
    with record_socket_writes(monkeypatch) as writes:
        ran = shell(url, *command)
    assert ran.code == code, ran.err
    assert len(writes) == most, [write[:60] for write in writes]


def _put_jobs(client: Redis) -> None:
    queue = Queue("mail", client)
    queue.put({"to": "b"})
    queue.put({"to": "c"}, id="later", delay="2d")
    client.script_flush()


def test_a_script_is_sent_as_text_once_and_then_by_its_digest(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(url, sends_script_texts=True) as sender:
        queue = _open_queue(sender)
        with record_socket_writes(monkeypatch) as writes:
            for at in range(3):
                queue.put(at)
        names = [write.split(b"\r\n")[2] for write in writes]
        assert names == [b"CLIENT", b"EVAL", b"SADD", b"EVALSHA", b"EVALSHA"]
        client.script_flush()
        queue.put(4)
    assert client.zcard("rqtui:{mail}:ready") == 4


def test_a_user_without_the_right_to_send_texts_runs_scripts_that_are_loaded(url: str, client: Redis) -> None:
    _open_queue(client).put(1)
    with connect(url, sends_script_texts=True) as sender:
        sender.execute_command(
            "ACL", "SETUSER", "loaded", "reset", "on", ">x", "~*", "&*", "+@all", "-eval", "-eval_ro"
        )
    try:
        with connect(url.replace("redis://", "redis://loaded:x@"), sends_script_texts=True) as user:
            queue = _open_queue(user)
            queue.put(2)
            queue.put(3)
    finally:
        client.execute_command("ACL", "DELUSER", "loaded")
    assert client.zcard("rqtui:{mail}:ready") == 3


def _open_queue(client: Redis) -> Queue:
    return open_queue_on_client("mail", client)
