"""Check the TLS options of a `rediss://` URL and the certificate files that they name, before anything connects.

Without this check, OpenSSL would blame the server for a file that is missing here, or ask for the password of a key on
the terminal. `connection/connect.py` calls `check_tls_options` for each URL.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rqtui import files
from rqtui.errors import UsageError

# The options that can be written as text. redis-py has more, whose values are Python objects.
OPTIONS = (
    "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_cert_reqs", "ssl_check_hostname",
    "ssl_ciphers",
)  # fmt: skip
_DEMANDS = ("required", "none")  # For a client, "optional" means the same as "required".


def check_tls_options(shown: str, options: Mapping[str, Any]) -> None:
    """Raise UsageError if the TLS options of a `rediss://` URL cannot be used, such as a missing certificate file.

    `shown` is the URL with its password masked.
    """
    demand = options.get("ssl_cert_reqs", _DEMANDS[0])
    if demand not in _DEMANDS:
        raise UsageError(f'The URL "{shown}" says ssl_cert_reqs={demand}; it is required, as it is by itself, or none.')
    authority, certificate, key = (options.get(name) for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"))
    if key and not certificate:
        raise UsageError(f'The URL "{shown}" names ssl_keyfile, but no ssl_certfile to go with it.')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        _check_file_loads(shown, f"ssl_ca_certs={authority}", "", partial(files.require_regular_file, authority))
        no_authority = f"ssl_ca_certs={authority} holds no certificate in PEM"
        _check_file_loads(
            shown, f"ssl_ca_certs={authority}", no_authority, lambda: context.load_verify_locations(authority)
        )
    if certificate:
        password = options.get("ssl_password", "")
        no_pair = "ssl_certfile and ssl_keyfile are no pair in PEM, or ssl_password is wrong"
        for name, path in (("ssl_certfile", certificate), ("ssl_keyfile", key or certificate)):
            _check_file_loads(shown, f"{name}={path}", "", partial(files.require_regular_file, path))
        _check_file_loads(shown, "ssl_certfile", no_pair, lambda: context.load_cert_chain(certificate, key, password))


def _check_file_loads(shown: str, option_text: str, explanation: str, load_file: Callable[[], object]) -> None:
    try:
        load_file()
    except ssl.SSLError:
        raise UsageError(f'The URL "{shown}" cannot be used: {explanation}.') from None
    except OSError as error:
        raise UsageError(f'The URL "{shown}": {option_text} cannot be read: {error.strerror or error}.') from None
