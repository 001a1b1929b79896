"""Passwords: how one gets into a URL without standing on a command line, and how none gets out of it again.

A command line is read by every user of a machine (`ps`). So the password of a URL that names none may stand in the
environment (RQTUI_PASSWORD), in a file that the environment names (RQTUI_PASSWORD_FILE), or in one that a profile
names. `masked` is for everything that a person or a log reads; `connect.mask` is what the other modules call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from rqtui.errors import UsageError

VARIABLE, FILE_VARIABLE = "RQTUI_PASSWORD", "RQTUI_PASSWORD_FILE"
_HARMLESS = re.compile(
    r"db|(?:sentinel_)?username|client_name|socket_(?:connect_)?timeout|ssl_(?:ca_certs|ca_path|certfile|keyfile"
    r"|cert_reqs|check_hostname|ciphers)"
)
_OPTION = re.compile(r"([?&])([^=&]*)=([^&]*)")
_LOGIN = re.compile(r"(://[^:@/?#]*):.+@", re.DOTALL)  # to the *last* @: an unquoted @ or / must not show the rest
_OPEN_END = re.compile(r"(://[^:@/?#]*):.*", re.DOTALL)
_NO_SCHEME = re.compile(r"^((?:[\w+.-]+:/+|/+)?+[^:@?#]*):.+@", re.DOTALL)  # `redis:/:secret@host`, `user:secret@host`
_NO_HOST = re.compile(r"(://[\w.-]*):(?!\d*(?:[/?#,]|$))[^/?#,]*")  # `redis://:secret`: it would be the port


def masked(url: str) -> str:
    """A URL without its passwords, also where it is no valid one."""
    shown = _OPTION.sub(_option, url)
    if shown.count("@") < url.count("@") and _LOGIN.search(url):
        return _OPEN_END.sub(r"\1:***", url)  # the @ was in an option, or in the password: nothing behind it is shown
    if "@" not in shown:
        return _NO_HOST.sub(r"\1:***", shown)
    once = _LOGIN.sub(r"\1:***@", shown)
    return once if once != shown else _NO_SCHEME.sub(r"\1:***@", shown)


def _option(found: re.Match[str]) -> str:
    """An option with its value, if that cannot be a secret: by the name as the URL's reader will understand it."""
    sign, name, value = found.groups()
    return f"{sign}{name}={value if _HARMLESS.fullmatch(unquote(name)) else '***'}"


def is_named(url: str) -> bool:
    """Whether a URL names a password itself."""
    authority, tail = _parts(url)[1:]
    return ":" in authority.rpartition("@")[0] or re.search(r"[?&]password=", tail) is not None


def filled(url: str, password: str) -> str:
    """`url` with this password, where it names none itself."""
    scheme, authority, tail = _parts(url)
    if not password or is_named(url):
        return url
    login, _, hosts = authority.rpartition("@")
    return f"{scheme}{login}:{quote(password, safe='')}@{hosts}{tail}"


def _parts(url: str) -> tuple[str, str, str]:
    """`redis://`, what stands before the first / ? or #, and the rest."""
    scheme, separator, rest = url.partition("://")
    found = re.search(r"[/?#]", rest)
    end = found.start() if found else len(rest)
    return scheme + separator, rest[:end], rest[end:]


def of_environment(environ: Mapping[str, str]) -> str:
    """The password that the environment holds, or the file that it names; empty where there is none."""
    if environ.get(FILE_VARIABLE):
        return of_file(environ[FILE_VARIABLE], FILE_VARIABLE)
    return environ.get(VARIABLE, "")


def of_file(path: str, who: str) -> str:
    """The first line of a file. Raises UsageError in the name of `who` where it cannot be read, or is empty."""
    try:
        lines = Path(path).expanduser().read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"{who}: the file {path} is no text in UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{who}: the file {path} cannot be read: {error.strerror or error}.") from None
    if not lines or not lines[0]:
        raise UsageError(f"{who}: the first line of {path} is empty; the password stands there.")
    return lines[0]
