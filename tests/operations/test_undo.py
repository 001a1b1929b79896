"""Test undo: an unchanged job is restored byte for byte, and changed jobs are reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from families import run_in_one_test
from native_jobs import build_key
from proxy import Proxy
from redis import Redis
from screens import Seeded

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import ReadOnly, RqtuiError, ScriptError, UsageError
from rqtui.model import Job, Outcome, Ref
from rqtui.operations import revert, undo, undo_files
from rqtui.operations.journal import FILE_NAME, Journal
from rqtui.operations.undo import UndoRecorder
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.testing import keyspace

LONG = b"\x00\xff" * 4000  # is stored in `bodies`, and is no text
Form = dict[str, object]


class RecordedQueue(Seeded):
    """A queue whose changes are recorded for undo, as by the screen or `rqtui act`."""

    def __init__(self, client: Redis, folder: Path, url: str = "redis://here") -> None:
        super().__init__(client)
        self.keeper = UndoRecorder(folder, url)
        self.engine.change_recorder = self.keeper
        self.ref = self.engine.resolve("mail")
        self.put("plain", "second")
        self.put("long", body=LONG)
        self.put("later", delay_ms=3_600_000)
        self.bury("dead-1", "dead-2")
        self.put("held", "finished", priority=-200)
        held = self.reserve(2)
        self.engine.apply_verb("ack", self.ref, [job for job in held if job.id == b"finished"], {"keep_ms": 3_600_000})

    def state(self) -> keyspace.Keyspace:
        """Return the stored jobs, without counters and notes."""
        found = keyspace.dump(self.client)
        return {name: value for name, value in found.items() if not name.endswith((":meta", ":wake", ":minutes"))}

    def do(self, verb: str, jobs: Sequence[Job] = (), form: Form | None = None, ref: Ref | None = None) -> str:
        """Run a verb and return the name of its undo record."""
        ref = ref or self.ref
        self.engine.apply_verb(verb, ref, jobs, form)
        return self.keeper.end_change(verb, ref.system, ref.queue)

    def undo(self, name: str) -> list[Outcome]:
        return [one for chunk in revert.revert_record(self.engine, self.keeper.folder, name) for one in chunk]

    def words(self, name: str) -> Counter[str]:
        """Return the words of undo's outcomes, and how often each occurs."""
        return Counter(one.text for one in self.undo(name))


@pytest.fixture
def it(client: Redis, tmp_path: Path) -> RecordedQueue:
    return RecordedQueue(client, tmp_path)


UNDONE: list[tuple[str, str, Form]] = [
    ("delete", "ready", {}),
    ("delete", "scheduled", {}),
    ("delete", "dead", {}),
    ("delete", "done", {}),
    ("kill", "ready", {"reason": b"why"}),
    ("kill", "scheduled", {}),
    ("requeue", "dead", {}),
    ("requeue", "dead", {"keep_attempts": True}),
    ("requeue", "done", {}),
    ("promote", "scheduled", {}),
    ("reschedule", "scheduled", {"delay_ms": 5}),
    ("reschedule", "ready", {"delay_ms": 7_200_000}),
    ("reprioritise", "ready", {"priority": -7}),
    ("reprioritise", "scheduled", {"priority": 9}),
]


@pytest.mark.parametrize(("verb", "place", "form"), UNDONE)
def test_a_change_of_a_verb_is_reverted_byte_for_byte(it: RecordedQueue, verb: str, place: str, form: Form) -> None:
    before = it.state()
    jobs = it.jobs(place)
    name = it.do(verb, jobs, form)
    assert it.state() != before
    assert it.words(name) == {"restored": len(jobs)}
    assert it.state() == before


@pytest.mark.parametrize("verb", ["delete", "kill"])
def test_a_reserved_job_comes_back_to_ready_since_its_lease_is_over(it: RecordedQueue, verb: str) -> None:
    (held,) = it.jobs("reserved")
    name = it.do(verb, [held], {"force": True})
    assert it.words(name) == {"restored": 1}
    found = it.job("held")
    assert found is not None and (found.place, found.attempts, found.token) == ("ready", 1, b"")
    assert it.ids("ready")[0] == "held", "at its old position"


def test_a_purge_is_by_id_and_comes_back_whole(it: RecordedQueue) -> None:
    before = it.state()
    outcomes = it.engine.apply_verb("purge", it.ref, (), {"place": "ready", "limit": 1000})
    assert [(one.word, one.moved, one.values["left"]) for one in outcomes] == [("moved", 3, 0)]
    assert it.ids("ready") == []
    assert it.words(it.keeper.end_change("purge", "native", "mail")) == {"restored": 3}
    assert it.state() == before


def test_an_empty_place_is_purged_as_ever(it: RecordedQueue) -> None:
    it.do("purge", (), {"place": "ready", "limit": 1000})
    (outcome,) = it.engine.apply_verb("purge", it.ref, (), {"place": "ready", "limit": 1000})
    assert outcome.word == "empty"


def test_a_purge_of_live_leases_is_refused_as_ever(it: RecordedQueue) -> None:
    (outcome,) = it.engine.apply_verb("purge", it.ref, (), {"place": "reserved", "limit": 10})
    assert (outcome.word, it.ids("reserved")) == ("reserved", ["held"])


def test_a_pause_is_undone_by_resume_and_back(it: RecordedQueue) -> None:
    name = it.do("pause")
    assert it.client.hexists(build_key("meta"), "paused")
    it.undo(name)
    assert not it.client.hexists(build_key("meta"), "paused")
    it.do("pause")
    resumed = it.do("resume")
    it.undo(resumed)
    assert it.client.hexists(build_key("meta"), "paused")


def test_a_pause_that_changed_nothing_has_nothing_to_undo(it: RecordedQueue) -> None:
    it.do("pause")
    assert it.do("pause") == ""
    assert it.client.hexists(build_key("meta"), "paused")


def test_acting_on_a_whole_place_is_one_operation(it: RecordedQueue) -> None:
    before = it.state()
    for _chunk in it.engine.apply_verb_to_place("delete", it.ref, "ready"):
        pass
    assert it.words(it.keeper.end_change("delete", "native", "mail")) == {"restored": 3}
    assert it.state() == before


# -- what changed since ------------------------------------------------------------------------------------------


def test_a_job_that_a_worker_took_meanwhile_stays_with_it(it: RecordedQueue) -> None:
    name = it.do("requeue", it.jobs("dead"))
    it.client.zadd(build_key("ready"), {"dead-1": -(2**50)})  # it is next
    it.reserve()
    assert it.words(name) == {"restored": 1, "it changed since then": 1}
    assert (it.ids("reserved"), it.ids("dead")) == (["held", "dead-1"], ["dead-2"])


def test_a_job_that_came_back_to_the_same_place_is_another_story_and_stays(it: RecordedQueue) -> None:
    name = it.do("kill", [job for job in it.jobs("ready") if job.id == b"plain"])
    it.engine.change_recorder = None
    it.engine.apply_verb("requeue", it.ref, [job for job in it.jobs("dead") if job.id == b"plain"])
    it.engine.apply_verb("kill", it.ref, [job for job in it.jobs("ready") if job.id == b"plain"])
    before = it.state()
    assert it.words(name) == {"it changed since then": 1}
    assert it.state() == before


def test_a_job_that_disappeared_meanwhile_is_reported_as_missing(it: RecordedQueue) -> None:
    name = it.do("kill", it.jobs("ready"))
    it.engine.change_recorder = None
    it.engine.apply_verb("delete", it.ref, [job for job in it.jobs("dead") if job.id == b"plain"])
    assert it.words(name) == {"it was deleted since then": 1, "restored": 2}


def test_an_id_that_was_taken_since_keeps_its_new_job(it: RecordedQueue) -> None:
    name = it.do("delete", [job for job in it.jobs("ready") if job.id in (b"plain", b"second")])
    it.put("plain", body=b'"another"')
    assert it.words(name) == {"the id is taken": 1, "restored": 1}
    found = it.job("plain")
    assert found is not None and found.body == b'"another"'


def test_jobs_that_the_verb_did_not_change_are_not_touched(it: RecordedQueue) -> None:
    jobs = it.jobs("dead")
    it.engine.change_recorder = None
    it.engine.apply_verb("delete", it.ref, jobs[:1])
    it.engine.change_recorder = it.keeper
    assert it.words(it.do("requeue", jobs)) == {"restored": 1}


def test_a_job_that_changed_after_the_poll_is_restored_as_it_was_at_the_change(it: RecordedQueue) -> None:
    """A job that another operator reprioritised while its record was being written."""
    jobs = [job for job in it.jobs("ready") if job.id == b"plain"]
    chunk = it.keeper.save_jobs(it.engine, "kill", it.ref, jobs)
    assert chunk is not None
    build_engine(it.client, [registry.create_system("native")]).apply_verb(
        "reprioritise", it.ref, jobs, {"priority": 44}
    )
    before = it.state()
    chunk_again, it.keeper.save_jobs = chunk, lambda *_any: chunk  # type: ignore[method-assign]
    name = it.do("kill", jobs)
    assert it.words(name) == {"restored": 1} and chunk_again.rows
    assert it.state() == before


def test_it_is_undone_once(it: RecordedQueue) -> None:
    name = it.do("delete", it.jobs("dead"))
    it.undo(name)
    with pytest.raises(UsageError, match="undone already"):
        it.undo(name)


# -- crashes and refusals ----------------------------------------------------------------------------------------


def test_a_crash_between_the_file_and_the_change_leaves_a_record_and_nothing_to_undo(it: RecordedQueue) -> None:
    before = it.state()
    it.keeper.save_jobs(it.engine, "delete", it.ref, it.jobs("dead"))
    assert it.words(it.keeper.end_change("delete", "native", "mail")) == {"nothing changed": 2}
    assert it.state() == before


def run_lost_change(it: RecordedQueue, verb: str, jobs: Sequence[Job]) -> str:
    """Run a change whose reply is lost, and return the name of its undo record."""
    it.keeper.save_jobs(it.engine, verb, it.ref, jobs)
    it.engine.change_recorder = None
    it.engine.apply_verb(verb, it.ref, jobs)
    return it.keeper.end_change(verb, "native", "mail")


def test_a_dead_job_deleted_without_an_answer_is_restored(it: RecordedQueue) -> None:
    before = it.state()
    assert it.words(run_lost_change(it, "delete", it.jobs("dead"))) == {"restored": 2}
    assert it.state() == before


def test_a_ready_job_deleted_without_an_answer_is_not_since_a_worker_may_have_done_it(it: RecordedQueue) -> None:
    (words,) = it.words(run_lost_change(it, "delete", it.jobs("ready")))
    assert "the reply was lost" in words and it.ids("ready") == []


def test_a_lost_reply_leaves_no_word_on_how_the_jobs_were_left(url: str, client: Redis, tmp_path: Path) -> None:
    with Proxy(url) as proxy, connect(proxy.url) as link:
        it = RecordedQueue(link, tmp_path)
        jobs, keep = it.jobs("dead"), it.keeper.save_jobs
        client.script_load(it.engine.systems["native"].scripts["delete"].source)  # else NOSCRIPT is the lost reply

        def keep_and_cut(engine: Engine, verb: str, ref: Ref, *chosen: Any) -> undo.SavedChunk | None:
            result = keep(engine, verb, ref, *chosen)
            proxy.fail("lose reply", "EVALSHA")
            return result

        it.keeper.save_jobs = keep_and_cut  # type: ignore[method-assign]
        assert {one.word for one in it.engine.apply_verb("delete", it.ref, jobs)} == {"unknown"}
        name = it.keeper.end_change("delete", "native", "mail")
        record = undo_files.read_record(it.keeper.folder, name)
        assert record.unanswered == {b"dead-1", b"dead-2"} and not record.states_after
        assert it.words(name) == {"restored": 2}


def test_a_change_that_was_refused_at_first_and_done_then_is_undone_as_one(it: RecordedQueue) -> None:
    before, jobs = it.state(), it.jobs("ready")
    assert {one.word for one in it.engine.apply_verb("reschedule", it.ref, jobs, {"delay_ms": -1})} == {"error"}
    assert it.state() == before
    name = it.do("reschedule", jobs, {"delay_ms": 60_000})
    assert it.words(name) == {"restored": len(jobs)}
    assert it.state() == before


def test_a_script_that_the_server_did_not_know_is_undone_too(it: RecordedQueue) -> None:
    """Its text follows in a second trip, so that it runs after the look which was sent behind it."""
    before, jobs = it.state(), it.jobs("ready")
    it.client.script_flush()
    it.keeper.read_jobs(it.engine, it.ref, [{"id": jobs[0].id}], is_whole=False)
    name = it.do("kill", jobs)
    assert {left.place for left in undo_files.read_record(it.keeper.folder, name).states_after.values()} == {"dead"}
    assert it.words(name) == {"restored": len(jobs)}
    assert it.state() == before


def test_over_maxmemory_what_was_deleted_is_refused_whole_and_can_be_undone_later(
    it: RecordedQueue, settings: Callable[[str, str], None]
) -> None:
    before = it.state()
    name = it.do("delete", it.jobs("ready"))
    deleted = it.state()
    settings("maxmemory", "1")
    assert {one.word for one in it.undo(name)} == {"error"}
    settings("maxmemory", "0")
    assert it.state() == deleted
    assert it.words(name) == {"restored": 3}
    assert it.state() == before


def test_over_maxmemory_what_was_moved_comes_back(it: RecordedQueue, settings: Callable[[str, str], None]) -> None:
    name = it.do("kill", it.jobs("ready"))
    settings("maxmemory", "1")
    assert it.words(name) == {"restored": 3}


def test_a_record_that_cannot_be_written_stops_the_change(it: RecordedQueue, tmp_path: Path) -> None:
    before = it.state()
    it.keeper.folder.rmdir()
    it.keeper.folder.write_text("a file where the folder should be")
    with pytest.raises(RqtuiError, match="nothing more was changed"):
        it.do("delete", it.jobs("dead"))
    assert it.state() == before


def test_without_a_folder_changes_continue_and_a_message_says_that_nothing_is_stored(
    client: Redis, tmp_path: Path
) -> None:
    (tmp_path / "undo").write_text("")
    it = RecordedQueue(client, tmp_path)
    assert it.do("delete", it.jobs("dead")) == "" and it.ids("dead") == []
    words = undo.describe_undo(it.engine.systems["native"], "delete", problem=it.keeper.problem)
    assert words.startswith("no undo: ") and str(tmp_path) in words


def test_a_read_only_session_undoes_nothing(it: RecordedQueue) -> None:
    name = it.do("delete", it.jobs("dead"))
    it.engine.read_only = True
    with pytest.raises(ReadOnly):
        it.undo(name)
    assert it.ids("dead") == []


def test_the_file_is_its_owners_alone_and_the_folder_is_bounded(
    it: RecordedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo_files, "MAX_RECORDS", 3)
    result = [it.do("reprioritise", it.jobs("ready"), {"priority": number}) for number in range(6)]
    assert undo_files.list_records(it.keeper.folder) == result[:-4:-1]
    paths = list(it.keeper.folder.iterdir())
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600} and len(paths) == 3


def test_a_record_that_was_cut_short_still_shows_what_it_has(it: RecordedQueue) -> None:
    name = it.do("delete", it.jobs("dead"))
    path = it.keeper.folder / f"{name}.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert undo_files.read_record(it.keeper.folder, name).unanswered == {b"dead-1", b"dead-2"}
    path.write_bytes(b"{")
    with pytest.raises(UsageError, match="cannot be read"):
        undo_files.read_record(it.keeper.folder, name)


def test_the_outcomes_of_a_chunk_whose_line_is_broken_are_unknown(it: RecordedQueue) -> None:
    first, second = it.jobs("dead")
    it.engine.apply_verb("delete", it.ref, [first])
    name = it.do("delete", [second])
    path = it.keeper.folder / f"{name}.jsonl"
    head, rows, outcomes, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([head, rows, outcomes[:-9] + b"\n", *others]))
    record = undo_files.read_record(it.keeper.folder, name)
    assert record.unanswered == {first.id} and {*record.states_after} == {second.id}


# -- bounds, words -----------------------------------------------------------------------------------------------


def test_above_the_limit_nothing_is_kept_as_the_words_have_said(
    it: RecordedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "MAX_SAVED_JOBS", 2)
    assert undo.describe_undo(it.engine.systems["native"], "delete", 3) == "no undo: it is kept for at most 2 jobs"
    for _chunk in it.engine.apply_verb_to_place("delete", it.ref, "ready"):
        pass
    assert it.keeper.end_change("delete", "native", "mail") == "" and it.ids("ready") == []
    (outcome,) = it.engine.apply_verb("purge", it.ref, (), {"place": "dead", "limit": 1000})
    assert outcome.moved == 2, "as many as the limit are kept"
    assert it.keeper.end_change("purge", "native", "mail") != ""


def test_long_bodies_come_in_several_answers(it: RecordedQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "ANSWER_BYTES", 5000)
    monkeypatch.setattr(revert, "ANSWER_BYTES", 5000)
    before = it.state()
    it.put(*(f"big-{number}" for number in range(5)), body=LONG)
    with_big = it.state()
    assert it.words(it.do("delete", it.jobs("ready"))) == {"restored": 8}
    assert it.state() == with_big != before


@run_in_one_test("verb", ["delete", "kill", "requeue", "promote", "reschedule", "reprioritise", "purge", "pause"])
def test_a_verb_with_an_inverse_reports_it_before_it_acts(verb: str) -> None:
    assert undo.describe_undo(registry.create_system("native"), verb, place="ready") == "z undoes it"


def test_the_headers_say_which_verbs_have_an_inverse() -> None:
    native = registry.create_system("native")
    actual = {verb: undo.find_inverse_script(native, verb) for verb in native.scripts}
    moved = dict.fromkeys(("kill", "requeue", "promote", "reschedule", "reprioritise"), "revert")
    assert actual.items() >= {**moved, "delete": "restore", "purge": "restore", "pause": "resume"}.items()
    none = "ack reject release extend enqueue reserve pull cancel dispatch reap repair restore revert configure beat"
    assert not any(actual[verb] for verb in [*none.split(), "quiet", "stop", "counts", "page", "show", "records"])


@pytest.mark.parametrize(
    ("signature", "script"),
    [
        ("moves    ready -> ready\nKEYS     ready  zset\nARGV     each  (id bytes)", "revert"),
        ("writes   ready\nKEYS     ready  zset\nARGV     each  (id bytes)", "revert"),
        ("moves    ready -> ready\nKEYS     ready  zset\nARGV     limit  int", ""),
        ("moves    ready -> ready |\nKEYS     ready  zset\nARGV     each  (id bytes)", ""),
        ("moves    reserved -> ready\nKEYS     ready  zset\n         reserved  zset\nARGV     each  (id bytes)", ""),
        ("writes   reserved\nKEYS     reserved  zset\nARGV     each  (id bytes)", ""),
        ("moves    ready ->\nKEYS     ready  zset\nARGV     each  (id bytes)", "restore"),
    ],
)
def test_a_new_verb_has_the_inverse_that_its_header_implies(signature: str, script: str) -> None:
    native = registry.create_system("native")
    header = "".join(f"-- {line}\n" for line in signature.splitlines())
    bump = scripts.parse_script(f"-- Try.\n--\n{header}-- returns  moved\nreturn 'moved'\n", "lua/native/bump.lua")
    native.scripts = scripts.Folder("native", {**native.scripts, "bump": bump}, native.scripts.path)
    assert undo.find_inverse_script(native, "bump") == script


def test_a_whole_queue_that_goes_has_no_undo(it: RecordedQueue) -> None:
    assert (
        undo.describe_undo(it.engine.systems["native"], "purge") == "no undo: the whole queue goes, with its settings"
    )
    it.engine.apply_verb("purge", it.ref, (), {"limit": 1000, "force": True})
    assert it.keeper.end_change("purge", "native", "mail") == ""
    assert it.state().keys() == {"rqtui:queues"}


def test_a_purge_of_leases_that_are_over_comes_back_to_ready(it: RecordedQueue) -> None:
    it.client.zadd(build_key("reserved"), {"held": 1000})
    (outcome,) = it.engine.apply_verb("purge", it.ref, (), {"place": "reserved", "limit": 10})
    assert (outcome.word, it.ids("reserved")) == ("moved", [])
    assert it.words(it.keeper.end_change("purge", "native", "mail")) == {"restored": 1}
    assert it.ids("ready")[0] == "held"


@pytest.mark.parametrize(
    "verb", ["ack", "reject", "release", "extend", "enqueue", "reserve", "pull", "cancel", "repair"]
)
def test_a_verb_without_one_shows_no_undo_and_keeps_nothing(it: RecordedQueue, verb: str) -> None:
    assert undo.describe_undo(it.engine.systems["native"], verb).startswith("no undo: ")
    assert it.keeper.save_jobs(it.engine, verb, it.ref, it.jobs("reserved")) is None
    assert undo_files.list_records(it.keeper.folder) == []


# -- the systems of others ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "queue"),
    [
        ("dispatcher", "readytasklist"),
        ("redisched:unit=ms", "topic"),
        ("timeout_sets", "todos"),
        ("orizuru", "jobs"),
        ("safe_pop", "q"),
    ],
)
def test_of_another_system_a_deleted_ready_job_comes_back_with_the_same_bytes(
    client: Redis, tmp_path: Path, system: str, queue: str
) -> None:
    result = registry.create_system(system)
    system = result.name
    engine = build_engine(client, [result])
    ref = Ref(system, queue)
    body = b"\x81\xa1a\x01" if system == "orizuru" else b"42"
    row = {"body": body, **({"id": b"one"} if system == "redisched" else {})}
    assert [one.word for one in engine.send_request(result.put_request(queue, [row]))] == ["moved"]
    place = next(place.name for place in result.places if place.state == "ready")
    page = engine.fetch_page(ref, place, body_bytes=100)
    before = {name: client.dump(name) for name in client.keys("*")}
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    assert [one.moved for one in engine.apply_verb("delete", ref, page.jobs)] == [1]
    assert engine.fetch_page(ref, place).total == 0
    name = keeper.end_change("delete", system, queue)
    outcomes = [one for chunk in revert.revert_record(engine, keeper.folder, name) for one in chunk]
    assert [one.text for one in outcomes] == ["restored"]
    again = engine.fetch_page(ref, place, body_bytes=100)
    assert [(job.id, job.body) for job in again.jobs] == [(job.id, job.body) for job in page.jobs] and before


@pytest.mark.parametrize("verb", ["promote", "requeue", "purge", "ack"])
def test_other_verbs_of_another_system_show_no_undo(verb: str) -> None:
    for system in map(registry.create_system, ("dispatcher", "redisched", "timeout_sets", "orizuru", "safe_pop")):
        assert undo.describe_undo(system, verb).startswith("no undo: ")


def test_jobs_held_by_a_worker_of_another_system_are_not_put_back(client: Redis, tmp_path: Path) -> None:
    system = registry.create_system("timeout_sets")
    assert undo.describe_undo(system, "delete", place="in_progress").startswith("no undo: ")
    assert undo.describe_undo(system, "delete", place="done").startswith("no undo: "), (
        "to do is where it would come back"
    )
    assert undo.describe_undo(system, "delete", place="todos") == "z puts them back, behind those that wait"


def test_a_queue_whose_job_comes_back_is_found_by_its_name_again(it: RecordedQueue, client: Redis) -> None:
    name = it.do("delete", [it.job("plain")])
    it.engine.unregister_queue(it.ref)
    assert not client.sismember("rqtui:queues", "mail")
    assert it.words(name).total() == 1
    assert client.sismember("rqtui:queues", "mail")


def test_an_undo_that_the_configuration_denies_changes_nothing(it: RecordedQueue) -> None:
    name = it.do("delete", [it.job("plain")])
    before = it.state()
    it.engine.denied = (("mail", ("undo",)),)
    with pytest.raises(RqtuiError, match="undo is denied"):
        it.undo(name)
    assert it.state() == before


def test_a_record_already_undone_is_reported_if_named_and_skipped_among_others(it: RecordedQueue) -> None:
    first, second = it.do("delete", [it.job("plain")]), it.do("delete", [it.job("second")])
    it.undo(first)
    (actual,) = (one for step in revert.revert_operation(it.engine, it.keeper.folder, [first], "") for one in step)
    assert (actual.word, actual.text) == ("no record", "this was undone already.")
    steps = revert.revert_operation(it.engine, it.keeper.folder, [first, second], "")
    assert [one.id for step in steps for one in step] == [b"second"]


def test_each_change_of_several_jobs_is_written_down_when_it_begins(client: Redis, tmp_path: Path) -> None:
    it = RecordedQueue(client, tmp_path)
    it.engine.change_recorder = it.keeper = UndoRecorder(tmp_path, "", Journal(tmp_path))
    for ids in (("plain", "second"), ("long", "later")):
        it.do("delete", [it.job(id) for id in ids])
        it.keeper.end_change("delete", "native", "mail")
    begun = [line for line in (tmp_path / FILE_NAME).read_text().splitlines() if '"begun"' in line]
    assert len(begun) == 2


@pytest.mark.parametrize(("verb", "ids"), [("requeue", ("plain",)), ("delete", ("second",))])
def test_a_later_step_is_recorded_only_where_an_undo_compares_the_state(
    it: RecordedQueue, verb: str, ids: Sequence[str]
) -> None:
    """Without a record, and for a verb whose undo restores deleted jobs, nothing is written."""
    if verb == "delete":
        it.engine.apply_verb(verb, it.ref, [it.job("plain")], {})
    records = {path: path.read_bytes() for path in it.keeper.folder.rglob("*") if path.is_file()}
    it.keeper.update_states_after(it.engine, verb, it.ref, [it.job(id) for id in ids])
    assert {path: path.read_bytes() for path in it.keeper.folder.rglob("*") if path.is_file()} == records


def test_jobs_that_could_not_be_read_after_a_change_have_no_state_to_compare() -> None:
    assert undo._parse_saved_jobs([b"a"], ScriptError("denied")) == {}


def test_a_record_that_cannot_be_written_is_a_problem_though_its_folder_could_be(tmp_path: Path) -> None:
    keeper = undo.UndoRecorder(tmp_path)

    def refuse() -> None:
        raise RqtuiError("the record would be too long")

    with pytest.raises(RqtuiError):
        keeper._try_write(refuse, 1)
    assert keeper.problem == "the record would be too long"
    assert keeper.check_problem() == ""
