"""Ask for confirmation before `act` makes a dangerous change, and print the consequences of the change."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rqtui.cli import output
from rqtui.errors import Refused

if TYPE_CHECKING:
    from rqtui.cli.act_options import ActRequest
    from rqtui.cli.session import Session
    from rqtui.engine.engine import Engine
    from rqtui.scripts.script import Script


def confirm_dangerous_verb(
    session: Session, engine: Engine, request: ActRequest, script: Script, number: int | None
) -> None:
    """Ask for confirmation before `act` runs a dangerous verb, or a verb with side effects in this system.

    `number` is the number of jobs, or None for a whole queue. Without a terminal, raises Refused unless `--yes` is
    given. A guarded profile requires the queue's name as the answer.
    """
    from rqtui import verbs

    effect = engine.systems[request.ref.system].verb_effects.get(script.name)
    if request.is_confirmed or not (is_dangerous(script) or effect):
        _warn_if_too_large_to_undo(engine, request, script, number)
        return
    row, queue = verbs.find_verb(script.name, script.summary), request.ref.queue
    target = queue if number is None else f"{number} job{'' if number == 1 else 's'} of {queue}"
    consequences = _describe_change_consequences(engine, request, script, number)
    if not sys.stdin.isatty():
        reason = "is dangerous" if row.is_dangerous else "does more than its name says"
        raise Refused(
            f"{script.name} on {target} {reason} and was not done; --yes does it without asking.{consequences}"
        )
    _ask_question(
        f"{row.question or row.label.capitalize()} {target}?{consequences}",
        queue if session.settings.is_guarded else "",
    )


def _warn_if_too_large_to_undo(engine: Engine, request: ActRequest, script: Script, number: int | None) -> None:
    """Print a message if a change has too many jobs to be undone later."""
    from rqtui.operations import undo

    system = engine.systems[request.ref.system]
    if number is not None and number > undo.MAX_SAVED_JOBS and undo.find_inverse_script(system, script.name):
        output.print_message(f"no undo: {undo.explain_limit()}.")


def _describe_change_consequences(engine: Engine, request: ActRequest, script: Script, number: int | None) -> str:
    """Describe a change in sentences: its side effects, what is lost, and whether it can be undone.

    Each sentence begins with a space.
    """
    from rqtui import verbs
    from rqtui.operations import undo

    system = engine.systems[request.ref.system]
    effect, lost = system.verb_effects.get(script.name), verbs.find_verb(script.name, script.summary).lost
    problem = engine.change_recorder.problem if engine.change_recorder else ""
    undo_sentence = undo.describe_undo(system, script.name, number, request.place, problem, undo.UNDO_COMMAND)
    if not undo_sentence.startswith(undo.UNDO_COMMAND):
        undo_sentence = f"{undo_sentence[:1].upper()}{undo_sentence[1:]}"
    sentences = (effect and f"What happens: {effect}", lost and f"What is lost: {lost}", undo_sentence)
    return "".join(f" {sentence}." for sentence in sentences if sentence)


def _ask_question(question: str, guard_word: str) -> None:
    """Ask a question on the terminal. Raises Refused unless the answer is `guard_word`, or yes if that is empty."""
    from rqtui.text.sanitise import safe

    prompt = f"type {guard_word} to continue:" if guard_word else "[y/N]"
    output.print_note(f"{question} {prompt} ", end="")
    reply = sys.stdin.readline().strip()
    accepted = (guard_word, safe(guard_word)) if guard_word else ("y", "yes")  # `safe` is the name as it was printed
    if (reply if guard_word else reply.lower()) not in accepted:
        raise Refused("nothing was changed.")


def is_dangerous(script: Script) -> bool:
    """Return whether `act` asks for confirmation before it runs this script."""
    from rqtui import verbs

    return verbs.find_verb(script.name, script.summary).is_dangerous
