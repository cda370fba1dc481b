"""Names of the metrics of a system: which are fetched, and which are read."""

from dataclasses import dataclass

# Of the hosts that the system runs on.
NODE_CPU = "node_cpu_seconds_total"
NODE_MEMORY = ("node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes")
NODE_TCP = ("node_netstat_Tcp_OutSegs", "node_netstat_Tcp_RetransSegs")
NODE = (NODE_CPU, *NODE_MEMORY, *NODE_TCP)


@dataclass(frozen=True)
class Names:
    """Names of metrics and labels. `api` and `store` are histograms in s, named without _bucket, _sum and _count."""

    api: str = "mattermost_api_time"
    api_label: str = "handler"
    store: str = "mattermost_db_store_time"
    store_label: str = "method"
    status_label: str = "status_code"  # of the histogram `api`; without it, the error share is `errors` over `requests`
    requests: str = "mattermost_http_requests_total"
    errors: str = "mattermost_http_errors_total"
    devices: str = "mattermost_http_websockets_total"
    cpu: str = "mattermost_process_cpu_seconds_total"
    started: str = "mattermost_process_start_time_seconds"
    goroutines: str = "go_goroutines"
    heap: str = "go_memstats_heap_inuse_bytes"
    stack: str = "go_memstats_stack_inuse_bytes"

    def of_group(self, group: str) -> tuple[str, str]:
        """(histogram, label) of "api" or "store"."""
        return getattr(self, group), getattr(self, f"{group}_label")

    @property
    def fetched(self) -> list[str]:
        """All metrics of the system under test."""
        histograms = [f"{name}_{part}" for name in (self.api, self.store) for part in ("bucket", "sum", "count")]
        counters_and_gauges = [self.requests, self.errors, self.devices, self.cpu, self.started]
        return [*histograms, *counters_and_gauges, self.goroutines, self.heap, self.stack, "up"]


DEFAULT_NAMES = Names()
