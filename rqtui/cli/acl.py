"""`acl`: the least rights that a role needs in Redis. It asks no Redis."""

from __future__ import annotations

from typing import Annotated

import typer

from rqtui.cli import output
from rqtui.cli.session import DONE, Session
from rqtui.errors import UsageError
from rqtui.session import make_engine

QUEUES = Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Which queues, as NAME or LAYOUT:NAME.")]


def acl(
    session: Session,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="viewer, worker or operator.")],
    queues: QUEUES,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="The user's name; rqtui-ROLE otherwise.")] = "",
    is_old: Annotated[bool, typer.Option("--redis6", help="For Redis 6: no rights to read alone.")] = False,
    with_server: Annotated[
        bool, typer.Option("--server", help="Also CONFIG GET, CLIENT LIST, SLOWLOG: all that the Redis view shows.")
    ] = False,
    with_nodes: Annotated[bool, typer.Option("--cluster", help="For the nodes of a Cluster: on each of them.")] = False,
) -> int:
    """The least rights that a role needs in Redis, as one ACL SETUSER line for redis-cli.

    Example: rqtui acl viewer mail images
    """
    from rqtui.reports import acl as report

    engine = make_engine(session.settings)
    meant = [(engine.layouts[ref.layout], ref.queue) for ref in map(engine.find, queues)]
    if user and not user.isprintable() or any(letter.isspace() for letter in user):
        raise UsageError("--user is a name without spaces.")
    major = 6 if is_old else 7
    found_rights = report.rights(role, meant, major=major, with_server=with_server, with_nodes=with_nodes)
    output.write_lines([report.line(role, found_rights, user=user, major=major)])
    output.say("put a password in place of PASSWORD (after the >), and run it in redis-cli; ACL SAVE keeps it.")
    return DONE
