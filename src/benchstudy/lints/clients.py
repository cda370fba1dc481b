"""Rules about load that several hosts make together."""

from benchstudy.lints import words
from benchstudy.lints.model import Found, Material, rule
from benchstudy.model import rounding
from benchstudy.model.clients import CLIENTS
from benchstudy.model.criteria import SKEW


@rule(
    "clients-skewed",
    "warning",
    why="While only some clients send load, the system does not get the sum of their rates.",
    action="Measure for longer or by time, or find out why a client begins late or is slower: a busy host, or an "
    "unsynchronised clock.",
)
def clients_skewed(material: Material) -> Found:
    for group in material.groups:
        shares = group.figures["client_skew_share"].values if "client_skew_share" in group.figures else ()
        late = [share for share in shares if share > SKEW]
        if late:
            trials = f"{len(late)} of {words.plural(len(shares), 'trial')}"
            share = rounding.percent(max(late))
            yield group.where, f"in {trials}, not all clients sent load for up to {share} of the time"


@rule(
    "clients-differ",
    "note",
    why="More clients make a different load, even if connections and rates add up to the same: differences between "
    "these cases are not due to the system alone.",
    action="Compare cases with equal numbers of clients, or say that the comparison is one between loads.",
)
def clients_differ(material: Material) -> Found:
    for _, groups in material.by(lambda group: (group.section, group.but(CLIENTS, "target"))):
        targets = {group.levels.get("target") for group in groups}
        by_target = {t: {g.levels.get(CLIENTS, "1") for g in groups if g.levels.get("target") == t} for t in targets}
        if len(targets) > 1 and not set.intersection(*by_target.values()):
            said = ", ".join(f"{target} from {' and '.join(sorted(n))}" for target, n in sorted(by_target.items()))
            yield groups[0].where, f"no number of clients is common to all targets: {said}"
