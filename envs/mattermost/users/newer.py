"""Actions that only the newer load test has: drafts, and a channel's bookmarks. See actions.py."""

from __future__ import annotations

import time
from collections.abc import Callable

from .memory import Channel
from .session import Session
from .writing import attach, compose, tell_typing

_OF_ANSWERS = 0.87  # share of the drafts


def learn_bookmarks(session: Session, channel: Channel) -> None:
    """Load bookmarks if the server has them. Without a licence it would answer 501 on each visit to a channel."""
    if session.is_newer and session.has_bookmarks:
        session.get("bookmarks", f"/channels/{channel.id}/bookmarks?bookmarks_since=0")


def write_draft(session: Session) -> None:
    """Begin a post, or more often an answer, and leave it as a draft."""
    channel, root = session.channel, ""
    if channel is None or not _are_kept(session):
        return
    if session.chance.random() < _OF_ANSWERS:
        answered = session.choose_post()
        if answered is None:
            return
        root = answered.root or answered.id
    tell_typing(session, channel)
    draft = {
        "user_id": session.user,
        "channel_id": channel.id,
        "root_id": root,
        "message": compose(session, channel),
        "create_at": int(time.time() * 1000),
    }
    files = attach(session, channel)
    session.post("save", "/drafts", {**draft, **({"file_ids": files} if files else {})})
    session.memory.drafts.setdefault(session.team, set()).add(root or channel.id)


def list_drafts(session: Session) -> None:
    if _are_kept(session):
        found = session.get("drafts", f"/users/{session.user}/teams/{session.team}/drafts")
        session.memory.drafts[session.team] = {draft["root_id"] or draft["channel_id"] for draft in found or ()}


def delete_draft(session: Session) -> None:
    """Delete a draft that was written or listed. As in the original, the client does not forget it."""
    known = session.memory.drafts.get(session.team)
    if known and session.channel is not None and _are_kept(session):
        chosen = session.chance.choice(sorted(known))
        session.delete("delete", f"/users/{session.user}/channels/{session.channel.id}/drafts/{chosen}")


def _are_kept(session: Session) -> bool:
    return session.settings.get("AllowSyncedDrafts") == "true"


NEWER: tuple[Callable[[Session], None], ...] = (write_draft, list_drafts, delete_draft)
