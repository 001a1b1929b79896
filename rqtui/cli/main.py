"""`rqtui`: the entry point. No word, or a URL, opens the screen; any other word is a command.

`main` answers `--version` before it imports anything, finds the command, and turns what typer and the commands raise
into a sentence and an exit code: 0 done · 1 refused or partly done · 2 usage · 3 Redis away · 130 interrupted.
`health` has the codes of monitoring plugins; there 3 also stands for a slip in the command line.

A command is the function of its name in the module of its name (`jobs` in `cli/jobs.py`), and a row of `COMMANDS`. Its
module is imported when the command is called, or its help is shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rqtui import __version__

if TYPE_CHECKING:
    import typer

COMPLETION = "_RQTUI_COMPLETE"  # what the shells' completion scripts set

# The commands in the order of the help, with the arguments that `session.command` gets beside the name.
COMMANDS: dict[str, dict[str, Any]] = {
    "snapshot": {},
    "jobs": {},
    "show": {},
    "workers": {},
    "errors": {},
    "kinds": {},
    "health": {"failure": 3},  # unknown, as monitoring plugins have it
    "check": {},
    "layouts": {},
    "put": {},
    "act": {},
    "work": {},
    "dispatch": {},
    "reap": {},
    "migrate": {},
    "demo": {},
    "bench": {},
    "config": {"takes_broken": True},
    "undo": {},
    "operations": {},
    "events": {},
    "stats": {},
    "redis": {},
    "metrics": {"has_json": False},
    "acl": {"has_json": False},
    "loops": {},
    "schedules": {},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (without the program's name) and returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    if words == ["--version"]:
        try:
            print(f"rqtui {__version__}", flush=True)
        except OSError as error:
            return _unwritten(error)
        return 0
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter shows its code
    if os.environ.get(COMPLETION):
        _complete_fast()
    elif not words or (len(words) == 1 and "://" in words[0] and not words[0].startswith("-")):
        return _screen(*words)
    if "--debug" in words:
        sys.excepthook = _tell_traceback
    from rqtui.cli.signals import INTERRUPTED, RUN_ON, ended, interrupted_by_signals

    command, code = next((word for word in words if word in COMMANDS), ""), INTERRUPTED
    with suppress(KeyboardInterrupt), interrupted_by_signals(runs_on=command in RUN_ON) as came:  # while it starts, too
        code = _run(words)
    return ended(came, command) if came else code


def _run(words: Sequence[str]) -> int:
    """One command line, by typer."""
    import typer

    app = application()
    try:
        code = app(words, prog_name="rqtui", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _usage(error, words)
    except typer.Abort:
        return 130
    except SystemExit as error:  # typer's completion ends like this
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except OSError as error:  # of the help; what a command prints is looked after there
        return _unwritten(error)
    return code if isinstance(code, int) else 0


def _unwritten(error: OSError) -> int:
    from rqtui.cli import session

    if isinstance(error, BrokenPipeError):  # who read us has seen enough
        session.forget_stdout()
        return 0
    return session.unwritten(error)


def _tell_traceback(_kind: type[BaseException], error: BaseException, _trace: Any) -> None:
    """In place of Python's own, which writes the message of an error as it is."""
    from rqtui.cli import output

    output.tell_traceback(error)


def _open_closed_streams() -> None:
    """Puts nothing in place of streams that were closed (`>&-`): else a socket gets such a number, and our words."""
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


def _screen(url: str | None = None) -> int:
    """`rqtui` and `rqtui URL`, with nothing else on the command line."""
    from rqtui.cli import screen
    from rqtui.cli.signals import interrupted_by_signals
    from rqtui.config.resolve import Given, in_force
    from rqtui.errors import RqtuiError

    try:
        with interrupted_by_signals():  # until the screen stands, which then ends by itself
            return screen.screen(in_force(Given(url)).settings)
    except RqtuiError as error:
        from rqtui.cli import output

        output.say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130


def application() -> typer.Typer:
    """The typer application; its group finds the commands."""
    import typer

    from rqtui.cli import screen, session

    group = _group_class()
    app = typer.Typer(
        cls=group,
        invoke_without_command=True,
        rich_markup_mode=None,  # help is text: [brackets] stay brackets, and completion does not import rich
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def root(**values: Any) -> None:
        context = values.pop("context")
        if values.pop("is_version"):
            print(f"rqtui {__version__}")
            raise typer.Exit
        context.obj = values
        if context.invoked_subcommand is None:
            code = session.open_screen(values, screen.screen)
            raise typer.Exit(code)

    root.__doc__ = _HELP
    app.callback(invoke_without_command=True)(session.with_common_options(root))
    return app


_HELP = """See, mend and run job queues in Redis.

Without a command it opens the screen: rqtui [URL].
"""


def _group_class() -> type[Any]:
    """A group whose first word may be a URL; made late, since typer is imported late."""
    from typer.core import TyperCommand, TyperGroup

    class Group(TyperGroup):
        """Commands, and `rqtui URL`."""

        def list_commands(self, ctx: Any) -> list[str]:
            """The names of all commands."""
            return list(COMMANDS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """The command of that name, made when somebody asks for it; None where there is none."""
            if cmd_name in COMMANDS and cmd_name not in self.commands:
                self.commands[cmd_name] = _made(cmd_name)
            return super().get_command(ctx, cmd_name)

        def shell_complete(self, ctx: Any, incomplete: str) -> Any:
            """The commands and options that begin so; of a command its name and help are needed, and no option."""
            shows_help = os.environ.get(COMPLETION) != "complete_bash"
            for name in COMMANDS:
                if name.startswith(incomplete):
                    self.commands[name] = TyperCommand(name, help=_function(name).__doc__ if shows_help else None)
            return super().shell_complete(ctx, incomplete)

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Turns a first word with `://` into `--url`."""
            words = list(args)
            if not ctx.resilient_parsing:
                _opts, rest, _order = self.make_parser(ctx).parse_args(list(args))
                if rest and "://" in rest[0]:
                    words = [*args[: len(args) - len(rest)], "--url", rest[0], *rest[1:]]
                    _opts, more, _order = self.make_parser(ctx).parse_args(list(words))
                    if more:
                        ctx.fail(
                            f"after a URL only options may follow; write: rqtui {more[0]} … --url {_mask(rest[0])}"
                        )
            return super().parse_args(ctx, words)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """The command of that name, or a sentence that names the nearest."""
            is_word = bool(args) and not args[0].startswith("-") and not ctx.resilient_parsing
            if is_word and self.get_command(ctx, args[0]) is None:
                hint = _hint(args[0], self.list_commands(ctx))
                ctx.fail(f'there is no command "{args[0]}".{hint} A URL has "://"; rqtui --help names the commands.')
            return super().resolve_command(ctx, args)

    return Group


def _hint(word: str, commands: Sequence[str]) -> str:
    """What may have been meant by a word that is no command: another command, or a verb of `act`."""
    from rqtui.cli import synonyms
    from rqtui.verbs import BY_NAME

    verb = "" if synonyms.same(word, commands) else synonyms.same(word, BY_NAME)
    if verb:
        return f' Did you mean "rqtui act {verb} QUEUE"?'
    near = synonyms.meant(word, commands)
    return f' Did you mean "{near}"?' if near else ""


def _made(name: str) -> Any:
    """The command as typer makes it of the function of that name."""
    import typer

    from rqtui.cli.session import command

    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    command(alone, name, **COMMANDS[name])(_function(name))
    return typer.main.get_command(alone)


def _function(name: str) -> Any:
    """The function of a command."""
    from importlib import import_module

    return getattr(import_module(f"rqtui.cli.{name}"), name)


def _mask(url: str) -> str:
    from rqtui.connection.connect import mask

    return mask(url)


def _usage(error: Any, words: Sequence[str]) -> int:
    """What typer found wrong with the command line, as a sentence."""
    from rqtui.cli import output

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "rqtui"
    sentence = error.format_message().rstrip()
    sentence = sentence[:1].lower() + sentence[1:]
    for theirs, ours in _PLAIN:
        sentence = sentence.replace(theirs, ours)
    how = _form(context) if sentence.startswith(("missing argument", "got unexpected")) else ""
    output.say(f"{sentence}{'' if sentence.endswith(('.', '?')) else '.'}{how} See: {path} --help")
    if "--debug" in words:
        raise error
    failure = COMMANDS.get(context.info_name or "", {}).get("failure") if context is not None else None
    return failure or int(getattr(error, "exit_code", 2))


_PLAIN = (  # what typer's checks say, in words for people
    ("Input should be a valid integer, unable to parse string as an integer", "a whole number is needed"),
    ("Input should be a valid number, unable to parse string as a number", "a number is needed"),
)


def _form(context: Any) -> str:
    """The arguments of a command, as they are written."""
    if context is None:
        return ""
    names = [each.metavar or each.name.upper() for each in context.command.params if each.param_type_name == "argument"]
    return f" Write: {' '.join([context.command_path, *names])}."


def _complete_fast() -> None:
    """Keeps typer's completion from what it does not need: 0.18 s become 0.09.

    It would import rich to take markup out of help texts that have none, and pydantic to check values nobody uses.
    """
    from typer import core

    def unchecked(_parameter: Any, _context: Any, value: Any) -> Any:
        return value

    with suppress(ImportError):  # not public: where it is gone, completion is slower and nothing else
        from typer import _completion_classes

        _completion_classes._sanitize_help_text = lambda text: text
    for kind in (core.TyperOption, core.TyperArgument):
        kind.process_value = unchecked  # type: ignore[method-assign,assignment]
