"""Implement `act duplicate` and `act edit-and-retry`: put a copy of a job, edited or not.

The original job is deleted only after Redis accepted the copy, and only if the original did not change since it was
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rqtui import ids
from rqtui.cli import act_result, set_fields
from rqtui.cli.json_body import encode_json_body
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import Refused, UsageError
from rqtui.text.names import to_bytes
from rqtui.verbs import HERE, Verb

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Outcome, Ref
    from rqtui.scripts.script import Script

_COPIED_FIELDS = (
    "name",
    "priority",
    "ttr_ms",
    "max_attempts",
)  # taken from the original, unless `--set` gives another value


def copy_one_job(
    session: Session,
    engine: Engine,
    ref: Ref,
    variant: Verb,
    id: bytes,
    assignments: Sequence[str],
    forced: dict[str, object],
) -> int:
    """Put a copy of a job, delete the original if requested, print both outcomes, and return the exit code.

    Raises UsageError and Refused.
    """
    script = engine.systems[ref.system].script(variant.script)
    edits, is_deleted = _split_off_delete_original(variant, assignments)
    engine.raise_if_refused(variant.script, ref)
    if is_deleted:
        engine.raise_if_refused("delete", ref)
    job = engine.fetch_job(ref, id, -1)
    if job is None or job.body is None:
        reason = "there is no such job" if job is None else "its body cannot be read"
        raise Refused(f"{variant.name}: {reason}; nothing was put.")
    if job.state not in variant.takes:
        raise Refused(f"{variant.name} takes no job that is {job.place}; nothing was put.")
    form = {**_copy_original_fields(script, job), **_parse_copy_edits(engine, ref, script, edits)}
    new_id = form.get("id", b"")
    new_id = new_id if isinstance(new_id, bytes) else str(new_id).encode()
    outcomes = [
        replace(outcome, id=outcome.id or new_id) for outcome in engine.apply_verb(variant.script, ref, (), form)
    ]
    if is_deleted and all(outcome.moved for outcome in outcomes):
        only = engine.systems[ref.system].unchanged_guard("delete", job)
        outcomes += engine.apply_verb("delete", ref, (job,), {**forced, **only})
    return _write_copy_outcomes(session, ref, variant, script, outcomes)


def _split_off_delete_original(variant: Verb, assignments: Sequence[str]) -> tuple[list[str], bool]:
    """Separate `--set delete_original=…` from the edits of a copied job; return the edits and whether to delete."""
    local_fields = {field.name: field for field in variant.form if field.verb == HERE}
    own_edits = [
        assignment
        for assignment in assignments
        if assignment.partition("=")[0].strip().replace("-", "_") in local_fields
    ]
    reply = own_edits[-1].partition("=")[2].strip().lower() if own_edits else local_fields["delete_original"].default
    if own_edits and reply not in set_fields.YES + set_fields.NO:
        raise UsageError(f"--set delete_original: it is yes or no, not {reply!r:.40}.")
    return [assignment for assignment in assignments if assignment not in own_edits], reply in (*set_fields.YES, "x")


def _copy_original_fields(script: Script, job: Job) -> dict[str, object]:
    """Return the fields that a copied job takes from the original: all but its id and its due time."""
    columns = {column.name: column for column in script.each}
    form: dict[str, object] = {
        name: getattr(job, name) for name in _COPIED_FIELDS if name in columns and getattr(job, name)
    }
    if "id" in columns and not columns["id"].optional:
        form["id"] = ids.create_job_id()
    return {**form, "body": job.body}


def _parse_copy_edits(engine: Engine, ref: Ref, script: Script, edits: Sequence[str]) -> dict[str, object]:
    """Parse the `--set` edits of a copied job into arguments of the script.

    Unlike in other verbs, an id may be set, and a body is JSON if the system stores JSON bodies.
    """
    system = engine.systems[ref.system]
    id_edits = [edit for edit in edits if edit.partition("=")[0].strip() == "id"]
    form = set_fields.parse_set_options(script, [edit for edit in edits if edit not in id_edits], system.options)
    if id_edits:
        form["id"] = to_bytes(id_edits[-1].partition("=")[2])
    if "body" in form:
        raw = to_bytes(str(form["body"]))
        form["body"] = encode_json_body(raw) if system.has_json_bodies else raw
    return form


def _write_copy_outcomes(session: Session, ref: Ref, variant: Verb, script: Script, outcomes: Sequence[Outcome]) -> int:
    """Print the outcomes of copying a job. Returns 0 if the copy was put and, if requested, the original deleted."""
    moved = sum(outcome.moved for outcome in outcomes)
    act_result.write_outcomes(session, ref, replace(script, name=variant.name.replace(" ", "-")), outcomes, moved)
    return DONE if moved == len(outcomes) else REFUSED  # the new id existed already: no copy was put
