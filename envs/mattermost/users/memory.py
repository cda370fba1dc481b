"""The memory of a user's client: the latest posts, users, statuses and threads, up to a maximum of each."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

OPEN, PRIVATE, DIRECT, GROUP = "O", "P", "D", "G"
DIRECT_SHOWN, GROUP_SHOWN = "direct_channel_show", "group_channel_show"  # categories of preferences
_POSTS, _USERS, _STATUSES, _THREADS = 250, 500, 500, 250
_MESSAGE = 200  # letters to keep; mentions and links are at the beginning
_SHOWN = ("png", "jpg")
_MENTION = re.compile(r"@([a-z0-9_.-]+)")

V = TypeVar("V")


class Recent(Generic[V]):
    """The latest values by id. A value that is put again uses another place, so there may be fewer than `most`."""

    def __init__(self, most: int):
        self._most, self._number = most, 0
        self._told: deque[tuple[str, int]] = deque()
        self._kept: dict[str, tuple[int, V]] = {}

    def put(self, key: str, value: V) -> None:
        if len(self._told) == self._most:
            oldest, number = self._told.popleft()
            if oldest in self._kept and self._kept[oldest][0] == number:
                del self._kept[oldest]
        self._number += 1
        self._told.append((key, self._number))
        self._kept[key] = (self._number, value)

    def get(self, key: str) -> V | None:
        found = self._kept.get(key)
        return found[1] if found else None

    def forget(self, key: str) -> None:
        self._kept.pop(key, None)

    def values(self) -> list[V]:
        return [value for _, value in self._kept.values()]

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


@dataclass(frozen=True)
class Post:
    """A post. `pictures`: (id, has a preview) of attached ones. `kind`: the type of a system message, else empty."""

    id: str
    channel: str
    user: str
    root: str
    message: str
    made_ms: int
    kind: str = ""
    pictures: tuple[tuple[str, bool], ...] = ()

    @classmethod
    def of(cls, told: dict[str, Any]) -> Post:
        files = (told.get("metadata") or {}).get("files") or ()
        shown = tuple(
            (file["id"], bool(file.get("has_preview_image"))) for file in files if file["extension"] in _SHOWN
        )
        return cls(
            told["id"],
            told["channel_id"],
            told["user_id"],
            told["root_id"],
            told["message"][:_MESSAGE],
            told["create_at"],
            told["type"],
            shown,
        )

    @property
    def mentions(self) -> str:
        """The name that is mentioned first, if there is one."""
        found = _MENTION.search(self.message)
        return found[1] if found else ""


@dataclass(frozen=True)
class Thread:
    """A thread. `id`: that of its first post, which was created at `made_ms` in `channel`."""

    id: str
    channel: str
    made_ms: int
    answered_ms: int
    unread: int

    @classmethod
    def of(cls, told: dict[str, Any]) -> Thread:
        post = told["post"]
        return cls(told["id"], post["channel_id"], post["create_at"], told["last_reply_at"], told["unread_replies"])


@dataclass
class Channel:
    """A channel. `seen_ms`: last viewed, on the load host's clock; 0: never. `members`: number of members, if known."""

    id: str
    kind: str
    team: str
    name: str
    seen_ms: int = 0
    members: int | None = None

    @property
    def is_direct(self) -> bool:
        return self.kind in (DIRECT, GROUP)


class Memory:
    """A client's memory. `joined`: channels that the user is a member of. `preferences`: (category, name).

    `drafts`: for each team, the ids of the posts that drafts answer, or of their channels.
    """

    def __init__(self) -> None:
        self.posts: Recent[Post] = Recent(_POSTS)
        self.users: Recent[str] = Recent(_USERS)  # names
        self.statuses: Recent[str] = Recent(_STATUSES)
        self.threads: Recent[Thread] = Recent(_THREADS)
        self.teams: dict[str, str] = {}  # names of the user's teams
        self.channels: dict[str, Channel] = {}
        self.joined: set[str] = set()
        self.preferences: list[tuple[str, str]] = []
        self.categories: dict[str, list[dict[str, Any]]] = {}  # by team
        self.drafts: dict[str, set[str]] = {}

    def learn_channels(self, told: list[dict[str, Any]]) -> None:
        for raw in told:
            if raw["id"] not in self.channels:
                self.channels[raw["id"]] = Channel(raw["id"], raw["type"], raw["team_id"], raw["name"])

    def learn_users(self, told: list[dict[str, Any]]) -> list[str]:
        for raw in told:
            self.users.put(raw["id"], raw["username"])
        return [raw["id"] for raw in told]

    def learn_threads(self, told: list[dict[str, Any]] | None) -> list[Thread]:
        threads = [Thread.of(raw) for raw in told or ()]
        for thread in threads:
            self.threads.put(thread.id, thread)
        return threads

    def learn_posts(self, told: dict[str, Any]) -> list[Post]:
        """Learn an answer's posts, in its order, without deleted ones, which answers about new posts include."""
        ordered = [told["posts"][post] for post in told.get("order") or ()]
        posts = [Post.of(raw) for raw in ordered if not raw["delete_at"]]
        for post in posts:
            self.posts.put(post.id, post)
        return posts

    def posts_of(self, channel: Channel | None) -> list[Post]:
        """Known posts of a channel, the oldest first."""
        found = [post for post in self.posts.values() if channel is not None and post.channel == channel.id]
        return sorted(found, key=lambda post: post.made_ms)
