"""The metrics of a trial of naps."""

from benchstudy.model.metrics import Metric, declare

METRICS = declare(
    Metric("overslept", "s", "Overslept", "lower", "mean of what naps lasted beyond what was asked for", primary=True),
    Metric("dreams", "1", "Dreams", "higher", "never given, which its page must tell", primary=True),
    Metric("naps", "1", "Naps", None, "naps taken"),
)
