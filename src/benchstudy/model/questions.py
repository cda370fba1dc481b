"""What a credible report must answer, in the order of the list. Pages and studies use these titles.

`report/checklist` finds the answers. A study may name a question long before any report is imported.
"""

TITLES = (
    "Raw samples",
    "n in each cell",
    "An interval for each number",
    "Median and supported tails",
    "Outliers flagged, kept, linked to host events",
    "Random interleaved order, seed shown",
    "Warm-up tagged",
    "Cache state declared and verified with disk counters",
    "fsync as a factor",
    "Steady-state test",
    "Enough duration",
    "Environment before and after, compared",
    "Tool and system versions, SHA-256 of binaries",
    "Exact argv",
    "Load generator not saturated",
    "Open or closed loop named",
    "Failures counted, with Wilson's interval",
    "Offered and achieved rate",
    "Mix shift",
    "Effect with interval",
    "Multiplicity",
    "Thresholds declared before, and hashed",
    "Smallest detectable effect",
    "Plausibility against declared ceilings",
    "Baseline of the same session",
    "Numbers in prose generated from results",
    "Capacity rule defined",
    "Archived, licensed, checksummed",
    "Summaries consistent",
    "A/A calibration",
)
