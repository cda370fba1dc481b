"""A study of any number of trials: captured ones, put through the store's own code, session by session.

Each trial of a case copies one that was captured for it, in an order that differs between targets.
"""

import copy
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import yaml
from conftest import CHECKOUT

from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.sessionrecord import SessionRecord
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import interference, paths
from benchstudy.model.files import as_json
from benchstudy.model.study import SessionPlan
from benchstudy.model.studyfile import load_study

STUDY, FAMILY = "many", "fio"
FIO = {FAMILY: None}
_BESIDE = {"shares": {"others_cpu": 0.01}, "others_cpu": 0.02, "cpus": 2, "busiest": []}


class ManyTrials:
    """A project at `root`, whose study is measured to its end. Its hosts are never contacted."""

    def __init__(self, root: Path, targets: int = 1, most_blocks: Mapping[str, int | None] = FIO):
        """`most_blocks`: for each wanted family, the largest number of blocks."""
        self.root, self._blocks, self._most = root, 0, most_blocks
        self.is_linked = False  # the same file of a hundred thousand trials is one file on disk
        self._targets = [f"t{number}" for number in range(targets)]
        self._originals = self._captured(root / "captured")
        self.file = root / "config" / "config.yaml"
        self.file.parent.mkdir(exist_ok=True)

    @property
    def cases(self) -> int:
        return sum(map(len, self._originals.values()))

    @property
    def trials(self) -> int:
        of_target = (len(cases) * min(self._blocks, self._limit(name)) for name, cases in self._originals.items())
        return sum(of_target) * len(self._targets)

    def _limit(self, family: str) -> int:
        return self._most[family] or self._blocks

    @property
    def plans(self) -> list[SessionPlan]:
        return load_study(self.file).sessions()

    def copied(self, root: Path) -> "ManyTrials":
        shutil.copytree(self.root, root)
        other = copy.copy(self)
        other.root, other.file = root, root / self.file.relative_to(self.root)
        return other

    def add(self, blocks: int) -> None:
        """Add this many blocks to every target, in a session of its own."""
        first, self._blocks = self._blocks + 1, self._blocks + blocks
        hosts = {target: {"address": "192.0.2.1"} for target in self._targets}
        families = {name: of | {"blocks": min(self._blocks, self._limit(name))} for name, of in self._families.items()}
        about = {"study": STUDY, "blocks": self._blocks, "measure": False, "hosts": hosts, "families": families}
        about["targets"] = {target: {"roles": {"sut": target}} for target in self._targets}
        self.file.write_text(yaml.safe_dump(about))
        for plan in self.plans:
            blocks = range(first, min(self._blocks, self._limit(plan.family_name)) + 1)
            if blocks:
                self._session(plan, blocks)

    def adopt(self) -> None:
        for plan in self.plans:
            hold_session(self.root, plan)

    def store(self, plan: SessionPlan) -> TrialStore:
        return TrialStore(paths.family_raw(self.root, STUDY, plan.target, plan.family_name))

    def _captured(self, folder: Path) -> dict[str, dict[str, list[StoredTrial]]]:
        """The trials that gave figures, by family and case."""
        with tarfile.open(CHECKOUT / "tests" / "data" / "store-b9a61cf" / "embedded.tar.xz") as archive:
            raw = "data/raw/embedded/this-machine"
            wanted = [one for one in archive if any(f"{raw}/{name}/" in one.name for name in self._most)]
            archive.extractall(
                folder, [*wanted, archive.getmember("study.yaml")]
            )  # no filter, because the Python of Debian 12 has none
        declared = yaml.safe_load((folder / "study.yaml").read_text())["families"]
        self._families = {name: declared[name] for name in self._most}
        found: dict[str, dict[str, list[StoredTrial]]] = {}
        for name in self._most:
            store = TrialStore(paths.family_raw(folder, "embedded", "this-machine", name))
            for trial in store.trials():
                if trial.facts.status == "ok":
                    found.setdefault(name, {}).setdefault(trial.facts.case, []).append(trial)
        return found

    def _session(self, plan: SessionPlan, blocks: range) -> None:
        """A sealed session with the trials of these blocks."""
        store = self.store(plan)
        store.folder.mkdir(parents=True, exist_ok=True)
        store.forget_index()
        uuid = str(uuid5(NAMESPACE_OID, f"{plan.target} {plan.family_name} {blocks[0]}"))
        record = SessionRecord(store.folder, uuid, plan, "0" * 64)
        record.begin({})
        hashes = {case.id: case.definition_sha256 for case in plan.cases}
        about = {"study": STUDY, "target": plan.target, "session": uuid, "roles": dict(plan.roles)}
        for block in blocks:
            for position, (case, captured) in enumerate(self._originals[plan.family_name].items(), start=1):
                original = captured[(block + self._targets.index(plan.target)) % len(captured)]
                partial = store.begin(case, block)
                for file in original.files:
                    if file.name != "trial.json":
                        (partial.folder / file.name).parent.mkdir(parents=True, exist_ok=True)
                        if self.is_linked:
                            os.link(original.folder / file.name, partial.folder / file.name)
                        else:
                            shutil.copyfile(original.folder / file.name, partial.folder / file.name)
                (partial.folder / interference.FILE).write_text(as_json({"commands": [], "seen": {"sut": _BESIDE}}))
                own = {"uuid": partial.uuid, "block": block, "position": position, "definition_sha256": hashes[case]}
                partial.commit(original.record.model_copy(update=about | own))
        record.end({})
