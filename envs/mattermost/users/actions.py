"""What users do: one function an action, named as the study names it. Each raises Refused when a request fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

from .attachments import FILES
from .organising import ORGANISING
from .session import Channel, Session
from .wording import WORDS, sentence, typed

_EMOJIS = ("+1", "tada", "point_up", "raised_hands")
_MENTIONS, _LINKS, _PERMALINKS = 0.10, 0.10, 0.01  # shares of the posts
_TO_A_GROUP = 2  # others in a new conversation of several
_PICTURE_OF_OTHERS = 5


def log_in(session: Session) -> None:
    """Arrive: log in, connect, load all, look at a channel. Raises LookupError for a member of none."""
    session.disconnect()
    session.log_in()
    session.connect()
    session.load()
    view_channel(session)
    if session.channel is None:
        raise LookupError(f"{session.account.username} is a member of no channel")
    session.arrived()


def log_in_again(session: Session) -> None:
    session.log_out()
    log_in(session)


def reconnect(session: Session) -> None:
    session.disconnect()
    session.connect()


def reload(session: Session) -> None:
    """As when the page is loaded anew."""
    session.disconnect()
    session.channels.clear()
    session.connect()
    session.load()
    view_channel(session)


def view_channel(session: Session) -> None:
    channel = session.choose_channel()
    if channel is not None:
        session.view(channel)


def open_direct(session: Session) -> None:
    """A conversation with one or a few others, where the user has one."""
    channel = session.choose_channel(direct=True)
    if channel is not None:
        session.view(channel)


def start_direct(session: Session) -> None:
    """Look whom one could write to, begin a conversation with one of them, and write."""
    others = _others(session)
    if others:
        _begin(session, "/channels/direct", [session.user, session.chance.choice(others)])


def start_group(session: Session) -> None:
    """As `start_direct`, with two others at once."""
    others = _others(session)
    if len(others) >= _TO_A_GROUP:
        _begin(session, "/channels/group", [session.user, *session.chance.sample(others, _TO_A_GROUP)])


def read_older(session: Session) -> None:
    """Scroll back in the current channel."""
    channel = _current(session)
    if not channel.oldest:
        return
    older = f"/channels/{channel.id}/posts?before={channel.oldest}&page=0&per_page=30&collapsedThreads=true"
    posts = session.get("posts", older, parse=True)
    session.learn(session.remember(channel, posts))
    # At the beginning of the channel there is nothing more to scroll to: begin again from where it was opened.
    channel.oldest = posts["order"][-1] if posts["order"] else next(iter(channel.posts or {}), "")


def check_unread(session: Session) -> None:
    """What a client asks when its window is looked at again."""
    team = f"/users/me/teams/{session.team}"
    session.get("channels", f"{team}/channels?include_deleted=true")
    session.get("channel_members", f"{team}/channels/members")
    session.get("unread", "/users/me/teams/unread?include_collapsed_threads=true")
    if session.channel is not None:
        session.view(session.channel)


def post(session: Session) -> None:
    _current(session)
    answered = session.choose_post() if session.chance.random() < session.plan.replies else None
    message = sentence(session.chance)
    if session.chance.random() < _MENTIONS:
        other = session.chance.choice(session.plan.accounts).username
        where = f"in_team={session.team}&in_channel={_current(session).id}"
        for part in typed(other):
            session.get("mention", f"/users/autocomplete?{where}&name={quote(part)}")
        message = f"@{other} {message}"
    if session.chance.random() < _LINKS:
        message += f" https://example.com/{session.chance.choice(WORDS)}"
    if session.chance.random() < _PERMALINKS:
        linked = session.choose_post()
        message += f" {session.plan.url}/{session.team_names[session.team]}/pl/{linked.id}" if linked else ""
    files = []
    if session.chance.random() < session.plan.uploads:
        files = session.chance.sample(FILES, session.chance.randint(1, len(FILES)))
    session.write(message, (answered.root or answered.id) if answered else "", files)


def edit_post(session: Session) -> None:
    own = session.choose_post(own=True)
    if own is not None:
        session.put("patch", f"/posts/{own.id}/patch", {"message": sentence(session.chance)})


def delete_post(session: Session) -> None:
    own = session.choose_post(own=True)
    if own is not None and session.channel is not None and session.channel.posts:
        session.delete("delete", f"/posts/{own.id}")
        # Its answers are gone with it.
        session.channel.posts = {k: p for k, p in session.channel.posts.items() if own.id not in (p.id, p.root)}


def react(session: Session) -> None:
    found = session.choose_post()
    if found is not None:
        emoji = session.chance.choice(_EMOJIS)
        session.post("add", "/reactions", {"user_id": session.user, "post_id": found.id, "emoji_name": emoji})


def view_threads(session: Session) -> None:
    threads = f"/users/me/teams/{session.team}/threads?per_page=25&extended=false"
    session.get("threads", threads)
    session.get("unread", f"{threads}&unread=true")


def read_thread(session: Session) -> None:
    found = session.choose_post()
    if found is not None:
        session.get("posts", f"/posts/{found.root or found.id}/thread?perPage=60&direction=down&collapsedThreads=true")


def mark_thread_read(session: Session) -> None:
    """Of the threads that the user follows, one is read up to now."""
    followed = f"/users/me/teams/{session.team}/threads?per_page=25&extended=false"
    threads = session.get("threads", followed, parse=True)["threads"] or ()
    if threads:
        thread = session.chance.choice(sorted(thread["id"] for thread in threads))
        now_ms = int(time.time() * 1000)
        session.put("mark", f"/users/me/teams/{session.team}/threads/{thread}/read/{now_ms}", None)


def open_permalink(session: Session) -> None:
    """Follow a link to a post: the post, and what was written around it."""
    found = session.choose_post()
    channel = session.channel
    if found is not None and channel is not None:
        session.get("post", f"/posts/{found.id}")
        session.get("before", f"/channels/{channel.id}/posts?before={found.id}&per_page=30&collapsedThreads=true")
        session.get("after", f"/channels/{channel.id}/posts?after={found.id}&per_page=30&collapsedThreads=true")


def view_profile(session: Session) -> None:
    found = session.choose_post()
    if found is not None:
        session.get("user", f"/users/{found.user}")
        session.get("team_member", f"/teams/{session.team}/members/{found.user}")


def search_posts(session: Session) -> None:
    terms = {"terms": _a_word(session), "is_or_search": False, "time_zone_offset": 0, "page": 0, "per_page": 20}
    session.post("search", f"/teams/{session.team}/posts/search", terms)


def search_channels(session: Session) -> None:
    for part in typed(_a_word(session)):
        session.get("autocomplete", f"/teams/{session.team}/channels/search_autocomplete?name={quote(part)}")


def search_users(session: Session) -> None:
    name = session.chance.choice(session.plan.accounts).username
    for part in typed(name):
        session.get("autocomplete", f"/users/autocomplete?in_team={session.team}&name={quote(part)}")


def search_conversations(session: Session) -> None:
    """Of several users, by the name of one of them."""
    name = session.chance.choice(session.plan.accounts).username
    session.post("search", "/channels/group/search", {"term": name})


def join_channel(session: Session) -> None:
    found = session.get("channels", f"/teams/{session.team}/channels?page=0&per_page=100", parse=True)
    others = sorted(channel["id"] for channel in found if channel["id"] not in session.channels)
    if others:
        chosen = session.chance.choice(others)
        session.post("join", f"/channels/{chosen}/members", {"user_id": session.user})
        session.channels[chosen] = Channel(chosen, "O")


def switch_team(session: Session) -> None:
    others = [team for team in session.teams if team != session.team]
    if others:
        session.team = session.chance.choice(others)
        session.load_team()
        view_channel(session)


ACTIONS: Mapping[str, Callable[[Session], None]] = {
    function.__name__: function
    for function in (
        log_in_again,
        reconnect,
        reload,
        view_channel,
        open_direct,
        start_direct,
        start_group,
        read_older,
        check_unread,
        post,
        edit_post,
        delete_post,
        react,
        view_threads,
        read_thread,
        mark_thread_read,
        open_permalink,
        view_profile,
        search_posts,
        search_channels,
        search_users,
        search_conversations,
        join_channel,
        switch_team,
        *ORGANISING,
    )
}


def _others(session: Session) -> list[str]:
    """Users whom one could write to, as the client lists them, and pictures of a few."""
    users = session.get("users", "/users?page=0&per_page=100", parse=True)
    others = sorted(user["id"] for user in users if user["id"] != session.user)
    for other in session.chance.sample(others, min(_PICTURE_OF_OTHERS, len(others))):
        if other not in session.pictures:
            session.get("pictures", f"/users/{other}/image")
            session.pictures.add(other)
    return others


def _begin(session: Session, path: str, members: list[str]) -> None:
    """A conversation, and a first post to it."""
    made = session.post("create", path, members, parse=True)
    session.view(session.channels.setdefault(made["id"], Channel(made["id"], made["type"])))
    session.write(sentence(session.chance))


def _current(session: Session) -> Channel:
    """The current channel; after a failure there may be none, then the user opens one first."""
    if session.channel is None:
        view_channel(session)
    assert session.channel is not None
    return session.channel


def _a_word(session: Session) -> str:
    """One that stands in a post which the user has read, if there is one."""
    found = session.choose_post()
    words = [word for word in found.message.split() if word.isalpha()] if found else []
    return session.chance.choice(words or WORDS)
