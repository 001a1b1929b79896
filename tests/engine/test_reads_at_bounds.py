"""Walks over all keys, minutes of counters, filters and names of queues, by a given clock and given replies.

`reads_at_bounds.txt` has every result. `RQTUI_WRITE_SNAPSHOTS=1 pytest tests/engine/test_reads_at_bounds.py` writes
the text; review the difference as code.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bare_objects import Actor, Bare, take
from kept_text import assert_lines_match_file
from redis import exceptions

from rqtui.engine import discovery, filters, history, walk, walk_file
from rqtui.engine.discovery import Discovery
from rqtui.engine.history import History
from rqtui.engine.walk import Walk, WalkProgress, WalkResult
from rqtui.engine.walk_file import WalkFile
from rqtui.errors import Denied, RqtuiError, ServerError, Unreachable, UsageError
from rqtui.model import Job, Queue, Ref, State
from rqtui.systems import by_sight, registry
from rqtui.systems.by_sight import UnsupportedSystem

KEPT = Path(__file__).with_name("reads_at_bounds.txt")
MINUTE, DAY = 60_000, 86_400_000
REF = Ref("native", "mail")


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (RqtuiError, ValueError, TypeError, KeyError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


class Clock:
    """A clock that advances by a given time whenever it is read."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now_s, self.step_s = 1000.0, step_s

    def monotonic(self) -> float:
        self.now_s += self.step_s
        return self.now_s

    def time(self) -> float:
        return self.now_s


# -- walks ------------------------------------------------------------------------------------------------------------


class Node:
    """A server with a number of keys, every tenth of which is of a queue and every seventh of an unsupported system."""

    def __init__(self, name: str, keys: int, fails_after: int | None = None) -> None:
        self.keys, self.fails_after = keys, fails_after
        self.connection_pool = SimpleNamespace(connection_kwargs={"host": name, "port": 7})
        self.steps = 0

    def read(self, args: dict[str, Any], first: int, patterns: int) -> Any:
        self.steps += 1
        if self.fails_after is not None and self.steps > self.fails_after:
            raise Unreachable("away")
        begin = int(args["cursor"])
        end = min(begin + args["limit"], self.keys)
        numbers = range(begin, end)
        rows = [(1 + at % first, b"key %d" % at) for at in numbers if at % 10 == 0]
        rows += [(first + 1 + at % args["counted"], b"other %d" % at) for at in numbers if at % 7 == 0]
        counts = " ".join(
            str(sum(at % 7 == 0 and at % args["counted"] == n for at in numbers)) for n in range(args["counted"])
        )
        return SimpleNamespace(
            values={"cursor": str(end) if end < self.keys else "0", "looked": end - begin, "counts": counts}, rows=rows
        )


def walks(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(walk, "MAX_KEYS_PER_DISCOVERY", 1_500)
    systems: Any = {
        name: SimpleNamespace(key_patterns=patterns) for name, patterns in (("one", ("^a",)), ("two", ("^b", "^c")))
    }
    monkeypatch.setattr(by_sight, "list_counted_patterns", lambda: ["^x", "^y"])
    monkeypatch.setattr(by_sight, "find_present_unsupported_systems", lambda counts: tuple(counts.items()))
    sizes: tuple[tuple[tuple[int, ...], int | None], ...] = (
        ((0,), 1_000), ((499,), 1_000), ((500,), 1_000), ((1_000,), 1_000), ((1_001,), 1_000), ((1_500,), 1_500),
        ((1_501,), 1_600), ((2_600,), 1_000), ((2_600,), None), ((700, 0, 900), 1_000), ((700, 900), None),
    )  # fmt: skip
    for given, max_keys in sizes:
        for step_s in (0.0, 0.25, 1.5):
            for fails_after in (None, 1):
                clock = Clock(step_s)
                monkeypatch.setattr(walk, "time", clock)
                nodes = [Node(f"n{at}", keys, fails_after if at == 0 else None) for at, keys in enumerate(given)]
                monkeypatch.setattr(walk, "list_node_clients", lambda _client, nodes=nodes: nodes)
                script = SimpleNamespace(
                    build_call=lambda _keys, args, rows: (args, len(rows) - args["counted"], len(rows))
                )
                monkeypatch.setattr(
                    walk, "scripts",
                    SimpleNamespace(
                        load_scripts=lambda _name, script=script: {"walk": script},
                        run_call=lambda node, call: node.read(*call),
                    ),
                )  # fmt: skip
                found = Walk(None, systems)
                for part in range(3):
                    steps, problem = list[int](), ""
                    try:
                        for keys in found.yield_walk_steps(max_keys):
                            steps.append(sum(map(len, keys.values())))
                            found.store_keys(keys)
                    except Unreachable as error:
                        problem = str(error)
                    progress = found.progress
                    stored = {name: len(keys) for name, keys in progress.partial.queue_keys.items()}
                    whole = progress.complete and [
                        {name: len(keys) for name, keys in progress.complete.queue_keys.items()},
                        progress.complete.counts,
                        progress.complete.examples,
                    ]
                    yield (
                        f"{given} by {max_keys}, {step_s} s, fails {fails_after}, part {part}: {len(steps)} steps "
                        f"{sum(steps)} keys {problem}, interrupted {found.is_interrupted}, {progress.cursors} "
                        f"{progress.keys_walked} {progress.duration_s} due {progress.next_due_s}, {stored} "
                        f"{progress.partial.counts} whole {whole} "
                        f"{found.find_unsupported_systems()}"
                    )
                    if part and not found.is_interrupted:
                        break
    yield f"patterns: {found.patterns}"
    for due_s in (0.0, 999.0, 1_000.0, 1_001.0, 4_600.0, 4_601.0):
        for cursors in ({}, {"": "5"}):
            yield f"due at {due_s} {cursors}: {WalkProgress(cursors=cursors, next_due_s=due_s).is_due(1_000.0)}"


def test_a_walk_has_steps_of_500_keys_and_rests_for_200_times_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(walk, "time", clock)
    for keys_walked, duration_s, rest_s in (
        (75_000, 5.0, 0),
        (75_001, 0.0, 0),
        (75_001, 5.0, 1_000),
        (75_001, 17.9, 3_580),
        (75_001, 19.0, 3_600),
    ):
        found = Walk(None, {})
        found.progress = WalkProgress(keys_walked=keys_walked, duration_s=duration_s)
        found._complete_walk()
        assert found.progress.next_due_s == (pytest.approx(1_000 + rest_s) if rest_s else 0)
        assert (found.progress.keys_walked, found.progress.duration_s, found.progress.cursors) == (0, 0.0, {})


def walk_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[str]:
    monkeypatch.setattr(walk_file, "MAX_KEYS", 5)
    monkeypatch.setattr(walk_file, "MAX_FILES", 3)
    run: dict[str, Any] = {"run_id": "r1"}

    def info(_section: str) -> dict[str, Any]:
        if run.get("error"):
            raise exceptions.ResponseError("no INFO")
        return run

    def build_client(**options: Any) -> Any:
        return SimpleNamespace(
            info=info, connection_pool=SimpleNamespace(connection_kwargs={"host": "h", "port": 1, **options})
        )

    client = build_client()
    full = WalkProgress(
        WalkResult({"one": [b"a", b"\xff", b"c"], "two": [b"d", b"e", b"f"], "three": [b"g"]}, {"^x": 3},
                   {"^x": b"x\xff"}),
        WalkResult({"one": [b"n"]}), {"": "17"}, 5, 0.5, 9.0,
    )  # fmt: skip
    for progress in (full, WalkProgress(), WalkProgress(cursors={"": "0"})):
        file = WalkFile(folder / "walks", client, ["^a"])
        file.save(progress)
        yield f"loaded: {file.load()}"
        [path] = (folder / "walks").glob("*")
        document = json.loads(path.read_text())
    changes: dict[str, Any] = {
        "version": 2, "run": "r2", "cursor": "x", "looked": "5", "took_s": "x", "due_s": None, "whole": {"keys": {}},
        "begun": None,
    }  # fmt: skip
    for name, value in [*changes.items(), ("cursor", ""), ("cursor", "²"), ("cursor", 5), ("cursor", "007")]:
        path.write_text(json.dumps({**document, name: value}))
        yield f"{name} {value!r}: {file.load()}"
    path.write_text(json.dumps(document))
    for change in ({"error": True}, {"error": False, "run_id": ""}, {"run_id": "r1"}):
        run.update(change)
        yield f"server {change}: {file.load() is not None}"
    for other in (WalkFile(None, client, ["^a"]), WalkFile(folder / "walks", SimpleNamespace(is_cluster=True), ["^a"])):
        other.save(full)
        other.delete()
        yield f"not possible: {other.load()} {len([*(folder / 'walks').glob('*')])}"
    paths = {
        WalkFile(folder, build_client(**options), patterns)._path.name
        for options in ({}, {"db": 0}, {"db": 1}, {"path": "/s"}, {"port": 2}, {"host": "i"})
        for patterns in (["^a"], ["^b"])
    }
    yield f"names of files: {len(paths)} {sorted({(len(name), name[-5:]) for name in paths})}"
    for at in range(5):
        other = WalkFile(folder / "walks", build_client(db=at + 1), ["^a"])
        other.save(WalkProgress())
        os.utime(other._path, (at, at))
        yield f"file {at}: {len([*(folder / 'walks').glob('*')])} files, this one {other._path.exists()}"
    other.delete()
    other.delete()
    yield f"deleted: {len([*(folder / 'walks').glob('*')])}"
    blocked = WalkFile(folder / "walks" / path.name / "x", client, ["^a"])
    path.write_text("a file")
    blocked.save(full)
    yield f"no folder: {blocked.load()}"
    target = WalkFile(folder / "taken", client, ["^a"])
    target._path.mkdir(parents=True)
    target.save(full)
    yield f"a folder is in its place: {target.load()} {[each.name for each in (folder / 'taken').glob('*.new')]}"


def test_the_last_50_walks_and_20_000_keys_of_each_are_stored(tmp_path: Path) -> None:
    for at in range(51):
        (tmp_path / f"{at:02}.json").touch()
        os.utime(tmp_path / f"{at:02}.json", (at, at))
    pool = SimpleNamespace(connection_kwargs={"host": "h", "port": 1})
    file = WalkFile(tmp_path, SimpleNamespace(info=lambda _: {"run_id": "r"}, connection_pool=pool), [])
    file.save(WalkProgress(partial=WalkResult({"one": [b"%d" % at for at in range(20_001)]})))
    assert len([*tmp_path.iterdir()]) == 50 and not (tmp_path / "01.json").exists() and (tmp_path / "02.json").exists()
    loaded = file.load()
    assert loaded is not None and len(loaded.partial.queue_keys["one"]) == 20_000


# -- minutes ----------------------------------------------------------------------------------------------------------


def minutes() -> Iterator[str]:
    names = ("enqueued", "acked", "pulled", "completed", "rejected", "expired", "failed", "dead", "requeued")
    for seed in range(20):
        random = Random(seed)
        histories = []
        for at in range(random.choice((0, 1, 2))):
            begin = random.choice((0, 3 * MINUTE, 5 * MINUTE))
            readings = {
                minute * MINUTE: {name: random.randrange(9) for name in random.sample(names, 3)}
                for minute in sorted(random.sample(range(10), random.choice((0, 2, 5))))
            }
            now = {name: random.randrange(5, 20) for name in names} if random.random() < 0.8 else {}
            histories.append(History(Ref("native", f"q{at}"), now, readings, begin))
        begin_ms, end_ms = (
            random.choice((0, 1, MINUTE, 150_000)),
            random.choice((8, 9)) * MINUTE + random.choice((0, 1)),
        )
        growth = history.compute_growth_per_minute(histories, begin_ms, end_ms)
        flows = [[history.sum_flow_counters(counters, flow) for flow in history.FLOWS] for _minute, counters in growth]
        levels = history.compute_unfinished_per_minute(growth, random.choice((0, 3, 30)))
        merged = [histories[0].merge(histories[-1])] if histories else []
        yield (
            f"{seed}: {[minute // MINUTE for minute, _counters in growth]} {flows} "
            f"{[level for _minute, level in levels]} "
            f"{history.list_common_flows(histories)} {[(each.begin_ms, sorted(each.minutes)) for each in merged]}"
        )
    yield (
        f"empty merge: {History(REF).merge(History(REF)).begin_ms} "
        f"{History(REF, {'a': 1}, {}, 5).merge(History(REF, {}, {}, 3)).begin_ms}"
    )
    long = History(REF, {"a": 1}, {at * MINUTE: {} for at in range(1, 1_441)})
    for more in (0, 1, 2):
        merged_long = long.merge(History(REF, {"a": 1}, {(1_441 + at) * MINUTE: {} for at in range(more)}))
        yield f"{more} minutes more: {len(merged_long.minutes)} from {min(merged_long.minutes) // MINUTE}"
    for at_ms in (0, DAY - 1, DAY, 1_798_761_599_999, 1_798_761_600_000):
        yield f"day of {at_ms}: {history.format_date(at_ms)}"
    yield f"begin of a day: {history.Day('1970-01-02', 1, 0).begin_ms} {history.Day('2026-11-25', 1, 0).begin_ms}"
    calls: list[Any] = []
    system: Any = SimpleNamespace(
        name="any", scripts={"metrics": SimpleNamespace(counters=frozenset())},
        build_call=lambda *words: calls.append(words) or "call",
    )  # fmt: skip
    request = history.build_days_request(system, "mail", 1_798_761_600_000)
    rows = calls[-1][3]
    yield f"days: {calls[-1][:3]} {len(rows)} from {rows[0]} to {rows[-1]}"
    for counted in ([], [(rows[-1]["date"], 5, 1)], [(rows[27]["date"], 5, 1), (rows[29]["date"], 2, 0)]):
        yield f"days with {counted}: {request.parse([SimpleNamespace(rows=counted)])}"
    yield f"days with an error: {attempt(request.parse, [ServerError('no')])}"
    for limit in (1, 1_439, 1_440, 1_441):
        request_of_minutes = history.build_history_request(system, "mail", limit)
        yield f"minutes {limit}: {calls[-1]}"
    replies: tuple[list[tuple[int, str]], ...] = (
        [], [(0, "completed 5 failed 1")], [(0, ""), (MINUTE, "completed 3 other 9 failed x")],
        [(2 * MINUTE, "completed 12345678901234567"), (MINUTE, "completed 123456789012345678"), (0, "failed")],
    )  # fmt: skip
    for reply in replies:
        for begin_ms in (None, 0, 7):
            parsed = request_of_minutes.parse([SimpleNamespace(rows=reply, values={"begin_ms": begin_ms})])
            yield f"reply {reply} begin {begin_ms}: {parsed}"
    yield f"an error: {attempt(request_of_minutes.parse, [ServerError('no')])}"
    for given in ((), ("stats",), ("metrics",), ("days",)):
        named: Any = SimpleNamespace(scripts=dict.fromkeys(given))
        yield (
            f"{given}: {history.has_minute_counters(named)} {history.has_history(named)} "
            f"{history.has_daily_counters(named)}"
        )
    for counters in ({}, {"enqueued": 1}, {"pulled": 1, "failed": 1}):
        yield f"flows of {counters}: {History(REF, counters).flows}"
    flows_of: tuple[tuple[dict[str, int], ...], ...] = (
        (), ({},), ({"enqueued": 1}, {}), ({"enqueued": 1, "acked": 1}, {"acked": 1}), ({"acked": 1}, {"failed": 1})
    )  # fmt: skip
    for counters_of in flows_of:
        yield (
            f"common flows of {counters_of}: "
            f"{history.list_common_flows(History(REF, counters) for counters in counters_of)}"
        )


# -- filters ----------------------------------------------------------------------------------------------------------


def filter_lines() -> Iterator[str]:
    job = Job(
        b"a", "mail", "native", "ready", State.READY, b"a", since_ms=5_000, body=b'{"n": "7", "t": ".5", "e": "1e3"}'
    )
    for expression in (
        "age>=0s",
        "age<1ms",
        "age<0.001s",
        "age>0s",
        ".n>6.5",
        ".t>=.5",
        ".e>999",
        ".n>abc",
        ".n > 6",
        ".n<=7e0",
    ):
        found = attempt(filters.parse_filter, expression)
        results = (
            [replace(found, now_ms=lambda now_ms=now_ms: now_ms)(job) for now_ms in (4_000, 5_000, 5_001, 6_000)]
            if not isinstance(found, str)
            else []
        )
        yield f"{expression}: {found if isinstance(found, str) else results}"
    clocks: list[Any] = [
        SimpleNamespace(name=f"s{at}", known_fields={"tried"}, last_reply_s=at, now_ms=lambda at=at: at)
        for at in (3.0, 9.0, 1.0)
    ]
    found_filter = filters.parse_filter("age>1s", clocks)
    yield (
        f"the newest clock: {found_filter.now_ms and found_filter.now_ms()}, without ages "
        f"{filters.parse_filter('x', clocks).now_ms}"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "time", SimpleNamespace(time_ns=lambda: 1_800_000_000_999_999_999))
        found_filter = filters.parse_filter("age>1s")
        yield f"the clock of this machine: {found_filter.now_ms and found_filter.now_ms()}"
    values = ["acme", "ACME", "ß", "ss", "12.5", "12.50", "x y", "~a", "/a", '"', "'\"", "", "a\tb", "1.0", "it's"]
    for value in values:
        yield f"exact {value!r}: {[filters.build_exact_term('.t', value, others) for others in ((), values)]}"
        yield f"part {value!r}: {filters.build_part_term('err', value)}"
    for field in ("err", ".a", ".a b", ".", "x", ".a.b", ".!a"):
        yield f"field {field!r}: {filters.build_exact_term(field, 'x')!r}"
    for expression in (
        "!",
        "!a",
        "! a",
        "a !",
        "!!a",
        "err:!a",
        ".a:~",
        ".a:",
        "err:~a",
        ".a:~'x y'",
        ".a:/x",
        "a/b",
        "/a\\/b/",
        "''",
        '"a b',
        "==",
        "<",
        ".a:=",
        "!err:x",
        ".a>1.a",
    ):
        found = attempt(filters.parse_filter, expression)
        terms = found if isinstance(found, str) else found.terms
        yield f"{expression!r}: {terms}"
    for body in (b"", b"\x7f", b"\x80", b"\x81", b"x", b"xa", b"y", b"a\xff", b"\x80\x04K\x05."):
        yield f"body {body!r}: {filters._decode_body(body)!r}"
    with pytest.MonkeyPatch.context() as patch:
        expressions = SimpleNamespace(
            compile=lambda *_args: warnings.warn("nested", FutureWarning, stacklevel=1), IGNORECASE=2, error=ValueError
        )
        patch.setattr(filters, "re", expressions)
        with warnings.catch_warnings(record=True) as caught:
            filters.compile_filter_pattern("[[a]")
        yield f"warnings of an expression: {len(caught)}"


# -- names of queues --------------------------------------------------------------------------------------------------


def build_discovery(refs: Sequence[Ref] = (), others: Sequence[str] = (), **systems: Any) -> Discovery:
    found = Bare(
        Discovery, client=SimpleNamespace(), refs=list(refs), others=others, _interned={}, problems={}, _denied_s={}
    )
    found.__dict__["systems"] = systems
    return cast(Discovery, found)


def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    systems = {name: registry.create_system(name) for name in ("native", "rq", "celery")}
    refs = [Ref("native", "mail"), Ref("rq", "mail"), Ref("rq", "a\nb"), Ref("rq", "a\tb"), Ref("celery", "x:y")]
    symbol = discovery.safe("a\nb")
    for listed in (refs, refs[:1], []):
        found = build_discovery(listed, ("sidekiq",), **systems)
        typed = ("mail", "rq:mail", "native:mail", "new", "rq:new", "sidekiq:mail", "sidekik:mail", "rqq:mail", "rqq:",
                 "natives:x",
                 "native:x:y", "x:y", "nope:x", symbol, f"rq:{symbol}", "", "a b")  # fmt: skip
        for name in typed:
            yield f"{len(listed)} queues, {name!r}: {attempt(found.resolve, name)}"
        for ref in listed:
            yield f"{ref!r} of {len(listed)}: {found.format_name(ref)} {found.format_argument(ref)}"
    only = build_discovery([], (), celery=systems["celery"])
    yield f"without the default system: {only.resolve('new')}"
    for name in ("plain", "a\\nb", symbol, "base64:YQ==", "base64:", "base64:x"):
        yield f"meanings of {name!r}: {attempt(lambda name=name: [*discovery._yield_possible_queue_names(name)])}"
    clients: tuple[Any, ...] = (
        SimpleNamespace(),
        SimpleNamespace(connection_pool=SimpleNamespace(connection_kwargs={"db": "3"})),
        SimpleNamespace(connection_pool=SimpleNamespace(connection_kwargs={"db": None})),
    )
    yield f"databases: {[discovery.find_database_number(client) for client in clients]}"
    for is_cluster in (False, True):
        for works in (False, True):
            for is_explicit in (False, True):
                system: Any = SimpleNamespace(name="any", works_on_cluster=works, is_explicit=is_explicit)
                client: Any = SimpleNamespace(is_cluster=is_cluster)
                yield (
                    f"cluster {is_cluster} works {works} asked {is_explicit}: "
                    f"{attempt(discovery._is_system_usable, client, system)}"
                )


class Catalogue:
    """A system whose names, keys and errors are given, and that writes down its calls."""

    works_on_cluster = needs_key_walk = is_explicit = False
    key_patterns: tuple[str, ...] = ("^k",)
    is_found_by_walk = False
    database = 0

    def __init__(self, log: list[str], name: str, stored: Sequence[Any] = (), **more: Any) -> None:
        self.name, self._log, self._stored = name, log, stored
        self.markers: list[str] = []
        self.named: list[str] = []
        vars(self).update(more)

    def discover(self, _client: Any) -> Iterator[list[str]]:
        self._log.append(f"discover {self.name}")
        for step in self._stored:
            if isinstance(step, Exception):
                raise step
            yield step

    def marker_keys(self) -> list[str]:
        return self.markers

    def named_queues(self) -> list[str]:
        return self.named

    def keys(self, queue: str) -> dict[str, str]:
        if queue.startswith("no"):
            raise UsageError(f"{self.name} has no queue {queue}")
        return {}

    def has_queue(self, _client: Any, queue: str) -> bool:
        self._log.append(f"has {self.name} {queue}")
        return any(queue in step for step in self._stored if isinstance(step, list))

    def find_queues_of_keys(self, _client: Any, keys: Sequence[bytes]) -> list[str]:
        self._log.append(f"keys {self.name} {len(keys)}")
        return [key.decode() for key in keys if key.startswith(b"q")]

    def queue_argument(self, queue: str) -> str:
        return queue


class Client:
    """A client whose EXISTS and DBSIZE replies are given."""

    def __init__(self, log: list[str], existing: dict[str, Any], size: Any = 123_456, **more: Any) -> None:
        self._log, self._existing, self._size = log, existing, size
        self.connection_pool = SimpleNamespace(connection_kwargs={"db": 2, "host": "h", "port": 1})
        vars(self).update(more)

    def pipeline(self, transaction: bool) -> Any:
        keys: list[Any] = []
        return SimpleNamespace(
            exists=keys.append,
            execute=lambda raise_on_error: (
                self._log.append(f"exists {keys} {transaction} {raise_on_error}")
                or [self._existing.get(key.decode(), 0) for key in keys]
            ),
        )

    def dbsize(self) -> int:
        if isinstance(self._size, Exception):
            raise self._size
        return int(self._size)


class GivenWalk:
    """A walk whose steps are given."""

    def __init__(self, steps: Sequence[Any], progress: WalkProgress, is_interrupted: bool) -> None:
        self.steps, self.progress, self.will_be_interrupted = steps, progress, is_interrupted
        self.is_interrupted = False
        self.stored: list[Any] = []

    def yield_walk_steps(self, max_keys: int | None) -> Iterator[Any]:
        self.stored.append(f"most {max_keys}")
        for step in self.steps:
            if isinstance(step, Exception):
                raise step
            yield step
        self.is_interrupted = self.will_be_interrupted

    def store_keys(self, keys: Any) -> None:
        self.stored.append({name: len(each) for name, each in keys.items()})

    def restart(self) -> None:
        self.stored.append("restart")
        self.progress.cursors = {}

    def find_unsupported_systems(self) -> tuple[str, ...]:
        return ("unsupported",)


def discoveries(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    log: list[str] = []
    clock = Clock()
    monkeypatch.setattr(discovery, "time", clock)
    monkeypatch.setattr(by_sight, "list_counted_patterns", list)
    monkeypatch.setattr(
        discovery,
        "read_jointly",
        lambda client, readers: log.append("jointly") or [reader(client) for reader in readers],
    )
    denied = Denied("no right")

    def build(walks_all: bool = False, **more: Any) -> Discovery:
        systems: Any = [
            Catalogue(log, "plain", [["mail", "sms"], ["news"]], markers=["m1", "m2"]),
            Catalogue(log, "absent", [["x"]], markers=["gone"]),
            Catalogue(log, "asked", [["mail"]], is_explicit=True, is_found_by_walk=True, markers=["gone"]),
            Catalogue(log, "denied", [denied], markers=["secret"]),
            Catalogue(log, "hidden", [], markers=["secret"]),
            Catalogue(log, "broken", [ValueError("strange")], is_found_by_walk=True),
            Catalogue(log, "walked", [], needs_key_walk=True),
        ]  # fmt: skip
        client = Client(log, {"m2": 1, "secret": exceptions.NoPermissionError("no")})
        found = Discovery(client, systems, left_out=["a sentence"], walks_all=walks_all)
        found._walk_file = cast(Any, Actor(log, "file", load=lambda: more.get("stored")))
        found._walk = cast(Any, GivenWalk([], WalkProgress(), False))
        return found

    stories: dict[str, tuple[Sequence[Any], bool]] = {
        "ended": ([{"plain": [b"qa", b"z"]}, {"walked": [b"qb"]}, {"plain": [b"z"]}], False),
        "interrupted": ([{"plain": [b"qa"]}], True),
        "denied": ([{"plain": [b"qa"]}, denied], False),
    }
    for name, (steps, is_interrupted) in stories.items():
        for fully in (False, True):
            for walks_all in (False, True):
                for next_due_s in (0.0, 1_500.0):
                    found = build(walks_all)
                    given = GivenWalk(steps, WalkProgress(next_due_s=next_due_s), is_interrupted)
                    found._walk = cast(Any, given)
                    lines = []
                    for again in range(3):
                        clock.now_s = 1_000.0 + (0, 59.9, 60.0)[again] * (again > 0)
                        chunks = [[str(ref) for ref in chunk] for chunk in found.discover(fully and not again, 700)]
                        lines.append(
                            f"{chunks} {[str(ref) for ref in found.refs]} denied {sorted(found._denied_s)} problems "
                            f"{sorted(found.problems)} {given.stored} {found.unsupported_systems} walked "
                            f"{found._has_walked} "
                            f"unread {found.describe_unread_keys()!r} | {take(log)}"
                        )
                        given.stored.clear()
                    yield f"{name}, fully {fully}, all {walks_all}, due {next_due_s}: " + " / ".join(lines)
                    if name != "ended" and walks_all:
                        break

    found = build()
    found._walk = cast(Any, GivenWalk([], WalkProgress(next_due_s=2_000.0), False))
    for fully in (False, False, True):
        chunks = [[str(ref) for ref in chunk] for chunk in found.discover(fully)]
        yield f"denied a moment before, fully {fully}: {chunks} {take(log)}"

    stored = WalkProgress(
        WalkResult({"plain": [b"q%d" % at for at in range(2_001)], "none": [b"q"]}, {"^x": 5, "^y": 6},
                   {"^x": b"m2", "^y": b"gone"}),
        WalkResult({"walked": [b"qw"]}), {"": "5"},
    )  # fmt: skip
    found = build(stored=stored)
    chunks = [len(chunk) for chunk in found._load_stored_walk()]
    yield (
        f"stored: {chunks} {len(found._walked_refs)} {len(found._walking_refs)} "
        f"{stored.complete and stored.complete.counts} {found._has_walked} {take(log)}"
    )
    found = build()
    yield f"nothing stored: {[*found._load_stored_walk()]} {found._has_walked}"
    for progress in (WalkProgress(keys_walked=1_234_567), WalkProgress(complete=WalkResult())):
        for is_interrupted in (False, True):
            for size in (1_234_567, exceptions.ResponseError("no")):
                found = build()
                cast(Any, found).client = Client(log, {}, size)
                found._walk = cast(Any, SimpleNamespace(progress=progress, is_interrupted=is_interrupted))
                yield f"unread {progress.keys_walked} {is_interrupted} {size}: {found.describe_unread_keys()!r}"

    found = build()
    found.refs = [Ref("plain", "mail")]
    for name in (
        "mail",
        "sms",
        "news",
        "absent:x",
        "x",
        "unknown",
        "no",
        f"plain:{discovery.safe('a' + chr(10))}",
        "base64:c21z",
    ):
        found.refs = [Ref("plain", "mail")]
        with contextlib.suppress(UsageError):
            ref = found.resolve_or_discover(name)
            yield f"resolve {name!r}: {ref} {[str(each) for each in found.refs]} | {take(log)}"
    for has_walked in (False, True):
        found._has_walked = has_walked
        found._walk = cast(Any, GivenWalk([{"walked": [b"qb"]}], WalkProgress(), False))
        yield (
            f"resolve after a walk {has_walked}: {found.resolve_or_discover('walked:new')} "
            f"{cast(Any, found._walk).stored} {take(log)}"
        )

    lost = Unreachable("away")
    for is_cluster in (False, True):
        for is_explicit in (False, True):
            for error in (denied, lost, UsageError("no"), ValueError("odd"), None):
                found = build_discovery()
                actor = Actor(log, "client", is_cluster=is_cluster)
                cast(Any, found).client = actor
                system: Any = SimpleNamespace(name="any", is_explicit=is_explicit)

                def fail(error: Exception | None = error) -> str:
                    if error:
                        raise error
                    return "fine"

                result = attempt(found._call_for_readable_system, system, fail)
                yield f"cluster {is_cluster} asked {is_explicit} {error}: {result} {[*found.problems]} {take(log)}"


def unsupported() -> Iterator[str]:
    for number in (0, 1, 2):
        systems = [UnsupportedSystem(f"s{at}", f"S{at}", at + 1, at) for at in range(number)]
        yield f"{number}: {by_sight.describe_unsupported_systems(systems)!r}"
    for prefixes in ((), ("shop:",), ("shop:", "b\n:")):
        for prefix in ("", "own:"):
            for is_explicit in (False, True):
                system: Any = SimpleNamespace(
                    name="any", other_prefixes=prefixes, is_explicit=is_explicit, options={"prefix": prefix}
                )
                yield f"{prefixes} {prefix!r} asked {is_explicit}: {by_sight.describe_other_prefixes([system])!r}"
    entry = registry.SystemEntry
    table = [
        entry("a", "A", "m", keys=("^a",), queues="^aq"),
        entry("b", "B", keys=("^b", "^bb"), queues="^bq", but="a"),
        entry("c", "C", keys=("^c",), marks=("^cm",)),
    ]
    yield (
        f"patterns: {by_sight.list_counted_patterns(table)} "
        f"{[each.name for each in by_sight.list_unsupported_systems(table)]}"
    )
    for counts in ({}, {"^b": 2}, {"^b": 2, "^a": 1}, {"^bb": 1, "^bq": 3}, {"^c": 5}, {"^cm": 1, "^c": 5}):
        yield f"{counts}: {by_sight.find_present_unsupported_systems(counts, table)}"
    yield f"unfinished: {history.count_unfinished([Queue('mail', 'any')])}"


def test_reads_match_the_stored_text(tmp_path: Path) -> None:
    parts: tuple[Callable[[pytest.MonkeyPatch], Iterator[str]], ...] = (
        walks, lambda patch: walk_files(patch, tmp_path), lambda _patch: minutes(), lambda _patch: filter_lines(),
        names, discoveries, lambda _patch: unsupported(),
    )  # fmt: skip
    lines: list[str] = []
    for part in parts:
        with pytest.MonkeyPatch.context() as patch:
            lines += part(patch)
    assert_lines_match_file([line.replace(str(tmp_path), "FOLDER").replace("\n", "\\n") for line in lines], KEPT)
