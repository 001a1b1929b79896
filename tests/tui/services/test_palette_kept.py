"""What the palette finds, ranks and runs: `palette_kept.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/services/test_palette_kept.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file
from service_stage import JOBS, MAIL, NEWS, Stage, describe
from textual.command import DiscoveryHit, Hit

from rqtui.engine.engine import JobSearch
from rqtui.errors import UsageError
from rqtui.model import Count, Job, Queue, Ref, State
from rqtui.tui import keys
from rqtui.tui.services import palette
from rqtui.tui.services.palette import Command, CommandProvider, Palette, score_command_match
from rqtui.tui.target import Target
from rqtui.verbs import VERBS_BY_NAME

KEPT = Path(__file__).with_name("palette_kept.txt")
MANY = [Ref("native", f"queue-{number:02}") for number in range(13)]
JOB = Job(b"x" * 30, "mail", "native", "dead", State.DEAD, b"x", name="send")


def build_palette(stage: Stage) -> Palette:
    def raise_error(url: str) -> None:
        raise UsageError(f"{url} is no URL.")

    themes = {f"dark-{number:02}": None for number in range(14)} | {"a-dark": None, "light": None}
    stage.app.available_themes = themes
    stage.app.check_action = lambda _action, _parameters: True
    stage.app.run_action = "run_action"
    stage.app.screen = SimpleNamespace(app=stage.app)
    verbs = [(VERBS_BY_NAME["requeue"], "move dead jobs."), (VERBS_BY_NAME["reserve"], "take a job.")]
    stage.app.palette = Palette(
        stage.host, stage.session, stage.navigation, lambda: verbs,
        lambda: [Command("profile eu", "go over to redis://eu", lambda: None)], raise_error,
    )  # fmt: skip
    return stage.app.palette


def collect_hits(provider: Any, query: str | None) -> list[Any]:
    async def collect() -> list[Any]:
        return [hit async for hit in (provider.discover() if query is None else provider.search(query))]

    return asyncio.run(collect())


def describe_hit(hit: Any) -> str:
    if isinstance(hit, DiscoveryHit):
        return f"{describe(hit.display)} {hit.help}"
    return f"{hit.score:.4f} {describe(hit.match_display)} {hit.text!r} {hit.help}"


def describe_searches() -> Iterator[str]:
    stage = Stage()
    commands = build_palette(stage)
    stage.session.filters = [f"err:{number}" for number in range(14)]
    provider: Any = CommandProvider(SimpleNamespace(app=stage.app))
    for refs in ([], [MAIL, NEWS, JOBS], MANY):
        stage.session.refs = refs
        for query in (
            None,
            "",
            "filter",
            "INTERVAL",
            "interval 5s",
            "interval  ",
            "theme dark",
            "theme DARK-03",
            "theme light",
            "theme zz",
            "queue mail",
            "queue queue",
            "mail",
            "queue-1",
            "err",
            "err:1",
            "url x",
            "requeue",
            "reserve",
            "lock now",
            "view me",
            "zz zz",
            "rq",
        ):
            if refs == [MAIL, NEWS, JOBS] or query in ("queue queue", "queue-1", ""):
                yield f"== {len(refs)} queues, {query!r}"
                yield from (f"  {describe_hit(hit)}" for hit in collect_hits(provider, query))
    stage.session.refs = [MAIL, NEWS]
    for query in (
        "url x",
        "interval 5s",
        "interval soon",
        "theme light",
        "theme zz",
        "queue mail",
        "queue zz",
        "view errors",
        "view zz",
        "filter a",
        "search a",
        "filter",
        "lock now",
        "mail",
        "requeue",
    ):
        first: Hit = collect_hits(provider, query)[0]
        yield from stage.run(f"first hit of {query!r}", first.command)
    for job in (JOB, Job(b"x" * 31, "a\x1b", "native", "dead", State.DEAD, b"x")):
        hit = provider.build_job_hit(MAIL, job)
        yield f"job of {len(job.id)} letters: {describe_hit(hit)}"
        yield from stage.run("opening it", hit.command)
    for refs in ((MAIL,), (MAIL, NEWS), ()):
        stage.session.refs = list(refs)
        yield from stage.run(f"a view without a filter, {len(refs)} queues", commands._list_queue_names)
    stage.navigation.view = None
    yield from stage.run("filter without a view", commands._run_filter_command, "x")
    yield from stage.run("earlier filters without a view", commands.find_recent_filters, ["err"])
    stage.navigation.view = stage.view
    stage.view.FILTER_HINT = ""
    yield from stage.run("filter on a view without one", commands._run_filter_command, "x")
    yield from stage.run("earlier filters on a view without a filter", commands.find_recent_filters, ["err"])


def describe_job_search() -> Iterator[str]:
    for attributes in ({"connection_loss": "lost"}, {"engine": None}, {"refs": []}):
        stage = Stage(**attributes)
        commands = build_palette(stage)
        yield from stage.run(f"ids with {attributes}", commands._request_jobs_by_id, "x", lambda _hits: None)
    for refs in ([MAIL], [MAIL, NEWS]):
        stage = Stage(refs=refs)
        commands = build_palette(stage)
        hits: list[Any] = []
        yield from stage.run("an id", commands._request_jobs_by_id, "x", hits.append)
        results: list[tuple[tuple[tuple[Ref, Job], ...], tuple[str, ...], int]] = [
            ((), (), 0), (((MAIL, JOB),) * 13, ("orizuru",), 1), ((), ("orizuru", "celery"), 2),
        ]  # fmt: skip
        for found, skipped, failed in results:
            yield from stage.answer("the reply", JobSearch(found, skipped, failed))
            yield f"  {len(hits[-1].hits)} hits, {hits[-1].words!r}"
        yield from stage.answer("an error", error="denied")
        yield f"  {hits[-1]}"
    stage = Stage()
    commands = build_palette(stage)
    for has_dialog in (True, False):
        stage.navigation.has_dialog = has_dialog
        yield from stage.run(f"the line above a dialog {has_dialog}", commands.open_finder)


def describe_queues() -> Iterator[str]:
    stage = Stage()
    commands = build_palette(stage)
    formatted: list[Ref] = []
    stage.session.format_name = lambda ref: formatted.append(ref) or ref.queue
    for refs in ([MAIL], [MAIL], [MAIL, NEWS], [MAIL, NEWS]):
        stage.session.refs = refs
        commands.find_queues(["a"])
        yield f"names that were formatted until {len(refs)} queues were searched: {len(formatted)}"
    yield f"without a snapshot: {commands.describe_queue(MAIL)} / {commands.describe_queue(JOBS)}"
    counts = (
        Count("ready", State.READY, 3),
        Count("dead", State.DEAD, 0),
        Count("done", State.DONE, 5, is_exact=False),
    )
    queue = Queue("mail", "native", counts)
    stage.session.snapshot = SimpleNamespace(find_queue=lambda ref: queue if ref.queue == "mail" else None)
    for ref in (MAIL, NEWS, JOBS, Ref("rq", "mail")):
        yield f"{describe(ref)}: {commands.describe_queue(ref)}"
    for words in ([], ["mail"], ["ma", "il"], ["rq"], ["news", "x"]):
        for refs in ([MAIL], [MAIL, Ref("rq", "mail"), Ref("native", "e-mail"), Ref("native", "mail-2")]):
            stage.session.refs = refs
            yield f"{words} of {len(refs)}: {describe(commands.find_queues(words))}"


def describe_general_keys() -> Iterator[str]:
    stage = Stage()
    commands = build_palette(stage)
    rows = [*keys.GENERAL_KEYS, *keys.REPLAY_KEYS, *keys.COMMANDS]
    changes: dict[str, Callable[[], object]] = {
        "usually": lambda: None,
        "in a demo": lambda: setattr(stage.session, "demo", "demo"),
        "in a replay": lambda: setattr(stage.session, "is_replay", True),
        "refused": lambda: setattr(stage.app, "check_action", lambda action, _parameters: action.startswith("o")),
        "greyed": lambda: setattr(stage.app, "check_action", lambda _action, _parameters: None),
        "not offered": lambda: setattr(stage.view, "offers_action", lambda action: action[:1] > "f"),
        "without a view": lambda: setattr(stage.navigation, "view", None),
    }
    for title, change in changes.items():
        change()
        usable = [palette._name_general_key(row) for row in rows if commands.is_general_key_usable(row)]
        yield f"{title}: {', '.join(usable)}"
        listed = [command.title for command in commands.list_commands()]
        yield f"  listed: {', '.join(listed)}"
    seen: list[tuple[str, Any]] = []
    stage.app.check_action = lambda action, parameters: seen.append((action, parameters))
    commands.is_general_key_usable(next(row for row in rows if "(" in row.action))
    yield f"asked: {seen}"
    stage.target = Target(NEWS)
    yield from stage.run("starting a verb", commands._start_verb, VERBS_BY_NAME["requeue"])


def describe_words() -> Iterator[str]:
    for words in ((), ("mail",), ("ma", "il"), ("e",), ("mail", "server"), ("zz",), ("server",)):
        scores = [score_command_match(words, title, help) for title in ("mail", "Mail two", "e-mail", "x")
                  for help in ("", "the Server")]  # fmt: skip
        yield f"{words}: {scores}"
    for name in ("mail", "e-mail", "İmail", "a\x1bmail", "news"):
        for words in (["mail"], ["ma", "l"], ["zz"]):
            yield f"{name!r} {words}: {describe(palette._highlight_typed_words('queue ', name, words))}"
    for text in ("a", "a␛", "base64:YQ==", "base64:!", r"a\xff", "base64:"):
        yield f"ids of {text!r}: {palette.parse_typed_job_ids(text)}"


def test_what_the_palette_finds_and_runs_matches_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    keys.set_keymap({})
    parts = (describe_words, describe_queues, describe_general_keys, describe_searches, describe_job_search)
    assert_lines_match_file((line for part in parts for line in part()), KEPT)
