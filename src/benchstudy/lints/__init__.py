"""Rules that find figures which cannot mean what they say: in published tables, imported outputs, measured results.

lint(Path("data/published"))                     every published table
lint(published.read(path), acknowledged)         one table, with findings that somebody acknowledged
lint(material.read(results, ceilings))           a family's results, as report/results/material.py reads them
"""

from collections.abc import Iterable
from pathlib import Path

from benchstudy.lints import ceilings, clients, comparisons, load, neighbours, published, reporting, summaries
from benchstudy.lints.acknowledge import acknowledge
from benchstudy.lints.model import Ceiling, Figure, Finding, Group, Material
from benchstudy.model import registry
from benchstudy.model.declared import Acknowledgement
from benchstudy.model.rules import Rule, require_of, rules

__all__ = ["Ceiling", "Figure", "Finding", "Group", "Material", "Rule", "lint", "published", "rules"]

# These modules are imported only for the rules that they define.
_RULES = (summaries, ceilings, comparisons, load, clients, neighbours, reporting)


def lint(subject: Material | str | Path, acknowledged: Iterable[Acknowledgement] = ()) -> list[Finding]:
    """Every finding of every rule, most severe first, then in the order of the rules and of the material.

    `subject`: a Material, or the path of a published table or of a folder of them. `acknowledged`: the study's
    acknowledgements; findings that they name stay in the list, with the reason. Raises BenchstudyError for a path
    without a table, for a broken rule, and for measured results of a family whose rules cannot be imported.
    """
    materials = [subject] if isinstance(subject, Material) else published.read_all(Path(subject))
    for material in materials:
        if material.kind == "measured" and material.name in registry.names():
            require_of(material.name)
    found = [
        Finding(rule.name, rule.severity, what, f"{material.name}: {where}", rule.why, rule.action)
        for rule in rules().values()
        for material in materials
        for where, what in rule.examine(material)
    ]
    return acknowledge(sorted(found, key=lambda finding: finding.rank), acknowledged)
