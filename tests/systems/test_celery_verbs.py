"""Celery's verbs: the conformance suite, what must never be done, new tasks, undo.

What stock workers do with the results is tried in `tests/beside/`.
"""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from celery_subject import CELERY, LISTENERS, close_listener
from celery_workers import FakeWorkers, build_replies
from proxy import Proxy
from redis import Redis
from redis.client import PubSub
from shell import shell

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import Refused, UsageError
from rqtui.model import EventCoverage, Job, Outcome, Ref, State
from rqtui.operations.revert import revert_record
from rqtui.operations.undo import SavedChunk, UndoRecorder, describe_undo
from rqtui.reports import acl
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.systems.celery import remote_control
from rqtui.systems.celery.messages import convert_time_ms, format_time
from rqtui.systems.celery.system import Celery
from rqtui.systems.celery.task_runs import MAX_CALLS
from rqtui.testing import conformance, keyspace
from rqtui.text.names import to_text
from rqtui.tui.services.verb_resolution import group_values_by_script
from rqtui.verbs import VERBS_BY_NAME


@pytest.mark.parametrize("script", CELERY.scripts)
def test_celery(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(CELERY, [script]), CELERY, any_client)


@pytest.fixture(autouse=True)
def run_without_listeners() -> Iterator[None]:
    yield
    while LISTENERS:
        close_listener(LISTENERS.pop())


@pytest.fixture
def listener(client: Redis) -> Iterator[PubSub]:
    one = client.pubsub()
    yield one
    close_listener(one)


# --- the engine ----------------------------------------------------------------------------------------------------

MAIL = Ref("celery", "mail")
SEP = "\x06\x16"
LISTS = ("mail", f"mail{SEP}3", f"mail{SEP}6", f"mail{SEP}9")
CALL = b'[[1.50, 12345678901234567890, {"b":[], "a":{}}], {}, {"callbacks": null}]'


def open_engine(client: Redis, spec: str = "celery") -> Engine:
    return build_engine(client, [registry.create_system(spec)])


def message(id: str, queue: str = "mail", priority: object = 0, exchange: str = "", **headers: object) -> bytes:
    """Build a message with spaces, numbers and an order of fields that only raw bytes keep."""
    own = json.dumps({"task": "tasks.add", "id": id, "eta": None, "weight": 1, **headers})[1:-1]
    sentence = (
        '{"body":"%s" ,"content-encoding":"utf-8","content-type": "application/json","headers": {"n": 1.50,%s},'
        '"properties":{"correlation_id":"%s","delivery_info":{"exchange":"%s","routing_key": "%s"},"priority": %s,'
        '"body_encoding":"base64", "delivery_tag":"tag-%s","z": 1234567890123456789}}'
    )
    body = base64.b64encode(CALL).decode()
    return (sentence % (body, own, id, exchange, queue, json.dumps(priority), id)).encode()


def hold(client: Redis, one: bytes, taken_s: float, queue: str = "mail", exchange: str = "") -> str:
    """Plant a message that a worker took, as Kombu stores it, and return its tag."""
    tag: str = json.loads(one)["properties"]["delivery_tag"]
    ending = b", " + json.dumps(exchange).encode() + b", " + json.dumps(queue).encode() + b"]"
    client.hset("unacked", tag, b"[" + one + ending)
    client.zadd("unacked_index", {tag: taken_s})
    return tag


def plant_all(client: Redis) -> float:
    """Plant messages of two queues in every list and every place, and return the server's time in s."""
    now_s = float(client.time()[0])
    for queue in ("mail", "other"):
        client.sadd(f"_kombu.binding.{queue}", f"{queue}{SEP}{SEP}{queue}")
        for step in (0, 3, 6, 9):
            for n in range(3):
                key = f"{queue}{SEP}{step}" if step else queue
                client.lpush(key, message(f"q{step}{n}{queue}", queue, priority=step))
        eta = format_time(round(now_s * 1000) + 600_000)
        hold(client, message(f"eta{queue}", queue, eta=eta), now_s - 20, queue)
        hold(client, message(f"held{queue}", queue, priority=4), now_s - 60, queue)
        for n in range(2):
            hold(client, message(f"late{n}{queue}", queue, priority=9 * n), now_s - 4000 + n, queue)
    return now_s


def list_jobs(engine: Engine, place: str, *ids: str) -> list[Job]:
    found = [one for one in engine.fetch_page(MAIL, place, 0, 100, 4096).jobs if not ids or one.id.decode() in ids]
    assert not ids or len(found) == len(ids), (place, [one.id for one in found])
    return sorted(found, key=lambda one: ids.index(one.id.decode())) if ids else found


def act(engine: Engine, verb: str, place: str, *ids: str, **form: object) -> list[str]:
    return [outcome.word for outcome in engine.apply_verb(verb, MAIL, list_jobs(engine, place, *ids), form)]


def list_waiting_ids(client: Redis) -> list[str]:
    """Return the waiting ids in the order in which a worker takes them: BRPOP of the lists by priority."""
    every = [one for key in LISTS for one in client.lrange(key, 0, -1)[::-1]]
    return [json.loads(one)["headers"]["id"] for one in every]


def list_ids(client: Redis, key: str) -> list[str]:
    return [json.loads(one)["headers"]["id"].removesuffix("mail") for one in client.lrange(key, 0, -1)[::-1]]


# --- order and bytes -------------------------------------------------------------------------------------------------


def test_the_lists_of_all_priorities_are_one_place_and_a_verb_finds_a_message_in_each(client: Redis) -> None:
    engine = open_engine(client)
    plant_all(client)
    everything = [f"q{step}{n}mail" for step in (0, 3, 6, 9) for n in range(3)]
    assert [one.id.decode() for one in list_jobs(engine, "queue")] == list_waiting_ids(client) == everything
    assert act(engine, "bump", "queue", "q91mail", "q02mail", "q60mail") == ["moved"] * 3
    assert list_waiting_ids(client)[:5] == ["q91mail", "q02mail", "q60mail", "q00mail", "q01mail"]
    assert list_ids(client, LISTS[3]) == ["q90", "q92"] and list_ids(client, LISTS[2]) == ["q61", "q62"]
    assert b'"priority": 9' in client.lindex(
        "mail", -1
    )  # its own bytes: it goes back to its list when it is redelivered
    assert act(engine, "delete", "queue", "q91mail", "q30mail", "q92mail") == ["moved"] * 3
    assert list_ids(client, LISTS[1]) == ["q31", "q32"] and list_ids(client, LISTS[3]) == ["q90"]
    assert client.llen("other") == 3 and client.hlen("unacked") == 8


def test_a_new_priority_brings_a_message_to_its_list_and_changes_nothing_else_of_it(client: Redis) -> None:
    engine = open_engine(client)
    plant_all(client)
    assert act(engine, "reprioritise", "queue", "q00mail", "q61mail", "q62mail", priority=4) == ["moved"] * 3
    assert list_ids(client, LISTS[1]) == ["q30", "q31", "q32", "q00", "q61", "q62"]  # priority 4 is in the list of 3
    assert client.lindex(LISTS[1], 2) == message("q00mail", priority=4)
    assert client.lindex(LISTS[1], 0) == message("q62mail", priority=4)
    assert act(engine, "reprioritise", "queue", "q31mail", priority=5) == ["moved"]  # the same list: it keeps its place
    assert client.lindex(LISTS[1], -2) == message("q31mail", priority=5)
    for wrong in (10, -1):
        [outcome] = engine.apply_verb("reprioritise", MAIL, list_jobs(engine, "queue", "q01mail"), {"priority": wrong})
        assert outcome.word == "refused" and "0 to 9" in outcome.text
    assert client.lindex("mail", -1) == message("q01mail")


@pytest.mark.parametrize("verb", ["reprioritise", "reschedule"])
def test_messages_that_change_places_in_one_call_are_all_there_afterwards(client: Redis, verb: str) -> None:
    for list_ in LISTS[:2]:
        client.rpush(list_, *(f"{list_}-{n}" for n in range(10)))
    rows = [{"member": f"{LISTS[i]}-1", "new": f"new-{i}", "step": "03"[i], "priority": (3, 0)[i]} for i in (0, 1)]
    scripts.run_call(client, registry.create_system("celery").build_call(verb, "mail", {}, rows))
    for i in (0, 1):
        stayed = [f"{LISTS[i]}-{n}".encode() for n in range(10) if n != 1]
        assert client.lrange(LISTS[i], 0, -1) == [f"new-{1 - i}".encode(), *stayed]


def test_a_message_that_waits_is_rescheduled_where_it_is(client: Redis) -> None:
    engine = open_engine(client)
    now_s = plant_all(client)
    assert act(engine, "reschedule", "queue", "q01mail", "q90mail", delay_ms=600_000) == ["moved"] * 2
    own = client.lindex("mail", -2)
    eta = json.loads(own)["headers"]["eta"]
    assert own == message("q01mail", eta=eta) and abs(convert_time_ms(eta) - now_s * 1000 - 600_000) < 60_000
    assert list_ids(client, LISTS[3]) == ["q90", "q91", "q92"]
    assert act(engine, "reschedule", "queue", "q01mail") == ["moved"]  # without a time: at once
    assert client.lindex("mail", -2) == message("q01mail")
    [outcome] = engine.apply_verb("reschedule", MAIL, list_jobs(engine, "queue", "q01mail"), {"delay_ms": 3_601_000})
    assert outcome.word == "refused" and "would run twice" in outcome.text
    longer = open_engine(client, "celery:visibility=86400")
    assert act(longer, "reschedule", "queue", "q01mail", delay_ms=3_601_000) == ["moved"]


def test_an_eta_and_a_priority_are_given_in_one_form(client: Redis) -> None:
    engine = open_engine(client)
    plant_all(client)
    system = engine.systems["celery"]
    values: dict[str, object] = {"delay_ms": 60_000, "priority": 8}
    assert group_values_by_script(system, VERBS_BY_NAME["reschedule"], values) == [("reschedule", values)]
    assert [
        name
        for name, _form in group_values_by_script(registry.create_system("native"), VERBS_BY_NAME["reschedule"], values)
    ] == [
        "reschedule",
        "reprioritise",
    ]
    assert act(engine, "reschedule", "queue", "q00mail", "q61mail", **values) == ["moved"] * 2
    assert list_ids(client, LISTS[2]) == ["q60", "q61", "q62", "q00"]  # priority 8 is in the list of 6
    own = client.lindex(LISTS[2], 0)
    assert own == message("q00mail", priority=8, eta=json.loads(own)["headers"]["eta"]) and b'"eta": "' in own
    assert act(engine, "reschedule", "queue", "q00mail", priority=0) == ["moved"]  # the ETA stays
    assert client.lindex("mail", 0) == own.replace(b'"priority": 8', b'"priority": 0')


def test_an_entry_that_is_no_message_of_celery_is_left_unchanged(client: Redis) -> None:
    engine = open_engine(client)
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    strange = [b"\xff no json", b"[]", b"{}", b'{"body": 1, "headers": {}, "properties": {}}', b"", b'{"headers": 1']
    client.rpush("mail", *strange)
    for verb, form in (("reprioritise", {"priority": 9}), ("reschedule", {"delay_ms": 1000})):
        found = engine.fetch_page(MAIL, "queue", 0, 100, 4096).jobs
        assert {one.word for one in engine.apply_verb(verb, MAIL, found, form)} == {"raw"}, verb
    assert client.lrange("mail", 0, -1) == strange
    found = engine.fetch_page(MAIL, "queue", 0, 100, 4096).jobs
    assert [one.word for one in engine.apply_verb("bump", MAIL, found[-1:], {})] == ["moved"]
    assert [one.word for one in engine.apply_verb("delete", MAIL, found, {})] == ["moved"] * 6
    assert not client.exists("mail")


def long_message(id: str, length: int) -> bytes:
    return message(id).replace(b'"body":"', b'"body":"' + base64.b64encode(b"x" * (length // 4 * 3 // 12 * 12)))


@pytest.mark.parametrize("length", [5000, 2_000_000])
def test_a_long_message_is_fetched_whole_before_it_is_changed(client: Redis, length: int) -> None:
    engine = open_engine(client)
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    one, two, three = (long_message(id, length) for id in ("one", "two", "three"))
    client.lpush("mail", one, two)
    hold(client, three, float(client.time()[0]) - 9000)
    assert list_jobs(engine, "queue", "one")[0].is_partial
    assert act(engine, "reprioritise", "queue", "one", priority=9) == ["moved"]
    assert client.lindex(LISTS[3], 0) == one.replace(b'"priority": 0', b'"priority": 9')
    assert act(engine, "bump", "queue", "one") == ["moved"] and list_ids(client, "mail") == ["one", "two"]
    assert act(engine, "release", "late", "three") == ["moved"]
    assert client.lindex("mail", -1) == build_redelivered_message(three)
    assert act(engine, "delete", "queue", "two", "three") == ["moved"] * 2 and list_ids(client, "mail") == ["one"]


def test_a_message_of_the_first_protocol_gets_another_priority_and_no_other_eta(client: Redis) -> None:
    engine = open_engine(client)
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    message = {"task": "tasks.add", "id": "old", "args": [1], "kwargs": {}, "retries": 0, "eta": None}
    delivered = {"exchange": "", "routing_key": "mail"}
    properties = {"priority": 0, "body_encoding": "base64", "delivery_tag": "t", "delivery_info": delivered}
    content = {"content-type": "application/json", "content-encoding": "utf-8", "headers": {}}
    body = base64.b64encode(json.dumps(message).encode()).decode()
    client.lpush("mail", json.dumps({"body": body, **content, "properties": properties}))
    assert act(engine, "reschedule", "queue", delay_ms=1000) == ["raw"]
    assert act(engine, "reprioritise", "queue", priority=9) == ["moved"]
    assert b'"priority": 9' in client.lindex(LISTS[3], 0) and not client.exists("mail")


# --- what workers hold -----------------------------------------------------------------------------------------------


def build_redelivered_message(one: bytes) -> bytes:
    """Build the message as it is delivered again, every other byte unchanged."""
    own = one.replace(b'"},"priority"', b'", "redelivered": true},"priority"')
    return own.replace(b'"weight": 1}', b'"weight": 1, "redelivered": true}')


def test_only_late_messages_are_returned_without_force_and_are_marked_as_redelivered(any_client: Redis) -> None:
    engine, client = open_engine(any_client), any_client
    plant_all(client)
    before = keyspace.dump(client)
    held = [*list_jobs(engine, "unacked"), *list_jobs(engine, "eta")]
    assert [one.word for one in engine.apply_verb("release", MAIL, held, {})] == ["held"] * 2
    assert [one.word for one in engine.apply_verb("delete", MAIL, held, {})] == ["wrong_place"] * 2
    assert not keyspace.diff(before, keyspace.dump(client))
    assert act(engine, "release", "late", "late0mail") == ["moved"]
    assert client.lindex("mail", -1) == build_redelivered_message(message("late0mail"))
    assert act(engine, "release", "unacked", force=True) == ["moved"]
    assert client.lindex(LISTS[1], -1) == build_redelivered_message(message("heldmail", priority=4))
    assert {*client.hkeys("unacked")} == {*client.zrange("unacked_index", 0, -1)}
    assert [one.word for one in engine.apply_verb("release", MAIL, held[:1], {"force": True})] == ["gone"]
    [outcome] = engine.apply_verb("reap", MAIL, (), {"limit": 100})
    assert (outcome.word, outcome.moved, outcome.values["more"]) == ("moved", 1, 0)
    assert client.lindex(LISTS[3], -1) == build_redelivered_message(message("late1mail", priority=9))
    assert 0 < outcome.values["next_ms"] <= 3_600_000
    assert sorted(client.hkeys("unacked")) == sorted(f"tag-{id}".encode() for id in ("etamail", *OTHERS))
    assert [one.word for one in engine.apply_verb("reap", MAIL, (), {"limit": 100})] == ["empty"]


OTHERS = ("etaother", "heldother", "late0other", "late1other")


def test_the_oldest_that_is_reaped_is_the_next_and_those_of_others_stay(client: Redis) -> None:
    engine = open_engine(client)
    now_s = float(client.time()[0])
    for n in range(450):
        queue = "other" if n % 3 else "mail"
        hold(client, message(f"l{n}", queue), now_s - 9000 + n, queue)
    args: dict[str, object] = {"limit": 100}
    moved = 0
    for _step in range(6):
        [outcome] = engine.apply_verb("reap", MAIL, (), args)
        moved += outcome.moved
        args["rank"] = outcome.values["rank"]
        if not outcome.values["more"]:
            break
    assert moved == 150 and client.hlen("unacked") == 300 == client.zcard("unacked_index")
    assert list_ids(client, "mail")[-1] != "l0" and sorted(list_ids(client, "mail")) == sorted(
        f"l{n}" for n in range(0, 450, 3)
    )
    client.flushall()
    for n in range(3):
        hold(client, message(f"l{n}"), now_s - 9000 + n)
    assert engine.apply_verb("reap", MAIL, (), {"limit": 2})[0].moved == 2
    assert list_ids(client, "mail") == ["l0", "l1"]


def test_a_message_that_came_by_an_exchange_goes_back_to_its_queue(client: Redis) -> None:
    engine = open_engine(client)
    now_s = float(client.time()[0])
    client.sadd("_kombu.binding.media", f"video{SEP}{SEP}mail", f"sound{SEP}{SEP}other")
    hold(client, message("v", "video", exchange="media"), now_s - 9000, "video", "media")
    hold(client, message("s", "sound", exchange="media"), now_s - 9000, "sound", "media")
    assert engine.apply_verb("reap", MAIL, (), {"limit": 10})[0].moved == 1
    assert list_ids(client, "mail") == ["v"] and client.hkeys("unacked") == [b"tag-s"]


def test_a_message_that_kombu_cannot_redeliver_stays(client: Redis) -> None:
    engine = open_engine(client)
    now_s = float(client.time()[0])
    whole = message("whole")
    for n, one in enumerate(
        (b"{}", b'{"headers": {}, "properties": {}}', whole.replace(b'"delivery_info":{', b'"gone":{'))
    ):
        client.hset("unacked", f"tag-{n}", b"[" + one + b', "", "mail"]')
        client.zadd("unacked_index", {f"tag-{n}": now_s - 9000})
    before = keyspace.dump(client)
    assert [one.word for one in engine.apply_verb("reap", MAIL, (), {"limit": 10})] == ["empty"]
    found = engine.fetch_page(MAIL, "late", 0, 100, 4096).jobs
    assert [one.word for one in engine.apply_verb("release", MAIL, found, {"force": True})] == ["raw"] * 3
    assert not keyspace.diff(before, keyspace.dump(client))
    assert [one.word for one in engine.apply_verb("delete", MAIL, found, {})] == ["moved"] * 3
    assert not client.exists("unacked", "unacked_index")


def strange_json(chance: random.Random, depth: int = 0) -> object:
    """Build a value whose JSON is easily misread: brackets, quotes and field names in texts and in depth."""
    kinds = 4 if depth > 2 else 6
    kind = chance.randrange(kinds)
    if kind == 0:
        parts = [
            '"',
            "\\",
            "}",
            "]",
            '"headers": {',
            '"redelivered": false',
            "é",
            "\u2028",
            "\n",
            ",",
            '"delivery_info"',
        ]
        return "".join(chance.choice(parts) for _ in range(chance.randrange(6)))
    if kind < 4:
        return (None, chance.random() * 1e30, chance.random() < 0.5)[kind - 1]
    if kind == 4:
        return [strange_json(chance, depth + 1) for _ in range(chance.randrange(4))]
    names = ["headers", "properties", "delivery_info", "redelivered", "priority", "a", "", '"']
    return {chance.choice(names): strange_json(chance, depth + 1) for _ in range(chance.randrange(4))}


def test_a_message_with_any_content_is_redelivered_without_other_changes(client: Redis) -> None:
    engine = open_engine(client)
    now_s = float(client.time()[0])
    for seed in range(150):
        client.flushdb()
        chance = random.Random(seed)
        more = {f"h{n}": strange_json(chance) for n in range(chance.randrange(4))}
        document = json.loads(message("odd", priority=chance.randrange(10)))
        document["headers"] = {
            **more,
            **document["headers"],
            **({"redelivered": False} if chance.random() < 0.3 else {}),
        }
        document["properties"] = {**more, **document["properties"]}
        document["properties"]["delivery_info"] |= {"redelivered": None} if chance.random() < 0.3 else {}
        document["more"] = strange_json(chance)
        fields = list(document.items())
        chance.shuffle(fields)
        how = {"ensure_ascii": chance.random() < 0.5, "indent": chance.choice([None, 0, 2])}
        own = json.dumps(
            dict(fields), separators=chance.choice([(",", ":"), (", ", ": "), (" , ", " : ")]), **how
        ).encode()  # type: ignore[arg-type]
        hold(client, own, now_s - 9000)
        assert engine.apply_verb("reap", MAIL, (), {"limit": 10})[0].moved == 1, (seed, own)
        [result] = [one for key in LISTS for one in client.lrange(key, 0, -1)]
        expected = json.loads(own)
        expected["headers"]["redelivered"] = expected["properties"]["delivery_info"]["redelivered"] = True
        assert json.loads(result) == expected, (seed, own, result)
        assert list(json.loads(result)) == list(expected) and len(result) <= len(own) + 2 * len(
            b', "redelivered": true'
        )


def test_what_is_cut_off_anywhere_is_not_given_out_and_stops_nothing(client: Redis) -> None:
    engine = open_engine(client)
    now_s = float(client.time()[0])
    own = message("cut")
    for at in range(1, len(own), 7):
        client.hset("unacked", f"tag-{at}", b"[" + own[:at] + b', "", "mail"]')
        client.zadd("unacked_index", {f"tag-{at}": now_s - 9000})
    hold(client, message("whole"), now_s - 8000)
    before = client.hlen("unacked")
    assert engine.apply_verb("reap", MAIL, (), {"limit": 1000})[0].moved == 1
    assert list_ids(client, "mail") == ["whole"] and client.hlen("unacked") == before - 1


@pytest.mark.parametrize("priority", ["3", None, 99, -1, 2.5, "x", True])
def test_a_priority_that_is_none_is_read_as_kombu_reads_it(client: Redis, priority: object) -> None:
    engine = open_engine(client)
    hold(client, message("odd", priority=priority), float(client.time()[0]) - 9000)
    assert engine.apply_verb("reap", MAIL, (), {"limit": 10})[0].moved == 1
    try:
        expected_priority = max(0, min(9, int(priority)))  # type: ignore[call-overload]  # kombu/transport/virtual/base.py
    except (TypeError, ValueError):
        expected_priority = 0
    assert [key for key in LISTS if client.llen(key)] == [LISTS[expected_priority // 3]]


# --- what is only said -----------------------------------------------------------------------------------------------


def commands(listener: object) -> list[dict[str, object]]:
    """Return the commands that were published to the workers' mailbox, as a worker of Kombu reads them."""
    found = []
    while actual := listener.get_message(timeout=0.2):  # type: ignore[attr-defined]
        if actual["type"] == "pmessage":
            document = json.loads(actual["data"])
            assert document["content-type"] == "application/json" and document["properties"]["delivery_tag"]
            found.append(json.loads(document["body"]))
    return found


def test_workers_are_shown_in_the_terms_of_their_system(client: Redis, listener: PubSub) -> None:
    engine = open_engine(client, "celery:prefix=app_")
    system = engine.systems["celery"]
    database = client.connection_pool.connection_kwargs.get("db", 0)
    client.sadd("app__kombu.binding.mail", f"mail{SEP}{SEP}mail")
    list(system.discover(client))
    listener.psubscribe(f"app_/{database}.celery.pidbox")
    client.lpush("app_mail", message("a"), message("b"))
    tag = hold(client, message("runs"), float(client.time()[0]))
    client.rename("unacked", "app_unacked")
    client.rename("unacked_index", "app_unacked_index")
    assert act(engine, "cancel", "queue") == ["asked"] * 2 and act(engine, "cancel", "unacked") == ["asked"]
    assert [one.word for one in engine.apply_verb("pause", MAIL, (), {})] == ["paused"]
    assert [one.word for one in engine.apply_verb("resume", MAIL, (), {})] == ["resumed"]
    assert [one.word for one in engine.apply_verb("stop", MAIL, (), {"worker": "w1@host"})] == ["asked"]
    revoke = {"method": "revoke", "destination": None}
    assert commands(listener) == [
        {**revoke, "arguments": {"task_id": ["a", "b"], "terminate": False, "signal": "SIGTERM"}},
        {**revoke, "arguments": {"task_id": ["runs"], "terminate": True, "signal": "SIGTERM"}},
        {"method": "cancel_consumer", "arguments": {"queue": "mail"}, "destination": None},
        {"method": "add_consumer", "arguments": {"queue": "mail"}, "destination": None},
        {"method": "shutdown", "arguments": {}, "destination": ["w1@host"]},
    ]
    assert client.llen("app_mail") == 2 and client.hkeys("app_unacked") == [tag.encode()]


def test_a_revoke_can_name_the_signal_for_a_running_task_or_send_none(
    client: Redis, listener: PubSub, url: str
) -> None:
    engine = open_engine(client)
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    hold(client, message("runs"), float(client.time()[0]))
    client.lpush("mail", message("waits"))
    listener.psubscribe("*.celery.pidbox")
    listener.get_message(timeout=5)
    for signal in ("KILL", "sigusr1", "none"):
        assert act(engine, "cancel", "unacked", signal=signal) == ["asked"]
    assert act(engine, "cancel", "queue", signal="KILL") == ["asked"]
    actual = [each["arguments"] for each in commands(listener)]
    runs = {"task_id": ["runs"], "terminate": True}
    assert actual == [
        {**runs, "signal": "SIGKILL"},
        {**runs, "signal": "SIGUSR1"},
        {**runs, "terminate": False, "signal": "SIGTERM"},
        {"task_id": ["waits"], "terminate": False, "signal": "SIGTERM"},
    ]
    ran = shell(url, "act", "cancel", "celery:mail", "runs", "--set", "signal=SEGV", "--yes")
    assert ran.code == 1 and "the signal is none, or one of" in ran.out and "nothing was changed" in ran.out
    assert commands(listener) == []


@pytest.fixture
def workers(client: Redis) -> Iterator[Callable[..., FakeWorkers]]:
    started: list[FakeWorkers] = []

    def start(replies: Mapping[str, Mapping[str, object]], prefix: str = "") -> FakeWorkers:
        started.append(FakeWorkers(client, replies, prefix))
        return started[-1]

    yield start
    for each in started:
        each.close()


def list_reply_lists(client: Redis) -> dict[str, int]:
    """Return the remaining time (s) of each list for replies; -1 for one that stays."""
    return {to_text(key): client.ttl(key) for key in client.keys("*.reply.celery.pidbox")}


StartWorkers = Callable[..., FakeWorkers]


def test_a_pool_grows_and_shrinks_only_when_its_worker_replied(
    client: Redis, workers: StartWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_control, "TIMEOUT_S", 0.3)
    engine = open_engine(client, "celery:prefix=app_")
    client.sadd("app__kombu.binding.mail", f"mail{SEP}{SEP}mail")
    list(engine.systems["celery"].discover(client))
    fake = workers(
        {
            "w1@shop": {"pool_grow": {"ok": "pool will grow"}},
            "w2@shop": {"pool_shrink": {"error": 'ValueError("Can\'t shrink pool. All processes busy!")'}},
        },
        prefix="app_",
    )
    [grown] = engine.apply_verb("grow", MAIL, (), {"worker": "w1@shop", "number": 2})
    assert (grown.word, grown.text, grown.moved) == ("asked", "w1@shop replied: pool will grow", 1)
    [refused] = engine.apply_verb("shrink", MAIL, (), {"worker": "w2@shop", "number": 1})
    assert (refused.word, refused.moved) == ("refused", 0) and "All processes busy!" in refused.text
    assert all(0 < ttl <= 30 for ttl in list_reply_lists(client).values()), "complete lists expire soon"
    [silent] = engine.apply_verb("shrink", MAIL, (), {"worker": "w1@shop", "number": 1})
    assert (silent.word, silent.moved) == ("unknown", 0) and "no reply within" in silent.text
    assert [(each["method"], each["arguments"], each["destination"]) for each in fake.commands] == [
        ("pool_grow", {"n": 2}, ["w1@shop"]),
        ("pool_shrink", {"n": 1}, ["w2@shop"]),
        ("pool_shrink", {"n": 1}, ["w1@shop"]),
    ]
    assert sorted(list_reply_lists(client).values())[-1] > 3000, "a list that waits for a reply expires, too"


def test_a_worker_is_asked_what_it_runs_and_knows_and_its_queues(
    client: Redis, workers: StartWorkers, url: str
) -> None:
    now_s = float(client.time()[0])
    fake = workers({"w1@shop": build_replies(now_s), "w2@shop": {"active": [], "stats": "no statistics"}})
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    client.lpush("mail", message("x"))
    ran = shell(url, "workers", "celery:mail", "--inspect", "w1@shop", "--json")
    document = json.loads(ran.out)
    facts = {fact["name"]: fact["value"] for fact in document["facts"]}
    assert (ran.code, document["worker"], document["unknown"]) == (0, "w1@shop", [])
    assert document["waited_ms"] < 2000
    assert facts == {
        "active": "1 task",
        "runs": "shop.hold('go', seconds=600)",
        "id": "held-1",
        "since": round((now_s - 90.5) * 1000),
        "queues": "a, b",
        "pool": "prefork",
        "started with": "2",
        "processes": "3: 5480, 5487, 7410",
        "prefetch": "8",
        "ran": "1 shop.hold",
        "pid": "4973",
        "up": 81_000,
        "most memory": "70 MB",
        "registered": "shop.add [rate_limit=10/m], shop.hold",
    }
    assert {each["destination"][0] for each in fake.commands} == {"w1@shop"}  # type: ignore[index]
    partly = shell(url, "workers", "celery:mail", "--inspect", "w2@shop")
    assert partly.code == 1 and "no tasks" in partly.out
    assert "to active_queues, registered: unknown" in partly.err and "within 2." in partly.err
    refused = shell(url, "--read-only", "workers", "celery:mail", "--inspect", "w1@shop")
    assert refused.code == 1 and "read-only" in refused.err and len(fake.commands) == 8
    client.rpush("rq:queue:other", "x")
    client.sadd("rq:queues", "rq:queue:other")
    unable = shell(url, "workers", "rq:other", "--inspect", "w1@shop")
    assert unable.code == 2 and "those of celery do" in unable.err


def _beat(system: Celery, event_type: str, *workers: str) -> None:
    """Let workers publish that they are there, that they start, or that they end."""
    for worker in workers:
        message = {"type": event_type, "hostname": worker, "freq": 2.0, "active": 0, "processed": 0}
        system.record_event(b"/0.celeryev/worker.heartbeat", json.dumps({"body": message}).encode(), system.now_ms())


def test_a_worker_that_named_its_queues_is_listed_in_these_alone(client: Redis, workers: StartWorkers) -> None:
    workers({"w1@shop": build_replies(float(client.time()[0])), "w2@shop": {}})
    for queue in ("a", "mail"):
        client.sadd(f"_kombu.binding.{queue}", f"{queue}{SEP}{SEP}{queue}")
        client.lpush(queue, message("x"))
    engine = build_engine(client, [registry.create_system("celery")])
    system = engine.systems["celery"]
    assert isinstance(system, Celery)
    system.event_coverage = EventCoverage(system.now_ms() - 60_000)

    def list_consumers(queue: str) -> dict[str, str]:
        workers = engine.fetch_workers(Ref("celery", queue))
        facts = {worker.name: {fact.name: str(fact.value) for fact in worker.facts} for worker in workers}
        return {name: each["consumes"] for name, each in facts.items()}

    def count_workers() -> dict[str, int | None]:
        return {queue.name: queue.workers for queue in engine.take_snapshot().queues}

    _beat(system, "worker-heartbeat", "w1@shop", "w2@shop")
    assert list_consumers("mail") == list_consumers("a") == {"w1@shop": "not known", "w2@shop": "not known"}
    assert count_workers() == {"a": 2, "mail": 2}
    *_before, inspection = engine.inspect_worker(Ref("celery", "mail"), "w1@shop")
    assert not inspection.missing
    assert list_consumers("a") == {"w1@shop": "a, b", "w2@shop": "not known"}
    assert list_consumers("mail") == {"w2@shop": "not known"}
    assert count_workers() == {"a": 2, "mail": 1}
    _beat(system, "worker-online", "w1@shop")  # another process, which may consume from other queues
    assert list_consumers("mail") == {"w1@shop": "not known", "w2@shop": "not known"}


def test_a_reply_that_is_none_is_left_out() -> None:
    bodies = (b"", b"[]", b"no json", b'{"body": 1}', b'{"body": "e30=", "properties": {"body_encoding": "base64"}}')
    assert [reply for raw in bodies for reply in remote_control.parse_reply(raw)] == []


def test_a_command_without_a_listener_is_reported_at_once_and_leaves_no_list(client: Redis, url: str) -> None:
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    client.lpush("mail", message("x"))
    for verb, *more in (
        ("grow", "w1@shop", "--set", "number=1"),
        ("rate_limit", "--set", "task=tasks.add", "--set", "rate=5/m"),
        ("time_limit", "--set", "task=tasks.add", "--set", "soft=30s"),
    ):
        ran = shell(url, "act", verb, "celery:mail", *more, "--yes", "--json")
        assert ran.code == 1 and '"unheard"' in ran.out, (verb, ran)
    assert list_reply_lists(client) == {}


def test_the_limits_of_a_task_are_set_in_all_workers_and_each_refusal_is_named(
    client: Redis, workers: StartWorkers, url: str
) -> None:
    ok, bad = {"ok": "new rate limit set successfully"}, {"error": "unknown task"}
    times = {"ok": "time limits set successfully"}
    fake = workers(
        {
            "w1@shop": {"rate_limit": ok, "time_limit": times},
            "w2@shop": {"rate_limit": ok, "time_limit": times},
            "w3@mail": {"rate_limit": bad, "time_limit": times},
        }
    )
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    client.lpush("mail", message("x"))
    ran = shell(
        url, "act", "rate_limit", "celery:mail", "--set", "task=tasks.add", "--set", "rate=10/m", "--yes", "--json"
    )
    [result] = json.loads(ran.out)["results"]
    assert (ran.code, result["word"]) == (0, "asked")
    assert result["text"] == "2 workers replied: new rate limit set successfully; w3@mail refused: unknown task"
    ran = shell(
        url, "act", "time_limit", "celery:mail", "--set", "task=tasks.add", "--set", "soft=1.5s", "--yes", "--json"
    )
    assert ran.code == 0 and "3 workers replied" in ran.out
    assert [(each["method"], each["arguments"], each["destination"]) for each in fake.commands] == [
        ("rate_limit", {"task_name": "tasks.add", "rate_limit": "10/m"}, None),
        ("time_limit", {"task_name": "tasks.add", "soft": 1.5, "hard": None}, None),
    ]
    asked = shell(url, "act", "rate_limit", "celery:mail", "--set", "task=tasks.add", "--set", "rate=0")
    assert asked.code == 1 and "--yes does it without asking" in asked.err and "No undo: set the limit" in asked.err
    for rate in ("fast", "10/d", ""):
        wrong = shell(
            url, "act", "rate_limit", "celery:mail", "--set", "task=tasks.add", "--set", f"rate={rate}", "--yes"
        )
        assert wrong.code == 1 and "nothing was changed" in wrong.out + wrong.err, rate
    read_only = shell(url, "--read-only", "act", "grow", "celery:mail", "w1@shop", "--set", "number=1", "--yes")
    assert read_only.code == 1 and "read-only" in read_only.err
    assert len(fake.commands) == 2


def test_the_client_that_paused_a_queue_stores_that_until_a_worker_starts(client: Redis, listener: PubSub) -> None:
    engine = open_engine(client)
    plant_all(client)
    system = engine.systems["celery"]
    assert isinstance(system, Celery)
    listener.psubscribe("*.celery.pidbox")
    listener.get_message(timeout=5)

    def is_paused() -> bool:
        [queue] = engine.send_requests([system.queue_request("mail")])
        return queue.is_paused

    assert not is_paused() and [one.word for one in engine.apply_verb("pause", MAIL, (), {})] == ["paused"]
    assert is_paused() and not engine.send_requests([system.queue_request("other")])[0].is_paused
    assert [one.word for one in engine.apply_verb("resume", MAIL, (), {})] == ["resumed"] and not is_paused()
    assert [one.word for one in engine.apply_verb("pause", MAIL, (), {})] == ["paused"] and is_paused()
    event = {"type": "worker-online", "hostname": "w2@host", "pid": 1, "timestamp": client.time()[0]}
    message = json.dumps(
        {
            "body": base64.b64encode(json.dumps(event).encode()).decode(),
            "properties": {"body_encoding": "base64"},
            "headers": {},
            "content-type": "application/json",
        }
    )
    system.record_event(f"/{system.database}.celeryev/worker.online".encode(), message.encode(), system.now_ms() + 1000)
    assert not is_paused()


def test_a_task_is_cancelled_by_the_id_that_its_worker_knows(client: Redis, listener: PubSub) -> None:
    engine = open_engine(client)
    listener.psubscribe("*.celery.pidbox")
    listener.get_message(timeout=5)
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    client.lpush("mail", message("mail.1.x"), message("mail.1.x", n=2))  # two of one id: one is called mail.1.x.2
    assert [one.id for one in list_jobs(engine, "queue")] == [b"mail.1.x", b"mail.1.x.2"]
    assert act(engine, "cancel", "queue") == ["asked"] * 2
    [actual] = commands(listener)
    assert actual["arguments"] == {"task_id": ["mail.1.x"] * 2, "terminate": False, "signal": "SIGTERM"}


def test_a_message_without_an_id_is_not_cancelled_and_no_worker_gets_a_command(client: Redis, listener: PubSub) -> None:
    engine = open_engine(client)
    listener.psubscribe("*.celery.pidbox")
    listener.get_message(timeout=5)
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    nameless = (
        message("x").replace(b'"id": "x"', b'"id": null').replace(b'"correlation_id":"x"', b'"correlation_id":null')
    )
    client.lpush("mail", nameless, message("named"))
    [other] = [job for job in list_jobs(engine, "queue") if job.id != b"named"]
    hold(client, nameless.replace(b"tag-x", b"tag-held"), float(client.time()[0]) - 5)
    for job in (other, *list_jobs(engine, "unacked")):
        [outcome] = engine.apply_verb("cancel", MAIL, [job])
        assert outcome.word == "refused" and "no id" in outcome.text
    assert act(engine, "cancel", "queue", "named") == ["asked"]
    assert [sentence["arguments"]["task_id"] for sentence in commands(listener)] == [["named"]]


def test_a_task_that_no_key_holds_is_cancelled_by_its_id_alone(client: Redis, listener: PubSub, url: str) -> None:
    """A worker acks a message before the run unless `acks_late` is set: Redis then does not contain the task."""
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    client.lpush("mail", message("x"))
    cancel = ("act", "cancel", "celery:mail", "runs", "--set", "signal=KILL")
    ran = shell(url, *cancel, "--yes", "--json")
    assert ran.code == 1 and '"unheard"' in ran.out
    listener.psubscribe("*.celery.pidbox")
    listener.get_message(timeout=5)
    ran = shell(url, *cancel, "--yes", "--json")
    assert ran.code == 0 and '"asked"' in ran.out
    [actual] = commands(listener)
    assert actual["arguments"] == {"task_id": ["runs"], "terminate": True, "signal": "SIGKILL"}


def test_a_task_that_only_events_reported_is_cancelled_by_its_id(client: Redis, listener: PubSub) -> None:
    engine = open_engine(client)
    listener.psubscribe("*.celery.pidbox")
    listener.get_message(timeout=5)
    job = Job(b"mine", "mail", "celery", "running", State.RESERVED, b"", name="tasks.add")
    assert [one.word for one in engine.apply_verb("cancel", MAIL, [job], {})] == ["asked"]
    [message] = commands(listener)
    assert message["arguments"] == {"task_id": ["mine"], "terminate": True, "signal": "SIGTERM"}
    system = engine.systems["celery"]
    places = [place.name for place in system.places]
    assert [place for place in places if system.can("cancel", place)] == ["eta", "queue", "unacked", "late", "running"]
    assert [place for place in places if system.can("release", place)] == ["unacked", "late"]
    assert [place for place in places if system.can("delete", place)] == ["queue", "late"]


# --- what failed -----------------------------------------------------------------------------------------------------


def fail(client: Redis, system: Celery, id: str, at_ms: int = 1_800_000_000_000, **extended: object) -> None:
    """Store and publish a failed task's result as a worker does, and poll again."""
    error = {"exc_type": "ValueError", "exc_message": ["boom"], "exc_module": "builtins"}
    message = {"status": "FAILURE", "result": error, "traceback": "ValueError: boom", "children": [], "date_done": None}
    client.set(f"celery-task-meta-{id}", json.dumps({**message, **extended}), ex=86_400)
    system.record_event(f"celery-task-meta-{id}".encode(), json.dumps({**message, **extended}).encode(), at_ms)
    Engine(client, [system]).send_requests(system.event_requests())


def publish_event(system: Celery, **event: object) -> None:
    """Publish an event as a worker with `-E` does."""
    body = base64.b64encode(json.dumps({"hostname": "w1@host", "retries": 0, **event}).encode()).decode()
    envelope = {"body": body, "content-type": "application/json", "headers": {}}
    message = {**envelope, "properties": {"body_encoding": "base64", "delivery_tag": "t"}}
    system.record_event(b"/0.celeryev/task.multi", json.dumps(message).encode(), 1_800_000_000_000)


def failures(engine: Engine) -> dict[str, Job]:
    return {to_text(one.id): one for one in engine.fetch_page(MAIL, "failed", 0, 100, 0).jobs}


def requeue_jobs(engine: Engine, *ids: str) -> list[Outcome]:
    failed_jobs = failures(engine)
    return engine.apply_verb("requeue", MAIL, [failed_jobs[id] for id in ids], {})


def hearing_engine(client: Redis) -> tuple[Engine, Celery]:
    """Create an engine that listens to a Redis with the queues mail and other."""
    for queue in ("mail", "other"):
        client.sadd(f"_kombu.binding.{queue}", f"{queue}{SEP}{SEP}{queue}")
    engine = open_engine(client)
    system = engine.systems["celery"]
    assert isinstance(system, Celery) and list(engine.discover())
    system.event_coverage = EventCoverage(1)
    return engine, system


@pytest.mark.parametrize("place", ["queue", "unacked"])
def test_a_failed_task_is_enqueued_again_from_its_message_with_the_least_changes(any_client: Redis, place: str) -> None:
    engine, system = hearing_engine(any_client)
    own = message("bad", priority=4, eta="2026-11-22T21:44:12+00:00", expires="2026-11-22T22:00:00+00:00", retries=3)
    own = build_redelivered_message(own)
    if place == "queue":
        any_client.lpush(LISTS[1], own)
    else:
        hold(any_client, own, float(any_client.time()[0]))
    assert [to_text(one.id) for one in engine.fetch_page(MAIL, place, 0, 100, 0).jobs] == ["bad"]
    any_client.delete(LISTS[1], "unacked", "unacked_index")  # a worker took it, ran it, and acked it
    fail(any_client, system, "bad")
    before = system.event_cache.count("mail", "failed").of_queue
    assert before == 1 and system.can("requeue", "failed") and not system.can("requeue", "revoked")
    assert [one.word for one in requeue_jobs(engine, "bad")] == ["moved"]
    [put] = any_client.lrange(LISTS[1], 0, -1)
    tag = json.loads(put)["properties"]["delivery_tag"]
    plain = message("bad", priority=4, eta=None, expires=None, retries=0)
    assert put == plain.replace(b'"tag-bad"', json.dumps(tag).encode()) and tag != "tag-bad"
    assert not failures(engine) and system.event_cache.count("mail", "failed").of_queue == 0
    fail(any_client, system, "bad", 1_800_000_009_000)
    assert len(failures(engine)["bad"].history) == 1 and failures(engine)["bad"].history[0].error


def test_a_failed_task_is_enqueued_again_from_an_extended_result_digit_by_digit(client: Redis) -> None:
    engine, system = hearing_engine(client)
    message = {"name": "tasks.add", "args": [[], 12345678901234567890], "kwargs": {"a": {}}, "queue": "mail"}
    fail(client, system, "bad", **message)
    assert [one.word for one in requeue_jobs(engine, "bad")] == ["moved"]
    [put] = map(json.loads, client.lrange("mail", 0, -1))
    args, kwargs, _embed = json.loads(base64.b64decode(put["body"]))
    assert (args, kwargs) == (message["args"], message["kwargs"])
    assert (put["headers"]["task"], put["headers"]["id"], put["headers"]["retries"]) == ("tasks.add", "bad", 0)
    assert put["properties"]["delivery_info"] == {"exchange": "", "routing_key": "mail"}


def test_a_failed_task_is_enqueued_again_from_its_event_if_that_is_complete(client: Redis) -> None:
    engine, system = hearing_engine(client)
    wrong = {
        "cut": ("('aaa...',)", "{}"),
        "ended": ("(1, ...)", "{}"),
        "hidden": ("(1,)", "{'card': '**** 5678'}"),
        "secret": ("('<secret>',)", "{}"),
        "object": ("(Order(1),)", "{}"),
        "spaced": ("(1,  2)", "{}"),
        "nested": ("((1, 2),)", "{}"),
        "numbered": ("(1,)", "{1: 2}"),
        "endless": ("(1e999,)", "{}"),
        "untold": ("", ""),
    }
    right = {"none": ("()", "{}"), "list": ("[1]", "{}"), "all": ("('é', 1.5, None)", "{'a': [True, {'b': {}}]}")}
    for id, (args, kwargs) in {**wrong, **right}.items():
        publish_event(system, type="task-received", uuid=id, name="tasks.add", args=args, kwargs=kwargs)
        publish_event(system, type="task-sent", uuid=id, queue="mail")
        fail(client, system, id)
    for outcome in requeue_jobs(engine, *wrong):
        assert outcome.word == "refused" and "arguments are unknown" in outcome.text, outcome
    assert not client.exists("mail") and set(failures(engine)) == {*wrong, *right}
    assert [one.word for one in requeue_jobs(engine, *right)] == ["moved"] * 3
    put = [json.loads(base64.b64decode(json.loads(one)["body"]))[:2] for one in client.lrange("mail", 0, -1)[::-1]]
    assert put == [[[], {}], [[1], {}], [["é", 1.5, None], {"a": [True, {"b": {}}]}]]
    assert set(failures(engine)) == {*wrong}


def test_a_failure_without_a_known_queue_or_that_already_waits_is_not_enqueued(client: Redis) -> None:
    engine, system = hearing_engine(client)
    publish_event(system, type="task-received", uuid="whose", name="tasks.x", args="()", kwargs="{}")
    fail(client, system, "whose")
    assert not list_jobs(engine, "queue")  # mail is the first by name, and speaks for all
    [outcome] = requeue_jobs(engine, "whose")
    assert outcome.word == "refused" and "its queue is unknown" in outcome.text
    fail(client, system, "bad", name="tasks.add", args=[1], kwargs={}, queue="mail")
    failed_jobs = failures(engine)["bad"]
    client.lpush("mail", message("bad"))  # another screen was there before
    assert [one.word for one in engine.apply_verb("requeue", MAIL, [failed_jobs], {})] == ["exists"]
    client.delete("mail")
    assert [one.word for one in engine.apply_verb("requeue", MAIL, [failed_jobs], {})] == ["moved"]
    hold(client, client.rpop("mail"), float(client.time()[0]))
    assert [one.word for one in engine.apply_verb("requeue", MAIL, [failed_jobs], {})] == [
        "exists"
    ]  # a worker has that very one
    [outcome] = engine.apply_verb("requeue", MAIL, [replace(failed_jobs, place="queue")], {})
    assert outcome.word == "refused" and "only failed tasks are requeued" in outcome.text
    assert not client.exists("mail")


@pytest.mark.slow
def test_the_data_for_enqueueing_failures_again_is_bounded_and_dropped_after_success(client: Redis) -> None:
    _engine, system = hearing_engine(client)
    for n in range(MAX_CALLS + 5):
        publish_event(system, type="task-sent", uuid=f"f{n}", queue="mail")
        message = {"status": "FAILURE", "name": "tasks.add", "args": [n], "kwargs": {}, "queue": "mail"}
        system.record_event(b"celery-task-meta-f%d" % n, json.dumps(message).encode(), 1_800_000_000_000)
    assert len(system._runs.task_bodies) == MAX_CALLS and b"f4" not in system._runs.task_bodies
    fail(client, system, "long", name="tasks.add", args=["x" * 4096], kwargs={}, queue="mail")
    assert b"long" not in system._runs.task_bodies
    system.record_event(b"celery-task-meta-f5", b'{"status": "SUCCESS", "result": 1}', 1_800_000_000_000)
    assert b"f5" not in system._runs.task_bodies


def test_an_extended_result_that_is_kept_is_enough_for_a_command(client: Redis, url: str) -> None:
    hearing_engine(client)
    message = {"status": "FAILURE", "name": "tasks.add", "args": [1, 2], "kwargs": {}, "queue": "mail", "result": {}}
    client.set("celery-task-meta-bad", json.dumps(message))
    ran = shell(url, "act", "requeue", "celery:mail", "bad", "--yes")
    assert ran.code == 0 and list_ids(client, "mail") == ["bad"], (ran.out, ran.err)
    ran = shell(url, "act", "requeue", "celery:mail", "bad", "--yes")
    assert ran.code == 1 and client.llen("mail") == 1, (ran.out, ran.err)
    client.set("celery-task-meta-mute", json.dumps({"status": "FAILURE", "result": {}}))
    ran = shell(url, "act", "requeue", "celery:mail", "mute", "--yes")
    assert ran.code == 1 and "arguments are unknown" in ran.out + ran.err


def test_a_task_of_another_database_is_never_put_into_a_queue_of_this_one(client: Redis, url: str) -> None:
    """Staging has its broker in database 1 and production in 2, where staging keeps its results, too."""
    staging, production = (Redis.from_url(url, db=number) for number in (1, 2))
    staging.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    engine, system = hearing_engine(production)
    extended = {"name": "tasks.add", "args": [1], "kwargs": {}, "queue": "mail"}
    system.record_event(b"celery-task-meta-kept-there", json.dumps({**extended, "status": "FAILURE"}).encode(), 1)
    Engine(production, [system]).send_requests(system.event_requests())
    assert "kept-there" not in failures(engine)
    fail(production, system, "kept-here", **extended)
    [outcome] = requeue_jobs(engine, "kept-here")
    assert outcome.word == "elsewhere" and "another database" in outcome.text, outcome
    ran = shell(f"{url}/2", "act", "requeue", "celery:mail", "kept-here", "--yes")
    assert ran.code == 1 and "another database" in ran.out + ran.err, (ran.out, ran.err)
    assert not staging.exists("mail") and not production.exists("mail")
    body = {"type": "task-sent", "uuid": "kept-here", "queue": "mail", "hostname": "w1@host"}
    for database in (1, 2):  # the channel of an event has the database of the broker
        message = json.dumps({"body": body, "content-type": "application/json", "headers": {}, "properties": {}})
        system.record_event(b"/%d.celeryev/task.multi" % database, message.encode(), 1_800_000_000_000)
        assert [one.word for one in requeue_jobs(engine, "kept-here")] == ["elsewhere" if database == 1 else "moved"]
    assert list_ids(production, "mail") == ["kept-here"] and not staging.exists("mail")


def test_an_order_without_a_receiver_is_reported(client: Redis, url: str) -> None:
    plant_all(client)
    engine = open_engine(client)
    before = keyspace.dump(client)
    assert set(act(engine, "cancel", "queue")) == {"unheard"}
    for verb in ("pause", "resume"):
        ran = shell(url, "act", verb, "celery:mail", "--yes")
        assert ran.code == 1 and "no worker listens" in ran.out
    assert not keyspace.diff(before, keyspace.dump(client))


# --- what must never be done ---------------------------------------------------------------------------------------


def test_a_held_message_is_redelivered_later_and_not_before_its_eta(client: Redis, url: str) -> None:
    now_s = plant_all(client)
    engine = open_engine(client)
    eta_ms = list_jobs(engine, "eta", "etamail")[0].due_ms
    assert eta_ms is not None
    before = keyspace.dump(client)
    assert act(engine, "extend", "eta", "etamail") == ["extended"]
    assert client.zscore("unacked_index", "tag-etamail") == eta_ms / 1000, "as if it were taken when it is due"
    assert act(engine, "extend", "late", "late0mail", ttr_ms=60_000) == ["extended"]
    assert abs(client.zscore("unacked_index", "tag-late0mail") + 3600 - (now_s + 60)) < 20
    assert [job.id for job in list_jobs(engine, "late")] == [b"late1mail"]
    assert act(engine, "extend", "unacked", "heldmail") == ["extended"]
    assert abs(client.zscore("unacked_index", "tag-heldmail") - now_s) < 20
    assert all("unacked_index" in line for line in keyspace.diff(before, keyspace.dump(client)))
    [job] = list_jobs(engine, "unacked", "heldmail")
    client.hdel("unacked", "tag-heldmail")
    before = keyspace.dump(client)
    assert [outcome.word for outcome in engine.apply_verb("extend", MAIL, [job], {})] == ["gone"]
    assert not keyspace.diff(before, keyspace.dump(client))
    ran = shell(url, "act", "extend", "celery:mail", "etamail", "--yes")
    assert ran.code == 0, ran.err


def test_a_harmful_change_is_refused_in_a_sentence(client: Redis, url: str) -> None:
    plant_all(client)
    before = keyspace.dump(client)
    whole = message("new").decode()
    for body, sentence in (
        ("[1]", "no JSON object"),
        ("{}", 'no "task"'),
        ('{"task": 5}', "the name of a task"),
        ('{"task": "t", "args": {}}', '"args" is a list'),
        ('{"task": "t", "kwargs": []}', '"kwargs" is an object'),
        ('{"task": "t", "args": [NaN]}', "no JSON number"),
        ('{"task": "t", "priority": 10}', "0 to 9"),
        ('{"task": "t", "queue": "mail"}', "no field 'queue'"),
        ('{"task": "t", "id": "a b"}', "letters, digits"),
        ('{"task": "t", "eta": "soon"}', "a time"),
        ('{"task": "t", "countdown": 7200}', "would run twice"),
        ('{"task": "t", "timelimit": [1]}', "two limits"),
        ('{"task": "t", "expires": "soon"}', "seconds from now on"),
        ('{"task": "t", "expires": 999999999999}', "fewer than ten thousand million"),
        ('{"headers": {"task": "t", "id": "x"}, "body": "W10="}', "no whole message"),
        (whole.replace('"properties"', '"others"'), "no whole message"),
        (whole.replace('"delivery_info"', '"others"'), "no whole message"),
        (whole.replace('"task"', '"others"'), "no whole message"),
    ):
        ran = shell(url, "put", "celery:mail", body)
        assert ran.code != 0 and sentence in ran.err, (body, ran.err)
    for verb, sentence in (
        ("kill", "no place for dead tasks"),
        ("promote", "enqueue it again"),
        ("ack", "only the worker"),
        ("quiet", "pause the queues of the worker"),
    ):
        ran = shell(url, "act", verb, "celery:mail", "q00mail")
        assert ran.code != 0 and sentence in ran.err, (verb, ran.err)
    ran = shell(url, "act", "release", "celery:mail", "heldmail", "--yes")
    assert ran.code == 1 and "the task would run twice" in ran.out
    ran = shell(url, "act", "delete", "celery:mail", "heldmail", "--yes")
    assert ran.code == 1 and "a worker holds the message" in ran.out
    assert not keyspace.diff(before, keyspace.dump(client))
    assert "--force" in shell(url, "act", "--help").out
    assert shell(url, "act", "release", "celery:mail", "heldmail", "--force", "--yes").code == 0


def test_the_script_itself_takes_no_message_that_a_worker_would_die_of(client: Redis) -> None:
    system = registry.create_system("celery")
    for body in (b"", b"no json", b"[]", b"{}", b'{"headers": {"task": "t", "id": "x"}, "body": ""}', message("other")):
        call = system.build_call("enqueue", "mail", {}, [{"id": "mine", "body": body}])
        with pytest.raises(Refused, match="nothing was changed"):
            scripts.run_call(client, call)
    assert not client.keys()


# --- new tasks -------------------------------------------------------------------------------------------------------


def test_a_task_is_put_as_a_person_writes_it(client: Redis, url: str) -> None:
    body = '{"task": "tasks.add", "args": [1e400, 0.10, {"z": 1,"a":[]}], "kwargs": {"é": "\\u00e9"}}'
    assert shell(url, "put", "celery:mail", body).code == 0
    [result] = client.lrange("mail", 0, -1)
    document = json.loads(result)
    call = b'[[1e400, 0.10, {"z": 1,"a":[]}], {"\xc3\xa9": "\\u00e9"}, {"callbacks": null, '
    assert base64.b64decode(document["body"]).startswith(call)
    headers, properties = document["headers"], document["properties"]
    assert UUID(headers["id"]) and headers["root_id"] == properties["correlation_id"] == headers["id"]
    assert UUID(properties["delivery_tag"]) and properties["delivery_info"] == {"exchange": "", "routing_key": "mail"}
    assert headers["eta"] is None and headers["argsrepr"].startswith("(inf, 0.1, ") and properties["priority"] == 0
    assert client.smembers("_kombu.binding.mail") == {f"mail{SEP}{SEP}mail".encode()}
    assert client.smembers("_kombu.binding_permanent.mail") == client.smembers("_kombu.binding.mail")
    assert shell(url, "put", "celery:mail", '{"task":"t", "id": "mine"}', "--delay", "10m").code == 0
    for more in (("--priority", "7"), ("--priority", "0")):
        assert shell(url, "put", "celery:mail", '{"task":"t"}', *more).code == 0
    mine = json.loads(client.lindex("mail", 1))["headers"]
    due_ms = convert_time_ms(mine["eta"])
    assert mine["id"] == "mine" and due_ms is not None and abs(due_ms - client.time()[0] * 1000 - 600_000) < 60_000
    assert client.llen(LISTS[2]) == 1 and client.llen("mail") == 3
    timed = '{"task": "t", "countdown": 30, "expires": 60, "timelimit": [5, 3], "priority": 9, "id": "x"}'
    assert shell(url, "put", "celery:mail", timed).code == 0
    headers = json.loads(client.lindex(LISTS[3], 0))["headers"]
    eta_ms, expires_ms = convert_time_ms(headers["eta"]), convert_time_ms(headers["expires"])
    assert eta_ms and expires_ms and abs(expires_ms - eta_ms - 30_000) < 1000 and headers["timelimit"] == [5, 3]


def test_the_binding_of_a_queue_that_is_there_is_left_alone(client: Redis, url: str) -> None:
    client.lpush("mail", message("there"))
    assert shell(url, "--system", "celery", "put", "celery:mail", '{"task":"t"}').code == 0
    assert client.llen("mail") == 2 and not client.exists("_kombu.binding.mail")


def test_a_whole_message_is_put_under_another_tag(client: Redis, url: str) -> None:
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    client.lpush(LISTS[2], message("first", priority=6, redelivered=True))
    assert shell(url, "act", "duplicate", "celery:mail", "first").code == 0
    [again, first] = client.lrange(LISTS[2], 0, -1)
    document = json.loads(again)
    id, tag = document["headers"]["id"], document["properties"]["delivery_tag"]
    assert first == message("first", priority=6, redelivered=True) and id != "first" and tag != "tag-first"
    assert document["properties"]["correlation_id"] == id and "redelivered" not in document["headers"]
    assert again.startswith(first[: first.index(b'"headers"')]) and b'"z": 1234567890123456789' in again
    edited = message("second").decode().replace('"n": 1.50', '"n": 2.50')
    assert shell(url, "put", "celery:mail", edited, "--priority", "0").code == 0
    document = json.loads(client.lindex("mail", 0))
    assert UUID(document["headers"]["id"]) and document["headers"]["n"] == 2.5


def test_the_arguments_of_a_message_are_edited_as_json(client: Redis, url: str) -> None:
    engine = open_engine(client)
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    own = message("first", argsrepr="old")
    client.lpush("mail", own)
    system = engine.systems["celery"]
    job = engine.fetch_job(MAIL, b"first", -1)
    assert job is not None
    text = system.format_editable_body(job)
    assert text == own.replace(b'"%s"' % base64.b64encode(CALL), CALL)
    same = bytes(system.build_new_job("mail", {"body": text, "id": "x"})["body"])  # type: ignore[call-overload]
    assert json.loads(same)["body"] == json.loads(own)["body"]
    edited = text.replace(b"1.50, 12345678901234567890", b"2.50")
    assert (
        shell(url, "act", "edit-and-retry", "celery:mail", "first", "--set", f"body={edited.decode()}", "--yes").code
        == 0
    )
    [result] = client.lrange("mail", 0, -1)
    document = json.loads(result)
    assert base64.b64decode(document["body"]) == CALL.replace(b"1.50, 12345678901234567890", b"2.50")
    assert document["headers"]["argsrepr"] == "(2.5, {'b': [], 'a': {}})" and document["headers"]["id"] != "first"
    for wrong in (own.replace(b"application/json", b"application/x-python-serialize"), b"[]"):
        assert system.format_editable_body(replace(job, body=wrong)) == wrong
    ran = shell(url, "put", "celery:mail", text.replace(CALL, b"[1]").decode())
    assert ran.code != 0 and "no whole message" in ran.err


# --- undo ------------------------------------------------------------------------------------------------------------

CHANGES: tuple[tuple[str, str, tuple[str, ...], dict[str, object]], ...] = (
    ("delete", "queue", (), {}),
    ("delete", "queue", ("q00mail", "q62mail", "q31mail"), {}),
    ("delete", "late", (), {}),
    ("bump", "queue", ("q91mail", "q01mail", "q60mail"), {}),
    ("bump", "queue", ("q02mail", "q00mail"), {}),
    ("bump", "queue", (), {}),
    ("reprioritise", "queue", ("q00mail", "q61mail", "q30mail", "q92mail"), {"priority": 9}),
    ("reprioritise", "queue", (), {"priority": 4}),
    ("reprioritise", "queue", ("q00mail", "q01mail"), {"priority": 1}),
    ("reschedule", "queue", (), {"delay_ms": 60_000}),
)


def undone(engine: Engine, keeper: UndoRecorder, folder: Path, verb: str) -> list[str]:
    name = keeper.end_change(verb, "celery", "mail")
    assert name, verb
    return [one.word for step in revert_record(engine, folder / "undo", name) for one in step]


def test_a_verb_is_undone_byte_for_byte(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    before = keyspace.dump(client)
    for verb, place, ids, form in CHANGES:
        changed = act(engine, verb, place, *ids, **form)
        assert changed and set(changed) == {"moved"}, (verb, ids)
        after = keyspace.dump(client)
        assert keyspace.diff(before, after) and after.get(b"other") == before.get(b"other"), (verb, ids)
        assert undone(engine, keeper, tmp_path, verb) == ["moved"] * len(changed), (verb, ids)
        assert not (found := keyspace.diff(before, keyspace.dump(client))), (verb, ids, found)
        assert describe_undo(engine.systems["celery"], verb, place=place) == "z undoes it"
    assert sum(one.moved for one in engine.apply_verb("purge", MAIL, (), {"place": "queue", "limit": 1000})) == 12
    assert set(undone(engine, keeper, tmp_path, "purge")) == {"moved"}
    assert not (found := keyspace.diff(before, keyspace.dump(client))), found
    assert sum(one.moved for one in engine.apply_verb("purge", MAIL, (), {"place": "late", "limit": 1000})) == 2
    assert client.hlen("unacked") == 6
    assert set(undone(engine, keeper, tmp_path, "purge")) == {"moved"}
    for place in ("eta", "unacked"):
        assert [one.word for one in engine.apply_verb("purge", MAIL, (), {"place": place, "limit": 1000})] == ["kept"]
    assert not (found := keyspace.diff(before, keyspace.dump(client))), found
    for verb in ("release", "cancel", "reap"):
        assert "no undo" in describe_undo(engine.systems["celery"], verb)


@pytest.mark.slow
def test_any_change_of_any_messages_is_undone(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    before = keyspace.dump(client)
    for seed in range(60):
        chance = random.Random(seed)
        verb, form = chance.choice(
            [
                ("bump", {}),
                ("delete", {}),
                ("reprioritise", {"priority": chance.randrange(10)}),
                ("reschedule", {"delay_ms": 1000 * chance.randrange(1, 3000)}),
                ("reschedule", {"delay_ms": 1000, "priority": chance.randrange(10)}),
                ("move", {"to_queue": "other"}),
            ]
        )
        everything = [one.id.decode() for one in list_jobs(engine, "queue")]
        ids = chance.sample(everything, chance.randrange(1, len(everything) + 1))
        assert set(act(engine, verb, "queue", *ids, **form)) == {"moved"}, (seed, verb)
        assert set(undone(engine, keeper, tmp_path, verb)) == {"moved"}, (seed, verb)
        assert not (found := keyspace.diff(before, keyspace.dump(client))), (seed, verb, ids, form, found)


def test_a_job_that_moved_on_meanwhile_is_not_undone(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    assert act(engine, "reprioritise", "queue", "q00mail", "q01mail", priority=9) == ["moved"] * 2
    client.lrem(LISTS[3], 1, message("q00mail", priority=9))  # a worker took it
    assert sorted(undone(engine, keeper, tmp_path, "reprioritise")) == ["changed", "moved"]
    assert list_ids(client, "mail") == ["q02", "q01"] or list_ids(client, "mail") == ["q01", "q02"]
    assert list_ids(client, LISTS[3]) == ["q90", "q91", "q92"]


def test_only_the_bytes_that_were_seen_are_acted_on(any_client: Redis) -> None:
    engine = open_engine(any_client)
    plant_all(any_client)
    seen = {place: list_jobs(engine, place) for place in ("queue", "late", "unacked")}
    any_client.lset("mail", -1, message("q00mail", weight=2))
    any_client.hset("unacked", "tag-late0mail", b"[" + message("late0mail", weight=2) + b', "", "mail"]')
    any_client.zrem("unacked_index", "tag-late1mail")
    before = keyspace.dump(any_client)
    for verb, form in (("delete", {}), ("bump", {}), ("reprioritise", {"priority": 9}), ("reschedule", {})):
        assert [one.word for one in engine.apply_verb(verb, MAIL, seen["queue"][:1], form)] == ["gone"], verb
    for verb, form in (("delete", {}), ("release", {"force": True}), ("cancel", {})):
        assert [one.word for one in engine.apply_verb(verb, MAIL, seen["late"], form)] == ["gone"] * 2, verb
    assert not keyspace.diff(before, keyspace.dump(any_client))


@pytest.mark.parametrize("seen_in", [LISTS[0], LISTS[2]])
@pytest.mark.parametrize(
    ("verb", "form", "arrives_in"),
    [
        ("delete", {}, ()), ("bump", {}, ("mail",)), ("reprioritise", {"priority": 9}, (LISTS[3],)),
    ],
)  # fmt: skip
def test_of_equal_messages_in_two_lists_a_verb_takes_the_one_that_was_seen(
    client: Redis, verb: str, form: dict[str, object], arrives_in: tuple[str, ...], seen_in: str
) -> None:
    engine = open_engine(client)
    lists = [LISTS[0], LISTS[2]]
    for key in lists:
        client.lpush(key, message("same", priority=6))
    [outcome] = engine.apply_verb(verb, MAIL, [list_jobs(engine, "queue")[lists.index(seen_in)]], form)
    assert outcome.word == "moved"
    lists.remove(seen_in)
    assert {key: client.llen(key) for key in LISTS if client.exists(key)} == Counter([*lists, *arrives_in])


# --- another queue ---------------------------------------------------------------------------------------------------

OTHER_LISTS = tuple(f"other{key.removeprefix('mail')}" for key in LISTS)


def list_all_ids(client: Redis, lists: tuple[str, ...]) -> list[list[str]]:
    """Return the ids in the list of each priority, the next one first."""
    return [[json.loads(one)["headers"]["id"] for one in client.lrange(key, 0, -1)[::-1]] for key in lists]


def test_messages_move_to_another_queue_in_their_order_and_name_it(any_client: Redis) -> None:
    engine, client = open_engine(any_client), any_client
    plant_all(client)
    assert act(engine, "bump", "queue", "q91mail") == ["moved"]
    others = list_all_ids(client, OTHER_LISTS)
    ids = ("q62mail", "q02mail", "q30mail", "q00mail", "q91mail", "q60mail")
    outcomes = engine.apply_verb("move", MAIL, list_jobs(engine, "queue", *ids), {"to_queue": "celery:other"})
    assert [(one.word, one.values["place"]) for one in outcomes] == [("moved", "queue")] * 6
    arrived = [["q91mail", "q00mail", "q02mail"], ["q30mail"], ["q60mail", "q62mail"], []]
    assert list_all_ids(client, OTHER_LISTS) == [own + new for own, new in zip(others, arrived, strict=True)]
    assert list_all_ids(client, LISTS) == [["q01mail"], ["q31mail", "q32mail"], ["q61mail"], ["q90mail", "q92mail"]]
    assert client.lindex("other", 0) == message("q02mail", "other")
    assert client.lindex("other", 2) == message("q91mail", "other", priority=9), "bumped: the list of another priority"
    assert client.lindex(OTHER_LISTS[2], 0) == message("q62mail", "other", priority=6)
    assert client.smembers("_kombu.binding.other") == {f"other{SEP}{SEP}other".encode()}
    assert not client.exists("_kombu.binding_permanent.other") and client.hlen("unacked") == 8


def test_a_message_that_came_by_an_exchange_names_the_other_queue_alone(client: Redis) -> None:
    engine = open_engine(client)
    client.sadd("_kombu.binding.media", f"video{SEP}{SEP}mail")
    client.lpush("mail", message("v", "video", exchange="media", priority=2))
    redelivered = message("r").replace(b'"},"priority"', b'", "redelivered": true},"priority"')
    client.lpush("mail", redelivered)
    assert act(engine, "move", "queue", to_queue="sound") == ["moved"] * 2
    assert client.lrange("sound", 0, -1) == [redelivered.replace(b'"mail"', b'"sound"'), message("v", "sound", 2)]
    for name in ("binding", "binding_permanent"):
        assert client.smembers(f"_kombu.{name}.sound") == {f"sound{SEP}{SEP}sound".encode()}
    assert client.smembers("_kombu.binding.media") == {f"video{SEP}{SEP}mail".encode()} and not client.exists("mail")
    assert engine.systems["celery"].has_queue(client, "sound")


def test_a_moved_message_is_in_the_lists_of_its_prefix(client: Redis) -> None:
    engine = open_engine(client, "celery:prefix=shop:")
    client.sadd("shop:_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    client.lpush(f"shop:mail{SEP}3", message("a", priority=3))
    assert act(engine, "move", "queue", to_queue="other") == ["moved"]
    assert client.lrange(f"shop:other{SEP}3", 0, -1) == [message("a", "other", priority=3)]
    assert client.smembers("shop:_kombu.binding.other") == {f"other{SEP}{SEP}other".encode()}


def test_only_a_message_of_celery_that_waits_is_moved_and_a_long_one_is_fetched_whole(client: Redis) -> None:
    engine = open_engine(client)
    now_s = plant_all(client)
    client.delete(*LISTS)
    strange = [b"\xff no json", b"[]", b'{"body": "", "headers": {}, "properties": {"delivery_info": 1}}']
    strange += [message("m").replace(b'"delivery_info"', b'"lost"')]
    client.rpush("mail", *strange)
    assert act(engine, "move", "queue", to_queue="new") == ["raw"] * 4
    for place in ("eta", "unacked", "late"):
        assert set(act(engine, "move", place, to_queue="new")) == {"gone"}
        assert not engine.systems["celery"].can("move", place)
    assert client.lrange("mail", 0, -1) == strange and not client.keys("*new*")
    first_protocol = {"body": "e30=", "content-type": "application/json", "headers": {}, "properties": {"z": 1}}
    first_protocol["properties"] = {"delivery_tag": "t", "delivery_info": {"exchange": "", "routing_key": "mail"}}
    eta = message("soon", eta=format_time(round(now_s * 1000) + 60_000))
    client.delete("mail")
    client.lpush("mail", long_message("long", 2_000_000), json.dumps(first_protocol), eta)
    assert act(engine, "move", "queue", to_queue="new") == ["moved"] * 3
    whole = long_message("long", 2_000_000).replace(b'"routing_key": "mail"', b'"routing_key": "new"')
    old = json.dumps(first_protocol).replace('"mail"', '"new"').encode()
    assert client.lrange("new", 0, -1) == [eta.replace(b'"routing_key": "mail"', b'"routing_key": "new"'), old, whole]


def test_a_move_that_cannot_be_made_changes_nothing(client: Redis) -> None:
    engine = open_engine(client)
    plant_all(client)
    jobs = list_jobs(engine, "queue")
    before = keyspace.dump(client)
    for to_queue in ("mail", "celery:mail", ""):
        with pytest.raises(UsageError, match="the jobs are in mail already" if to_queue else "name of another queue"):
            engine.apply_verb("move", MAIL, jobs, {"to_queue": to_queue})
    for to_queue, text in (
        (f"mail{SEP}3", "to_queue is the name of another queue"),
        ("unacked", "unacked holds a hash, not a list"),
        ("_kombu.binding.mail", "_kombu.binding.mail holds a set, not a list"),
    ):
        outcomes = engine.apply_verb("move", MAIL, jobs, {"to_queue": to_queue})
        assert {one.word for one in outcomes} == {"error"} and text in outcomes[0].text, outcomes[0]
    [outcome] = engine.apply_verb("move", MAIL, jobs[:1], {"to_queue": to_text(b"\xff")})
    assert outcome.word == "refused" and "not UTF-8" in outcome.text
    assert not keyspace.diff(before, keyspace.dump(client))
    for key in ("new", f"new{SEP}9", "_kombu.binding.new", "_kombu.binding_permanent.new"):
        client.set(key, "of another program")
        assert {one.word for one in engine.apply_verb("move", MAIL, jobs, {"to_queue": "new"})} == {"error"}, key
        client.delete(key)
    assert not keyspace.diff(before, keyspace.dump(client))


def test_a_move_is_undone_to_the_exact_positions(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    client.lpush("mail", message("v", "video", exchange="media"))
    assert act(engine, "bump", "queue", "q91mail") == ["moved"]
    keeper.end_change("bump", "celery", "mail")
    before = keyspace.dump(client)
    for ids in (("q00mail",), ("q02mail", "q91mail", "q61mail", "v"), ()):
        for to_queue in ("other", "new"):
            changed = act(engine, "move", "queue", *ids, to_queue=to_queue)
            assert set(changed) == {"moved"} and keyspace.diff(before, keyspace.dump(client)), (ids, to_queue)
            assert undone(engine, keeper, tmp_path, "move") == ["moved"] * len(changed), (ids, to_queue)
            client.delete("_kombu.binding.new", "_kombu.binding_permanent.new")  # a queue stays known
            assert not (found := keyspace.diff(before, keyspace.dump(client))), (ids, to_queue, found)
    assert describe_undo(engine.systems["celery"], "move", place="queue") == "z undoes it"


def test_the_undo_of_a_move_leaves_what_a_worker_took_and_what_was_added(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    assert act(engine, "move", "queue", "q00mail", "q02mail", "q31mail", to_queue="other") == ["moved"] * 3
    client.lrem("other", 1, message("q00mail", "other"))  # a worker took it
    client.lpush("mail", message("newer"))
    client.lpush("other", message("newer", "other"))
    assert sorted(undone(engine, keeper, tmp_path, "move")) == ["changed", "moved", "moved"]
    lists = [["q01mail", "newer", "q02mail"], ["q30mail", "q31mail", "q32mail"]]  # two run before q02mail, as before
    assert list_all_ids(client, LISTS[:2]) == lists
    assert list_all_ids(client, OTHER_LISTS[:1]) == [["q00other", "q01other", "q02other", "newer"]]


def test_equal_messages_of_one_queue_and_of_both_are_moved_and_brought_back_each(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    twin = message("twin")
    client.rpush("mail", twin)
    client.linsert("mail", "AFTER", message("q02mail"), twin)  # twice in its queue, each at another position
    client.lpush("other", twin, message("twin", "other"))  # its old and its new bytes, in the other queue
    before = keyspace.dump(client)
    jobs = [one for one in list_jobs(engine, "queue") if one.id.startswith(b"twin")]
    assert len(jobs) == 2
    for moved in (jobs[:1], jobs[1:], jobs):
        assert {one.word for one in engine.apply_verb("move", MAIL, moved, {"to_queue": "other"})} == {"moved"}
        assert client.lrange("other", 0, -1).count(message("twin", "other")) == 1 + len(moved)
        assert client.lrange("other", 0, -1).count(twin) == 1
        assert client.lrange("mail", 0, -1).count(twin) == 2 - len(moved)
        assert undone(engine, keeper, tmp_path, "move") == ["moved"] * len(moved)
        assert not keyspace.diff(before, keyspace.dump(client))


def test_a_job_that_is_refused_does_not_stop_the_move_of_the_others(client: Redis, tmp_path: Path) -> None:
    engine, system = hearing_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    fail(client, system, "bad", name="tasks.add", queue="mail")
    client.lpush("mail", message("waits"))
    jobs = [*failures(engine).values(), *list_jobs(engine, "queue")]
    assert [one.word for one in engine.apply_verb("move", MAIL, jobs, {"to_queue": "other"})] == ["refused", "moved"]
    assert client.llen("other") == 1
    assert undone(engine, keeper, tmp_path, "move") == ["moved"] and client.lrange("mail", 0, -1) == [message("waits")]


def test_messages_whose_reply_was_lost_are_moved_back(client: Redis, url: str, tmp_path: Path) -> None:
    plant_all(client)
    before = keyspace.dump(client)
    keeper = UndoRecorder(tmp_path)
    save = keeper.save_jobs
    with Proxy(url) as proxy, connect(proxy.url) as link:
        engine = open_engine(link)
        client.script_load(engine.systems["celery"].scripts["move"].source)  # else NOSCRIPT is the lost reply

        def save_and_cut(*arguments: Any) -> SavedChunk | None:
            saved = save(*arguments)
            proxy.fail("lose reply", "EVALSHA ")
            return saved

        keeper.save_jobs, engine.change_recorder = save_and_cut, keeper  # type: ignore[method-assign]
        assert act(engine, "move", "queue", "q01mail", "q61mail", to_queue="other") == ["unknown"] * 2
    assert client.llen("other") == 4
    assert undone(open_engine(client), keeper, tmp_path, "move") == ["moved"] * 2
    assert not keyspace.diff(before, keyspace.dump(client))


def test_the_outcome_of_a_moved_task_counts_in_its_new_queue_which_also_runs_it_again(client: Redis) -> None:
    engine, system = hearing_engine(client)
    client.lpush("mail", message("bad"))
    assert act(engine, "move", "queue", "bad", to_queue="other") == ["moved"]
    client.delete("other")  # a worker took it at once, ran it, and acked it
    fail(client, system, "bad")
    other = Ref("celery", "other")
    failed = engine.fetch_page(other, "failed", 0, 100, 0).jobs
    assert [one.id for one in failed] == [b"bad"] and not failures(engine)
    assert [one.word for one in engine.apply_verb("requeue", other, failed, {})] == ["moved"]
    [put] = client.lrange("other", 0, -1)
    assert json.loads(put)["properties"]["delivery_info"] == {"exchange": "", "routing_key": "other"}


def test_jobs_move_to_a_native_queue_as_bytes_with_a_warning_that_its_workers_cannot_run_them(
    client: Redis, url: str
) -> None:
    client.sadd("_kombu.binding.mail", f"mail{SEP}{SEP}mail")
    client.lpush("mail", message("a"))
    client.lpush(LISTS[3], message("b", priority=9))
    ran = shell(url, "migrate", "celery:mail", "native:mail")
    assert ran.code == 0 and "does not make them" in ran.err.replace("\n", " "), (ran.out, ran.err)
    assert not client.exists(*LISTS)
    bodies = [
        one.body
        for one in build_engine(client, [registry.create_system("native")])
        .fetch_page(Ref("native", "mail"), "ready", 0, 10, 65536)
        .jobs
    ]
    assert bodies == [message("a"), message("b", priority=9)]


def test_the_rights_of_an_operator_are_enough_for_every_verb(client: Redis, url: str) -> None:
    plant_all(client)
    system = registry.create_system("celery")
    rights = acl.compute_rights("operator", [(system, "mail"), (system, "other")])
    words = [*(f"~{key}" for key in rights.keys), *(f"&{channel}" for channel in rights.channels), "-@all"]
    client.execute_command(
        "ACL", "SETUSER", "narrow", "reset", "on", ">x", *words, *(f"+{name}" for name in rights.commands)
    )
    try:
        with connect(url.replace("redis://", "redis://narrow:x@")) as narrow:
            engine = open_engine(narrow)
            assert act(engine, "reprioritise", "queue", "q00mail", "q91mail", priority=6) == ["moved"] * 2
            assert act(engine, "bump", "queue", "q92mail") == act(engine, "delete", "queue", "q30mail") == ["moved"]
            assert act(engine, "reschedule", "queue", "q61mail", delay_ms=1000) == ["moved"]
            assert act(engine, "move", "queue", "q32mail", to_queue="other") == ["moved"]
            assert (
                act(engine, "release", "late", "late1mail") == act(engine, "delete", "late", "late0mail") == ["moved"]
            )
            assert act(engine, "cancel", "eta") == act(engine, "cancel", "unacked") == ["unheard"]
            assert [one.word for one in engine.apply_verb("pause", MAIL, (), {})] == ["unheard"]
            assert [one.word for one in engine.apply_verb("reap", MAIL, (), {"limit": 10})] == ["empty"]
            assert engine.apply_verb("purge", MAIL, (), {"place": "queue", "limit": 100})[0].moved == 11
            rows = [{"body": b'{"task": "t"}'}]
            assert [one.word for one in engine.send_request(system.put_request("mail", rows))] == ["moved"]
    finally:
        client.execute_command("ACL", "DELUSER", "narrow")


def test_the_rights_of_an_operator_reach_the_lists_of_each_priority_under_the_prefix() -> None:
    system = registry.create_system("celery:prefix=shop:")
    keys = acl.compute_rights("operator", [(system, "mail"), (system, "other")]).keys
    lists = {f"shop:{queue}{step}" for queue in ("mail", "other") for step in ("", f"{SEP}*")}
    assert {key for key in keys if "mail" in key or "other" in key} - lists == {
        f"shop:_kombu.{name}.{queue}" for name in ("binding", "binding_permanent") for queue in ("mail", "other")
    }
    assert lists <= {*keys}


def test_arguments_that_no_call_may_have_are_refused_before_anything_is_written(client: Redis) -> None:
    plant_all(client)
    system = registry.create_system("celery")
    job = {"member": b"x", "new": b"y", "step": "0"}
    back = {"left": "queue", "known": b"x", "place": "queue", "score": str(1 << 40), "line": b"y"}
    old = {"place": "queue", "score": str(1 << 40), "record": "", "body": b"y"}
    before = keyspace.dump(client)
    for name, args, rows, sentence in (
        ("purge", {"place": "late", "limit": 10}, [], "the place is queue"),
        ("purge", {"place": "queue", "limit": 1001}, [], "limit is 1 to 1000"),
        ("purge", {"place": "queue", "limit": 0}, [], "limit is 1 to 1000"),
        ("purge", {"place": "queue", "limit": 10, "queue": "other"}, [], "the first argument"),
        ("reap", {"limit": 0}, [], "limit is 1 to 1000"),
        ("reap", {"limit": 1001}, [], "limit is 1 to 1000"),
        ("reap", {"limit": 10, "rank": -1}, [], "rank a whole number"),
        ("reap", {"limit": 10, "now_ms": -1}, [], "now_ms is a whole number"),
        ("bump", {}, [], "1 to 1000 rows"),
        ("bump", {}, [{"member": b"x"}] * 1001, "1 to 1000 rows"),
        ("bump", {"steps": "high"}, [{"member": b"x"}], "priorities as 0/3/6/9"),
        ("delete", {"place": "running"}, [{"member": b"x"}], "no place of that name"),
        ("release", {"visibility": -1}, [{"member": b"x", "token": "t"}], "visibility is a whole number"),
        ("reprioritise", {}, [{**job, "priority": 10}], "0 is the highest"),
        ("reschedule", {}, [{**job, "priority": 10}], "0 is the highest"),
        ("records", {"most": -1}, [{"member": b"x"}], "most is a whole number"),
        ("restore", {}, [{**old, "place": "unacked"}], "what stood where"),
        ("restore", {}, [{**old, "score": str(9 << 40)}], "what stood where"),
        ("restore", {}, [{**old, "body": b""}], "what stood where"),
        ("restore", {}, [{**old, "place": "late", "score": "1795000000.5"}], "what stood where"),
        ("revert", {}, [{**back, "left": "late"}], "what stood where"),
        ("revert", {}, [{**back, "score": "-1"}], "what stood where"),
        ("revert", {}, [{**back, "line": b""}], "what stood where"),
        ("move", {"to_queue": "other"}, [], "1 to 1000 rows"),
        ("move", {"to_queue": f"other{SEP}3"}, [job], "name of another queue"),
    ):
        with pytest.raises(Refused, match=sentence):
            scripts.run_call(client, system.build_call(name, "mail", args, rows))
    assert not keyspace.diff(before, keyspace.dump(client))


def test_commands_for_a_queue_that_was_not_discovered_go_to_the_workers_of_its_database(
    url: str, client: Redis
) -> None:
    for database in (0, 3):
        with connect(f"{url.partition('?')[0].rstrip('/').removesuffix('/0')}/{database}") as own:
            engine = Engine(own, [registry.create_system("celery")])
            ref = engine.resolve_or_discover("celery:default")
            assert engine.systems["celery"].keys(ref.queue)["control"] == f"/{database}.celery.pidbox"
