"""Check the scripts of a system: thirteen assertions compare the whole database before and after each script.

A `Subject` describes a system: its scripts, its places, how the *real system* writes jobs there (by raw commands, never
by our scripts), and for each script a `Use` that defines its calls. `cases` builds one `Case` per assertion, script and
source place, and a system's test file runs the cases. Nothing in this module depends on a particular system.

     1 a read-only script reads what the real system wrote, without writes     9 every declared word is reached
     2 one job left its source and arrived in a declared target               10 only declared keys and args are used
     3 only declared keys changed                                             11 a batch: its limit, oldest first, due
     4 neighbours are unchanged, in order                                     12 EVAL_RO accepts a read-only script
     5 bodies are unchanged                                                   13 over maxmemory drains work, fills fail
     6 a second run gets a declared refusal and writes nothing                   (a refused write loses no job: in 2)
     7 an unknown job gets a declared refusal and nothing is written
     8 a key of a wrong type: an error and no write, or, if the call needs no such key, the effect of a missing key
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from redis import Redis
from redis.exceptions import ResponseError

from rqtui.errors import Denied, RqtuiError, ServerError
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply, Script
from rqtui.testing import include_lint, keyspace, script_lint
from rqtui.testing.subject import JobDatabase, PreparedScript, Request, Subject, Use, list_words


def assert_database_unchanged(database: JobDatabase, before: keyspace.Keyspace) -> None:
    """Assert that no key of the test database differs from the dump `before`."""
    assert not (changes := keyspace.diff(before, database.dump())), "the script wrote:\n" + "\n".join(changes)


def assert_call_refused(prepared: PreparedScript, reply: Reply) -> None:
    """Assert that a script's reply has words, none of which is the word for success."""
    success = next(iter(prepared.script.returns))
    assert list_words(reply) and success not in list_words(reply), f"the script replied {list_words(reply)}"


# --- the assertions: each gets a function that builds a scene for one script and one source place --------------------

ScriptPreparer = Callable[..., PreparedScript]


def check_read_without_write(prepare_script: ScriptPreparer) -> None:
    """Assert that a read-only script reads the jobs that the real system wrote, and writes nothing (assertion 1)."""
    prepared = prepare_script()
    before = prepared.database.dump()
    reply = prepared.run()
    assert_database_unchanged(prepared.database, before)
    if prepared.use.reads:
        prepared.use.reads(prepared.database, reply)


def check_one_job_moves(prepare_script: ScriptPreparer) -> None:
    """Assert that one job leaves its source and arrives in a declared target (assertion 2)."""
    prepared = prepare_script()
    job, before = prepared.targets[0], prepared.database.read_members()
    prepared.run()
    places = prepared.find_places(job)
    assert len(places) <= 1, f"the job is in {places}"
    if places:
        assert places[0] in prepared.target_places, (
            f"the job went to {places[0]}, the header says {prepared.target_places}"
        )
    else:
        assert prepared.can_leave, "the job is in no place"
    missing = {id for ids in before.values() for id in ids} - {
        id for ids in prepared.database.read_members().values() for id in ids
    }
    assert missing <= {job.id}, f"other jobs are missing: {missing - {job.id}}"


def check_denied_write_loses_no_job(prepare_script: ScriptPreparer) -> None:
    """Assert that a script whose writes an ACL denies loses no job (assertion 2)."""
    prepared = prepare_script()
    commands = {name.lower() for name in re.findall(r"redis\.p?call\(\s*'([A-Z]+)'", prepared.script.source)}
    execute: Any = prepared.database.client.execute_command
    writes = {name.decode() for name in execute("ACL", "CAT", "write")}
    for command in sorted(commands & writes):
        prepared = prepare_script()
        before = prepared.database.read_members()
        try:
            prepared.run(prepared.database.create_restricted_client("~*", "+@all", f"-{command}"))
        except Denied:
            finished = set()
        else:
            finished = {prepared.targets[0].id} if prepared.can_leave else set()
        if prepared.can_leave and prepared.database.subject.facts(prepared.database.client, prepared.targets[0].id):
            finished = {prepared.targets[0].id}  # the stored data are enough to find and repair the job
        after = {id for ids in prepared.database.read_members().values() for id in ids}
        lost = {id for ids in before.values() for id in ids} - after - finished
        assert not lost, f"where {command} is denied, {lost} are lost"


def check_only_declared_keys_change(prepare_script: ScriptPreparer) -> None:
    """Assert that only keys that the script's header declares change (assertion 3)."""
    prepared = prepare_script()
    script, subject = prepared.script, prepared.database.subject
    names = {name for move in script.moves for name in (*move.sources, *move.targets)}
    names |= {*script.forgets, *script.writes}
    allowed = {prepared.request.keys.get(name) or subject.key(name) for name in names}
    before = prepared.database.dump()
    prepared.run()
    after = prepared.database.dump()
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    stray = {key for key in changed - allowed if not (script.derived and subject.is_derived(key))}
    stray_names = sorted(key.name for key in script.keys if subject.key(key.name) in stray) or sorted(stray)
    assert not stray, (
        f"the script changed {stray}; its header declares {sorted(names)}: name a key that is no place in a line "
        f"`-- writes   {' '.join(stray_names)}`, and a key that the script builds from ids in a line `-- derived`"
    )


def check_neighbours_stay(prepare_script: ScriptPreparer) -> None:
    """Assert that jobs before and after those the script acts on are unchanged, and keep their order (assertion 4)."""
    prepared = prepare_script()
    client, facts, moved = (
        prepared.database.client,
        prepared.database.subject.facts,
        {job.id for job in prepared.targets},
    )
    neighbours = [job.id for job in prepared.database.planted if job.id not in moved]
    orders, facts_before = prepared.database.read_members(), [facts(client, id) for id in neighbours]
    prepared.run()
    for place, ids in prepared.database.read_members().items():
        assert [id for id in ids if id not in moved] == [id for id in orders[place] if id not in moved], place
    assert [facts(client, id) for id in neighbours] == facts_before


def check_bodies_stay(prepare_script: ScriptPreparer) -> None:
    """Assert that the body of a job that a script moves does not change (assertion 5)."""
    prepared = prepare_script(number=3)  # includes jobs with long bodies
    before = prepared.database.read_bodies()
    prepared.run()
    for id, body in prepared.database.read_bodies().items():
        assert body == before[id] or (body is None and prepared.can_leave), (
            f"the body of {id!r} changed; `body` of the Subject returns the part that no verb changes, `facts` the rest"
        )


def check_second_run_is_refused(prepare_script: ScriptPreparer) -> None:
    """Assert that a second run of the same call returns a declared refusal and writes nothing (assertion 6)."""
    prepared = prepare_script()
    prepared.run()
    before = prepared.database.dump()
    assert_call_refused(prepared, prepared.run())
    assert_database_unchanged(prepared.database, before)


def check_unknown_job_is_refused(prepare_script: ScriptPreparer) -> None:
    """Assert that a call for an unknown job returns a declared refusal and writes nothing (assertion 7)."""
    prepared = prepare_script()
    before = prepared.database.dump()
    request = prepared.use.request([prepared.database.create_absent_job()])
    assert_call_refused(prepared, prepared.database.run(prepared.script, request))
    assert_database_unchanged(prepared.database, before)


def check_wrong_type_changes_nothing(prepare_script: ScriptPreparer) -> None:
    """Assert that a key of a wrong type gives an error and no write (assertion 8).

    If the call does not need the key, the effect is that of a missing key.
    """
    prepared = prepare_script(number=3)
    database = prepared.database
    before = database.dump()
    for request in _build_request_per_body_length(prepared):
        for key in prepared.script.keys:
            if key.type in ("any", "channel"):
                continue
            name = request.keys.get(key.name) or database.subject.key(key.name)
            database.client.delete(name)
            wrong_entry = keyspace.Entry(
                *(("list", [b"x"]) if key.type == "string" else ("string", b"another program's"))
            )
            keyspace.plant(database.client, {name: wrong_entry})
            try:
                reply = database.run(prepared.script, request)
            except RqtuiError:
                pass
            else:
                if prepared.script.name in database.subject.unguarded:
                    _assert_like_missing_key(database, prepared.script, request, name, before, reply, wrong_entry)
                    continue
                assert prepared.script.read_only, (
                    f"{key.name} holds another type, and the script replied {list_words(reply)}"
                )
            assert_database_unchanged(database, {**before, name: wrong_entry})
            database.client.delete(name)
            if name in before:
                keyspace.plant(database.client, {name: before[name]})


def _assert_like_missing_key(
    database: JobDatabase,
    script: Script,
    request: Request,
    name: str,
    before: keyspace.Keyspace,
    reply: Reply,
    wrong_entry: object,
) -> None:
    """Assert that a script treats a key of a wrong type, which the call does not need, as if the key were missing.

    The key must be unchanged. Afterwards the test database is in the state `before` again.
    """
    after = database.dump()
    assert after.pop(name) == wrong_entry, f"{name} holds another type, and the script wrote there"
    database.client.flushall()
    keyspace.plant(database.client, {key: entry for key, entry in before.items() if key != name})
    expected_reply = database.run(script, request)
    expected = database.dump()
    expected.pop(name, None)
    message = f"{name} holds another type, and the script replied {list_words(reply)}"
    assert reply == expected_reply and not keyspace.diff(_number_stream_ids(expected), _number_stream_ids(after)), (
        message
    )
    database.client.flushall()
    keyspace.plant(database.client, before)


def _number_stream_ids(entries: keyspace.Keyspace) -> keyspace.Keyspace:
    """Replace the ids of stream entries by numbers, because Redis takes the ids from its clock."""
    return {
        name: entry._replace(
            value=keyspace.Stream((str(number), fields) for number, (_id, fields) in enumerate(entry.value))
        )
        if entry.type == "stream"
        else entry
        for name, entry in entries.items()
    }


def _build_request_per_body_length(prepared: PreparedScript) -> list[Request]:
    """Return script arguments for a job with a short body, and others for a job with a long body.

    A system may store long bodies in other keys.
    """
    if prepared.use.chooses or not prepared.use.knows_jobs:
        return [prepared.use.request(prepared.targets[:1])]
    lengths = {
        len(prepared.database.subject.body(prepared.database.client, job.id) or b"") > 4096: job
        for job in prepared.targets
    }
    return [prepared.use.request([job]) for job in lengths.values()]


def fail_without_use(prepare_script: ScriptPreparer) -> None:
    """Fail, because the subject describes no way to call a script (`Use`)."""
    raise AssertionError("the subject has no Use for this script")


def check_outcome_is_reached(prepare_script: ScriptPreparer, word: str) -> None:
    """Assert that the call that the subject gives for a declared reply word returns that word (assertion 9)."""
    prepared = prepare_script()
    build_request = prepared.use.reach.get(word)
    request = build_request(prepared.database) if build_request else prepared.request
    assert word in list_words(prepared.database.run(prepared.script, request)), f"nothing brings the word {word}"


def check_only_declared_names_are_used(prepare_script: ScriptPreparer) -> None:
    """Assert that the text of a script uses only keys, arguments and words that its header declares (assertion 10)."""
    prepared = prepare_script()
    found = script_lint.find_header_differences(prepared.script, prepared.script.source, prepared.script.path)
    found += include_lint.list_include_faults(prepared.script)
    assert not found, "\n".join(found)


def check_only_declared_keys_are_used(prepare_script: ScriptPreparer) -> None:
    """Assert that a script runs with the rights to its declared keys only (assertion 10)."""
    prepared = prepare_script()
    keys = prepared.database.call(prepared.script, prepared.request).keys
    names = [key.decode() if isinstance(key, bytes) else key for key in keys]
    patterns = ["~" + re.sub(r"([*?\[\\])", r"\\\1", name) for name in names]
    patterns += ["~" + re.sub(r"<[a-z_]+>", "*", template) for template in prepared.script.derived]
    prepared.run(prepared.database.create_restricted_client("+@all", *patterns))


def check_batch_takes_the_oldest(prepare_script: ScriptPreparer) -> None:
    """Assert that a script that chooses its jobs takes the oldest ones, and not more than its limit (assertion 11)."""
    prepared = prepare_script(number=5)
    prepared.database.run(prepared.script, prepared.use.request(prepared.targets[:2]))
    taken = [job.id for job in prepared.targets if prepared.source not in prepared.find_places(job)]
    assert taken == [job.id for job in prepared.targets[:2]], f"a limit of 2 took {taken}"


def check_jobs_before_their_time_stay(prepare_script: ScriptPreparer) -> None:
    """Assert that a script that takes due jobs leaves jobs that are not due (assertion 11)."""
    prepared = prepare_script(number=3)
    expected = [
        id for id in prepared.database.read_members()[prepared.source] if id not in {job.id for job in prepared.targets}
    ]
    prepared.database.run(prepared.script, prepared.use.request(prepared.targets * 30))
    assert prepared.database.read_members()[prepared.source] == expected


def check_eval_ro_accepts(prepare_script: ScriptPreparer) -> None:
    """Assert that Redis accepts a read-only script with EVAL_RO (assertion 12)."""
    prepared = prepare_script()
    call = prepared.database.call(prepared.script, prepared.request)
    execute: Any = prepared.database.client.execute_command
    try:
        execute("EVAL_RO", prepared.script.source, len(call.keys), *call.keys, *call.argv)
    except ResponseError as error:
        raise AssertionError(str(error)) from error


def check_drains_over_maxmemory(prepare_script: ScriptPreparer) -> None:
    """Assert that a script that only removes or moves jobs works while Redis is over its memory limit."""
    prepared = prepare_script()
    expected = (list_words(prepared.run()), prepared.database.read_members())
    prepared = prepare_script()
    replies: list[Reply] = []
    run_with_full_memory(prepared, lambda: replies.append(prepared.run()))
    assert (list_words(replies[0]), prepared.database.read_members()) == expected


def check_fills_are_refused_over_maxmemory(prepare_script: ScriptPreparer) -> None:
    """Assert that a script that adds data fails while Redis is over its memory limit, and writes nothing."""
    prepared = prepare_script()
    before = prepared.database.dump()

    def expect_refusal() -> None:
        try:
            reply = prepared.run()
        except ServerError:
            return
        raise AssertionError(f"over maxmemory the script replied {list_words(reply)}")

    run_with_full_memory(prepared, expect_refusal)
    assert_database_unchanged(prepared.database, before)


def run_with_full_memory(prepared: PreparedScript, run: Callable[[], object]) -> None:
    """Call `run` while Redis is over maxmemory. The script is loaded before, so that only the call is tested."""
    client = prepared.database.client
    client.script_load(prepared.script.source)
    client.config_set("maxmemory", 1)
    try:
        run()
    finally:
        client.config_set("maxmemory", 0)


@dataclass(frozen=True)
class Assertion:
    """One assertion of the conformance suite: its number, its check, and to which scripts it applies."""

    number: int
    check: Callable[..., None]
    applies: Callable[[Script, Use, str], bool]
    needs: frozenset[str] = frozenset()


def _takes_from_place(script: Script, use: Use, source: str) -> bool:
    """Return whether a script moves jobs out of the place `source`."""
    return bool(script.moves) and source != ""


def _is_writing_script(script: Script, use: Use, source: str) -> bool:
    return not script.read_only


def _is_adding_jobs(script: Script, use: Use, source: str) -> bool:
    return bool(script.moves) and source == ""


ASSERTIONS = (
    Assertion(1, check_read_without_write, lambda script, use, source: script.read_only),
    Assertion(2, check_one_job_moves, lambda script, use, source: bool(script.moves)),
    Assertion(2, check_denied_write_loses_no_job, _takes_from_place, frozenset({"acl"})),
    Assertion(3, check_only_declared_keys_change, _is_writing_script),
    Assertion(4, check_neighbours_stay, _is_writing_script),
    Assertion(5, check_bodies_stay, _is_writing_script),
    Assertion(
        6,
        check_second_run_is_refused,
        lambda script, use, source: bool(script.moves) and not (use.chooses or use.repeats),
    ),
    Assertion(
        7,
        check_unknown_job_is_refused,
        lambda script, use, source: use.knows_jobs and not use.chooses and not _is_adding_jobs(script, use, source),
    ),
    Assertion(8, check_wrong_type_changes_nothing, lambda script, use, source: True),
    Assertion(10, check_only_declared_names_are_used, lambda script, use, source: True),
    Assertion(10, check_only_declared_keys_are_used, lambda script, use, source: True, frozenset({"acl"})),
    Assertion(
        11,
        check_batch_takes_the_oldest,
        lambda script, use, source: use.chooses and _takes_from_place(script, use, source),
    ),
    Assertion(11, check_jobs_before_their_time_stay, lambda script, use, source: use.ripe),
    Assertion(12, check_eval_ro_accepts, lambda script, use, source: script.read_only, frozenset({"eval_ro"})),
    Assertion(
        13,
        check_drains_over_maxmemory,
        lambda script, use, source: not script.read_only and not _is_adding_jobs(script, use, source),
        frozenset({"maxmemory"}),
    ),
    Assertion(13, check_fills_are_refused_over_maxmemory, _is_adding_jobs, frozenset({"maxmemory"})),
)


@dataclass(frozen=True)
class Case:
    """One assertion about one script of a system and one place from which the script takes jobs."""

    number: int
    script: str
    source: str
    check: Callable[..., None]
    needs: frozenset[str]
    word: str = ""

    def __str__(self) -> str:
        subject = "-".join(part for part in (self.script, self.source, self.word) if part)
        return f"{subject}-{self.number}-{self.check.__name__}"

    def run(self, subject: Subject, client: Redis) -> None:
        """Run the assertion of this case on an empty test database. Raises AssertionError if it fails."""

        def prepare_script(number: int = 1) -> PreparedScript:
            return PreparedScript.build(subject, client, self.script, self.source, number)

        self.check(prepare_script, self.word) if self.word else self.check(prepare_script)


def cases(subject: Subject, names: Iterable[str] = (), alike: bool = False) -> list[Case]:
    """Return the test cases of all scripts of a system, or of the scripts in `names`.

    A script without a `Use` has one case, which fails. Several source places of a script may be equivalent: with
    `alike`, the cases are those of the places that are equivalent to another one, without it those of the other places.
    """
    return [case for name in names or sorted(subject.scripts) for case in _yield_script_cases(subject, name, alike)]


def _yield_script_cases(subject: Subject, name: str, alike: bool) -> Iterator[Case]:
    script, use = subject.scripts[name], subject.uses.get(name)
    if use is None:
        yield Case(0, name, "", fail_without_use, frozenset())
        return
    all_sources = use.sources or sorted(script.sources) or [""]
    own_sources = [source for source in all_sources if source not in subject.alike] or [*all_sources]
    sources = [source for source in all_sources if source not in own_sources] if alike else own_sources
    for source in sources:
        for assertion in ASSERTIONS:
            if assertion.applies(script, use, source):
                yield Case(assertion.number, name, source, assertion.check, assertion.needs)
    for word in () if alike else script.returns:
        yield Case(9, name, sources[0], check_outcome_is_reached, frozenset(), word)


def run_all(cases: Iterable[Case], subject: Subject, client: Redis) -> None:
    """Run the test cases that the server supports; fail with the names and errors of all cases that failed."""
    supported = detect_server_features(client)
    failed: dict[str, Exception] = {}
    for case in (case for case in cases if supported.issuperset(case.needs)):
        try:
            case.run(subject, client)
        except Exception as error:
            error.add_note(f"in the case {case}")
            failed[str(case)] = error
    if failed:
        raise ExceptionGroup(f"{len(failed)} cases failed: {'; '.join(failed)}", [*failed.values()])


@dataclass(frozen=True)
class Planted:
    """A fault planted in a verb's script: `old` becomes `new` (`%s`: the old text). Assertion `caught` must fail."""

    name: str
    verb: str
    old: str
    new: str
    caught: int

    def __str__(self) -> str:
        return self.name

    def is_caught(self, subject: Subject, client: Redis) -> bool:
        """Return whether the expected assertion detects the planted fault."""
        script = subject.scripts[self.verb]
        assert self.old in script.source, "the script changed; plant the fault elsewhere"
        text = script.source.replace(self.old, self.new.replace("%s", self.old), 1)
        faulty_subject = replace(
            subject, scripts={**subject.scripts, self.verb: scripts.parse_script(text, script.path)}
        )
        for case in cases(faulty_subject, [self.verb]):
            if case.number == self.caught:
                try:
                    case.run(faulty_subject, client)
                except (AssertionError, RqtuiError):
                    return True
        return False


FEATURES = frozenset({"acl", "eval_ro", "maxmemory"})


def detect_server_features(client: Redis) -> frozenset[str]:
    """Return which FEATURES the Redis server has. fakeredis has none: it enforces no ACL inside scripts."""
    try:
        info = client.info("server")
    except Exception:
        return frozenset()
    version = info.get("redis_version", "0")
    return FEATURES if int(version.split(".")[0]) >= 7 else FEATURES - {"eval_ro"}
