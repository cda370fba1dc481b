"""Reactions of a client to events of the websocket, independent of what its user is doing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

import gevent
from load_users.recording import Refused

from .connection import EVENT_NAME_WITHIN
from .memory import Channel, Memory, Post

_CHANNEL = b'"channel_id":"'  # quotation marks within a post are escaped, so this is the event's own field
_ID = 26  # letters


class Session(Protocol):
    """What an event changes of the session that hears it."""

    user: str
    channel: Channel | None
    memory: Memory

    def get(self, part: str, path: str) -> Any: ...
    def learn_users(self, part: str, users: Iterable[str]) -> None: ...
    def learn_statuses(self, part: str, users: Iterable[str]) -> None: ...


def heard(session: Session, message: bytes) -> None:
    """Handle an event. Requests that it causes run in parallel to the user's actions."""
    name = message[:EVENT_NAME_WITHIN]
    if b'"posted"' in name or b'"post_edited"' in name:
        channel = _channel(message)
        if session.channel is not None and session.channel.id == channel:
            post = _post(message)
            session.memory.posts.put(post.id, post)
        if b'"posted"' in name and channel and channel not in session.memory.joined:
            gevent.spawn(_learn_membership, session, channel)
    elif b'"post_deleted"' in name:
        session.memory.posts.forget(_post(message).id)
    elif b'"typing"' in name:
        user = json.loads(message)["data"]["user_id"]
        if user not in session.memory.users or user not in session.memory.statuses:
            gevent.spawn(_learn_user, session, user)


def _channel(message: bytes) -> str:
    at = message.rfind(_CHANNEL) + len(_CHANNEL)
    return message[at : at + _ID].decode().partition('"')[0]


def _post(message: bytes) -> Post:
    told: dict[str, Any] = json.loads(json.loads(message)["data"]["post"])
    return Post.of(told)


def _learn_membership(session: Session, channel: str) -> None:
    with suppress(Refused):
        session.get("event/channel_member", f"/channels/{channel}/members/{session.user}")
        session.memory.joined.add(channel)


def _learn_user(session: Session, user: str) -> None:
    with suppress(Refused):
        if user not in session.memory.users:
            session.learn_users("event/users", [user])
        if user not in session.memory.statuses:
            session.learn_statuses("event/statuses", [user])
