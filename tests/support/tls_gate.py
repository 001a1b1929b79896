"""Accept TLS in front of a plain TCP server that was built without TLS, as the wheel's Valkey is.

    with tls_gate(files, server_port, wants_certificate=False) as port: …

The Redis protocol is passed unchanged. The handshake is OpenSSL's, as in a redis-server that was built with TLS.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from authority import Files

CHUNK = 1 << 16  # bytes


@contextlib.contextmanager
def open_tls_gate(files: Files, target: int, *, wants_certificate: bool = False) -> Iterator[int]:
    """Accept TLS on a free port of 127.0.0.1, pass the bytes on to the port `target`, and yield the free port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.authority)
    context.verify_mode = ssl.CERT_REQUIRED if wants_certificate else ssl.CERT_NONE
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accept = threading.Thread(
            target=_accept_connections, args=(listener, context, target), name="tls gate", daemon=True
        )
        accept.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accept.join()


def _accept_connections(listener: socket.socket, context: ssl.SSLContext, target: int) -> None:
    """Forward each connection on its own thread, until the listening socket is closed."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            client = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            threading.Thread(target=_forward_connection, args=(client, target), name="tls gate", daemon=True).start()


def _forward_connection(client: ssl.SSLSocket, target: int) -> None:
    """Pass the bytes of one TLS connection on to the server, in both directions."""
    with contextlib.suppress(OSError), client:
        try:
            client.do_handshake()
        except ssl.SSLError:
            _wait_for_close(client)
            return
        with socket.create_connection(("127.0.0.1", target)) as server:
            other = {client: server, server: client}
            while True:
                # A record that OpenSSL already decrypted does not make the socket readable.
                ready = [client] if client.pending() else select.select([client, server], [], [])[0]
                for source in ready:
                    data = source.recv(CHUNK)
                    if not data:
                        return
                    other[source].sendall(data)


def _wait_for_close(client: ssl.SSLSocket) -> None:
    """Wait until the client closes the connection.

    Closing first, with unread bytes, would discard the alert that OpenSSL sent.
    """
    client.settimeout(1)
    client.shutdown(socket.SHUT_WR)
    while client.recv(CHUNK):
        pass
