"""Implement `systems`: list the supported queue systems with their places and verbs, without connecting to Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import output
from rqtui.cli.session import DONE, REFUSED, Session

if TYPE_CHECKING:
    from rqtui.system_base.system import System


def systems(
    session: Session,
    checked_name: Annotated[
        str, typer.Option("--check", metavar="NAME", help="Check that this system fits its scripts and texts.")
    ] = "",
) -> int:
    """List the queue systems that rqtui supports; needs no Redis.

    Example: rqtui systems --json
    """
    from rqtui.systems import by_sight, registry

    if checked_name:
        return _check_system(session, checked_name)
    found_systems, left_out = registry.create_all_systems()
    documents_ = [_build_system_document(system, registry.find_system_package(system.name)) for system in found_systems]
    for sentence in left_out:
        output.print_message(sentence)
    if session.as_json:
        output.write_json(documents_)
        return REFUSED if left_out else DONE
    for document in documents_:
        places = ", ".join(place["place"] for place in document["places"])
        brought = f"  (brought by {document['package']})" if document["package"] else ""
        output.write_lines([f"{document['layout']}: {places}{brought}"])
        moves = [
            [name, " ".join(verb["from"]), " ".join(verb["to"]), verb["text"]]
            for name, verb in document["verbs"].items()
        ]
        output.write_table(("verb", "from", "to", "does"), moves)
    titles = ", ".join(name.title for name in by_sight.list_unsupported_systems())
    output.write_lines([f"recognised by their keys, but not supported: {titles}"])
    return REFUSED if left_out else DONE


def _check_system(session: Session, name: str) -> int:
    """Print one sentence per mistake in a system. Return DONE if there is none, else REFUSED."""
    from rqtui.system_base.system_lint import find_system_faults
    from rqtui.systems import registry

    faults = find_system_faults(registry.create_unchecked_system(name))
    if session.as_json:
        output.write_json({"layout": name, "faults": faults})
    else:
        output.write_lines(faults or [f"{name}: no mistake was found in its places, keys, scripts and texts"])
    return REFUSED if faults else DONE


def _build_system_document(system: System, package: str) -> dict[str, Any]:
    """Build the JSON document of a system. `package` names the installed package that provides it, or is None."""
    return {
        "layout": system.name,
        "package": package or None,
        "places": [
            {
                "place": place.name,
                "state": place.state.value,
                "key": place.key,
                "type": place.type,
                "score": place.score,
                "shared": place.is_shared,
                "heard": place.is_from_events,
                "key_per_job": place.is_key_per_job,
            }
            for place in system.places
        ],
        "verbs": {
            name: {"from": list(script.sources), "to": list(script.targets), "text": script.summary}
            for name, script in system.scripts.items()
            if not script.read_only
        },
        "options": dict(system.options),
    }
