"""What is fuzzed: every parser, importer and reader, each with real inputs. It finds families and captures itself.

fuzz_peers.py has what peers say (hosts, Prometheus, S3), and fuzz_trees.py studies with values of another kind.
"""

import gzip
import hashlib
import json
import os
import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchstudy.measuring import confirmed, disturbances, sessionindex
from benchstudy.measuring.checked import SUMS
from benchstudy.measuring.raw import TrialStore, find_trials, index_problem
from benchstudy.measuring.storedtrials import load_trial
from benchstudy.measuring.trialrecord import TrialRecord
from benchstudy.model import paths, registry
from benchstudy.model.errors import BenchstudyError, StudyError
from benchstudy.model.family import Family, ParseError
from benchstudy.model.study import Study
from benchstudy.model.studyfile import load_study
from benchstudy.provenance.checks import Crate, check_crate
from benchstudy.provenance.entities import METADATA
from benchstudy.provenance.reproduce import _study as study_of_crate

DATA = Path(__file__).parent / "data"
STORES = DATA / "store-b9a61cf"
STUDIES = DATA.parents[1] / "config"
_LARGEST = 1 << 17  # of a capture: a longer one has only more of the same
_SERIES = 3  # of each answer of Prometheus in a trial: further ones are read in the same way


@dataclass(frozen=True)
class Door:
    """One parser or reader with a real input: `attempt` gets a damaged one, and may raise what is `declared`.

    `kind`: the kind of door that it counts for. `read`: whether the original is opened at all. `damage`: how the input
    is made from the original, if not by damage to its bytes.
    """

    kind: str
    name: str
    original: bytes
    attempt: Callable[[bytes], object]
    declared: tuple[type[BaseException], ...]
    read: bool = True
    damage: Callable[[random.Random, bytes], bytes] | None = None


def doors(work: Path, stores: Iterable[str] = ("embedded", "endings")) -> list[Door]:
    """All doors, with the trials of these stores. `work` is a folder for the files that they read."""
    from fuzz_peers import peers
    from fuzz_trees import trees

    trials = work / "trials"
    for name in stores:
        with tarfile.open(STORES / f"{name}.tar.xz") as archive:
            archive.extractall(work / name)
    _store(work)
    found = [*_measured(work, trials), *_captured(trials), *_imports(work), *_studies(work), *_in_store(work)]
    return [*found, *_crates(work), *peers(work), *trees(work)]


# --- trials --------------------------------------------------------------------------------------------------------


def _measured(work: Path, trials: Path) -> Iterator[Door]:
    """Each file of one good trial per case, of the stores that an older version measured."""
    seen = set()
    for record in sorted(work.glob("*/data/raw/*/*/*/*/*/trial.json")):
        told = TrialRecord.model_validate_json(record.read_bytes())
        if told.status != "ok" or (told.family, told.case) in seen:
            continue
        seen.add((told.family, told.case))
        folder = _writable(record.parent, trials / f"{len(seen)}")
        yield Door("trial.json", f"record of {told.family}", record.read_bytes(), _record, (ValueError,))
        yield from _of_trial(registry.get(told.family), told.case, told.levels, folder)


def _captured(trials: Path) -> Iterator[Door]:
    """What the stores lack: a trial with a study's own metrics, and what the Prometheus of two real servers saw."""
    study = load_study(STUDIES / "studies" / "compressors.yaml")
    plan = next(plan for plan in study.sessions() if plan.family_name == "command")
    folder = trials / "command"
    folder.mkdir(parents=True)
    shutil.copyfile(DATA / "command" / "command_runs.json", folder / "stdout")
    yield from _of_trial(registry.get("command"), "a command", plan.cases[0].levels, folder)
    for release in sorted((DATA / "prometheus").glob("*/")):
        folder = _writable(release, trials / release.name)
        yield from _of_trial(registry.get("load_test"), release.name, {}, folder)


def _writable(folder: Path, copy: Path) -> Path:
    shutil.copytree(folder, copy, copy_function=shutil.copyfile)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def _of_trial(family: Family, case: str, levels: dict[str, str], folder: Path) -> Iterator[Door]:
    for path in folder.rglob("metrics.ndjson.gz"):
        path.write_bytes(gzip.compress(b"\n".join(map(_shortened, gzip.decompress(path.read_bytes()).split(b"\n")))))
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in (SUMS, "trial.json"))
    for path in files:
        os.utime(path, (0, 1))  # the first read changes the access time
    family.parse(levels, folder)
    family.notes(folder)
    read = {path for path in files if path.stat().st_atime}
    for path in files:
        for packed in {False, path.suffix == ".gz"}:
            attempt = _parsing(family, levels, folder, path, packed)
            original = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
            name = f"{case}: {path.relative_to(folder)}{' unpacked' if packed else ''}"
            yield Door(f"trial of {family.name}", name, original, attempt, (ParseError,), path in read)


def _parsing(
    family: Family, levels: dict[str, str], folder: Path, path: Path, packed: bool
) -> Callable[[bytes], object]:
    original = path.read_bytes()

    def attempt(content: bytes) -> object:
        path.write_bytes(gzip.compress(content, 1) if packed else content)
        try:
            parsed = family.parse(levels, folder)
            family.notes(folder)
            return parsed
        finally:
            path.write_bytes(original)

    return attempt


def _shortened(line: bytes) -> bytes:
    """An answer of Prometheus with only its first series: reading all takes most of the time and finds no more."""
    head, separator, answer = line.partition(b',"answer":')
    if not separator or not answer.startswith(b'{"status"'):
        return line
    content = json.loads(answer[:-1])
    data = content["data"]
    if isinstance(data, list):
        del data[_SERIES:]
    elif data.get("resultType") == "matrix":
        del data["result"][_SERIES:]
    return head + separator + json.dumps(content, separators=(",", ":")).encode() + b"}"


# --- imports -------------------------------------------------------------------------------------------------------


def _imports(work: Path) -> Iterator[Door]:
    """Every capture that a family recognises as an output of its tools, even if only to refuse it."""
    own = _own_definitions()
    captures = [p for p in sorted(DATA.glob("*/**/*")) if p.is_file() and p.stat().st_size < _LARGEST]
    for name in registry.names():
        for path in captures:
            if {path.parts[len(DATA.parts)], path.suffix} & {"fuzz", STORES.name, ".md", ".py", ".parquet", ".xz"}:
                continue
            family = own if name == own.name else registry.get(name)
            try:
                taken = bool(family.parse_import(path))
            except ParseError:
                taken = True
            if taken:
                copy = work / "imports" / name / path.name
                yield Door(
                    f"import of {name}",
                    f"import of {name}: {path.name}",
                    path.read_bytes(),
                    _importing(family, copy),
                    (ParseError,),
                )


def _own_definitions() -> Family:
    """The family `command` of a study that defines itself what to look for."""
    metrics = {
        "tps": {"regex": "tps = ([0-9.]+)", "unit": "1/s"},
        "latency": {"regex": "latency average = ([0-9.]+) ms", "unit": "ms"},
    }
    csv = {
        "rps": {"csv": "rps", "where": {"test": "GET"}, "unit": "1/s"},
        "p99": {"csv": "p99_latency_ms", "unit": "ms"},
    }
    family = registry.get("command")
    commands = [
        {"name": name, "argv": [name], "metrics": found} for name, found in (("pgbench", metrics), ("redis", csv))
    ]
    return family.of(family.Config.model_validate({"commands": commands}))


def _importing(family: Family, copy: Path) -> Callable[[bytes], object]:
    files = copy.with_suffix(".files")

    def attempt(content: bytes) -> object:
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        parsed = []
        for run in family.parse_import(copy):
            files.mkdir(exist_ok=True)
            names = {run.file_name: content, **run.files}
            for name, text in names.items():
                (files / name).write_bytes(text)
            try:
                if run.failure is None:
                    parsed.append(family.parse(run.levels, files))
            finally:
                for name in names:
                    (files / name).unlink()
        return parsed

    return attempt


# --- studies -------------------------------------------------------------------------------------------------------


def _studies(work: Path) -> Iterator[Door]:
    for path in sorted(STUDIES.rglob("*.yaml")):
        yield Door("study", f"study {path.name}", path.read_bytes(), _study(work / path.name), (StudyError,))


def _study(path: Path) -> Callable[[bytes], object]:
    def attempt(content: bytes) -> None:
        path.write_bytes(content)
        finite_study(load_study(path))

    return attempt


def finite_study(study: Study) -> None:
    json.dumps(study.model_dump(mode="json", serialize_as_any=True), allow_nan=False)


# --- a raw store ---------------------------------------------------------------------------------------------------


def _store(work: Path) -> None:
    """A small store, with one good trial, its session and everything else that can be in one."""
    source = next(iter(sorted(work.glob("*/data/raw/*/*/fio"))))
    record = next(iter(sorted(source.glob("*job=short*/*/trial.json"))), None) or next(source.glob("*/*/trial.json"))
    store = work / "store" / "data/raw/s/t/fio"
    place = record.parent.relative_to(source)
    _writable(record.parent, store / place)
    index = json.loads((source / "session.json").read_bytes())
    index["trials"] = [entry for entry in index["trials"] if entry["path"] == place.as_posix()]
    of_trial = {index["trials"][0]["session"]} if "session" in index["trials"][0] else set()
    index["sessions"] = [entry for entry in index["sessions"] if not of_trial or entry["uuid"] in of_trial][:1]
    for entry in index["sessions"]:
        _writable(source / "sessions" / entry["uuid"][:8], store / "sessions" / entry["uuid"][:8])
    discard = {"uuid": "0" * 32, "why": "too slow", "by": "me@here", "when": "2026-01-01T00:00:00Z"}
    index["discarded"] = [discard]
    (store / "session.json").write_text(json.dumps(index))
    (store / "discards").mkdir()
    (store / "discards" / "00000000.json").write_text(json.dumps(discard))


def _in_store(work: Path) -> Iterator[Door]:
    """Everything that reads a raw store, each time with one file damaged, and sealed again if it is sealed."""
    root = work / "store"
    store = root / "data/raw/s/t/fio"
    trial = next(store.glob("[!.]*/*/trial.json")).parent
    trials = TrialStore(store)

    def all_of_it() -> None:
        confirmed.check(root, store)
        index_problem(store / "session.json")
        find_trials(root / "data/raw", trial.name[-8:])

    def confirm() -> None:
        try:
            confirmed.confirm(root, [store])
        finally:
            confirmed.doubtful(root, [store])

    confirm()
    session_record = next(store.glob("sessions/*/session.json"))
    yield _beside("session.json", store / "session.json", all_of_it)
    yield _beside("session.json", session_record, lambda: sessionindex._session(session_record), resealed=False)
    yield _beside("trial.json", trial / "trial.json", lambda: _finite_record(load_trial(trial).record))
    yield _beside("raw store", trial / SUMS, trials.trials, resealed=False)
    yield _beside("raw store", next(store.glob("discards/*.json")), trials.discards)
    trials.trials()
    for what in (paths.CONFIRMED, paths.READ):
        yield _beside("raw store", paths.remembered(store, what), lambda: (confirm(), trials.trials()))
    if (trial / "interference.json").is_file():

        def others() -> None:
            disturbances._document.cache_clear()
            disturbances._seen_in.cache_clear()
            loaded = load_trial(trial)
            disturbances.values(loaded)
            disturbances.seen(loaded)

        yield _beside("raw store", trial / "interference.json", others)


def _finite_record(record: TrialRecord) -> None:
    """What the record itself says; what it quotes is data."""
    quoted = {"definition": True, "verified": True, "commands": {"__all__": {"limits"}}}
    json.dumps(record.model_dump(mode="json", exclude=quoted), allow_nan=False)


def _beside(kind: str, path: Path, look: Callable[[], object], *, resealed: bool = True) -> Door:
    """Call `look` on what is around a damaged file. `resealed`: whoever damaged it also wrote its new sum."""
    original, sums = path.read_bytes(), path.with_name(SUMS)
    listed = sums.read_text() if resealed and sums.is_file() else None
    digest = hashlib.sha256(original).hexdigest()

    def attempt(content: bytes) -> None:
        path.write_bytes(content)
        if listed is not None:
            sums.write_text(listed.replace(digest, hashlib.sha256(content).hexdigest()))
        try:
            look()
        finally:
            path.write_bytes(original)
            if listed is not None:
                sums.write_text(listed)

    return Door(kind, f"{kind}: {path.name} of {path.parent.name}", original, attempt, (BenchstudyError,))


def _record(content: bytes) -> None:
    _finite_record(TrialRecord.model_validate_json(content))


# --- crates --------------------------------------------------------------------------------------------------------


def _crates(work: Path) -> Iterator[Door]:
    """A small crate, as a folder and as its zip file."""
    crate = work / "crate"
    store = work / "store"
    names = [p for p in sorted(store.glob("data/raw/**/*")) if p.is_file()]
    for path in names:
        copy = crate / path.relative_to(store)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    study = load_study(STUDIES / "studies" / "gitlab-filesystem.yaml")
    (crate / "study.json").write_text(study.model_dump_json(serialize_as_any=True, exclude_unset=True))
    files = {p.relative_to(crate).as_posix(): p.read_bytes() for p in sorted(crate.rglob("*")) if p.is_file()}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    described = [{"@id": name, "@type": "File", "sha256": digest} for name, digest in sums.items()]
    graph = {"@graph": [{"@id": "./", "@type": "Dataset", "hasPart": [{"@id": n} for n in sums]}, *described]}
    (crate / METADATA).write_text(json.dumps(graph))
    sums[METADATA] = hashlib.sha256((crate / METADATA).read_bytes()).hexdigest()
    (crate / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    packed = work / "packed" / "crate.zip"
    packed.parent.mkdir()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(p for p in crate.rglob("*") if p.is_file()):
            archive.write(path, path.relative_to(crate).as_posix())

    def read() -> None:
        check_crate(crate)
        with Crate(crate) as opened:
            study_of_crate(opened)

    def unpack() -> None:
        check_crate(packed)

    for name in (METADATA, "study.json"):
        yield _beside("crate", crate / name, read)
    yield _beside("crate", crate / SUMS, read, resealed=False)
    yield _beside("crate", next(crate.glob(f"data/raw/**/{SUMS}")), read, resealed=False)
    yield _beside("crate", packed, unpack)
