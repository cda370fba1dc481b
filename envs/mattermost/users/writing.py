"""The content of posts and drafts: words, mentions, links and attached files; and notices that a user is typing."""

from __future__ import annotations

import re

from .attachments import FILES
from .memory import Channel
from .session import Session
from .wording import WORDS, sentence

_MENTIONS, _LINKS, _PERMALINKS = 0.10, 0.10, 0.01  # shares of the posts
_NUMBER = re.compile(r"\d+$")  # at the end of a name; the part before it is not typed
_FEW_LETTERS = 2  # most letters typed of a name, in addition to up to half of the rest
_NAMES_AT_ONCE = 100


def tell_typing(session: Session, channel: Channel) -> None:
    """Tell a channel that the user is typing, if it is small enough by the server's settings."""
    most = int(session.settings["MaxNotificationsPerChannel"])
    is_small = channel.members is not None and channel.members < most
    if is_small and session.settings["EnableUserTypingMessages"] == "true":
        session.tell("user_typing", {"channel_id": channel.id, "parent_id": ""})


def compose(session: Session, channel: Channel, *, is_answer: bool = False) -> str:
    chance = session.chance
    message = ""
    others = sorted(set(session.memory.users) - {session.user})
    if chance.random() < _MENTIONS and others:
        other = session.memory.users.get(chance.choice(others)) or ""
        _look_up(session, channel, other)
        message += f"@{other} "
    if chance.random() < _LINKS:
        message += f" https://example.com/{chance.choice(WORDS)} "
    known = session.memory.posts.values()
    if chance.random() < _PERMALINKS and known:
        linked = chance.choice([post.id for post in known])
        message += f" {session.plan.url}/{session.memory.teams[session.team]}/pl/{linked} "
    return message + sentence(chance, answer=is_answer)


def _look_up(session: Session, channel: Channel, name: str) -> None:
    """Look up a name while typing it, until one match or a few letters. Pictures of all matches are loaded."""
    number = _NUMBER.search(name)
    rest = number[0] if number else name
    prefix = name.removesuffix(rest) if number else ""
    most = len(prefix) + _FEW_LETTERS
    if len(rest) // 2 > 0:
        most += session.chance.randrange(len(rest) // 2)
    where = f"in_team={channel.team}&in_channel={channel.id}"
    for part in session.types(rest):
        found = session.complete_user("mention", where, prefix + part, _NAMES_AT_ONCE)
        if len(found) == 1 or len(prefix + part) == most:
            return


def attach(session: Session, channel: Channel) -> list[str]:
    """For a share of the posts, upload at least one file, each other one with probability 1/2. Returns their ids."""
    chance = session.chance
    if chance.random() >= session.plan.uploads:
        return []
    always = chance.randrange(len(FILES))
    chosen = [file for number, file in enumerate(FILES) if number == always or chance.random() < 0.5]
    uploaded = (
        session.upload("upload", f"/files?channel_id={channel.id}&filename={name}", content, kind)
        for name, content, kind in chosen
    )
    return [answer["file_infos"][0]["id"] for answer in uploaded]
