"""Test that the app is a shell without mixins, and that every command of the tables is an existing action."""

from __future__ import annotations

import inspect

import pytest
from textual.app import App

from rqtui.tui import keys
from rqtui.tui.app import Cockpit
from rqtui.tui.host import Host
from rqtui.tui.session import MESSAGES, SessionMessage


def test_the_app_is_one_class_on_textuals() -> None:
    assert Cockpit.__bases__ == (App,)


@pytest.mark.parametrize("look", keys.COMMANDS, ids=lambda look: look.id)
def test_a_command_without_a_key_is_an_action_of_the_app(look: keys.GeneralKey) -> None:
    assert not look.keys and callable(getattr(Cockpit, f"action_{look.action.partition('(')[0]}"))


def test_no_two_rows_of_the_tables_have_one_name() -> None:
    ids = [look.id for look in (*keys.GENERAL_KEYS, *keys.COMMANDS)]
    assert len(set(ids)) == len(ids)


def test_each_event_of_the_thread_has_a_message_class_and_a_handler() -> None:
    assert len(set(MESSAGES.values())) == len(MESSAGES)
    for sentence in MESSAGES.values():
        assert issubclass(sentence, SessionMessage) and callable(getattr(Cockpit, sentence.handler_name)), sentence


def test_a_host_has_some_fifteen_names() -> None:
    names = [name for name, _each in inspect.getmembers(Host) if not name.startswith("_")] + list(Host.__annotations__)
    assert 10 <= len(names) <= 18, names
