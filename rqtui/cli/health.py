"""Implement `health`: print the findings of queues and of Redis, with the exit codes of monitoring plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, findings, output
from rqtui.cli.arguments import QUEUES, open_engine
from rqtui.cli.past import AT, build_recorded_fields, open_recording, read_recorded_moment
from rqtui.cli.session import Session
from rqtui.cli.settled_snapshot import take_settled_snapshot
from rqtui.errors import RqtuiError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Queue, Ref
    from rqtui.recording.moment import Moment

HEALTH_CODES = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}


def health(session: Session, queues: QUEUES = None, at: AT = None) -> int:
    """Report the health of queues and server: exit 0 fine, 1 warning, 2 critical, 3 unknown.

    Example: rqtui health mail --json
    """
    from rqtui.engine.health import rules as judge
    from rqtui.engine.health import server_rules
    from rqtui.engine.health.urgency import compute_urgency_step

    if at is not None:
        return _report_recorded_health(session, read_recorded_moment(session, at, queues))
    try:
        engine, refs = open_engine(session, queues)
        recording = open_recording(session)
        counted, unwatched = take_settled_snapshot(engine, refs, recording)
        if recording is not None:
            recording.close()
        server = [*engine.problems.values(), *server_rules.find_server_problems(engine.client)]
    except RqtuiError:
        if session.as_json:
            output.write_json({"severity": "unknown", "findings": [], "unknown": []})
        raise
    severity = judge.find_worst_severity(
        [*server, *(finding for queue in counted.queues for finding in queue.findings)]
    )
    if severity == "ok" and unwatched:
        severity = "unknown"  # A single command cannot know what matters now, such as failures of the last minutes.
    pairs = sorted(zip(refs, counted.queues, strict=True), key=lambda pair: -compute_urgency_step(pair[1]))
    if session.as_json:
        finding_documents = [
            findings.build_finding_document(one, engine.format_argument(ref), ref.system, counted.taken_ms)
            for ref, queue in pairs
            for one in queue.findings
        ]
        finding_documents += [findings.build_finding_document(one, "", None, counted.taken_ms) for one in server]
        unknown = [
            _build_unknown_facts(ref, (*queue.unknown, *unwatched.get(ref, ())))
            for ref, queue in pairs
            if queue.unknown or ref in unwatched
        ]
        output.write_json({"severity": severity, "findings": finding_documents, "unknown": unknown})
    else:
        now_ms = counted.taken_ms
        queue_lines = [
            findings.format_findings(
                queue.findings, engine.format_argument(ref), now_ms, queue_name=engine.format_name(ref)
            )
            for ref, queue in pairs
        ]
        output.write_lines(
            [
                severity,
                *(line for lines in queue_lines for line in lines),
                *findings.format_findings(server, "", now_ms),
                *_format_unknown_facts(engine, pairs),
                *_format_unwatched_facts(engine, pairs, unwatched),
            ]
        )
    return HEALTH_CODES[severity]


def _report_recorded_health(session: Session, moment: Moment) -> int:
    """Report the health of queues and server at a past moment, and return the exit code."""
    from rqtui.engine.health import rules as judge
    from rqtui.engine.health.urgency import compute_urgency_step
    from rqtui.model import Ref
    from rqtui.recording.moment import NOT_RECORDED_THEN
    from rqtui.text.names import find_duplicate_names, format_queue_name

    queues = sorted(moment.snapshot.queues, key=lambda queue: -compute_urgency_step(queue))
    server = moment.server_findings
    severity = judge.find_worst_severity([*server, *(finding for queue in queues for finding in queue.findings)])
    if severity == "ok" and moment.unrecorded:
        severity = "unknown"
    if session.as_json:
        finding_documents = [
            findings.build_finding_document(one, queue.name, queue.system, moment.at_ms)
            for queue in queues
            for one in queue.findings
        ]
        finding_documents += [findings.build_finding_document(one, "", None, moment.at_ms) for one in server]
        unknown = [_build_unknown_facts(ref, (NOT_RECORDED_THEN,)) for ref in moment.unrecorded]
        output.write_json(
            {"severity": severity, "findings": finding_documents, "unknown": unknown, **build_recorded_fields(moment)}
        )
        return HEALTH_CODES[severity]
    refs = [Ref(queue.system, queue.name) for queue in queues]
    duplicates = find_duplicate_names(refs)
    names = [format_queue_name(ref, duplicates) for ref in refs]
    lines = [
        line
        for name, queue in zip(names, queues, strict=True)
        for line in findings.format_findings(queue.findings, name, moment.at_ms, queue_name=name)
    ]
    output.write_lines([severity, *lines, *findings.format_findings(server, "", moment.at_ms)])
    return HEALTH_CODES[severity]


def _build_unknown_facts(ref: Ref, facts: Sequence[str]) -> dict[str, Any]:
    """Build the JSON of the facts of a queue that are unknown because its system does not store them."""
    return {**documents.build_queue_fields(ref.queue), "layout": ref.system, "what": [*facts]}


def _format_unwatched_facts(
    engine: Engine, pairs: Sequence[tuple[Ref, Queue]], unwatched: Mapping[Ref, tuple[str, ...]]
) -> list[str]:
    """Return a sentence for the facts of each queue that are unknown because a single command measures no changes.

    Queues with the same unknown facts share a sentence.
    """
    from rqtui.engine.health.rules import FAILURES_OF_MINUTES
    from rqtui.text.names import join_names
    from rqtui.text.sanitise import safe

    groups: dict[tuple[str, ...], list[str]] = {}
    for ref, queue in pairs:
        facts = (*(fact for fact in queue.unknown if fact == FAILURES_OF_MINUTES), *unwatched.get(ref, ()))
        if facts:
            groups.setdefault(facts, []).append(safe(engine.format_name(ref)))
    return [
        f"{'–':<8}  {join_names(names)}: one command cannot know {' and '.join(facts)}: "
        "leave the screen open for a minute"
        for facts, names in groups.items()
    ]


def _format_unknown_facts(engine: Engine, pairs: Sequence[tuple[Ref, Queue]]) -> list[str]:
    """Return a sentence for the facts of queues that are unknown because their system does not store them.

    Queues of a system with the same unknown facts share a sentence.
    """
    from rqtui.engine.health.rules import FAILURES_OF_MINUTES
    from rqtui.text.names import join_names
    from rqtui.text.sanitise import safe

    groups: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for ref, queue in pairs:
        if facts := tuple(fact for fact in queue.unknown if fact != FAILURES_OF_MINUTES):
            is_unheard = any(not count.is_count_known for count in queue.counts)
            groups.setdefault((ref.system, is_unheard, facts), []).append(safe(engine.format_name(ref)))
    return [
        f"{'–':<8}  {join_names(names)}: unknown, since {system} does not record them"
        f"{_UNHEARD if is_unheard else ''}: {', '.join(facts)}"
        for (system, is_unheard, facts), names in groups.items()
    ]


_UNHEARD = " or publishes them only to programs that listen, as the screen does"
