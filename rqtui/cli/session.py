"""What every command shares: the common options, the connection, and how an error becomes a sentence and an exit code.

`command` registers a function with typer, adds the options that may stand before or after a command's name, and hands
it a Session. A command returns its exit code (None is 0) or raises; it never prints a traceback without --debug.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui import errors
from rqtui.cli import output
from rqtui.cli.signals import RUN_ON, ended, interrupted_by_signals
from rqtui.config.settings import Settings
from rqtui.session import make_engine

if TYPE_CHECKING:
    from rqtui.config.resolve import InForce
    from rqtui.engine.engine import Engine
    from rqtui.model import Ref

DONE, REFUSED, USAGE, AWAY, INTERRUPTED = 0, 1, 2, 3, 130
_CODES: tuple[tuple[type[errors.RqtuiError], int], ...] = (  # the first that fits
    (errors.UsageError, USAGE),
    (errors.CodecError, USAGE),
    (errors.WrongType, REFUSED),
    (errors.Unknown, REFUSED),  # it may be done: the results, or a look, say
    (errors.ServerError, AWAY),
    (errors.RqtuiError, REFUSED),
)

COMMON: dict[str, Any] = {
    "url": Annotated[
        str | None,
        typer.Option("--url", "-u", "--redis-url", metavar="URL", help="Else RQTUI_URL, REDIS_URL, the profile's."),
    ],
    "layouts": Annotated[
        list[str] | None,
        typer.Option("--layout", metavar="NAME[:key=value,…]", help="A system and its options; repeatable."),
    ],
    "read_only": Annotated[bool, typer.Option("--read-only", help="Refuse whatever would change a queue.")],
    "walks_all": Annotated[bool, typer.Option("--walk", help="Look at all keys for queues, however many they are.")],
    "is_debug": Annotated[bool, typer.Option("--debug", help="Show tracebacks.")],
    "log_format": Annotated[str | None, typer.Option("--log-format", metavar="text|json", help="Logs on stderr.")],
}


def _profiles(incomplete: str) -> list[str]:
    """The profiles that begin so, for the shell's completion."""
    from rqtui.config.file import find
    from rqtui.text.sanitise import safe

    with suppress(errors.RqtuiError):  # a name that is not what it looks like is no word for a shell
        return [name for name in sorted(find().profiles) if name.startswith(incomplete) and safe(name) == name]
    return []


COMMON |= {
    "profile": Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", help="A profile of the config file.", autocompletion=_profiles),
    ],
    "config": Annotated[str | None, typer.Option("--config", metavar="FILE", help="Else RQTUI_CONFIG; see: config.")],
}
ON_SCREEN: dict[str, Any] = {
    "is_calm": Annotated[bool, typer.Option("--calm", help="No motion, the fewest bytes to the terminal.")],
    "is_ascii": Annotated[bool, typer.Option("--ascii", help="No letters beyond ASCII.")],
}
JSON_OPTION = Annotated[bool, typer.Option("--json", help="One JSON document on stdout (streams: one per line).")]
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("url", "layouts", "log_format", "profile", "config")),
    **dict.fromkeys(("read_only", "walks_all", "is_debug", *ON_SCREEN), False),
}


@dataclass(frozen=True, slots=True)
class Session:
    """One run of one command."""

    settings: Settings
    as_json: bool = False
    holds: InForce | None = None  # the settings with their sources

    def engine(self, *, discover: bool = False, reached: bool = True) -> Engine:
        """An engine on the settings' Redis; with `discover` it knows every queue.

        Unless `reached` is False, it raises Unreachable or Denied at once when there is no talking to that Redis.
        """
        from rqtui.connection.connect import reach
        from rqtui.engine.health import urgent

        engine = make_engine(self.settings)
        if reached:
            reach(engine.client, self.settings.url)  # here what is wrong is said best: which host, and what to do
            for finding in urgent(engine.client):
                output.say(f"{finding.text}: {finding.remedy}.")
        if discover:
            for _chunk in engine.discover():
                pass
            if unwalked := engine.unwalked():
                output.say(unwalked)
            for finding in engine.problems.values():
                output.say(f"{finding.text} {finding.remedy}.")
        return engine

    def queues(self, engine: Engine, names: Sequence[str]) -> list[Ref]:
        """The queues that are meant: those named, else all that were found."""
        return list(dict.fromkeys(engine.seek(name) for name in names)) if names else list(engine.refs)

    def refuse_if_read_only(self, what: str) -> None:
        """Raises ReadOnly before a change that does not go through `Engine.acts`."""
        if self.settings.read_only:
            is_said = self.settings.is_asked_read_only or not self.settings.profile
            why = "--read-only is set" if is_said else f'the profile "{self.settings.profile}" is read-only'
            raise errors.ReadOnly(f"{what} changes queues, and {why}.")


def command(
    app: typer.Typer,
    name: str,
    *,
    has_json: bool = True,
    failure: int | None = None,
    takes_broken: bool = False,
) -> Callable[..., Any]:
    """Registers a function `(session, …)` as the command `name`.

    The common options and `--json` (unless `has_json` is False) are added; `failure` replaces the exit code of errors.
    Only one that `takes_broken` runs under a config file with errors: what they would have forbidden is not known.
    """

    def register(function: Callable[..., int | None]) -> Callable[..., int | None]:
        own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "session"]

        @functools.wraps(function)
        def run(**values: Any) -> None:
            context: typer.Context = values.pop("context")
            as_json = bool(values.pop("as_json", False))
            given = {option: values.pop(option) for option in COMMON}
            before = context.obj or {}
            code = guarded(
                lambda: function(_session(before, given, as_json, takes_broken), **values), failure, given, name
            )
            if code:
                raise typer.Exit(code)

        added = {"context": typer.Context, **({"as_json": JSON_OPTION} if has_json else {}), **COMMON}
        options = [_parameter(option, annotation) for option, annotation in added.items()]
        _sign(run, [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + options)
        app.command(name)(run)
        return function

    return register


def with_common_options(root: Callable[..., None]) -> Callable[..., None]:
    """The root's callback with the common options and --version; it gets `context`, `is_version` and each option."""
    version = Annotated[bool, typer.Option("--version", help="Say which version this is.")]
    added = {"context": typer.Context, "is_version": version, **COMMON, **ON_SCREEN}
    _sign(root, [_parameter(name, annotation) for name, annotation in added.items()])
    return root


def open_screen(given: dict[str, Any], screen: Callable[[Settings], int]) -> int:
    """Opens the screen with the options that stood on the command line, whatever is wrong in the config file."""
    return guarded(lambda: screen(_in_force(given, _DEFAULTS).settings), None, given)


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if name == "context" else _DEFAULTS.get(name, False)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _sign(function: Any, parameters: list[inspect.Parameter]) -> None:
    """Gives a function the signature that typer shall read."""
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def _session(before: Mapping[str, Any], after: Mapping[str, Any], as_json: bool, takes_broken: bool) -> Session:
    """Common options from in front of the command's name and from behind it. Raises UsageError for a broken config."""
    holds = _in_force(before, after)
    if holds.settings.problems and not takes_broken:
        raise errors.UsageError("\n".join(holds.settings.problems))
    if holds.settings.redact:
        from rqtui.text.body import also_mask

        also_mask(holds.settings.redact)
    for note in holds.settings.notes:
        output.say(note)
    return Session(holds.settings, as_json, holds)


def _in_force(before: Mapping[str, Any], after: Mapping[str, Any]) -> InForce:
    """What holds; an option behind the command's name wins, layouts add up."""
    from rqtui.config.resolve import Given, in_force

    def last(name: str) -> Any:
        return after[name] if after[name] is not None else before.get(name)

    def is_set(name: str) -> bool:
        return bool(after.get(name) or before.get(name))

    log_format = after["log_format"] or before.get("log_format")
    if log_format not in (None, "text", "json"):
        raise errors.UsageError(f'--log-format is text or json, not "{log_format}".')
    layouts = (*(before.get("layouts") or ()), *(after["layouts"] or ()))
    switches = ("read_only", "walks_all", "is_debug", "is_calm", "is_ascii")
    return in_force(
        Given(
            last("url"),
            layouts,
            log_format=log_format,
            profile=last("profile") or "",
            config=last("config") or "",
            **{name: is_set(name) for name in switches},
        )
    )


def guarded(
    work: Callable[[], int | None],
    failure: int | None = None,
    given: dict[str, Any] | None = None,
    command: str = "",
) -> int:
    """Runs a command's `work`: an error of ours becomes a sentence on stderr and its exit code, a closed stdout 0.

    A signal becomes 130, or what RUN_ON has for this command.
    """
    is_debug = bool((given or {}).get("is_debug")) or "--debug" in sys.argv
    came: list[int] = []
    try:
        with interrupted_by_signals(runs_on=command in RUN_ON) as came:
            code = work() or DONE
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        forget_stdout()  # who read us has seen enough (`| head`)
        return DONE
    except KeyboardInterrupt:
        output.say("interrupted.")
        return ended(came, command)
    except errors.RqtuiError as error:
        if is_debug:
            raise
        output.say(str(error))
        return failure or exit_code(error)
    except OSError as error:
        if is_debug:
            raise
        if not error.filename:
            return unwritten(error, " What was changed stays changed.", failure or REFUSED)
        output.say(f"{error.filename} cannot be used: {error.strerror or error}. What was changed stays changed.")
        return failure or REFUSED
    except Exception as error:
        if is_debug:
            raise
        output.say(f"{errors.told(error)} With --debug it says where.")
        return failure or REFUSED


def unwritten(error: OSError, more: str = "", code: int = REFUSED) -> int:
    """Says that stdout takes nothing, as on a full disk; the exit code."""
    forget_stdout()
    output.say(f"what this command prints cannot be written: {error.strerror or error}.{more}")
    return code


def forget_stdout() -> None:
    """What is left to be written goes nowhere: Python would complain again, and exit 120, when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def exit_code(error: errors.RqtuiError) -> int:
    """0 done · 1 refused or only partly done · 2 usage · 3 Redis unreachable or refusing."""
    return next(code for kind, code in _CODES if isinstance(error, kind))
