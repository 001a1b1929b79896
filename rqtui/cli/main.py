"""Run the `rqtui` command line: without arguments, or with only a URL, open the screen; otherwise run a command.

`main` answers `--version` before it imports anything, finds the command, and converts the errors that typer and the
commands raise into a sentence and an exit code: 0 done, 1 refused or partly done, 2 wrong usage, 3 Redis unreachable,
130 interrupted. `health` has the exit codes of monitoring plugins; there 3 also means a wrong command line.

A command is the function of its name in the module of its name (`jobs` in `cli/jobs.py`), and a row of `COMMANDS`. Its
module is imported when the command is called or its help is shown.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rqtui import __version__

if TYPE_CHECKING:
    import typer

COMPLETION = "_RQTUI_COMPLETE"  # the environment variable that the shells' completion scripts set

# The commands by group, in the order of the help, with the other arguments of `session.register_command`.
COMMAND_GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "Look": {
        "snapshot": {},
        "health": {"failure": 3, "reveals": True},  # "unknown" in the convention of monitoring plugins
        "incident": {"reveals": True},
        "jobs": {"reveals": True},
        "search": {"reveals": True},
        "show": {"reveals": True},
        "errors": {"reveals": True},
        "group": {"reveals": True},
        "diff": {"reveals": True},
        "kinds": {"reveals": True},
        "workers": {"reveals": True},
        "events": {"reveals": True},
        "stats": {},
        "schedules": {"reveals": True},
        "loops": {"reveals": True},
        "check": {"reveals": True},
        "redis": {"reveals": True},
        "operations": {},
        "replay": {"has_json": False},
    },
    "Change": {
        "put": {},
        "act": {"reveals": True},
        "undo": {},
        "migrate": {"reveals": True},
    },
    "Run": {
        "work": {"reveals": True},
        "dispatch": {},
        "reap": {},
        "record": {},
        "metrics": {"has_json": False},
        "demo": {},
        "bench": {},
    },
    "Set up": {
        "config": {"takes_broken": True},
        "systems": {},
        "new-system": {},
        "acl": {"has_json": False},
        "script": {"has_json": False},
    },
}
COMMANDS = {name: options for group in COMMAND_GROUPS.values() for name, options in group.items()}

ALIASES = {"layouts": "systems"}  # former names of commands; they work, and the help does not list them


def main(argv: Sequence[str] | None = None) -> int:
    """Run one `rqtui` command line, given without the program's name, and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    if arguments == ["--version"]:
        try:
            print(f"rqtui {__version__}", flush=True)
        except OSError as error:
            return _report_write_error(error)
        return 0
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # unsupported letters are printed as escapes
    if os.environ.get(COMPLETION):
        _speed_up_completion()
    elif not arguments or (len(arguments) == 1 and "://" in arguments[0] and not arguments[0].startswith("-")):
        return _open_screen(*arguments)
    if "--debug" in arguments:
        sys.excepthook = _print_masked_traceback
    from rqtui.cli.signals import INTERRUPTED, LONG_RUNNING, choose_signal_exit_code, interrupt_on_signals

    command, code = next((argument for argument in arguments if argument in COMMANDS), ""), INTERRUPTED
    with (
        suppress(KeyboardInterrupt),
        interrupt_on_signals(runs_on=command in LONG_RUNNING) as signals,
    ):  # also during start-up
        code = _run_command_line(arguments)
    return choose_signal_exit_code(signals, command) if signals else code


def _run_command_line(arguments: Sequence[str]) -> int:
    """Parse one command line with typer, run its command, and return the exit code."""
    import typer

    app = build_application()
    try:
        code = app(arguments, prog_name="rqtui", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _report_usage_error(error, arguments)
    except typer.Abort:
        return 130
    except SystemExit as error:  # raised by typer's completion
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except OSError as error:  # raised while help is printed; `run_with_error_handling` handles the output of commands
        return _report_write_error(error)
    return code if isinstance(code, int) else 0


def _report_write_error(error: OSError) -> int:
    """Print that stdout cannot be written, and return the exit code; 0 if the reader of a pipe closed it."""
    from rqtui.cli import session

    if isinstance(error, BrokenPipeError):  # the reader closed the pipe
        session.discard_stdout()
        return 0
    return session.report_write_error(error)


def _print_masked_traceback(_kind: type[BaseException], error: BaseException, _trace: Any) -> None:
    """Print a traceback with masked secrets. Replaces `sys.excepthook`, which prints messages unmasked."""
    from rqtui.cli import output

    output.print_traceback(error)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that was closed (`>&-`).

    Otherwise a socket would get the stream's file descriptor, and output would be sent to Redis.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.fstat(number)
                continue
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _open_screen(url: str | None = None) -> int:
    """Open the screen for `rqtui` or `rqtui URL`, when the command line has no other word; return the exit code."""
    from rqtui.cli import screen
    from rqtui.cli.signals import interrupt_on_signals
    from rqtui.config.resolve import CommandLine, resolve_settings
    from rqtui.errors import RqtuiError

    try:
        with interrupt_on_signals():  # until the screen runs, which handles signals itself
            return screen.screen(resolve_settings(CommandLine(url)).settings)
    except RqtuiError as error:
        from rqtui.cli import output

        output.print_message(str(error))
        return 2
    except KeyboardInterrupt:
        return 130


def build_application() -> typer.Typer:
    """Build the typer application of `rqtui`. Its commands are imported when they are needed."""
    import typer

    from rqtui.cli import screen, session

    group = _define_group_class()
    app = typer.Typer(
        cls=group,
        invoke_without_command=True,
        rich_markup_mode=None,  # help is text: [brackets] stay brackets, and completion does not import rich
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def read_root_options(**values: Any) -> None:
        context = values.pop("context")
        if values.pop("is_version"):
            print(f"rqtui {__version__}")
            raise typer.Exit
        context.obj = values
        if context.invoked_subcommand is None:
            code = session.open_screen_with_options(values, screen.screen)
            raise typer.Exit(code)

    read_root_options.__doc__ = _HELP
    app.callback(invoke_without_command=True)(session.add_common_options(read_root_options))
    return app


_HELP = """Inspect, repair and run job queues in Redis.

Without a command it opens the screen: rqtui [URL].
"""


def _define_group_class() -> type[Any]:
    """Define the typer group class that also accepts a Redis URL as the first word.

    The class is defined inside a function because typer is imported late.
    """
    from typer.core import TyperCommand, TyperGroup

    class Group(TyperGroup):
        """The typer group of all rqtui commands, which also accepts `rqtui URL`."""

        def list_commands(self, ctx: Any) -> list[str]:
            """Return the names of all commands, in the order of the help."""
            return list(COMMANDS)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """Write the commands in their groups, each with the first paragraph of its help, which is not cut."""
            for title, commands in COMMAND_GROUPS.items():
                with formatter.section(title):
                    formatter.write_dl([(name, _load_summary(name)) for name in commands])

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """Return the command named `cmd_name`, built at its first use; None for an unknown command."""
            cmd_name = ALIASES.get(cmd_name, cmd_name)
            if cmd_name in COMMANDS and cmd_name not in self.commands:
                self.commands[cmd_name] = _build_command(cmd_name)
            return super().get_command(ctx, cmd_name)

        def shell_complete(self, ctx: Any, incomplete: str) -> Any:
            """Return the shell completions for a word that begins with `incomplete`.

            Commands are registered with their names and help texts only, since completing a command's name needs no
            options.
            """
            shows_help = os.environ.get(COMPLETION) != "complete_bash"
            for name in COMMANDS:
                if name.startswith(incomplete):
                    self.commands[name] = TyperCommand(
                        name, help=_load_command_function(name).__doc__ if shows_help else None
                    )
            return super().shell_complete(ctx, incomplete)

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Parse the command line, with a first word that contains `://` turned into `--url`."""
            arguments = list(args)
            if not ctx.resilient_parsing:
                _opts, parsed, _order = self.make_parser(ctx).parse_args(list(args))
                if parsed and "://" in parsed[0]:
                    arguments = [*args[: len(args) - len(parsed)], "--url", parsed[0], *parsed[1:]]
                    _opts, others, _order = self.make_parser(ctx).parse_args(list(arguments))
                    if others:
                        ctx.fail(
                            "after a URL only options may follow; write: "
                            f"rqtui {others[0]} … --url {_mask_url(parsed[0])}"
                        )
            return super().parse_args(ctx, arguments)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """Return the command that the user typed; for an unknown one, fail with a suggestion."""
            is_word = bool(args) and not args[0].startswith("-") and not ctx.resilient_parsing
            if is_word and self.get_command(ctx, args[0]) is None:
                hint = _suggest_command(args[0], self.list_commands(ctx))
                ctx.fail(f'there is no command "{args[0]}".{hint} A URL has "://".')
            return super().resolve_command(ctx, args)

    return Group


def _suggest_command(unknown_name: str, commands: Sequence[str]) -> str:
    """Return a sentence that suggests a command or a verb of `act` for an unknown command name.

    The text is empty without a similar name.
    """
    from rqtui.cli import synonyms
    from rqtui.verbs import VERBS_BY_NAME

    nearest_name = (
        synonyms.find_synonym(unknown_name, commands)
        or synonyms.find_synonym(unknown_name, VERBS_BY_NAME)
        or synonyms.find_nearest_name(unknown_name, [*commands, *VERBS_BY_NAME])
    )
    if not nearest_name:
        return ""
    return (
        f' Did you mean "{nearest_name}"?'
        if nearest_name in commands
        else f' Did you mean "rqtui act {nearest_name} QUEUE"?'
    )


def _build_command(name: str) -> Any:
    """Build the typer command from the function `name`."""
    import typer

    from rqtui.cli.session import register_command

    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    register_command(alone, name, **COMMANDS[name])(_load_command_function(name))
    return typer.main.get_command(alone)


def _load_command_function(name: str) -> Any:
    """Import the module of the command `name` and return its function."""
    from importlib import import_module

    module = name.replace("-", "_")
    return getattr(import_module(f"rqtui.cli.{module}"), module)


def _load_summary(name: str) -> str:
    """Return the first paragraph of the help of the command `name`, without line breaks."""
    return " ".join(_load_command_function(name).__doc__.partition("\n\n")[0].split())


def _mask_url(url: str) -> str:
    """Return a URL of the command line without its passwords, importing the masking code late."""
    from rqtui.connection.connect import hide_url_passwords

    return hide_url_passwords(url)


def _report_usage_error(error: Any, arguments: Sequence[str]) -> int:
    """Print an error of typer as one sentence with masked URLs and return the exit code."""
    from rqtui.cli import output

    for argument in arguments:
        if ":" in argument and "@" in argument:  # a URL, perhaps without "://"
            error.message = str(error.message).replace(argument, _mask_url(argument))
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "rqtui"
    sentence = error.format_message().rstrip()
    sentence = sentence[:1].lower() + sentence[1:]
    sentence = _TYPE_MESSAGE.sub(lambda match: _PLAIN_TYPES[match["type"]], sentence)
    usage = _format_usage(context) if sentence.startswith(("missing argument", "got unexpected")) else ""
    output.print_message(f"{sentence}{'' if sentence.endswith(('.', '?')) else '.'}{usage} See: {path} --help")
    if "--debug" in arguments:
        raise error
    failure = COMMANDS.get(context.info_name or "", {}).get("failure") if context is not None else None
    return failure or int(getattr(error, "exit_code", 2))


_TYPE_MESSAGE = re.compile(r"(?<=': )['\"].*['\"] is not a valid (?P<type>int|float)\b", re.DOTALL)  # of typer's checks
_PLAIN_TYPES = {"int": "a whole number is needed", "float": "a number is needed"}


def _format_usage(context: Any) -> str:
    """Return a sentence with a command and its arguments as a user types them; empty without a context."""
    if context is None:
        return ""
    parameters = [option for option in context.command.params if option.param_type_name == "argument"]
    names = [parameter.metavar or parameter.name.upper() for parameter in parameters]
    return f" Write: {' '.join([context.command_path, *names])}."


def _speed_up_completion() -> None:
    """Replace two slow functions of typer's shell completion, which then takes 0.09 s instead of 0.18 s.

    typer would import rich to strip markup from help texts that have none, and check values that are not used.
    """
    from typer import core

    def accept_any_value(_parameter: Any, _context: Any, value: Any) -> Any:
        return value

    with suppress(ImportError):  # not a public API; without it completion is only slower
        from typer import _completion_classes

        _completion_classes._sanitize_help_text = lambda text: text
    for kind in (core.TyperOption, core.TyperArgument):
        kind.process_value = accept_any_value  # type: ignore[method-assign,assignment]
