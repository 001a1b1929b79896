"""What is sent to the terminal and read from it at the bounds of each rule: `terminal_kept.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/terminal/test_terminal_kept.py` writes the text; review the difference as
code.
"""

# ruff: noqa: B023  # each function runs in the turn of the loop that defines it

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from service_stage import Recorder, Stage, describe
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual._styles_cache import StylesCache
from textual.app import App, SuspendNotSupported
from textual.color import Color
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip

from rqtui.tui.terminal import (
    ascii_filter,
    border_title,
    clipboard,
    diff_output,
    driver,
    hangup,
    hooks,
    job_control,
    line_cache,
    scroll_length,
    style_cache,
    typeahead,
    uncaught_error,
)
from rqtui.tui.terminal.diff_output import Ink, SentCells
from rqtui.tui.terminal.hooks import has_parameters

pytestmark = pytest.mark.newest_textual

KEPT = Path(__file__).with_name("terminal_kept.txt")
RED, BLUE = Style(color="red", bold=True), Style(color="blue", bgcolor="white")


def describe_ascii() -> Iterator[str]:
    for first in (0x7E, 0x27FE, 0x28FE):
        yield f"{first:x}: {[ascii_filter.SIGNS[code] for code in range(first, first + 5)]!r}"
    yield "".join(ascii_filter.to_ascii(chr(0x2800 + bits)) for bits in (0, 1, 3, 7, 15, 31, 63, 127, 255, 128, 254))
    for signs in ascii_filter._ASCII_SIGNS.values():
        yield f"{signs}: {ascii_filter.to_ascii(signs)}"
    yield " ".join(
        f"{text}={ascii_filter.to_ascii(text)}" for text in ("é", "日", "ﬁ", "①", "Å", "…", "\u200b", "ß", "Ω")
    )
    yield " ".join(ascii_filter.spell_key(key) for key in ("⏎", "␣", "x"))


# ── the clipboard ────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_clipboard(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[str]:
    monkeypatch.setattr(clipboard.tempfile, "tempdir", str(folder))
    sent: list[str] = []

    def describe_result(
        data: bytes, write: Callable[[str], object] | None, environ: dict[str, str], **more: Any
    ) -> str:
        sent.clear()
        result = clipboard.send_to_clipboard(data, write, environ, **more)
        path = Path(result.where)
        stored = f" {path.stat().st_mode & 0o777:o} {path.read_bytes() == data}" if path.is_file() else result.where
        return f"{stored} {result.why!r} {[text if len(text) < 70 else f'{len(text)} {text[:9]!r}' for text in sent]}"

    for size in (56_243, 56_244, 56_245):
        yield f"{size} bytes: {describe_result(b'x' * size, sent.append, {})}"
    for data in (b"", b"text", b"\xff"):
        for environ in ({}, {"STY": "1"}):
            for write, copy in ((sent.append, None), (None, None), (None, sent.append)):
                yield (
                    f"{data!r} {environ} {write is None} {copy is None}: "
                    f"{describe_result(data, write, environ, copy=copy)}"
                )
    for size in (499, 500, 501, 1000, 1001):
        wrapped = clipboard._wrap_for_screen("x" * size)
        yield f"wrapped {size}: {[len(part) for part in wrapped.split(chr(27) + chr(92))]}"
    long = clipboard._wrap_for_screen(base64.b64encode(b"x" * 9).decode())
    yield repr(long)
    for program, answer in (
        (None, None), ("tmux", (0, b"")), ("tmux", (1, b"")), ("tmux", (1, b"one\ntwo \xff\n")), ("tmux", (-1, b"x")),
        ("tmux", subprocess.TimeoutExpired("tmux", 5)), ("tmux", OSError("no")),
    ):  # fmt: skip

        def run(command: list[str], answer: Any = answer, **options: Any) -> Any:
            environment = options.pop("env")
            sent.append(f"{command} {options} {environment['TMUX']}")
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(returncode=answer[0], stderr=answer[1])

        monkeypatch.setattr(clipboard.shutil, "which", lambda _name, program=program: program)
        monkeypatch.setattr(clipboard.subprocess, "run", run)
        sent.clear()
        result = clipboard.send_to_clipboard(b"text", None, {"TMUX": "here"})
        yield f"tmux {answer}: {result.where if not result.why else ''} {result.why!r} {sent}"


# ── what is painted ──────────────────────────────────────────────────────────────────────────────────────────────────


def build_cells(text: str) -> list[diff_output.Cell]:
    cells = diff_output._parse_cells(Strip([Segment(text)]), ColorSystem.TRUECOLOR)
    assert cells is not None
    return cells


def describe_runs() -> Iterator[str]:
    blank = "." * 30
    changes = (
        "",
        "a",
        ".a",
        "." * 29 + "a",
        "a" + "." * 5 + "b",
        "a" + "." * 6 + "b",
        "a" + "." * 7 + "b",
        "ab..........cd..e",
        "a" * 30,
        "日",
        ".日",
        "." * 28 + "日",
        "日日.日",
        "a.日......b",
        "..b....日...日",
    )
    lines = [f"{text}{blank}"[: 30 - text.count("日")] for text in changes]
    for before in (blank, lines[-5], lines[12], "a" * 30):
        for after in lines:
            runs = diff_output._find_changed_runs(build_cells(before), build_cells(after))
            yield f"{before} -> {after}: {runs}"
    plain = diff_output.PLAIN
    halves: dict[str, list[diff_output.Cell]] = {
        text: [("" if sign == "_" else sign, plain) for sign in text]
        for text in ("xab", "xa_", "ya_", "yab", "xabc", "x日_c", "x日bc", "xa_c")
    }
    for before, after in (
        ("xab", "xa_"),
        ("xa_", "xab"),
        ("xab", "ya_"),
        ("x日bc", "x日_c"),
        ("xabc", "x日_c"),
        ("x日_c", "xa_c"),
    ):
        yield f"{before} -> {after}: {diff_output._find_changed_runs(halves[before], halves[after])}"


def describe_styles() -> Iterator[str]:
    inks = (
        Ink(),
        Ink("1"),
        Ink("1", "31"),
        Ink("", "31"),
        Ink("", "", "44"),
        Ink("1", "31", "44"),
        Ink("4", "32", "44"),
    )
    for before in inks:
        yield f"{tuple(before)}: {[diff_output.encode_style_change(before, after) for after in inks]!r}"
    for system in (ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD):
        encoded = [diff_output.encode_style(style, system) for style in (RED, BLUE, Style(), Style(underline=True))]
        yield f"{system.name}: {[tuple(ink) for ink in encoded]}"


def describe_updates() -> Iterator[str]:
    def strip(text: str, style: Style | None = None) -> Strip:
        return Strip([Segment(text, style)])

    for color_system in (None, "standard", "256", "windows", "truecolor"):
        console: Any = SimpleNamespace(color_system=color_system)
        update = LayoutUpdate([[strip("red", Style(color="#ff5577"))]], Region(2, 3, 3, 1))
        yield f"{color_system}: {diff_output.FullUpdate.from_update(update).render_segments(console)!r}"
    cells = SentCells()
    full = (
        ([[strip("ready 12  "), strip(" w1 ", RED)], [strip("dead   3  "), strip("    ", BLUE)]], Region(0, 0, 14, 2)),
        ([[strip("ready 13  "), strip(" w1 ", RED)], [strip("dead   3  "), strip("    ", BLUE)]], Region(0, 0, 14, 2)),
        ([[strip("ready 13  "), strip(" w1 ", BLUE)]], Region(0, 0, 14, 1)),
        ([[strip("日 a")]], Region(3, 1, 4, 1)),
        ([[strip("日 b")]], Region(3, 1, 4, 1)),
        ([[strip("xy b")]], Region(3, 1, 4, 1)),
        ([[strip("e\u0301 x  y", RED), strip("z")]], Region(1, 1, 6, 1)),
        ([[strip("plain")]], Region(1, 1, 5, 1)),
        ([[strip("  ", Style(bold=True)), strip("u ", Style(underline=True)), strip("  ")]], Region(0, 4, 6, 1)),
        ([[strip("  ", Style(bold=True)), strip("u ", Style(underline=True)), strip(" x")]], Region(0, 4, 6, 1)),
    )
    console = SimpleNamespace(color_system="truecolor")
    emoji = [[strip("\U0001f600 a")]]
    full += ((emoji, Region(2, 5, 4, 1)), (emoji, Region(2, 5, 4, 1)), ([[strip("xy a")]], Region(2, 5, 4, 1)))
    for disputed in ("e\u0301b  ", "xy a"):  # what was in a row is unknown after text of uncertain width
        full += (([[strip("xy a")]], Region(2, 6, 4, 1)), ([[strip(disputed)]], Region(2, 6, 4, 1)))
    full += (([[strip("xy a")]], Region(2, 6, 4, 1)),)
    for strips, region in full:
        sent = diff_output.FullUpdate.from_update(LayoutUpdate(strips, region), cells).render_segments(console)
        yield f"{[[each.text for each in row] for row in strips]} at {region.x} {region.y}: {sent!r}"
    left, right = strip("left side "), strip("right side")
    for spans, changed in (
        ([(0, 0, 20)], right),
        ([(0, 0, 20)], strip("right Side")),
        ([(0, 9, 11)], strip("Xight Side")),
        ([(0, 0, 10)], strip("never")),
        ([(0, 10, 20)], strip("xxxxxxxxxx")),
        ([(0, 12, 15), (0, 18, 19)], strip("yyyyyyyyyy")),
        ([(0, 3, 4)], strip("zzzzzzzzzz")),
    ):
        update = ChopsUpdate([{0: left, 10: changed}], spans, [[10, 20]])
        sent = diff_output.PartialUpdate.from_update(update, cells).render_segments(console)
        yield f"{spans} {changed.text}: {sent!r}"
    update = ChopsUpdate([{0: None, 10: right}], [(0, 0, 20)], [[10, 20]])
    yield f"a missing strip: {diff_output.PartialUpdate.from_update(update).render_segments(console)!r}"
    terminals = [object(), object()]
    for terminal in (terminals[0], terminals[0], terminals[1], None):
        cells.clear_if_taken_again(terminal)
        again = diff_output.FullUpdate.from_update(LayoutUpdate([[strip("same")]], Region(0, 0, 4, 1)), cells)
        yield f"taken again: {again.render_segments(console)!r}"
    for text in ("ab", "a b", "日", "e\u0301", "a\u200bb", "a\u2060b", ""):
        parsed = diff_output._parse_cells(strip(text, RED), ColorSystem.TRUECOLOR)
        yield f"{text!r}: {parsed and [(cell[0], tuple(cell[1])) for cell in parsed]}"


def describe_hooks() -> Iterator[str]:
    class Hooked(App[None]):
        """An app that writes down what the hook lets through."""

        seen: list[str] = []

        def _display(self, screen: Any, renderable: Any) -> None:
            self.seen.append(type(renderable).__name__)
            if isinstance(renderable, LayoutUpdate):
                self.seen.append(renderable.render_segments(self.console))

        def _check_resize(self) -> None:
            self.seen.append("resized")

    app = Hooked()
    yield (
        f"supported {diff_output.supports_installed_textual(app)} "
        f"{typeahead.supports_installed_textual(app)} {driver.supports_installed_textual(app)}"
    )
    diff_output.install_hook(app)
    strip = Strip([Segment("ab")])
    for renderable in (
        LayoutUpdate([[strip]], Region(0, 0, 2, 1)),
        ChopsUpdate([{0: strip}], [(0, 0, 2)], [[2]]),
        None,
        "text",
    ):
        app._display(None, renderable)
    whole = LayoutUpdate([[strip]], Region(0, 0, 2, 1))
    for change in (
        lambda: None,
        app._check_resize,
        lambda: None,
        lambda: setattr(app, "_driver", SimpleNamespace(_writer_thread=1)),
    ):
        change()
        app._display(None, whole)
    yield f"{app.seen}"
    with pytest.MonkeyPatch.context() as patch:
        for is_off in (False, True):
            for supports in (True, False):
                installed: list[str] = []
                hook = SimpleNamespace(supports_installed_textual=lambda _app: supports, install_hook=installed.append)
                patch.setattr(hooks, "import_module", lambda name: installed.append(name) or hook)
                patch.setenv(hooks.SWITCH, "1") if is_off else patch.delenv(hooks.SWITCH, raising=False)
                hooks.install_hooks("app")
                yield f"hooks, off {is_off}, supported {supports}: {installed}"
    functions: tuple[Callable[..., object], ...] = (
        lambda: None,
        lambda a: None,
        lambda a, b: None,
        lambda a, b=1: None,
        lambda a, *, b: None,
        lambda a, *, b=1: None,
        lambda *a: None,
        lambda a, *b: None,
        lambda **a: None,
        lambda self, a: None,
        lambda b, a: None,
    )
    for function in functions:
        names = ((), ("a",), ("a", "b"), ("b",))
        yield f"{signature(function)}: {[has_parameters(function, *each) for each in names]}"


# ── keys, signals, caches ────────────────────────────────────────────────────────────────────────────────────────────


def describe_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    stage = Stage()
    app: Any = Recorder("app", stage.lines, suspend=nullcontext, _driver=SimpleNamespace(has_ended=False))
    asked: list[int] = []
    for group, leader in ((5, 5), (5, 6)):
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpgrp", lambda group=group: group)
            patch.setattr(os, "getsid", lambda number, leader=leader: asked.append(number) or leader)
            yield f"a shell {group} {leader}: {job_control.has_job_control_shell()} {asked}"
    handlers: dict[int, Any] = {}
    for after in (0, 3, None):
        for ends in (False, True):
            with monkeypatch.context() as patch:
                sleeps: list[float] = []

                def sleep(
                    seconds: float, after: int | None = after, ends: bool = ends, sleeps: list[float] = sleeps
                ) -> None:
                    sleeps.append(seconds)
                    if len(sleeps) == after:
                        handlers[signal.SIGCONT](signal.SIGCONT, None)
                        if ends:
                            handlers[signal.SIGTERM](signal.SIGTERM, None)

                def kill(group: int, number: int, after: int | None = after) -> None:
                    stage.lines.append(f"kill {group} {signal.Signals(number).name}")
                    if after == 0:
                        handlers[signal.SIGCONT](signal.SIGCONT, None)

                patch.setattr(job_control, "has_job_control_shell", lambda: True)
                patch.setattr(
                    job_control.signal,
                    "signal",
                    lambda number, handler: (
                        handlers.pop(number, "old") if handler == "old" else handlers.update({number: handler}) or "old"
                    ),
                )
                patch.setattr(job_control, "time", SimpleNamespace(sleep=sleep, time=iter((10.0, 17.5)).__next__))
                patch.setattr(os, "killpg", kill)
                patch.setattr(os, "getpgrp", lambda: 5)
                yield from stage.run(f"stopped, continued after {after}, ended {ends}", job_control.stop_program, app)
                yield f"  {len(sleeps)} checks in {sum(sleeps):.2f} s, handlers {handlers} {app._driver.has_ended}"
                app._driver.has_ended = False
    monkeypatch.setattr(job_control, "has_job_control_shell", lambda: False)
    with pytest.raises(SuspendNotSupported, match="no shell waits"):
        job_control.stop_program(app)
    with monkeypatch.context() as patch:
        for is_main in (True, False):
            threads = SimpleNamespace(current_thread=lambda: is_main, main_thread=lambda: True)
            patch.setattr(job_control, "threading", threads)
            patch.setattr(job_control.asyncio, "get_running_loop", lambda: Recorder("loop", stage.lines))
            patch.setattr(job_control, "signal", Recorder("signal", stage.lines, SIGQUIT="SIGQUIT"))
            yield from stage.run(f"SIGQUIT, main thread {is_main}", job_control.call_on_sigquit, "end")
            if is_main:
                handler = job_control.signal.find_last_call("signal")[1]
                yield from stage.run("received", handler, 3, None)
        for platform, is_terminal in (("linux", True), ("linux", False), ("darwin", True)):
            patch.setattr(hangup, "sys", SimpleNamespace(platform=platform, stdin=SimpleNamespace(fileno=lambda: 5)))
            patch.setattr(
                hangup,
                "os",
                SimpleNamespace(isatty=lambda number: stage.lines.append(f"isatty {number}") or is_terminal),
            )
            patch.setattr(
                hangup,
                "threading",
                SimpleNamespace(
                    Thread=lambda **options: stage.lines.append(describe(options)) or Recorder("thread", stage.lines)
                ),
            )
            yield from stage.run(f"watching {platform} {is_terminal}", hangup.watch_terminal, "end")
    poll = Recorder("poll", stage.lines)
    monkeypatch.setattr(hangup, "select", SimpleNamespace(poll=lambda: poll))
    monkeypatch.setattr(hangup, "os", Recorder("os", stage.lines))
    monkeypatch.setattr(hangup, "time", Recorder("time", stage.lines))

    def end() -> None:
        stage.lines.append("end")
        raise RuntimeError("the loop is closed")

    yield from stage.run("hangup", hangup._wait_for_hangup, 3, end)


def describe_typeahead() -> Iterator[str]:
    def answer_at_once(callback: Callable[[], object]) -> bool:
        asked.append("asked")
        callback()
        return True

    for is_open in (True, False):
        asked: list[str] = []
        node: Any = SimpleNamespace(call_later=answer_at_once if is_open else lambda _callback: asked.append("closed"))
        asyncio.run(typeahead._wait_for_messages(node))
        yield f"open {is_open}: {asked}"


def describe_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    painted: list[Region] = []
    monkeypatch.setattr(
        StylesCache, "render_widget", lambda _self, _widget, crop: painted.append(crop) or [len(painted)]
    )
    for name in ("set_dirty", "clear"):
        original = getattr(StylesCache, name)
        monkeypatch.setattr(
            StylesCache,
            name,
            lambda self, *args, name=name, original=original: calls.append(name) or original(self, *args),
        )
    calls: list[str] = []
    cache = line_cache.CachedLines()
    whole, part = Region(0, 0, 9, 9), Region(1, 0, 9, 9)
    widget: Any = None
    shown = [cache.render_widget(widget, region) for region in (whole, whole, part, part, whole)]
    cache.set_dirty(whole)
    shown.append(cache.render_widget(widget, whole))
    cache.clear()
    shown += [cache.render_widget(widget, whole), cache.render_widget(widget, whole)]
    yield f"painted {shown}, calls {calls}"
    stage = Stage()
    titled = Recorder("widget", stage.lines)
    for is_usable in (True, False):
        monkeypatch.setattr(border_title, "is_hook_usable", lambda *_args, is_usable=is_usable: is_usable)
        for region in (None, part):
            yield from stage.run(
                f"title {is_usable}", border_title.set_border_title, titled, "border_title", Content("new"), region
            )
            yield f"  {[name for name in ('border_title', '_border_title') if name in vars(titled)]}"
            for name in ("border_title", "_border_title"):
                vars(titled).pop(name, None)


def describe_scrolling(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    stage = Stage()
    for is_usable in (True, False):
        for module in (scroll_length, style_cache):
            monkeypatch.setattr(module, "is_hook_usable", lambda *_args, is_usable=is_usable: is_usable)
        widget: Any = Recorder("widget", stage.lines)
        yield from stage.run(f"length {is_usable}", scroll_length.change_scroll_size, widget, Size(80, 9))
        StylesCache.get_inner_outer(StylesCache(), Color.parse("red"), Color.parse("blue"))
        style_cache.clear_style_cache()
        yield f"  cached styles {StylesCache.get_inner_outer.cache_info().currsize > 0}"


def describe_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    stage = Stage()
    steps = ("suspend_application_mode", "resume_application_mode", "stop_application_mode", "disable_input")
    for name in (*steps, "run_input_thread"):

        def write_call(self: Any, name: str = name) -> None:
            stage.lines.append(f"{name} by Textual")
            if name == "suspend_application_mode":
                self.stop_application_mode()

        monkeypatch.setattr(driver.LinuxDriver, name, write_call)

    def build(**attributes: Any) -> Any:
        made = object.__new__(driver.QuietDriver)
        loop = Recorder("loop", stage.lines)
        vars(made).update(_app=stage.app, _loop=loop, _auto_restart=True, _key_thread=None, **attributes)
        return made

    suspend, resume, stop, disable = steps
    for sequence in (
        (disable, stop, resume), (suspend, disable, resume, disable, stop), (suspend, stop, resume), (resume, suspend),
    ):  # fmt: skip
        made = build()
        for step in sequence:
            yield from stage.run(step, getattr(made, step))
            yield f"  ended {made.has_ended}, suspended {made._is_suspended} {made._is_suspending}"
    for has_ended in (False, True):
        for is_alive in (None, False, True):
            thread = None if is_alive is None else SimpleNamespace(is_alive=lambda is_alive=is_alive: is_alive)
            made = build(has_ended=has_ended)
            made._key_thread = thread
            yield from stage.run(f"continued, ended {has_ended}, keys {is_alive}", made._resume_after_sigcont)
    made = build()
    yield from stage.run("SIGCONT", made._sigcont_application, signal.SIGCONT, None)
    made._loop.call_soon_threadsafe = lambda _function: (_ for _ in ()).throw(RuntimeError("closed"))
    yield from stage.run("SIGCONT after the end", made._sigcont_application, signal.SIGCONT, None)
    made._auto_restart = False
    yield from stage.run("SIGCONT without a restart", made._sigcont_application, signal.SIGCONT, None)
    for attributes in ({}, {"fileno": 0, "_debug": False}, {"fileno": 0, "_debug": False, "exit_event": "other"}):
        yield from stage.run(f"keys with {list(attributes)}", build(**attributes).run_input_thread)
    made.process_message = lambda message: stage.lines.append(f"message {message}")
    yield from stage.run("input", made._send_input_events, iter(("a", "b")))
    event = driver.SelectableEvent()
    event.set()
    yield f"an event that was set: {event.is_set()} {os.read(event.woken, 9)!r}"
    os.close(event.woken)
    os.close(event.wakes)


def describe_errors(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    for is_usable in (True, False):
        for is_debug in (True, False):
            monkeypatch.setattr(uncaught_error, "is_hook_usable", lambda *_args, is_usable=is_usable: is_usable)
            stage = Stage()
            app: Any = Recorder("app", stage.lines, _exit_renderables=[], _exception=ValueError("secret"))
            uncaught_error.install_error_output(app, lambda error: f"formatted {error}", is_debug)
            if is_usable:
                for _ in range(2):
                    yield from stage.run("an error", app._fatal_error)
            yield (
                f"  {is_usable} {is_debug}: {[str(each) for each in app._exit_renderables]} "
                f"{'error_console' in vars(app)}"
            )
    console = uncaught_error.DiscreetConsole(markup=False, highlight=False)
    console.print("secret")
    console.print("secret")
    yield f"printed {' '.join(capsys.readouterr().out.split())!r}"


def test_what_the_terminal_gets_matches_the_stored_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    parts: tuple[Callable[[pytest.MonkeyPatch], Iterator[str]], ...] = (
        lambda _patch: describe_ascii(),
        lambda patch: describe_clipboard(patch, tmp_path),
        lambda _patch: describe_runs(),
        lambda _patch: describe_styles(),
        lambda _patch: describe_updates(),
        lambda _patch: describe_hooks(),
        describe_signals,
        lambda _patch: describe_typeahead(),
        describe_caches,
        describe_scrolling,
        describe_driver,
        lambda patch: describe_errors(patch, capsys),
    )
    for part in parts:
        with monkeypatch.context() as patch:
            lines += part(patch)
    assert_lines_match_file(lines, KEPT)
