"""Create the engine from the settings, the same way for the screen and for every command.

No other module creates an engine from settings, so the name of a queue means the same everywhere. Code that has its own
systems (tests, demos, benchmarks) calls `Engine` directly. Nothing is sent to Redis here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqtui.config.settings import Settings

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine


def create_engine(settings: Settings, *, reads_server_state: bool = False) -> Engine:
    """Create the engine, which polls Redis, from the settings of this run. No connection is opened yet.

    `reads_server_state` is passed to `connect`. Raises UsageError for an invalid system or URL.
    """
    from rqtui.config.state_folder import find_state_folder
    from rqtui.connection.connect import connect
    from rqtui.connection.meter import Meter
    from rqtui.engine import walk_file
    from rqtui.engine.engine import Engine  # Imported late, so that the screen can draw before.
    from rqtui.systems import registry

    systems, left_out = (
        (registry.create_systems(settings.systems), ()) if settings.systems else registry.create_usable_systems()
    )
    client = connect(
        settings.url, meter=Meter(), reads_server_state=reads_server_state, sends_script_texts=True
    )  # A command calls each script once or twice, and a round trip over a slow link takes longer than its text.
    unused_systems = set(registry.list_system_names()) - {type(system).name for system in systems}
    return Engine(
        client,
        systems,
        settings.read_only,
        unused_systems,
        denied=settings.denied,
        profile=settings.profile,
        limits=settings.limits,
        left_out=left_out,
        walks=find_state_folder() / walk_file.FOLDER,
        walks_all=settings.walks_all,
    )
