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
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def form_of(script: Script, given: Sequence[str], options: Collection[str] = ()) -> dict[str, object]:
    """`--set field=value` by the header's types; a field `…_ms` takes a duration, and may be named without `_ms`.

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
    if in_seconds or (arg.name.endswith("_ms") and value.strip()[-1:].isalpha()):
        from rqtui import durations

        return durations.parse(value, arg.name)
    try:
        return int(value) if arg.type == "int" else float(value)
    except ValueError:
        raise UsageError(f"--set {arg.name}: it is a number, not {value!r:.40}.") from None
