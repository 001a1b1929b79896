"""Create a private certificate authority for the tests of TLS, and start a real Redis server that accepts only TLS.

The certificates are created in a folder of the test. The certificates that the machine trusts are not used or changed.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fleet import find_free_port
from redis import Redis, RedisError
from server_programs import find_server_program
from tls_gate import open_tls_gate

trustme = pytest.importorskip("trustme", reason="needs trustme (pip install -e '.[test]')")

READY_S = 20.0


@dataclass(frozen=True)
class Files:
    """The paths of an authority's certificate, and of the certificates and keys of a server and of a client."""

    authority: Path
    certificate: Path
    key: Path
    client_certificate: Path
    client_key: Path

    @property
    def options(self) -> str:
        """The query string of a Redis URL that names the authority and the client's certificate."""
        client_part = f"ssl_certfile={self.client_certificate}&ssl_keyfile={self.client_key}"
        return f"?ssl_ca_certs={self.authority}&{client_part}"


def issue_certificates(folder: Path, *names: str) -> Files:
    """Create an authority, a server certificate for these host names, and a client certificate."""
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
    """Start a real server that accepts only TLS, and yield its port.

    A server that was built without TLS, as the wheel's Valkey is, is reached through `tls_gate`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "tls-cert-file": str(files.certificate), "tls-key-file": str(files.key),
        "tls-ca-cert-file": str(files.authority), "tls-auth-clients": "yes" if wants_certificate else "no",
    }  # fmt: skip
    port = find_free_port()
    with _run_server(folder, {"port": "0", "tls-port": str(port), **settings}) as process:
        if _wait_for_reply(process, port, ssl=True, **_build_client_options(files)):
            yield port
            return
    reason = (folder / "log").read_text() + (folder / "stderr").read_text()
    assert "TLS support" in reason or "Bad directive" in reason, reason
    with _run_server(folder, {"port": str(port)}) as process:
        assert _wait_for_reply(process, port), (folder / "log").read_text()
        with open_tls_gate(files, port, wants_certificate=wants_certificate) as gate:
            yield gate


@contextmanager
def _run_server(folder: Path, settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    all_settings = {"bind": "127.0.0.1", "dir": str(folder), "save": "", "logfile": str(folder / "log"), **settings}
    command = [
        find_server_program(),
        *(option for name, value in all_settings.items() for option in (f"--{name}", value)),
    ]
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(READY_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _build_client_options(files: Files) -> dict[str, Any]:
    return {
        "ssl_certfile": str(files.client_certificate),
        "ssl_keyfile": str(files.client_key),
        "ssl_cert_reqs": "none",
        "ssl_check_hostname": False,
    }


def _wait_for_reply(process: subprocess.Popen[bytes], port: int, **options: Any) -> bool:
    """Wait until the server at `port` replies. Return False if its process ends first."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        try:
            with Redis("127.0.0.1", port, **options) as client:
                client.ping()
                return True
        except (RedisError, OSError):
            time.sleep(0.02)
    raise TimeoutError("the server did not come up")
