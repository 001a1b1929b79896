"""Test that no method of a system from another package stops the other systems: each error names package and method.

The methods are planted into the package that `rqtui new-system` writes. A method that hangs waits for the test.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from rqtui.cli.new_system import write_package
from rqtui.client.queue import Queue
from rqtui.engine.engine import Engine
from rqtui.errors import RqtuiError, UsageError
from rqtui.model import Focus, PageSelection, Ref, Snapshot
from rqtui.reports.workers import load_workers
from rqtui.system_base.guarded_system import guard_system
from rqtui.system_base.system import Request, System
from rqtui.systems import registry

NATIVE, POST = Ref("native", "mail"), Ref("odd", "post")
METHODS = (
    "backward_scan_request", "decode", "discover", "encode_body", "event_patterns", "event_requests",
    "find_queues_of_keys", "has_queue", "job_request",
    "keys", "kinds_request", "marker_keys", "needs_probe", "page_request", "probe_interval_s", "probe_request",
    "queue_argument", "queue_request", "queues_request", "schedules_request", "workers_request",
)  # fmt: skip


@pytest.fixture(scope="module")
def odd_class(tmp_path_factory: pytest.TempPathFactory) -> Iterator[type[System]]:
    """Return the class of a new package for the system `odd`."""
    package = tmp_path_factory.mktemp("odd")
    write_package("odd", package)
    spec = importlib.util.spec_from_file_location("rqtui_odd", package / "rqtui_odd/__init__.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.OddQueues
    sys.modules.pop("rqtui_odd", None)


@pytest.fixture
def planted(client: Redis, url: str) -> Redis:
    """Plant a native queue with a job, and a queue of the system `odd` with a job."""
    with Queue("mail", url) as queue:
        queue.put({"to": "a@b.c"})
    client.rpush("odd:post:waiting", "j1")
    client.hset("odd:job:j1", mapping={"body": b"{}", "name": "send", "created": "1", "attempts": "0"})
    return client


def raise_error(*_args: object, **_options: object) -> Any:
    raise ValueError("this method is odd")


def end_program(*_args: object, **_options: object) -> Any:
    raise SystemExit("this method ends the program")


def return_nothing(*_args: object, **_options: object) -> Any:
    return None


def return_number(*_args: object, **_options: object) -> Any:
    return 7


def create_system(odd_class: type[System], method: str, broken: Callable[..., Any], most_s: float = 300.0) -> System:
    system = type("Odd", (odd_class,), {method: broken})()
    return guard_system(system, "rqtui-odd 0.1", most_s)


def take_snapshots(client: Redis, system: System) -> tuple[Engine, Snapshot]:
    """Discover all queues and take two snapshots with the pages of both queues; the second one has the probes."""
    engine = Engine(client, [registry.create_system("native"), system])
    for _chunk in engine.discover(fully=True):
        pass
    pages = tuple(
        PageSelection(ref, place.name) for ref in (NATIVE, POST) for place in engine.systems[ref.system].places
    )
    engine.start_listening()
    try:
        for _round in range(2):
            snapshot = engine.take_snapshot(Focus(queues=(NATIVE, POST), pages=pages))
    finally:
        engine.stop_listening()
    return engine, snapshot


@pytest.mark.parametrize("broken", [raise_error, end_program, return_nothing, return_number])
@pytest.mark.parametrize("method", METHODS)
def test_a_broken_method_stops_no_other_system(
    method: str, broken: Callable[..., Any], odd_class: type[System], planted: Redis
) -> None:
    engine, snapshot = take_snapshots(planted, create_system(odd_class, method, broken))
    assert NATIVE in engine.refs
    queue, page = snapshot.find_queue(NATIVE), snapshot.find_page(NATIVE, "ready")
    assert queue is not None and queue.count_in_place("ready") == 1
    assert page is not None and len(page.jobs) == 1 and not page.error
    workers, _now_ms, problems = load_workers(engine, [NATIVE, POST])
    assert workers == ()
    if method == "workers_request":
        assert len(problems) == 1 and problems[0].startswith("odd of rqtui-odd 0.1: workers_request r")


@pytest.mark.parametrize("broken", [raise_error, end_program])
@pytest.mark.parametrize("method", ["decode", "page_request"])
def test_the_page_of_a_broken_system_names_package_and_method(
    method: str, broken: Callable[..., Any], odd_class: type[System], planted: Redis
) -> None:
    _engine, snapshot = take_snapshots(planted, create_system(odd_class, method, broken))
    page = snapshot.find_page(POST, "waiting")
    assert page is not None and page.error.startswith("odd of rqtui-odd 0.1: ")
    assert "page_request raised " in page.error and "this method " in page.error


@pytest.mark.parametrize("broken", [raise_error, return_nothing, return_number])
@pytest.mark.parametrize("method", ["discover", "find_queues_of_keys", "marker_keys"])
def test_a_broken_discovery_is_a_finding_that_names_the_package(
    method: str, broken: Callable[..., Any], odd_class: type[System], planted: Redis
) -> None:
    system = create_system(odd_class, method, broken)
    system.is_explicit = False
    engine = Engine(planted, [registry.create_system("native"), system])
    for _chunk in engine.discover(fully=True):
        pass
    assert NATIVE in engine.refs
    assert f"odd of rqtui-odd 0.1: {method} r" in engine.problems["odd"].text


def test_a_method_that_hangs_stops_its_own_system_until_it_returns(odd_class: type[System], planted: Redis) -> None:
    is_released, has_begun = threading.Event(), threading.Event()

    def wait(self: Any, *args: Any) -> Any:
        has_begun.set()
        assert is_released.wait(300)
        return odd_class.queue_request(self, *args)

    system = create_system(odd_class, "queue_request", wait, most_s=0.2)
    engine, snapshot = take_snapshots(planted, system)
    assert has_begun.is_set() and NATIVE in engine.refs
    native, post = snapshot.find_queue(NATIVE), snapshot.find_queue(POST)
    assert native is not None and native.count_in_place("ready") == 1
    assert post is not None and "odd of rqtui-odd 0.1: queue_request has run for " in post.error
    with pytest.raises(RqtuiError, match="this system is not read until it returns"):
        engine.send_request(system.page_request("post", "waiting", 0, 1, 0))
    is_released.set()
    for _attempt in range(3_000):
        page = engine.send_requests_isolated([lambda: system.page_request("post", "waiting", 0, 1, 0)])[0]
        if not isinstance(page, RqtuiError):
            break
        threading.Event().wait(0.02)
    assert [job.id for job in page.jobs] == [b"j1"]


@pytest.mark.parametrize("error", [UsageError("no such place."), ResponseError("ERR odd")])
def test_an_error_that_the_contract_allows_is_raised_unchanged(error: Exception, odd_class: type[System]) -> None:
    def refuse(_self: object, *_args: object) -> Any:
        raise error

    system = create_system(odd_class, "has_queue", refuse)
    with pytest.raises(type(error)) as raised:
        system.has_queue(None, "post")
    assert raised.value is error


def test_a_guarded_parse_that_returns_another_request_guards_it_too(odd_class: type[System]) -> None:
    follow_up = Request((), raise_error)
    system = create_system(odd_class, "queues_request", lambda _self, _queues: Request((), lambda _replies: follow_up))
    request = system.queues_request(["post"])
    assert request is not None
    second: Any = request.parse([])
    with pytest.raises(RqtuiError, match="odd of rqtui-odd 0.1: the parse of queues_request raised ValueError: "):
        second.parse([])


def test_a_failed_name_of_a_queue_is_shown_without_options(odd_class: type[System]) -> None:
    assert create_system(odd_class, "queue_argument", raise_error).queue_argument("po st") == "'po st'"
    assert create_system(odd_class, "queue_argument", return_number).queue_argument("post") == "post"
    assert create_system(odd_class, "needs_probe", raise_error).needs_probe(None) is True  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "args"),
    [("format_editable_body", (None,)), ("migration_terms", (None,)), ("read_taken_jobs", ("post", None))],
)
def test_a_fault_while_jobs_are_copied_moved_or_taken_is_an_error_of_the_package(
    method: str, args: tuple[object, ...], odd_class: type[System]
) -> None:
    with pytest.raises(RqtuiError, match=f"odd of rqtui-odd 0.1: {method} raised ValueError: "):
        getattr(create_system(odd_class, method, raise_error), method)(*args)
    with pytest.raises(RqtuiError, match=f"odd of rqtui-odd 0.1: {method} returned a int instead of "):
        getattr(create_system(odd_class, method, lambda _self, *_args: 7), method)(*args)
