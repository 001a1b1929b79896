"""A private authority for the tests of TLS, and a real server that speaks nothing else.

The certificates are made anew in a folder of the test; nothing of the machine's own trust is asked or changed.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis, RedisError

from rqtui.connection.embedded import installed

trustme = pytest.importorskip("trustme", reason="needs trustme (pip install -e '.[test]')")

READY_S = 20.0


@dataclass(frozen=True)
class Files:
    """The files of one authority: itself, the server's certificate and key, a client's."""

    authority: Path
    certificate: Path
    key: Path
    client_certificate: Path
    client_key: Path

    @property
    def options(self) -> str:
        """Those of a URL: the authority, and the client's certificate."""
        ours = f"ssl_certfile={self.client_certificate}&ssl_keyfile={self.client_key}"
        return f"?ssl_ca_certs={self.authority}&{ours}"


def made(folder: Path, *names: str) -> Files:
    """An authority, a certificate that it gave to these host names, and one to a client."""
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(*(folder / name for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(files.authority)
    for issued, certificate, key in (
        (authority.issue_cert(*names), files.certificate, files.key),
        (authority.issue_cert("worker@example.org"), files.client_certificate, files.client_key),
    ):
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        key.chmod(0o600)
    return files


@contextmanager
def tls_server(files: Files, folder: Path, *, wants_certificate: bool = False) -> Iterator[int]:
    """A redis-server with TLS and without any other port; its port."""
    program = installed("redis-server")
    if program is None:
        pytest.skip("needs redis-server (apt-get install redis-server)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    folder.mkdir(parents=True, exist_ok=True)
    words = {
        "port": "0", "tls-port": str(port), "bind": "127.0.0.1", "dir": str(folder), "save": "",
        "tls-cert-file": str(files.certificate), "tls-key-file": str(files.key),
        "tls-ca-cert-file": str(files.authority), "tls-auth-clients": "yes" if wants_certificate else "no",
        "logfile": str(folder / "log"),
    }  # fmt: skip
    command = [program, *(word for name, value in words.items() for word in (f"--{name}", value))]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        _wait(process, port, files, folder)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(READY_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, files: Files, folder: Path) -> None:
    """Until it answers; one that was built without TLS makes the test skip."""
    options = {
        "ssl_certfile": str(files.client_certificate),
        "ssl_keyfile": str(files.client_key),
        "ssl_cert_reqs": "none",
    }
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.skip(f"this redis-server has no TLS: {(folder / 'log').read_text()[-200:]}")
        try:
            with Redis("127.0.0.1", port, ssl=True, ssl_check_hostname=False, **options) as client:
                client.ping()
                return
        except (RedisError, OSError):
            time.sleep(0.02)
    raise TimeoutError("the server with TLS did not come up")
