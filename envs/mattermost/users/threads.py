"""Actions on threads; see actions.py. A client lists threads only if it knows none."""

from __future__ import annotations

from collections.abc import Callable

from .memory import Post, Thread
from .session import Session

_PAGE = 25
_MOST_PAGES = 3


def view_threads(session: Session) -> None:
    """View the user's threads and some older pages; then do the same with unread threads."""
    if not _scroll(session, unread=False):
        return
    _scroll(session, unread=True)


def _scroll(session: Session, *, unread: bool) -> bool:
    """View threads and some older pages. Return whether there are any and the user is still there."""
    known = [thread for thread in session.memory.threads.values() if thread.unread or not unread]
    threads = sorted(known, key=lambda thread: -thread.answered_ms) or _list(session, unread=unread)
    if not threads:
        return False
    before = threads[-1].id
    for _ in range(session.chance.randint(1, _MOST_PAGES)):
        older = _list(session, unread=unread, before=before)
        if not older:
            break
        before = older[-1].id
        if not session.looks():
            return False
    return True


def _list(session: Session, *, unread: bool = False, before: str = "", totals: bool = False) -> list[Thread]:
    """List threads. `totals`: let the server also count all and unread ones."""
    wanted = {"before": before, "per_page": str(_PAGE)}
    wanted |= {"unread": "true"} if unread else {}
    wanted |= {} if totals else {"threadsOnly": "true"}
    query = "&".join(f"{name}={value}" for name, value in wanted.items() if value)
    found = session.get("threads", f"{_of_team(session, session.team)}?{query}")
    return session.memory.learn_threads(found["threads"])


def read_thread(session: Session) -> None:
    """Read some pages of a known thread, from its beginning."""
    known = session.memory.threads.values()
    if not known:
        known = _list(session)[:1]
    if not known:
        return
    thread = session.chance.choice(known)
    posts, more = learn_thread(session, thread.id)
    if not posts:
        return
    for _ in range(session.chance.randint(1, _MOST_PAGES)):
        if not posts or not more:
            break
        posts, more = learn_thread(session, thread.id, posts[-1])
        if more and not session.looks():
            return
    session.tell_thread_shown(thread.channel)


def learn_thread(session: Session, thread: str, after: Post | None = None) -> tuple[list[Post], bool]:
    """Load a page of a thread. Return its posts, and whether more follow."""
    path = f"/posts/{thread}/thread?collapsedThreads=true&perPage={_PAGE}&direction=down"
    if after is not None:
        path += f"&fromPost={after.id}&fromCreateAt={after.made_ms}"
    found = session.get("posts", path)
    return session.memory.learn_posts(found), bool(found.get("has_next"))


def mark_thread_read(session: Session) -> None:
    """Mark a known thread as read up to its first post, so that the server recounts unread posts."""
    if not len(session.memory.threads):
        _list(session, totals=True)
    known = session.memory.threads.values()
    if known:
        thread = session.chance.choice(known)
        channel = session.learn_channel(thread.channel)
        path = f"{_of_team(session, channel.team)}/{thread.id}/read/{thread.made_ms}"
        session.memory.learn_threads([session.put("mark", path)])


def mark_all_threads_read(session: Session) -> None:
    session.put("mark", f"{_of_team(session, session.team)}/read")


def follow_thread(session: Session) -> None:
    """Follow a thread of the current channel, one with answers if there is any."""
    posts = [post for post in session.memory.posts_of(session.channel) if not post.kind]
    found = [post for post in posts if post.root] or posts
    if found:
        chosen = session.chance.choice(found)
        session.put("follow", f"{_of_team(session, session.team)}/{chosen.root or chosen.id}/following")


def unfollow_thread(session: Session) -> None:
    known = session.memory.threads.values()
    if known:
        thread = session.chance.choice(known)
        channel = session.learn_channel(thread.channel)
        session.delete("unfollow", f"{_of_team(session, channel.team)}/{thread.id}/following")


def _of_team(session: Session, team: str) -> str:
    return f"/users/{session.user}/teams/{team}/threads"


THREADS: tuple[Callable[[Session], None], ...] = (
    view_threads,
    read_thread,
    mark_thread_read,
    mark_all_threads_read,
    follow_thread,
    unfollow_thread,
)
