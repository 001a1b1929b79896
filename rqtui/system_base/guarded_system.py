"""Guard the methods of a system from another package, so that no fault in them stops rqtui or the other systems.

`systems/registry.py` guards each such system when it creates it. A guarded method that raises, or returns something
else than its contract says, becomes an error that names the package and the method. A request becomes one whose result
is that error: the engine shows such an error where the result would be. The methods run on a thread of their system: if
one does not return in time, the system is refused until it does, and the other systems continue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from rqtui.errors import RqtuiError
from rqtui.model import MigrationTerms
from rqtui.system_base.system import Replies, Request, System, quote_for_shell

log = logging.getLogger("rqtui.system_base")

# A method that reads Redis gets the timeouts of the client; any other takes milliseconds, also on a busy machine.
MOST_S = 10.0

_REQUESTS = (
    "queue_request", "page_request", "scan_request", "backward_scan_request", "job_request", "workers_request",
)  # fmt: skip
_OPTIONAL_REQUESTS = (
    "queues_request", "inspect_request", "schedules_request", "ends_request", "kinds_request", "probe_request",
)  # fmt: skip
_NAME_LISTS = ("named_queues", "marker_keys", "find_queues_of_keys")
_OTHERS = ("has_keys_of", "has_queue", "register_queue", "unregister_queue", "learn_job_format", "put_request")
_TYPED: dict[str, tuple[type, ...]] = {  # the types that a method may return
    "format_editable_body": (bytes,), "migration_terms": (MigrationTerms,), "read_taken_jobs": (tuple, list),
}  # fmt: skip

_DEFAULTS = {"needs_probe": True, "probe_interval_s": None, "draw_next_sample": None, "record_event": None}
"""The result of a method that fails, by method: each refresh calls them, and no place on a screen shows their error."""


def guard_system(system: System, package: str, most_s: float = MOST_S) -> System:
    """Replace the methods of a system by guarded ones, and return it. `package` is its package, for error messages.

    A call that takes longer than `most_s` seconds is an error.
    """
    guard = _Guard(system.name, package, most_s)
    methods: dict[str, Callable[..., Any]] = {}
    for name in (*_REQUESTS, *_OPTIONAL_REQUESTS):
        methods[name] = partial(guard.build_request, name, getattr(system, name), name in _OPTIONAL_REQUESTS)
    for name in _NAME_LISTS:
        methods[name] = partial(guard.list_names, name, getattr(system, name))
    for name in _OTHERS:
        methods[name] = partial(guard.call, name, getattr(system, name))
    for name, types in _TYPED.items():
        methods[name] = partial(guard.call_typed, name, getattr(system, name), types)
    for name, default in _DEFAULTS.items():
        methods[name] = partial(guard.call_or_default, name, getattr(system, name), default)
    methods["verb_requests"] = partial(guard.build_requests, "verb_requests", system.verb_requests)
    methods["event_requests"] = partial(guard.build_event_requests, system.event_requests)
    methods["event_patterns"] = partial(guard.list_event_patterns, system.event_patterns)
    methods["queue_argument"] = partial(guard.format_argument, system.queue_argument)
    methods["discover"] = partial(guard.yield_names, system.discover)
    for name, method in methods.items():
        setattr(system, name, method)
    return system


class _Guard:
    """The thread of one system, on which its methods run one after the other."""

    def __init__(self, system: str, package: str, most_s: float) -> None:
        self.name = f"{system} of {package}"
        self.most_s = most_s
        self._tasks: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[Any]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running = ""  # the method that did not return in time
        self._began_s = 0.0
        self._has_returned = threading.Event()

    def call(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a method on the system's thread and return its result.

        An error of rqtui or redis-py is raised unchanged. Raises RqtuiError for any other error, and if the method
        takes too long.
        """
        if threading.current_thread() is self._thread:
            return function(*args, **options)
        if self._running and not self._has_returned.is_set():
            raise RqtuiError(self._describe_hang(time.monotonic() - self._began_s))
        self._running = ""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_tasks, name=f"rqtui-{self.name}", daemon=True)
            self._thread.start()
        replies: SimpleQueue[Any] = SimpleQueue()
        self._has_returned.clear()
        self._began_s = time.monotonic()
        self._tasks.put((partial(function, *args, **options), replies))
        try:
            result, error = replies.get(timeout=self.most_s)
        except Empty:
            self._running = name
            raise RqtuiError(self._describe_hang(self.most_s)) from None
        if error is None:
            return result
        if isinstance(error, RqtuiError) or type(error).__module__.partition(".")[0] in ("rqtui", "redis"):
            raise error  # its callers handle it, such as a lost connection
        log.info("%s: %s raised an error", self.name, name, exc_info=error)
        raise RqtuiError(f"{self.name}: {name} raised {type(error).__name__}: {error}.") from error

    def _describe_hang(self, waited_s: float) -> str:
        return f"{self.name}: {self._running} has run for {waited_s:.0f} s; this system is not read until it returns."

    def _run_tasks(self) -> None:
        while True:
            task, replies = self._tasks.get()
            try:
                reply: tuple[Any, BaseException | None] = task(), None
            except BaseException as error:  # also SystemExit: only a person ends rqtui
                reply = None, error
            self._has_returned.set()
            replies.put(reply)
            del task, replies, reply

    def build_request(self, name: str, function: Callable[..., Any], is_optional: bool, *args: Any) -> Any:
        """Build a request with a guarded `parse`. If it cannot be built, the error is raised by `parse`."""
        try:
            request = self.call(name, function, *args)
            if request is None and is_optional:
                return None
            return self._guard_parse(name, request)
        except RqtuiError as error:
            return Request((), partial(_raise_error, error))

    def build_requests(self, name: str, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Build the requests of a method that returns several, each with a guarded `parse`."""
        return [self._guard_parse(name, request) for request in self._check_list(name, function, object, *args)]

    def build_event_requests(self, function: Callable[..., Any]) -> list[Any]:
        """Build the requests for the events of a system; none if that fails, because each refresh asks for them."""
        try:
            return self.build_requests("event_requests", function)
        except RqtuiError as error:
            log.info("%s", error)
            return []

    def list_event_patterns(self, function: Callable[..., Any]) -> tuple[Any, ...]:
        """Return the patterns of the system's channels; none if that fails, because each refresh asks for them."""
        try:
            return tuple(self.list_names("event_patterns", function))
        except RqtuiError as error:
            log.info("%s", error)
            return ()

    def list_names(self, name: str, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Return the texts that a method lists."""
        return self._check_list(name, function, str, *args)

    def yield_names(self, function: Callable[..., Any], *args: Any) -> Iterator[list[Any]]:
        """Yield the lists of names that `discover` yields, each taken on the system's thread."""
        steps = self.call("discover", lambda: iter(function(*args)))
        while (names := self.call("discover", next, steps, None)) is not None:
            yield self._check_list("discover", lambda names=names: names, str)

    def call_or_default(self, name: str, function: Callable[..., Any], default: Any, *args: Any) -> Any:
        """Call a method and return its result; after an error, which is logged, return `default`."""
        try:
            return self.call(name, function, *args)
        except RqtuiError as error:
            log.info("%s", error)
            return default

    def format_argument(self, function: Callable[..., Any], queue: str) -> str:
        """Return the argument that names a queue; without the options of the system if the method fails."""
        argument = self.call_or_default("queue_argument", function, None, queue)
        return argument if isinstance(argument, str) else quote_for_shell(queue)

    def call_typed(self, name: str, function: Callable[..., Any], types: tuple[type, ...], *args: Any) -> Any:
        """Call a method and return its result. Raises RqtuiError if the result has another type."""
        result = self.call(name, function, *args)
        if not isinstance(result, types):
            raise RqtuiError(f"{self.name}: {name} returned {_describe_value(result)} instead of {types[0].__name__}.")
        return result

    def _check_list(self, name: str, function: Callable[..., Any], item_type: type, *args: Any) -> list[Any]:
        found = self.call(name, function, *args)
        if not isinstance(found, list | tuple) or not all(isinstance(each, item_type) for each in found):
            raise RqtuiError(f"{self.name}: {name} returned {_describe_value(found)} instead of a list of names.")
        return [*found]

    def _guard_parse(self, name: str, request: Any) -> Request[Any]:
        if not isinstance(request, Request):
            raise RqtuiError(f"{self.name}: {name} returned {_describe_value(request)} instead of a Request.")
        return replace(request, parse=partial(self._parse, name, request))

    def _parse(self, name: str, request: Request[Any], replies: Replies) -> Any:
        result = self.call(f"the parse of {name}", request.parse, replies)
        return self._guard_parse(name, result) if isinstance(result, Request) else result  # a follow-up request


def _describe_value(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _raise_error(error: RqtuiError, _replies: object) -> Any:
    raise error
