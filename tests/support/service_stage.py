"""Run a service of the screen without a screen, and write down what it asks of everything around it.

A `Recorder` replaces a part of the program: it has the attributes that were given, and every other attribute is a
method that writes its call into the stage's lines. A test compares the lines with a stored text (`kept_text`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from textual.content import Content
from textual.geometry import Size

from rqtui.engine.ticker import CallFinished
from rqtui.model import Job, Outcome, Ref
from rqtui.system_base.system import System
from rqtui.systems import registry
from rqtui.tui.services.outcome_counts import OutcomeCounts
from rqtui.tui.target import Target
from rqtui.tui.widgets.question_dialog import Question
from rqtui.verbs import Field, Verb

MAIL, NEWS, JOBS = Ref("native", "mail"), Ref("native", "news"), Ref("rq", "jobs")
SYSTEMS = {name: registry.create_system(name) for name in ("native", "rq")}


class Recorder:
    """A replacement that has the given attributes, and writes down the calls of all other attributes."""

    def __init__(self, name: str, lines: list[str], **attributes: Any) -> None:
        self.__dict__.update(attributes, _name=name, _lines=lines, _calls={})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def record_call(*args: Any, **options: Any) -> None:
            described = [describe(each) for each in args]
            described += [f"{key}={describe(each)}" for key, each in options.items()]
            self._lines.append(f"{self._name}.{name}({', '.join(described)})")
            self._calls[name] = args

        return record_call

    def find_last_call(self, name: str) -> tuple[Any, ...]:
        """Return the arguments of the last call of a method."""
        return self._calls[name]


class Stage:
    """The surroundings of a service: the app, its host, its session with two native queues, and the stack of views."""

    def __init__(self, **attributes: Any) -> None:
        self.lines: list[str] = []
        self.app = Recorder("app", self.lines, size=Size(80, 24), is_running=True, screen=None, focused=None)
        self.ticker = Recorder("ticker", self.lines, interval_s=1.0, wait_s=1.0, is_resting=False)
        self.journal = Recorder("journal", self.lines, operations=[], sightings=[], who="me")
        self.settings = Recorder(
            "settings", self.lines, is_guarded=False, badge="", profile="", url="redis://here", is_ascii=False,
            config="", theme="", problems=(), notes=(), keymap={}, read_only=False, may_unlock=True,
        )  # fmt: skip
        self.session = Recorder(
            "session", self.lines, systems=SYSTEMS, refs=[MAIL, NEWS], snapshot=None, url="redis://here",
            settings=self.settings, ticker=self.ticker, journal=self.journal, connection_loss=None,
            refresh_failure=None, is_read_only=False, is_replay=False, is_replica=False, demo=None, replay=None,
            engine=Recorder(
                "engine", self.lines, systems=SYSTEMS, refs=[MAIL, NEWS], client=None, read_only=None
            ),
            server_warnings=(), loops={}, filters=[], keeper=None, changes=[], ambiguous_names=frozenset(),
            latest_queues={}, death_causes={}, format_name=lambda ref: ref.queue, is_never_connected=False,
            find_foreign_system_name=lambda ref: "" if ref.system == "native" else ref.system,
            explain_denial=lambda _verb, _ref: "", find=lambda name: Ref("native", name),
        )  # fmt: skip
        self.view = Recorder(
            "view", self.lines, NAME="board", FILTER_HINT="jobs", HAS_OPERATIONS=False, CAN_CREATE_QUEUES=False,
            is_drawn=True, is_high=True, is_too_small=False, offers_action=lambda _action: True,
            list_scope_queues=lambda: (MAIL,), allows_verb=lambda _verb: True, list_focus_keys=tuple,
            header=Recorder("header", self.lines), footer=Recorder("footer", self.lines),
            strip=Recorder("strip", self.lines), build_second_line=lambda _width: (Content("second"), Content()),
        )  # fmt: skip
        self.target = Target(MAIL)
        self.navigation = Recorder(
            "navigation", self.lines, view=self.view, has_dialog=False, find_target=lambda: self.target,
            list_drawable_views=lambda: [self.view],
        )  # fmt: skip
        self.host = Recorder("host", self.lines, app=self.app, session=self.session)
        self.session.__dict__.update(attributes)

    def run(self, title: str, function: Callable[..., Any], *args: Any, **options: Any) -> Iterator[str]:
        """Call a function, and yield its title, the calls that it made, and what it returned or raised."""
        self.lines.clear()
        try:
            result = describe(function(*args, **options))
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        yield f"== {title}: {result}"
        yield from (f"  {line}" for text in self.lines for line in text.split("\n"))
        self.lines.clear()

    def answer(self, title: str, result: Any = None, error: str = "", **options: Any) -> Iterator[str]:
        """Answer the last call of the engine."""
        function, handle_result = self.session.find_last_call("call_engine")

        def handle_answer() -> None:
            answered = function(self.session.engine) if result is None and not error else result
            handle_result(CallFinished(1, answered, error, **options))

        yield from self.run(title, handle_answer)


def describe(value: Any) -> str:
    """Describe a value in a line for a kept text: without addresses, and with the styles of a content."""
    if isinstance(value, Content):
        return repr(value.markup)
    if isinstance(value, Ref):
        return f"{value.system}:{value.queue}"
    if isinstance(value, Job):
        return f"job {value.id.decode()}"
    if isinstance(value, Outcome):
        return f"{value.word} {value.id.decode()}"
    if isinstance(value, OutcomeCounts):
        return f"counts of {describe(value.ref)}, {value.total}, {value.summarise_outcomes()!r}"
    if isinstance(value, Verb | Field | System):
        return value.name
    if isinstance(value, Question):
        return _describe_question(value)
    if isinstance(value, Recorder):
        return f"<{value._name}>"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{describe(key)}: {describe(each)}" for key, each in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(describe, value))) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(describe, value)) + "]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        shown = {name: each for name, each in fields.items() if each and name != "jobs_by_queue"}
        return f"{type(value).__name__}{describe(shown)}"
    return "…" if callable(value) else repr(value)


def _describe_question(question: Question) -> str:
    lines = [line.markup for line in question._lines]
    facts = (question._yes, question._is_danger, question._is_form, question._guard, question._first_problem)
    return "\n".join(
        [f"Question {question._title!r} {facts}", *(f"  | {line}" for text in lines for line in text.split("\n")),
         f"  fields {describe(list(question._fields))} {dict(question._typed)} {dict(question._bodies)}"]
    )  # fmt: skip
