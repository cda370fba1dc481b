"""The study's keys for the load of load_test: what users do and how often, their number, and what limits them."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from benchstudy.model.names import Listed, Name, nearest, require_known
from benchstudy.model.strict import Strict
from benchstudy.model.units import DurationField, DurationText, PercentText, parse_duration, parse_percent

WINDOW = "{{window}}"  # in a query: the alert's window, such as 60s
_SHORTEST_STEP_S = 1.0  # Locust adjusts its users once a second
_FEWEST_CHECKS = 5  # in a window, for a slope

# Relative rates of a user's actions, as in Mattermost's own load test. Left out, 0.01 % in all: an administrator's
# reports, posts that ask for acknowledgement (they need a licence), and changes of bookmarks. Drafts exist in the newer
# load test only; all other rates are the same in both.
ORIGINAL_ACTIONS: Mapping[str, float] = {
    "view_channel": 6.5219,
    "read_older": 1.9873,
    "check_unread": 1.0,
    "post": 1.0,
    "open_direct": 0.9843,
    "view_threads": 0.6023,
    "mark_thread_read": 0.3236,
    "open_permalink": 0.3,
    "read_thread": 0.2841,
    "reconnect": 0.144,
    "react": 0.1306,
    "edit_post": 0.04,
    "search_users": 0.032,
    "view_profile": 0.03,
    "search_posts": 0.0218,
    "search_channels": 0.015,
    "start_direct": 0.0055,
    "join_channel": 0.0049,
    "delete_post": 0.0049,
    "reload": 0.0008,
    "log_in_again": 0.0006,
    "switch_team": 0.0001,
    "search_conversations": 0.0204,
    "unfollow_thread": 0.005,
    "move_channel": 0.004,
    "start_group": 0.0029,
    "set_custom_status": 0.0028,
    "clear_custom_status": 0.0026,
    "remind_of_post": 0.0005,
    "follow_thread": 0.0005,
    "create_private_channel": 0.0002,
    "create_public_channel": 0.0001,
    "create_category": 0.0001,
    "mark_all_threads_read": 0.0001,
    "delete_draft": 1.41,
    "write_draft": 0.504,
    "list_drafts": 0.037,
}


def _share(value: Any) -> float:
    """Parse "2.5 %" to 0.025; a bare number stays as it is."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    share = parse_percent(value)
    if share is None:
        raise ValueError(f'{value!r} is not a share: write it as "2.5 %"')
    return share


ShareField = Annotated[float, BeforeValidator(_share, json_schema_input_type=PercentText | float)]


def _threshold(value: Any) -> float:
    """Parse "2.5 %" to 0.025 and "100ms" to 0.1; a bare number stays as it is."""
    try:
        return _share(value)
    except ValueError:
        try:
            return parse_duration(value)
        except ValueError:
            raise ValueError(f'{value!r} is not a threshold: write "2.5 %", "100ms", or a number') from None


class ThinkTime(Strict):
    """Time between two actions of a user, uniformly distributed from `least` to 2 × `mean` - `least`."""

    least: DurationField = 1.0
    mean: DurationField = 20.0

    @model_validator(mode="after")
    def _in_order(self) -> "ThinkTime":
        if not 0 <= self.least <= self.mean or self.mean <= 0:
            raise ValueError(f"think_time: least: {self.least:g} s is not between 0 and mean {self.mean:g} s")
        return self


class Behaviour(Strict):
    """Behaviour of each simulated user: it logs in, keeps a websocket open, and does one action after another.

    The loop is closed: a user waits for each answer and then thinks, so a slow server gets fewer requests.
    """

    actions: dict[Annotated[str, Listed(lambda: ORIGINAL_ACTIONS)], float] = Field(
        dict(ORIGINAL_ACTIONS), description="relative rates of the actions; actions left out are never done"
    )
    think_time: ThinkTime = ThinkTime()
    # Keys of JSON, in which studies are stored, are texts.
    rates: dict[Annotated[float, Field(strict=False)], ShareField] = Field(
        {1.0: 1.0},
        description="how slow users are: each key is a factor of think times, and its value the share of such users",
    )
    pauses: float = Field(
        1.0,
        ge=0,
        description="factor of the pauses within an action: 1 s to 10 s between pages, 0.1 s to 0.3 s per letter",
    )
    like: Literal["server", "v1.19.0", "v1.23.0"] = Field(
        "server",
        description="release of Mattermost's load test to imitate; `server`: v1.23.0 from server 10.0 on, else v1.19.0",
    )
    replies: ShareField = Field(0.18, ge=0, le=1, description="share of the posts that are replies")
    uploads: ShareField = Field(0.02, ge=0, le=1, description="share of the posts with one to four files")
    request_timeout: DurationField = Field(30.0, description="time after which a request counts as timed out")
    arrival: DurationField = Field(
        120.0, description="bounded loads: time after the ramp by which all users must be logged in, or the load fails"
    )
    workers: int = Field(1, ge=1, le=64, description="Locust processes per load host; each uses up to one processor")
    seed: int = Field(
        1, description="seed of the users' choices, combined with the block: all cases of a block get the same choices"
    )

    @model_validator(mode="after")
    def _known_actions(self) -> "Behaviour":
        for action, rate in self.actions.items():
            require_known(action, ORIGINAL_ACTIONS, f"actions: there is no {action!r}")
            if rate < 0:
                raise ValueError(f"actions.{action}: {rate} is below zero")
        if sum(self.actions.values()) <= 0:
            raise ValueError("actions: at least one must have a rate above zero")
        if min(self.rates, default=0) <= 0 or not math.isclose(sum(self.rates.values()), 1):
            raise ValueError("rates: give factors above zero, and shares that add up to 100 %")
        if self.request_timeout <= 0:
            raise ValueError("request_timeout: give a time above zero")
        return self


class Alert(Strict):
    """A value with an upper bound. A value above the bound means that there are too many users."""

    above: Annotated[float, BeforeValidator(_threshold, json_schema_input_type=PercentText | DurationText | float)] = (
        Field(ge=0, description='the bound: "2.5 %", "100ms", or a number')
    )
    query: str | None = Field(
        None, description="PromQL with {{window}}, whose first value counts; not needed for a known alert"
    )
    ignore_first: DurationField | None = Field(
        None, description="time after the start of the load in which it is ignored; defaults to the rule's"
    )


# From the users' own statistics.
CLIENT_ALERTS = ("client_mean", "client_p99", "client_errors")
# From Prometheus, whose jobs are named server and node. Without any failure the value must be 0, not missing.
QUERIES: Mapping[str, str] = {
    "server_errors": '(sum(rate(mattermost_api_time_count{job="server",status_code=~"5.."}[{{window}}])) or vector(0))'
    ' / sum(rate(mattermost_api_time_count{job="server"}[{{window}}]))',
    "cpu": '1 - avg(rate(node_cpu_seconds_total{job="node",mode="idle"}[{{window}}]))',
    "memory": '1 - avg(node_memory_MemAvailable_bytes{job="node"} / node_memory_MemTotal_bytes{job="node"})',
    "tcp_retransmits": 'avg(rate(node_netstat_Tcp_RetransSegs{job="node"}[{{window}}]))'
    ' / avg(rate(node_netstat_Tcp_OutSegs{job="node"}[{{window}}]))',
}
_ORIGINAL_ALERTS: Mapping[str, float] = {
    "server_errors": 0.025,
    "client_mean": 0.1,
    "client_p99": 2.0,
    "client_errors": 0.025,
    "cpu": 0.85,
    "memory": 0.85,
    "tcp_retransmits": 0.005,
}


def _alert(value: Any) -> Any:
    """`cpu: 85 %` is short for `cpu: {above: 85 %}`."""
    return value if isinstance(value, Mapping | Alert) else {"above": value}


class Rule(Strict):
    """The feedback rule of an unbounded load: each check removes a step of users if an alert is on, else adds one.

    From the first alert on, the number of users is recorded. When the least-squares line through a whole window of it
    is flat enough, the load is over, and the mean of that window is the number of users that the system supports.
    """

    max_users: int = Field(
        ge=1, description="maximum number of users; a load that stays there is not limited by the system"
    )
    step: int = Field(8, ge=1, description="users that a check adds or removes")
    every: DurationField = Field(2.0, description="time between checks")
    slope: float = Field(
        0.2, gt=0, description="users/s: a window is flat if its least-squares slope is closer to zero than this"
    )
    window: DurationField = Field(1800.0, description="window that must be flat for a result")
    ignore_first: DurationField = Field(
        60.0, description="time after the start of the load in which alerts are ignored"
    )
    alert_window: DurationField = Field(60.0, description="window of the alerts' rates, means and percentiles")
    at_most: DurationField = Field(4 * 3600.0, description="time after which the load ends without a result")
    alerts: dict[
        Name,
        Annotated[Alert, BeforeValidator(_alert, json_schema_input_type=Alert | PercentText | DurationText | float)],
    ] = Field({name: Alert(above=above) for name, above in _ORIGINAL_ALERTS.items()}, min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> "Rule":
        known = (*CLIENT_ALERTS, *QUERIES)
        for name, alert in self.alerts.items():
            if alert.query is None and name not in known:
                raise ValueError(
                    f"alerts.{name}: this is not a known alert, so it needs a query; {nearest(name, known)}"
                )
        if self.step > self.max_users:
            raise ValueError(f"step: {self.step} is above max_users {self.max_users}")
        if self.every < _SHORTEST_STEP_S:
            raise ValueError(f"every: {self.every:g} s is below 1 s, in which Locust adjusts its users")
        if self.window < _FEWEST_CHECKS * self.every:
            raise ValueError(f"window: {self.window:g} s holds fewer than {_FEWEST_CHECKS} steps of {self.every:g} s")
        if self.at_most <= self.window:
            raise ValueError(f"at_most: {self.at_most:g} s must be above window {self.window:g} s")
        if self.alert_window <= 0:
            raise ValueError("alert_window: give a time above zero")
        return self

    @property
    def start_up(self) -> float:
        """Seconds before a window may begin: until then alerts are ignored, or their windows contain logins."""
        ignored = (self.ignore_first if a.ignore_first is None else a.ignore_first for a in self.alerts.values())
        return max(ignored) + self.alert_window

    def query(self, name: str) -> str | None:
        """The PromQL of an alert with its window filled in; None for an alert on client statistics."""
        query = self.alerts[name].query or QUERIES.get(name)
        return query and query.replace(WINDOW, f"{self.alert_window:g}s")


class LoadLevel(Strict):
    """One level of the factor load: a fixed number of users (bounded), or the number that a rule finds (unbounded)."""

    name: Name
    users: int | None = Field(None, ge=1, description="bounded: number of users at the same time")
    ramp: DurationField = Field(30.0, description="bounded: time over which users begin, evenly spread")
    duration: DurationField | None = Field(
        None, description="bounded: length of the load from when every user is active"
    )
    rule: Rule | None = Field(None, description="unbounded: the feedback rule")
    blocks: int | None = Field(
        None, ge=1, description="number of blocks, from the first, that measure this load; defaults to all"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "LoadLevel":
        if self.rule is not None:
            if self.users is not None or self.duration is not None or "ramp" in self.model_fields_set:
                raise ValueError(
                    f"load {self.name}: users, ramp and duration are for bounded loads; it has a rule: remove either"
                )
        elif self.users is None or not self.duration:
            raise ValueError(f"load {self.name}: give users and duration (bounded), or rule (unbounded)")
        return self

    @property
    def is_bounded(self) -> bool:
        return self.rule is None

    @property
    def most_users(self) -> int:
        return self.rule.max_users if self.rule else self.users or 0

    @property
    def longest_s(self) -> float:
        """The longest possible load in s, without the time that users need to come and go."""
        return self.rule.at_most if self.rule else self.ramp + (self.duration or 0.0)
