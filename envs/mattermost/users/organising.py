"""Rare actions: on the sidebar, the status, and new channels. See actions.py."""

from __future__ import annotations

import time
from collections.abc import Callable

from .memory import OPEN, PRIVATE
from .session import Session
from .wording import WORDS

_EMOJIS = ("calendar", "hamburger", "house", "sneezing_face")
_HALF_AN_HOUR_S, _TEN_MINUTES_S = 1800, 600
_MOST_ADDED = 4  # members of a new private channel


def remind_of_post(session: Session) -> None:
    """Ask to be reminded of a post in ten minutes."""
    found = session.choose_post()
    if found is not None:
        when = {"target_time": int(time.time()) + _TEN_MINUTES_S}
        session.post("remind", f"/users/{session.user}/posts/{found.id}/reminder", when)


def set_custom_status(session: Session) -> None:
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + _HALF_AN_HOUR_S))
    chosen, text = session.chance.choice(_EMOJIS), session.chance.choice(WORDS)
    status = {"emoji": chosen, "text": text, "duration": "thirty_minutes", "expires_at": ends}
    session.put("set", "/users/me/status/custom", status)


def clear_custom_status(session: Session) -> None:
    session.delete("clear", "/users/me/status/custom")


def create_category(session: Session) -> None:
    """Create a category of channels in the sidebar, and reload the sidebar."""
    name = f"category {session.chance.choice(WORDS)}"
    made = {"user_id": session.user, "team_id": session.team, "display_name": name}
    session.post("create", _categories(session), made)
    session.learn_categories(session.team)


def move_channel(session: Session) -> None:
    """Move a channel between two random categories of the sidebar, if the first one has several channels."""
    known = session.memory.categories[session.team]
    source, target = session.chance.choice(known), session.chance.choice(known)
    if source is target or len(source["channel_ids"]) <= 1:
        return
    moved = session.chance.choice(sorted(source["channel_ids"]))
    left = {**source, "channel_ids": [channel for channel in source["channel_ids"] if channel != moved]}
    joined = {**target, "channel_ids": [*target["channel_ids"], moved]}
    session.put("move", _categories(session), [left, joined])
    session.learn_categories(session.team)


def create_private_channel(session: Session) -> None:
    """Create a private channel and add a few members."""
    made, others = _create_channel(session, PRIVATE)
    count = session.chance.randint(1, _MOST_ADDED)
    for other in session.chance.sample(others, count) if len(others) >= count else ():
        session.post("add", f"/channels/{made}/members", {"user_id": other})


def create_public_channel(session: Session) -> None:
    _create_channel(session, OPEN)


def _create_channel(session: Session, kind: str) -> tuple[str, list[str]]:
    """Create a channel, and return its id and the users who could be added, whom the client lists at once."""
    team = session.chance.choice(sorted(session.memory.teams))
    # Names of channels are unique in a team.
    name = f"{session.chance.choice(WORDS)}-{session.account.username}-{time.time_ns()}"[:64].lower()
    wanted = {"team_id": team, "name": name, "display_name": f"Channel {name}"[:64], "type": kind}
    raw = session.post("create", "/channels", wanted)
    session.memory.learn_channels([raw])
    made = raw["id"]
    session.get("team_stats", f"/teams/{team}/stats")
    memory = session.memory
    there = memory.learn_users(session.get("members", f"/users?in_channel={made}&page=0&per_page=50"))
    path = f"/users?in_team={team}&not_in_channel={made}&page=0&per_page=100"
    others = memory.learn_users(session.get("others", path))
    for users in (there, others):
        session.learn_statuses("statuses", users)
    session.mark_viewed("viewed", memory.channels[made])
    return made, others


def _categories(session: Session) -> str:
    return f"/users/{session.user}/teams/{session.team}/channels/categories"


ORGANISING: tuple[Callable[[Session], None], ...] = (
    remind_of_post,
    set_custom_status,
    clear_custom_status,
    create_category,
    move_channel,
    create_private_channel,
    create_public_channel,
)
