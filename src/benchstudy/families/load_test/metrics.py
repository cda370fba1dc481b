"""The metrics of a trial of load_test, over the steady part of its window."""

from benchstudy.model.metrics import Metric, declare

_GROUPS = {"api": "API", "store": "Store"}
_MEANS = "mean over the window"
_HOST = "share of the processors, or of the memory, of the server's host that is in use"
_RULE = "unbounded loads only: the rule's result, if it settled between a load that passed and one that failed"
_BRACKET = (
    "unbounded loads that settled: `high` is the smallest number of users in the window at which an alert began, and "
    "`low` the largest number below that without an alert"
)
_RATE = (
    "calls per second, as PromQL's `rate` computes it: unlike the number of calls, it leaves out calls before the "
    "first scrape of a series, such as the first call of a method"
)
_CLIENT = "as seen by the users"

METRICS = declare(
    Metric("supported_users", "1", "Supported users", "higher", _RULE, primary=True, tells="capacity"),
    Metric("users_low", "1", "Bracket of users, lower end", "higher", _BRACKET, tells="bracket"),
    Metric("users_high", "1", "Bracket of users, upper end", "higher", _BRACKET, tells="bracket"),
    Metric(
        "swing",
        "1",
        "Swing of the number of users",
        None,
        "unbounded loads only: largest minus smallest number of users in the window, divided by the mean",
        tells="search",
    ),
    Metric(
        "slope",
        "1/s",
        "Slope of the number of users",
        None,
        "unbounded loads only: slope of the straight line through the numbers of users that ended the load",
        tells="search",
        signed=True,
    ),
    Metric(
        "at_maximum",
        "1",
        "Ended at the maximum number of users",
        None,
        "unbounded loads only: 1 if the load ended at its `max_users`",
        tells="search",
    ),
    *(
        Metric(
            f"{group}_mean",
            "s",
            f"{title} times",
            "lower",
            "total time of all calls divided by their number: exact",
            primary=True,
        )
        for group, title in _GROUPS.items()
    ),
    *(
        Metric(
            f"{group}_p99",
            "s",
            f"{title} times, p99",
            "lower",
            "as PromQL's `histogram_quantile`: linear within a bucket; absent with fewer calls than its interval needs",
        )
        for group, title in _GROUPS.items()
    ),
    *(
        Metric(
            f"{group}_p99_{edge}",
            "s",
            f"{title} times, p99, {edge}",
            None,
            "edges of the bucket that holds the p99: nothing finer is known. The last bucket has no `high`",
        )
        for group, title in _GROUPS.items()
        for edge in ("low", "high")
    ),
    *(
        Metric(f"{group}_calls", "1", f"{title} calls", None, "calls that the server counted")
        for group, title in _GROUPS.items()
    ),
    *(Metric(f"{group}_rate", "1/s", f"{title} calls per second", "higher", _RATE) for group, title in _GROUPS.items()),
    Metric("rps", "1/s", "Requests per second", "higher", "HTTP requests per second that the server counted"),
    Metric("cpu", "1", "CPU", "lower", "number of processors that the server keeps busy"),
    Metric("heap", "B", "Heap", "lower", _MEANS),
    Metric("stack", "B", "Stack", "lower", _MEANS),
    Metric("goroutines", "1", "Goroutines", "lower", _MEANS),
    Metric("devices", "1", "Devices", "higher", "open websockets, mean over the window"),
    Metric("server_error_share", "1", "Server errors", "lower", "share of responses with status 5xx"),
    Metric(
        "tcp_retransmits",
        "1",
        "TCP retransmits",
        "lower",
        "share of retransmitted TCP segments among those that the server's host sent",
    ),
    Metric("node_cpu", "1", "CPU use of the host", "lower", _HOST),
    Metric("node_memory", "1", "Memory use of the host", "lower", _HOST),
    Metric("users", "1", "Users", None, "active users: mean and maximum"),
    Metric("users_max", "1", "Users, maximum", None, "active users: mean and maximum"),
    Metric("events", "1", "Events", None, "events that reached the users' websockets"),
    Metric("client_mean", "s", "Client mean", "lower", _CLIENT),
    *(
        Metric(
            f"client_p{percent}",
            "s",
            f"Client p{percent}",
            "lower",
            "as seen by the users; absent with fewer requests than its interval needs",
        )
        for percent in (50, 95, 99)
    ),
    Metric("client_rate", "1/s", "Client requests per second", "higher", _CLIENT),
    Metric("client_requests", "1", "Client requests", None, _CLIENT),
    Metric("client_errors", "1", "Client errors", "lower", "share of failed requests, as seen by the users"),
    Metric(
        "generator_cpu",
        "1",
        "CPU of the generator",
        None,
        "share of a processor used by the busiest Locust process",
        tells="generator",
    ),
    Metric("gaps", "1", "Gaps", "lower", "number of gaps in the scrapes of the instances"),
    Metric("resets", "1", "Counter resets", "lower", "number of resets of an instance's counters"),
    Metric("samples", "1", "Samples", None, "number of samples that were fetched, including the ramp"),
    Metric("window", "s", "Window", None, "length of the steady part", tells="window"),
    Metric("scrape_interval", "s", "Scrape interval", None, "time between two scrapes"),
    Metric("rate_window", "s", "Rate window", None, "time over which the panels compute rates"),
)
