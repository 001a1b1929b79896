"""Implement `act duplicate` and `act edit-and-retry`: put a new job with the body of another, edited or not.

The original is deleted only after the new job was accepted, and only if it did not change since it was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rqtui import ids
from rqtui.cli import act_result, set_fields
from rqtui.cli.json_body import encode_body
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


def copy_job(
    session: Session,
    engine: Engine,
    ref: Ref,
    variant: Verb,
    id: bytes,
    given: Sequence[str],
    forced: dict[str, object],
) -> int:
    """Put the copy, delete the original if requested, and print an outcome for each; return the exit code.

    Raises UsageError and Refused.
    """
    script = engine.systems[ref.system].script(variant.script)
    edits, is_deleted = _split_edits(variant, given)
    engine.raise_if_refused(variant.script, ref)
    if is_deleted:
        engine.raise_if_refused("delete", ref)
    job = engine.fetch_job(ref, id, -1)
    if job is None or job.body is None:
        why = "there is no such job" if job is None else "its body cannot be read"
        raise Refused(f"{variant.name}: {why}; nothing was put.")
    if job.state not in variant.takes:
        raise Refused(f"{variant.name} takes no job that is {job.place}; nothing was put.")
    form = {**_copy_fields(script, job), **_parse_edits(engine, ref, script, edits)}
    new = form.get("id", b"")
    new = new if isinstance(new, bytes) else str(new).encode()
    outcomes = [replace(one, id=one.id or new) for one in engine.apply_verb(variant.script, ref, (), form)]
    if is_deleted and all(one.moved for one in outcomes):
        only = engine.systems[ref.system].unchanged_guard("delete", job)
        outcomes += engine.apply_verb("delete", ref, (job,), {**forced, **only})
    return _write_outcomes(session, ref, variant, script, outcomes)


def _split_edits(variant: Verb, given: Sequence[str]) -> tuple[list[str], bool]:
    """Return the edits of the new job, and whether to delete the original (`--set delete_original=yes`)."""
    here = {field.name: field for field in variant.form if field.verb == HERE}
    own_edits = [each for each in given if each.partition("=")[0].strip().replace("-", "_") in here]
    word = own_edits[-1].partition("=")[2].strip().lower() if own_edits else here["delete_original"].default
    if own_edits and word not in set_fields.YES + set_fields.NO:
        raise UsageError(f"--set delete_original: it is yes or no, not {word!r:.40}.")
    return [each for each in given if each not in own_edits], word in (*set_fields.YES, "x")


def _copy_fields(script: Script, job: Job) -> dict[str, object]:
    """Return the fields that the copy takes from the original: all but its id and its due time."""
    columns = {column.name: column for column in script.each}
    form: dict[str, object] = {
        name: getattr(job, name) for name in _COPIED_FIELDS if name in columns and getattr(job, name)
    }
    if "id" in columns and not columns["id"].optional:
        form["id"] = ids.create_job_id()
    return {**form, "body": job.body}


def _parse_edits(engine: Engine, ref: Ref, script: Script, edits: Sequence[str]) -> dict[str, object]:
    """Return the edits of `--set` as arguments of the script.

    Unlike elsewhere, a job may be given an id, and a body is JSON if the system stores JSON bodies.
    """
    system = engine.systems[ref.system]
    named = [each for each in edits if each.partition("=")[0].strip() == "id"]
    form = set_fields.parse_fields(script, [each for each in edits if each not in named], system.options)
    if named:
        form["id"] = to_bytes(named[-1].partition("=")[2])
    if "body" in form:
        raw = to_bytes(str(form["body"]))
        form["body"] = encode_body(raw) if system.has_json_bodies else raw
    return form


def _write_outcomes(session: Session, ref: Ref, variant: Verb, script: Script, outcomes: Sequence[Outcome]) -> int:
    """Print the outcomes; return 0 only if every change was made, since an existing id means that no copy was put."""
    moved = sum(one.moved for one in outcomes)
    act_result.write_outcomes(session, ref, replace(script, name=variant.name.replace(" ", "-")), outcomes, moved)
    return DONE if moved == len(outcomes) else REFUSED  # the new id existed already: no copy was put
