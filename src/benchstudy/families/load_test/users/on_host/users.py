"""A simulated user, as Locust starts and stops it, and the accounts that the users of a worker go by."""

from __future__ import annotations

import heapq
import logging
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import gevent
from gevent.event import Event
from locust import FastHttpUser, task
from locust.exception import StopUser

from . import actions, recording
from .plan import Account, Plan
from .recording import Recorder
from .session import Refused, Session
from .thinking import first_think_s, think_s

_RETRY_S = (1.0, 5.0)  # after a failed login, and between attempts to get a broken websocket back
_STATUSES_EVERY_S = 60.0  # a client asks for the statuses of those it knows
_STATUSES_AT_ONCE = 60

log = logging.getLogger(__name__)


class Accounts:
    """Of one worker: every so many-th of all accounts, the first free one first, so that runs are alike."""

    def __init__(self, accounts: tuple[Account, ...], worker: int, workers: int):
        self._free = list(range(worker, len(accounts), workers))
        self._accounts = accounts
        self._released = Event()

    def take(self) -> tuple[int, Account]:
        """(number, account), as soon as one is free: who leaves ends what it was doing first."""
        while not self._free:
            self._released.clear()
            self._released.wait()
        number = heapq.heappop(self._free)
        return number, self._accounts[number]

    def give_back(self, number: int) -> None:
        heapq.heappush(self._free, number)
        self._released.set()


class MattermostUser(FastHttpUser):
    """Lives in a greenlet of its own: when Locust stops the user, it ends its action first, and leaves politely."""

    plan: Plan
    recorder: Recorder
    accounts: Accounts

    def on_start(self) -> None:
        self._leaving = Event()
        self._life = gevent.spawn(self._live)

    def on_stop(self) -> None:
        self._leaving.set()

    @task
    def live(self) -> None:
        self._life.join()
        raise StopUser  # nothing follows on a life

    # --- the user's life -------------------------------------------------------------------------------------

    def _live(self) -> None:
        number, account = self.accounts.take()
        self.chance = random.Random(f"{self.plan.seed}/{account.username}")
        # Of what a browser would keep: no cookies, the token is sent in a header.
        self.client.client.cookiejar = None
        self.session = Session(self.client, self.plan, self.recorder, account, self.chance)
        ready = False
        try:
            ready = self._arrive()
            self.recorder.ready += ready
            self._statuses_at = time.monotonic() + _STATUSES_EVERY_S
            times = self.plan.think_least_s, self.plan.think_mean_s
            self._wait(first_think_s(self.chance, *times))
            names, weights = list(self.plan.actions), list(self.plan.actions.values())
            while not self._leaving.is_set():
                self._act_as(self.chance.choices(names, weights)[0])
                self._ask_for_statuses()
                self._wait(think_s(self.chance, *times))
        finally:
            self.recorder.ready -= ready
            self.session.disconnect()
            self.client.client.close()
            self.accounts.give_back(number)

    def _wait(self, seconds: float) -> None:
        self._leaving.wait(seconds)

    def _arrive(self) -> bool:
        """Log in, connect, load, look at a channel; again until it works. Whether it did before the user had to go."""
        while not self._leaving.is_set():
            if self._act_as("log_in", self._log_in):
                return True
            self._wait(self.chance.uniform(*_RETRY_S))
        return False

    def _act_as(self, action: str, do: Callable[[], None] | None = None) -> bool:
        """Whether it went well; if not, that is recorded, and the user goes on."""
        self.session.action = action
        try:
            (do or partial(self._act, action))()
        except Refused as refused:
            log.debug("%s of %s: %s", action, self.session.account.username, refused)
            return False
        except Exception as error:
            log.exception("%s of %s", action, self.session.account.username)
            self.recorder.records.fail(f"{action}/client", recording.UNEXPECTED, f"{type(error).__name__}: {error}")
            return False
        return True

    def _act(self, action: str) -> None:
        session = self.session
        if action == "reconnect":
            session.disconnect()
            session.connect(self._socket_broke)
        elif action == "reload":
            session.disconnect()
            session.channels.clear()
            session.connect(self._socket_broke)
            session.load()
            actions.view_channel(session)
        elif action == "log_in_again":
            session.log_out()
            self._log_in()
        else:
            actions.ACTIONS[action](session)

    def _log_in(self) -> None:
        session = self.session
        session.disconnect()
        session.log_in()
        session.connect(self._socket_broke)
        session.load()
        actions.view_channel(session)
        if session.channel is None:
            raise LookupError(f"{session.account.username} is a member of no channel")

    def _ask_for_statuses(self) -> None:
        self.session.count_overdue()
        if time.monotonic() > self._statuses_at:
            self._statuses_at = time.monotonic() + _STATUSES_EVERY_S
            known = sorted(self.session.known_users)[:_STATUSES_AT_ONCE]
            self._act_as("statuses", lambda: self.session.post("statuses", "/users/status/ids", known))

    # --- the websocket broke ---------------------------------------------------------------------------------

    def _socket_broke(self, why: str) -> None:
        self.recorder.records.fail("connection/websocket", recording.DROPPED, why)
        self.session.lost_socket()
        gevent.spawn(self._connect_again)

    def _connect_again(self) -> None:
        """As a client does by itself, whatever its user is doing."""
        while not self._leaving.is_set():
            self._wait(self.chance.uniform(*_RETRY_S))
            if self._leaving.is_set() or self.session.is_connected:
                return
            with suppress(Refused):
                self.session.connect(self._socket_broke)


def known_actions() -> set[str]:
    """Names that a plan may give."""
    return {*actions.ACTIONS, "reconnect", "reload", "log_in_again"}


def refuse_unknown(plan: Plan) -> None:
    unknown = sorted(set(plan.actions) - known_actions())
    if unknown:
        sys.exit(f"no such action: {', '.join(unknown)}")
