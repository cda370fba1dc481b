"""A study of any number of trials: captured ones of fio, put through the store's own door, session by session."""

import copy
import shutil
import tarfile
from pathlib import Path

import yaml
from conftest import CHECKOUT

from benchstudy.measuring.raw import StoredTrial, TrialStore
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.sessionrecord import SessionRecord
from benchstudy.model import interference, paths
from benchstudy.model.files import as_json
from benchstudy.model.study import SessionPlan, load_study

STUDY, FAMILY = "many", "fio"
_BESIDE = {"shares": {"others_cpu": 0.01}, "others_cpu": 0.02, "cpus": 2, "busiest": []}


class ManyTrials:
    """Of a project at `root`, whose study has been measured to its end; nobody ever contacts its hosts."""

    def __init__(self, root: Path, targets: int = 1):
        self.root, self._blocks = root, 0
        self._targets = [f"t{number}" for number in range(targets)]
        self._originals = self._captured(root / "captured")
        self.file = root / "config" / "config.yaml"
        self.file.parent.mkdir(exist_ok=True)

    @property
    def cases(self) -> int:
        return len(self._originals)

    @property
    def trials(self) -> int:
        return self.cases * self._blocks * len(self._targets)

    @property
    def plans(self) -> list[SessionPlan]:
        return load_study(self.file).sessions()

    def copied(self, root: Path) -> "ManyTrials":
        shutil.copytree(self.root, root)
        other = copy.copy(self)
        other.root, other.file = root, root / self.file.relative_to(self.root)
        return other

    def add(self, blocks: int) -> None:
        """So many more of every target, in a session of its own."""
        first, self._blocks = self._blocks + 1, self._blocks + blocks
        hosts = {target: {"address": "192.0.2.1"} for target in self._targets}
        about = {"study": STUDY, "blocks": self._blocks, "measure": False, "hosts": hosts, "families": self._families}
        about["targets"] = {target: {"roles": {"sut": target}} for target in self._targets}
        self.file.write_text(yaml.safe_dump(about))
        for plan in self.plans:
            self._session(plan, range(first, self._blocks + 1))

    def adopt(self) -> None:
        for plan in self.plans:
            hold_session(self.root, plan)

    def store(self, plan: SessionPlan) -> TrialStore:
        return TrialStore(paths.family_raw(self.root, STUDY, plan.target, FAMILY))

    def _captured(self, folder: Path) -> dict[str, StoredTrial]:
        """A trial of each case."""
        with tarfile.open(CHECKOUT / "tests" / "data" / "store-b9a61cf" / "embedded.tar.xz") as archive:
            wanted = [one for one in archive if f"/{FAMILY}/" in one.name or one.name.endswith("study.yaml")]
            archive.extractall(folder, wanted)  # no filter: the Python of Debian 12 knows none
        self._families = {FAMILY: yaml.safe_load((folder / "study.yaml").read_text())["families"][FAMILY]}
        store = TrialStore(paths.family_raw(folder, "embedded", "this-machine", FAMILY))
        return {trial.facts.case: trial for trial in store.trials()}

    def _session(self, plan: SessionPlan, blocks: range) -> None:
        """Sealed, with the trials of these blocks."""
        store = self.store(plan)
        store.folder.mkdir(parents=True, exist_ok=True)
        store.forget_index()
        uuid = f"{blocks[0]:08d}-0000-4000-8000-000000000000"
        record = SessionRecord(store.folder, uuid, plan, "0" * 64)
        record.begin({})
        hashes = {case.id: case.definition_sha256 for case in plan.cases}
        about = {"study": STUDY, "target": plan.target, "session": uuid, "roles": dict(plan.roles)}
        for block in blocks:
            for position, (case, original) in enumerate(self._originals.items(), start=1):
                partial = store.begin(case, block)
                for file in original.files:
                    if file.name != "trial.json":
                        (partial.folder / file.name).parent.mkdir(parents=True, exist_ok=True)
                        (partial.folder / file.name).write_bytes((original.folder / file.name).read_bytes())
                (partial.folder / interference.FILE).write_text(as_json({"commands": [], "seen": {"sut": _BESIDE}}))
                own = {"uuid": partial.uuid, "block": block, "position": position, "definition_sha256": hashes[case]}
                partial.commit(original.record.model_copy(update=about | own))
        record.end({})
