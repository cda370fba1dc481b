"""One user's session on the server: its connection, what its client knows, and the requests that the client makes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import gevent
from gevent.event import Event
from load_users import recording
from load_users.plan import Account, Plan
from load_users.recording import Recorder, Refused

from .connection import Socket, SocketBroken
from .events import heard
from .memory import DIRECT_SHOWN, GROUP_SHOWN, Channel, Memory, Post
from .reporting import Report
from .wording import typed

_API = "/api/v4"
_NOT_MODIFIED = 304
_RETRY_S = (1.0, 5.0)  # between attempts to reopen a broken websocket
_EVERY_S = 60.0  # at this interval a client asks for the statuses of shown users, and reports
_STATUSES_OF = 60  # posts that a client shows
_OF_ITS_RELEASE, _OLDER, _NEWER = "server", "v1.19.0", "v1.23.0"  # values of `like`, see the study's Behaviour
_NEWER_SINCE = 10  # first major release of the server with the newer behaviour
_PAGES_S = (1.0, 10.0)  # to read a page before the next one
_LETTERS_S = (0.1, 0.3)


class Session:
    """A user's session, not logged in at first. `http`: Locust's client, which reports each request to Locust.

    `leaving`: set when the user must leave.
    """

    def __init__(
        self, http: Any, plan: Plan, recorder: Recorder, account: Account, chance: random.Random, leaving: Event
    ):
        self.plan, self.recorder, self.account, self.chance = plan, recorder, account, chance
        self._http, self._leaving = http, leaving
        self._due_at: dict[str, float] = {}
        self._token, self._is_licensed = "", False
        self._socket: Socket | None = None
        self.action = ""
        self.user = ""
        self.team = ""
        self.channel: Channel | None = None
        self.memory = Memory()
        self.report = Report()
        self.settings: dict[str, str] = {}  # of the server, as it sends them to clients
        self._pictures: dict[str, str] = {}  # ETags, by user

    # --- requests --------------------------------------------------------------------------------------------

    def get(self, part: str, path: str) -> Any:
        """Return the answer from JSON. `part`: the request's name within the action, or action/part. Raises Refused."""
        return self._parsed(part, path, self._ask("GET", part, path))

    def post(self, part: str, path: str, body: Any) -> Any:
        return self._parsed(part, path, self._ask("POST", part, path, json=body))

    def put(self, part: str, path: str, body: Any = None) -> Any:
        return self._parsed(part, path, self._ask("PUT", part, path, json=body))

    def delete(self, part: str, path: str) -> None:
        self._ask("DELETE", part, path)

    def upload(self, part: str, path: str, content: bytes, kind: str) -> Any:
        """Send a file of the media type `kind`, and return the answer, parsed from JSON. Raises Refused."""
        return self._parsed(part, path, self._ask("POST", part, path, {"Content-Type": kind}, data=content))

    def _ask(self, method: str, part: str, path: str, headers: dict[str, str] | None = None, **sent: Any) -> Any:
        headers = {**({"Authorization": f"Bearer {self._token}"} if self._token else {}), **(headers or {})}
        response = self._http.request(method, _API + path, name=self._label(part), headers=headers, **sent)
        if not (200 <= response.status_code < 300 or response.status_code == _NOT_MODIFIED):
            raise Refused(f"{method} {path}: {response.status_code}")
        return response

    def _label(self, part: str) -> str:
        return part if "/" in part else f"{self.action}/{part}"

    def _parsed(self, part: str, path: str, response: Any) -> Any:
        try:
            return json.loads(response.content)
        except ValueError as error:
            self.recorder.records.fail(self._label(part), recording.NO_ANSWER, f"{path}: no JSON: {error}")
            raise Refused(f"{path}: no JSON") from error

    # --- login and logout ------------------------------------------------------------------------------------

    def log_in(self) -> None:
        """Log in, and learn which teams and channels there are."""
        self._token = ""
        credentials = {"login_id": self.account.username, "password": self.account.password}
        response = self._ask("POST", "log_in", "/users/login", json=credentials)
        self._token = response.headers["Token"]
        self.user = self._parsed("log_in", "/users/login", response)["id"]
        self.learn_settings()
        self._is_licensed = self.get("license", "/license/client?format=old").get("IsLicensed") == "true"
        self.get("all_teams", "/teams?page=0&per_page=100")
        for member in self.get("team_members", "/users/me/teams/members"):
            self.learn_channels(member["team_id"])

    def log_out(self) -> None:
        self.disconnect()
        self.post("log_out", "/users/logout", None)
        self._token = ""

    def forget(self) -> None:
        """Forget what a reload of the page forgets. The user's team and channel, and pictures, are kept."""
        self.memory = Memory()
        if self.channel is not None:
            self.channel.seen_ms = 0
            self.memory.channels[self.channel.id] = self.channel  # otherwise it would be loaded as another object

    def connect(self) -> None:
        """Open the websocket, and time connection, login and greeting as a whole. Raises Refused.

        If it breaks, it is reopened in the background, as real clients do.
        """
        begun = time.perf_counter()
        label = f"{self.action}/websocket"
        try:
            self._socket = Socket(self.plan.url, self._token, self.plan.request_timeout_s, self._heard, self._broke)
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
        """Record that the websocket is gone."""
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

    def _heard(self, message: bytes) -> None:
        self.recorder.records.events += 1
        try:
            heard(self, message)
        except (ValueError, KeyError, TypeError) as error:
            self.recorder.records.fail("event/client", recording.UNEXPECTED, f"{type(error).__name__}: {error}")

    def tell(self, action: str, data: dict[str, Any]) -> None:
        """Send by websocket, if there is one. Errors are ignored, because its reader notices them, too."""
        if self._socket is not None:
            with suppress(SocketBroken):
                self._socket.tell(action, data)

    def tell_shown(self, **shown: Any) -> None:
        """Tell the server what the user views, if it limits events (typing, reactions) to that."""
        if self.settings.get("FeatureFlagWebSocketEventScope") == "true":
            self.tell("presence", shown)

    def tell_thread_shown(self, channel: str) -> None:
        """Tell that a thread is shown, beside its channel and in the list, as in the original. No channel is ""."""
        for in_list in (True, False):
            self.tell_shown(thread_channel_id=channel, is_thread_view=in_list)

    # --- time ------------------------------------------------------------------------------------------------

    def looks(self) -> bool:
        """Look at a page. Return whether the user stays for the next one."""
        return self._pauses(self.chance.uniform(*_PAGES_S))

    def types(self, word: str) -> Iterator[str]:
        """Yield the text after each letter of a word, which take equal time, as long as the user stays."""
        each_s = self.chance.uniform(*_LETTERS_S)
        for text in typed(self.chance, word):
            if not self._pauses(each_s):
                return
            yield text

    def _pauses(self, seconds: float) -> bool:
        self._leaving.wait(seconds * self.plan.pauses)
        return not self._leaving.is_set()

    def arrived(self) -> None:
        """Start the client's own tasks when the user first is logged in and sees a channel."""
        if not self._due_at:
            self._due_at = dict.fromkeys(("statuses", "report"), time.monotonic() + _EVERY_S)

    def due(self) -> tuple[str, Callable[[], None]] | None:
        """The next task between two actions, and its name; None if nothing is due."""
        self._count_overdue()
        now = time.monotonic()
        for name, do in (("statuses", self._ask_statuses), ("report", self._report)):
            if self._due_at and now >= self._due_at[name]:
                self._due_at[name] += _EVERY_S
                return name, do
        return None

    def _ask_statuses(self) -> None:
        """Ask for the statuses of the writers of shown posts, and of the members of shown conversations."""
        writers = dict.fromkeys(post.user for post in reversed(self.memory.posts_of(self.channel)[-_STATUSES_OF:]))
        self.learn_statuses("statuses", dict.fromkeys([self.user, *writers, *self.direct_shown()]))

    def _report(self) -> None:
        if self.is_newer:
            self.post("report", "/client_perf", self.report.taken())

    # --- what a client loads ---------------------------------------------------------------------------------

    @property
    def is_newer(self) -> bool:
        """Whether the user acts like users of the newer load test."""
        if self.plan.like == _OF_ITS_RELEASE:
            return int(self.settings.get("Version", "0").partition(".")[0]) >= _NEWER_SINCE
        return self.plan.like == _NEWER

    @property
    def has_bookmarks(self) -> bool:
        return self._is_licensed and self.settings.get("FeatureFlagChannelBookmarks") == "true"

    def learn_settings(self) -> None:
        self.settings = self.get("config", "/config/client?format=old")

    def learn_channels(self, team: str, *, deleted: bool = True) -> None:
        path = f"/users/me/teams/{team}/channels?include_deleted={str(deleted).lower()}"
        self.memory.learn_channels(self.get("channels", path))

    def learn_memberships(self, team: str) -> None:
        found = self.get("channel_members", f"/users/me/teams/{team}/channels/members")
        self.memory.joined.update(member["channel_id"] for member in found)

    def learn_channel(self, channel: str) -> Channel:
        """Return a channel, and load it if the client does not know it yet."""
        if channel not in self.memory.channels:
            self.memory.learn_channels([self.get("channel", f"/channels/{channel}")])
        return self.memory.channels[channel]

    def ask_unread(self, *, threads: bool = True) -> None:
        self.get("unread", "/users/me/teams/unread" + ("?include_collapsed_threads=true" if threads else ""))

    def list_users(self) -> list[str]:
        """List the first hundred users, as the dialogue for new conversations does."""
        return self.memory.learn_users(self.get("users", "/users?page=0&per_page=100"))

    def complete_user(self, part: str, where: str, typed: str, most: int) -> list[str]:
        """Return the ids of users whose names begin with `typed`, and load their pictures."""
        path = f"/users/autocomplete?{where}&name={quote(typed)}&limit={most}"
        found = self.get(part, path)
        users = [user["id"] for user in (*(found["users"] or ()), *(found.get("out_of_channel") or ()))]
        self.show_pictures(users)
        return users

    def learn_users(self, part: str, users: Iterable[str]) -> None:
        self.memory.learn_users(self.post(part, "/users/ids", list(users)))

    def learn_statuses(self, part: str, users: Iterable[str]) -> None:
        for status in self.post(part, "/users/status/ids", list(users)):
            self.memory.statuses.put(status["user_id"], status["status"])

    def direct_shown(self) -> list[str]:
        """Conversations that were marked as shown when the client was loaded."""
        return [name for category, name in self.memory.preferences if category == DIRECT_SHOWN]

    def load(self) -> None:
        """Load everything that a client loads when it starts or its page is reloaded.

        Raises Refused, and LookupError for a user without a team.
        """
        self.list_users()
        found = self.get("preferences", "/users/me/preferences")
        self.memory.preferences = [(entry["category"], entry["name"]) for entry in found]
        for category, name in self.memory.preferences:
            if category == GROUP_SHOWN:
                self.memory.learn_users(self.get("group_members", f"/users?in_channel={name}&page=0&per_page=8"))
        if self.channel is not None:
            self.mark_viewed("viewed", self.channel)
        self.learn_settings()
        self.get("me", "/users/me")
        self.get("plugins", "/plugins/webapp")
        self.get("all_teams", "/teams?page=0&per_page=50")
        self.memory.teams = {team["id"]: team["name"] for team in self.get("teams", "/users/me/teams")}
        if not self.memory.teams:
            raise LookupError(f"{self.account.username} is a member of no team")
        if self.team:
            self.get("team_members", "/users/me/teams/members")
            self.learn_channels(self.team)
            self.learn_memberships(self.team)
            self.memory.learn_channels(self.get("all_channels", "/users/me/channels?last_delete_at=0"))
        self.ask_unread(threads=False)
        others = self.direct_shown()
        if others:
            self.learn_users("shown_users", others)
            self.learn_statuses("shown_statuses", others)
        self.get("status", "/users/me/status")
        if self.channel is not None:
            self.learn_numbers(self.channel)
            self.get("channel_unread", f"/users/me/channels/{self.channel.id}/unread")

    def load_team(self, team: str) -> None:
        path = f"/users/me/teams/{team}"
        self.learn_channels(team)
        self.learn_memberships(team)
        self.ask_unread()
        self.get("threads", f"{path}/threads?totalsOnly=true")
        self.learn_categories(team)
        self.learn_statuses("own_status", [self.user])

    def learn_categories(self, team: str) -> None:
        found = self.get("categories", f"/users/{self.user}/teams/{team}/channels/categories")
        self.memory.categories[team] = found["categories"]

    def learn_numbers(self, channel: Channel, *, files: bool = False) -> None:
        path = f"/channels/{channel.id}/stats?exclude_files_count={str(not files).lower()}"
        channel.members = self.get("stats", path)["member_count"]

    def mark_viewed(self, part: str, channel: Channel, before: str = "") -> None:
        viewed = {"channel_id": channel.id, "prev_channel_id": before, "collapsed_threads_supported": True}
        self.post(part, "/channels/members/me/view", viewed)
        channel.seen_ms = int(time.time()) * 1000

    def learn(self, posts: Sequence[Post]) -> None:
        """Load what a client shows with posts: attached pictures, what it does not know about the writers, all writers'
        pictures, and mentioned users. Raises Refused.
        """
        for file, has_preview in [picture for post in posts for picture in post.pictures]:
            self._ask("GET", "thumbnails", f"/files/{file}/thumbnail")
            if has_preview:
                self._ask("GET", "previews", f"/files/{file}/preview")
        writers = list(dict.fromkeys(post.user for post in posts))
        without_status = [writer for writer in writers if writer not in self.memory.statuses]
        if without_status:
            self.learn_statuses("writer_statuses", without_status)
        unknown = [writer for writer in writers if writer not in self.memory.users]
        if unknown:
            self.learn_users("writers", unknown)
        self.show_pictures(writers)
        mentioned = list(dict.fromkeys(filter(None, (post.mentions for post in posts))))
        if mentioned:
            self.memory.learn_users(self.post("mentioned", "/users/usernames", mentioned))

    def show_pictures(self, users: Iterable[str]) -> None:
        """Request users' pictures with the ETags that the client has; mostly they have not changed."""
        for user in users:
            have = {"If-None-Match": self._pictures.get(user, "0")}
            response = self._ask("GET", "pictures", f"/users/{user}/image", have)
            self._pictures[user] = response.headers.get("Etag") or "0"

    def choose_post(self, *, own: bool = False) -> Post | None:
        """Choose a known post of the current channel that a user wrote."""
        posts = self.memory.posts_of(self.channel)
        found = [post for post in posts if not post.kind and (not own or post.user == self.user)]
        return self.chance.choice(found) if found else None

    # --- the user's own posts --------------------------------------------------------------------------------

    def await_delivery(self, pending: str) -> None:
        """Time from now until the websocket announces the user's own post."""
        if self._socket is not None:
            self._socket.await_post(pending, self._delivered)

    def _delivered(self, seconds: float) -> None:
        self.recorder.records.add("post/delivery", recording.EVENT, seconds)

    def _count_overdue(self) -> None:
        """Record posts that the websocket did not announce in time."""
        if self._socket is not None:
            for _ in range(self._socket.overdue(self.plan.request_timeout_s)):
                self.recorder.records.fail("post/delivery", recording.TIMEOUT, "no event told of a post")
