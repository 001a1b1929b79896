"""The steps in which the engine changes jobs, places and queues, by given replies: see `changes_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/engine/test_changes_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bare_objects import Actor, Bare, take
from kept_text import assert_lines_match_file

from rqtui.engine import engine as module
from rqtui.engine.engine import Engine
from rqtui.errors import Denied, ReadOnly, RqtuiError, ServerError, Unknown, Unreachable, UsageError, WrongType
from rqtui.model import Cause, Focus, Job, Outcome, Page, PageSelection, Place, Queue, Ref, State
from rqtui.system_base.system import Request

KEPT = Path(__file__).with_name("changes_at_bounds.txt")
MAIL = Ref("any", "mail")


def job(id: int, place: str = "dead", **more: Any) -> Job:
    return Job(b"%d" % id, "mail", "any", place, State(place), b"%d" % id, **more)


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (RqtuiError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


class GivenScript:
    """The facts of a script that the engine reads."""

    def __init__(self, **facts: Any) -> None:
        self.read_only = self.moves_to_queue = False
        self.sources, self.targets = ("dead",), ("ready",)
        self.returns = {word: SimpleNamespace(text=f"text of {word}") for word in ("moved", "empty")}
        vars(self).update(facts)


class GivenSystem:
    """A system whose scripts and places are given. Its requests write down what they are for."""

    name = "any"
    known_fields: frozenset[str] = frozenset()
    can_find_by_id = True
    places = (
        Place("ready", State.READY, "k", "list"), Place("dead", State.DEAD, "k", "list"),
        Place("done", State.DONE, "k", "list"),
    )  # fmt: skip

    def __init__(self, log: list[str], script: GivenScript | None = None, shared: str = "", **more: Any) -> None:
        self._log, self._script, self._shared = log, script or GivenScript(), shared
        vars(self).update(more)

    def script(self, _verb: str) -> GivenScript:
        return self._script

    def is_shared(self, place: str) -> bool:
        return place == self._shared

    def can(self, _verb: str, place: str) -> bool:
        return place != "done"

    def purges_by_job(self, place: str) -> bool:
        return place == self._shared

    def check_target_queue(self, queue: str, to_queue: str) -> None:
        if queue == to_queue:
            raise UsageError("the same queue")

    def select_arguments(self, _verb: str, values: Any) -> dict[str, Any]:
        return dict(values)

    def verb_requests(self, verb: str, queue: str, jobs: Sequence[Job], form: Any) -> list[Any]:
        self._log.append(f"request {verb} {queue} {[each.id.decode() for each in jobs]} {dict(form)}")
        return [("request", verb, tuple(jobs))]

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Any:
        return ("job", queue, id, body_bytes)


def build_engine(log: list[str], system: Any = None, **more: Any) -> Any:
    recorder = Actor(
        log, "recorder", replace_verb=lambda *_words: None,
        save_jobs=lambda *words: log.append(f"save {words[1]} of {len(words[3])}"),
    )  # fmt: skip
    usual: dict[str, Any] = {
        "systems": {"any": system or GivenSystem(log)}, "read_only": False, "denied": (), "profile": "",
        "change_recorder": recorder, "client": SimpleNamespace(), "refs": [MAIL],
    }  # fmt: skip
    return Bare(Engine, **{**usual, **more})


# -- which changes are refused ----------------------------------------------------------------------------------------


def refused() -> Iterator[str]:
    log: list[str] = []
    rules: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (
        (), (("mail", ("delete",)),), (("m*", ("de*",)),), (("sms", ("*",)), ("any:mail", ("kill", "purge"))),
        (("mail", ()), ("mail", ("*",))), (("any:other", ("enqueue",)),),
    )  # fmt: skip
    for denied, verb, profile in product(rules, ("delete", "purge", "kill", "move"), ("", "prod")):
        found = build_engine(log, denied=denied, profile=profile)
        yield f"{verb} by {denied} {profile}: {found.explain_denial(verb, MAIL)!r}"
    for script, read_only in product((GivenScript(), GivenScript(read_only=True)), (False, True)):
        found = build_engine(log, GivenSystem(log, script), denied=(("mail", ("*",)),), read_only=read_only)
        yield f"script reads {script.read_only}, session {read_only}: {attempt(found.raise_if_refused, 'kill', MAIL)}"
    moving = GivenScript(moves_to_queue=True)
    for script, form, is_cluster, denied in product(
        (GivenScript(), moving),
        ({}, {"to_queue": "mail"}, {"to_queue": "any:other"}, {"to_queue": "other", "limit": 5}, {"to_queue": "any:"}),
        (False, True), ((), (("any:other", ("enqueue",)),), (("other", ("move",)),)),
    ):  # fmt: skip
        found = build_engine(
            log, GivenSystem(log, script), denied=denied, client=SimpleNamespace(is_cluster=is_cluster)
        )
        result = attempt(found.check_target_queue, "move", MAIL, form)
        yield f"moves {script.moves_to_queue} {form} cluster {is_cluster} {denied}: {result}"


# -- the steps of a change --------------------------------------------------------------------------------------------


def starts() -> Iterator[str]:
    """Yield which way a change takes."""
    for jobs, verb, shared, form, has_recorder, replacement in product(
        ((), (job(1),), (job(1), job(2, is_partial=True))), ("purge", "kill"), ("", "dead"),
        ({}, {"place": "dead"}, {"place": "ready"}), (True, False), (None, "other steps"),
    ):  # fmt: skip
        log: list[str] = []
        found = build_engine(
            log, GivenSystem(log, shared=shared), send_verb_requests=lambda *_words: "its own steps",
            apply_verb_to_long_jobs=lambda *_words: "long jobs", _purge_by_deleting_jobs=lambda *_words: "by jobs",
        )  # fmt: skip
        if has_recorder:
            found.change_recorder.__dict__["replace_verb"] = lambda *_words, replacement=replacement: replacement
        else:
            found.__dict__["change_recorder"] = None
        result = found.yield_verb_steps(verb, MAIL, jobs, form)
        yield f"{verb} {len(jobs)} {shared} {form} {has_recorder} {replacement}: {result} | {take(log)}"


def long_jobs() -> Iterator[str]:
    short, long = job(1), job(2, is_partial=True)
    found_jobs = {"gone": None, "partial": long, "moved": job(2, "ready"), "complete": job(2, body=b"x")}
    for name, complete in found_jobs.items():
        for script in ("", "other"):
            log: list[str] = []
            found = build_engine(
                log,
                send_request=lambda request, complete=complete: log.append(f"fetch {request}") or complete,  # noqa: B023
                send_verb_requests=lambda *words: iter([[f"{words[0]} {len(words[2][0][2])} jobs"]]),
            )
            steps = [*found.apply_verb_to_long_jobs("kill", MAIL, [short, short, long, short], {"a": 1}, script)]
            yield f"{name} {script}: {steps} | {take(log)}"


def build_pages(log: list[str], entries: list[Job], **more: Any) -> dict[str, Any]:
    """Return methods that read and change the jobs of a place; a lost or failed job is one with that error."""

    def fetch_page(_ref: Ref, place: str, offset: int, limit: int) -> Page:
        log.append(f"page {place} {offset} {limit}")
        return Page("mail", "any", place, tuple(entries[offset : offset + limit]), len(entries))

    def fetch_scan_page(_ref: Ref, place: str, offset: int, limit: int, _body_bytes: int = 0) -> Page:
        log.append(f"scan {place} {offset} {limit}")
        if more.get("error") and offset >= more["error"]:
            return Page("mail", "any", place, (), 0, error="wrong type")
        jobs = tuple(entries[offset : offset + limit])
        end = offset + len(jobs)
        own = tuple(each for each in jobs if each.name != "other")
        return Page("mail", "any", place, own, len(entries), True, offset, end if end < len(entries) else None)

    def apply_verb(verb: str, _ref: Ref, jobs: Sequence[Job], _form: Any) -> list[Outcome]:
        outcomes = []
        for each in jobs:
            word = each.error or "moved"
            outcomes.append(Outcome(verb, each.id, word, "", int(word == "moved")))
            if word == "moved" and each in entries and more.get("leaves", True):
                entries.remove(each)
        entries.extend(more.get("arriving", ()))
        log.append(f"{verb} {len(jobs)}")
        return outcomes

    def apply_long(verb: str, ref: Ref, jobs: Sequence[Job], form: Any, _script: str) -> Iterator[list[Outcome]]:
        yield apply_verb(verb, ref, jobs, form)

    return {
        "fetch_page": fetch_page, "fetch_scan_page": fetch_scan_page, "apply_verb": apply_verb,
        "apply_verb_to_long_jobs": apply_long,
    }  # fmt: skip


def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(module, "CHUNK", 3)
    kinds: dict[str, list[Job]] = {
        "none": [], "two": [job(1), job(2)], "three": [job(at) for at in range(3)],
        "six": [job(at) for at in range(6)], "seven": [job(at) for at in range(7)],
        "a failed one": [job(1, error="gone"), *(job(at) for at in range(2, 6))],
        "a lost one": [job(1), job(2), job(3, error="unknown"), job(4), job(5)],
        "failed ones": [job(at, error="gone") for at in range(5)],
        "others": [job(at, name="other" if at % 2 else "") for at in range(7)],
        "only others": [job(at, name="other") for at in range(4)],
    }  # fmt: skip
    scripts = {
        "away": GivenScript(), "inside": GivenScript(targets=("dead",)), "nowhere": GivenScript(sources=()),
        "to a queue": GivenScript(moves_to_queue=True),
    }  # fmt: skip
    for (name, entries), (kind, script), shared in product(kinds.items(), scripts.items(), ("", "dead")):
        for arriving in ((), (job(99),)):
            log: list[str] = []
            leaves = not (kind == "inside" or (kind == "to a queue" and shared))
            pages = build_pages(log, [*entries], leaves=leaves, arriving=arriving)
            found = build_engine(log, GivenSystem(log, script, shared), **pages)
            steps = [[outcome.word for outcome in step] for step in found.apply_verb_to_place("kill", MAIL, "dead")]
            yield f"{name} {kind} {shared} arriving {len(arriving)}: {steps} | {take(log)}"
    for limit, name, shared in product((None, 0, 1, 3, 4, 99), kinds, ("dead",)):
        for place in ("dead", ""):
            log = []
            pages = build_pages(log, [*kinds[name]])
            found = build_engine(log, GivenSystem(log, shared=shared), **pages)
            form = {"place": place, "force": True} | ({} if limit is None else {"limit": limit})
            steps = [
                [(outcome.word, outcome.text, outcome.moved, outcome.values) for outcome in step]
                for step in found._purge_by_deleting_jobs(MAIL, form)
            ]
            if place or limit in (None, 3):
                yield f"purge {name} {place!r} limit {limit}: {steps} | {take(log)}"
    for error in (1, 3):
        log = []
        pages = build_pages(log, [job(at, error="gone") for at in range(5)], error=error)
        found = build_engine(log, GivenSystem(log, shared="dead"), **pages)
        yield (
            f"error at {error}: {attempt(lambda found=found: [*found.apply_verb_to_place('kill', MAIL, 'dead')])} "
            f"{take(log)}"
        )
        yield f"error at {error}: {attempt(lambda found=found: [*found._purge_by_deleting_jobs(MAIL, {})])} {take(log)}"
        yield f"error at {error}: {attempt(lambda found=found: [*found.walk_pages(MAIL, 'dead', 2)])!s:.90} {take(log)}"


def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield what is sent, saved and recorded with the requests of a verb."""
    words = (("moved", "moved"), ("moved", "unknown"), ("not sent", "moved"), ("gone", "not sent"))
    for first, with_calls, kind in product(words, (True, False), ("nothing", "saved", "full disk", "none")):
        log: list[str] = []

        def send(_client: Any, calls: Sequence[Any], log: list[str] = log) -> list[str]:
            log.append(f"send {[*calls]}")
            return [f"reply {call}" for call in calls]

        monkeypatch.setattr(module, "scripts", SimpleNamespace(send_calls=send))

        def record(outcomes: Any, before: Any, after: Any, log: list[str] = log, kind: str = kind) -> None:
            log.append(f"saved {len(outcomes)} {before} {after}")
            if kind == "full disk":
                raise ServerError("no space")

        saved = SimpleNamespace(before=("b1", "b2"), after=("a1",), record_outcomes=record)
        found = build_engine(log, end_read_ahead=lambda: None)
        if kind == "none":
            found.__dict__["change_recorder"] = None
        else:
            found.change_recorder.__dict__["save_jobs"] = lambda *_words, saved=saved, kind=kind, log=log: (
                log.append("save") or (None if kind == "nothing" else saved)
            )

        def parse(replies: Any, log: list[str] = log, first: tuple[str, ...] = first) -> list[Outcome]:
            log.append(f"parse {replies}")
            return [Outcome("kill", b"%d" % at, word, "why") for at, word in enumerate(first)]

        calls: Any = ("c1", "c2") if with_calls else ()
        given = [
            Request(calls, parse, (job(0), job(1))),
            Request(cast(Any, ("c3",)), lambda _replies: [Outcome("kill", b"2", "moved", "")], (job(2), job(3))),
        ]
        steps = attempt(
            lambda found=found, given=given: [
                [f"{outcome.id!r} {outcome.word} {outcome.text}" for outcome in step]
                for step in found.send_verb_requests("kill", MAIL, given)
            ]
        )
        yield f"{first} {with_calls} {kind}: {steps} | {take(log)}"
    log = []
    waits: list[float] = []
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=waits.append, monotonic=lambda: 0.0))
    monkeypatch.setattr(module, "scripts", SimpleNamespace(send_calls=lambda _client, calls: [*calls]))
    third = Request((), lambda _replies: "third")
    second = Request(
        cast(Any, ("x",)),
        lambda replies: f"second {replies}",
        follow=lambda result: third if "second" in result else None,
    )
    for follow in (None, lambda _result: None, lambda _result: second, lambda _result: third):
        request = Request((), lambda _replies: "first", follow=follow)
        found = build_engine(log, end_read_ahead=lambda: log.append("end"))
        yield f"follow-ups: {[*found._send_follow_up_requests(request, 'first')]} {waits} {take(log)}"
        waits.clear()
    for read_only, denied, has_request in product((False, True), ((), (("mail", ("inspect",)),)), (False, True)):
        system: Any = SimpleNamespace(
            inspect_request=lambda *_words, has_request=has_request: third if has_request else None
        )
        found = build_engine(
            log, system, read_only=read_only, denied=denied, _send_follow_up_requests=lambda *_words: iter(["more"])
        )
        yield (
            f"inspect {read_only} {denied} {has_request}: "
            f"{attempt(lambda found=found: [*found.inspect_worker(MAIL, 'w')])}"
        )


# -- reading ----------------------------------------------------------------------------------------------------------


def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    log: list[str] = []
    wrong, away, denied = WrongType("a string"), Unreachable("away"), Denied("no right")
    replies: dict[str, Any] = {"w": wrong, "d": denied, "a": away, "u": Unknown("lost")}
    monkeypatch.setattr(
        module,
        "scripts",
        SimpleNamespace(send_calls=lambda _client, calls: [replies.get(call, call) for call in calls]),
    )
    found = build_engine(log)

    def build(calls: str, may_fail: bool = False) -> Any:
        return Request(tuple(calls), lambda given: [str(each) for each in given], may_fail=may_fail)  # type: ignore[arg-type]

    groups: tuple[tuple[Any, ...], ...] = (
        (build("xy"), build("z")), (build("d"), build("x")), (build("d"), build("d")), (build("d"), build("x", True)),
        (build("d", True), build("x")), (build("d", True),), (build("w"), build("w")), (build("a"), build("x")),
        (build("u", True), build("x")), (build(""), build("d")), (),
    )  # fmt: skip
    for group in groups:
        shown = [("".join(map(str, request.calls)), request.may_fail) for request in group]
        yield f"{shown}: {attempt(found.send_requests, group)}"
    for error in (wrong, away, denied, ValueError("odd"), RqtuiError("known")):
        yield (
            f"{error!r:.60}: job {attempt(module._ignore_error_of_queue, error)}, result "
            f"{attempt(module._convert_to_rqtui_error, error)!r}"
        )
    pages = {
        0: Page("mail", "any", "dead", (job(1), job(2)), 4, True, 0, 2),
        2: Page("mail", "any", "dead", (job(3),), 4, True, 2, None),
    }
    found = build_engine(log, fetch_scan_page=lambda *words: log.append(f"{words[1:]}") or pages[words[2]])
    yield (
        f"scan: {[[each.id for each in step] for step in found.scan_jobs(MAIL, 'dead', lambda each: each.id != b'2')]} "
        f"{take(log)}"
    )
    yield f"walk: {len([*found.walk_pages(MAIL, 'dead', offset=2)])} {take(log)}"
    found = build_engine(log, client=SimpleNamespace(time=lambda: (1_800_000_000, 999_999)))
    for counted in ((), (0,), (5, 9, 7)):
        queues = [Queue("mail", "any", counted_ms=each) for each in counted]
        yield f"taken {counted}: {found.compute_taken_ms(queues)}"
    systems = {"any": GivenSystem(log), "blind": GivenSystem(log, can_find_by_id=False)}
    refs = [MAIL, Ref("any", "sms"), Ref("blind", "x"), Ref("blind", "y")]
    results = iter([job(1), None, RqtuiError("no"), RqtuiError("no")])
    found = build_engine(
        log, refs=refs, systems=systems, send_requests_isolated=lambda builders: [next(results) for _each in builders]
    )
    yield f"found by id: {found.find_jobs_by_id([b'1', b'2'])}"
    yield f"thresholds without rules: {build_engine(log, _threshold_rules=()).find_thresholds(MAIL)!s:.60}"
    kept: list[Any] = []
    found = build_engine(log, _probes=SimpleNamespace(store_complete_causes=lambda *words: kept.append(words)))
    found.store_complete_causes(MAIL, 9, [Cause(f"c{at}", 1) for at in range(9)])
    yield f"stored causes: {kept}"
    for refs_before in ([MAIL], [MAIL, Ref("any", "a")], []):
        system: Any = Actor(log, "system")
        found = build_engine(
            log, system, refs=refs_before, _add_refs=lambda refs: log.append(f"add {[*map(str, refs)]}")
        )
        found.register_queue(MAIL)
        found.unregister_queue(MAIL)
        yield f"register: {[*map(str, found.refs)]} | {take(log)}"
    pools: tuple[Any, ...] = (
        None,
        SimpleNamespace(),
        SimpleNamespace(sent_scripts=None),
        SimpleNamespace(sent_scripts={"x"}, read_ahead=None),
    )
    for pool in pools:
        found = build_engine(log, client=SimpleNamespace(connection_pool=pool))
        script = SimpleNamespace(name="n", path="p", read_only=True)
        call = SimpleNamespace(script=script, keys=(), argv=(), packed=b"")
        monkeypatch.setattr(
            module,
            "scripts",
            SimpleNamespace(send_calls=lambda _client, calls: log.append(f"send {len(calls)}") or ["r"] * len(calls)),
        )
        found.read_ahead(
            [Request(cast(Any, (call, call)), lambda _replies: None)],
            [Request(cast(Any, (call,)), lambda _replies: None)],
        )
        ahead = getattr(pool, "read_ahead", None)
        state = ahead and (len(ahead._replies), len(ahead.after))
        found.end_read_ahead()
        yield f"read ahead: {take(log)} {state} {getattr(pool, 'read_ahead', None)}"
    for listener in (None, Actor(log, "listener", is_open=True), Actor(log, "listener", is_open=False)):
        found = build_engine(log, _event_listener=listener)
        found.deliver_events()
        found.stop_listening()
        yield f"listening {found.is_listening}: {take(log)}"
    for given in (None, "a listener"):
        monkeypatch.setattr(module, "EventListener", lambda _client: "a new listener")
        found = build_engine(log, _event_listener=given)
        Engine.start_listening(found)
        yield f"start listening with {given}: {found._event_listener}"


class GivenProbes:
    """Probes that are due in the snapshots of a test."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def build_due_requests(self, refs: Any, began_s: float, kinds: Any, is_all: bool = False) -> dict[str, Any]:
        self._log.append(f"probes of {len(refs)} queues at {began_s:g}, {len(kinds)} kinds, all {is_all}")
        return {"probe": Request(cast(Any, (SimpleNamespace(reply_count=2),)), lambda _replies: "probed")}

    def store_results(self, results: Any, began_s: float) -> str:
        self._log.append(f"store {results} at {began_s:g}")
        return "checkpoints"


def snapshots(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(module, "QUEUES_PER_ROUND_TRIP", 2)
    now_s = [10.0]

    def read_clock() -> float:
        now_s[0] += 0.25
        return now_s[0]

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=read_clock))
    for number, is_thorough, with_job, with_page, has_events in product(
        (0, 1, 2, 3, 5), (False, True), (False, True), (False, True), (False, True)
    ):
        if number not in (0, 2, 3) and (with_job or has_events):
            continue
        log: list[str] = []
        now_s[0] = 10.0
        refs = [Ref("any", f"q{at}") for at in range(number)]

        def build_requests(_client: Any, some: Sequence[Ref], log: list[str] = log) -> list[Any]:
            log.append(f"count {len(some)}")
            return [Request(cast(Any, (SimpleNamespace(reply_count=len(some)),)), lambda _replies, some=some: some)]

        def collect(results: Any, _send: Any, is_answered: bool, log: list[str] = log) -> Any:
            log.append(f"collect {len(results)} answered {is_answered}")
            queues = [
                Queue(ref.queue, "any", counted_ms=7 + len(ref.queue), error="no" if ref.queue == "q1" else "")
                for some in results
                for ref in some
            ]
            return queues, [[Request(cast(Any, (SimpleNamespace(reply_count=3),)), lambda _replies: None)]] if len(
                queues
            ) > 1 else []

        listener = Actor(
            log, "listener", subscribe=lambda systems, log=log: log.append(f"subscribe {len([*systems])}"),
            build_requests=lambda: [Request(cast(Any, (SimpleNamespace(reply_count=1),)), lambda _replies: None)],
        )  # fmt: skip
        page = SimpleNamespace(
            page_request=lambda *words: Request((), lambda _replies: "a page"),
            job_request=lambda *words: Request((), lambda _replies: f"job {words}"),
        )
        found = build_engine(
            log, cast(Any, page), refs=refs, _probes=GivenProbes(log), _event_listener=listener if has_events else None,
            _counting=SimpleNamespace(build_requests=build_requests, collect_counts=collect),
            on_snapshot_counts=lambda queues, log=log: log.append(f"counts of {len(queues)}"),
            _rates=SimpleNamespace(compute_rate=lambda ref, _queue, began_s: f"rate of {ref.queue} at {began_s:g}"),
            _health=SimpleNamespace(
                attach_findings=lambda queues, rates, checkpoints, log=log: log.append(
                    f"health {len(queues)} {len(rates)} {checkpoints}"
                )
                or queues
            ),
            send_requests=lambda given, log=log: log.append(f"send {len(given)}")
            or [request.parse(["reply"]) for request in given],
            fetch_server_time_ms=lambda: 99,
        )  # fmt: skip
        focus = Focus(
            is_thorough=is_thorough, job=(MAIL, b"1") if with_job else None,
            pages=(PageSelection(MAIL, "dead", 0, 5, 0),) if with_page else (),
            requests={"asked": [Request((), lambda _replies: "asked for")]} if with_page else {},
        )  # fmt: skip
        snapshot = found.take_snapshot(focus)
        yield (
            f"{number} queues, thorough {is_thorough}, job {with_job}, page {with_page}, events {has_events}: "
            f"{snapshot.taken_ms} "
            f"{len(snapshot.queues)} {snapshot.pages} {snapshot.job} {dict(snapshot.rates)} {snapshot.cost} | "
            f"{take(log)}"
        )


def test_changes_match_the_stored_text() -> None:
    lines: list[str] = []
    parts: tuple[Any, ...] = (
        lambda _patch: refused(), lambda _patch: starts(), lambda _patch: long_jobs(), places, requests, reads,
        snapshots,
    )  # fmt: skip
    for part in parts:
        with pytest.MonkeyPatch.context() as patch:
            lines += part(patch)
    assert_lines_match_file(lines, KEPT)


def test_a_round_trip_counts_1000_queues() -> None:
    refs = [Ref("any", f"q{at}") for at in range(1_001)]
    sizes: list[int] = []
    counting = SimpleNamespace(
        build_requests=lambda _client, some: sizes.append(len(some)) or [Request((), lambda _replies: some)],
        collect_counts=lambda results, _send, is_answered: (
            [Queue(ref.queue, "any", counted_ms=1) for some in results for ref in some], []
        ),
    )  # fmt: skip
    found = build_engine(
        [], refs=refs, _counting=counting, _probes=GivenProbes([]), _event_listener=None,
        on_snapshot_counts=lambda _queues: None, _rates=SimpleNamespace(compute_rate=lambda *_words: None),
        _health=SimpleNamespace(attach_findings=lambda queues, *_words: queues),
        send_requests=lambda given: [request.parse([]) for request in given],
    )  # fmt: skip
    found.take_snapshot(Focus())
    assert sizes == [1_000, 1]


def test_a_verb_on_a_place_is_refused_before_anything_is_read_or_noted() -> None:
    log: list[str] = []
    with pytest.raises(ReadOnly):
        next(build_engine(log, read_only=True).apply_verb_to_place("kill", MAIL, "ready"))
    assert not log
