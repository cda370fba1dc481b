"""Heartbeats to one agent, each matched with its own answer, however late that comes."""

import json
import time
from collections.abc import Mapping
from typing import Any


class Heartbeats:
    """Numbers the heartbeats of one line. Without numbers, a late answer would count for the question after its own:
    the host's clock would seem to have jumped by the delay, and a lock to be held that is lost.
    """

    def __init__(self) -> None:
        self._sent: dict[int, float] = {}
        self.last = 0  # the number of the last question

    def question(self, **asked: Any) -> bytes:
        """The next heartbeat as a line for the agent, sent at once."""
        self.last += 1
        self._sent[self.last] = time.time()
        return json.dumps({"beat": self.last, **asked}).encode()

    def sent(self, answer: Mapping[str, Any]) -> float:
        """When the question of an answer was sent, in Unix seconds. Raises ValueError for an answer to none."""
        number = answer["beat"]
        if number not in self._sent:
            raise ValueError(f"it answers the heartbeat {number!r}, which was not sent or is answered already")
        sent = self._sent[number]
        # Answers come in the order of their questions, so what is left of earlier ones was lost with a connection.
        self._sent = {later: at for later, at in self._sent.items() if later > number}
        return sent
