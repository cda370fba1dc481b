"""Where values lie densely: a smooth outline of a sample, for a drawing. No number is taken from it."""

from collections.abc import Sequence

import numpy as np
import scipy

_PLACES = 80


def outline(values: Sequence[float], log: bool = False) -> list[tuple[float, float]]:
    """(value, height) of a Gaussian kernel density over the range of the sample, its peak 1; Scott's bandwidth.

    `log`: of logarithms, for a logarithmic axis; values must then be above zero. Empty for a sample without spread.
    """
    sample = np.log(values) if log else np.asarray(values, dtype=float)
    if not len(sample) or np.ptp(sample) <= 1e-9 * max(float(np.abs(sample).max()), 1.0):
        return []
    places = np.linspace(sample.min(), sample.max(), _PLACES)
    heights = scipy.stats.gaussian_kde(sample)(places)
    drawn = np.exp(places) if log else places
    return [(float(x), float(height)) for x, height in zip(drawn, heights / heights.max(), strict=True)]
