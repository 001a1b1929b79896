"""Values of a layout's options: what fits is declared, and anything else is refused before a layout is made."""

from __future__ import annotations

import pytest

from rqtui.errors import UsageError
from rqtui.layout.option_values import NAME, NAME_OR_NOTHING, one_of, whole
from rqtui.systems import registry


def test_the_defaults_of_each_system_fit() -> None:
    declared = [(name, registry.make(name)) for name in registry.names()]
    assert not [(name, option) for name, made in declared for option in made.option_values.keys() - made.defaults]
    assert not [
        (name, option)
        for name, made in declared
        for option, value in made.option_values.items()
        if not value.fits(made.defaults[option])
    ]


@pytest.mark.parametrize("value", ["", "0", "61", "1.5", "-3", "1s", " 7", "٧", "9" * 5000])
def test_a_number_out_of_its_range_or_of_another_spelling_does_not_fit(value: str) -> None:
    assert not whole(1, 60, "seconds").fits(value)


def test_what_fits_is_told_in_words() -> None:
    assert (
        whole(1, 60, "seconds").fits("60") and whole(1, 60, "seconds").words == "a whole number of seconds from 1 to 60"
    )
    assert one_of("auto", "ms", "s").fits("s") and one_of("auto", "ms", "s").words == "auto, ms or s"
    assert not one_of("auto", "ms").fits("aut")


@pytest.mark.parametrize("value", ["a b", "a*", "a?", "a[", "a]", "a\\", "a,b", "a=b", "a\n"])
def test_a_name_has_no_letter_of_a_pattern_or_of_an_option(value: str) -> None:
    assert not NAME.fits(value) and not NAME_OR_NOTHING.fits(value)
    assert NAME_OR_NOTHING.fits("") and not NAME.fits("") and NAME.fits("{app}:")


@pytest.mark.parametrize(
    ("system", "option"), [("rq", "prefix"), ("bullmq", "prefix"), ("celery", "prefix"), ("sidekiq", "namespace")]
)
def test_an_option_of_all_queues_has_one_value_at_a_time(system: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"^layout {system}: one {option} at a time; run rqtui once for each.$"):
        registry.make(f"{system}:{option}=a", f"{system}:{option}=b")
    with pytest.raises(UsageError, match=f'^layout {system}: {option} is .*, not "a b".$'):
        registry.make(f"{system}:{option}=a b")
