"""How much longer than asked for a nap lasts, by how one waits."""

from collections.abc import Mapping
from typing import Any, ClassVar

from benchstudy.model.family import Case, Family
from benchstudy.model.metrics import Metric
from benchstudy.model.units import parse_duration
from sixth_family.config import NapConfig
from sixth_family.metrics import METRICS


class Naps(Family[NapConfig]):
    name = "sixth_family"
    title = "Naps that last too long"
    Config = NapConfig
    metrics: ClassVar[Mapping[str, Metric]] = METRICS
    runs_on: ClassVar[str | None] = "sut"
    numeric_levels: ClassVar[Mapping[str, tuple[str, Any]]] = {"nap": ("nap_s", parse_duration)}
    series_schemas: ClassVar[Mapping[str, Mapping[str, str]]] = {"naps": {"index": "Int64", "overslept_s": "Float64"}}

    def cases(self, config: NapConfig) -> list[Case]:
        return [
            Case({"way": way, "nap": f"{nap * 1000:g}ms"}, {"nap_s": nap, "naps": config.naps})
            for way in config.ways
            for nap in config.lengths
        ]


FAMILY = Naps()
