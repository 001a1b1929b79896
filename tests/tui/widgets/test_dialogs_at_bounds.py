# ruff: noqa: B023 (a function is called before its loop continues)
"""What dialogs and pages show and answer at each bound: `dialogs_at_bounds.txt` has every line.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/widgets/test_dialogs_at_bounds.py` writes the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import SYSTEMS, Actor, Bare, Size, describe, take
from kept_text import assert_lines_match_file
from textual.app import SuspendNotSupported
from textual.content import Content
from textual.geometry import Offset

from rqtui import durations
from rqtui.errors import RqtuiError, UsageError
from rqtui.model import Job, Ref, State
from rqtui.operations.canary import CanaryProgress
from rqtui.operations.canary_jobs import End, FirstJob
from rqtui.operations.rate_limit import Limits
from rqtui.reports.plans import Plan
from rqtui.tui import keys
from rqtui.tui.target import Target
from rqtui.tui.widgets import body_editor, help_content, help_page, question_dialog, question_text, view_list
from rqtui.tui.widgets.body_editor import BodyEditor
from rqtui.tui.widgets.canary_page import CanaryPage
from rqtui.tui.widgets.filter_line import FilterLine, PathLine
from rqtui.tui.widgets.frame import ViewLink
from rqtui.tui.widgets.help_page import KeyGroup, KeyLine, KeyPage
from rqtui.tui.widgets.question_dialog import Question
from rqtui.tui.widgets.text_dialog import Pages
from rqtui.tui.widgets.view_list import ViewList
from rqtui.verbs import SCREEN_WORKER, VERBS, Field

KEPT = Path(__file__).with_name("dialogs_at_bounds.txt")
MAIL, NEWS = Ref("native", "mail"), Ref("native", "news")
VERBS_BY_NAME = {verb.name: verb for verb in VERBS}
JOB = Job(b"j1", "mail", "native", "dead", State.DEAD, b"j1", name="send")
HELD = replace(JOB, id=b"h1", place="reserved", state=State.RESERVED, worker="worker-1", token=b"t")


# ── texts of questions ───────────────────────────────────────────────────────────────────────────────────────────────


def describe_question_texts() -> Iterator[str]:
    widths = (0, 27, 28, 29, 30, 85, 86, 87, 120)
    yield f"line widths {[(width, question_text.compute_line_width(width)) for width in widths]}"
    lines = [Content(text) for text in ("", "a" * 20, "a" * 21, "a b " * 12)]
    yield f"rows {[(width, question_text.count_rows(lines, width)) for width in (19, 20, 21, 60)]}"
    yield f"label {describe(question_text.format_labelled_line('where', 'mail', (' · dead', '$muted')))}"
    targets = {
        "place": Target(MAIL, "dead", is_whole_place=True),
        "one": Target(MAIL, "dead", (JOB,)),
        "two": Target(MAIL, "dead", (JOB, replace(JOB, id=b"j2"))),
        "three": Target(MAIL, "dead", (JOB,) * 3),
        "four": Target(MAIL, "", (JOB,) * 4),
        "five": Target(MAIL, "dead", tuple(replace(JOB, id=b"%d" % at + b"x" * 16) for at in range(5))),
        "id of 40": Target(MAIL, "dead", (replace(JOB, id=b"i" * 40),)),
        "id of 41": Target(MAIL, "dead", (replace(JOB, id=b"i" * 41),)),
        "worker": Target(MAIL, workers=("w" * 40,)),
        "long worker": Target(MAIL, workers=("w" * 41,)),
        "workers": Target(MAIL, workers=("w1", "w2")),
        "held by 32": Target(MAIL, "reserved", (HELD, HELD), holder="h" * 32),
        "held by 33": Target(MAIL, "reserved", (HELD, HELD), holder="h" * 33),
        "held one": Target(MAIL, "reserved", (HELD,), holder="h1"),
        "a held place": Target(MAIL, "reserved", is_whole_place=True, state=State.RESERVED),
        "held without token": Target(MAIL, "reserved", (replace(HELD, token=b""),)),
        "held by a worker of 24": Target(MAIL, "reserved", (replace(HELD, worker="w" * 24),)),
        "held by a worker of 25": Target(MAIL, "reserved", (replace(HELD, worker="w" * 25),)),
        "held by nobody": Target(MAIL, "reserved", (replace(HELD, worker=""),)),
        "held here": Target(MAIL, "reserved", (replace(HELD, worker=SCREEN_WORKER),)),
        "held by two": Target(MAIL, "reserved", (HELD, replace(HELD, worker="worker-2", token=b""))),
        "one of two held": Target(MAIL, "reserved", (HELD, JOB)),
        "no queue": Target(None, "dead", (JOB,)),
    }
    for title, target in targets.items():
        yield f"{title}: {[question_text.describe_target(target, total) for total in (0, 1, 12_400)]}"
        for name in ("requeue", "delete", "purge", "release", "enqueue", "pause"):
            verb = VERBS_BY_NAME[name]
            titles = [question_text.build_question_title(verb, target, 2, queue) for queue in ("mail", "")]
            shown = [
                describe(line) for line in question_text.build_question_lines(verb, target, "redis://a", "z undoes it")
            ]
            yield f"  {name}: {titles[: 1 + (title == 'one')]} {shown}"
    one, native = targets["one"], SYSTEMS["native"]
    yield f"without undo: {describe(question_text.build_question_lines(VERBS_BY_NAME['requeue'], one, 'a', ''))}"
    for verb in VERBS:
        for each in (
            verb,
            replace(verb, question="Really?"),
            replace(verb, scope="place"),
            replace(verb, scope="queue"),
        ):
            yield f"title of {verb.label} {each.scope}: {question_text.build_question_title(each, one, 1, 'mail')!r}"
        for count in (1, 500, 501):
            yield f"  undo of {count}: {question_text.describe_undo_of_change(native, verb, count, 'dead')!r}"
        yield f"  problem: {question_text.describe_undo_of_change(native, verb, 1, 'dead', 'the disk is full')!r}"


def describe_dry_runs() -> Iterator[str]:
    errors = tuple((f"error {at}", 100 - at) for at in range(9))
    for title, plan in {
        "nothing": Plan(0, 0),
        "all read": Plan(100, 100, ((MAIL, 100),), (("dead", 100),), (("", 100),), (("under 1 h", 100),)),
        "not all": Plan(
            100, 99, ((MAIL, 60), (NEWS, 39)), (("dead", 60), ("failed", 39)), errors[:1], (("a", 1), ("b", 98))
        ),
        "errors": Plan(100, 100, (), (), errors),
        "four": Plan(100, 100, tuple((Ref("native", f"q{at}"), 9) for at in range(4)), (), errors[:4]),
        "five": Plan(100, 100, tuple((Ref("native", f"q{at}"), 9) for at in range(5)), (), errors[:5]),
        "six": Plan(100, 100, tuple((Ref("native", f"q{at}"), 9) for at in range(6)), (), errors[:6]),
        "long": Plan(1_000_000, 1_000_000, (), (), (("word " * 30, 1_000_000), ("", 12_345_678))),
        "samples": Plan(100, 100, samples=tuple(replace(JOB, id=b"id-of-a-job-%d-and-more" % at) for at in range(3))),
        "a sample": Plan(100, 100, samples=(replace(JOB, id=b"id-of-a-job-and-more"),)),
    }.items():  # fmt: skip
        for total, refs, width, has_errors, most in (
            (100, (MAIL,), 60, True, 4),
            (101, (MAIL, NEWS), 60, False, 4),
            (100, (MAIL, NEWS), 20, True, 2),
            (100, (MAIL, NEWS), 29, True, 1),
            (100, (MAIL, NEWS), 31, True, 0),
        ):
            yield f"{title} of {total} {len(refs)} {width} {has_errors} {most}"
            for line in question_text.format_dry_run(plan, total, refs, width, has_errors, most):
                yield f"  {describe(line)}"
        yield f"  usual rows: {len(question_text.format_dry_run(plan, 100, (MAIL, NEWS), 60))}"
    for refs in ((MAIL,), (MAIL, NEWS), (MAIL,) * 3, (MAIL,) * 4, (MAIL,) * 5):
        for place, total in (("", 1), ("dead", 2)):
            location = question_text.format_location(refs, place, "redis://a", total)
            yield f"in {len(refs)} {place} {total}: {describe(location)}"
    for done, total in ((0, 0), (0, 5), (1, 0), (1, 5), (408, 2_500), (123_456_789, 1_234_567_890)):
        for facts in ((), ("5/s", "", "7 min left")):
            yield f"progress {done} {total}: {describe(question_text.format_progress('requeue', done, total, facts))}"
    for number in (0, 1, 2, 12_400, 10**11, 10**12):
        yield f"jobs {number}: {question_text.format_job_count(number)!r}"


# ── the dialog of a question ─────────────────────────────────────────────────────────────────────────────────────────


def build_dialog(log: list[str], values: dict[str, Any], fields: tuple[Field, ...], **attributes: Any) -> Any:
    """Return a `Question` whose fields hold `values`. Widgets by selector write down what is called."""
    widgets: dict[str, Any] = {}

    def find(selector: str, _type: Any = None) -> Any:
        if selector not in widgets:
            name = selector.partition("-")[2]
            widgets[selector] = Actor(
                log, selector, value=values.get(name, ""), disabled=False, display=None,
                has_class=lambda each: each == "-raw" and selector == "#body-raw",
                read_bytes=lambda: values.get(name, b""), encode_body=lambda: encode(values.get(name, b"")),
            )  # fmt: skip
        return widgets[selector]

    def encode(raw: bytes) -> bytes:
        if raw == b"{":
            raise UsageError("not JSON")
        return raw

    new = Question("title", [Content("line")], fields, "go", False, is_form=True)
    calls = Actor(log, "dialog")
    shown = ("_fit_to_terminal", "dismiss", "set_focus")
    usual: dict[str, Any] = {
        **{key: value for key, value in vars(new).items() if key.startswith("_") and key in _FORM_NAMES},
        "query_one": find, "widgets": widgets, "is_mounted": True, "app": Actor(log, "app", size=Size(80, 24)),
        "query": lambda selector: SimpleNamespace(
            results=lambda _type: [find(selector)] if selector.partition("-")[2] in values else []
        ),
        **{name: getattr(calls, name) for name in shown},
    }  # fmt: skip
    return Bare(Question, **{**usual, **attributes})


_FORM_NAMES = (
    "_title", "_lines", "_fields", "_yes", "_is_danger", "_check", "_typed", "_first_problem", "_bodies", "_guard",
    "_is_form", "_describe_duration", "_initial_contents", "_build_lines", "_problem", "_body_problem",
)  # fmt: skip


def describe_forms() -> Iterator[str]:
    log: list[str] = []
    fields = (
        Field("name", "name "), Field("number", "number", "int"), Field("tick", "tick", "bool"),
        Field("body", "body", "body"), Field("raw", "raw", "bytes"), Field("more", "more", "int", needs="name"),
    )  # fmt: skip

    def refuse(_values: object) -> None:
        raise RqtuiError("Redis says no")

    for values in (
        {},
        {"name": " a ", "number": "5", "tick": True, "body": b"{}", "raw": b"\xff", "more": "7"},
        {"number": "x"},
        {"body": b"{"},
        {"more": "x"},
        {"name": "a", "more": "x"},
    ):
        for changes in (
            {},
            {"_check": refuse},
            {"_guard": "prod"},
            {"_problem": "before", "_body_problem": "of the body"},
        ):
            dialog = build_dialog(log, values, fields, **changes)
            dialog.action_accept()
            yield f"accept {values} {[*changes]}: {take(log)} {dialog._problem!r} {dialog._body_problem!r}"
        dialog = build_dialog(log, values, fields)
        dialog._show_needed_fields()
        shown = {name: each.display for name, each in dialog.widgets.items() if each.display is not None}
        yield f"  needed {shown} {[field.name for field in dialog._used_fields]} {take(log)}"
        for initial in ({}, dialog._read_field_contents()):
            dialog = build_dialog(log, values, fields, _initial_contents=initial)
            dialog.action_leave()
            yield f"  leave {len(initial)}: {take(log)}"
        for problem in ("", "refused"):
            for is_form in (False, True):
                for each in (fields, fields[3:], fields[4:], fields[4:5], ()):
                    dialog = build_dialog(log, values, each, _first_problem=problem, _is_form=is_form)
                    focus = dialog._find_first_focus()
                    dialog._show_duration = lambda: log.append("duration")
                    dialog.on_mount()
                    initial = len(dialog._initial_contents)
                    yield f"  mounted {problem} {is_form} {len(each)}: {focus._name} {initial} {take(log)}"
    pushed: list[Any] = []
    dialog = build_dialog(log, {"name": "a"}, fields)
    dialog.app.__dict__["push_screen"] = lambda *args: pushed.extend(args)
    dialog.action_leave()
    question, confirm = pushed
    yield f"asks {question._title!r} {describe(question._lines)} {question._yes!r} {question._is_danger} {take(log)}"
    for reply in (None, question_dialog.FormReply({}, {})):
        confirm(reply)
        yield f"  {reply}: {take(log)}"
    for guard, is_disabled in (("", False), ("", True), ("prod", False), ("prod", True)):
        for is_form, is_danger in ((False, False), (True, False), (True, True)):
            dialog = build_dialog(log, {}, (), _guard=guard, _is_form=is_form, _is_danger=is_danger)
            dialog.__dict__["action_accept"] = lambda: log.append("accept")
            dialog.query_one("#yes").disabled = is_disabled
            dialog.action_enter()
            yield f"Enter {guard} {is_disabled} {is_form} {is_danger}: {take(log)}"
    for word in ("", "prod", " prod ", "other"):
        for changed in ("guard-word", "field-rate", "field-canary", "field-name", "field-more"):
            dialog = build_dialog(
                log, {"rate": "5/s"}, fields, _guard="prod", _describe_duration=lambda typed: f"of {typed}"
            )
            dialog.__dict__["_show_needed_fields"] = lambda: log.append("needed")
            dialog.on_input_changed(SimpleNamespace(input=SimpleNamespace(id=changed), value=word))
            yield f"typed {word!r} in {changed}: {take(log)} {dialog.query_one('#yes').disabled}"
    for is_mounted in (False, True):
        dialog = build_dialog(log, {"rate": "1/s"}, (), is_mounted=is_mounted, query=lambda _selector: [1])
        dialog.__dict__["_show_duration"] = lambda: log.append("duration")
        dialog.replace_text([Content("new")])
        yield f"replaced {is_mounted}: {take(log)} {describe(dialog._lines)}"
        dialog.fit_text(lambda rows: [Content(f"for {rows}")])
        yield f"  fitted: {take(log)}"
        dialog._rebuild_text(7)
        yield f"  rebuilt: {take(log)} {describe(dialog._lines)}"
    for name in ("no", "yes"):
        dialog = build_dialog(log, {}, ())
        dialog.__dict__.update(action_leave=lambda: log.append("leave"), action_accept=lambda: log.append("accept"))
        dialog.on_button_pressed(SimpleNamespace(button=SimpleNamespace(id=name)))
        dialog.action_scroll(5)
        dialog.on_body_editor_checked(SimpleNamespace(problem="not JSON"))
        yield f"button {name}: {take(log)} {dialog._body_problem!r} {dialog._problem!r}"
    editors: list[Any] = []
    dialog = build_dialog(log, {}, (), query=lambda _type: editors)
    dialog.action_editor()
    editors.append(Actor(log, "editor"))
    dialog.action_tidy()
    yield f"tidy: {take(log)}"
    for field in (
        *fields, Field("rate", "rate", "rate"), Field("canary", "canary", "int"), Field("x", "x", choices=("a", "b")),
        Field("to", "to", "queue"), Field("wait", "wait", "duration"), Field("canary_wait", "wait", "duration"),
        Field("canary_run", "run", "duration"), Field("stop_at_failures", "stop", "int"),
        Field("stop_at_depth", "stop", "int"), Field("free", "free"),
    ):  # fmt: skip
        if field.kind in ("body", "bytes"):
            continue
        hint = question_dialog._HINTS.get(field.name) or question_dialog._format_choices(field.choices)
        yield f"hint of {field.name}: {hint or question_dialog._HINTS.get(field.kind, '')!r}"
    yield f"stop: {describe(question_dialog.create_stop_question('Quit', 'quit')._lines)}"
    yield f"longest time: {durations.parse_duration('90s', 'it')}"


# ── the body of a job ────────────────────────────────────────────────────────────────────────────────────────────────


def build_editor(log: list[str], raw: bytes, is_json: bool, typed: str | None = None) -> Any:
    """Return a `BodyEditor` that shows a body. With `typed` a person has replaced its text."""
    new = BodyEditor("body", "body", raw, is_json)
    area: Any = Actor(log, "area", text="")
    area.__dict__["load_text"] = lambda text: area.__dict__.update(text=text) or log.append(f"load {text!r}")
    notice = Actor(log, "notice")
    classes: set[str] = set()
    editor = Bare(
        BodyEditor,
        **{name: vars(new)[name] for name in ("_field", "_words", "_raw", "_is_json", "_loaded_text")},
        query_one=lambda name: notice if name == ".as-it-is" else area,
        area=area,
        set_class=lambda is_set, name: classes.add(name) if is_set else classes.discard(name),
        has_class=lambda name: name in classes,
        post_message=lambda message: log.append(f"checked {message.problem!r}"),
    )
    editor.__dict__["query_one"] = lambda name, _type=None: notice if name == ".as-it-is" else area
    editor.on_mount()
    if typed is not None:
        area.__dict__["text"] = typed
    return editor


def describe_editor_commands() -> Iterator[str]:
    """Yield what a dialog does around the editor of a user. While `is_away`, the editor has the terminal."""
    log: list[str] = []

    def edit(raw: bytes, suffix: str, command: str, error: str) -> bytes:
        log.append(f"{command} edits {raw!r} {suffix}, away {is_away}")
        if error:
            raise UsageError(error)
        return b"edited"

    def find_command(error: str) -> str:
        if error:
            raise UsageError(error)
        return "vi"

    @contextmanager
    def suspend() -> Iterator[None]:
        nonlocal is_away
        is_away = True
        yield
        is_away = False

    @contextmanager
    def refuse_to_suspend() -> Iterator[None]:
        raise SuspendNotSupported
        yield

    is_away = False
    body: Any = Actor(log, "body", suffix=".json", read_bytes=lambda: b"{}")
    found: Any = SimpleNamespace(first=lambda: body)
    with pytest.MonkeyPatch.context() as patch:
        for command_error, edit_error, suspender in (
            ("", "", suspend),
            ("no editor", "", suspend),
            ("", "it ended with 1", suspend),
            ("", "", refuse_to_suspend),
        ):
            tools = SimpleNamespace(
                find_editor_command=lambda: find_command(command_error),
                edit_in_editor=lambda *args: edit(*args, edit_error),
            )
            patch.setattr(question_dialog, "body_editor", tools)
            dialog = build_dialog(log, {}, (), query=lambda _type: found)
            dialog.app.__dict__["suspend"] = suspender
            dialog.action_editor()
            yield f"editor {command_error!r} {edit_error!r} {suspender.__name__}: {take(log)} | away {is_away}"


def describe_bodies() -> Iterator[str]:
    log: list[str] = []
    most = body_editor.MAX_EDITABLE_BYTES
    for raw in (
        b"",
        b"{}",
        b"{",
        b'{"a": 1}',
        b"\xff",
        b"a\tb\nc",
        b"a\x00",
        b"x" * most,
        b"x" * (most + 1),
        b" " * (most - 1) + b"1",
        b" " * most + b"1",
    ):
        for is_json in (False, True):
            for typed in (None, "{}", "{", '{"b": 2}'):
                editor = build_editor(log, raw, is_json, typed)
                try:
                    sent: object = editor.encode_body()
                except UsageError as error:
                    sent = str(error)
                shown = sent if len(sent) < 99 else len(sent)  # type: ignore[arg-type]
                head = (
                    f"{len(raw)} {raw[:9]!r} {is_json} {typed!r}: {editor.suffix} {shown!r} {len(editor.read_bytes())}"
                )
                yield re.sub(r"(x| ){99,}", "…", f"{head} {take(log)}")
                editor.post_check_result()
                checked = take(log)
                editor.reformat()
                editor.on_text_area_changed(SimpleNamespace(stop=lambda: log.append("stop")))
                yield re.sub(r"(x| ){99,}", "…", f"  {checked}; reformatted {take(log)}")
    editor.replace_body(b"{")
    yield f"replaced: {take(log)} {editor.read_bytes()!r}"
    editor.replace_body(b"\xff")
    yield f"replaced: {take(log)} {editor.read_bytes()!r}"
    for raw in (
        b"",
        b"{}",
        b"[1,]",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"[" * 100_000,
        b"1" * 5_000,
        b"\n\n  x",
        b"\xff",
        b'"\xff"',
    ):
        yield f"problem of {raw[:9]!r}: {body_editor.find_json_problem(raw)!r}"
    for text in ("{}", "[]", "1", "[1,2]", '{"a":{"b":[1,{"c":[]}]},"d":"x,y:{}"}', '["\\"",{}]', "[[[]]]", "[ ]", ""):
        yield f"reformatted {text!r}: {body_editor.reformat_json(text)!r}"
    for environ in (
        {},
        {"EDITOR": "vi"},
        {"VISUAL": "code -w", "EDITOR": "vi"},
        {"VISUAL": ""},
        {"EDITOR": "'"},
        {"EDITOR": " "},
    ):
        try:
            yield f"editor of {environ}: {body_editor.find_editor_command(environ)}"
        except UsageError as error:
            yield f"editor of {environ}: {error}"


# ── the help ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_help() -> Iterator[str]:
    log: list[str] = []
    groups = [
        KeyGroup(
            f"group {number}",
            tuple(
                KeyLine("k" * at, f"does {at} " * 4, "more words" * (at % 3), f"name.{at}") for at in range(1, 1 + rows)
            ),
        )
        for number, rows in enumerate((3, 1, 2, 5, 1))
    ]
    for width in (20, 134, 135, 203, 204):
        yield f"help in {width}"
        yield from (f"  |{line}" for line in help_page.arrange_key_groups(groups, width).plain.split("\n"))
    yield f"styles {describe(help_page.arrange_key_groups(groups[1:2], 66))}"
    for words, more in (("w" * 40, "m" * 40), ("w" * 10, "m" * 10), ("w", "")):
        line = KeyLine("R", words, more)
        texts = {help_page._format_key_line(line, width).plain.rstrip(): width for width in range(70, 12, -1)}
        yield from (f"line from {width}: {text}" for text, width in texts.items())
    yield f"keys of {[help_page._format_key_line(KeyLine('k' * at, 'words'), 30).plain for at in (10, 11, 12, 13)]}"
    for typed in ("", "  ", "k", "K", "kk", "does", "DOES 2", "name.3 more", "x", " k ", "group"):
        found = help_page.filter_key_groups(groups, typed)
        yield f"found {typed!r}: {[(group.title, [line.keys for line in group.lines]) for group in found]}"
    for width in (40, 80, 218, 219, 220, 300):
        text = Actor(log, "text", value="")
        page = Bare(KeyPage, app=SimpleNamespace(size=Size(width, 30)), _groups=groups[:2], query_one=lambda *_: text)
        page._draw_keys()
        yield f"page in {width}: {take(log)}"
    text.__dict__["value"] = "nothing of that"
    page._draw_keys()
    yield f"page without a match: {take(log)}"
    for is_searching in (False, True):
        line = Actor(log, "line", value="x", max_scroll_y=77)
        calls = Actor(log, "page")
        names = ("dismiss", "remove_class", "add_class", "set_focus")
        page = Bare(
            KeyPage,
            has_class=lambda _name: is_searching,
            query_one=lambda _name: line,
            **{name: getattr(calls, name) for name in names},
            _draw_keys=lambda: log.append("draw"),
        )
        for action in (
            page.action_leave,
            page.action_search,
            page.on_input_submitted,
            page.on_resize,
            page.on_mount,
            page.on_input_changed,
        ):
            action()
            yield f"{action.func.__name__} {is_searching}: {take(log)} {line.value!r}"
        for direction in (-1, 1):
            page.action_ends(direction)
            page.action_scroll(direction)
            yield f"ends {direction}: {take(log)}"
    scenario: Any = SimpleNamespace(
        summary="A summary. " * 12,
        tries=(("R", "requeues " * 12), ("D", "deletes")),
        watch=("the rate " * 9, "the rest"),
    )
    yield from (f"  |{line}" for line in help_content.build_demo_page(scenario, "redis://here").plain.split("\n"))
    yield f"{describe(help_content.build_demo_page(scenario, 'redis://here'))}"
    controls = (
        SimpleNamespace(key="1", label="slower", text="halves the speed"),
        SimpleNamespace(key="2", label="a long label here", text="x"),
    )
    for view in ("overview", "board", "job"):
        for options in (
            {},
            {"can_change": False},
            {"in_replay": True},
            {"controls": controls},
            {"active_names": ("requeue", "delete"), "missing_verbs": {"purge": "it has no such script"}},
            {"active_names": tuple(VERBS_BY_NAME), "verb_labels": {"requeue": "retry", "delete": "remove for ever"}},
            {"active_names": ("job.copy", "filter", "open", "find")},
        ):
            yield f"help of {view} {describe(options)}"
            for group in help_content.build_key_groups(view, **options):
                shown = [(line.keys, line.words, line.more) for line in group.lines]
                yield f"  {group.title}: {shown if 'active_names' in options and view == 'board' else shown[:2]}"


# ── the page of a canary ─────────────────────────────────────────────────────────────────────────────────────────────


def build_progress(*ends: End | None) -> CanaryProgress:
    return CanaryProgress(
        tuple(FirstJob(MAIL, replace(JOB, id=b"j%d" % at), 1000, end=end) for at, end in enumerate(ends)), 2000, 60.0
    )


def build_canary_page(log: list[str], size: Size, **attributes: Any) -> Any:
    new = CanaryPage("requeue", "requeued", Limits(5.0, canary_jobs=2))
    names = ("_verb", "_past", "_limits", "_progress", "_others", "_foot", "failure", "_is_asking", "_is_over")
    widgets: dict[str, Any] = {}

    def find(name: str, _type: Any = None) -> Any:
        return widgets.setdefault(
            name, Actor(log, name, styles=SimpleNamespace(), display=None, border_title=None, border_subtitle=None)
        )

    calls = Actor(log, "page")
    usual = {
        **{name: vars(new)[name] for name in names}, "is_mounted": True, "query_one": find,
        "app": SimpleNamespace(size=size), "widgets": widgets, "dismiss": calls.dismiss, "set_focus": calls.set_focus,
    }  # fmt: skip
    return Bare(CanaryPage, **{**usual, **attributes})


def describe_canary_pages() -> Iterator[str]:
    log: list[str] = []
    for number in (0, 1, 20):
        progress = (
            build_progress(*[End.DONE, None, End.FAILED, End.UNKNOWN][:number], *[None] * (number - 4))
            if number
            else None
        )
        for others in (0, 1, 2):
            for height in (8, 13, 14, 24):
                for width in (20, 27, 60, 156, 163, 200)[:: 1 if (number, others, height) == (1, 1, 24) else 3]:
                    page = build_canary_page(log, Size(width, height))
                    page._draw()
                    log.clear()
                    if progress is not None:
                        page.show_progress(progress, others)
                    shown = [re.sub(r"\d+\.update", "update", line) for line in log]
                    lines = page.widgets["#canary-jobs"].styles.height
                    parts = {name: each.display for name, each in page.widgets.items() if each.display is not None}
                    frame = page.widgets["#canary"]
                    yield (
                        f"{number} first, {others} others in {width} x {height}: {lines} {parts} "
                        f"{frame.border_title.plain!r} {frame.border_subtitle.plain!r}"
                    )
                    if height == 24:
                        yield from (f"  {line}" for line in shown)
                    log.clear()
    for kind in ("asking", "over", "failed", "running"):
        for height in (10, 24):
            page = build_canary_page(log, Size(60, height), _progress=build_progress(End.DONE, End.FAILED))
            if kind == "asking":
                page.ask_for_others("Requeue the 3 others?", "They follow at 5/s. " * 5)
            elif kind != "running":
                page.show_end(
                    (("It stopped.", "b $strong"),), build_progress(End.FAILED).jobs[0] if kind == "failed" else None
                )
            else:
                page._draw()
            lines = page.widgets["#canary-jobs"].styles.height
            parts = {name: each.display for name, each in page.widgets.items() if each.display is not None}
            yield f"{kind} in {height}: {lines} {parts} {page.widgets['#canary'].border_subtitle.plain!r} {take(log)}"
            for action in (page.action_leave, page.action_accept, page.action_stop, page.action_open_job):
                action()
                yield f"  {action.func.__name__}: {take(log)}"
    page.on_button_pressed(SimpleNamespace(button=SimpleNamespace(id="yes")))
    page.on_button_pressed(SimpleNamespace(button=SimpleNamespace(id="no")))
    page.action_scroll(5)
    yield f"buttons: {take(log)}"
    page = build_canary_page(log, Size(60, 24), is_mounted=False)
    page.on_mount()
    page.on_resize()
    page.ask_for_others("others?", "")
    yield f"without widgets: {take(log)}"


# ── the filter line, and small dialogs ───────────────────────────────────────────────────────────────────────────────


def describe_filter_lines() -> Iterator[str]:
    log: list[str] = []

    def build_line(value: str = "", cursor: int | None = None, **attributes: Any) -> Any:
        new = FilterLine("jobs")
        names = ("_history", "_history_position", "_paths_in_bodies", "_has_requested_paths", "_is_completion_pending",
                 "_matching_paths", "_chosen", "_word_start", "_completed_text")  # fmt: skip
        paths: Any = Actor(log, "paths", display=None)
        calls = Actor(log, "line")
        shown = ("add_class", "remove_class", "focus")
        usual = {
            **{name: vars(new)[name] for name in names}, "paths": paths, "value": value, "is_open": True,
            "cursor_position": len(value) if cursor is None else cursor,
            **{name: getattr(calls, name) for name in shown},
            "prevent": lambda *_: Quiet(), "post_message": lambda message: log.append(type(message).__name__),
        }  # fmt: skip
        return Bare(FilterLine, **{**usual, **attributes})

    class Quiet:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    new = FilterLine("jobs")
    yield f"new: {new.can_focus} {new._history_position} {new._chosen} {new._word_start}"
    for number in (0, 1, 99, 100, 101):
        earlier = [f"f{at}" for at in range(number)]
        line = build_line("x", _paths_in_bodies=["a"], _has_requested_paths=True, _matching_paths=["a"], _chosen=3)
        line.open(earlier)
        opened = f"{line.value!r} {line._history_position} {line._chosen} {take(log)}"
        opened += f" {line._paths_in_bodies} {line._has_requested_paths}"
        moves = []
        for step in (-1, -1, 1, 1, 1, -1):
            line.action_earlier(step)
            moves.append((line.value, line._history_position))
        for accepted in ("", "new", "f0"):
            line.close(accepted)
        yield f"{number} earlier: {opened} {moves} {len(earlier)} {earlier[:2]} {earlier[-2:]} {take(log)}"
        line.action_leave()
        line.action_empty()
        yield f"  {take(log)} {line.value!r} {line.paths.display}"
    for value, cursor in (
        ("", None), (".", None), (".a", None), ("!.a", None), ("x .a", None), ("x .a:", None), (".a .b", 2),
        ("a.b", None),        ("a:.b", None), ('.a"', None), (".a ", None), (".a", 0), (".a", 1), ("!", None),
    ):  # fmt: skip
        line = build_line(value, cursor)
        yield f"word in {value!r} at {cursor}: {line._find_word_at_cursor()!r} {line.is_at_path}"
        for changes in ({}, {"is_open": False}, {"_completed_text": value}):
            line = build_line(value, cursor, **changes)
            line.on_input_changed()
            yield f"  changed {[*changes]}: {take(log)} {line._has_requested_paths} {line.paths.display}"
    offered = ["customer.plan", "customer", "plan", "a b", "to", "Plan.x", "x!"]
    for value, cursor in (
        ("", None),
        (".", None),
        (".p", None),
        (".P", None),
        (".plan", None),
        (".x", None),
        ("x .c y", 4),
        ("p", None),
        (".zz", None),
    ):
        for steps in ((1, 1, 1, 1), (-1, -1), (1, -1)):
            line = build_line(value, cursor)
            line.set_body_paths(offered)
            first = take(log)
            seen = []
            for step in steps:
                line.action_complete(step)
                seen.append((line.value, line.cursor_position, line._chosen))
            yield f"complete {value!r} at {cursor} {steps}: {first} {seen} {len(log)} {take(log)[-150:]}"
        line.value += "y"
        line.cursor_position = len(line.value)
        line.action_complete(1)
        yield f"  typed on: {line.value!r} {line._chosen} {take(log)}"
        line = build_line(value, cursor)
        line.action_complete(1)
        line.action_complete(1)
        pending = f"{line._is_completion_pending} {take(log)}"
        line.set_body_paths(offered)
        yield f"  before they came: {pending} | {line.value!r} {line._is_completion_pending}"
        log.clear()
    for width in (20, 30, 60):
        for chosen in (-1, 0, 1, 2, 5):
            paths = [f"path.{at}" + "x" * at for at in range(5)] + ["y" * 40, "z" * 41]
            path_line = Bare(
                PathLine,
                app=SimpleNamespace(size=Size(width, 9)),
                update=lambda text: log.append(describe(text)),
                display=None,
            )
            path_line.show_completions(paths, chosen)
            yield f"paths in {width} {chosen}: {take(log)} {path_line.display}"
    path_line.show_completions((), -1)
    yield f"no paths: {take(log)} {path_line.display}"
    for cells in (-1, 0, 1):
        paths = ["a" * 8, "b" * 8, "c"]
        path_line = Bare(
            PathLine, app=SimpleNamespace(size=Size(12 + 18 + cells, 9)), update=lambda text: log.append(text.plain)
        )
        path_line.show_completions(paths, 1)
        yield f"paths that fill {18 + cells} cells: {take(log)}"


def describe_small_dialogs() -> Iterator[str]:
    log: list[str] = []
    links = [
        ViewLink("errors", "e", "errors", "3"),
        ViewLink("workers", "w", "workers", "", True),
        ViewLink("metrics", "m", "metrics"),
    ]
    for shown in (links, links[:1]):
        table: Any = Actor(log, "table", styles=SimpleNamespace())
        dialog = Bare(
            ViewList, _links=tuple(shown), query_one=lambda _type: table, dismiss=Actor(log, "dialog").dismiss
        )
        dialog.on_mount()
        yield f"views: {take(log)} {table.styles.height}"
        for y in (None, -1, 0, len(shown) - 1, len(shown)):
            event: Any = SimpleNamespace(get_content_offset=lambda _table: None if y is None else Offset(0, y))
            dialog.on_click(event)
            yield f"  clicked {y}: {take(log)}"
    for key in ("e", "w", "x", "m", "o"):
        dialog.on_key(SimpleNamespace(key=key, stop=lambda: log.append("stop")))
        yield f"  key {key}: {take(log)}"
    dialog.on_table_opened(SimpleNamespace(id="errors"))
    yield f"  opened: {take(log)} {[column.width for column in view_list.COLUMNS]}"
    for rebuild in (None, lambda: Content("same"), lambda: Content("new")):
        page = Bare(
            Pages,
            _text=Content("same"),
            _rebuild_text=rebuild,
            set_interval=Actor(log, "page").set_interval,
            query_one=lambda *_: Actor(log, "text"),
        )
        page.on_mount()
        page._update_text()
        page.action_scroll(-10)
        yield f"page: {take(log)} {page._text.plain}"


@pytest.mark.slow
def test_dialogs_at_their_bounds_match_the_stored_text() -> None:
    keys.set_keymap({})
    parts = (
        describe_question_texts, describe_dry_runs, describe_forms, describe_editor_commands, describe_bodies,
        describe_help, describe_canary_pages, describe_filter_lines, describe_small_dialogs,
    )  # fmt: skip
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)
