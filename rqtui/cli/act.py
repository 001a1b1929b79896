"""`act`: any verb of a layout on jobs by id, on what a filter finds in a place, or on a queue.

What a verb takes, and what its answer means, is read from its script's header. Jobs are looked up first: the token of
the lease that was seen then goes with the verb, so that a job which somebody else reserved meanwhile answers `stale`.
Beside it stand what it answers (`act_result`), `--set` (`set_fields`), and the verbs that copy a job (`act_duplicate`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import act_duplicate, act_result, documents, output, synonyms
from rqtui.cli.arguments import QUEUE, stranger
from rqtui.cli.session import DONE, INTERRUPTED, REFUSED, Session
from rqtui.cli.set_fields import form_of
from rqtui.cli.signals import stopped_by_signals
from rqtui.errors import Refused, RqtuiError, UsageError, WrongType

if TYPE_CHECKING:
    from redis import Redis

    from rqtui.engine.engine import Engine
    from rqtui.layout.layout import Layout
    from rqtui.model import Job, Outcome, Ref
    from rqtui.operations.journal import Circumstances
    from rqtui.operations.rate_limit import Brake
    from rqtui.scripts.script import Script
    from rqtui.verbs import Verb

LOOK_UP = 100  # jobs per round trip, when they are named by id
EVERYTHING = 10**12  # jobs, where the engine goes through them and no script counts
BATCH = 1000  # what one call of a script takes at most


def _verbs_begun(incomplete: str) -> list[str]:
    """The verbs that begin so, for the shell's completion."""
    from rqtui.verbs import VERBS

    return [name for verb in VERBS if (name := verb.name.replace(" ", "-")).startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked `act` to do, as given."""

    ref: Ref
    ids: tuple[bytes, ...] = ()
    place: str = ""
    expression: str | None = None
    everything: bool = False
    limit: int | None = None
    is_dry_run: bool = False
    is_sure: bool = False
    brake: Brake | None = None  # so many per second


def act(
    session: Session,
    verb: Annotated[
        str,
        typer.Argument(
            metavar="VERB",
            help="What to do: ack, requeue, delete, pause … (rqtui layouts).",
            autocompletion=_verbs_begun,
        ),
    ],
    queue: QUEUE,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Which jobs (or workers); base64:… where an id is no text."),
    ] = None,
    place: Annotated[
        str, typer.Option("--place", metavar="PLACE", help="Jobs of that place; needs --filter or --all.")
    ] = "",
    expression: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="Those that match, as in jobs.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="So many at most.")] = None,
    token: Annotated[
        str | None, typer.Option("--token", metavar="T", help="Only under this lease; else the one seen.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Even while a worker holds it.")] = False,
    fields: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="What the verb takes.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count by place, error and age what would be asked for; change nothing.")
    ] = False,
    rate: Annotated[str | None, typer.Option("--rate", metavar="5/s", help="So many per second, not faster.")] = None,
    stop_at_failures: Annotated[
        int | None, typer.Option("--stop-at-failures", metavar="N", help="With --rate: stop after so many failures.")
    ] = None,
    stop_at_depth: Annotated[
        int | None, typer.Option("--stop-at-depth", metavar="N", help="With --rate: stop when so many are ready.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before something dangerous.")] = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the journal.")] = "",
) -> int:
    """Run a verb on jobs or on a queue.

    Example: rqtui act requeue mail --place dead --filter err:timeout --json
    """
    if limit is not None and limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    engine = session.engine()
    ref = engine.seek(queue)
    way = _way(engine, ref, verb)
    if way is not None and way.script == "enqueue":
        if len(ids or ()) != 1 or place or everything or expression is not None or dry_run or rate is not None:
            raise UsageError(f"{verb} is about one job: name it by its id; beside it go --set and --force.")
        return _copy(session, engine, ref, way, (ids or [""])[0], fields or [], force, why)
    if way is not None:
        verb, drips = way.script, {field.name: field.default for field in way.form}
        rate = rate or drips["rate"]
        stop_at_failures = stop_at_failures or int(drips["stop_at_failures"])
    script = _script(engine, ref, verb)
    if not dry_run:
        session.refuse_if_read_only(f"act {verb}")
        engine.refuse(verb, ref)
    raw_ids = tuple(documents.id_bytes(id) for id in ids or ())
    place = _place(engine.layouts[ref.layout], script, place) if place else ""
    brake = _brake(rate, stop_at_failures, stop_at_depth)
    request = Request(ref, raw_ids, place, expression, everything, limit, dry_run, yes, brake)
    form = form_of(script, fields or [], engine.layouts[ref.layout].options)
    if force:
        _need(script, "force", "--force")
        form["force"] = True
    if token is not None:
        if len(raw_ids) != 1:
            raise UsageError("--token belongs to one lease; name one job with it.")
        if token:  # an empty one says that there is none
            _need(script, "token", "--token")
        if _knows(script, "token"):
            form["token"] = token
    if dry_run:
        return _act_on(session, engine, request, script, form)
    from rqtui.operations.journal import Circumstances

    speed = brake.words() if brake else ""
    with _kept(session, engine, ref, verb, Circumstances(why=why, chosen=_chosen(request), rate=speed)) as done:
        code = _act_on(session, engine, request, script, form)
        if code == DONE:
            done.append(verb)
    return code


def _way(engine: Engine, ref: Ref, verb: str) -> Verb | None:
    """A verb that is a way to use another's script, as `duplicate` is, where that system has it."""
    from rqtui.verbs import BY_NAME

    found, layout = BY_NAME.get(verb.replace("-", " ")), engine.layouts[ref.layout]
    return found if found is not None and found.script and layout.can(found.script) else None


def _copy(
    session: Session, engine: Engine, ref: Ref, way: Verb, id: str, fields: Sequence[str], is_forced: bool, why: str
) -> int:
    session.refuse_if_read_only(f"act {way.name}")
    from rqtui.operations.journal import Circumstances

    forced: dict[str, object] = {"force": True} if is_forced else {}
    with _kept(session, engine, ref, "enqueue", Circumstances(why=why)):
        return act_duplicate.copy(session, engine, ref, way, documents.id_bytes(id), fields, forced)


def _script(engine: Engine, ref: Ref, verb: str) -> Script:
    from rqtui.verbs import VERBS

    layout = engine.layouts[ref.layout]
    if verb == "enqueue":
        raise UsageError("new jobs come by rqtui put, which has options for all that they need.")
    found = layout.scripts.get(verb)
    if verb in layout.lacks:
        layout.script(verb)  # says why
    if found is None or found.read_only:
        rows = [
            row for row in (*layout.verbs(), *VERBS) if layout.can(row.script or row.name) and row.name != "enqueue"
        ]
        known = list(dict.fromkeys(row.name.replace(" ", "-") for row in rows))
        if (swapped := synonyms.same(ref.queue, known)) and not synonyms.same(verb, known):
            raise UsageError(f"the verb stands before the queue: rqtui act {swapped} {verb}.")
        near = synonyms.meant(verb, known, likeness=0.7)
        hint = (
            f'. Did you mean "{near}"? rqtui layouts tells all verbs.' if near else f"; its verbs: {', '.join(known)}."
        )
        raise UsageError(f'{layout.name} has no verb "{verb}"{hint}')
    return found


def _place(layout: Layout, script: Script, word: str) -> str:
    """The place of that name; of a state the one that the verb takes. Raises UsageError where it takes several."""
    found = [place.name for place in layout.places_of(word)]
    able = [name for name in found if layout.can(script.name, name)] or found
    if len(able) > 1:
        names = ", ".join(able)
        raise UsageError(
            f"{word} means {len(able)} places of {layout.name}: {names}; "
            f"name with --place the one that {script.name} shall take."
        )
    layout.refuse_what_was_heard(script.name, able)
    return able[0]


def _act_on(session: Session, engine: Engine, request: Request, script: Script, form: dict[str, object]) -> int:
    """Chooses by what the verb is about: the leases it hands out, jobs, workers, settings, or the whole queue."""
    from rqtui import verbs

    columns = {column.name for column in script.each}
    scope = verbs.verb(script.name).scope
    if any({"id", "head"} & {arg.name for arg in word.rows} for word in script.returns.values()):
        return _take(session, engine, request, script, form)
    if {"id", "member"} & columns and scope == "job":
        return _act_on_jobs(session, engine, request, script, form)
    if request.brake is not None:
        raise UsageError(f"{script.name} is no verb for many jobs; leave --rate away.")
    if request.ids and scope != "worker":
        raise UsageError(f"{script.name} is about the whole queue; leave the ids away.")
    return _act_on_queue(session, engine, request, script, form)


def _chosen(request: Request) -> str:
    """Which jobs, in words for the journal."""
    if request.ids:
        return ""  # they are named there
    which = f"/{request.expression}" if request.expression is not None else "all" if request.everything else ""
    most = f", at most {request.limit}" if request.limit is not None else ""
    return (f"{which} of {request.place}" if which and request.place else which or request.place) + most


def _places(engine: Engine, ref: Ref) -> dict[str, dict[str, int]]:
    """How many jobs stand in each place of a queue now; nothing where that cannot be asked."""
    try:
        [queue] = engine.ask_all([engine.layouts[ref.layout].queue_ask(ref.queue)])
    except RqtuiError:
        return {}
    return {} if queue.error else {ref.queue: queue.by_place()}


@contextmanager
def _kept(session: Session, engine: Engine, ref: Ref, verb: str, how: Circumstances) -> Iterator[list[str]]:
    """Keeps what the block changes, so that `undo` and `operations` know it, also when interrupted.

    The block puts into the list which verbs it has done; they are told where no change was counted on the way, as of
    verbs that hand out jobs or set settings.
    """
    from rqtui.config.state_folder import state_folder
    from rqtui.operations.journal import Journal
    from rqtui.operations.undo import Keeper

    def closed(verb: str, layout: str, queue: str) -> str:
        return keeper.close(verb, layout, queue)

    journal = Journal(state_folder(), session.settings.url, session.settings.profile, closed)
    keeper = Keeper(state_folder(), session.settings.url, journal)
    for cut in journal.settle():
        output.say(f"a change {cut.cut_words()}; rqtui operations shows it, rqtui undo takes back what was done.")
    if keeper.problem:
        output.say(f"nothing can be undone: {keeper.problem}.")
    engine.keeper = keeper
    began_ms = int(time.time() * 1000)
    journal.coming(verb, ref.queue, ref.layout, replace(how, began_ms=began_ms, before=_places(engine, ref)))
    done: list[str] = []
    try:
        yield done
    finally:
        told = keeper.told()
        noted = [
            journal.note(name, where.queue, where.layout, each.ids, each.answers, count=each.count)
            for (name, where), each in told.items()
        ]
        noted += [journal.note(name, ref.queue, ref.layout) for name in (() if told else done)]
        after = _places(engine, ref) if noted else {}
        for one in noted:
            journal.counted(one, after)
        keeper.abandon(lambda _verb, _ref: True)
        if journal.problem:
            output.say(journal.problem)


def be_sure(session: Session, engine: Engine, request: Request, script: Script, number: int | None) -> None:
    """Asks on a terminal before a verb that is dangerous, or does more here than its name says; elsewhere refuses it
    without --yes.

    A profile that is guarded wants the queue's name for an answer.
    """
    from rqtui import verbs
    from rqtui.operations import undo

    row, effect = verbs.verb(script.name, script.summary), engine.layouts[request.ref.layout].effects.get(script.name)
    if request.is_sure or not (_is_dangerous(script) or effect):
        if number is not None and number > undo.LIMIT and undo.inverse(engine.layouts[request.ref.layout], script.name):
            output.say(f"no undo: {undo.too_many()}.")
        return
    what = (
        f"{number} job{'' if number == 1 else 's'} of {request.ref.queue}" if number is not None else request.ref.queue
    )
    problem = engine.keeper.problem if engine.keeper else ""
    back = undo.words(
        engine.layouts[request.ref.layout], script.name, number or 0, request.place, problem, undo.COMMAND
    )
    back = back if back.startswith(undo.COMMAND) else f"{back[:1].upper()}{back[1:]}"
    then = f" What happens: {effect}." if effect else ""
    lost = then + (f" What is lost: {row.lost}." if row.lost else "") + f" {back}."
    if not sys.stdin.isatty():
        why = "is dangerous" if row.danger else "does more than its name says"
        raise Refused(f"{script.name} on {what} {why} and was not done; --yes does it without asking.{lost}")
    wanted = request.ref.queue if session.settings.is_guarded else ""
    how = f"type {wanted} to go on:" if wanted else "[y/N]"
    output.note(f"{row.question or row.label.capitalize()} {what}?{lost} {how} ", end="")
    from rqtui.text.sanitise import safe  # what was shown

    answer = sys.stdin.readline().strip()
    if answer not in (wanted, safe(wanted)) if wanted else answer.lower() not in ("y", "yes"):
        raise Refused("nothing was changed.")


def _is_dangerous(script: Script) -> bool:
    from rqtui import verbs

    return verbs.verb(script.name, script.summary).danger


# ── on jobs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _act_on_jobs(session: Session, engine: Engine, request: Request, script: Script, form: dict[str, object]) -> int:
    if request.ids and (request.everything or request.expression is not None or request.place):
        raise UsageError("name the jobs by id, or by --place with --filter or --all; not both.")
    if not request.ids and not request.place:
        raise UsageError(f"which jobs shall {script.name} take? Give ids, or --place with --filter or --all.")
    if not request.ids and request.everything == (request.expression is not None):
        raise UsageError("--place goes with one of --filter EXPR and --all.")
    if request.everything and request.limit is None and not request.is_dry_run and request.brake is None:
        return _act_on_place(session, engine, request, script, form)
    if request.brake is not None and not request.is_dry_run:
        return _drip(session, engine, request, script, form, request.brake)
    jobs = _named(engine, request) if request.ids else _matching(engine, request)
    if request.is_dry_run:
        return act_result.write_dry_run(session, engine, request.ref, script, jobs)
    seen = sum(1 for job in jobs if job.place)
    if seen:
        be_sure(session, engine, request, script, seen)
    is_known = seen or request.is_sure or not _is_dangerous(script)  # else it may come to be there meanwhile
    outcomes = [act_result.gone(script, job) for job in jobs if not job.place and (_asks_where(script) or not is_known)]
    asked = [job for job in jobs if job.place or not outcomes]
    steps = engine.acts(script.name, request.ref, asked, form) if asked else ()
    with output.progress(script.name, len(jobs)) as bar:
        done, broken_off = _collected(steps, engine.client, bar, len(asked))
    outcomes += done
    order = {job.id: number for number, job in enumerate(jobs)}  # chunks go by place
    outcomes.sort(key=lambda outcome: order[outcome.id])
    return _told(session, engine, request, script, outcomes, broken_off, sum(outcome.moved for outcome in outcomes))


def _asks_where(script: Script) -> bool:
    """Whether it must be told where a job stands, or all its bytes, or others that are made of them: then it cannot be
    asked about one nobody sees."""
    args = (*script.args, *script.each)
    return any(arg.name == "new" or (arg.name in ("place", "member") and not arg.optional) for arg in args)


def _act_on_place(session: Session, engine: Engine, request: Request, script: Script, form: dict[str, object]) -> int:
    """Takes what stands in the place now, a chunk at a time: it need not fit into one page, or into a sample."""
    page = engine.page(request.ref, request.place, 0, 1)
    if page.error:
        raise WrongType(page.error)
    total = page.in_all
    if total:
        be_sure(session, engine, request, script, total)
    steps = engine.acts_on_place(script.name, request.ref, request.place, form) if total else ()
    with output.progress(script.name, total) as bar:
        outcomes, broken_off = _collected(steps, engine.client, bar, total)
    return _told(session, engine, request, script, outcomes, broken_off, sum(outcome.moved for outcome in outcomes))


def _collected(
    chunks: Iterable[list[Outcome]], client: Redis, bar: output.Progress, total: int
) -> tuple[list[Outcome], str]:
    """The outcomes of a change of many jobs, and where a signal broke it off, in words.

    The chunk under way is finished: it is one call, of which nothing is half done.
    """
    outcomes: list[Outcome] = []
    with stopped_by_signals(client) as stop:
        for chunk in chunks:
            outcomes += chunk
            bar.step(len(chunk))
            if stop.is_set() and len(outcomes) < total:
                return outcomes, f"stopped after {len(outcomes)} of {total}: interrupted"
    return outcomes, ""


def _told(
    session: Session,
    engine: Engine,
    request: Request,
    script: Script,
    outcomes: list[Outcome],
    broken_off: str,
    moved: int,
) -> int:
    """Says what was done: all of it, or as far as it came before a signal."""
    code = act_result.write(session, request.ref, script, outcomes, moved)
    if broken_off and engine.keeper:
        engine.keeper.stopped(script.name, request.ref, broken_off)
    if broken_off:
        output.say(f"{broken_off}.")
    return INTERRUPTED if broken_off else code


def _named(engine: Engine, request: Request) -> list[Job]:
    """The jobs of these ids as they are now; an id that is not there goes along, so that the script can say so."""
    layout, ids, found = engine.layouts[request.ref.layout], list(dict.fromkeys(request.ids)), []
    for start in range(0, len(ids), LOOK_UP):
        chunk = ids[start : start + LOOK_UP]
        jobs = engine.ask_all([layout.job_ask(request.ref.queue, id, 0) for id in chunk])
        found += [job or stranger(request.ref, id) for id, job in zip(chunk, jobs, strict=True)]
    return found


def _matching(engine: Engine, request: Request) -> list[Job]:
    """The jobs of the place that the filter lets through, without their bodies, up to the limit."""
    from rqtui.engine import filters

    accepts = filters.parse(request.expression or "")
    body_bytes = documents.BODY_BYTES if accepts.reads_body and accepts.terms else 0
    keeps = request.is_dry_run  # the errors, to count them
    found: dict[bytes, Job] = {}
    with output.progress("looking") as bar:
        for jobs in engine.scan(
            request.ref, request.place, lambda job: _counted(bar, accepts(job)), body_bytes, chunk=500
        ):
            found.update(
                (job.id, replace(job, body=None, history=(), error=job.error if keeps else "")) for job in jobs
            )
            if request.limit is not None and len(found) >= request.limit:
                break
    return list(found.values())[: request.limit]


def _counted(bar: output.Progress, is_accepted: bool) -> bool:
    bar.step(1)
    return is_accepted


# ── on jobs, so many per second ───────────────────────────────────────────────────────────────────────────────────


def _drip(
    session: Session, engine: Engine, request: Request, script: Script, form: dict[str, object], brake: Brake
) -> int:
    """So many per second, until it is over or stops itself; then all answers, and why it stopped.

    Of a whole place no more is listed than is due. Ctrl+C ends it between two.
    """
    from rqtui.operations import rate_limit as drip

    is_whole = request.everything and request.limit is None
    jobs = [] if is_whole else _named(engine, request) if request.ids else _matching(engine, request)
    there = [job for job in jobs if job.place]
    page = engine.page(request.ref, request.place, 0, 1) if is_whole else None
    number = len(there) if page is None else page.in_all
    if number:
        be_sure(session, engine, request, script, number)
    outcomes: list[Outcome] = []
    stopped, total, is_interrupted = "", 0, False
    place = request.place if is_whole else ""
    with output.progress(f"{script.name} by drips", len(there) or None) as bar:
        try:
            for step in drip.steps(engine, script.name, [(request.ref, there)], form, brake, place=place):
                outcomes += [outcome for _ref, outcome in step.outcomes]
                stopped, total = step.stopped, step.total
                bar.total = total
                bar.step(len(step.outcomes))
                if not stopped:
                    time.sleep(drip.EVERY_S)
        except KeyboardInterrupt:
            stopped, is_interrupted = f"stopped after {len(outcomes)} of {total}: interrupted", True
    moved = sum(outcome.moved for outcome in outcomes)
    is_braked = stopped.startswith("stopped")
    extra = {"stopped": stopped if is_braked else None, "left": max(0, total - len(outcomes))}
    code = act_result.write(session, request.ref, script, outcomes, moved, extra=extra)
    if is_braked and engine.keeper:
        engine.keeper.stopped(script.name, request.ref, stopped)
    if is_braked:
        output.say(f"{stopped}.")
    if is_interrupted:
        return INTERRUPTED
    return REFUSED if is_braked else code


def _brake(rate: str | None, failures: int | None, depth: int | None) -> Brake | None:
    """What the options say; None where there is no rate. Raises UsageError."""
    from rqtui.operations import rate_limit as drip

    for name, value in (("--stop-at-failures", failures), ("--stop-at-depth", depth)):
        if value is not None and (rate is None or value < 1):
            raise UsageError(f"{name} is a whole number from 1 on, and goes with --rate 5/s.")
    return None if rate is None else drip.Brake(drip.rate(rate), failures, depth)


# ── on the next jobs ──────────────────────────────────────────────────────────────────────────────────────────────


def _take(session: Session, engine: Engine, request: Request, script: Script, form: dict[str, object]) -> int:
    """Hands out jobs: the results carry each with its body; none is no failure."""
    from rqtui.scripts import script as scripts

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
    place = layout.place((script.targets or script.sources)[0])  # what is pulled stands there no more, or never did
    jobs = [replace(job, place=place.name, state=place.state) for job in layout.taken(request.ref.queue, answer)]
    if place.state != "reserved":
        jobs = [replace(job, deadline_ms=None, token=b"") for job in jobs]
    if not jobs:
        output.say(f"{request.ref.queue}: {answer.text}.")
    if session.as_json:
        results = [{**documents.id_fields(job.id), "word": answer.word, "job": documents.job(job)} for job in jobs]
        output.write_json(act_result.document(request.ref, script, len(jobs), results))
    elif jobs:
        from rqtui.text.body import body_view

        rows = [
            [
                documents.label(job.id),
                documents.text(job.token),
                " ".join(body_view((job.body or b"")[:200]).text.split()),
            ]
            for job in jobs
        ]
        output.write_table(("id", "token", "body"), rows)
    return DONE


# ── on a queue, a place, workers ──────────────────────────────────────────────────────────────────────────────────


def _act_on_queue(session: Session, engine: Engine, request: Request, script: Script, form: dict[str, object]) -> int:
    from rqtui import verbs
    from rqtui.model import Outcome

    is_about_workers = verbs.verb(script.name).scope == "worker"
    takes_place = any(arg.name == "place" for arg in script.args)
    if request.expression is not None:
        raise UsageError(f"{script.name} takes no --filter.")
    if takes_place and bool(request.place) == request.everything:
        raise UsageError(f"{script.name} needs --place PLACE, or --all for the whole queue.")
    if request.place and not takes_place:
        raise UsageError(f"{script.name} takes no --place.")
    if is_about_workers and not request.ids:
        raise UsageError(f"{script.name} needs the names of workers.")
    if request.place:
        form["place"] = request.place
    if request.is_dry_run:
        what = request.place or request.ref.queue
        outcomes = [Outcome(script.name, b"", "would", f"{script.name} would be asked for on {what}")]
        return act_result.write(session, request.ref, script, outcomes, 0, extra={"dry_run": True})
    be_sure(session, engine, request, script, None)
    if is_about_workers:
        outcomes = [
            replace(one, id=id)
            for id in request.ids
            for one in engine.act(script.name, request.ref, (), {**form, "worker": id})
        ]
        return act_result.write(session, request.ref, script, outcomes, 0)
    if {column.name for column in script.each} == {"name", "value"}:
        outcomes = _configure(engine, request, script, form)
        return act_result.write(session, request.ref, script, outcomes, 0)
    outcome, broken_off = _in_batches(engine, request, script, form)
    if takes_place and request.everything and outcome.word == script.done_word and not broken_off:
        engine.retire(request.ref)
    moved = outcome.values.get("moved")
    return _told(session, engine, request, script, [outcome], broken_off, moved if isinstance(moved, int) else 0)


def _configure(engine: Engine, request: Request, script: Script, form: dict[str, object]) -> list[Outcome]:
    """Settings are rows of (name, value), and come as `--set name=value`."""
    from rqtui.model import Outcome
    from rqtui.scripts import script as scripts

    if not form:
        raise UsageError(f"{script.name} needs --set SETTING=VALUE; an empty value brings the default back.")
    rows = [{"name": name, "value": value} for name, value in form.items()]
    call = engine.layouts[request.ref.layout].call(script.name, request.ref.queue, {}, rows)
    answer = scripts.run(engine.client, call)
    return [Outcome(script.name, b"", answer.word, answer.text, 0, answer.values)]


def _in_batches(engine: Engine, request: Request, script: Script, form: dict[str, object]) -> tuple[Outcome, str]:
    """One call; of a verb with a limit that tells what is `left`, as many as it takes, to what was there at first.

    Also where a signal broke it off, in words: between two calls.
    """
    if not any(arg.name == "limit" for arg in script.args):
        [outcome] = engine.act(script.name, request.ref, (), form)
        return outcome, ""
    wanted, done = request.limit, 0
    first: Outcome | None = None
    if script.name == "purge" and engine.layouts[request.ref.layout].purges_by_job(request.place):
        return _purge_by_job(engine, request, script, form)
    with output.progress(script.name, wanted) as bar, stopped_by_signals(engine.client) as stop:
        while True:
            size = BATCH if wanted is None else min(BATCH, wanted - done)
            [outcome] = engine.act(script.name, request.ref, (), {**form, "limit": size})
            if first is not None and not outcome.moved:  # emptied by somebody else, or the link is gone
                return (first if outcome.word == "empty" else replace(outcome, values={"moved": done})), ""
            done += outcome.moved
            bar.step(outcome.moved)
            left = outcome.values.get("left")
            values = {**outcome.values, "moved": done} if done else outcome.values
            first = replace(outcome, moved=done, values=values)
            if wanted is None and isinstance(left, int):
                wanted = bar.total = done + left
            if not outcome.moved or not isinstance(left, int) or not left or done >= (wanted or 0):
                return first, ""
            if stop.is_set():
                return first, f"stopped after {done} of {wanted}: interrupted"


def _knows(script: Script, field: str) -> bool:
    return any(arg.name == field for arg in (*script.args, *script.each))


def _need(script: Script, field: str, option: str) -> None:
    if not _knows(script, field):
        raise UsageError(f"{script.name} knows no {option}.")


def _purge_by_job(engine: Engine, request: Request, script: Script, form: dict[str, object]) -> tuple[Outcome, str]:
    """A purge that goes through the jobs of other queues, too: it may be broken off after any step."""
    most = {"limit": EVERYTHING if request.limit is None else request.limit}
    done, broken_off = 0, ""
    outcome = act_result.nothing(script)
    with output.progress(script.name, request.limit) as bar, stopped_by_signals(engine.client) as stop:
        for chunk in engine.acts(script.name, request.ref, (), {**form, **most}):
            for outcome in chunk:
                done += outcome.moved
                bar.step(outcome.moved)
            if stop.is_set():
                broken_off = f"stopped after {done}: interrupted"
                break
    values = {**outcome.values, "moved": done} if outcome.values else outcome.values
    return replace(outcome, moved=done, values=values), broken_off
