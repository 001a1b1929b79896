"""Parse `--set field=value` into the arguments of a verb, by the types in the script's header."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rqtui.errors import UsageError
from rqtui.verbs import VERBS, find_verb

if TYPE_CHECKING:
    from rqtui.scripts.script import Arg, Script

# Arguments that `--set` must not fill: they have their own options or come from the job or the queue; now_ms is for
# tests, and `p` is the key prefix of a BullMQ queue.
RESERVED_FIELDS = frozenset({"now_ms", "id", "token", "member", "new", "line", "place", "limit", "force", "p", "reply"})
INSTANT_FIELDS = frozenset({"due_ms"})
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def parse_set_options(script: Script, assignments: Sequence[str], options: Collection[str] = ()) -> dict[str, object]:
    """Parse the `--set field=value` options into arguments of a script. Raises UsageError.

    A field `…_ms` takes a duration and may be named without `_ms`. A plain number is milliseconds in `delay_ms=` and
    seconds in `delay=`. A point in time (`due`) is ISO 8601, or milliseconds since 1970. The system's `options` are not
    accepted as fields unless a verb asks for them: one call under another prefix would lock other names than the
    workers use.
    """
    verb_fields = {field.name for row in VERBS for field in row.form}
    hidden = RESERVED_FIELDS | (set(options) - verb_fields)
    args = {arg.name: arg for arg in (*script.args, *script.each) if arg.name not in hidden}
    if {"name", "value"} <= set(args):
        return dict(_parse_queue_setting(assignment) for assignment in assignments)
    form: dict[str, object] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        name = name.strip().replace("-", "_")
        in_seconds = name not in args
        arg = args.get(f"{name}_ms" if in_seconds else name)
        if not equals or arg is None:
            known = f"its fields: {', '.join(args)}" if args else "it takes none"
            raise UsageError(f'--set {assignment}: {script.name} has no field "{name}"; {known}.')
        form[arg.name] = _convert_field_value(arg, value, in_seconds)
    form_fields = {field.name for field in find_verb(script.name).form}
    if missing := [arg.name for arg in script.args if arg.name in form_fields - form.keys() and not arg.optional]:
        raise UsageError(f"{script.name} needs --set {missing[0]}=VALUE.")
    return form


def _parse_queue_setting(assignment: str) -> tuple[str, object]:
    """Parse one `name=value` of a queue setting. The duration of a `…_ms` setting becomes milliseconds."""
    name, equals, value = assignment.partition("=")
    if not equals:
        raise UsageError(f"--set {assignment}: write SETTING=VALUE; an empty value brings the default back.")
    if name.endswith("_ms") and value.strip() and not value.strip().isdigit():
        from rqtui import durations

        return name, str(durations.parse_duration(value, name))
    return name, value


def _convert_field_value(arg: Arg, value: str, in_seconds: bool) -> object:
    """Convert a field's value to the type in the script's header. Raises UsageError."""
    if arg.type in ("str", "bytes"):
        return value
    if arg.type == "bool":
        if value.lower() not in YES + NO:
            raise UsageError(f"--set {arg.name}: it is yes or no, not {value!r:.40}.")
        return value.lower() in YES
    if arg.name in INSTANT_FIELDS:
        return _parse_instant(arg, value)
    if in_seconds or (arg.name.endswith("_ms") and value.strip()[-1:].isalpha() and value.strip()[:1] in "0123456789."):
        from rqtui import durations

        return durations.parse_duration(value, arg.name)
    try:
        return int(value) if arg.type == "int" else float(value)
    except ValueError:
        if arg.name.endswith("_ms"):
            allowed_forms = (
                f"milliseconds, or 500ms, 30s, 5m, 2h or 3d; in {arg.name.removesuffix('_ms')}= a number is seconds"
            )
            raise UsageError(f"--set {arg.name}: it is {allowed_forms}; not {value!r:.40}.") from None
        raise UsageError(f"--set {arg.name}: it is a number, not {value!r:.40}.") from None


def _parse_instant(arg: Arg, value: str) -> object:
    """Parse a point in time into milliseconds; empty is allowed for an optional field. Raises UsageError."""
    from datetime import datetime

    from rqtui import durations

    name = arg.name.removesuffix("_ms")
    if arg.optional and not value:
        return ""
    try:
        moment = int(value) if value.isascii() and value.isdigit() else datetime.fromisoformat(value)
    except ValueError:
        allowed_forms = "2026-12-01T08:00Z, or milliseconds since 1970; for a time from now there is delay="
        raise UsageError(f"--set {name}: it is an instant, {allowed_forms}; not {value!r:.40}.") from None
    return durations.parse_instant(moment, f"--set {name}")
