"""Which of the conformance suite's checks notice which wrong script: `conformance_kept.txt` has every verdict.

The scripts are functions, so that each fault is a line. `RQTUI_WRITE_SNAPSHOTS=1 pytest
tests/testing/test_conformance_kept.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fakeredis
import pytest
from kept_text import assert_lines_match_file
from redis import Redis
from redis.exceptions import ResponseError

from rqtui.errors import Denied, RqtuiError, ServerError
from rqtui.scripts.script import Reply, Script, parse_script
from rqtui.testing import conformance, subject
from rqtui.testing.subject import JobDatabase, Planted, PreparedScript, Request, Subject, Use

KEPT = Path(__file__).with_name("conformance_kept.txt")
PLACES = ("scheduled", "ready", "dead", "done")
KEYS = (
    "-- KEYS     scheduled  list\n--          ready      list\n--          dead       list\n"
    "--          done       list\n--          jobs       hash\n--          notes      hash\n"
    "--          flag       string\n--          odd        any\n"
    "--          heard      channel\n"
)
EACH = f"{KEYS}-- ARGV     each (id bytes)\n-- returns each  moved\n--               gone\n--               wrong\n"
HEADERS = {
    "move": "-- Move.\n--\n-- moves    scheduled -> ready | done\n--          dead ->\n-- writes   notes\n"
    f"-- derived  k:job:<id>\n{EACH}",
    "put": f"-- Put.\n--\n-- moves    -> ready\n-- writes   notes\n{EACH}",
    "mark": f"-- Mark.\n--\n-- forgets  done\n-- writes   notes\n{EACH}",
    "take": f"-- Take.\n--\n-- moves    scheduled -> ready\n{KEYS}-- ARGV     limit  int\n"
    "-- returns  moved\n--          none\n",
    "read": f"-- Read.\n--\n{EACH}",
}
NAMES = [*PLACES, "jobs", "notes", "flag", "odd", "heard"]
TYPES = {"jobs": "hash", "notes": "hash", "flag": "string"}


class Client(fakeredis.FakeRedis):
    """A client of fakeredis with the commands that it lacks. `rules` are those of a restricted client."""

    rules: tuple[str, ...] = ()
    is_full = False
    is_loaded = False
    refuses_eval = False

    def execute_command(self, *words: Any, **options: Any) -> Any:
        if words[0] == "ACL":
            return [b"rpush", b"lrem", b"hset", b"del"]
        if words[0] == "EVAL_RO":
            if self.refuses_eval:
                raise ResponseError(f"write of {words[2]} keys {words[3]}, {len(words)} words")
            return None
        if words[0] == "CONFIG SET":
            self.is_full = words[2] != 0
            return "OK"
        if words[0] == "SCRIPT LOAD":
            self.is_loaded = True
            return "sha"
        return super().execute_command(*words, **options)


class RestrictedClient:
    """A client whose user has only some rights, which only the tested functions know."""

    def __init__(self, client: Redis, rules: tuple[str, ...]) -> None:
        self.client, self.rules = client, rules

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


def restrict(database: JobDatabase, *rules: str) -> Any:
    return RestrictedClient(database.client, rules)


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    client.rpush(f"k:{place}", *ids)
    client.hset("k:jobs", mapping={id: b"x" * (5000 if id.endswith((b"6", b"9")) else 5) for id in ids})
    client.set("k:flag", "up")
    if ripe:
        client.hset("k:notes", mapping=dict.fromkeys(ids, b"ripe"))
    return [Planted(id, place) for id in ids]


def build_subject(name: str, source: str, use: Use, **options: Any) -> Subject:
    script = parse_script(HEADERS[name] + source, f"lua/tried/{name}.lua")

    return Subject(
        name,
        {name: script},
        PLACES,
        "k:{}".format,
        plant,
        lambda client, place: client.lrange(f"k:{place}", 0, -1),
        lambda client, id: (client.hget("k:jobs", id), client.get(f"k:job:{id.decode()}")),
        lambda client, id: client.hget("k:jobs", id),
        {name: use},
        is_derived=lambda key: key.startswith("k:job:"),
        **options,
    )


# ── scripts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Effect = Callable[[Any, list[bytes]], Any]


def check_types(client: Any, names: Sequence[str] = NAMES[:7]) -> None:
    for name in names:
        kind = client.type(f"k:{name}").decode()
        if kind not in ("none", TYPES.get(name, "list")):
            raise ServerError(f"{name} holds a {kind}")


def move_with(
    also: Callable[[Any, bytes], object] = lambda *_: None,
    unknown: Callable[[Any, bytes], object] = lambda *_: None,
    *,
    target: str = "ready",
    takes: bool = True,
    puts: bool = True,
    word: str = "gone",
    success: str = "moved",
    types: Sequence[str] = NAMES[:7],
) -> Effect:
    """Return a script that moves jobs from `scheduled` or removes them from `dead`, and does more per job."""

    def move(client: Any, ids: list[bytes]) -> list[str]:
        check_types(client, types)
        words = []
        for id in ids:
            found = [place for place in ("scheduled", "dead") if client.lpos(f"k:{place}", id) is not None]
            if not found:
                unknown(client, id)
                words.append(word)
                continue
            if takes:
                client.lrem(f"k:{found[0]}", 1, id)
            if puts and found[0] == "scheduled":
                client.rpush(f"k:{target}", id)
            also(client, id)
            words.append(success)
        return words

    return move


def lose_when_denied(client: Any, ids: list[bytes]) -> list[str]:
    move_with(puts=False)(client.client, ids)
    raise Denied("no rights")


def keep_when_denied(client: Any, ids: list[bytes]) -> list[str]:
    if "-rpush" in client.rules:
        raise Denied("no rights")
    return list(move_with()(client.client, ids))


def finish_when_denied(client: Any, ids: list[bytes]) -> list[str]:
    return list(move_with(puts=False)(client.client, ids))


def forget_when_denied(client: Any, ids: list[bytes]) -> list[str]:
    move_with(lambda redis, id: redis.hdel("k:jobs", id), puts=False)(client.client, ids)
    client.client.lpop("k:ready")
    raise Denied("no rights")


def reverse(client: Any, _id: bytes) -> None:
    values = client.lrange("k:ready", 0, -1)
    client.delete("k:ready")
    client.rpush("k:ready", *values[::-1])


def fail_if_full(client: Any, _id: bytes) -> None:
    if client.is_full:
        raise ServerError("over maxmemory" if client.is_loaded else "the script is not loaded")


def stop_if_full(client: Any, ids: list[bytes]) -> list[str]:
    return ["gone"] * len(ids) if client.is_full else list(move_with()(client, ids))


def ignore_unreadable(client: Any, ids: list[bytes]) -> Any:
    """Act as if a note of a wrong type were missing."""
    return list(move_with(types=[name for name in NAMES[:7] if name != "notes"])(client, ids))


def write_over_wrong_type(client: Any, ids: list[bytes]) -> list[str]:
    if client.type("k:notes") == b"string":
        client.set("k:notes", "mine")
    return ignore_unreadable(client, ids)


def act_differently(client: Any, ids: list[bytes]) -> list[str]:
    if client.type("k:notes") == b"string":
        client.rpush("k:dead", b"more")
    return ignore_unreadable(client, ids)


def answer_differently(client: Any, ids: list[bytes]) -> list[str]:
    return ["wrong"] * len(ids) if client.type("k:notes") == b"string" else ignore_unreadable(client, ids)


def note_if_possible(client: Any, ids: list[bytes]) -> list[str]:
    words = ignore_unreadable(client, ids)
    if "moved" in words and client.type("k:notes") != b"string":
        client.hset("k:notes", "x", 1)
    return words


def add_events(client: Any, ids: list[bytes]) -> list[str]:
    client.xadd("k:events", {"ids": b" ".join(ids)})
    return ignore_unreadable(client, ids)


MOVES: dict[str, Effect] = {
    "is right": move_with(),
    "goes to another declared place": move_with(target="done"),
    "goes to a wrong place": move_with(target="dead"),
    "loses the job": move_with(puts=False),
    "leaves the job": move_with(takes=False),
    "leaves the job where it was": move_with(takes=False, puts=False),
    "notes the job": move_with(lambda client, id: client.hset("k:notes", id, 1)),
    "sets a derived key": move_with(lambda client, id: client.set(f"k:job:{id.decode()}", 1)),
    "sets a key that it does not declare to write": move_with(lambda client, id: client.set("k:flag", 1)),
    "sets an undeclared key": move_with(lambda client, id: client.set("stray", 1)),
    "takes a neighbour along": move_with(lambda client, id: client.lpop("k:ready")),
    "takes a neighbour of the source along": move_with(lambda client, id: client.rpop("k:scheduled")),
    "changes the order": move_with(reverse),
    "changes another job": move_with(lambda client, id: client.set("k:job:dead-3", "x")),
    "changes another body": move_with(lambda client, id: client.hset("k:jobs", "dead-3", "x")),
    "changes the body": move_with(lambda client, id: client.hset("k:jobs", id, "y")),
    "deletes the body": move_with(lambda client, id: client.hdel("k:jobs", id)),
    "acts on an unknown job": move_with(unknown=lambda client, id: client.rpush("k:ready", id)),
    "says that an unknown job moved": move_with(word="moved"),
    "says another word of an unknown job": move_with(word="wrong"),
    "says another word": move_with(success="wrong"),
    "says an undeclared word": move_with(success="unheard"),
    "says nothing": lambda client, ids: move_with()(client, ids) and [],
    "checks no types": move_with(types=()),
    "does not check the flag": move_with(types=NAMES[:6]),
    "fails over maxmemory": move_with(fail_if_full),
    "moves nothing over maxmemory": stop_if_full,
}
UNGUARDED: dict[str, Effect] = {
    "treats a wrong type as a missing key": ignore_unreadable,
    "writes over a wrong type": write_over_wrong_type,
    "acts on a wrong type": act_differently,
    "answers to a wrong type": answer_differently,
    "adds events": add_events,
    "writes a note if it can": note_if_possible,
    "checks no types": move_with(types=()),
}
DENIED: dict[str, Effect] = {
    "keeps the job": keep_when_denied,
    "loses the job": lose_when_denied,
    "finishes the job": finish_when_denied,
    "loses another job with its body": forget_when_denied,
}


def put_jobs(client: Any, ids: list[bytes]) -> list[str]:
    check_types(client)
    fail_if_full(client, b"")
    client.rpush("k:ready", *ids)
    return ["moved"] * len(ids)


def note_and_put(client: Any, ids: list[bytes]) -> list[str]:
    client.hset("k:notes", "x", 1)
    return put_jobs(client, ids)


PUTS: dict[str, Effect] = {
    "is right": put_jobs,
    "writes, and fails over maxmemory": note_and_put,
    "puts over maxmemory": lambda client, ids: client.rpush("k:ready", *ids) and ["moved"] * len(ids),
    "puts nothing": lambda client, ids: ["moved"] * len(ids),
    "puts into a wrong place": lambda client, ids: client.rpush("k:dead", *ids) and ["moved"] * len(ids),
}


def mark(client: Any, ids: list[bytes]) -> list[str]:
    check_types(client)
    for id in ids:
        client.hset("k:notes", id, 1)
    client.lpop("k:done")
    return ["moved"] * len(ids)


READS: dict[str, Effect] = {
    "is right": lambda client, ids: check_types(client) or ["moved"] * len(ids),
    "checks no types": lambda client, ids: ["moved"] * len(ids),
    "finds nothing": lambda client, ids: check_types(client) or ["gone"] * len(ids),
    "writes": mark,
    "writes for wrong types": lambda client, ids: client.set("stray", 1) and ["moved"] * len(ids),
}


def take(number: Callable[[int], int] = lambda limit: limit, side: str = "lpop", *, ripe: bool = False) -> Effect:
    """Return a script that chooses jobs of `scheduled`: as many as `number` of its limit, from one side."""

    def take_jobs(client: Any, argv: list[bytes]) -> str:
        check_types(client)
        for _ in range(number(int(argv[0]))):
            due = [id for id in client.lrange("k:scheduled", 0, -1) if not ripe or client.hexists("k:notes", id)]
            if due:
                id = due[0 if side == "lpop" else -1]
                client.lrem("k:scheduled", 1, id)
                client.rpush("k:ready", id)
        return "moved"

    return take_jobs


TAKES: dict[str, Effect] = {
    "is right": take(),
    "takes due jobs": take(ripe=True),
    "takes one more": take(lambda limit: limit + 1, ripe=True),
    "takes one less": take(lambda limit: limit - 1, ripe=True),
    "takes the newest": take(side="rpop", ripe=True),
}


def build_each(jobs: Sequence[Planted]) -> Request:
    return Request(rows=[(job.id,) for job in jobs])


def build_limit(jobs: Sequence[Planted]) -> Request:
    return Request({"limit": len(jobs)})


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def judge(check: Callable[..., None], of: Subject, client: Any, source: str, effect: Effect, *args: str) -> str:
    """Return the first line of what a check says about a script with this effect."""
    name = of.name

    def run_call(redis: Any, call: Any) -> Reply:
        words = effect(redis, [value for value in call.argv])
        if isinstance(words, str):
            return Reply(words)
        return Reply("", each=[Reply(word) for word in words])

    def prepare_script(number: int = 1) -> PreparedScript:
        return PreparedScript.build(of, client, name, source, number)

    client.is_loaded = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject, "scripts", SimpleNamespace(run_call=run_call))
        patch.setattr(JobDatabase, "create_restricted_client", restrict)
        try:
            check(prepare_script, *args)
        except (AssertionError, RqtuiError, ResponseError) as error:
            text = f"{type(error).__name__}: {error}".replace("\n", " / ").split("never used", 1)[0]
            text = re.sub(r"\d{13}-\d+", "TIME", text)
            return re.sub(r"(?<=\{)b?'[^{}:]*'(?=\})", lambda names: ", ".join(sorted(names[0].split(", "))), text)
    return "passes"


def list_checks(script: Script, use: Use, source: str) -> list[Callable[..., None]]:
    return [each.check for each in conformance.ASSERTIONS if each.applies(script, use, source)]


def describe() -> Iterator[str]:
    subject._SAVED_DATABASES.clear()
    client = Client()
    plain, with_reads = Use(build_each), Use(build_each, reads=lambda database, reply: check_reply(reply))
    anywhere, due = Use(build_each, knows_jobs=False, repeats=True), Use(build_limit, chooses=True, ripe=True)
    cases: tuple[tuple[str, str, Use, dict[str, Effect], dict[str, Any]], ...] = (
        ("move", "scheduled", plain, MOVES, {}),
        ("move", "dead", plain, {title: MOVES[title] for title in [*MOVES][:4] + [*MOVES][16:18]}, {}),
        ("move", "scheduled", plain, UNGUARDED, {"unguarded": frozenset({"move"})}),
        ("put", "", plain, PUTS, {}),
        ("mark", "ready", anywhere, {"is right": mark, "checks no types": READS["writes for wrong types"]}, {}),
        ("read", "ready", with_reads, READS, {}),
        ("take", "scheduled", due, TAKES, {}),
    )
    for name, source, use, effects, options in cases:
        of = build_subject(name, "return {'moved'}\n", use, **options)
        script = of.scripts[name]
        checks = list_checks(script, use, source)
        yield f"== {name} {source}: {' '.join(check.__name__ for check in checks)}"
        for title, effect in effects.items():
            for check in checks:
                if check not in ONCE or title == "is right" or (check is WRONG_TYPE and title in SLOW):
                    verdict = judge(check, of, client, source, effect)
                    if verdict != "passes" or title == "is right":
                        yield f"{name} {title}: {check.__name__}: {verdict}"
    of = build_subject("move", "redis.call('RPUSH', 'a', 'LREM') redis.pcall('GET', 1)\n", plain)
    for source in ("scheduled", "dead"):
        for title, effect in DENIED.items():
            verdict = judge(conformance.check_denied_write_loses_no_job, of, client, source, effect)
            yield f"denied, from {source}: {title}: {verdict}"
    yield from describe_rights(client)
    for word in ("moved", "gone", "wrong"):
        reached = replace(plain, reach={"gone": lambda database: build_each([database.create_absent_job()])})
        of = build_subject("move", "", reached)
        verdict = judge(conformance.check_outcome_is_reached, of, client, "scheduled", move_with(), word)
        yield f"word {word}: {verdict}"
    client.refuses_eval = True
    of = build_subject("read", "return {'moved'}\n", plain)
    yield f"EVAL_RO: {judge(conformance.check_eval_ro_accepts, of, client, 'ready', READS['is right'])}"
    for code in ("return KEYS[99]\n", "  -- include: x\nlocal a, b, c, d = unpack(KEYS)\n"):
        of = build_subject("take", code, due)
        verdict = judge(conformance.check_only_declared_names_are_used, of, client, "scheduled", take())
        yield f"names: {verdict}"


WRONG_TYPE = conformance.check_wrong_type_changes_nothing
SLOW = {"does not check the flag", "checks no types", "writes for wrong types", "fails over maxmemory", *UNGUARDED}
ONCE = {
    WRONG_TYPE,
    conformance.check_denied_write_loses_no_job,
    conformance.check_only_declared_keys_are_used,
    conformance.check_only_declared_names_are_used,
    conformance.check_eval_ro_accepts,
}


def check_reply(reply: Reply) -> None:
    if reply.each[0].word != "moved":
        raise AssertionError("the reader found nothing")


def describe_rights(client: Any) -> Iterator[str]:
    """Yield the rules of the user with which a script runs that may use its declared keys only."""

    def fail_with_rules(redis: Any, _ids: list[bytes]) -> list[str]:
        raise Denied(" ".join(redis.rules))

    of = build_subject("move", "", Use(build_each))
    of = replace(of, key="k[a]*?{}".format)
    verdict = judge(conformance.check_only_declared_keys_are_used, of, client, "scheduled", fail_with_rules)
    yield f"rights: {verdict}"


def describe_cases() -> Iterator[str]:
    """Yield the names of the cases of a script, of each kind of `Use`."""
    for name in HEADERS:
        for title, use in {
            "plain": Use(build_each),
            "chooses": Use(build_each, chooses=True),
            "ripe": Use(build_each, ripe=True),
            "repeats": Use(build_each, repeats=True),
            "whole queue": Use(build_each, knows_jobs=False),
            "sources": Use(build_each, sources=("ready", "done")),
        }.items():
            of = build_subject(name, "", use)
            for alike in (frozenset[str](), frozenset({"ready", "dead"}), frozenset(PLACES)):
                for is_alike in (False, True):
                    names = [
                        f"{case.number}/{'/'.join(sorted(case.needs))}/{case}"
                        for case in conformance.cases(replace(of, alike=alike), alike=is_alike)
                    ]
                    yield f"{name} {title} {sorted(alike)} {is_alike}: {shorten(names)}"
    for title, use in {
        "plain": Use(build_each),
        "chooses": Use(build_limit, chooses=True),
        "whole queue": Use(build_limit, knows_jobs=False),
    }.items():
        of = build_subject("move" if title == "plain" else "take", "", use)
        for number in (1, 3):
            prepared = PreparedScript.build(of, Client(), of.name, "scheduled", number)
            yield f"requests {title}, {number} jobs: {conformance._build_request_per_body_length(prepared)}"
    of = replace(build_subject("move", "", Use(build_each)), uses={})
    yield f"without a use: {[str(case) for case in conformance.cases(of, ['move'])]}"


def shorten(names: Sequence[str]) -> str:
    return re.sub("check_([a-z_]+)", lambda match: "".join(word[0] for word in match[1].split("_")), " ".join(names))


def describe_runs() -> Iterator[str]:
    """Yield which cases run on which server, and which of them fail."""
    client = Client()
    use = Use(build_each)
    of = build_subject("read", "local a = KEYS[99]\nreturn {'moved'}\n", use)
    for version in ("6.2.7", "7.0.0", "10.1", None):
        server: Any = SimpleNamespace(
            info=lambda _section, version=version: {"redis_version": version} if version else 1 / 0
        )
        yield f"features of {version}: {sorted(conformance.detect_server_features(server))}"
    unversioned = SimpleNamespace(info=lambda _: {})
    yield f"features without a version: {sorted(conformance.detect_server_features(unversioned))}"
    for features in (frozenset[str](), conformance.FEATURES):
        ran: list[str] = []

        class Case(conformance.Case):
            def run(self, of: Subject, client: Redis, ran: list[str] = ran) -> None:
                ran.append(f"{self.number}")
                if self.number in (2, 12):
                    raise AssertionError(f"case {self.number}")

        for numbers in ((1, 12), (1, 3), (1, 2, 12)):
            ran.clear()
            cases = [
                Case(n, "s", "", conformance.check_bodies_stay, frozenset({"acl"} if n == 12 else ())) for n in numbers
            ]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(conformance, "detect_server_features", lambda _client, features=features: features)
                try:
                    conformance.run_all(cases, of, client)
                    failed = "none"
                except ExceptionGroup as error:
                    failed = f"{error} {[each.__notes__ for each in error.exceptions]}"
            yield f"run {numbers} with {sorted(features)}: ran {ran}, failed: {failed}"
    try:
        conformance.cases(replace(of, uses={}))[0].run(of, client)
    except AssertionError as error:
        yield f"without a use: {error}"


@pytest.mark.slow
def test_each_check_notices_what_the_stored_text_says() -> None:
    assert_lines_match_file([*describe(), *describe_cases(), *describe_runs()], KEPT)
