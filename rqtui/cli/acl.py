"""Implement `acl`: print the minimal Redis permissions of a role. The command does not connect to Redis."""

from __future__ import annotations

from typing import Annotated

import typer

from rqtui.cli import output
from rqtui.cli.session import DONE, Session
from rqtui.errors import UsageError
from rqtui.session import create_engine

QUEUES = Annotated[list[str], typer.Argument(metavar="QUEUE...", help="The queues, as NAME or SYSTEM:NAME.")]


def acl(
    session: Session,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="The role: viewer, worker or operator.")],
    queues: QUEUES,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Name the user; without it the name is rqtui-ROLE.")
    ] = "",
    is_old: Annotated[
        bool, typer.Option("--redis6", help="Print a line for Redis 6, which has no read-only key rights.")
    ] = False,
    with_server: Annotated[
        bool,
        typer.Option(
            "--server", help="Also allow the commands that the Redis view needs: CONFIG GET, CLIENT LIST, SLOWLOG."
        ),
    ] = False,
    with_nodes: Annotated[
        bool, typer.Option("--cluster", help="Print the line for a Cluster; run it on each node.")
    ] = False,
) -> int:
    """Print the least rights that a role needs in Redis, as one ACL SETUSER line for redis-cli.

    Example: rqtui acl viewer mail images
    """
    from rqtui.reports import acl as report

    engine = create_engine(session.settings)
    pairs = [(engine.systems[ref.system], ref.queue) for ref in map(engine.resolve, queues)]
    if user and not user.isprintable() or any(letter.isspace() for letter in user):
        raise UsageError("--user is a name without spaces.")
    major = 6 if is_old else 7
    found_rights = report.compute_rights(role, pairs, major=major, with_server=with_server, with_nodes=with_nodes)
    output.write_lines([report.format_acl_command(role, found_rights, user=user, major=major)])
    output.print_message(
        "put a password in place of PASSWORD (after the >), and run it in redis-cli; ACL SAVE keeps it."
    )
    return DONE
