"""`demo`: a Redis of its own, a scenario that plays on it, and the screen, or what happened in words or JSON.

The server is a process that ends with this one (`connection/embedded.py`); its URL is said at once, so that redis-cli
can look on. Words go to stderr, the result to stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import output
from rqtui.cli.session import Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.config.settings import Settings
    from rqtui.scenarios import Scenario

SERVERS = ("auto", "system", "wheel", "fake")
LONGEST_S = 86_400.0
HIGHEST_SEED = 2**63 - 1
LOOKS = ("theme", "is_calm", "is_ascii", "keymap", "columns", "redact", "config", "problems")  # of the config file


def demo(
    session: Session,
    scenario: Annotated[str, typer.Argument(metavar="[SCENARIO]", help="delays, timeouts, …; see --list.")] = "",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed makes the same jobs.")] = 1,
    server: Annotated[
        str, typer.Option("--server", metavar="auto|system|wheel|fake", help="Which server to start.")
    ] = "auto",
    headless: Annotated[bool, typer.Option("--headless", help="Without a screen; says what happened.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="S", help="How long, without a screen: 20, but timeouts plays to its end."),
    ] = None,
    is_list: Annotated[bool, typer.Option("--list", help="Name the scenarios.")] = False,
) -> int:
    """Jobs that flow through a queue of their own; needs no Redis.

    Example: rqtui demo delays --headless --seconds 20 --json
    """
    if server not in SERVERS:
        raise UsageError(f"--server is one of {', '.join(SERVERS)}.")
    if seconds is not None and not 0.1 <= seconds <= 86_400:  # a day; NaN is refused too
        raise UsageError("--seconds is a number between 0.1 and 86400.")
    if is_list:
        return list_scenarios(session.as_json)
    return play(
        scenario,
        seed=seed,
        server=server,
        headless=headless,
        seconds=seconds,
        as_json=session.as_json,
        read_only=session.settings.read_only,
        look=session.settings,
    )


def play(
    scenario: str = "",
    *,
    seed: int = 1,
    server: str = "auto",
    headless: bool = False,
    seconds: float | None = None,
    as_json: bool = False,
    read_only: bool = False,
    look: Settings | None = None,
) -> int:
    """Play a scenario on an embedded server of a kind; returns the exit code.

    Without a name the screen offers the list, and `headless` plays `delays`.

    `look` has the theme, the keymap and the like of the config file; nothing else of it concerns a demo.
    `server` is auto, system, wheel or fake. Without `headless` it opens the screen and ends with it; headless it plays
    for `seconds` (None: to its end where it has one, else 20), and prints what happened: 0, or 1 when a check found
    something or a job was lost.
    Raises UsageError for an unknown scenario or server and for impossible numbers, before anything is started.
    """
    from rqtui import scenarios
    from rqtui.connection.embedded import embedded

    scenarios.scenario(scenario)  # an unknown one is refused before anything is asked
    if seconds is not None and not 0 < seconds <= LONGEST_S:
        raise UsageError(f"seconds is a number above 0 and up to {LONGEST_S:.0f}, not {seconds:g}.")
    if not 0 <= seed <= HIGHEST_SEED:
        raise UsageError(f"seed is a whole number from 0 to {HIGHEST_SEED}, not {seed}.")
    if not headless and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("The demo's screen needs a terminal; without one: rqtui demo --headless.")
    if not headless and not scenario:
        from rqtui.tui.screens.demo_chooser import choose

        chosen = choose(scenarios.SCENARIOS)
        if chosen is None:
            return 0
        scenario = chosen
    story = scenarios.scenario(scenario)
    with embedded(server) as running:
        _say(f"{running.kind} at {running.url}: redis-cli -u {running.url} looks on. It ends with the demo.")
        if headless:
            _say(f"{story.name}: {story.summary}; seed {seed}, {story.length(seconds)} …")
            return _report(scenarios.run_headless(story, running.url, seed, seconds, server_pid=running.pid), as_json)
        from rqtui.config.settings import Settings
        from rqtui.tui.app import run as open_screen

        _say(f"{story.name}: {story.summary}")
        with scenarios.make_run(story, running.url, seed, running.pid, running.folder) as run:
            looks = {name: getattr(look, name) for name in LOOKS} if look else {}
            settings = Settings(url=running.url, layouts=(story.layout,), read_only=read_only, **looks)
            return open_screen(settings, run, open_queue=run.queues[0], interval_s=1.0)


def list_scenarios(as_json: bool = False) -> int:
    """Print the scenarios there are: names, what each shows, what to try and to watch."""
    from rqtui.scenarios import SCENARIOS

    if as_json:
        output.write_json([_document(story) for story in SCENARIOS.values()])
        return 0
    for story in SCENARIOS.values():
        tries = [f"           {keys:>7}  {text}" for keys, text in story.tries]
        watch = f"           {'watch':>7}  {'; '.join(story.watch)}"
        output.write_lines([f"{story.name:<11}{story.layout.partition(':')[0]}: {story.summary}", *tries, watch])
    return 0


def _document(story: Scenario) -> dict[str, Any]:
    return {
        "scenario": story.name,
        "summary": story.summary,
        "layout": story.layout,
        "queues": list(story.queue_names),
        "try": [{"keys": keys, "text": text} for keys, text in story.tries],
        "watch": list(story.watch),
    }


def _report(found: Mapping[str, Any], as_json: bool) -> int:
    if as_json:
        output.write_json(found)
    else:
        output.write_lines([*(_own_lines if "retries" in found else _foreign_lines)(found), *_verdict(found)])
    proof = found.get("proof", {})
    return 1 if found["findings"] or found["lost"] or proof.get("missing") or proof.get("doubled") else 0


def _own_lines(found: Mapping[str, Any]) -> list[str]:
    from rqtui.text.formats import count, numbered

    lines = [
        f"{numbered(found['put'], 'job')} put, {count(found['done'])} done ({found['jobs_s']}/s), "
        f"{numbered(found['failed'], 'attempt')} failed, {numbered(found['retries'], 'retry')}, {found['dead']} dead",
        f"{found['dispatched']} moved by the dispatcher, {sum(found['reaped'].values())} by the reaper; "
        f"{numbered(found['workers_lost'], 'worker')} lost, {numbered(found['stale'], 'late ack')} refused",
    ]
    for queue in found["queues"]:
        places = "  ".join(f"{name} {queue[name]}" for name in ("scheduled", "ready", "reserved", "done", "dead"))
        lines.append(f"  {queue['queue']:<10} {places}")
    return lines


def _foreign_lines(found: Mapping[str, Any]) -> list[str]:
    """What happened on the keys of another system; what did not happen is not mentioned."""
    from rqtui.text.formats import count, numbered

    facts = (
        ("withdrawn", "deleted by their producer"),
        ("failed", "rejected"),
        ("again", "done more than once, as the original lets happen"),
        ("dispatched", "dispatched by rqtui"),
        ("reaped", "reaped by rqtui"),
        ("late", "acks too late, and the original saw it"),
        ("stale", "late acks refused by rqtui"),
        ("workers_lost", "workers lost"),
        ("lost_with_workers", "jobs lost with them: this system keeps no lease"),
    )
    seconds = found["elapsed_ms"] / 1000
    done = f"{count(found['done'])} done in {seconds:.1f} s: {found['jobs_s']} per second"
    lines = [f"{numbered(found['put'], 'job')} put, {done}"]
    lines += [f"  {found[name]:>6}  {words}" for name, words in facts if found[name]]
    for queue in found["queues"]:
        places = "  ".join(f"{place} {number}" for place, number in queue["counted"].items())
        lines.append(f"  {queue['queue']}  {places}")
    lines += [f"  rqtui said: {said['text']}" for said in found["said"]]
    return [*lines, *(f"  rqtui could not: {error}" for error in found["errors"])]


def _verdict(found: Mapping[str, Any]) -> list[str]:
    lines = [f"every id: {found['proof']['text']}"] if "proof" in found else []
    lines += [f"  FOUND {item['queue']}: {', '.join(item['ids'])} {item['text']}" for item in found["findings"]]
    if found["lost"]:
        from rqtui.text.formats import numbered

        lines.append(f"  LOST {numbered(found['lost'], 'job')}")
    elif not found["findings"]:
        lines.append(_sum(found) if "standing" in found else "check: each job in exactly one place, none lost")
    return [*lines, f"jobs {found['digest']} (seed {found['seed']}) on {found['server']['title']}"]


def _sum(found: Mapping[str, Any]) -> str:
    parts = (
        ("done", "done"),
        ("standing", "in one place each"),
        ("withdrawn", "deleted by their producer"),
        ("given_up", "given up"),
        ("lost_with_workers", "lost with the worker"),
    )
    shown = [f"{found[name]} {words}" for name, words in parts if found[name]]
    return f"check: {found['put']} put are {' + '.join(shown)}; none without a trace"


def _say(words: str) -> None:
    output.note(words)
