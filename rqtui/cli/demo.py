"""Implement `demo`: start an embedded Redis, run a scenario on it, and open the screen or print what happened.

The server is a process that ends with this one (`connection/embedded.py`). Its URL is printed at once, so that
redis-cli can connect. Messages go to stderr, the result to stdout.
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
MAX_SECONDS = 86_400.0
MAX_SEED = 2**63 - 1
LOOK_FIELDS = (
    "theme",
    "is_calm",
    "is_ascii",
    "keymap",
    "columns",
    "redact",
    "config",
    "problems",
)  # of the config file


def demo(
    session: Session,
    scenario: Annotated[
        str, typer.Argument(metavar="[SCENARIO]", help="The scenario: delays, timeouts …; --list names all.")
    ] = "",
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed the random numbers; the same seed creates the same jobs.")
    ] = 1,
    server: Annotated[
        str, typer.Option("--server", metavar="auto|system|wheel|fake", help="The server to start.")
    ] = "auto",
    headless: Annotated[
        bool, typer.Option("--headless", help="Run without a screen, and print what happened.")
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="S",
            help="Without a screen, run for S seconds: 20 by default, but `timeouts` runs to its end.",
        ),
    ] = None,
    is_list: Annotated[bool, typer.Option("--list", help="List the scenarios.")] = False,
) -> int:
    """Run a demo: jobs flow through a queue on a temporary server; needs no Redis.

    Example: rqtui demo delays --headless --seconds 20 --json
    """
    if server not in SERVERS:
        raise UsageError(f"--server is one of {', '.join(SERVERS)}.")
    if seconds is not None and not 0.1 <= seconds <= 86_400:  # a day; NaN is refused too
        raise UsageError("--seconds is a number between 0.1 and 86400.")
    if is_list:
        return list_scenarios(session.as_json)
    return run_scenario(
        scenario,
        seed=seed,
        server=server,
        headless=headless,
        seconds=seconds,
        as_json=session.as_json,
        read_only=session.settings.read_only,
        look=session.settings,
    )


def run_scenario(
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
    """Run a scenario on an embedded server and return the exit code.

    Without a scenario's name the screen lets the user choose one, and `headless` runs `delays`.

    `look` provides the theme, the keymap and similar settings of the config file. `server` is auto, system, wheel or
    fake. Without `headless` the screen opens, and the demo ends with it. With `headless` the scenario runs for
    `seconds` (None: to its end if it has one, else 20) and the result is printed. The exit code is 1 if a check found
    an error or a job was lost, else 0.

    Raises UsageError for an unknown scenario or server and for impossible numbers, before anything is started.
    """
    from rqtui import scenarios
    from rqtui.connection.embedded import start_server

    scenarios.find_scenario(scenario)  # raises for an unknown scenario before anything is started
    if seconds is not None and not 0 < seconds <= MAX_SECONDS:
        raise UsageError(f"seconds is a number above 0 and up to {MAX_SECONDS:.0f}, not {seconds:g}.")
    if not 0 <= seed <= MAX_SEED:
        raise UsageError(f"seed is a whole number from 0 to {MAX_SEED}, not {seed}.")
    if not headless and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("The demo's screen needs a terminal; without one: rqtui demo --headless.")
    if not headless and not scenario:
        from rqtui.tui.screens.demo_chooser import choose_scenario

        chosen = choose_scenario(scenarios.SCENARIOS)
        if chosen is None:
            return 0
        scenario = chosen
    demo_scenario = scenarios.find_scenario(scenario)
    with start_server(server) as running:
        _print_note(
            f"{running.kind} at {running.url}: redis-cli -u {running.url} connects to it. It ends with the demo."
        )
        if headless:
            _print_note(
                f"{demo_scenario.name}: {demo_scenario.summary}; seed {seed}, "
                f"{demo_scenario.describe_length(seconds)} …"
            )
            return _print_demo_result(
                scenarios.run_headless(demo_scenario, running.url, seed, seconds, server_pid=running.pid), as_json
            )
        from rqtui.config.settings import Settings
        from rqtui.tui.app import run as open_screen

        _print_note(f"{demo_scenario.name}: {demo_scenario.summary}")
        with scenarios.create_run(demo_scenario, running.url, seed, running.pid, running.folder) as run:
            screen_settings = {name: getattr(look, name) for name in LOOK_FIELDS} if look else {}
            settings = Settings(
                url=running.url, systems=(demo_scenario.system,), read_only=read_only, **screen_settings
            )
            return open_screen(settings, run, open_queue=run.queues[0], interval_s=1.0)


def list_scenarios(as_json: bool = False) -> int:
    """Print the demo scenarios: their names, what each shows, what to try and what to watch."""
    from rqtui.scenarios import SCENARIOS

    if as_json:
        output.write_json([_build_scenario_document(scenario) for scenario in SCENARIOS.values()])
        return 0
    for scenario in SCENARIOS.values():
        try_lines = [f"           {keys:>7}  {text}" for keys, text in scenario.tries]
        watch = f"           {'watch':>7}  {'; '.join(scenario.watch)}"
        output.write_lines(
            [f"{scenario.name:<11}{scenario.system.partition(':')[0]}: {scenario.summary}", *try_lines, watch]
        )
    return 0


def _build_scenario_document(scenario: Scenario) -> dict[str, Any]:
    """Build the JSON document of a demo scenario for `demo --list --json`."""
    return {
        "scenario": scenario.name,
        "summary": scenario.summary,
        "layout": scenario.system,
        "queues": list(scenario.queue_names),
        "try": [{"keys": keys, "text": text} for keys, text in scenario.tries],
        "watch": list(scenario.watch),
    }


def _print_demo_result(result: Mapping[str, Any], as_json: bool) -> int:
    """Print the result of a demo scenario and return the exit code: 1 for findings or lost jobs, else 0."""
    if as_json:
        output.write_json(result)
    else:
        output.write_lines(
            [
                *(_format_retry_result if "retries" in result else _format_foreign_result)(result),
                *_format_job_check(result),
            ]
        )
    proof = result.get("proof", {})
    return 1 if result["findings"] or result["lost"] or proof.get("missing") or proof.get("doubled") else 0


def _format_retry_result(result: Mapping[str, Any]) -> list[str]:
    """Format the result of a demo with retries (the system counts attempts) as lines of text."""
    from rqtui.text.formats import format_count, format_quantity

    lines = [
        f"{format_quantity(result['put'], 'job')} put, {format_count(result['done'])} done ({result['jobs_s']}/s), "
        f"{format_quantity(result['failed'], 'attempt')} failed, {format_quantity(result['retries'], 'retry')}, "
        f"{result['dead']} dead",
        f"{result['dispatched']} moved by the dispatcher, {sum(result['reaped'].values())} by the reaper; "
        f"{format_quantity(result['workers_lost'], 'worker')} lost, "
        f"{format_quantity(result['stale'], 'late ack')} refused",
    ]
    for queue in result["queues"]:
        places = "  ".join(f"{name} {queue[name]}" for name in ("scheduled", "ready", "reserved", "done", "dead"))
        lines.append(f"  {queue['queue']:<10} {places}")
    return lines


def _format_foreign_result(result: Mapping[str, Any]) -> list[str]:
    """Format the result of a demo of another queue system as lines of text. Counts of zero are left out."""
    from rqtui.text.formats import format_count, format_quantity

    facts = (
        ("withdrawn", "deleted by their producer"),
        ("failed", "rejected"),
        ("again", "done more than once, as the stock program allows"),
        ("dispatched", "dispatched by rqtui"),
        ("reaped", "reaped by rqtui"),
        ("late", "late acks seen by the stock workers"),
        ("stale", "late acks refused by rqtui"),
        ("workers_lost", "workers lost"),
        ("lost_with_workers", "jobs lost with them: this system has no leases"),
    )
    seconds = result["elapsed_ms"] / 1000
    rate_text = f"{format_count(result['done'])} done in {seconds:.1f} s: {result['jobs_s']} per second"
    lines = [f"{format_quantity(result['put'], 'job')} put, {rate_text}"]
    lines += [f"  {result[name]:>6}  {label}" for name, label in facts if result[name]]
    for queue in result["queues"]:
        places = "  ".join(f"{place} {number}" for place, number in queue["counted"].items())
        lines.append(f"  {queue['queue']}  {places}")
    lines += [f"  rqtui printed: {message['text']}" for message in result["said"]]
    return [*lines, *(f"  rqtui could not: {error}" for error in result["errors"])]


def _format_job_check(result: Mapping[str, Any]) -> list[str]:
    """Format the lines that report whether every job of a demo was accounted for."""
    lines = [f"every id: {result['proof']['text']}"] if "proof" in result else []
    lines += [f"  FOUND {item['queue']}: {', '.join(item['ids'])} {item['text']}" for item in result["findings"]]
    if result["lost"]:
        from rqtui.text.formats import format_quantity

        lines.append(f"  LOST {format_quantity(result['lost'], 'job')}")
    elif not result["findings"]:
        lines.append(
            _format_job_sum(result) if "standing" in result else "check: each job in exactly one place, none lost"
        )
    return [*lines, f"jobs {result['digest']} (seed {result['seed']}) on {result['server']['title']}"]


def _format_job_sum(result: Mapping[str, Any]) -> str:
    """Return a sentence that adds up where the jobs of a demo ended: done, deleted, given up or lost."""
    labels = (
        ("done", "done"),
        ("standing", "in one place each"),
        ("withdrawn", "deleted by their producer"),
        ("given_up", "given up"),
        ("lost_with_workers", "lost with the worker"),
    )
    terms = [f"{result[name]} {label}" for name, label in labels if result[name]]
    return f"check: {result['put']} put are {' + '.join(terms)}; none without a trace"


def _print_note(text: str) -> None:
    output.print_note(text)
