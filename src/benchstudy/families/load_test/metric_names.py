"""Which metrics a system has: what is fetched of it, and what is read of that."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """Names of metrics and labels. `api` and `store` are histograms in s, without their _bucket, _sum, _count."""

    api: str = "mattermost_api_time"
    api_label: str = "handler"
    store: str = "mattermost_db_store_time"
    store_label: str = "method"
    status_label: str = "status_code"  # of the histogram `api`; where it has none, `errors` over `requests` is taken
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


DEFAULT_NAMES = Names()
