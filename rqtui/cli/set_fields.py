"""`--set field=value`, read by the types of a script's header: the arguments that a verb gets from a person."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rqtui.errors import UsageError
from rqtui.verbs import VERBS

if TYPE_CHECKING:
    from rqtui.scripts.script import Arg, Script

# Filled by options of their own, or by what is found; now_ms is for tests.
OURS = frozenset({"now_ms", "id", "token", "member", "place", "limit", "force"})
INSTANTS = frozenset({"due_ms"})
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def form_of(script: Script, given: Sequence[str], options: Collection[str] = ()) -> dict[str, object]:
    """`--set field=value` by the header's types; a field `…_ms` takes a duration, and may be named without `_ms`.

    A plain number is milliseconds in `delay_ms=`, seconds in `delay=`. An instant (`due`) is one of ISO 8601, or
    milliseconds since 1970.

    `options` of the layout are no fields, unless a verb asks for them: one call under another prefix would lock other
    names than the workers look at.
    """
    asked = {field.name for row in VERBS for field in row.form}
    hidden = OURS | (set(options) - asked)
    args = {arg.name: arg for arg in (*script.args, *script.each) if arg.name not in hidden}
    if {"name", "value"} <= set(args):
        return dict(_setting(each) for each in given)
    form: dict[str, object] = {}
    for each in given:
        name, equals, value = each.partition("=")
        name = name.strip().replace("-", "_")
        in_seconds = name not in args and f"{name}_ms" in args
        arg = args.get(f"{name}_ms" if in_seconds else name)
        if not equals or arg is None:
            known = ", ".join(args) or "it has none"
            raise UsageError(f'--set {each}: {script.name} has no field "{name}"; its fields: {known}.')
        form[arg.name] = _value(arg, value, in_seconds)
    return form


def _setting(given: str) -> tuple[str, object]:
    name, equals, value = given.partition("=")
    if not equals:
        raise UsageError(f"--set {given}: write SETTING=VALUE; an empty value brings the default back.")
    if name.endswith("_ms") and value.strip() and not value.strip().isdigit():
        from rqtui import durations

        return name, str(durations.parse(value, name))
    return name, value


def _value(arg: Arg, value: str, in_seconds: bool) -> object:
    if arg.type in ("str", "bytes"):
        return value
    if arg.type == "bool":
        if value.lower() not in YES + NO:
            raise UsageError(f"--set {arg.name}: it is yes or no, not {value!r:.40}.")
        return value.lower() in YES
    if arg.name in INSTANTS:
        return _instant(arg, value)
    if in_seconds or (arg.name.endswith("_ms") and value.strip()[-1:].isalpha() and value.strip()[:1] in "0123456789."):
        from rqtui import durations

        return durations.parse(value, arg.name)
    try:
        return int(value) if arg.type == "int" else float(value)
    except ValueError:
        if arg.name.endswith("_ms"):
            how = f"milliseconds, or 500ms, 30s, 5m, 2h or 3d; in {arg.name.removesuffix('_ms')}= a number is seconds"
            raise UsageError(f"--set {arg.name}: it is {how}; not {value!r:.40}.") from None
        raise UsageError(f"--set {arg.name}: it is a number, not {value!r:.40}.") from None


def _instant(arg: Arg, value: str) -> object:
    from datetime import datetime

    from rqtui import durations

    name = arg.name.removesuffix("_ms")
    if arg.optional and not value:
        return ""
    try:
        given = int(value) if value.isascii() and value.isdigit() else datetime.fromisoformat(value)
    except ValueError:
        how = "2026-12-01T08:00Z, or milliseconds since 1970; for a time from now there is delay="
        raise UsageError(f"--set {name}: it is an instant, {how}; not {value!r:.40}.") from None
    return durations.instant(given, f"--set {name}")
