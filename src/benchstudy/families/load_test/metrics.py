"""What a trial of load_test gives, over the steady part of its window."""

from benchstudy.model.metrics import Metric, declare

_GROUPS = {"api": "API", "store": "Store"}
_SAMPLES = "of the samples"
_MEANS = "means over the window; devices: open websockets"
_HOST = "share in use of the server's host"
_RULE = "of an unbounded load: the rule's result, where it settled between a load that passed and one that failed"
_BRACKET = "of an unbounded load: no check of the window alerted at so many, every one did at so many"
_CLIENT = "as users saw it; errors are a share"

METRICS = declare(
    Metric("supported_users", "1", "Supported users", "higher", _RULE, primary=True, tells="capacity"),
    Metric("users_low", "1", "Supported users, low", "higher", _BRACKET, tells="bracket"),
    Metric("users_high", "1", "Supported users, high", "higher", _BRACKET, tells="bracket"),
    Metric(
        "swing",
        "1",
        "Swing of the users",
        None,
        "of an unbounded load: most less fewest of the window, over the mean",
        tells="search",
    ),
    Metric(
        "slope",
        "1/s",
        "Slope of the users",
        None,
        "of an unbounded load: of the line that decided",
        tells="search",
        signed=True,
    ),
    Metric(
        "at_maximum",
        "1",
        "Ended at the most users",
        None,
        "of an unbounded load: 1 where it ended at its `max_users`",
        tells="search",
    ),
    *(
        Metric(f"{group}_mean", "s", f"{title} times", "lower", "sum over count of all calls: exact", primary=True)
        for group, title in _GROUPS.items()
    ),
    *(
        Metric(
            f"{group}_p99",
            "s",
            f"{title} times, p99",
            "lower",
            "as PromQL's `histogram_quantile`, linear within a bucket",
        )
        for group, title in _GROUPS.items()
    ),
    *(
        Metric(
            f"{group}_p99_{edge}",
            "s",
            f"{title} times, p99, {edge}",
            None,
            "that bucket's edges: all that is known. No high in the last one",
        )
        for group, title in _GROUPS.items()
        for edge in ("low", "high")
    ),
    *(
        Metric(f"{group}_rate", "1/s", f"{title} calls a second", "higher", "calls per second")
        for group, title in _GROUPS.items()
    ),
    Metric("rps", "1/s", "Requests a second", "higher", "requests per second that the server counted"),
    Metric("cpu", "1", "CPU", "lower", "processors' worth of time of the server"),
    Metric("heap", "B", "Heap", "lower", _MEANS),
    Metric("stack", "B", "Stack", "lower", _MEANS),
    Metric("goroutines", "1", "Goroutines", "lower", _MEANS),
    Metric("devices", "1", "Devices", "higher", _MEANS),
    Metric("server_error_share", "1", "Errors of the server", "lower", "of the answers, 5xx"),
    Metric("tcp_retransmits", "1", "TCP retransmits", "lower", "of the segments sent by the server's host"),
    Metric("node_cpu", "1", "CPU of the host", "lower", _HOST),
    Metric("node_memory", "1", "Memory of the host", "lower", _HOST),
    Metric("users", "1", "Users", None, "at work: the mean, and the most"),
    Metric("users_max", "1", "Users, most", None, "at work: the mean, and the most"),
    Metric("events", "1", "Events", None, "that reached the users' websockets"),
    Metric("client_mean", "s", "Mean at the client", "lower", _CLIENT),
    *(Metric(f"client_p{percent}", "s", f"p{percent} at the client", "lower", _CLIENT) for percent in (50, 95, 99)),
    Metric("client_rate", "1/s", "Requests a second at the client", "higher", _CLIENT),
    Metric("client_requests", "1", "Requests at the client", None, _CLIENT),
    Metric("client_errors", "1", "Errors at the client", "lower", _CLIENT),
    Metric("generator_cpu", "1", "CPU of the generator", None, "of the busiest Locust process", tells="generator"),
    Metric("gaps", "1", "Gaps", "lower", _SAMPLES),
    Metric("resets", "1", "Counter resets", "lower", _SAMPLES),
    Metric("samples", "1", "Samples", None, _SAMPLES),
    Metric("window", "s", "Window", None, _SAMPLES, tells="window"),
    Metric("scrape_interval", "s", "Scrape interval", None, _SAMPLES),
    Metric("rate_window", "s", "Window of rates", None, _SAMPLES),
)
