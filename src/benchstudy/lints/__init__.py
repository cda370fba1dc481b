"""What figures cannot mean, or do not tell, found by rule: in published tables, imported outputs and measured results.

lint(Path("data/published"))                     every published table
lint(published.read(path), acknowledged)         one, less what somebody took responsibility for
lint(measured.read(results, ceilings))           a family's results
"""

from benchstudy.lints import ceilings, comparisons, load, measured, published, reporting, scraped, summaries
from benchstudy.lints.acknowledge import acknowledge
from benchstudy.lints.model import Ceiling, Figure, Finding, Group, Material, Rule, rules

__all__ = ["Ceiling", "Figure", "Finding", "Group", "Material", "Rule", "lint", "measured", "published", "rules"]

# Imported for the rules they define, which is all that naming them here is for.
_RULES = (summaries, ceilings, comparisons, load, scraped, reporting)


def lint(subject, acknowledged=()) -> list[Finding]:
    """Every finding of every rule, the gravest first, then in the order of the rules and of the material.

    `subject`: a Material; the path of a published table or of a folder of them; or what `measured.read` takes, a
    family's `report.results.Results`. `acknowledged`: the study's acknowledgements; findings they name stay in
    the list, with the reason. Raises BenchstudyError for a path without a table.
    """
    found = [
        Finding(rule.name, rule.severity, what, f"{material.name}: {where}", rule.why, rule.action)
        for rule in rules().values()
        for material in _materials(subject)
        for where, what in rule.find(material)
    ]
    order = {severity: i for i, severity in enumerate(("error", "warning", "note"))}
    return acknowledge(sorted(found, key=lambda finding: order[finding.severity]), acknowledged)


def _materials(subject) -> list[Material]:
    from pathlib import Path

    if isinstance(subject, Material):
        return [subject]
    if isinstance(subject, str | Path):
        return published.read_all(Path(subject))
    return [measured.read(subject)]
