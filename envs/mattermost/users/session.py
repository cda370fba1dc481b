"""One user's session on the server: its connection, what its client knows, and the requests that the client makes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gevent
from gevent.event import Event
from load_users import recording
from load_users.plan import Account, Plan
from load_users.recording import Recorder, Refused

from .connection import Socket, SocketBroken

_API = "/api/v4"
_PAGE = 30  # posts that a client loads at once, in either direction
_ON_A_SCREEN = 15
_POSTS_KEPT = 120  # of a channel, in a client's memory
_OPEN, _PRIVATE, _DIRECT, _GROUP = "O", "P", "D", "G"
_RETRY_S = (1.0, 5.0)  # between attempts to get a broken websocket back
_STATUSES_EVERY_S = 60.0  # a client asks for the statuses of those it knows
_STATUSES_AT_ONCE = 60


@dataclass(frozen=True)
class Post:
    id: str
    user: str
    root: str
    message: str
    pictures: tuple[str, ...] = ()  # ids of attached files that have a preview


@dataclass
class Channel:
    """A channel as the client knows it. `seen_ms`: when it was viewed last, on the server's clock; 0: not yet."""

    id: str
    kind: str
    seen_ms: int = 0
    oldest: str = ""
    posts: dict[str, Post] | None = None

    @property
    def is_direct(self) -> bool:
        return self.kind in (_DIRECT, _GROUP)


class Session:
    """`http` is Locust's client; it reports each request to Locust by itself. Not logged in yet.

    `leaving` is set once the user has to go.
    """

    def __init__(
        self, http: Any, plan: Plan, recorder: Recorder, account: Account, chance: random.Random, leaving: Event
    ):
        self.plan, self.recorder, self.account, self.chance = plan, recorder, account, chance
        self._http, self._leaving = http, leaving
        self._statuses_at: float | None = None
        self._token = ""
        self._socket: Socket | None = None
        self.action = ""
        self.user = ""
        self.teams: list[str] = []
        self.team = ""
        self.channels: dict[str, Channel] = {}
        self.channel: Channel | None = None
        self.team_names: dict[str, str] = {}
        self.known_users: set[str] = set()
        self.pictures: set[str] = set()  # of users, and previews of attached files

    # --- requests --------------------------------------------------------------------------------------------

    def get(self, part: str, path: str, *, parse: bool = False) -> Any:
        """The answer, from JSON if `parse`. `part` names the request within the action. Raises Refused."""
        return self._ask("GET", part, path, None, parse)

    def post(self, part: str, path: str, body: Any, *, parse: bool = False) -> Any:
        return self._ask("POST", part, path, body, parse)

    def put(self, part: str, path: str, body: Any) -> None:
        self._ask("PUT", part, path, body, False)

    def delete(self, part: str, path: str) -> None:
        self._ask("DELETE", part, path, None, False)

    def upload(self, part: str, path: str, content: bytes, kind: str) -> Any:
        """The answer, from JSON, to a body that is a file of the media type `kind`. Raises Refused."""
        return self._ask("POST", part, path, None, True, (content, kind))

    def _ask(
        self, method: str, part: str, path: str, body: Any, parse: bool, file: tuple[bytes, str] | None = None
    ) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        sent: dict[str, Any] = {"json": body}
        if file is not None:
            sent = {"data": file[0]}
            headers["Content-Type"] = file[1]
        response = self._http.request(method, _API + path, name=f"{self.action}/{part}", headers=headers, **sent)
        if not 200 <= response.status_code < 300:
            raise Refused(f"{method} {path}: {response.status_code}")
        if part == "log_in":
            self._token = response.headers["Token"]
        if not parse:
            return None
        try:
            return json.loads(response.content)
        except ValueError as error:
            self.recorder.records.fail(f"{self.action}/{part}", recording.NO_ANSWER, f"{path}: no JSON: {error}")
            raise Refused(f"{method} {path}: no JSON") from error

    # --- coming and going ------------------------------------------------------------------------------------

    def log_in(self) -> None:
        self._token = ""
        credentials = {"login_id": self.account.username, "password": self.account.password}
        self.user = self.post("log_in", "/users/login", credentials, parse=True)["id"]
        self.known_users = {self.user}

    def log_out(self) -> None:
        self.disconnect()
        self.post("log_out", "/users/logout", None)
        self._token = ""

    def connect(self) -> None:
        """Open the websocket, which is timed as a whole: connection, login, greeting. Raises Refused.

        One that breaks is opened again, as a client does by itself, whatever its user is doing.
        """
        begun = time.perf_counter()
        label = f"{self.action}/websocket"
        try:
            self._socket = Socket(
                self.plan.url, self._token, self.plan.request_timeout_s, self._count_event, self._broke
            )
        except SocketBroken as error:
            took_s = time.perf_counter() - begun
            self.recorder.records.add(label, recording.WEBSOCKET, took_s, recording.NO_ANSWER, str(error))
            raise Refused(str(error)) from error
        self.recorder.records.add(label, recording.WEBSOCKET, time.perf_counter() - begun)
        self.recorder.websockets += 1

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._lost_socket()

    def _lost_socket(self) -> None:
        """There is no websocket any more."""
        if self._socket is not None:
            self._socket = None
            self.recorder.websockets -= 1

    def _broke(self, why: str) -> None:
        self.recorder.records.fail("connection/websocket", recording.DROPPED, why)
        self._lost_socket()
        gevent.spawn(self._connect_again)

    def _connect_again(self) -> None:
        while not self._leaving.is_set():
            self._leaving.wait(self.chance.uniform(*_RETRY_S))
            if self._leaving.is_set() or self._socket is not None:
                return
            with suppress(Refused):
                self.connect()

    def _count_event(self) -> None:
        self.recorder.records.events += 1

    # --- what a client does by itself ------------------------------------------------------------------------

    def arrived(self) -> None:
        """The user is logged in and sees a channel: from the first time on statuses are asked for."""
        if self._statuses_at is None:
            self._statuses_at = time.monotonic() + _STATUSES_EVERY_S

    def due(self) -> tuple[str, Callable[[], None]] | None:
        """What is to be done between two actions, and its name: None, or every minute the statuses of who is known."""
        self._count_overdue()
        if self._statuses_at is None or time.monotonic() <= self._statuses_at:
            return None
        self._statuses_at = time.monotonic() + _STATUSES_EVERY_S
        known = sorted(self.known_users)[:_STATUSES_AT_ONCE]
        return "statuses", lambda: self.post("statuses", "/users/status/ids", known)

    # --- what a client loads ---------------------------------------------------------------------------------

    def load(self) -> None:
        """All that a client asks for when it starts. Raises Refused; LookupError for a user without a team."""
        self.get("config", "/config/client?format=old")
        self.get("license", "/license/client?format=old")
        self.get("me", "/users/me")
        self.get("preferences", "/users/me/preferences")
        self.team_names = {team["id"]: team["name"] for team in self.get("teams", "/users/me/teams", parse=True)}
        self.teams = sorted(self.team_names)
        if not self.teams:
            raise LookupError(f"{self.account.username} is a member of no team")
        self.get("team_members", "/users/me/teams/members")
        self.post("roles", "/roles/names", ["system_user", "team_user", "channel_user"])
        self.get("users", "/users?page=0&per_page=100")
        if self.team not in self.teams:
            self.team = self.chance.choice(self.teams)
        self.load_team()

    def load_team(self) -> None:
        team = f"/users/me/teams/{self.team}"
        found = self.get("channels", f"{team}/channels?include_deleted=true", parse=True)
        known, self.channels, self.channel = self.channels, {}, None
        for channel in sorted(found, key=lambda channel: channel["id"]):
            kept = known.get(channel["id"])
            self.channels[channel["id"]] = kept or Channel(channel["id"], channel["type"])
        self.get("channel_members", f"{team}/channels/members")
        self.get("unread", "/users/me/teams/unread?include_collapsed_threads=true")
        self.get("threads", f"{team}/threads?totalsOnly=true&threadsOnly=false")
        self.get("categories", f"{team}/channels/categories")
        self.post("statuses", "/users/status/ids", [self.user])

    def choose_channel(self, *, direct: bool = False) -> Channel | None:
        """Another channel than the current one; None when the user has no such channel."""
        found = [channel for channel in self.channels.values() if channel.is_direct == direct]
        others = [channel for channel in found if channel is not self.channel]
        return self.chance.choice(others or found) if found else None

    def view(self, channel: Channel) -> None:
        """Go to a channel: its new posts, who wrote them, and that the user has seen it. Raises Refused."""
        before = self.channel
        if before is not None:
            self._mark_viewed("leave", before.id, "")
        if channel.seen_ms == 0:
            around = f"limit_before={_PAGE}&limit_after={_PAGE}&collapsedThreads=true"
            posts = self.get("posts", f"/users/me/channels/{channel.id}/posts/unread?{around}", parse=True)
        else:
            since = f"since={channel.seen_ms}&collapsedThreads=true"
            posts = self.get("new_posts", f"/channels/{channel.id}/posts?{since}", parse=True)
        self.learn(self.remember(channel, posts))
        self.get("stats", f"/channels/{channel.id}/stats?exclude_files_count=true")
        if channel.is_direct:
            self._remember_direct(channel)
        self._mark_viewed("enter", channel.id, before.id if before else "")
        # A second earlier: the clocks of server and client differ.
        channel.seen_ms = int(time.time() * 1000) - 1000
        self.channel = channel

    def _mark_viewed(self, part: str, channel: str, before: str) -> None:
        viewed = {"channel_id": channel, "prev_channel_id": before, "collapsed_threads_supported": True}
        self.post(part, "/channels/members/me/view", viewed)

    def _remember_direct(self, channel: Channel) -> None:
        category = "direct_channel_show" if channel.kind == _DIRECT else "group_channel_show"
        entry = {"user_id": self.user, "category": category, "name": channel.id, "value": "true"}
        self.put("preferences", "/users/me/preferences", [entry])

    def remember(self, channel: Channel, posts: dict[str, Any]) -> list[Post]:
        """Keep the posts of an answer; those that the client did not know."""
        if channel.posts is None:
            channel.posts = {}
        fresh = []
        found = posts.get("posts") or {}
        for post_id in posts.get("order") or ():
            raw = found.get(post_id)
            if raw is None or raw["type"] or post_id in channel.posts:
                continue  # messages of the system are nothing to answer
            post = Post(post_id, raw["user_id"], raw["root_id"], raw["message"][:200], _previews(raw))
            channel.posts[post_id] = post
            fresh.append(post)
        order = posts.get("order") or ()
        if order and not channel.oldest:
            channel.oldest = order[-1]
        for old in list(channel.posts)[: max(len(channel.posts) - _POSTS_KEPT, 0)]:
            del channel.posts[old]
        return fresh

    def learn(self, posts: Sequence[Post]) -> None:
        """Ask for what the client does not know of posts, the newest first, and of their writers: statuses and names;
        and of those that fit on a screen the writers' pictures and the previews of attached ones. Raises Refused.
        """
        writers = sorted({post.user for post in posts} - self.known_users)
        if writers:
            self.post("statuses", "/users/status/ids", writers)
            self.post("writers", "/users/ids", writers)
            self.known_users.update(writers)
        for writer in dict.fromkeys(post.user for post in posts[:_ON_A_SCREEN]):
            if writer not in self.pictures:
                self.get("pictures", f"/users/{writer}/image")
                self.pictures.add(writer)
        for file in [file for post in posts[:_ON_A_SCREEN] for file in post.pictures]:
            if file not in self.pictures:
                self.get("previews", f"/files/{file}/preview")
                self.pictures.add(file)

    def choose_post(self, *, own: bool = False) -> Post | None:
        """One of the current channel's that the client knows."""
        posts = (self.channel.posts if self.channel else None) or {}
        found = [post for post in posts.values() if not own or post.user == self.user]
        return self.chance.choice(found) if found else None

    # --- posts -----------------------------------------------------------------------------------------------

    def write(self, message: str, root: str = "", files: Sequence[tuple[str, bytes, str]] = ()) -> None:
        """Type and send a post to the current channel, with files: (name, content, media type). Raises Refused."""
        channel = self.channel
        assert channel is not None
        attached = [self._attach(channel, *file) for file in files]
        pending = f"{self.user}:{time.time_ns() // 1_000_000}"
        if self._socket is not None:
            try:
                self._socket.typing(channel.id, root)
                self._socket.await_post(pending, self._delivered)
            except SocketBroken:
                pass  # whoever reads from it notices as well
        body: dict[str, Any] = {
            "channel_id": channel.id,
            "message": message,
            "root_id": root,
            "pending_post_id": pending,
        }
        if attached:
            body["file_ids"] = attached
        sent = self.post("send", "/posts", body, parse=True)
        if channel.posts is not None:
            channel.posts[sent["id"]] = Post(sent["id"], self.user, root, message[:200])

    def _attach(self, channel: Channel, name: str, content: bytes, kind: str) -> str:
        """Upload a file for a post that is about to be sent; its id."""
        answer = self.upload("upload", f"/files?channel_id={channel.id}&filename={name}", content, kind)
        return answer["file_infos"][0]["id"]

    def _delivered(self, seconds: float) -> None:
        self.recorder.records.add("post/delivery", recording.EVENT, seconds)

    def _count_overdue(self) -> None:
        """Posts that the websocket should have told of, and did not."""
        if self._socket is not None:
            for _ in range(self._socket.overdue(self.plan.request_timeout_s)):
                self.recorder.records.fail("post/delivery", recording.TIMEOUT, "no event told of a post")


def _previews(post: dict[str, Any]) -> tuple[str, ...]:
    """Ids of the files of a post, as the server tells of it, that a client shows a picture of."""
    files = (post.get("metadata") or {}).get("files") or ()
    return tuple(file["id"] for file in files if file.get("has_preview_image"))
