"""A study's methods in words for a paper, with references, generated from the records of the study."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from benchstudy import __version__
from benchstudy.model import paths, registry
from benchstudy.report import human
from benchstudy.report.results import sessions
from benchstudy.report.study.citation import Citation
from benchstudy.report.study.studyfacts import FamilyFacts, StudyFacts
from benchstudy.report.tables import latex
from benchstudy.statistics.comparisons import Method

_RANKED = "the Hodges-Lehmann estimate [@hodges-lehmann] with the interval of the"
_WAYS = {
    Method.PAIRED_T: "a paired t test on logarithms, by block",
    Method.SIGNED_RANK: f"{_RANKED} signed-rank test [@wilcoxon], paired by block",
    Method.WELCH: "Welch's t test on logarithms",
    Method.MANN_WHITNEY: f"{_RANKED} Mann-Whitney test",
}
MARKDOWN, LATEX = paths.METHODS
_MOST_HOSTS = 5  # named hosts per group of equal ones
_VERSION = re.compile(r"\d+\.\d[\w.+-]*")
_MARK = re.compile(r" ?\[@([\w-]+)\]")


@dataclass(frozen=True)
class Reference:
    """A publication: authors as in BibTeX, title, journal (or publisher of a book), year, DOI."""

    authors: str
    title: str
    journal: str
    year: int
    doi: str
    is_book: bool = False

    @property
    def text(self) -> str:
        """The reference as one line of plain text."""
        names = [" ".join(reversed(name.split(", "))) for name in self.authors.split(" and ")]
        who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        return f"{who}: {self.title}. {self.journal}, {self.year}. https://doi.org/{self.doi}"

    def bibtex(self, key: str) -> str:
        """The reference as a BibTeX entry."""
        where = "publisher" if self.is_book else "journal"
        fields = {"author": self.authors, "title": f"{{{self.title}}}", where: self.journal, "year": str(self.year)}
        lines = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items())
        return f"@{'book' if self.is_book else 'article'}{{{key},\n{lines}  doi = {{{self.doi}}},\n}}\n"


REFERENCES = {
    "snakemake": Reference(
        "Mölder, Felix and Jablonski, Kim Philipp and Letcher, Brice and others",
        "Sustainable data analysis with Snakemake",
        "F1000Research 10:33",
        2021,
        "10.12688/f1000research.29032.2",
    ),
    "order-statistics": Reference(
        "David, Herbert A. and Nagaraja, Haikady N.",
        "Order Statistics",
        "Wiley, 3rd edition",
        2003,
        "10.1002/0471722162",
        is_book=True,
    ),
    "hodges-lehmann": Reference(
        "Hodges, Joseph L. and Lehmann, Erich L.",
        "Estimates of location based on rank tests",
        "The Annals of Mathematical Statistics 34(2):598–611",
        1963,
        "10.1214/aoms/1177704172",
    ),
    "wilcoxon": Reference(
        "Wilcoxon, Frank",
        "Individual comparisons by ranking methods",
        "Biometrics Bulletin 1(6):80–83",
        1945,
        "10.2307/3001968",
    ),
    "benjamini-hochberg": Reference(
        "Benjamini, Yoav and Hochberg, Yosef",
        "Controlling the false discovery rate: a practical and powerful approach to multiple testing",
        "Journal of the Royal Statistical Society B 57(1):289–300",
        1995,
        "10.1111/j.2517-6161.1995.tb02031.x",
    ),
    "schuirmann": Reference(
        "Schuirmann, Donald J.",
        "A comparison of the two one-sided tests procedure and the power approach for assessing the equivalence of "
        "average bioavailability",
        "Journal of Pharmacokinetics and Biopharmaceutics 15(6):657–680",
        1987,
        "10.1007/BF01068419",
    ),
}


# Trials that no figure includes, by their name in `Results.counts`.
_LEFT_OUT = {
    "repeated": "set aside and measured again, whatever the values, because other work took more of a host than the "
    "study allows",
    "discarded": "discarded by hand, for a reason that the list of trials states",
    "aborted": "aborted without a result, because the connection, the controller or a host was lost",
}


@dataclass(frozen=True)
class Methods:
    """The methods as `paragraphs` of plain text, in which `[@key]` is a reference."""

    paragraphs: Sequence[str]
    cited: Citation

    @property
    def references(self) -> dict[str, Reference]:
        """The references in use, in the order of their first use."""
        keys = dict.fromkeys(key for text in self.paragraphs for key in _MARK.findall(text))
        return {key: REFERENCES[key] for key in keys}

    @property
    def numbered(self) -> list[str]:
        """The paragraphs with numbers as references: " [2]"."""
        numbers = {key: number for number, key in enumerate(self.references, start=1)}
        return [_MARK.sub(lambda match: f" [{numbers[match[1]]}]", text) for text in self.paragraphs]

    def markdown(self) -> str:
        """The paragraphs and a numbered list of references, in Markdown."""
        listed = "".join(f"{n}. {reference.text}\n" for n, reference in enumerate(self.references.values(), start=1))
        texts = (re.sub(r"([\\`*_<>])", r"\\\1", text) for text in self.numbered)
        return "\n\n".join(texts) + f"\n\n{listed}"

    def latex(self) -> str:
        """The paragraphs in LaTeX, with `\\cite` for the references in the bibliography."""
        texts = []
        for text in self.paragraphs:
            parts = _MARK.split(text)  # alternating texts and keys
            texts.append("".join(f"~\\cite{{{p}}}" if n % 2 else latex.prose(p) for n, p in enumerate(parts)))
        whole = "\n\n".join(texts).removesuffix(".")
        return f"% The entries are those of citation.bib.\n{whole}~\\cite{{{self.cited.key}}}.\n"

    def bibliography(self) -> str:
        """BibTeX entries of the study and of all references."""
        return "\n".join([self.cited.bibtex(), *(one.bibtex(key) for key, one in self.references.items())])


def methods(facts: StudyFacts, cited: Citation) -> Methods:
    """What was measured where, with what, how often and in which order, and how it was evaluated."""
    families = [family for family in facts.families if not family.results.counted.is_empty()]
    paragraphs = [
        " ".join([*_measured(facts, families), *_hosts(facts), *_tools(families)]),
        " ".join([*_evaluated(facts, families), *_made(cited)]),
    ]
    return Methods([text for text in paragraphs if text], cited)


def _measured(facts: StudyFacts, families: Sequence[FamilyFacts]) -> Iterator[str]:
    for family in families:
        measured = family.measured
        if measured.is_empty():
            continue
        cases = measured.select("target", "case").n_unique()
        of_case = measured.group_by("target", "case").agg(pl.col("block").n_unique())["block"].to_list()
        low, high = min(of_case), max(of_case)
        often = human.plural(high, "block") if low == high else f"{low} to {high} blocks"
        failed = measured.filter(pl.col("status") != "ok").height
        lost = f"; {failed:,} failed, and the pages report each failure" if failed else ""
        yield (
            f"{family.title}: {human.plural(cases, 'case')}, each measured once per block in {often}, "
            f"{registry.get(family.name).ordering} ({human.plural(measured.height, 'trial')}{lost})."
        )
    imported = sum(family.results.counted.height - family.measured.height for family in families)
    if imported:
        yield f"Another {human.plural(imported, 'trial')} came from existing output of the tools."
    if facts.sessions:
        first, last = facts.sessions[0][1]["started"], max(session["finished"] for _, session in facts.sessions)
        seeds = sorted({session["seed"] for _, session in facts.sessions})
        order = f"the order was drawn with the seed {', '.join(map(str, seeds))}"
        yield f"Each host ran one trial at a time, from {sessions.span(first, last)}; {order}."


def _hosts(facts: StudyFacts) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    seen = (environment for index in facts.indexes for environment in sessions.environments(index))
    for name, texts in sessions.host_texts(seen).items():
        told = {fact: " and ".join(seen) for fact, seen in texts.items()}
        cores = told.get("Processors allowed")
        parts = [
            told.get("Processor"),
            (human.plural(int(cores), "processor") if cores.isdecimal() else f"{cores} processors") if cores else None,
            f"{told['Memory']} of memory" if "Memory" in told else None,
            told.get("System"),
            f"Linux {told['Kernel']}" if "Kernel" in told else None,
            f"virtualisation: {told['Virtualisation']}" if told.get("Virtualisation") else None,
        ]
        alike.setdefault(", ".join(part for part in parts if part), []).append(name)
    for description, names in alike.items():
        if description:
            yield f"Host {human.listed(names, _MOST_HOSTS)}: {description}."


def _tools(families: Sequence[FamilyFacts]) -> Iterator[str]:
    used = [family.measured.select("tool", "tool_version").drop_nulls("tool").unique() for family in families]
    named = {_tool(*row): None for of_family in used for row in of_family.sort("tool", "tool_version").iter_rows()}
    if named:
        yield f"Tools: {', '.join(named)}."


def _tool(name: str, version: str | None) -> str:
    """A tool with only the number of its version, without the other words that tools print."""
    number = _VERSION.search(version or "")
    return f"{name} {number[0]}" if number else human.tool(name, version)


def _evaluated(facts: StudyFacts, families: Sequence[FamilyFacts]) -> Iterator[str]:
    yield (
        "The unit of statistics is the trial. We report the median over trials with its exact 95 % confidence interval "
        "by order statistics [@order-statistics], which needs six trials and assumes no distribution."
    )
    compared = [made for family in families for made in family.comparisons]
    if compared:
        used = {method for made in compared for method in made["methods"]}
        ways = [told for method, told in _WAYS.items() if method in used]
    if compared and not ways:
        yield "No comparison of two cases met the conditions of a test; the pages give the reason of each."
    elif compared:
        margins = sorted({margin for made in compared for margin in made["margins"]})
        of = f" of {' or '.join(map(human.percent, margins))}" if margins else ""
        yield (
            f"Cases of one session were compared by the ratio of their values, with {' or '.join(ways)}; p values were "
            "adjusted within each table [@benjamini-hochberg]. "
            "A case is called better or worse only if the 95 % interval of the ratio lies wholly beyond the margin"
            f"{of}, and equivalent only if two one-sided tests show it [@schuirmann], both after this adjustment."
        )
    counts = [family.results.counts() for family in families]
    for kind, told in _LEFT_OUT.items():
        if number := sum(count[kind] for count in counts):
            yield f"{human.plural(number, 'trial')} {'was' if number == 1 else 'were'} {told}."
    marked = [found for family in families for found in family.results.disturbed.values()]
    if marked:
        stolen = {found.what == "steal" for found in marked}
        taker = " or ".join([*["other programs"] * (False in stolen), *["the hypervisor"] * (True in stolen)])
        yield (
            f"During {human.plural(len(marked), 'trial')}, {taker} took more of a host than the study allows; such "
            "trials are marked, and verdicts that rest on them were withheld."
        )


def _made(cited: Citation) -> Iterator[str]:
    yield (
        f"Measurements and reports were made by benchstudy {__version__} with Snakemake [@snakemake]. The raw data of "
        f"the edition of {cited.edition} have the SHA-256 digest {cited.digest}."
    )
