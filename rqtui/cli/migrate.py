"""`migrate`: the jobs of another system's queue become native ones, while its workers and producers go on.

Each of its batches is safe by itself, so Ctrl+C ends it after the one under way, and the same command goes on later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.session import DONE, REFUSED, Session, exit_code
from rqtui.cli.signals import stopped_by_signals
from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.errors import Refused, RqtuiError, UsageError

if TYPE_CHECKING:
    from rqtui.model import Ref
    from rqtui.operations.migration import Migration

SCREENFUL = 50


def migrate(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="LAYOUT:SOURCE", help="The queue to leave.")],
    target: Annotated[
        str, typer.Argument(metavar=f"{DEFAULT_SYSTEM}:TARGET", help=f"The {DEFAULT_SYSTEM} queue to move to.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would move; change nothing.")] = False,
) -> int:
    """Move the jobs of another system's queue to a native one; its workers and producers may go on.

    It may be stopped and run again: no job is lost, and none is moved twice.

    Example: rqtui migrate redisched:mail native:mail --dry-run
    """
    from rqtui.operations.migration import Migration
    from rqtui.systems import registry

    if not dry_run:
        session.refuse_if_read_only("migrate")
    name, colon, queue = target.partition(":")
    if not colon or not queue or name != DEFAULT_SYSTEM:
        raise UsageError(f'the target is {DEFAULT_SYSTEM}:QUEUE, not "{target}".')
    known = registry.names()
    if ":" in source and source.partition(":")[0] not in known:
        raise UsageError(f'the source is LAYOUT:SOURCE, not "{source}"; the layouts: {", ".join(known)}.')
    engine = _with_both(session, source).engine(discover=True)  # what a layout learns then, it needs to find leftovers
    from_ref, to_ref = engine.seek(source), engine.seek(target)
    if not dry_run:
        engine.refuse("enqueue", to_ref)
        if denial := engine.denial("delete", from_ref) or engine.denial("migrate", from_ref):
            raise Refused(denial)
    migration = Migration(engine, from_ref, to_ref)
    total = migration.total()
    if not total:
        output.say(f"{from_ref} holds nothing that could be moved.")
    elif note := migration.note():
        output.say(note)
    if dry_run:
        with output.progress("looking", total) as bar:
            for looked_at in migration.look():
                bar.step(looked_at)
        return _write(session, migration, DONE, dry_run=True)
    return _write(session, migration, _run(migration, total))


def _with_both(session: Session, source: str) -> Session:
    """The session with the target's layout and the source's as well, where `--layout` named others."""
    from rqtui.systems.registry import name_of

    given = session.settings.layouts
    wanted = [DEFAULT_SYSTEM, *([name_of(source)] if ":" in source else [])] if given else []
    missing = [name for name in wanted if name not in map(name_of, given)]
    return replace(session, settings=replace(session.settings, layouts=(*given, *missing)))


def _run(migration: Migration, total: int) -> int:
    """Steps until the end, a signal or an error; what is said then has gone to stderr."""
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
            shown = [[_short(documents.label(one.id)), one.text] for one in report.skipped[:SCREENFUL]]
            output.write_table(("id", "why it was not moved"), shown)
        if len(report.skipped) > SCREENFUL:
            output.say(f"… and {len(report.skipped) - SCREENFUL} more; --json has them all.")
        what = _counted(report.would) + " would move" if dry_run else f"{report.moved} moved"
        rest = [f"{report.known} of these there already"] if report.known else []
        rest += [f"finished from a broken-off run: {report.finished}"] if report.finished else []
        rest += [f"{len(report.skipped)} skipped"] if report.skipped else []
        rest += [f"left: {_counted(left)}"] if left else []
        output.write_lines([_safe(" · ".join([what, *rest]))])
    return code or (DONE if report.is_complete else REFUSED)


def _short(id: str) -> str:
    return id if len(id) <= 40 else f"{id[:39]}…"


def _named(ref: Ref) -> str:
    return f"{ref.layout}:{documents.word(ref.queue)}"


def _counted(places: dict[str, int]) -> str:
    return ", ".join(f"{number} {place}" for place, number in places.items()) or "nothing"


def _safe(text: str) -> str:
    from rqtui.text.sanitise import safe

    return safe(text)
