"""What every layout must keep: thirteen assertions on the whole database before and after each script.

A layout is described by a `Subject`: its scripts, its places, how jobs are planted there *as the real system writes
them* (raw commands, never our own scripts), and for each script a `Use` that says how it is asked. `cases` makes one
`Case` of each assertion × script × source place; a layout's test file runs them. Nothing here knows any layout.

     1 reads what the real system wrote, and reading wrote nothing      9 every declared word is reached
     2 one job left its source and arrived in a declared target        10 only declared keys and arguments are used
     3 only declared keys changed                                      11 a batch: its limit, oldest first, what is due
     4 neighbours are untouched, in order                              12 a read-only script passes the read-only call
     5 bodies are unchanged                                            13 over maxmemory drains drain, fills refuse
     6 run again: a declared refusal, nothing written                     (a refused write loses no job: part of 2)
     7 an unknown job: the same
     8 a key of a wrong type: an error and nothing written, or all as where the key is not, when the call needs none
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
from rqtui.scripts.script import Answer, Script
from rqtui.testing import keyspace, script_lint
from rqtui.testing.subject import Request, Scene, Subject, Use, World, words_of


def nothing_written(world: World, before: keyspace.Keyspace) -> None:
    assert not (found := keyspace.diff(before, world.dump())), "it wrote:\n" + "\n".join(found)


def refused(scene: Scene, answer: Answer) -> None:
    """Every word is one the header declares, and none says that it happened."""
    done = next(iter(scene.script.returns))
    assert words_of(answer) and done not in words_of(answer), f"it answered {words_of(answer)}"


# --- the assertions: each gets a scene maker for one script and one source place ------------------------------------

Make = Callable[..., Scene]


def reads_what_the_system_wrote(make: Make) -> None:
    scene = make()
    before = scene.world.dump()
    answer = scene.run()
    nothing_written(scene.world, before)
    if scene.use.reads:
        scene.use.reads(scene.world, answer)


def one_job_moves(make: Make) -> None:
    scene = make()
    job, before = scene.targets[0], scene.world.members()
    scene.run()
    homes = scene.homes(job)
    assert len(homes) <= 1, f"the job stands in {homes}"
    if homes:
        assert homes[0] in scene.goals, f"the job went to {homes[0]}, the header says {scene.goals}"
    else:
        assert scene.may_leave, "the job is nowhere"
    gone = {id for ids in before.values() for id in ids} - {id for ids in scene.world.members().values() for id in ids}
    assert gone <= {job.id}, f"other jobs are gone: {gone - {job.id}}"


def a_refused_write_loses_no_job(make: Make) -> None:
    scene = make()
    denied = {name.lower() for name in re.findall(r"redis\.p?call\(\s*'([A-Z]+)'", scene.script.source)}
    execute: Any = scene.world.client.execute_command
    writes = {name.decode() for name in execute("ACL", "CAT", "write")}
    for command in sorted(denied & writes):
        scene = make()
        before = scene.world.members()
        try:
            scene.run(scene.world.as_user("~*", "+@all", f"-{command}"))
        except Denied:
            left = set()
        else:
            left = {scene.targets[0].id} if scene.may_leave else set()
        if scene.may_leave and scene.world.subject.facts(scene.world.client, scene.targets[0].id):
            left = {scene.targets[0].id}  # what is kept of it is enough to find and repair it
        after = {id for ids in scene.world.members().values() for id in ids}
        lost = {id for ids in before.values() for id in ids} - after - left
        assert not lost, f"where {command} is denied, {lost} are lost"


def only_declared_keys_change(make: Make) -> None:
    scene = make()
    script, subject = scene.script, scene.world.subject
    names = {name for move in script.moves for name in (*move.sources, *move.targets)}
    names |= {*script.forgets, *script.writes}
    allowed = {scene.request.keys.get(name) or subject.key(name) for name in names}
    before = scene.world.dump()
    scene.run()
    after = scene.world.dump()
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    stray = {key for key in changed - allowed if not (script.derived and subject.is_derived(key))}
    assert not stray, f"it changed {stray}; its header declares {sorted(names)}"


def neighbours_stay(make: Make) -> None:
    scene = make()
    client, facts, moved = scene.world.client, scene.world.subject.facts, {job.id for job in scene.targets}
    neighbours = [job.id for job in scene.world.planted if job.id not in moved]
    orders, known = scene.world.members(), [facts(client, id) for id in neighbours]
    scene.run()
    for place, ids in scene.world.members().items():
        assert [id for id in ids if id not in moved] == [id for id in orders[place] if id not in moved], place
    assert [facts(client, id) for id in neighbours] == known


def bodies_stay(make: Make) -> None:
    scene = make(number=3)  # long ones among them
    before = scene.world.bodies()
    scene.run()
    for id, body in scene.world.bodies().items():
        assert body == before[id] or (body is None and scene.may_leave), f"the body of {id!r} changed"


def again_is_refused(make: Make) -> None:
    scene = make()
    scene.run()
    before = scene.world.dump()
    refused(scene, scene.run())
    nothing_written(scene.world, before)


def an_unknown_job_is_refused(make: Make) -> None:
    scene = make()
    before = scene.world.dump()
    request = scene.use.request([scene.world.new()])
    refused(scene, scene.world.run(scene.script, request))
    nothing_written(scene.world, before)


def a_wrong_type_changes_nothing(make: Make) -> None:
    scene = make(number=3)
    world = scene.world
    before = world.dump()
    for request in _one_for_each_length(scene):
        for key in scene.script.keys:
            if key.type in ("any", "channel"):
                continue
            name = request.keys.get(key.name) or world.subject.key(key.name)
            world.client.delete(name)
            other = keyspace.Entry(*(("list", [b"x"]) if key.type == "string" else ("string", b"another program's")))
            keyspace.plant(world.client, {name: other})
            try:
                answer = world.run(scene.script, request)
            except RqtuiError:
                pass
            else:
                if scene.script.name in world.subject.unguarded:
                    _as_without(world, scene.script, request, name, before, answer, other)
                    continue
                assert scene.script.read_only, f"{key.name} holds another type, and it answered {words_of(answer)}"
            nothing_written(world, {**before, name: other})
            world.client.delete(name)
            if name in before:
                keyspace.plant(world.client, {name: before[name]})


def _as_without(
    world: World, script: Script, request: Request, name: str, before: keyspace.Keyspace, answer: Answer, theirs: object
) -> None:
    """A call that has no need of a key does what it does where there is none, and lets it be. Ends as `before`."""
    ends = world.dump()
    assert ends.pop(name) == theirs, f"{name} holds another type, and it wrote there"
    world.client.flushall()
    keyspace.plant(world.client, {key: entry for key, entry in before.items() if key != name})
    without = world.run(script, request)
    expected = world.dump()
    expected.pop(name, None)
    what = f"{name} holds another type, and it answered {words_of(answer)}"
    assert answer == without and not keyspace.diff(expected, ends), what
    world.client.flushall()
    keyspace.plant(world.client, before)


def _one_for_each_length(scene: Scene) -> list[Request]:
    """A request for one job; another for one whose body is long, or short: it may stand in other keys."""
    if scene.use.chooses or not scene.use.knows_jobs:
        return [scene.use.request(scene.targets[:1])]
    lengths = {len(scene.world.subject.body(scene.world.client, job.id) or b"") > 4096: job for job in scene.targets}
    return [scene.use.request([job]) for job in lengths.values()]


def somebody_says_how_to_ask_it(make: Make) -> None:
    raise AssertionError("the subject has no Use for this script")


def a_word_is_reached(make: Make, word: str) -> None:
    scene = make()
    way = scene.use.reach.get(word)
    request = way(scene.world) if way else scene.request
    assert word in words_of(scene.world.run(scene.script, request)), f"nothing brings the word {word}"


def only_declared_names_are_used(make: Make) -> None:
    scene = make()
    found = script_lint.faults(scene.script, scene.script.source, scene.script.path)
    assert not found, "\n".join(found)


def only_declared_keys_are_touched(make: Make) -> None:
    scene = make()
    keys = scene.world.call(scene.script, scene.request).keys
    names = [key.decode() if isinstance(key, bytes) else key for key in keys]
    patterns = ["~" + re.sub(r"([*?\[\\])", r"\\\1", name) for name in names]
    patterns += ["~" + re.sub(r"<[a-z_]+>", "*", template) for template in scene.script.derived]
    scene.run(scene.world.as_user("+@all", *patterns))


def a_batch_takes_the_oldest(make: Make) -> None:
    scene = make(number=5)
    scene.world.run(scene.script, scene.use.request(scene.targets[:2]))
    taken = [job.id for job in scene.targets if scene.source not in scene.homes(job)]
    assert taken == [job.id for job in scene.targets[:2]], f"a limit of 2 took {taken}"


def what_is_not_due_stays(make: Make) -> None:
    scene = make(number=3)
    rest = [id for id in scene.world.members()[scene.source] if id not in {job.id for job in scene.targets}]
    scene.world.run(scene.script, scene.use.request(scene.targets * 30))
    assert scene.world.members()[scene.source] == rest


def the_read_only_call_takes_it(make: Make) -> None:
    scene = make()
    call = scene.world.call(scene.script, scene.request)
    execute: Any = scene.world.client.execute_command
    try:
        execute("EVAL_RO", scene.script.source, len(call.keys), *call.keys, *call.argv)
    except ResponseError as error:
        raise AssertionError(str(error)) from error


def drains_go_on_over_maxmemory(make: Make) -> None:
    scene = make()
    expected = (words_of(scene.run()), scene.world.members())
    scene = make()
    answers: list[Answer] = []
    with_memory_full(scene, lambda: answers.append(scene.run()))
    assert (words_of(answers[0]), scene.world.members()) == expected


def fills_are_refused_over_maxmemory(make: Make) -> None:
    scene = make()
    before = scene.world.dump()

    def attempt() -> None:
        try:
            answer = scene.run()
        except ServerError:
            return
        raise AssertionError(f"over maxmemory it answered {words_of(answer)}")

    with_memory_full(scene, attempt)
    nothing_written(scene.world, before)


def with_memory_full(scene: Scene, act: Callable[[], object]) -> None:
    """Run `act` while Redis uses more memory than it may. The script is loaded before: that is no part of the test."""
    client = scene.world.client
    client.script_load(scene.script.source)
    client.config_set("maxmemory", 1)
    try:
        act()
    finally:
        client.config_set("maxmemory", 0)


@dataclass(frozen=True)
class Assertion:
    number: int
    check: Callable[..., None]
    applies: Callable[[Script, Use, str], bool]
    needs: frozenset[str] = frozenset()


def _takes(script: Script, use: Use, source: str) -> bool:
    return bool(script.moves) and source != ""


def _changes(script: Script, use: Use, source: str) -> bool:
    return not script.read_only


def _fills(script: Script, use: Use, source: str) -> bool:
    return bool(script.moves) and source == ""


ASSERTIONS = (
    Assertion(1, reads_what_the_system_wrote, lambda script, use, source: script.read_only),
    Assertion(2, one_job_moves, lambda script, use, source: bool(script.moves)),
    Assertion(2, a_refused_write_loses_no_job, _takes, frozenset({"acl"})),
    Assertion(3, only_declared_keys_change, _changes),
    Assertion(4, neighbours_stay, _changes),
    Assertion(5, bodies_stay, _changes),
    Assertion(6, again_is_refused, lambda script, use, source: bool(script.moves) and not (use.chooses or use.repeats)),
    Assertion(
        7,
        an_unknown_job_is_refused,
        lambda script, use, source: use.knows_jobs and not use.chooses and not _fills(script, use, source),
    ),
    Assertion(8, a_wrong_type_changes_nothing, lambda script, use, source: True),
    Assertion(10, only_declared_names_are_used, lambda script, use, source: True),
    Assertion(10, only_declared_keys_are_touched, lambda script, use, source: True, frozenset({"acl"})),
    Assertion(11, a_batch_takes_the_oldest, lambda script, use, source: use.chooses and _takes(script, use, source)),
    Assertion(11, what_is_not_due_stays, lambda script, use, source: use.ripe),
    Assertion(12, the_read_only_call_takes_it, lambda script, use, source: script.read_only, frozenset({"eval_ro"})),
    Assertion(
        13,
        drains_go_on_over_maxmemory,
        lambda script, use, source: not script.read_only and not _fills(script, use, source),
        frozenset({"maxmemory"}),
    ),
    Assertion(13, fills_are_refused_over_maxmemory, _fills, frozenset({"maxmemory"})),
)


@dataclass(frozen=True)
class Case:
    """One assertion about one script and one source place."""

    number: int
    script: str
    source: str
    check: Callable[..., None]
    needs: frozenset[str]
    word: str = ""

    def __str__(self) -> str:
        of = "-".join(part for part in (self.script, self.source, self.word) if part)
        return f"{of}-{self.number}-{self.check.__name__}"

    def run(self, subject: Subject, client: Redis) -> None:
        def make(number: int = 1) -> Scene:
            return Scene.build(subject, client, self.script, self.source, number)

        self.check(make, self.word) if self.word else self.check(make)


def cases(subject: Subject, names: Iterable[str] = (), alike: bool = False) -> list[Case]:
    """Every case of the subject's scripts, or of those named. A script without a Use has one, which fails.

    Sources that are `alike` another are left out, or are the only ones.
    """
    return [case for name in names or sorted(subject.scripts) for case in _cases(subject, name, alike)]


def _cases(subject: Subject, name: str, alike: bool) -> Iterator[Case]:
    script, use = subject.scripts[name], subject.uses.get(name)
    if use is None:
        yield Case(0, name, "", somebody_says_how_to_ask_it, frozenset())
        return
    every = use.sources or sorted(script.sources) or [""]
    own = [source for source in every if source not in subject.alike] or [*every]
    sources = [source for source in every if source not in own] if alike else own
    for source in sources:
        for assertion in ASSERTIONS:
            if assertion.applies(script, use, source):
                yield Case(assertion.number, name, source, assertion.check, assertion.needs)
    for word in () if alike else script.returns:
        yield Case(9, name, sources[0], a_word_is_reached, frozenset(), word)


def run_all(cases: Iterable[Case], subject: Subject, client: Redis) -> None:
    """Runs those that the server can run; fails with every case that failed, by its name."""
    has = features(client)
    failed: dict[str, Exception] = {}
    for case in (case for case in cases if case.needs <= has):
        try:
            case.run(subject, client)
        except Exception as error:
            error.add_note(f"in the case {case}")
            failed[str(case)] = error
    if failed:
        raise ExceptionGroup(f"{len(failed)} cases failed: {'; '.join(failed)}", [*failed.values()])


@dataclass(frozen=True)
class Planted:
    """`old` becomes `new` in the script of `verb` (`%s`: what it was); the assertion number `caught` must fail."""

    name: str
    verb: str
    old: str
    new: str
    caught: int

    def __str__(self) -> str:
        return self.name

    def is_caught(self, subject: Subject, client: Redis) -> bool:
        """Whether the assertion finds the fault."""
        script = subject.scripts[self.verb]
        assert self.old in script.source, "the script changed; plant the fault elsewhere"
        text = script.source.replace(self.old, self.new.replace("%s", self.old), 1)
        faulty = replace(subject, scripts={**subject.scripts, self.verb: scripts.parse(text, script.path)})
        for case in cases(faulty, [self.verb]):
            if case.number == self.caught:
                try:
                    case.run(faulty, client)
                except (AssertionError, RqtuiError):
                    return True
        return False


FEATURES = frozenset({"acl", "eval_ro", "maxmemory"})


def features(client: Redis) -> frozenset[str]:
    """Which of FEATURES the server has; fakeredis enforces no ACL inside scripts and has neither of the others."""
    try:
        info = client.info("server")
    except Exception:
        return frozenset()
    version = info.get("redis_version", "0")
    return FEATURES if int(version.split(".")[0]) >= 7 else FEATURES - {"eval_ro"}
