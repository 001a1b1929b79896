"""`act duplicate` and `act edit-and-retry`: a new job with the body of another one, edited or not.

The original is deleted only after the new job was taken, and only where it is still as it was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rqtui import ids
from rqtui.cli import act_result, set_fields
from rqtui.cli.json_body import encoded
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import Refused, UsageError
from rqtui.text.names import to_bytes
from rqtui.verbs import HERE, Verb

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Outcome, Ref
    from rqtui.scripts.script import Script

_KEPT = ("name", "priority", "ttr_ms", "max_attempts")  # of the original, where nobody says otherwise


def copy(
    session: Session, engine: Engine, ref: Ref, way: Verb, id: bytes, given: Sequence[str], forced: dict[str, object]
) -> int:
    """Puts the copy and, where it was said, deletes the original; a result for each. Raises UsageError, Refused."""
    script = engine.layouts[ref.layout].script(way.script)
    edits, is_deleted = _edits(way, given)
    engine.refuse(way.script, ref)
    if is_deleted:
        engine.refuse("delete", ref)
    job = engine.job(ref, id, -1)
    if job is None or job.body is None:
        why = "there is no such job" if job is None else "its body cannot be read"
        raise Refused(f"{way.name}: {why}; nothing was put.")
    if job.state not in way.takes:
        raise Refused(f"{way.name} takes no job that is {job.place}; nothing was put.")
    form = {**_same(script, job), **_form(engine, ref, script, edits)}
    new = form.get("id", b"")
    new = new if isinstance(new, bytes) else str(new).encode()
    outcomes = [replace(one, id=one.id or new) for one in engine.act(way.script, ref, (), form)]
    if is_deleted and all(one.moved for one in outcomes):
        only = engine.layouts[ref.layout].only_as_read("delete", job)
        outcomes += engine.act("delete", ref, (job,), {**forced, **only})
    return _write(session, ref, way, script, outcomes)


def _edits(way: Verb, given: Sequence[str]) -> tuple[list[str], bool]:
    """The fields for the new job, and whether the original goes: `--set delete_original=yes`."""
    here = {field.name: field for field in way.form if field.verb == HERE}
    said = [each for each in given if each.partition("=")[0].strip().replace("-", "_") in here]
    word = said[-1].partition("=")[2].strip().lower() if said else here["delete_original"].default
    if said and word not in set_fields.YES + set_fields.NO:
        raise UsageError(f"--set delete_original: it is yes or no, not {word!r:.40}.")
    return [each for each in given if each not in said], word in (*set_fields.YES, "x")


def _same(script: Script, job: Job) -> dict[str, object]:
    """What the copy has of the original: all but its id and its due time."""
    known = {column.name: column for column in script.each}
    form: dict[str, object] = {name: getattr(job, name) for name in _KEPT if name in known and getattr(job, name)}
    if "id" in known and not known["id"].optional:
        form["id"] = ids.new_id()
    return {**form, "body": job.body}


def _form(engine: Engine, ref: Ref, script: Script, edits: Sequence[str]) -> dict[str, object]:
    """`--set` as the verb's form has it: here a job may be given its id, and a body is JSON where the system's is."""
    layout = engine.layouts[ref.layout]
    named = [each for each in edits if each.partition("=")[0].strip() == "id"]
    form = set_fields.form_of(script, [each for each in edits if each not in named], layout.options)
    if named:
        form["id"] = to_bytes(named[-1].partition("=")[2])
    if "body" in form:
        raw = to_bytes(str(form["body"]))
        form["body"] = encoded(raw) if layout.has_json_bodies else raw
    return form


def _write(session: Session, ref: Ref, way: Verb, script: Script, outcomes: Sequence[Outcome]) -> int:
    moved = sum(one.moved for one in outcomes)
    act_result.write(session, ref, replace(script, name=way.name.replace(" ", "-")), outcomes, moved)
    return DONE if moved == len(outcomes) else REFUSED  # an id that is taken is no copy
