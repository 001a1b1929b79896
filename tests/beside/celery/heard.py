"""Record Pub/Sub messages in a test, to compare with the events that rqtui caches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from redis import Redis


@dataclass(slots=True)
class MessageLog:
    """Messages in order, as (channel, text), up to the last call of `drain`."""

    pubsub: object
    messages: list[tuple[str, str]] = field(default_factory=list)

    def drain(self) -> list[tuple[str, str]]:
        """Read the messages that arrived, and return all messages so far."""
        while (message := self.pubsub.get_message(ignore_subscribe_messages=True)) is not None:  # type: ignore[attr-defined]
            self.messages.append((message["channel"].decode(), message["data"].decode("utf-8", "replace")))
        return self.messages

    def channels(self) -> set[str]:
        """Return the channels of all messages so far."""
        return {channel for channel, _text in self.drain()}


@contextmanager
def record_messages(client: Redis, *patterns: str) -> Iterator[MessageLog]:
    """Subscribe to these patterns for the block."""
    with client.pubsub() as pubsub:
        pubsub.psubscribe(*patterns)
        for _pattern in patterns:
            pubsub.get_message(timeout=10)
        yield MessageLog(pubsub)
