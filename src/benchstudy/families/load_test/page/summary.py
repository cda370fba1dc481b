"""Summary texts of the load test page: answers, comments, what to look at, and weaknesses."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from benchstudy.families.load_test.page.cells import ratio_lines, signed, signed_percent
from benchstudy.families.load_test.page.labels import LoadLabels
from benchstudy.families.load_test.page.load import FEWEST, GROUPS, PAGE_BAND, Contrast, LoadTest, Single
from benchstudy.families.load_test.page.mix import MIX_DRIVEN, LoadMix, Reading
from benchstudy.families.load_test.page.users import METRIC, LoadUsers, alert_word
from benchstudy.families.load_test.page.wording import setting
from benchstudy.report import human
from benchstudy.report.comparisons import answers, findings
from benchstudy.report.scrutiny import disturbed
from benchstudy.statistics.comparisons import Comparison, Verdict

SAME_MIX = "at the same mix of calls"


class LoadSummary:
    def __init__(self, load: LoadTest):
        self.load = load
        self.mix, self.labels, self.users = LoadMix(load), LoadLabels(load), LoadUsers(load)

    def judged(self) -> dict[str, list[Comparison]]:
        """Comparisons outside of the comparison tables; p values are adjusted within each group."""
        readings = [*self.mix.readings, *self.mix.repeats]
        return {
            "Supported users": list(self.users.outcomes.values()),
            "Mix shift": [made for reading in readings for made in (reading.raw, reading.like)],
            "Methods and handlers": [line.outcome for line in self.labels.lines],
            "Graphs": [made for c in self.load.contrasts for made in self.users.panels.judged(c).values()],
        }

    def findings(self) -> dict[str, Any]:
        """Supported users, and store and API times like for like, for the study's overview."""
        known = ((c, made) for c, made in self.users.outcomes.items() if made.base.n and made.other.n)
        users = [self._finding(contrast, METRIC, "1", made) for contrast, made in known]
        times = [self._finding(r.contrast, f"{r.group}_mean", "s", r.like, SAME_MIX) for r in self.mix.readings]
        return {"aside": False, "found": [*users, *times]}

    def _finding(
        self, contrast: Contrast, metric: str, unit: str, made: Comparison, basis: str = ""
    ) -> dict[str, Any]:  # fmt: skip
        users = self.load.load(contrast.load).get("users")
        where = setting({"load": contrast.load, "users": users, "database": self.load.database(contrast.database)})
        cases = [{"target": contrast.target, "case": case} for case in (contrast.new_case, contrast.base_case)]
        title, names = self.load.results.declared(metric).title, (contrast.new, contrast.base)
        return findings.finding(metric, title, unit, names, where, (cases[0], cases[1]), made, basis)

    # -- the answer --------------------------------------------------------------------------------------------------

    def answers(self) -> list[dict[str, Any]]:
        """Answers for `Page.show_answers`: supported users, and the like-for-like change of each group of times.

        Versions that have no other one beside them follow, with the median of each primary metric.
        """
        found = []
        lines = [self._users_line(contrast) for contrast in self.users.outcomes]
        if lines:
            what = f"Supported users, {_versions(self.users.outcomes)}"
            found.append({"what": what, "lines": lines, "note": self._band_note()})
        note = _terms(self.mix.readings)  # once, below the first of the groups
        for group, title in GROUPS.items():
            readings = [reading for reading in self.mix.readings if reading.group == group]
            if readings:
                versions = _versions(reading.contrast for reading in readings)
                found.append(
                    {
                        "what": f"{title[0].upper()}{title[1:]} times, {versions}, like for like",
                        "lines": [self._mix_line(reading) for reading in readings],
                        "note": note,
                    }
                )
                note = ""
        results = self.load.results
        for metric in results.measured_for([*results.metrics, METRIC]):  # a search that fails gives no METRIC
            lines = [line for single in self.load.singles if (line := self._single_line(single, metric))]
            if lines:
                found.append({"what": results.declared(metric).title, "lines": lines, "note": ""})
        return found

    def _single_line(self, single: Single, metric: str) -> dict[str, str] | None:
        """None if this load does not give the metric."""
        name = self._name(single)
        if metric == METRIC and self.users.searched(single):
            why = self.users.unsettled(single) or self.users.bounded(single)
            if why:
                figure = self.users.figure(single, single.case) or "–"
                href = self.load.hrefs(single)[0]
                return {"name": name, "value": figure, "evidence": why[single.version], "href": href}
        estimate = self.load.estimate(metric, single.target, single.case)
        return answers.line(self.load.results, name, estimate) if estimate is not None else None

    def _name(self, measured: Contrast | Single) -> str:
        """What is compared or measured, and what its load is."""
        title, load = self.load.title(measured), self.load.load(measured.load)
        users = f"{load['users']} users" if load.get("users") else "users are added until an alert"
        return f"{title} ({users})" if load else title

    def _users_line(self, contrast: Contrast) -> dict[str, str]:
        made = self.users.outcomes[contrast]
        ratio = self.users.ratio(contrast, made)
        base, new = (self.load.estimate(METRIC, contrast.target, case) for case in contrast.cases.values())
        failure = next((e.failure for e in (new, base) if e is not None and e.failed), "")
        both = self.users.both(contrast)
        if not both:
            why = "; ".join(f"{version}: {text}" for version, text in self.users.unsettled(contrast).items())
            return {"name": self._name(contrast), "value": "–", "evidence": failure or why or made.why}
        if ratio is None:
            value, parts = both, ["no verdict", made.why]
        elif lines := ratio_lines(made):
            value, interval = lines
            parts = [both, interval, made.verdict]
        else:  # a relative change from so few trials would look like a result
            value, parts = both, [self._without(contrast, made)]
        parts += [failure] if failure else []
        href = "#table-supported-users"
        return {"name": self._name(contrast), "value": value, "evidence": "; ".join(parts), "href": href}

    def _without(self, contrast: Contrast, made: Comparison) -> str:
        """Why there is no verdict."""
        n = self.load.n(contrast)
        few = f"only {human.plural(n, 'trial')} per version, so there is no verdict"
        return "; ".join([few, *self._disturbed(contrast)]) if n < FEWEST else f"no verdict: {made.why}"

    def _disturbed(self, contrast: Contrast) -> Iterator[str]:
        """How many trials of each version other work disturbed, if it did: the reason for no verdict is another one."""
        found = disturbed.cases(self.load.results)
        for version, case in contrast.cases.items():
            if (key := (contrast.target, case)) in found:
                few, total = found[key]
                yield f"{version}: disturbed in {few} of {human.plural(total, 'trial')}"

    def _band_note(self) -> str:
        bands = {self.load.place(c): band for c in self.users.outcomes if (band := self.users.band(c)) is not None}
        told = (
            f" {place}: the supported users of equal versions differ by up to {human.percent(band.widest)} here "
            f"({human.plural(band.n, 'pair')}, {band.source})."
            for place, band in bands.items()
        )
        ruled = any(self.load.load(contrast.load).get("rule") for contrast in self.users.outcomes)
        rule = "Users are added until an alert of the study's rule fires. The load then settles on a number of users."
        return "".join([*([rule] if ruled else []), *told]).strip()

    def _mix_line(self, reading: Reading) -> dict[str, str]:
        shift, like = reading.shift, reading.like
        labels = [_named(reading)] if reading.named else []
        if lines := ratio_lines(like):
            value, interval = lines
            change = signed(shift.change, "s")
            called = f"plain mean {change if shift.ratio is None else f'{signed_percent(shift.ratio)} ({change})'}"
            parts = [interval, reading.verdict, called, *labels]
        else:
            # With few trials both values are shown: a change alone would look like a result.
            value = human.from_to(shift.base_mean, shift.base_mean + shift.within, "s")
            apart = human.from_to(shift.base_mean, shift.new_mean, "s")
            without = self._without(reading.contrast, like)
            parts = [without, reading.said, f"plain mean {apart}", *labels, *self._again(reading)]
        name = self._name(reading.contrast)
        return {"name": name, "value": value, "evidence": "; ".join(parts), "href": "#table-mix"}

    def _again(self, reading: Reading) -> list[str]:
        """What a repeated base differs from itself by: without an interval, this alone tells how much is noise."""
        twin = self.mix.twin(reading)
        if twin is None:
            return []
        shift = twin.shift
        differs = human.from_to(shift.base_mean, shift.base_mean + shift.within, "s")
        return [f"{reading.contrast.base} against itself: {differs}"]

    # -- comments ----------------------------------------------------------------------------------------------------

    def comments(self) -> Iterator[tuple[str, list[str]]]:
        """Comments by load and database; all their figures come from the results. What labels say is beside these."""
        first = list(self._about_trials())
        if first:
            yield "All loads and databases", first
        for contrast in self.load.contrasts:
            own = [self._about_users(contrast)] if contrast in self.users.outcomes else []
            own += [self.mix.sentence(reading) for reading in self.mix.readings if reading.contrast == contrast]
            yield self.load.title(contrast), own

    def _about_trials(self) -> Iterator[str]:
        most = max(map(self.load.n, self.load.contrasts), default=FEWEST)
        if not most:
            yield (
                "No load has successful trials of both versions, so there is no verdict. A verdict needs at least "
                f"{FEWEST} successful trials of each version."
            )
        elif most < FEWEST:
            fewest = min(map(self.load.n, self.load.contrasts))
            up_to = "" if fewest == most else "At most "
            within = " Intervals come from within that trial." if most == 1 else ""
            yield (
                f"{up_to}{human.plural(most, 'successful trial')} of each version: no verdict, because the spread "
                f"between loads of the same version is not known. A verdict needs at least {FEWEST} trials.{within}"
            )

    def _about_users(self, contrast: Contrast) -> str:
        made = self.users.outcomes[contrast]
        ratio, band = self.users.ratio(contrast, made), self.users.band(contrast)
        both = self.users.both(contrast)
        if not both:
            why = "; ".join(f"{version}: {text}" for version, text in self.users.unsettled(contrast).items())
            known = f"The number of supported users is not known for both versions. {why or made.why}."
            return known + self._limited_by(contrast)
        if ratio is None:
            told = f"Supported users, in these trials: {both}, without a verdict: {made.why}."
            return told + self._limited_by(contrast)
        lines = ratio_lines(made)
        if not lines:
            n = self.load.n(contrast)
            few = "one trial" if n == 1 else human.plural(n, "trial")
            told = f"Supported users, in these trials: {both}, from {few} per version, so without a verdict."
            aside = "".join(f" {text}." for text in self._disturbed(contrast))
            return told + aside + self._limited_by(contrast)
        change, interval = lines
        told = f"{change} supported users ({both}), {interval}: {made.verdict}, {made.why}."
        if band is not None:
            inside = band.low <= ratio <= band.high or band.low <= 1 / ratio <= band.high
            told += (
                f" Equal versions differ by {signed_percent(band.low)} to {signed_percent(band.high)} here "
                f"({human.plural(band.n, 'pair')}: {band.source}). This change is {'within' if inside else 'outside'}."
            )
        inside_page = abs(ratio - 1) <= PAGE_BAND
        told += (
            f" The {human.percent(PAGE_BAND)} that is usual elsewhere would {'' if inside_page else 'not '}have "
            "covered it, but it comes from other machines and decides nothing here."
        )
        return told + self._limited_by(contrast)

    def _limited_by(self, contrast: Contrast) -> str:
        limits = dict.fromkeys(self.users.bounded(contrast), "the load's maximum of users")
        most = ""
        for version, case in contrast.cases.items():
            brackets = [self.users.bracket(t) for t in self.load.trials(contrast.target, case)]
            named = Counter(b.limited_by for b in brackets if b is not None and b.limited_by)
            if named and version not in limits:
                limits[version] = alert_word(named.most_common(1)[0][0])
                # A single trial has no most frequent limit.
                most = "most frequent " if named.total() > 1 else most
        if not limits:
            return ""
        if len(set(limits.values())) == 1 and len(limits) == 2:
            return f" The {most}limit of both: {next(iter(limits.values()))}."
        each = ", ".join(f"{word} ({version})" for version, word in limits.items())
        return f" The {most}{'limit' if len(limits) == 1 else 'limits'}: {each}."

    # -- what to look at ---------------------------------------------------------------------------------------------

    def actions(self) -> list[str]:
        """What to look at before the release, as far as the data show it."""
        found = [text for contrast in self.load.contrasts for text in self._actions(contrast)]
        return found + [f"{case}: {cause.rstrip('.')}." for case, cause in self._failures()]

    def to_look_at(self) -> list[tuple[str, list[str]]]:
        """The actions below their heading; nothing without any."""
        found = self.actions()
        return [("What to look at", found)] if found else []

    def _actions(self, contrast: Contrast) -> Iterator[str]:
        place, users = self.load.title(contrast), self.users.outcomes.get(contrast)
        if users is not None and users.verdict is Verdict.WORSE:
            yield f"{place}: fewer supported users, {users.why}."
        slower = [reading for reading in self.mix.readings if reading.contrast == contrast and reading.worse]
        for reading in slower:
            if reading.tested:
                by = signed(reading.shift.within, "s")
                yield f"{place}: {GROUPS[reading.group]} times are slower like for like, {by}."
        few = [f"{GROUPS[r.group]} times {signed(r.shift.within, 's')}" for r in slower if not r.tested]
        if few:
            yield (
                f"{place}: slower like for like in these trials ({', '.join(few)}), but too few trials for a verdict. "
                "Repeat the load."
            )
        worse = [x for x in self.labels.lines if x.contrast == contrast and x.outcome.verdict is Verdict.WORSE]
        for line in worse:
            yield f"{place}: {line.label} is slower, {line.outcome.why}."

    def nothing_worse(self) -> list[str]:
        """The sentence that there is nothing to look at, and on how many tests it rests; nothing if there is."""
        if self.actions():
            return []
        if self.load.not_compared:
            return [self.load.not_compared]
        found = sorted(line.outcome.evidence.smallest_detectable for line in self.labels.lines if line.outcome.evidence)
        if not found:
            return ["No verdict is possible with so few trials: nothing is shown to be worse or equivalent."]
        return [
            f"None of the {human.plural(len(found), 'label')} tested is shown to be worse. Half of the tests could "
            f"have detected {human.percent(found[len(found) // 2])} beyond the margin."
        ]

    def _failures(self) -> Iterator[tuple[str, str]]:
        for row in self.load.results.cases.iter_rows(named=True):
            estimate = self.load.estimate("api_mean", row["target"], row["case"])
            if estimate is not None and estimate.failed:
                yield self.load.case(row), estimate.failure

    # -- what is weak ------------------------------------------------------------------------------------------------

    def weaknesses(self) -> Iterator[str]:
        """Reasons to doubt these figures in particular."""
        yield (
            "A p99 comes from the buckets of a histogram, so only the edges of its bucket are known. The interpolated "
            "figure is PromQL's. Two versions with their p99 in the same bucket cannot be distinguished."
        )
        if self.load.scraped:
            yield (
                "Someone else ran the load. It is not known what else the machines did, in which order the versions "
                "ran, and whether the data were the same."
            )
            yield from self._unalternated()
        if self.load.beside_the_server:
            yield (
                "Users and server shared a host, and each took processor time from the other. An alert on the host's "
                "CPU includes the CPU time of the users."
            )
        if not self.load.repeats and self.users.outcomes:
            band = "comes from pairs of the base's own trials" if self.users.has_band else "is unknown"
            yield f"No version was measured under two names, so the band of equal versions {band}."
        limits = (
            f"{self.load.place(measured)}, {version}: {text}"
            for measured in self.users.measured
            for version, text in self.users.bounded(measured).items()
        )
        for text in dict.fromkeys(limits):
            yield (
                f"{text}. The number of supported users is only a lower bound: raise `max_users`, and measure again."
            )
        few = [c for c in self.load.contrasts if self.load.n(c) < FEWEST]
        if few:
            places = human.listed([self.load.title(contrast) for contrast in few], FEWEST, "; ")
            yield f"Fewer than {FEWEST} trials of a version succeeded, so nothing has a verdict there: {places}."
        alarms = [r for r in self.mix.repeats if r.shift.alarm and r.tested]
        if alarms:
            made = human.plural(len(self.mix.repeats), "comparison")
            yield (
                f"{len(alarms)} of {made} of a version with itself look mix-driven: on "
                "this set-up, part of the mix shift is noise."
            )
        for metric, what in {"gaps": "gaps in the samples", "resets": "counter resets"}.items():
            trials = [t for t in self.load.all_trials if self.load.value(t.uuid, metric)]
            if trials:
                yield f"{human.plural(len(trials), 'trial')} with {what}; the counts there may be too low."
        problems = [str(p) for t in self.load.all_trials for p in t.facts.get("problems") or ()]
        for text in dict.fromkeys(problems):
            yield f"{human.plural(problems.count(text), 'trial')}: {text}."

    def _unalternated(self) -> Iterator[str]:
        """Contrasts whose windows do not alternate, so that time and version are confounded."""
        for contrast in self.load.contrasts:
            base, new = (
                [t.facts["window"]["start_s"] for t in side if (t.facts.get("window") or {}).get("start_s") is not None]
                for side in self.load.sides(contrast)
            )
            if base and new and (max(base) < min(new) or max(new) < min(base)):
                yield (
                    f"{self.load.title(contrast)}: all windows of one version are before all of the other, so changes "
                    "over time cannot be told from changes between the versions."
                )


def _versions(contrasts: Iterable[Contrast]) -> str:
    """What is compared: the names of the versions, unless there are several pairs of them, which the lines name."""
    pairs = {(contrast.new, contrast.base) for contrast in contrasts}
    new, base = pairs.pop() if len(pairs) == 1 else ("new", "base")
    return f"{new} against {base}"


def _terms(readings: Iterable[Reading]) -> str:
    """What the terms of these readings mean."""
    told = (
        "Like for like: as if both versions made their calls in the same shares. The plain mean is over the calls of "
        "all trials, so it differs from a median over trials, and changes if a version makes other calls."
    )
    if any(reading.mix_driven and reading.tested for reading in readings):
        told += f" {MIX_DRIVEN.capitalize()} means that only the plain mean changed, because other calls were made."
    return told


def _named(reading: Reading) -> str:
    """The labels that matter most for the change of the plain mean."""
    names = ", ".join(part.label for part in reading.named)
    if reading.named == reading.drivers:
        return f"mostly {names}"
    only = {"entered": reading.contrast.new, "left": reading.contrast.base}
    versions = {only[part.state] for part in reading.named}
    return f"this includes {names}, which only {versions.pop() if len(versions) == 1 else 'one of the two'} calls"
