"""Session: makes the engine of some settings, for the screen and for every command alike.

Nobody else makes an engine of settings, so a queue's name means the same on the screen and on the command line. Whoever
has layouts in hand (tests, demos, benches) calls `Engine` with them. Nothing is sent to Redis here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqtui.config.settings import Settings

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine


def make_engine(settings: Settings) -> Engine:
    """The engine of these settings, not connected yet. Raises UsageError for a layout or a URL that cannot be."""
    from rqtui.config.state_folder import state_folder
    from rqtui.connection.connect import connect
    from rqtui.connection.meter import Meter
    from rqtui.engine import walk_file
    from rqtui.engine.engine import Engine  # late: the screen draws its first picture before it
    from rqtui.systems import registry

    made, left_out = (registry.make_all(settings.layouts), ()) if settings.layouts else registry.usable()
    client = connect(settings.url, meter=Meter())
    others = set(registry.names()) - {layout.name for layout in made}
    return Engine(
        client,
        made,
        settings.read_only,
        others,
        denied=settings.denied,
        profile=settings.profile,
        limits=settings.limits,
        left_out=left_out,
        walks=state_folder() / walk_file.FOLDER,
        walks_all=settings.walks_all,
    )
