"""`layouts`: the systems that rqtui speaks, with their places and verbs. It asks no Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqtui.cli import output
from rqtui.cli.session import DONE, Session

if TYPE_CHECKING:
    from rqtui.layout.layout import Layout


def layouts(session: Session) -> int:
    """The systems that rqtui speaks; needs no Redis.

    Example: rqtui layouts --json
    """
    from rqtui.systems import by_sight, registry

    documents_ = [_layout(registry.make(name)) for name in registry.names()]
    if session.as_json:
        output.write_json(documents_)
        return DONE
    for document in documents_:
        places = ", ".join(place["place"] for place in document["places"])
        output.write_lines([f"{document['layout']}: {places}"])
        moves = [
            [name, " ".join(verb["from"]), " ".join(verb["to"]), verb["text"]]
            for name, verb in document["verbs"].items()
        ]
        output.write_table(("verb", "from", "to", "does"), moves)
    titles = ", ".join(system.title for system in by_sight.unspoken())
    output.write_lines([f"known by sight, and not spoken yet: {titles}"])
    return DONE


def _layout(layout: Layout) -> dict[str, Any]:
    return {
        "layout": layout.name,
        "places": [
            {
                "place": place.name,
                "state": place.state.value,
                "key": place.key,
                "type": place.type,
                "score": place.score,
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
