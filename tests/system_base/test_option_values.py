"""Values of a system's options: what fits is declared, and anything else is refused before a system is made."""

from __future__ import annotations

import pytest

from rqtui.errors import UsageError
from rqtui.system_base.option_values import NAME, NAME_OR_NOTHING, accept_whole_number, accept_words
from rqtui.systems import registry


def test_the_defaults_of_each_system_fit() -> None:
    declared = [(name, registry.create_system(name)) for name in registry.list_names()]
    assert not [(name, option) for name, made in declared for option in made.option_values.keys() - made.defaults]
    assert not [
        (name, option)
        for name, made in declared
        for option, value in made.option_values.items()
        if not value.accepts(made.defaults[option])
    ]


@pytest.mark.parametrize("value", ["", "0", "61", "1.5", "-3", "1s", " 7", "٧", "9" * 5000])
def test_a_number_out_of_its_range_or_of_another_spelling_does_not_fit(value: str) -> None:
    assert not accept_whole_number(1, 60, "seconds").accepts(value)


def test_what_fits_is_told_in_words() -> None:
    assert (
        accept_whole_number(1, 60, "seconds").accepts("60")
        and accept_whole_number(1, 60, "seconds").description == "a whole number of seconds from 1 to 60"
    )
    assert (
        accept_words("auto", "ms", "s").accepts("s") and accept_words("auto", "ms", "s").description == "auto, ms or s"
    )
    assert not accept_words("auto", "ms").accepts("aut")


@pytest.mark.parametrize("value", ["a b", "a*", "a?", "a[", "a]", "a\\", "a,b", "a=b", "a\n"])
def test_a_name_has_no_letter_of_a_pattern_or_of_an_option(value: str) -> None:
    assert not NAME.accepts(value) and not NAME_OR_NOTHING.accepts(value)
    assert NAME_OR_NOTHING.accepts("") and not NAME.accepts("") and NAME.accepts("{app}:")


@pytest.mark.parametrize(
    ("system", "option"), [("rq", "prefix"), ("bullmq", "prefix"), ("celery", "prefix"), ("sidekiq", "namespace")]
)
def test_an_option_of_all_queues_has_one_value_at_a_time(system: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"^system {system}: one {option} at a time; run rqtui once for each.$"):
        registry.create_system(f"{system}:{option}=a", f"{system}:{option}=b")
    with pytest.raises(UsageError, match=f'^system {system}: {option} is .*, not "a b".$'):
        registry.create_system(f"{system}:{option}=a b")
