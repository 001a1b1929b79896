"""Ids, names, bodies and errors of strangers command nothing: no terminal, spreadsheet, page, parser or server."""

from __future__ import annotations

import base64
import random
import re
import shlex
import subprocess
import sys

import hostile_text
import pytest
from families import run_in_one_test
from redis import Redis
from shell import build_environment, shell

from rqtui.client.queue import Queue
from rqtui.model import Job, Snapshot, State
from rqtui.model import Queue as Seen
from rqtui.operations.journal import Operation
from rqtui.reports import prometheus
from rqtui.reports.postmortem import build_document, build_markdown
from rqtui.systems import registry
from rqtui.tui.format import copy_formats
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.terminal import clipboard

FORMULAS = ("=1+2", "+1+2", "-2+3+cmd|' /C calc'!A0", "@SUM(1)", "\t=1+2", "\r=1+2", "＝1+2", '=HYPERLINK("http://x")')
MARKDOWN = (
    "a|b", "[x](javascript:alert(1))", "<img src=x onerror=alert(1)>", "![x](http://e.x/p.png)", "`x`", "**x**", "# x",
    "http://evil.example/x", "www.evil.example", "me@evil.example", "&lt;b&gt;", "- x", "1. x", "+ x", "$x$", "~~x~~",
    "a\nb", "a\r\n# b", "\x1b[2J", "\u202e|",
)  # fmt: skip


def _job(id: bytes, **given: object) -> Job:
    return Job(id, "mail", "native", "dead", State.DEAD, id, **given)  # type: ignore[arg-type]


# Spreadsheets ---------------------------------------------------------------------------------------------------------


@run_in_one_test("text", FORMULAS)
def test_a_copied_list_has_no_cell_that_a_spreadsheet_calculates(text: str) -> None:
    columns = (Column("id", "id", 10), Column("job", "job", 10))
    copied = copy_formats.convert_table_rows(columns, [Row("1", (text, "plain"))]).data.decode()
    lines = copied.split("\n")
    assert len(lines) == 2 and [line.count("\t") for line in lines] == [1, 1]
    assert lines[1][0] in "'⇥␍" and lines[1].endswith("\tplain")


@pytest.mark.parametrize("figure", ["-3", "+1.5", "-56.9y", "-3.5 ms", "12"])
def test_a_figure_is_copied_as_it_is(figure: str) -> None:
    assert (
        copy_formats.convert_table_rows((Column("n", "n", 5),), [Row("1", (figure,))]).data.decode() == f"n\n{figure}"
    )


# Markdown -------------------------------------------------------------------------------------------------------------


@run_in_one_test("text", MARKDOWN)
def test_a_page_of_operations_shows_data_letter_by_letter(text: str) -> None:
    plain = Operation(1, "who", "delete", "queue", "native", (b"id",), 1, {"word": 1}, "error")
    operation = Operation(1, text, text, text, "native", (text.encode(),), 1, {text: 1}, text, profile=text, url=text)
    page, expected = build_markdown([operation]), build_markdown([plain])
    assert hostile_text.find_harmful_character(page) == ""
    assert page.count("\n") == expected.count("\n"), "no line was added"
    when, row = [line for line in page.split("\n") if line.startswith("| ") and "native:" in line]
    assert len(re.findall(r"(?<!\\)\|", when)) == 5, when  # four cells
    assert len(re.findall(r"(?<!\\)\|", row)) == 9, row  # eight cells
    for mark in ("<", "`", "](", "**", "http://", "www.", "~~", "&"):
        assert not re.search(r"(?<!\\)" + re.escape(mark), page), (mark, page)
    assert not re.search(r"^\* (?:[-+=#]|\d+[.)])", page, re.MULTILINE), page
    assert build_document([operation])["operations"][0]["ids"] == [text]


# Prometheus -----------------------------------------------------------------------------------------------------------


def test_a_queue_name_cannot_add_a_label_or_a_line_to_the_metrics() -> None:
    names = ['a"} 1\nevil{x="', "a\\", 'b"', "c\n# TYPE evil gauge", "d\x1b[2J", "e\u2028f", "{}", "\udcff"]
    text = prometheus.format_exposition(Snapshot(taken_ms=1, queues=tuple(Seen(name, "native") for name in names)), 0.1)
    assert hostile_text.find_harmful_character(text) == ""
    label = r'[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"'
    line = re.compile(rf"rqtui_[a-z_]+(?:\{{{label}(?:,{label})*\}})? [-+0-9.e]+|# (?:HELP|TYPE) rqtui_.*")
    for each in text.splitlines():
        assert line.fullmatch(each), each
    assert "evil{" not in re.sub(label, "", text)


# Clipboards and terminals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environ", [{}, {"STY": "1.screen"}])
def test_copied_text_cannot_end_its_escape_sequence(environ: dict[str, str]) -> None:
    source = random.Random(1)
    for _ in range(50):
        data = hostile_text.build_hostile_body(source) + b"\x07\x1b\\\x1b]0;owned\x07"
        sent: list[str] = []
        clipboard.send_to_clipboard(data, sent.append, environ)
        whole = "".join(sent).replace("\x1bP", "").replace("\x1b\\", "") if environ else "".join(sent)
        carried = re.fullmatch(r"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", whole)
        assert carried and base64.b64decode(carried[1]) == data


def test_nothing_names_the_window_of_the_terminal() -> None:
    from shell import ROOT

    for path in (
        each for each in (ROOT / "rqtui").rglob("*.py") if each.name != "bodies.py"
    ):  # the demo's hostile jobs
        assert not re.search(r"(?:\\x1b|\\033|\\e)\][012];", path.read_text("utf-8")), path


def test_a_copied_redis_cli_line_is_one_command_of_a_shell() -> None:
    source = random.Random(2)
    for number in range(200):
        id = hostile_text.build_hostile_id(source, number)
        for odd in (id, b"$(touch x)", b"`x`", b"a;b", b"a\nb", b"'\"", b"-h"):
            export = copy_formats.format_redis_cli_lines(
                [_job(odd)], copy_formats.JobSource(registry.create_system("native"), "mail", "redis://host")
            ).decode()
            assert "\n" not in export and hostile_text.find_harmful_character(export) == ""
            words = shlex.split(export)
            assert words[0] == "redis-cli" and words[-3:-1] in (
                ["HGET", "rqtui:{mail}:jobs"],
                ['"HGET"', '"rqtui:{mail}:jobs"'],
            )


def test_copied_python_puts_the_same_bytes_and_nothing_else() -> None:
    import ast

    source = random.Random(3)
    for number in range(100):
        job = _job(
            hostile_text.build_hostile_id(source, number),
            name=hostile_text.build_hostile_text(source),
            body=hostile_text.build_hostile_body(source),
        )
        export = copy_formats.format_python_program(
            [job], copy_formats.JobSource(registry.create_system("native"), "mail", "redis://h")
        ).decode()
        tree = ast.parse(export)
        assert export.isascii() and len(tree.body) == 3, export
        call = tree.body[2].value  # type: ignore[attr-defined]
        assert ast.literal_eval(call.args[0]) == job.body


# The server -----------------------------------------------------------------------------------------------------------


def test_neither_lua_nor_the_protocol_can_be_injected(client: Redis, url: str) -> None:
    client.set("bystander", "x")
    queue = Queue("mail", client)
    odd = (
        "\r\n*1\r\n$8\r\nFLUSHALL\r\n", "'); redis.call('FLUSHALL') --", "]] redis.call('FLUSHALL')", "\\r\\nFLUSHALL",
        '"}; redis.call("FLUSHALL"); x={"', "%s%d%1", "a b", "\x00",
    )  # fmt: skip
    for number, text in enumerate(odd):
        queue.put(text.encode(), id=f"{number}{text}", name=text if text.isprintable() else "")
    held = queue.reserve(len(odd), worker=odd[1])
    assert {job.id for job in held} == {f"{number}{text}" for number, text in enumerate(odd)}
    for job in held:
        job.reject(job.id, final=True)
    for words in (("jobs", "mail", "dead"), ("errors", "mail"), ("show", "mail", f"0{odd[0]}"), ("workers", "mail")):
        ran = shell(url, *words)
        assert ran.code == 0 and hostile_text.find_harmful_character(ran.out + ran.err) == "", words
    for bad in ("ma{il", "mail\r\n", "a b", "\x00"):
        assert shell(url, "put", bad, "1").code == 2
    assert client.get("bystander") == b"x" and client.zcard("rqtui:{mail}:dead") == len(odd)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    ["complete_bash", *(pytest.param(f"complete_{name}", marks=pytest.mark.matrix) for name in ("zsh", "fish"))],
)
def test_completion_offers_nothing_that_came_from_redis(shape: str, client: Redis, url: str) -> None:
    Queue("$(touch-trap)", client).put(1)

    def offered(words: str) -> bytes:
        asked = {"_RQTUI_COMPLETE": shape, "COMP_WORDS": words, "_TYPER_COMPLETE_ARGS": words}
        asked |= {"COMP_CWORD": str(words.count(" ")), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        environ = {**build_environment(url), **asked}  # a program of its own: completion unhooks what checks arguments
        return subprocess.run([sys.executable, "-m", "rqtui"], capture_output=True, env=environ, check=False).stdout

    assert b"snapshot" in offered("rqtui ")
    assert b"--filter" in offered("rqtui jobs --")
    assert b"touch-trap" not in offered("rqtui jobs ") + offered("rqtui act delete ")
