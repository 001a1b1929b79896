"""Systems: what they say of themselves, what is derived from their scripts, and what they make of records."""

from __future__ import annotations

import subprocess

import pytest
from families import run_in_one_test
from redis import Redis

from rqtui.client.queue import BYTES, Queue
from rqtui.engine.engine import Engine
from rqtui.errors import Refused, ScriptError, UsageError
from rqtui.model import Job, State
from rqtui.scripts import script as scripts
from rqtui.scripts.script import run_call
from rqtui.system_base.system import CHUNK, quote_for_shell, raise_if_connection_lost
from rqtui.systems import registry
from rqtui.systems.native import decode_job, parse_history
from rqtui.verbs import VERBS, find_verb

NATIVE = registry.create_system("native")


def job(id: bytes, place: str = "ready", token: bytes = b"") -> Job:
    return Job(id, "mail", "native", place, State(place), id, token)


# ── finding and making ───────────────────────────────────────────────────────────────────────────────────────


def test_native_is_among_the_systems() -> None:
    assert "native" in registry.list_system_names()
    assert NATIVE.name == "native"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("nosuch", "there are: .*native"),
        ("", "there is no system"),
        ("native:x", "is not key=value"),
        ("native:colour=red", "no option colour"),
    ],
)
def test_a_system_that_is_not_there_is_refused_with_what_is(spec: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        registry.create_system(spec)


def test_a_place_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert NATIVE.place("dead").state is State.DEAD
    with pytest.raises(UsageError, match="scheduled, ready, reserved, done, dead"):
        NATIVE.place("limbo")


@run_in_one_test("name", ["", "a b", "{a}", "a\n", "\x1b", "x" * 201, "\udcff"])
def test_a_name_that_would_scatter_the_keys_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no queue name"):
        NATIVE.keys(name)


def test_the_keys_of_a_queue_share_a_hash_tag() -> None:
    assert {key.split("}")[0] for key in NATIVE.keys("größe:1").values()} == {"rqtui:{größe:1"}


# ── derived from the headers ─────────────────────────────────────────────────────────────────────────────────


def test_every_key_and_place_of_every_header_is_one_of_the_system() -> None:
    places = {place.name for place in NATIVE.places}
    for script in NATIVE.scripts.values():
        assert {key.name for key in script.keys} <= set(NATIVE.collect_script_keys(script, "q", "other")), script.name
        assert {*script.sources, *script.targets} <= places, script.name


def test_every_script_that_changes_something_is_a_verb_and_no_other() -> None:
    changing = {name for name, script in NATIVE.scripts.items() if not script.read_only}
    assert {row.name for row in NATIVE.verbs()} == changing
    others = {name for system in registry.create_systems() for name in system.scripts} - changing
    assert {row.script or row.name for row in VERBS} <= changing | others


def test_every_field_of_a_verbs_form_is_an_argument_of_its_script() -> None:
    """Of the native queue's, or of another system's alone."""
    systems = registry.create_systems()
    for row in NATIVE.verbs():
        for field in row.form:
            found = [each.scripts[name] for each in systems if (name := field.verb or row.name) in each.scripts]
            argument_names = {arg.name for script in found for arg in (*script.args, *script.each)}
            assert field.name in argument_names, (row.name, field.name)


@run_in_one_test(
    ("name", "place", "may"),
    [
        ("ack", "reserved", True),
        ("ack", "ready", False),
        ("promote", "scheduled", True),
        ("promote", "dead", False),
        ("requeue", "dead", True),
        ("requeue", "done", True),
        ("delete", "done", True),
        ("kill", "dead", False),
        ("pause", "ready", True),
        ("nosuch", "ready", False),
        ("nosuch", "", False),
        ("reserve", "", True),
    ],
)
def test_a_verb_is_offered_where_it_takes_jobs_from(name: str, place: str, may: bool) -> None:
    assert NATIVE.can(name, place) is may


def test_a_script_without_a_row_is_a_dangerous_verb_with_its_own_words() -> None:
    row = find_verb("frobnicate", "Turn jobs round.")
    assert (row.is_dangerous, row.question, row.name) == (True, "Turn jobs round.", "frobnicate")


def test_an_unknown_verb_or_field_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="its verbs: ack"):
        NATIVE.script("frobnicate")
    with pytest.raises(UsageError, match="promote has no field colour; its fields: id, now_ms"):
        NATIVE.verb_requests("promote", "mail", [job(b"a", "scheduled")], {"colour": "red"})


def test_jobs_go_in_chunks_and_by_place_where_the_script_guards_the_place() -> None:
    jobs = [job(b"%d" % n, "ready" if n % 2 else "dead") for n in range(2 * CHUNK + 2)]
    asks = NATIVE.verb_requests("delete", "mail", jobs, {"force": True})
    assert [len(ask.jobs) for ask in asks] == [CHUNK, 1, CHUNK, 1]
    assert [{one.place for one in ask.jobs} for ask in asks] == [{"dead"}, {"dead"}, {"ready"}, {"ready"}]
    assert [len(ask.jobs) for ask in NATIVE.verb_requests("requeue", "mail", jobs, {})] == [CHUNK, CHUNK, 2]


def test_the_token_that_was_seen_goes_with_each_job_unless_the_form_has_another() -> None:
    seen = [job(b"a", "reserved", b"17"), job(b"b", "reserved", b"18")]
    [ask] = NATIVE.verb_requests("ack", "mail", seen, {})
    assert ask.calls[0].argv[-4:] == [b"a", b"17", b"b", b"18"]
    [ask] = NATIVE.verb_requests("ack", "mail", seen[:1], {"token": "99"})
    assert ask.calls[0].argv[-2:] == [b"a", b"99"]


def test_an_error_of_one_call_is_that_calls_answer_and_a_lost_link_is_everybodys() -> None:
    from rqtui.errors import Denied, Unreachable, WrongType

    fine = scripts.Reply("moved")
    assert len(raise_if_connection_lost([fine, WrongType("a string")])) == 2
    assert len(raise_if_connection_lost([WrongType("a string")])) == 1
    for bad in ([Unreachable("gone")], [fine, Unreachable("gone")], [Denied("no"), Denied("no")]):
        with pytest.raises((Unreachable, Denied)):
            raise_if_connection_lost(bad)
    assert len(raise_if_connection_lost([fine, Denied("no")])) == 2
    assert len(raise_if_connection_lost([fine, Refused("no")])) == 2


def test_a_folder_without_scripts_is_an_error_that_names_it() -> None:
    with pytest.raises(ScriptError, match="lua/nosuch"):
        scripts.load_scripts("nosuch")


# ── what it makes of records ─────────────────────────────────────────────────────────────────────────────────


def test_a_record_is_decoded_to_its_job() -> None:
    found = decode_job(
        "mail", "reserved", b"a", 2000.0, b"1000 - -3 90000 4 - - - - send mail\nbody", b"2 17 5 1500 7 c w 1"
    )
    assert (found.enqueued_ms, found.ttr_ms, found.max_attempts, found.name) == (1000, 90000, 4, "send mail")
    assert (found.attempts, found.token, found.priority, found.is_cancelled, found.worker) == (2, b"17", 7, True, "w 1")
    assert (found.deadline_ms, found.reserved_ms, found.due_ms) == (2000, 1500, None)


@run_in_one_test("record", [b"", b"garbage", b"1 2 3\nx", b"x - 0 - - - - - - name\n", b"\xff\xfe\n"])
@run_in_one_test("line", [b"", b"garbage", b"x x x x x x x", b"1 2 3 4 x - w", b"1 17 5 1500 - - w"])
@run_in_one_test("place", [state.value for state in State])
def test_a_record_that_cannot_be_read_never_raises_and_reports_it(place: str, record: bytes, line: bytes) -> None:
    found = decode_job("mail", place, b"a", 1.0, record, line)
    assert found.problem
    assert found.id == b"a"


def test_a_line_that_cannot_be_read_leaves_the_rest_of_the_job_readable() -> None:
    found = decode_job("mail", "ready", b"a", float("inf"), b"1000 - 0 - - - - - - send\n{}", b"1 2 3 4 x - w")
    assert (found.name, found.problem) == ("send", "its line of attempts cannot be read")


@run_in_one_test("errors", [b"garbage", b"{}", b"[1]", b"[[1,2]]", b'[["x","y","w","e"]]', b"\xff"])
def test_errors_that_cannot_be_read_are_one_attempt_that_reports_it(errors: bytes) -> None:
    assert [attempt.error for attempt in parse_history(errors)] in ([], ["the errors of this job cannot be read"])


def test_reserve_and_pull_return_jobs_with_their_bodies(client: Redis) -> None:
    queue = Queue("mail", client, codec=BYTES)
    for id, body in (("short", b"x"), ("long", b"y" * 5000)):
        queue.put(body, id=id, name="kind", ttr=7)
    reserved = NATIVE.read_taken_jobs("mail", run_call(client, NATIVE.build_call("reserve", "mail", {"limit": 1})))
    pulled = NATIVE.read_taken_jobs("mail", run_call(client, NATIVE.build_call("pull", "mail", {"limit": 5})))
    assert [(one.id, one.body, one.place, one.attempts, one.ttr_ms) for one in reserved] == [
        (b"short", b"x", "reserved", 1, 7000)
    ]
    assert [(one.id, one.body, one.body_bytes, one.token) for one in pulled] == [(b"long", b"y" * 5000, 5000, b"")]
    assert NATIVE.read_taken_jobs("mail", run_call(client, NATIVE.build_call("pull", "mail", {"limit": 5}))) == ()


@run_in_one_test(
    "word, quoted",
    [
        ("mail", "mail"), ("a b", "'a b'"), ("größe", "'größe'"), ("", "''"), ("it's", """'it'"'"'s'"""),
        (b"mail", "mail"),
        (b"\xff", r"$'\xff'"), (b"\xff \x1f~\x7f", r"$'\xff \x1f~\x7f'"), (b"\xff'\\", r"$'\xff\x27\x5c'"),
        ("a\x1bb", r"$'a\x1bb'"),
    ],
)  # fmt: skip
def test_a_word_is_quoted_so_that_a_shell_reads_the_same_bytes(word: str | bytes, quoted: str) -> None:
    assert quote_for_shell(word) == quoted
    raw = word.encode() if isinstance(word, str) else word
    assert subprocess.run(["bash", "-c", f"printf %s {quoted}"], capture_output=True, check=True).stdout == raw


# ── discovery ────────────────────────────────────────────────────────────────────────────────────────────────


def names(client: Redis) -> set[str]:
    return {ref.queue for chunk in Engine(client, [NATIVE]).discover() for ref in chunk}


def test_discovery_finds_queues_that_no_list_names(client: Redis) -> None:
    Queue("listed", client).put(1)
    Queue("forgotten", client).put(1)
    client.srem("rqtui:queues", "forgotten")
    client.sadd("rqtui:queues", "empty", "no name", b"\xff")
    assert names(client) == {"listed", "forgotten", "empty"}


def test_a_queue_is_announced_and_retired(client: Redis) -> None:
    NATIVE.register_queue(client, "größe")
    assert names(client) == {"größe"}
    NATIVE.unregister_queue(client, "größe")
    assert names(client) == set()
