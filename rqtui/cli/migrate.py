"""Implement `migrate`: move the jobs of another system's queue to a native queue, while its workers and producers run.

Each batch is safe by itself: Ctrl+C stops after the batch in progress, and the same command continues later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.session import DONE, REFUSED, Session, choose_exit_code
from rqtui.cli.signals import stop_on_signals
from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.errors import Refused, RqtuiError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqtui.model import Ref
    from rqtui.operations.migration import Migration, Skipped

SCREENFUL = 50


def migrate(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SYSTEM:SOURCE", help="The queue to move jobs from.")],
    target: Annotated[
        str, typer.Argument(metavar=f"{DEFAULT_SYSTEM}:TARGET", help=f"The {DEFAULT_SYSTEM} queue to move to.")
    ],
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Count the jobs that would move, list those that would not; change nothing."),
    ] = False,
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Also move jobs that lose something, and list what each loses.")
    ] = False,
) -> int:
    """Move the jobs of another system's queue to a native queue, while workers and producers run.

    Each job keeps its order, priority, attempts, times and errors. A job that asks for what the native queue cannot do
    stays, and is listed with the reason; see --lossy.

    The command may be stopped and run again: no job is lost, and none is moved twice.

    Example: rqtui migrate redisched:mail native:mail --dry-run
    """
    from rqtui.operations.migration import Migration
    from rqtui.systems import registry

    if not dry_run:
        session.refuse_if_read_only("migrate")
    name, _colon, queue = target.partition(":")
    if not queue or name != DEFAULT_SYSTEM:
        raise UsageError(f'the target is {DEFAULT_SYSTEM}:QUEUE, not "{target}".')
    system_names = registry.list_system_names()
    if ":" in source and registry.parse_system_name(source) not in system_names:
        raise UsageError(f'the source is SYSTEM:SOURCE, not "{source}"; the systems: {", ".join(system_names)}.')
    engine = _add_systems(session, source).create_engine(
        discover=True
    )  # discovery gives the system what it needs to find leftovers
    from_ref, to_ref = engine.resolve_or_discover(source), engine.resolve_or_discover(target)
    if not dry_run:
        engine.raise_if_refused("enqueue", to_ref)
        if denial := engine.explain_denial("delete", from_ref) or engine.explain_denial("migrate", from_ref):
            raise Refused(denial)
    migration = Migration(engine, from_ref, to_ref, is_lossy=lossy)
    total = migration.count_movable()
    if not total:
        output.print_message(f"{from_ref} holds nothing that could be moved.")
    elif note := migration.describe_calls():
        output.print_message(note)
    if total and (note := migration.describe_pause()):
        output.print_message(note)
    if dry_run:
        with output.show_progress("looking", total) as bar:
            for checked_count in migration.check_all_jobs():
                bar.add_steps(checked_count)
        return _write_migration_report(session, migration, DONE, dry_run=True)
    return _write_migration_report(session, migration, _run_migration(migration, total))


def _add_systems(session: Session, source: str) -> Session:
    """Return the session with the systems of source and target added, if `--system` names only others."""
    from rqtui.systems.registry import parse_system_name

    named_systems = session.settings.systems
    needed_systems = [DEFAULT_SYSTEM, *([parse_system_name(source)] if ":" in source else [])] if named_systems else []
    missing = [name for name in needed_systems if name not in map(parse_system_name, named_systems)]
    return replace(session, settings=replace(session.settings, systems=(*named_systems, *missing)))


def _run_migration(migration: Migration, total: int) -> int:
    """Run a migration until its end, a signal or an error, which is printed to stderr; return the exit code."""
    code = DONE
    with stop_on_signals() as stop:
        try:
            with output.show_progress("migrating", total) as bar:
                for moved in migration.move_jobs():
                    bar.add_steps(moved)
                    if stop.is_set():
                        break
        except RqtuiError as error:
            if isinstance(error, UsageError):
                migration.close()
                raise
            output.print_message(
                f"{error} No job is lost: the same command continues where it stopped, best within ten minutes."
            )
            code = choose_exit_code(error)
        try:
            migration.close()
        except RqtuiError as error:
            output.print_message(str(error))
            code = code or choose_exit_code(error)
        if stop.is_set():
            output.print_message("stopped; the same command continues where it stopped.")
            return stop.code or code or (DONE if migration.report.is_complete else REFUSED)
    return code


def _write_migration_report(session: Session, migration: Migration, code: int, *, dry_run: bool = False) -> int:
    """Print the report of a migration as JSON or as text, and return the exit code."""
    report = migration.report
    remaining = {documents.encode_text(place): number for place, number in report.remaining.items() if number}
    if session.as_json:
        document: dict[str, Any] = {
            "source": _format_ref(migration.source),
            "target": _format_ref(migration.target),
            "moved": report.moved,
            "known": report.already_copied,
            "finished": report.released_copies,
            "skipped": [
                {**documents.build_id_fields(skipped_job.id), "text": skipped_job.text}
                for skipped_job in report.skipped
            ],
            "losses": [
                {**documents.build_id_fields(skipped_job.id), "text": skipped_job.text} for skipped_job in report.losses
            ],
            "left": sum(remaining.values()),
            "left_places": remaining,
        }
        if dry_run:
            document = {**document, "dry_run": True, "would": report.would_move}
        output.write_json(document)
    else:
        _write_skipped_jobs(report.skipped, "why it would stay" if dry_run else "why it was not moved")
        _write_skipped_jobs(report.losses, "what it would lose" if dry_run else "what it lost")
        moved_text = _format_counts(report.would_move) + " would move" if dry_run else f"{report.moved} moved"
        details = [f"{report.already_copied} of these there already"] if report.already_copied else []
        details += [f"finished from a broken-off run: {report.released_copies}"] if report.released_copies else []
        details += [f"{len(report.skipped)} skipped"] if report.skipped else []
        details += [f"with losses: {len(report.losses)}"] if report.losses else []
        details += [f"left: {_format_counts(remaining)}"] if remaining else []
        output.write_lines([_sanitise_text(" · ".join([moved_text, *details]))])
    return code or (DONE if report.is_complete else REFUSED)


def _write_skipped_jobs(jobs: Sequence[Skipped], heading: str) -> None:
    """Print the first 50 jobs that a migration skipped or changed, with their reasons, and how many more there are."""
    if jobs:
        output.write_table(
            ("id", heading), [[_shorten_id(documents.format_id(job.id)), job.text] for job in jobs[:SCREENFUL]]
        )
    if len(jobs) > SCREENFUL:
        output.print_message(f"… and {len(jobs) - SCREENFUL} more; --json has them all.")


def _shorten_id(id: str) -> str:
    return id if len(id) <= 40 else f"{id[:39]}…"


def _format_ref(ref: Ref) -> str:
    return f"{ref.system}:{documents.format_command_line_word(ref.queue)}"


def _format_counts(places: dict[str, int]) -> str:
    """Format the number of jobs per place as text, for example `3 ready, 1 dead`."""
    return ", ".join(f"{number} {place}" for place, number in places.items()) or "nothing"


def _sanitise_text(text: str) -> str:
    from rqtui.text.sanitise import safe

    return safe(text)
