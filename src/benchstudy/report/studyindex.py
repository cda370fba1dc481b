"""What the first page of a study says, as plain data: the template puts it into HTML and escapes all of it."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchstudy import families
from benchstudy.notebooks import STUDY_PAGES
from benchstudy.report import evidence, human, sessions
from benchstudy.report.results import Results
from benchstudy.report.tables import TABLE_FORMATS, link
from benchstudy.report.vega import FIGURE_FORMATS
from benchstudy.study import Study


class StudyIndex:
    """One study's tables, sessions and pages, described for a page that lies in the folder `page_folder`."""

    def __init__(
        self, study: Study, *, tidy: Mapping[str, Path], indexes: Sequence[Mapping[str, Any]], reports: Path,
        page_folder: Path,
    ):  # fmt: skip
        self._study, self._indexes = study, indexes
        self._folder, self._page_folder = reports / study.study, page_folder
        self._results = {name: Results(folder, study=study.study, family=name) for name, folder in tidy.items()}

    def _link(self, path: Path) -> str:
        return link(os.path.relpath(path, self._page_folder))

    def context(self) -> dict[str, Any]:
        """Everything the template shows."""
        return {
            "name": self._study.study,
            "title": self._study.title or self._study.study,
            "question": self._study.question,
            "badges": evidence.count_badges(self._total()),
            "archive": self._archive(),
            "families": [self._family(name, results) for name, results in self._results.items()],
            "pages": self._pages(),
            "problems": self._problems(),
            "failures": [row for name, results in self._results.items() for row in self._failures(name, results)],
            "set_aside": [row for name, results in self._results.items() for row in self._set_aside(name, results)],
            "hosts": self._hosts(),
            "sessions": self._sessions(),
            "hashes": self._hashes(),
            "others": self._others(),
        }

    def _total(self) -> dict[str, int]:
        counts = [results.counts() for results in self._results.values()]
        return {key: sum(c[key] for c in counts) for key in counts[0]} if counts else {"trials": 0}

    def _family(self, name: str, results: Results) -> dict[str, Any]:
        exports = self._folder / name
        answer = exports / "answer.json"
        raw = [self._link(Path(path)) for path in self._index_paths(name)]
        return {
            "title": families.get(name).title,
            "badges": evidence.count_badges(results.counts()),
            "answers": json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else [],
            "report": self._link(self._folder / f"{name}.html"),
            "notebook": self._link(self._folder / "notebooks" / f"{name}.ipynb"),
            "files": self._files(exports / "tables", TABLE_FORMATS) + self._files(exports / "figures", FIGURE_FORMATS),
            "raw": raw,
        }

    def _files(self, folder: Path, formats: Sequence[str]) -> list[dict[str, Any]]:
        """Each table or figure once, by its name, with a link for every format it has."""
        stems = sorted({path.stem for suffix in formats for path in folder.glob(f"*.{suffix}")})
        return [
            {
                "name": stem,
                "formats": [
                    {"name": suffix.upper(), "href": self._link(path)}
                    for suffix in formats
                    if (path := folder / f"{stem}.{suffix}").is_file()
                ],
            }
            for stem in stems
        ]

    def _archive(self) -> dict[str, str] | None:
        """Everything for upload. Only a page beside it leads there: one that is packed in it would lead out of it."""
        path = self._folder.with_name(f"{self._folder.name}.zip")
        if path.parent != self._page_folder or not path.is_file():
            return None
        return {"name": path.name, "href": self._link(path), "size": human.quantity(path.stat().st_size, "B")}

    def _index_paths(self, family: str) -> list[str]:
        return [index["file"] for index in self._indexes if index["family"] == family]

    def _pages(self) -> list[dict[str, str]]:
        """The study's own pages that were made."""
        made = ((title, self._folder / f"{name}.html") for name, title in STUDY_PAGES.items())
        return [{"title": title, "href": self._link(path)} for title, path in made if path.is_file()]

    def _problems(self) -> list[str]:
        return [f"{i['family']} on {i['target']}: {i['problem']}" for i in self._indexes if i.get("problem")]

    def _failures(self, name: str, results: Results) -> list[dict[str, Any]]:
        """One row a case and cause, with the way to the first trial it happened in."""
        lost = results.counted.filter(pl.col("status") != "ok")
        page = self._link(self._folder / f"{name}.html")
        rows = []
        for (target, case, cause), group in lost.group_by("target", "case", "cause", maintain_order=True):
            total = results.counted.filter((pl.col("case") == case) & (pl.col("target") == target)).height
            rows.append(
                {
                    "family": families.get(name).title,
                    "case": human.level(case),
                    "target": target,
                    "count": f"{group.height} of {human.plural(total, 'trial')}",
                    "cause": cause or "no cause recorded",
                    "href": f"{page}#trial-{group['trial'][0]}",
                }
            )
        return rows

    def _set_aside(self, name: str, results: Results) -> list[dict[str, Any]]:
        """Trials that do not count: discarded by somebody, or aborted and done again."""
        page = self._link(self._folder / f"{name}.html")
        aside = results.trials.filter(pl.col("discarded_why").is_not_null() | (pl.col("status") == "aborted"))
        return [
            {
                "trial": row["trial"],
                "case": human.level(row["case"]),
                "what": f"discarded: {row['discarded_why']}" if row["discarded_why"] else f"aborted: {row['cause']}",
                "href": f"{page}#trial-{row['trial']}",
            }
            for row in aside.iter_rows(named=True)
        ]

    def _hosts(self) -> list[dict[str, Any]]:
        """Each host once, as the latest session found it, with every change that any session saw."""
        found: dict[str, dict[str, Any]] = {}
        for index in self._indexes:
            for name, environment in sessions.environments(index):
                facts = environment.get("before") or {}
                host = found.setdefault(name, {"name": name, "changes": [], "lines": [], "facts": ""})
                host["lines"] = sessions.host_lines(facts)
                host["facts"] = json.dumps(facts, indent=1, ensure_ascii=False)
                host["changes"] += [f"{index['family']}: {change}" for change in environment.get("diff") or ()]
        return list(found.values())

    def _sessions(self) -> list[dict[str, Any]]:
        pairs = [(index, session) for index in self._indexes for session in index["sessions"]]
        return [
            {
                "family": index["family"],
                "target": index["target"],
                "uuid": session["uuid"][:8],
                "seed": session["seed"],
                "when": f"{sessions.moment(session['started'])} to {sessions.moment(session['finished'])}",
                "controller": session["controller"],
                "events": session["events"],
            }
            for index, session in sorted(pairs, key=lambda pair: pair[1]["started"])
        ]

    def _hashes(self) -> list[tuple[str, str]]:
        lines = [("Study as it stands now", self._study.sha256)]
        for name, results in self._results.items():
            lines += [(f"Instrument of {name}", sha) for sha in evidence.instruments(results)]
            declared = results.counted["study_sha256"].drop_nulls().unique(maintain_order=True).to_list()
            lines += [
                (f"Study when {name} was measured (post hoc: it was edited since)", sha)
                for sha in declared
                if sha != self._study.sha256
            ]
        return lines

    def _others(self) -> list[dict[str, str]]:
        """Other studies that have a page beside this one's folder."""
        pages = sorted(self._folder.parent.glob("*/index.html"))
        return [{"name": p.parent.name, "href": self._link(p)} for p in pages if p.parent != self._folder]
