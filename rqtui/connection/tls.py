"""TLS: which options of a `rediss://` URL there are, and what is wrong with the files that they name.

Looked at before anything connects: later OpenSSL would blame the server for a file that is missing here, or ask for a
key's password on the terminal. `connection/connect.py` connects; it calls `check` for each URL.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rqtui.errors import UsageError

# Those that can be said as text; redis-py takes more, as objects of Python.
OPTIONS = (
    "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_cert_reqs", "ssl_check_hostname",
    "ssl_ciphers",
)  # fmt: skip
_DEMANDS = ("required", "none")  # "optional" means "required" to a client


def check(shown: str, options: Mapping[str, Any]) -> None:
    """Raises UsageError where these options of the URL `shown` cannot be used; its password is masked there."""
    demand = options.get("ssl_cert_reqs", _DEMANDS[0])
    if demand not in _DEMANDS:
        raise UsageError(f'The URL "{shown}" says ssl_cert_reqs={demand}; it is required, as it is by itself, or none.')
    authority, ours, key = (options.get(name) for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"))
    if key and not ours:
        raise UsageError(f'The URL "{shown}" names ssl_keyfile, but no ssl_certfile to go with it.')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        no_authority = f"ssl_ca_certs={authority} holds no certificate in PEM"
        _load(shown, f"ssl_ca_certs={authority}", no_authority, lambda: context.load_verify_locations(authority))
    if ours:
        password = options.get("ssl_password", "")
        no_pair = "ssl_certfile and ssl_keyfile are no pair in PEM, or ssl_password is wrong"
        for name, path in (("ssl_certfile", ours), ("ssl_keyfile", key or ours)):
            _load(shown, f"{name}={path}", "", Path(path).read_bytes)
        _load(shown, "ssl_certfile", no_pair, lambda: context.load_cert_chain(ours, key, password))


def _load(shown: str, what: str, wrong: str, load: Callable[[], object]) -> None:
    try:
        load()
    except ssl.SSLError:
        raise UsageError(f'The URL "{shown}" cannot be used: {wrong}.') from None
    except OSError as error:
        raise UsageError(f'The URL "{shown}": {what} cannot be read: {error.strerror or error}.') from None
