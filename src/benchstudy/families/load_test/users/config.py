"""What a study says about the load of load_test: what users do and how often, how many there are, what limits them."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from benchstudy.model.names import Listed, Name, nearest, require_known
from benchstudy.model.strict import Strict
from benchstudy.model.units import DurationField, DurationText, PercentText, parse_duration, parse_percent

WINDOW = "{{window}}"  # in a query: the time that an alert looks back over, such as 60s
_SHORTEST_STEP_S = 1.0  # Locust adjusts its users once a second
_FEWEST_CHECKS = 5  # in a window, for a slope

# How often a user of Mattermost does what, in relation: the simulated user of Mattermost's own load test, but for
# reports (an administrator's), posts that ask to be acknowledged (with a licence), and changes of bookmarks: 0.01 %.
# Drafts are the newer load test's, and the rates are the same in both otherwise.
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
    """0.025 of "2.5 %"; a bare number stays what it is."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    share = parse_percent(value)
    if share is None:
        raise ValueError(f'{value!r} is not a share: write it as "2.5 %"')
    return share


ShareField = Annotated[float, BeforeValidator(_share, json_schema_input_type=PercentText | float)]


def _threshold(value: Any) -> float:
    """0.025 of "2.5 %", 0.1 of "100ms"; a bare number stays what it is."""
    try:
        return _share(value)
    except ValueError:
        try:
            return parse_duration(value)
        except ValueError:
            raise ValueError(f'{value!r} is no threshold: write "2.5 %", "100ms", or a number') from None


class ThinkTime(Strict):
    """Between two actions of a user: uniformly distributed from `least` to 2 × `mean` - `least`."""

    least: DurationField = 1.0
    mean: DurationField = 20.0

    @model_validator(mode="after")
    def _in_order(self) -> "ThinkTime":
        if not 0 <= self.least <= self.mean or self.mean <= 0:
            raise ValueError(f"think_time: least: {self.least:g} s is not between 0 and mean {self.mean:g} s")
        return self


class Behaviour(Strict):
    """What each simulated user does: log in, hold a websocket open, and one action after another, with time to think.

    The loop is closed: a user waits for an answer before it goes on, so that a slow server is asked less.
    """

    actions: dict[Annotated[str, Listed(lambda: ORIGINAL_ACTIONS)], float] = Field(
        dict(ORIGINAL_ACTIONS), description="how often, in relation to each other; those left out are never done"
    )
    think_time: ThinkTime = ThinkTime()
    rates: dict[float, ShareField] = Field(
        {1.0: 1.0},
        description="how slow users are: a factor of their think times, and the share of the users that it is for",
    )
    pauses: float = Field(
        1.0,
        ge=0,
        description="factor of the pauses within an action: 1 s to 10 s between pages, 0.1 s to 0.3 s a letter",
    )
    like: Literal["server", "v1.19.0", "v1.23.0"] = Field(
        "server",
        description="Mattermost's load test whose users they act like; `server`: v1.23.0 from 10.0 on, else v1.19.0",
    )
    replies: ShareField = Field(0.18, ge=0, le=1, description="share of the posts that answer another one")
    uploads: ShareField = Field(0.02, ge=0, le=1, description="share of the posts with files, one to four of them")
    request_timeout: DurationField = Field(30.0, description="after this a request counts as timed out")
    arrival: DurationField = Field(
        120.0, description="of a bounded load: so long after the ramp all users must have logged in, or it has failed"
    )
    workers: int = Field(1, ge=1, le=64, description="Locust processes on each load host; one uses one processor")
    seed: int = Field(1, description="of what users choose; with the block: all cases of a block choose alike")

    @model_validator(mode="after")
    def _known_actions(self) -> "Behaviour":
        for action, rate in self.actions.items():
            require_known(action, ORIGINAL_ACTIONS, f"actions: there is no {action!r}")
            if rate < 0:
                raise ValueError(f"actions.{action}: {rate} is below zero")
        if sum(self.actions.values()) <= 0:
            raise ValueError("actions: at least one must have a rate above zero")
        if min(self.rates, default=0) <= 0 or not math.isclose(sum(self.rates.values()), 1):
            raise ValueError("rates: give factors above zero, and shares that are 100 % in all")
        if self.request_timeout <= 0:
            raise ValueError("request_timeout: give a time above zero")
        return self


class Alert(Strict):
    """Something that must not be above a bound, or there are too many users."""

    above: Annotated[float, BeforeValidator(_threshold, json_schema_input_type=PercentText | DurationText | float)] = (
        Field(ge=0, description='"2.5 %", "100ms", or a number')
    )
    query: str | None = Field(
        None, description="PromQL with {{window}}, of which the first value counts; left out for a known alert"
    )
    ignore_first: DurationField | None = Field(None, description="after the load began; the rule's when left out")


# From the statistics of the users themselves.
CLIENT_ALERTS = ("client_mean", "client_p99", "client_errors")
# From Prometheus, where the jobs are called server and node. No failures at all is no reason to have no value.
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
    """The feedback rule of an unbounded load: every so often a step fewer users if there is an alert, else a step more.

    From the first alert on users are counted. When the straight line through a whole window of them is flat enough the
    load is over, and their mean is the number of users that the system supports.
    """

    max_users: int = Field(ge=1, description="never more; a load that stays there is not limited by the system")
    step: int = Field(8, ge=1)
    every: DurationField = 2.0
    slope: float = Field(0.2, gt=0, description="users/s: flat enough is a least-squares slope nearer to zero")
    window: DurationField = 1800.0
    ignore_first: DurationField = Field(60.0, description="of each alert, after the load began")
    alert_window: DurationField = Field(60.0, description="what alerts look back over: rates, means, percentiles")
    at_most: DurationField = Field(4 * 3600.0, description="then the load is over without a result")
    alerts: dict[
        Name,
        Annotated[Alert, BeforeValidator(_alert, json_schema_input_type=Alert | PercentText | DurationText | float)],
    ] = Field({name: Alert(above=above) for name, above in _ORIGINAL_ALERTS.items()}, min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> "Rule":
        known = (*CLIENT_ALERTS, *QUERIES)
        for name, alert in self.alerts.items():
            if alert.query is None and name not in known:
                raise ValueError(f"alerts.{name}: no such alert is known, so it needs a query; {nearest(name, known)}")
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
        """Until then alerts are ignored, or look back at users who log in: no window begins before."""
        ignored = (self.ignore_first if a.ignore_first is None else a.ignore_first for a in self.alerts.values())
        return max(ignored) + self.alert_window

    def query(self, name: str) -> str | None:
        """The PromQL of an alert with its window filled in; None for one of the client's own."""
        query = self.alerts[name].query or QUERIES.get(name)
        return query and query.replace(WINDOW, f"{self.alert_window:g}s")


class Load(Strict):
    """One level of the factor load: so many users for so long (bounded), or as many as a rule finds (unbounded)."""

    name: Name
    users: int | None = Field(None, ge=1, description="bounded: so many at once")
    ramp: DurationField = Field(30.0, description="bounded: users begin evenly spread over this")
    duration: DurationField | None = Field(None, description="bounded: from when every user is at work")
    rule: Rule | None = Field(None, description="unbounded")

    @model_validator(mode="after")
    def _one_kind(self) -> "Load":
        if self.rule is not None:
            if self.users is not None or self.duration is not None or "ramp" in self.model_fields_set:
                raise ValueError(f"load {self.name}: users, ramp and duration are of a bounded load; it has a rule")
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
        """Without the time that users need to come and go."""
        return self.rule.at_most if self.rule else self.ramp + (self.duration or 0.0)
