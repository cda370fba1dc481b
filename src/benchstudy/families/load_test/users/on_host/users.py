"""A simulated user that Locust starts and stops, and the accounts of a worker's users."""

from __future__ import annotations

import heapq
import importlib
import logging
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import gevent
from gevent.event import Event
from locust import FastHttpUser, task
from locust.exception import StopUser

from . import recording
from .plan import Account, Plan
from .recording import Recorder, Refused
from .thinking import first_think_s, pace_of, think_s

_RETRY_S = (1.0, 5.0)  # after a failed login

log = logging.getLogger(__name__)


class Session(Protocol):
    """One user's state and connections. Requests are named `action`/part."""

    action: str

    def due(self) -> tuple[str, Callable[[], None]] | None:
        """The next task of the client itself between two actions, and its name; None if nothing is due."""

    def disconnect(self) -> None:
        """Close the connections when the user has left."""


def system_of(plan: Plan) -> Any:
    """Import the package of the plan's system.

    It has the class `Session`, and the functions `log_in` and `ACTIONS` (by name). They take a session, and raise
    Refused if a request fails. `may` tells whether a session's user does an action at all.

    Ends the process if the plan has an action that the package lacks.
    """
    system = importlib.import_module(f".{plan.system}", __package__)
    unknown = sorted(set(plan.actions) - set(system.ACTIONS))
    if unknown:
        sys.exit(f"no such action: {', '.join(unknown)}")
    return system


class Accounts:
    """Accounts of one worker: every n-th of all. The first free one is taken first, so that runs are alike."""

    def __init__(self, accounts: tuple[Account, ...], worker: int, workers: int):
        self._free = list(range(worker, len(accounts), workers))
        self._accounts = accounts
        self._released = Event()

    def take(self) -> tuple[int, Account]:
        """Return (number, account) as soon as one is free: users that leave first end what they are doing."""
        while not self._free:
            self._released.clear()
            self._released.wait()
        number = heapq.heappop(self._free)
        return number, self._accounts[number]

    def give_back(self, number: int) -> None:
        heapq.heappush(self._free, number)
        self._released.set()


class SimulatedUser(FastHttpUser):
    """A user in its own greenlet. When Locust stops it, it ends its action and then disconnects."""

    system: Any  # see system_of
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
        raise StopUser  # a user lives once

    # --- the user's life -------------------------------------------------------------------------------------

    def _live(self) -> None:
        number, account = self.accounts.take()
        self.account, self.chance = account, random.Random(f"{self.plan.seed}/{account.username}")
        # Unlike a browser, the user keeps no cookies; it sends the token in a header.
        self.client.client.cookiejar = None
        self.session: Session = self.system.Session(
            self.client, self.plan, self.recorder, account, self.chance, self._leaving
        )
        ready = False
        try:
            ready = self._arrive()
            self.recorder.ready += ready
            pace = pace_of(self.chance, self.plan.rates)
            times = pace * self.plan.think_least_s, pace * self.plan.think_mean_s
            self._wait(first_think_s(self.chance, *times))
            rates = {name: rate for name, rate in self.plan.actions.items() if self.system.may(self.session, name)}
            names, weights = list(rates), list(rates.values())
            while not self._leaving.is_set():
                action = self.chance.choices(names, weights)[0]
                self._act_as(action, partial(self.system.ACTIONS[action], self.session))
                due = self.session.due()
                if due is not None:
                    self._act_as(*due)
                self._wait(think_s(self.chance, *times))
        finally:
            self.recorder.ready -= ready
            self.session.disconnect()
            self.client.client.close()
            self.accounts.give_back(number)

    def _wait(self, seconds: float) -> None:
        self._leaving.wait(seconds)

    def _arrive(self) -> bool:
        """Try to log in until it works. Return whether it did before the user had to leave."""
        while not self._leaving.is_set():
            if self._act_as("log_in", partial(self.system.log_in, self.session)):
                return True
            self._wait(self.chance.uniform(*_RETRY_S))
        return False

    def _act_as(self, action: str, do: Callable[[], None]) -> bool:
        """Do an action and return whether it worked. A failure is recorded, and the user continues."""
        self.session.action = action
        try:
            do()
        except Refused as refused:
            log.debug("%s of %s: %s", action, self.account.username, refused)
            return False
        except Exception as error:
            log.exception("%s of %s", action, self.account.username)
            self.recorder.records.fail(f"{action}/client", recording.UNEXPECTED, f"{type(error).__name__}: {error}")
            return False
        return True
