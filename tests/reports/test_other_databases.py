"""Check that a person who looks at one database hears of the queues in the others, and how to open them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis
from screens import run_on_event_loop, screen
from shell import shell

from rqtui.client.queue import Queue
from rqtui.engine.ticker import CallFinished
from rqtui.reports.other_databases import OtherDatabase, build_database_url
from rqtui.tui.session import Session


def _open_database(client: Redis, number: int) -> Redis:
    kwargs = client.connection_pool.connection_kwargs
    return Redis(host=kwargs["host"], port=kwargs["port"], db=number)


def _plant_celery(client: Redis, *queues: str) -> None:
    for queue in queues:
        client.sadd(f"_kombu.binding.{queue}", f"{queue}\x06\x16\x06\x16{queue}")
        client.lpush(queue, '{"body": "W10=", "headers": {}, "properties": {}}')


def test_an_empty_database_names_those_with_queues(client: Redis, url: str) -> None:
    _plant_celery(_open_database(client, 1), "celery", "mail")
    Queue("orders", _open_database(client, 3)).put(b"{}")
    _open_database(client, 4).set("cache", "no queue")
    ran = shell(url, "snapshot")
    assert "no queues at" in ran.out
    base = url.rstrip("/").removesuffix("/0")
    assert ran.err.splitlines() == [
        f"rqtui: database 1 of this Redis has 2 queues (celery): rqtui {base}/1",
        f"database 3 of this Redis has 1 queue (native): rqtui {base}/3",
    ]
    assert "celery" in shell(f"{base}/1", "snapshot").out


def test_two_applications_in_two_databases_name_each_other(client: Redis, url: str) -> None:
    _plant_celery(client, "celery")
    _plant_celery(_open_database(client, 1), "celery", "mail")
    ran = shell(url, "snapshot")
    assert "celery" in ran.out and "database 1 of this Redis has 2 queues (celery): rqtui" in ran.err
    other = shell(f"{url.rstrip('/').removesuffix('/0')}/1", "snapshot")
    assert "mail" in other.out and "database 0 of this Redis has 1 queue (celery): rqtui" in other.err


def test_a_document_and_named_queues_have_no_such_message(client: Redis, url: str) -> None:
    Queue("here", client).put(b"{}")
    Queue("orders", _open_database(client, 3)).put(b"{}")
    assert "database" not in shell(url, "snapshot", "--json").err
    assert "database" not in shell(url, "snapshot", "here").err


def test_a_user_without_info_and_select_sees_the_queues_of_the_own_database(client: Redis, url: str) -> None:
    Queue("here", client).put(b"{}")
    Queue("orders", _open_database(client, 3)).put(b"{}")
    client.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-select")
    try:
        ran = shell(url.replace("://", "://limited:secret@"), "snapshot")
        assert ran.code == 0 and "here" in ran.out and "database" not in ran.err
        client.execute_command("ACL", "SETUSER", "limited", "-info")
        ran = shell(url.replace("://", "://limited:secret@"), "snapshot")
        assert ran.code == 0 and "here" in ran.out and "database" not in ran.err
    finally:
        client.execute_command("ACL", "DELUSER", "limited")


@run_on_event_loop
async def test_the_overview_names_the_other_databases(client: Redis, url: str) -> None:
    Queue("orders", _open_database(client, 3)).put(b"{}")
    async with screen(url) as ui:
        await ui.until_shown("database 3 of this Redis has 1 queue (native): rqtui")
        Queue("here", client).put(b"{}")
        await ui.until_shown("here", "database 3 of this Redis has 1 queue (native): rqtui")


@run_on_event_loop
async def test_a_database_that_is_found_while_the_program_ends_is_ignored(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    callbacks: list[Callable[[CallFinished], None]] = []
    monkeypatch.setattr(Session, "run_steps", lambda _session, _steps, callback: callbacks.append(callback))
    async with screen(url) as ui:
        await ui.until(lambda: callbacks, "the search for other databases")
        overview = ui.app.navigation.view
    assert overview is not None and not overview.is_drawn
    callbacks[0](CallFinished(1, OtherDatabase(3, 1, ("native",)), is_last=False))


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("redis://h", "redis://h/2"),
        ("redis://h:1/", "redis://h:1/2"),
        ("rediss://u:p@h:1/0?socket_timeout=3&db=0", "rediss://u:p@h:1/2?socket_timeout=3"),
        ("unix:///run/redis.sock?db=0", "unix:///run/redis.sock?db=2"),
        ("redis+sentinel://a:1,b:2/mymaster/0", "redis+sentinel://a:1,b:2/mymaster/2"),
        ("redis+sentinel://a/mymaster", "redis+sentinel://a/mymaster/2"),
    ],
)
def test_the_url_of_another_database_keeps_the_rest(url: str, other: str) -> None:
    assert build_database_url(url, 2) == other
