"""Searches for posts, people, channels and conversations. See actions.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

from .memory import OPEN, PRIVATE
from .session import Session
from .wording import WORDS

_MOST_WORDS = 4
_FEW_LETTERS = 4  # of a channel's or user's name
_NARROWED = 0.2  # probability of each restriction: writer, channel, time, excluded word, phrase
_DAYS = 7
_USERS_AT_ONCE, _COMPLETED = 100, 25
_DAY_S = 86_400


def search_posts(session: Session) -> None:
    """Search posts by a few words that the user has read, sometimes with restrictions."""
    chance = session.chance
    terms = []
    if chance.random() < _NARROWED:
        terms.append(f"from:{_complete_writer(session)}")
    if chance.random() < _NARROWED:
        terms.append(f"in:{_complete_channel(session)}")
    if chance.random() < _NARROWED:
        day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - _DAY_S * chance.randrange(_DAYS)))
        terms.append(f"{chance.choice(('on', 'before', 'after'))}:{day}")
    if chance.random() < _NARROWED:
        terms.append(f"-{_a_word(session)}")
    words = " ".join(_a_word(session) for _ in range(chance.randint(1, _MOST_WORDS)))
    terms.append(f'"{words}"' if chance.random() < _NARROWED else words)
    wanted = {"terms": " ".join(terms), "is_or_search": False}
    session.post("search", f"/teams/{session.team}/posts/search", wanted)


def _complete_writer(session: Session) -> str:
    """Type a name until it is the only match, and load the pictures of all matches."""
    name = _a_user(session)
    for part in session.types(name):
        if len(session.complete_user("from", f"in_team={session.team}", part, _COMPLETED)) == 1:
            break
    return name


def _complete_channel(session: Session) -> str:
    found = [c for c in session.memory.channels.values() if c.team == session.team and c.id in session.memory.joined]
    name = session.chance.choice([channel.name for channel in found])
    for part in session.types(name):
        path = f"/teams/{session.team}/channels/search_autocomplete?name={quote(part)}"
        if len(session.get("in", path)) == 1:
            break
    return name


def search_users(session: Session) -> None:
    for part in session.types(_a_user(session)):
        session.post("search", "/users/search", {"term": part, "limit": _USERS_AT_ONCE})


def search_channels(session: Session) -> None:
    """Search channels of all teams by the first letters of a name."""
    team = session.chance.choice(sorted(session.memory.teams))
    known = [c for c in session.memory.channels.values() if c.team == team or c.kind not in (OPEN, PRIVATE)]
    for part in session.types(_beginning(session, session.chance.choice([c.name for c in known]))):
        session.post("search", "/channels/search?system_console=false", {"term": part})


def search_conversations(session: Session) -> None:
    """Search group conversations by a user's name. As in the original, each letter searches for the whole name."""
    name = _a_user(session)
    for _ in session.types(_beginning(session, name)):
        session.post("search", "/channels/group/search", {"term": name})


def _beginning(session: Session, name: str) -> str:
    return name[: session.chance.randint(1, min(_FEW_LETTERS, len(name)))]


def _a_user(session: Session) -> str:
    """A name of a user whom the client knows."""
    others = sorted(set(session.memory.users) - {session.user})
    return (session.memory.users.get(session.chance.choice(others)) if others else None) or session.account.username


def _a_word(session: Session) -> str:
    """A word of a post that the user has read, if there is one."""
    found = session.choose_post()
    words = [word for word in found.message.split() if word.isalpha()] if found else []
    return session.chance.choice(words or WORDS)


SEARCHING: tuple[Callable[[Session], None], ...] = (search_posts, search_users, search_channels, search_conversations)
