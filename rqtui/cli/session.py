"""Provide what every command shares: the common options, the connection, and the mapping of errors to exit codes.

`register_command` registers a function with typer, adds the options that may come before or after the command's name,
and passes a Session to it. A command returns its exit code (None is 0) or raises; a traceback is printed only with
--debug.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rqtui import errors
from rqtui.cli import output
from rqtui.cli.signals import LONG_RUNNING, choose_signal_exit_code, interrupt_on_signals
from rqtui.config.settings import Settings
from rqtui.session import create_engine
from rqtui.text.masking import reveal_secrets

if TYPE_CHECKING:
    from rqtui.config.resolve import EffectiveSettings
    from rqtui.engine.engine import Engine
    from rqtui.model import Ref

T = TypeVar("T")
DONE, REFUSED, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130
_EXIT_CODES: tuple[tuple[type[errors.RqtuiError], int], ...] = (  # the first matching class decides
    (errors.UsageError, USAGE),
    (errors.CodecError, USAGE),
    (errors.WrongType, REFUSED),
    (errors.Unknown, REFUSED),  # the change may have been made; the results or another command show it
    (errors.ServerError, UNREACHABLE),
    (errors.RqtuiError, REFUSED),
)

COMMON_OPTIONS: dict[str, Any] = {
    "url": Annotated[
        str | None,
        typer.Option(
            "--url",
            "-u",
            "--redis-url",
            metavar="URL",
            help="The Redis server; without it RQTUI_URL, REDIS_URL or the profile's URL.",
        ),
    ],
    "systems": Annotated[
        list[str] | None,
        typer.Option("--system", metavar="NAME[:key=value,…]", help="Use this queue system, with options; repeatable."),
    ],
    "layouts": Annotated[list[str] | None, typer.Option("--layout", hidden=True)],  # the former name of --system
    "read_only": Annotated[bool, typer.Option("--read-only", help="Refuse every change of a queue.")],
    "walks_all": Annotated[
        bool, typer.Option("--walk", help="Search all keys for queues, however many keys there are.")
    ],
    "is_debug": Annotated[bool, typer.Option("--debug", help="Show tracebacks.")],
    "log_format": Annotated[
        str | None, typer.Option("--log-format", metavar="text|json", help="Write logs to stderr in this format.")
    ],
}


def _complete_profiles(incomplete: str) -> list[str]:
    """Return the names of config profiles that begin with `incomplete`, for shell completion."""
    from rqtui.config.file import load_config
    from rqtui.text.sanitise import safe

    with suppress(errors.RqtuiError):  # names with unsafe characters are not offered
        return [name for name in sorted(load_config().profiles) if name.startswith(incomplete) and safe(name) == name]
    return []


COMMON_OPTIONS |= {
    "profile": Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="NAME", help="Use this profile of the config file.", autocompletion=_complete_profiles
        ),
    ],
    "config": Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The config file; without it RQTUI_CONFIG or the path that `rqtui config` prints.",
        ),
    ],
}
SCREEN_OPTIONS: dict[str, Any] = {
    "is_calm": Annotated[bool, typer.Option("--calm", help="Send fewer bytes to the terminal, and no motion.")],
    "is_ascii": Annotated[bool, typer.Option("--ascii", help="Print only ASCII characters.")],
}
NO_WAIT = Annotated[
    bool, typer.Option("--no-wait", help="Exit with 3 if Redis is unreachable or loading, instead of waiting.")
]
JSON_OPTION = Annotated[bool, typer.Option("--json", help="Print one JSON document; a stream prints one per line.")]
REVEAL_OPTION = Annotated[bool, typer.Option("--reveal", help="Print secrets unmasked; the journal records it.")]
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("url", "systems", "layouts", "log_format", "profile", "config")),
    **dict.fromkeys(("read_only", "walks_all", "is_debug", *SCREEN_OPTIONS), False),
}


@dataclass(frozen=True, slots=True)
class Session:
    """The settings of one run of a command, and the methods that every command uses to connect and to report."""

    settings: Settings
    as_json: bool = False
    in_force: EffectiveSettings | None = None  # the settings with their sources

    def create_engine(self, *, discover: bool = False, reached: bool = True, runs_on: bool = False) -> Engine:
        """Return an engine connected to the configured Redis. With `discover` the engine finds every queue first.

        Raises Unreachable or Denied at once if Redis cannot be used, unless `reached` is False. `runs_on` is for
        commands that run until they are stopped: the call also raises while Redis loads its data and accepts
        connections but no commands.
        """
        from rqtui.connection.connect import open_and_authenticate, translate_redis_errors
        from rqtui.connection.nodes import ping_server
        from rqtui.engine.health.server_rules import find_urgent_server_problems

        engine = create_engine(self.settings, reads_server_state=reached)
        if reached:
            open_and_authenticate(
                engine.client, self.settings.url
            )  # gives the most helpful error: the host and what to do
            if runs_on:
                with translate_redis_errors(self.settings.url):
                    ping_server(engine.client)
            for finding in find_urgent_server_problems(engine.client):
                if finding.severity == "critical":
                    output.print_message(f"{finding.text}: {finding.remedy}.")
        if discover:
            for _chunk in engine.discover():
                pass
            if unwalked := engine.describe_unread_keys():
                output.print_message(unwalked)
            for finding in engine.problems.values():
                output.print_message(f"{finding.text} {finding.remedy}.")
        return engine

    def retry_until_redis_answers(self, begin: Callable[[], T], *, no_wait: bool) -> T:
        """Call `begin` until Redis answers, with a growing delay between the calls, and return its result.

        Each failure is printed. With `no_wait` the first error is raised. Errors that waiting does not solve are always
        raised: Denied, WrongType, and everything that is not a ServerError.
        """
        from rqtui.durations import compute_reconnect_delay_s

        failures = 0
        while True:
            try:
                return begin()
            except (errors.Denied, errors.WrongType):
                raise
            except errors.ServerError as error:
                if no_wait:
                    raise
                wait_s = compute_reconnect_delay_s(failures)
                failures += 1
                output.print_message(self.format_retry_message(str(error), wait_s))
                time.sleep(wait_s)

    def format_retry_message(self, error: str, wait_s: float) -> str:
        """Return the message for a failed request that is sent again after `wait_s`, with the server's address."""
        from rqtui.connection.redis_errors.connecting import add_server_address

        return f"{add_server_address(error, self.settings.url)} Next try in {wait_s:g} s."

    def find_queues(self, engine: Engine, names: Sequence[str]) -> list[Ref]:
        """Return the queues in `names` without duplicates, or all queues of the engine if no name is given."""
        return list(dict.fromkeys(engine.resolve_or_discover(name) for name in names)) if names else list(engine.refs)

    def record_reveal(self, command: str, arguments: Mapping[str, Any]) -> None:
        """Record in the journal that this command shows secrets. The record is written before anything is printed."""
        from rqtui.config.state_folder import find_state_folder
        from rqtui.operations.journal import Journal

        words = [command]
        for value in arguments.values():
            words += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
        journal = Journal(find_state_folder(), self.settings.url, self.settings.profile)
        journal.record_reveal(" ".join(words))
        if journal.problem:
            output.print_message(journal.problem)

    def refuse_if_read_only(self, command: str) -> None:
        """Raise ReadOnly if this session is read-only. For commands whose changes the engine itself does not check."""
        if self.settings.read_only:
            is_option = self.settings.is_asked_read_only or not self.settings.profile
            reason = "--read-only is set" if is_option else f'the profile "{self.settings.profile}" is read-only'
            raise errors.ReadOnly(f"{command} changes queues, and {reason}.")


def register_command(
    app: typer.Typer,
    name: str,
    *,
    has_json: bool = True,
    failure: int | None = None,
    takes_broken: bool = False,
    reveals: bool = False,
) -> Callable[..., Any]:
    """Return a decorator that registers a function `(session, …)` as the command `name` with typer.

    The common options are added, and `--json` unless `has_json` is False. `failure` replaces the exit code of errors.
    `reveals` adds `--reveal`, which turns masking off for this run and is recorded in the journal. Only a command with
    `takes_broken` runs when the config file has errors, because the broken lines may have forbidden the command.
    """

    def register_function(function: Callable[..., int | None]) -> Callable[..., int | None]:
        own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "session"]

        @functools.wraps(function)
        def run_from_command_line(**values: Any) -> None:
            context: typer.Context = values.pop("context")
            as_json = bool(values.pop("as_json", False))
            is_revealed = bool(values.pop("is_revealed", False))
            own_options = {option: values.pop(option) for option in COMMON_OPTIONS}
            before = context.obj or {}

            def run_command() -> int | None:
                session = _build_session(before, own_options, as_json, takes_broken)
                if is_revealed:
                    session.record_reveal(name, values)
                with reveal_secrets(is_revealed):
                    return function(session, **values)

            code = run_with_error_handling(run_command, failure, own_options, name)
            if code:
                raise typer.Exit(code)

        added = {"context": typer.Context, **({"as_json": JSON_OPTION} if has_json else {})}
        added |= {**({"is_revealed": REVEAL_OPTION} if reveals else {}), **COMMON_OPTIONS}
        options = [_build_parameter(option, annotation) for option, annotation in added.items()]
        _set_signature(run_from_command_line, [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + options)
        app.command(name)(run_from_command_line)
        return function

    return register_function


def add_common_options(root: Callable[..., None]) -> Callable[..., None]:
    """Add the common options and --version to the signature of the root callback, and return the callback.

    Typer calls the callback with `context`, `is_version` and one argument for each option.
    """
    version = Annotated[bool, typer.Option("--version", help="Print the version.")]
    added = {"context": typer.Context, "is_version": version, **COMMON_OPTIONS, **SCREEN_OPTIONS}
    _set_signature(root, [_build_parameter(name, annotation) for name, annotation in added.items()])
    return root


def open_screen_with_options(options: dict[str, Any], screen: Callable[[Settings], int]) -> int:
    """Open the screen with the command line's options and return the exit code.

    Errors in the config file do not prevent the screen from opening.
    """
    return run_with_error_handling(lambda: screen(_resolve_settings(options, _DEFAULTS).settings), None, options)


def _build_parameter(name: str, annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if name == "context" else _DEFAULTS.get(name, False)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _set_signature(function: Any, parameters: list[inspect.Parameter]) -> None:
    """Set the signature that typer reads from a function."""
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def _build_session(
    options_before: Mapping[str, Any], options_after: Mapping[str, Any], as_json: bool, takes_broken: bool
) -> Session:
    """Build the session from the options before and after the command's name.

    Raises UsageError if the config file has errors, unless `takes_broken`.
    """
    in_force = _resolve_settings(options_before, options_after)
    if in_force.settings.problems and not takes_broken:
        raise errors.UsageError("\n".join(in_force.settings.problems))
    if in_force.settings.redact:
        from rqtui.text.masking import set_mask_patterns

        set_mask_patterns(in_force.settings.redact)
    for note in in_force.settings.notes:
        output.print_message(note)
    return Session(in_force.settings, as_json, in_force)


def _resolve_settings(options_before: Mapping[str, Any], options_after: Mapping[str, Any]) -> EffectiveSettings:
    """Compute the effective settings. An option after the command's name wins over one before; systems add up.

    Raises UsageError for an unknown log format.
    """
    from rqtui.config.resolve import CommandLine, resolve_settings

    def find_last_value(name: str) -> Any:
        return options_after[name] if options_after[name] is not None else options_before.get(name)

    def is_any_switch_set(name: str) -> bool:
        return bool(options_after.get(name) or options_before.get(name))

    log_format = options_after["log_format"] or options_before.get("log_format")
    if log_format not in (None, "text", "json"):
        raise errors.UsageError(f'--log-format is text or json, not "{log_format}".')
    options = [position.get(name) for position in (options_before, options_after) for name in ("systems", "layouts")]
    systems = tuple(system for option in options for system in option or ())
    switches = ("read_only", "walks_all", "is_debug", "is_calm", "is_ascii")
    return resolve_settings(
        CommandLine(
            find_last_value("url"),
            systems,
            log_format=log_format,
            profile=find_last_value("profile") or "",
            config=find_last_value("config") or "",
            **{name: is_any_switch_set(name) for name in switches},
        )
    )


def run_with_error_handling(
    work: Callable[[], int | None],
    failure: int | None = None,
    given: dict[str, Any] | None = None,
    command: str = "",
) -> int:
    """Run a command's `work`, turn an error into a sentence on stderr, and return the exit code.

    A closed stdout gives 0. A signal gives 130, or the code that LONG_RUNNING has for this command.
    """
    is_debug = bool((given or {}).get("is_debug")) or "--debug" in sys.argv
    signals: list[int] = []
    try:
        with interrupt_on_signals(runs_on=command in LONG_RUNNING) as signals:
            code = work() or DONE
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        discard_stdout()  # the reader closed the pipe (`| head`)
        return DONE
    except KeyboardInterrupt:
        output.print_message("interrupted.")
        return choose_signal_exit_code(signals, command)
    except errors.RqtuiError as error:
        if is_debug:
            raise
        output.print_message(str(error))
        return failure or choose_exit_code(error)
    except OSError as error:
        if is_debug:
            raise
        if not error.filename:
            return report_write_error(error, " What was changed stays changed.", failure or REFUSED)
        output.print_message(
            f"{error.filename} cannot be used: {error.strerror or error}. What was changed stays changed."
        )
        return failure or REFUSED
    except Exception as error:
        if is_debug:
            raise
        output.print_message(f"{errors.describe_error(error)} With --debug it says where.")
        return failure or REFUSED


def report_write_error(error: OSError, more: str = "", code: int = REFUSED) -> int:
    """Print that stdout cannot be written, for example because the disk is full, and return `code`."""
    discard_stdout()
    output.print_message(f"what this command prints cannot be written: {error.strerror or error}.{more}")
    return code


def discard_stdout() -> None:
    """Redirect stdout to the null device.

    Otherwise Python would report the failed flush at exit again, and exit with 120.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def choose_exit_code(error: errors.RqtuiError) -> int:
    """Return the exit code of an error: 1 refused or partly done, 2 wrong usage, 3 Redis unreachable or refusing."""
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))
