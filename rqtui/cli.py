"""`rqtui`: the entry point. No word, or a URL, opens the screen; any other word is a command (`commands/`).

`main` answers `--version` before it imports anything, finds the command, and turns what typer and the commands raise
into a sentence and an exit code: 0 done · 1 refused or partly done · 2 usage · 3 Redis away · 130 interrupted.
`health` has the codes of monitoring plugins; there 3 also stands for a slip in the command line.
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
HEALTH_UNKNOWN = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (without the program's name) and returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    if words == ["--version"]:
        print(f"rqtui {__version__}")
        return 0
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter shows its code
    if os.environ.get(COMPLETION):
        _complete_fast()
    elif not words or (len(words) == 1 and "://" in words[0] and not words[0].startswith("-")):
        return _screen(*words)
    import typer

    app = application()
    try:
        code = app(words, prog_name="rqtui", standalone_mode=False)
    except typer.TyperException as error:
        return _usage(error, words)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except SystemExit as error:  # typer's completion ends like this
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return code if isinstance(code, int) else 0


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
    from rqtui.commands import opening
    from rqtui.commands.ending import interrupted_by_signals
    from rqtui.errors import RqtuiError
    from rqtui.in_force import Given, in_force

    try:
        with interrupted_by_signals():  # until the screen stands, which then ends by itself
            return opening.screen(in_force(Given(url)).settings)
    except RqtuiError as error:
        from rqtui.commands import output

        output.say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130


def application() -> typer.Typer:
    """The typer application with every command."""
    import typer

    from rqtui.commands import (
        acting,
        configuring,
        exposing,
        foretelling,
        judging,
        looking,
        looping,
        migrating,
        opening,
        putting,
        reporting,
        session,
        showing,
        streaming,
        undoing,
        working,
    )

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
            code = session.open_screen(values, opening.screen)
            raise typer.Exit(code)

    root.__doc__ = _HELP
    app.callback(invoke_without_command=True)(session.with_common_options(root))
    for module in (
        looking,
        reporting,
        judging,
        putting,
        acting,
        working,
        looping,
        migrating,
        showing,
        configuring,
        undoing,
        streaming,
        exposing,
        foretelling,
    ):
        module.register(app)
    return app


_HELP = """A cockpit for job queues in Redis, and a job queue.

Without a command it opens the screen: rqtui [URL].
"""


def _group_class() -> type[Any]:
    """A group whose first word may be a URL; made late, since typer is imported late."""
    from typer.core import TyperGroup

    class Group(TyperGroup):
        """Commands, and `rqtui URL`."""

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
                from difflib import get_close_matches

                near = get_close_matches(args[0], self.list_commands(ctx), n=1, cutoff=0.5)
                hint = f' Did you mean "{near[0]}"?' if near else ""
                ctx.fail(f'there is no command "{args[0]}".{hint} A URL has "://"; rqtui --help names the commands.')
            return super().resolve_command(ctx, args)

    return Group


def _mask(url: str) -> str:
    from rqtui.server import mask

    return mask(url)


def _usage(error: Any, words: Sequence[str]) -> int:
    """What typer found wrong with the command line, as a sentence."""
    from rqtui.commands import output

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "rqtui"
    sentence = error.format_message().rstrip()
    sentence = sentence[:1].lower() + sentence[1:]
    output.say(f"{sentence}{'' if sentence.endswith(('.', '?')) else '.'} See: {path} --help")
    if "--debug" in words:
        raise error
    is_health = context is not None and context.info_name == "health"
    return HEALTH_UNKNOWN if is_health else int(getattr(error, "exit_code", 2))


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
