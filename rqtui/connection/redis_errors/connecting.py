"""Convert an error of redis-py or of the network to a sentence for a person: what failed, where, and what to do.

The table matches texts of Redis 6.2, 7 and Valkey 9 and of OpenSSL. Error replies to scripts are converted in
`error_replies`. Called by `connection/connect.py` for errors of connecting and of plain commands.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from urllib.parse import unquote, urlsplit

from rqtui.connection.urls import Address, format_address, parse_multi_host_url
from rqtui.errors import RqtuiError
from rqtui.text.masking import mask_url as mask


def describe_connection_error(error: BaseException, url: str = "") -> str:
    """Return a sentence for an error of connecting or of a plain command: what failed, where, and what to do.

    `url` is the address if the error has none.
    """
    if isinstance(error, RqtuiError):
        return str(error)
    where = _describe_url_address(url)
    for cause in _yield_error_causes(error):
        if type(cause).__name__ == "NotFound":  # Its text already names the addresses that were tried.
            return str(cause)
        for matches, sentence in _SENTENCES:
            if matches(cause):
                return _capitalise_article(sentence.format(where=where, said=str(cause).rstrip(".")))
    return _capitalise_article(f"{where} answered with an error: {error}")


def add_server_address(sentence: str, url: str) -> str:
    """Add the address in `url` to a sentence about a Redis server, unless the sentence contains it."""
    where = _describe_url_address(url)
    return sentence if where in sentence else f"{_capitalise_article(where)}: {sentence}"


def describe_sentinel_error(error: BaseException, address: Address) -> str:
    """Return a sentence for an error of a Redis sentinel, which has its own password and its own rights."""
    where = format_address(address)
    for matches, sentence in _SENTINEL_SENTENCES:
        if matches(error):
            return sentence.format(where=where, said=str(error).rstrip("."))
    return describe_connection_error(error, f"redis://{where}")


def _capitalise_article(sentence: str) -> str:
    return f"T{sentence[1:]}" if sentence.startswith("the ") else sentence


def _describe_url_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.scheme == "unix":
            return f"the socket {unquote(parts.path)}"
        if hosts := parse_multi_host_url(url, mask(url)):
            return f"the server behind {hosts}"
        return f"{parts.hostname or 'localhost'}:{parts.port or 6379}" if url else "the server"
    except ValueError:
        return mask(url)


def _yield_error_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, the original cause first, because only that one has the errno.

    The context of an OSError is skipped: it is an unrelated error that was being handled when the OSError was raised.
    """
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if isinstance(link, OSError) else link.__context__)
    yield from reversed(chain)


def _match_errno(*codes: int) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, OSError) and error.errno in codes


def _match_error_class(kind: type[BaseException], text: str = "") -> Callable[[BaseException], bool]:
    # The pattern is compiled when an error occurs: compiling thirty at import delayed the first screen by 2 ms.
    return lambda error: isinstance(error, kind) and re.search(text, str(error), re.IGNORECASE) is not None


def _match_error_text(text: str) -> Callable[[BaseException], bool]:
    return _match_error_class(Exception, text)


_SENTINEL_SENTENCES: tuple[tuple[Callable[[BaseException], bool], str], ...] = (
    (
        _match_error_text(
            "WRONGPASS|invalid (?:username|password)|NOAUTH|authentication required|without any password configured"
        ),
        "{where} wants another password: ?sentinel_password=PASSWORD, and ?sentinel_username=USER where it has users.",
    ),
    (
        _match_error_text("no permissions|NOPERM"),
        "{where} denies this: {said}. The ACL of a sentinel has to allow +sentinel|masters.",
    ),
    (_match_error_text("unknown command"), "{where} is a Redis, but no sentinel."),
)
_SENTENCES: tuple[tuple[Callable[[BaseException], bool], str], ...] = (
    (
        _match_error_class(ssl.SSLCertVerificationError, "hostname mismatch|IP address mismatch"),
        "{where} showed a TLS certificate for another host name. Connect by a name that the certificate contains.",
    ),
    (
        _match_error_class(ssl.SSLCertVerificationError, "expired|not yet valid"),
        "{where} showed a TLS certificate that is not valid today. Renew it; check the clocks.",
    ),
    (
        _match_error_class(ssl.SSLCertVerificationError),
        "{where} showed a TLS certificate that is not trusted. Name its authority with ?ssl_ca_certs=FILE.",
    ),
    (
        _match_error_class(ssl.SSLError, "alert (certificate required|handshake failure|unknown ca|bad certificate)"),
        "{where} wants another TLS certificate of ours: ?ssl_certfile=FILE&ssl_keyfile=FILE.",
    ),
    (
        _match_error_class(ssl.SSLEOFError),
        "{where} ended the connection while TLS began. It may want a TLS certificate of ours "
        "(?ssl_certfile=FILE&ssl_keyfile=FILE), or speak no TLS (redis://).",
    ),
    (
        _match_error_class(ssl.SSLError),
        "{where} does not speak TLS as expected. Without TLS the URL starts with redis://.",
    ),
    (
        _match_error_class(socket.gaierror),
        "The host name of {where} is not known. Check its spelling, and the network.",
    ),
    (
        _match_errno(errno.ECONNREFUSED),
        "Nothing listens at {where}: connection refused. Start Redis, or give another URL.",
    ),
    (_match_errno(errno.ENOENT), "{where} does not exist. Start Redis with that unixsocket, or give another URL."),
    (_match_errno(errno.EACCES, errno.EPERM), "This user may not open {where}. Check its permissions."),
    (_match_errno(errno.EHOSTUNREACH, errno.ENETUNREACH), "There is no route to {where}. Check the network."),
    (
        _match_error_text("handshake operation timed out"),
        "{where} did not answer in TLS. If it does not use TLS, the URL starts with redis://.",
    ),
    (
        _match_error_text("timeout connecting"),
        "{where} did not take the connection in time. Check host, port and firewall.",
    ),
    (
        _match_error_text("max number of clients"),
        "{where} has as many clients as it allows (maxclients). Close some, or raise it.",
    ),
    (
        _match_error_text("running in protected mode"),
        "{where} is in protected mode: set a password there to let other hosts in.",
    ),
    (
        _match_error_text("without any password configured|no password is set"),
        "{where} has no password, but the URL gives one. Leave it out.",
    ),
    (
        _match_error_text("WRONGPASS|invalid (?:username|password)"),
        "{where} refused the password. Check user and password in the URL.",
    ),
    (
        _match_error_text("NOAUTH|authentication required"),
        "{where} wants a password: redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST.",
    ),
    (
        _match_error_text(r"cluster\|slots"),
        "{where} denies this: {said}. Its ACL has to allow +cluster|slots on every node; "
        "`rqtui acl ROLE QUEUE --cluster` prints what a role needs.",
    ),
    (
        _match_error_text("no permissions|NOPERM"),
        "{where} denies this: {said}. Its ACL has to allow the command and the keys; "
        "`rqtui acl ROLE QUEUE` prints what a role needs.",
    ),
    (
        _match_error_text("db index|invalid database"),
        "{where} has no database of that number. Give a lower one after the host.",
    ),
    (_match_error_text("loading the dataset"), "{where} is still loading its data. It will answer when it is done."),
    (
        _match_error_text("read only replica|READONLY"),
        "{where} is a read-only replica. Connect to its primary to change anything.",
    ),
    (
        _match_error_text("MASTERDOWN|link with master is down"),
        "{where} is a replica that has lost its primary, and answers nothing until it is back (MASTERDOWN).",
    ),
    (
        _match_error_text("CLUSTERDOWN|cluster is down|hash slot not served"),
        "The Cluster at {where} is down: a node is missing.",
    ),
    (
        _match_error_text("cluster support disabled"),
        "{where} is no node of a Cluster. Without one the URL starts with redis:// or rediss://.",
    ),
    (
        _match_error_text(r"^(MOVED |ASK )?\d+ \S+:\d+$"),
        "{where} is one node of a Cluster. Write redis+cluster://HOST:PORT to reach all of it.",
    ),
    (
        _match_error_text("MISCONF"),
        "{where} refuses writes since it cannot save to its disk (MISCONF). Read its log.",
    ),
    (
        _match_error_text("OOM command not allowed"),
        "{where} is at its maxmemory: new jobs are refused until some are done.",
    ),
    (
        _match_error_text("^its reply "),
        "{where} does not answer as a Redis does: {said}. Check host and port.",
    ),
    (
        _match_error_text("protocol error|invalid response|unknown protocol"),
        "What answers at {where} is not a Redis. Check host and port.",
    ),
    (
        _match_error_text("closed by server|reset by peer|broken pipe"),
        "{where} closed the connection. If it expects TLS, the URL starts with rediss://.",
    ),
    (_match_error_text("timeout|timed out"), "{where} did not answer in time. It may be busy, or out of reach."),
)
