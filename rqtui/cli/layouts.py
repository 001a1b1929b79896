"""`layouts`: the systems that rqtui speaks, with their places and verbs. It asks no Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqtui.cli import output
from rqtui.cli.session import DONE, REFUSED, Session

if TYPE_CHECKING:
    from rqtui.layout.layout import Layout


def layouts(session: Session) -> int:
    """The systems that rqtui speaks; needs no Redis.

    Example: rqtui layouts --json
    """
    from rqtui.systems import by_sight, registry

    found, left_out = registry.every()
    documents_ = [_layout(layout, registry.package_of(layout.name)) for layout in found]
    for sentence in left_out:
        output.say(sentence)
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
    titles = ", ".join(system.title for system in by_sight.unspoken())
    output.write_lines([f"known by sight, and not spoken yet: {titles}"])
    return REFUSED if left_out else DONE


def _layout(layout: Layout, package: str) -> dict[str, Any]:
    """A system; `package` brings it (null: rqtui itself)."""
    return {
        "layout": layout.name,
        "package": package or None,
        "places": [
            {
                "place": place.name,
                "state": place.state.value,
                "key": place.key,
                "type": place.type,
                "score": place.score,
                "shared": place.is_shared,
                "heard": place.is_heard,
            }
            for place in layout.places
        ],
        "verbs": {
            name: {"from": list(script.sources), "to": list(script.targets), "text": script.summary}
            for name, script in layout.scripts.items()
            if not script.read_only
        },
        "options": dict(layout.options),
    }
