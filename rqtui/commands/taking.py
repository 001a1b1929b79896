"""Taking: `act reserve` and `act pull`, which hand out whichever jobs come next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rqtui.commands import documents, output, telling
from rqtui.commands.asking import Request, be_sure
from rqtui.commands.session import DONE, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.scripts import Script

BATCH = 1000  # what one call of a script takes at most


def take(session: Session, engine: Engine, request: Request, script: Script, form: dict[str, object]) -> int:
    """Hands out jobs: the results carry each with its body; none is no failure."""
    from rqtui import scripts
    from rqtui.layout import sources, targets

    if request.ids or request.place or request.expression is not None or request.everything:
        raise UsageError(f"{script.name} takes the next jobs, whichever they are: --limit N is all it can be told.")
    limit = min(request.limit or 1, BATCH)
    if request.is_dry_run:
        raise UsageError(
            f"{script.name} has no dry run; look with: rqtui jobs {request.ref.queue} ready --limit {limit}"
        )
    be_sure(session, engine, request, script, limit)
    layout = engine.layouts[request.ref.layout]
    call = layout.call(script.name, request.ref.queue, {**form, "limit": limit})
    answer = scripts.run(engine.client, call)
    place = layout.place((targets(script) or sources(script))[0])  # what is pulled stands there no more, or never did
    jobs = [replace(job, place=place.name, state=place.state) for job in layout.taken(request.ref.queue, answer)]
    if place.state != "reserved":
        jobs = [replace(job, deadline_ms=None, token=b"") for job in jobs]
    if not jobs:
        output.say(f"{request.ref.queue}: {answer.text}.")
    if session.as_json:
        results = [{**documents.id_fields(job.id), "word": answer.word, "job": documents.job(job)} for job in jobs]
        output.write_json(telling.document(request.ref, script, len(jobs), results))
    elif jobs:
        from rqtui.tui.display import body_view

        rows = [
            [
                documents.text(job.id),
                documents.text(job.token),
                " ".join(body_view((job.body or b"")[:200]).text.split()),
            ]
            for job in jobs
        ]
        output.write_table(("id", "token", "body"), rows)
    return DONE
