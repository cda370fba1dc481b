"""What users do seldom: with their threads, their sidebar, their status, and new channels. See actions.py."""

from __future__ import annotations

import time
from collections.abc import Callable

from .session import Channel, Session
from .wording import WORDS, sentence

_EMOJIS = ("calendar", "hamburger", "house", "sneezing_face")
_HALF_AN_HOUR_S = 1800
_PRIVATE, _OPEN = "P", "O"


def follow_thread(session: Session) -> None:
    thread = _a_thread(session)
    if thread:
        session.put("follow", _following(session, thread), None)


def unfollow_thread(session: Session) -> None:
    thread = _a_thread(session)
    if thread:
        session.delete("unfollow", _following(session, thread))


def mark_all_threads_read(session: Session) -> None:
    session.put("mark", f"/users/me/teams/{session.team}/threads/read", None)


def remind_of_post(session: Session) -> None:
    """Ask to be reminded of a post in half an hour."""
    found = session.choose_post()
    if found is not None:
        when = {"target_time": int(time.time()) + _HALF_AN_HOUR_S}
        session.post("remind", f"/users/{session.user}/posts/{found.id}/reminder", when)


def set_custom_status(session: Session) -> None:
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + _HALF_AN_HOUR_S))
    chosen, text = session.chance.choice(_EMOJIS), sentence(session.chance)[:100]
    status = {"emoji": chosen, "text": text, "duration": "thirty_minutes", "expires_at": ends}
    session.put("set", "/users/me/status/custom", status)


def clear_custom_status(session: Session) -> None:
    session.delete("clear", "/users/me/status/custom")


def create_category(session: Session) -> None:
    """Of channels, in the sidebar."""
    name = f"category {session.chance.choice(WORDS)}"
    made = {"user_id": session.user, "team_id": session.team, "display_name": name, "type": "custom"}
    session.post("create", _categories(session), made)


def move_channel(session: Session) -> None:
    """From one category of the sidebar to another one."""
    found = session.get("categories", _categories(session), parse=True)["categories"]
    # What is in the category of direct messages belongs there.
    found = [category for category in found if category["type"] != "direct_messages"]
    full = [category for category in found if category["channel_ids"]]
    if not full or len(found) < 2:
        return
    source = session.chance.choice(full)
    target = session.chance.choice([category for category in found if category is not source])
    moved = session.chance.choice(sorted(source["channel_ids"]))
    source["channel_ids"].remove(moved)
    target["channel_ids"].append(moved)
    session.put("move", _categories(session), [source, target])


def create_private_channel(session: Session) -> None:
    _create_channel(session, _PRIVATE)


def create_public_channel(session: Session) -> None:
    _create_channel(session, _OPEN)


ORGANISING: tuple[Callable[[Session], None], ...] = (
    follow_thread,
    unfollow_thread,
    mark_all_threads_read,
    remind_of_post,
    set_custom_status,
    clear_custom_status,
    create_category,
    move_channel,
    create_private_channel,
    create_public_channel,
)


def _a_thread(session: Session) -> str:
    found = session.choose_post()
    return (found.root or found.id) if found else ""


def _following(session: Session, thread: str) -> str:
    return f"/users/{session.user}/teams/{session.team}/threads/{thread}/following"


def _categories(session: Session) -> str:
    return f"/users/{session.user}/teams/{session.team}/channels/categories"


def _create_channel(session: Session, kind: str) -> None:
    word = session.chance.choice(WORDS)
    # No two channels of a team have the same name.
    name = f"{word}-{session.account.username}-{time.time_ns()}"[:64].lower()
    wanted = {"team_id": session.team, "name": name, "display_name": word, "type": kind}
    made = session.post("create", "/channels", wanted, parse=True)
    session.view(session.channels.setdefault(made["id"], Channel(made["id"], made["type"])))
