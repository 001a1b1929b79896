"""What `act` says of its outcomes: a document, or a table and a sentence; and the exit code that follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqtui.commands import documents, output
from rqtui.commands.session import DONE, REFUSED, Session

if TYPE_CHECKING:
    from rqtui.model import Job, Outcome, Ref
    from rqtui.scripts import Script

ALREADY = frozenset({"already", "done", "empty", "exists", "fine"})  # not done now, since it is so: a success


def gone(script: Script, job: Job) -> Outcome:
    """The answer about a job that nobody sees, in the script's words where it has some."""
    from rqtui.model import Outcome

    said = script.returns.get("gone")
    return Outcome(script.name, job.id, "gone", said.text if said else "no such job")


def document(ref: Ref, script: Script, moved: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    """What `act` answers."""
    return {"verb": script.name, "queue": documents.text(ref.queue), "moved": moved, "results": results}


def write(
    session: Session,
    ref: Ref,
    script: Script,
    outcomes: Sequence[Outcome],
    moved: int,
    extra: dict[str, Any] | None = None,
) -> int:
    """Writes the answers, and gives the exit code: 0 when what was asked for is so, now or before."""
    succeeded = {script.done_word, "would", *ALREADY}
    if session.as_json:
        output.write_json({**document(ref, script, moved, documents.outcomes(outcomes)), **(extra or {})})
    else:
        if len(outcomes) <= 50:  # a screenful
            rows = [[documents.text(o.id) or ref.queue, o.word, _meaning(o)] for o in outcomes]
            output.write_table(("id", "answer", "meaning"), rows)
        words = Counter(outcome.word for outcome in outcomes)
        if moved > words[script.done_word]:  # a verb on a place answers once for all of them
            words = Counter({script.done_word: moved})
        output.say(
            f"{script.name}: " + (" · ".join(f"{number} {word}" for word, number in words.items()) or "no job matches")
        )
    return DONE if all(outcome.word in succeeded for outcome in outcomes) else REFUSED


def _meaning(outcome: Outcome) -> str:
    """The words of an answer, and the token of the lease from now on, where it tells one."""
    token = outcome.values.get("token")
    return (
        f"{outcome.text}; token {documents.text(token)}" if isinstance(token, str | bytes) and token else outcome.text
    )
