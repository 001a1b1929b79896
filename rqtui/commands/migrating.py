"""`migrate`: the jobs of another system's queue become native ones, while its workers and producers go on.

Each of its batches is safe by itself, so Ctrl+C ends it after the one under way, and the same command goes on later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.commands import documents, output
from rqtui.commands.session import DONE, REFUSED, Session, command, exit_code
from rqtui.errors import Refused, RqtuiError, UsageError

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.migrate import Migration
    from rqtui.model import Ref

SCREENFUL = 50


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "migrate")(migrate)


def migrate(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="LAYOUT:SOURCE", help="The queue to leave.")],
    target: Annotated[str, typer.Argument(metavar="native:TARGET", help="The native queue to move to.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would move; change nothing.")] = False,
) -> int:
    """Move the jobs of another system's queue to a native one; its workers and producers may go on.

    It may be stopped and run again: no job is lost, and none is moved twice.

    Example: rqtui migrate redisched:mail native:mail --dry-run
    """
    from rqtui import layouts
    from rqtui.migrate import Migration

    if not dry_run:
        session.refuse_if_read_only("migrate")
    name, colon, queue = target.partition(":")
    if not colon or not queue or name != "native":
        raise UsageError(f'the target is native:QUEUE, not "{target}".')
    known = layouts.names()
    if ":" in source and source.partition(":")[0] not in known:
        raise UsageError(f'the source is LAYOUT:SOURCE, not "{source}"; the layouts: {", ".join(known)}.')
    engine = _engine(session, source)
    from_ref, to_ref = engine.seek(source), engine.seek(target)
    if not dry_run:
        engine.refuse("enqueue", to_ref)
        if denial := engine.denial("delete", from_ref) or engine.denial("migrate", from_ref):
            raise Refused(denial)
    migration = Migration(engine, from_ref, to_ref)
    total = migration.total()
    if not total:
        output.say(f"{from_ref} holds nothing that could be moved.")
    if dry_run:
        with output.progress("looking", total) as bar:
            for looked_at in migration.look():
                bar.step(looked_at)
        return _write(session, migration, DONE, dry_run=True)
    return _write(session, migration, _run(migration, total))


def _engine(session: Session, source: str) -> Engine:
    """An engine with the source's layout and the native one, whatever `--layout` named."""
    from rqtui import layouts

    engine = session.engine(discover=True)  # what a layout learns about its keys then, it needs to find leftovers
    name, colon, _queue = source.partition(":")
    for wanted in ("native", *((name,) if colon and name in layouts.names() else ())):
        if wanted not in engine.layouts:
            engine.layouts[wanted] = layouts.make(wanted)
    return engine


def _run(migration: Migration, total: int) -> int:
    """Steps until the end, a signal or an error; what is said then has gone to stderr."""
    from rqtui.commands.ending import stopped_by_signals

    code = DONE
    with stopped_by_signals() as stop:
        try:
            with output.progress("migrating", total) as bar:
                for moved in migration.steps():
                    bar.step(moved)
                    if stop.is_set():
                        break
        except RqtuiError as error:
            if isinstance(error, UsageError):
                migration.close()
                raise
            output.say(f"{error} No job is lost: the same command goes on where it was, best within ten minutes.")
            code = exit_code(error)
        try:
            migration.close()
        except RqtuiError as error:
            output.say(str(error))
            code = code or exit_code(error)
        if stop.is_set():
            output.say("stopped; the same command goes on where it was.")
            return stop.code or code or (DONE if migration.report.is_complete else REFUSED)
    return code


def _write(session: Session, migration: Migration, code: int, *, dry_run: bool = False) -> int:
    report = migration.report
    left = {documents.text(place): number for place, number in report.left.items() if number}
    if session.as_json:
        document: dict[str, Any] = {
            "source": _named(migration.source),
            "target": _named(migration.target),
            "moved": report.moved,
            "known": report.known,
            "finished": report.finished,
            "skipped": [{**documents.id_fields(one.id), "text": one.text} for one in report.skipped],
            "left": sum(left.values()),
            "left_places": left,
        }
        if dry_run:
            document = {**document, "dry_run": True, "would": report.would}
        output.write_json(document)
    else:
        if report.skipped:
            shown = [[_short(documents.text(one.id)), one.text] for one in report.skipped[:SCREENFUL]]
            output.write_table(("id", "why it was not moved"), shown)
        if len(report.skipped) > SCREENFUL:
            output.say(f"… and {len(report.skipped) - SCREENFUL} more; --json has them all.")
        what = _counted(report.would) + " would move" if dry_run else f"{report.moved} moved"
        rest = [f"{report.known} of them were there already"] if report.known else []
        rest += [f"{report.finished} copies of a broken-off run let go"] if report.finished else []
        rest += [f"{len(report.skipped)} skipped"] if report.skipped else []
        rest += [f"left: {_counted(left)}"] if left else []
        output.write_lines([_safe(" · ".join([what, *rest]))])
    return code or (DONE if report.is_complete else REFUSED)


def _short(id: str) -> str:
    return id if len(id) <= 40 else f"{id[:39]}…"


def _named(ref: Ref) -> str:
    return documents.text(str(ref))


def _counted(places: dict[str, int]) -> str:
    return ", ".join(f"{number} {place}" for place, number in places.items()) or "nothing"


def _safe(text: str) -> str:
    from rqtui.tui.safe import safe

    return safe(text)
