"""An error of redis-py or of the network as a sentence for a person: what failed where, and what to do.

Texts of Redis 6.2, 7 and Valkey 9 and of OpenSSL stand here; those that scripts are answered with stand in
`scripts/replies.py`. `connection/connect.py` is the caller, for what fails while connecting and in plain commands.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from urllib.parse import unquote, urlsplit

from rqtui.connection.passwords import masked as mask
from rqtui.connection.urls import Address, hosts_of, shown
from rqtui.errors import RqtuiError


def describe(error: BaseException, url: str = "") -> str:
    """A sentence for a person: what failed where, and what to do. `url` names the place if the error does not."""
    if isinstance(error, RqtuiError):
        return str(error)
    where = _where(url)
    for cause in _causes(error):
        if type(cause).__name__ == "NotFound":  # of `topology`, which knows better where it looked
            return str(cause)
        for matches, sentence in _SENTENCES:
            if matches(cause):
                return _capitalised(sentence.format(where=where, said=str(cause).rstrip(".")))
    return _capitalised(f"{where} answered with an error: {error}")


def describe_of_sentinel(error: BaseException, address: Address) -> str:
    """The same of a sentinel, which has a password and rights of its own."""
    where = shown(address)
    for matches, sentence in _OF_SENTINELS:
        if matches(error):
            return sentence.format(where=where, said=str(error).rstrip("."))
    return describe(error, f"redis://{where}")


def _capitalised(sentence: str) -> str:
    return f"T{sentence[1:]}" if sentence.startswith("the ") else sentence


def _where(url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.scheme == "unix":
            return f"the socket {unquote(parts.path)}"
        if hosts := hosts_of(url, mask(url)):
            return f"what stands behind {hosts}"
        return f"{parts.hostname or 'localhost'}:{parts.port or 6379}" if url else "the server"
    except ValueError:
        return mask(url)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, the deepest first: that one knows the errno.

    What stands behind an error of the system is another one, which somebody handled while this one came.
    """
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if isinstance(link, OSError) else link.__context__)
    yield from reversed(chain)


def _errno(*codes: int) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, OSError) and error.errno in codes


def _kind(kind: type[BaseException], text: str = "") -> Callable[[BaseException], bool]:
    # compiled when something fails: thirty of them took 2 ms of the time to the first picture
    return lambda error: isinstance(error, kind) and re.search(text, str(error), re.IGNORECASE) is not None


def _says(text: str) -> Callable[[BaseException], bool]:
    return _kind(Exception, text)


_OF_SENTINELS: tuple[tuple[Callable[[BaseException], bool], str], ...] = (
    (
        _says("WRONGPASS|invalid (?:username|password)|NOAUTH|authentication required|without any password configured"),
        "{where} wants another password: ?sentinel_password=PASSWORD, and ?sentinel_username=USER where it has users.",
    ),
    (
        _says("no permissions|NOPERM"),
        "{where} denies this: {said}. The ACL of a sentinel has to allow +sentinel|masters.",
    ),
    (_says("unknown command"), "{where} is a Redis, but no sentinel."),
)
_SENTENCES: tuple[tuple[Callable[[BaseException], bool], str], ...] = (
    (
        _kind(ssl.SSLCertVerificationError, "hostname mismatch|IP address mismatch"),
        "{where} showed a TLS certificate for another host name. Connect by a name that stands in it.",
    ),
    (
        _kind(ssl.SSLCertVerificationError, "expired|not yet valid"),
        "{where} showed a TLS certificate that is not valid today. Renew it; check the clocks.",
    ),
    (
        _kind(ssl.SSLCertVerificationError),
        "{where} showed a TLS certificate that is not trusted. Name its authority with ?ssl_ca_certs=FILE.",
    ),
    (
        _kind(ssl.SSLError, "alert (certificate required|handshake failure|unknown ca|bad certificate)"),
        "{where} wants another TLS certificate of ours: ?ssl_certfile=FILE&ssl_keyfile=FILE.",
    ),
    (
        _kind(ssl.SSLEOFError),
        "{where} ended the connection while TLS began. It may want a TLS certificate of ours "
        "(?ssl_certfile=FILE&ssl_keyfile=FILE), or speak no TLS (redis://).",
    ),
    (_kind(ssl.SSLError), "{where} does not speak TLS as expected. Without TLS the URL starts with redis://."),
    (_kind(socket.gaierror), "The host name of {where} is not known. Check its spelling, and the network."),
    (_errno(errno.ECONNREFUSED), "Nothing listens at {where}: connection refused. Start Redis, or give another URL."),
    (_errno(errno.ENOENT), "Nothing stands at {where}. Start Redis with that unixsocket, or give another URL."),
    (_errno(errno.EACCES, errno.EPERM), "This user may not open {where}. Check its permissions."),
    (_errno(errno.EHOSTUNREACH, errno.ENETUNREACH), "There is no route to {where}. Check the network."),
    (
        _says("handshake operation timed out"),
        "{where} did not answer in TLS. If it does not use TLS, the URL starts with redis://.",
    ),
    (_says("timeout connecting"), "{where} did not take the connection in time. Check host, port and firewall."),
    (_says("max number of clients"), "{where} has as many clients as it allows (maxclients). Close some, or raise it."),
    (_says("running in protected mode"), "{where} is in protected mode: set a password there to let other hosts in."),
    (
        _says("without any password configured|no password is set"),
        "{where} has no password, but the URL gives one. Leave it out.",
    ),
    (
        _says("WRONGPASS|invalid (?:username|password)"),
        "{where} refused the password. Check user and password in the URL.",
    ),
    (
        _says("NOAUTH|authentication required"),
        "{where} wants a password: redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST.",
    ),
    (
        _says(r"cluster\|slots"),
        "{where} denies this: {said}. Its ACL has to allow +cluster|slots on every node; "
        "`rqtui acl ROLE QUEUE --cluster` prints what a role needs.",
    ),
    (
        _says("no permissions|NOPERM"),
        "{where} denies this: {said}. Its ACL has to allow the command and the keys; "
        "`rqtui acl ROLE QUEUE` prints what a role needs.",
    ),
    (_says("db index|invalid database"), "{where} has no database of that number. Give a lower one after the host."),
    (_says("loading the dataset"), "{where} is still loading its data. It will answer when it is done."),
    (_says("read only replica|READONLY"), "{where} is a read-only replica. Connect to its primary to change anything."),
    (
        _says("MASTERDOWN|link with master is down"),
        "{where} is a replica that has lost its primary, and answers nothing until it is back (MASTERDOWN).",
    ),
    (_says("CLUSTERDOWN|cluster is down|hash slot not served"), "The Cluster at {where} is down: a node is missing."),
    (
        _says("cluster support disabled"),
        "{where} is no node of a Cluster. Without one the URL starts with redis:// or rediss://.",
    ),
    (
        _says(r"^(MOVED |ASK )?\d+ \S+:\d+$"),
        "{where} is one node of a Cluster. Write redis+cluster://HOST:PORT to reach all of it.",
    ),
    (_says("MISCONF"), "{where} refuses writes since it cannot save to its disk (MISCONF). Look at its log."),
    (_says("OOM command not allowed"), "{where} is at its maxmemory: new jobs are refused until some are done."),
    (
        _says("protocol error|invalid response|unknown protocol"),
        "What answers at {where} is not a Redis. Check host and port.",
    ),
    (
        _says("closed by server|reset by peer|broken pipe"),
        "{where} closed the connection. If it expects TLS, the URL starts with rediss://.",
    ),
    (_says("timeout|timed out"), "{where} did not answer in time. It may be busy, or out of reach."),
)
