"""Actions on channels and posts: one function per action, with the study's name for it.

Each raises Refused if a request fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from load_users.recording import Refused

from .memory import DIRECT, DIRECT_SHOWN, GROUP_SHOWN, OPEN, PRIVATE, Channel, Post
from .newer import NEWER, learn_bookmarks
from .organising import ORGANISING
from .reporting import CHANNEL_SWITCH, LOGIN, TEAM_SWITCH, WITH_FILES
from .searching import SEARCHING
from .session import Session
from .threads import THREADS, learn_thread
from .writing import attach, compose, tell_typing

_EMOJIS = ("grinning", "smile", "thinking", "innocent", "sunglasses", "relieved")
_TO_A_GROUP = 2  # other users in a new group conversation
_PAGE = 30  # posts that a client loads at once, in either direction
_MOST_PAGES = 5
_WITH_FILES = 0.01  # share of the visits to a channel that also count its files
_LINK, _ID = "/pl/", 26  # a link to a post, and the length of its id


def log_in(session: Session) -> None:
    """Log in, connect, load everything, and view a channel. Raises LookupError for a user without channels."""
    session.disconnect()
    _enter(session)
    session.tell_thread_shown("")
    if session.channel is None:
        raise LookupError(f"{session.account.username} is a member of no channel")
    session.arrived()


def log_in_again(session: Session) -> None:
    session.log_out()
    session.forget()
    _enter(session)


def reload(session: Session) -> None:
    """Load everything, as when the page is reloaded."""
    session.disconnect()
    session.forget()
    session.connect()
    _load(session)


def _enter(session: Session) -> None:
    with session.report.timed(LOGIN):
        session.log_in()
        session.connect()
    _load(session)


def _load(session: Session) -> None:
    """Load everything, then the team and channel that the user was in, or others."""
    session.load()
    if not session.team:
        _go_to_team(session, session.chance.choice(sorted(session.memory.teams)))
        return
    session.load_team(session.team)
    if session.channel is None:
        view_channel(session)
    else:
        _view(session, session.channel)


def reconnect(session: Session) -> None:
    """Ask for what may have changed while the websocket was disconnected."""
    session.learn_channels(session.team, deleted=False)
    session.learn_memberships(session.team)
    posts = session.memory.posts_of(session.channel)
    if posts and session.channel is not None:
        _posts_since(session, session.channel, posts[-1].made_ms)
        shown = dict.fromkeys([*(post.user for post in posts), *session.direct_shown()])
        session.learn_statuses("statuses", shown)
    session.ask_unread()
    session.get("plugins", "/plugins/webapp")
    changed = f"/users/ids?since={int(time.time() * 1000)}"
    session.memory.learn_users(session.post("users", changed, list(session.memory.users)))


# --- channels --------------------------------------------------------------------------------------------------------


def view_channel(session: Session) -> None:
    """View another channel of the team."""
    found = [c for c in _joined(session) if c.team == session.team and c.kind in (OPEN, PRIVATE)]
    if not found:
        return
    with session.report.timed(CHANNEL_SWITCH):
        channel = session.chance.choice(found)
        _view(session, channel)
        session.channel = channel
        learn_bookmarks(session, channel)
        session.tell_shown(channel_id=channel.id)


def open_direct(session: Session) -> None:
    """Open a conversation with one or a few others, if the user has one. Posts still go to the current channel."""
    found = [channel for channel in _joined(session) if channel.is_direct]
    if found:
        _view(session, session.chance.choice(found))


def _joined(session: Session) -> list[Channel]:
    """Channels of which the user is a member, except for the current one."""
    known = session.memory.channels
    return [known[name] for name in sorted(session.memory.joined & known.keys()) if known[name] is not session.channel]


def _view(session: Session, channel: Channel) -> None:
    """View a channel: load its new posts and their writers, and mark it as viewed."""
    before = session.channel
    if before is not None:
        session.mark_viewed("leave", before)
    if channel.seen_ms == 0:
        around = f"limit_before={_PAGE}&limit_after={_PAGE}&collapsedThreads=true"
        found = session.get("posts", f"/users/me/channels/{channel.id}/posts/unread?{around}")
        posts = session.memory.learn_posts(found)
    else:
        posts = _posts_since(session, channel, channel.seen_ms)
    session.learn(posts)
    if session.chance.random() < _WITH_FILES:
        with session.report.timed(WITH_FILES):
            session.learn_numbers(channel, files=True)
    else:
        session.learn_numbers(channel)
    if channel.is_direct:
        _keep_shown(session, channel)
    session.mark_viewed("enter", channel, before.id if before else "")


def _posts_since(session: Session, channel: Channel, since_ms: int) -> list[Post]:
    found = session.get("new_posts", f"/channels/{channel.id}/posts?since={since_ms}&collapsedThreads=true")
    return session.memory.learn_posts(found)


def _keep_shown(session: Session, channel: Channel) -> None:
    """Save that the conversation is in the list, and when it was opened."""
    shown = DIRECT_SHOWN if channel.kind == DIRECT else GROUP_SHOWN
    opened = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    values = {shown: "true", "channel_open_time": opened}
    entries = [
        {"user_id": session.user, "category": category, "name": channel.id, "value": value}
        for category, value in values.items()
    ]
    session.put("preferences", "/users/me/preferences", entries)


def read_older(session: Session) -> None:
    """Scroll back a few pages. As in the original, the first page ends before the oldest known post, and all others
    end before the newest post, so the client knows them already.
    """
    posts = session.memory.posts_of(session.channel)
    if not posts or session.channel is None:
        return
    before = posts[0].id
    for _ in range(session.chance.randint(1, _MOST_PAGES)):
        older = f"/channels/{session.channel.id}/posts?page=0&per_page={_PAGE}&before={before}&collapsedThreads=true"
        session.learn(session.memory.learn_posts(session.get("posts", older)))
        before = session.memory.posts_of(session.channel)[-1].id
        if not session.looks():
            return


def check_unread(session: Session) -> None:
    """Send the requests that a client sends when its window gets the focus again."""
    session.learn_channels(session.team)
    session.learn_memberships(session.team)
    if session.channel is not None:
        session.mark_viewed("viewed", session.channel)


def join_channel(session: Session) -> None:
    session.memory.learn_channels(session.get("channels", f"/teams/{session.team}/channels?page=0&per_page=100"))
    others = [
        channel.id
        for channel in session.memory.channels.values()
        if channel.id not in session.memory.joined and (channel.is_direct or channel.team == session.team)
    ]
    if others:
        _join(session, session.chance.choice(sorted(others)))


def _join(session: Session, channel: str) -> None:
    session.post("join", f"/channels/{channel}/members", {"user_id": session.user})
    session.memory.joined.add(channel)


def switch_team(session: Session) -> None:
    others = [team for team in session.memory.teams if team != session.team]
    if others:
        with session.report.timed(TEAM_SWITCH):
            _go_to_team(session, session.chance.choice(sorted(others)))


def _go_to_team(session: Session, team: str) -> None:
    session.load_team(team)
    session.team = team
    session.tell_shown(team_id=team)
    view_channel(session)


def start_direct(session: Session) -> None:
    """List users, begin a conversation with one of them, and post to the same channel as before."""
    session.show_pictures(session.list_users())
    others = _others(session)
    if others:
        made = session.post("create", "/channels/direct", [session.user, session.chance.choice(others)])
        session.memory.learn_channels([session.get("channel", f"/channels/{made['id']}")])
        session.get("channel_member", f"/channels/{made['id']}/members/{session.user}")
        session.memory.joined.add(made["id"])
        _view(session, session.memory.channels[made["id"]])
        post(session)


def start_group(session: Session) -> None:
    """Do the same as `start_direct`, with two other users."""
    session.show_pictures(session.list_users())
    others = _others(session)
    if len(others) >= _TO_A_GROUP:
        made = session.post("create", "/channels/group", session.chance.sample(others, _TO_A_GROUP))
        session.memory.learn_channels([made])
        _view(session, session.memory.channels[made["id"]])
        post(session)


def _others(session: Session) -> list[str]:
    return sorted(set(session.memory.users) - {session.user})


# --- posts -----------------------------------------------------------------------------------------------------------


def post(session: Session) -> None:
    """Post to the current channel, or reply to a post there."""
    channel = session.channel
    if channel is None:
        return
    tell_typing(session, channel)
    is_answer = session.chance.random() < session.plan.replies
    message = compose(session, channel, is_answer=is_answer)
    root = ""
    if is_answer:
        answered = session.choose_post()
        if answered is None:
            return
        root = answered.root or answered.id
    files = attach(session, channel)
    pending = f"{session.user}:{time.time_ns() // 1_000_000}"
    session.await_delivery(pending)
    body = {"channel_id": channel.id, "message": message, "root_id": root, "pending_post_id": pending}
    sent = Post.of(session.post("send", "/posts", {**body, **({"file_ids": files} if files else {})}))
    session.memory.posts.put(sent.id, sent)


def edit_post(session: Session) -> None:
    own = session.choose_post(own=True)
    if own is not None and session.channel is not None:
        message = compose(session, session.channel, is_answer=bool(own.root))
        edited = Post.of(session.put("patch", f"/posts/{own.id}/patch", {"message": message}))
        session.memory.posts.put(edited.id, edited)


def delete_post(session: Session) -> None:
    own = session.choose_post(own=True)
    if own is not None:
        session.delete("delete", f"/posts/{own.id}")
        session.memory.posts.forget(own.id)


def react(session: Session) -> None:
    found = session.choose_post()
    if found is not None:
        emoji = session.chance.choice(_EMOJIS)
        session.post("add", "/reactions", {"user_id": session.user, "post_id": found.id, "emoji_name": emoji})


def view_profile(session: Session) -> None:
    """View the profile of the writer of a post."""
    found = session.choose_post()
    if found is not None:
        session.get("channel_member", f"/channels/{found.channel}/members/{found.user}")
        session.get("team_member", f"/teams/{session.team}/members/{found.user}")


def open_permalink(session: Session) -> None:
    """Follow a link in a post, if it has one to another post: load that post's thread, then its channel."""
    found = session.choose_post()
    if found is None or _LINK not in found.message:
        return
    linked = found.message.partition(_LINK)[2][:_ID]
    posts, _ = learn_thread(session, linked)
    if not posts:
        return
    channel = session.learn_channel(posts[0].channel)
    if channel.id not in session.memory.joined:
        try:
            session.get("channel_member", f"/channels/{channel.id}/members/{session.user}")
            session.memory.joined.add(channel.id)
        except Refused:  # the user is not a member yet
            if channel.kind != PRIVATE:
                _join(session, channel.id)
    session.learn_channels(session.team, deleted=False)
    session.learn_memberships(session.team)
    _view(session, channel)
    session.channel = channel


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
        open_permalink,
        view_profile,
        join_channel,
        switch_team,
        *SEARCHING,
        *THREADS,
        *ORGANISING,
        *NEWER,
    )
}


def may(session: Session, action: str) -> bool:
    """Whether the user does this action at all."""
    return session.is_newer or ACTIONS[action] not in NEWER
