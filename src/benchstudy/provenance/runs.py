"""What happened, in RO-Crate's terms: sessions, trials, commands, with which tools and on which hosts.

A session is one execution of a workflow step. A trial is one run of that step's program. A supervised command of a
trial is one execution of a tool.
"""

import shlex
from typing import Any

from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.measuring.trialrecord import CommandRecord, ToolRecord
from benchstudy.model import registry
from benchstudy.model.grouping import grouped
from benchstudy.provenance.contents import STUDY_FILE, Contents, Measured
from benchstudy.provenance.entities import STATUS, Files, Graph, Reference, fragment, to
from benchstudy.provenance.words import counted
from benchstudy.report.results import sessions
from benchstudy.report.scrutiny import disturbed


def step(family: str) -> str:
    """The identifier of the workflow step that measures a family."""
    return fragment("measure", family)


class Runs:
    """Adds what was measured to `graph`.

    Afterwards `actions` holds all sessions, trials and commands, `sessions` the executions of steps, `folders` those of
    families on targets, `tools` every executed program, and `measured_families` the families with trials that were
    measured rather than imported, in the study's order.
    """

    def __init__(self, contents: Contents, graph: Graph, files: Files, authors: list[Reference]):
        self._graph, self._files, self._authors = graph, files, authors
        self._positions = {family: str(number) for number, family in enumerate(contents.study.families, start=1)}
        self._facts, self._packed = _latest_facts(contents), contents.instruments
        self._tools: dict[str, Reference] = {}
        self.actions: list[Reference] = []
        self.sessions: list[Reference] = []
        self.folders: list[Reference] = []
        own = [m for m in contents.measured if _measured_here(m)]
        self.measured_families = list(dict.fromkeys(m.plan.family_name for m in own))
        # Different versions of the code may have measured different targets.
        self._instruments = {
            family: list(
                dict.fromkeys(
                    t.record.instrument for m in own for t in _measured_here(m) if m.plan.family_name == family
                )
            )
            for family in self.measured_families
        }

    @property
    def tools(self) -> list[Reference]:
        """References to all programs that took part."""
        return list(self._tools.values())

    def describe(self, measured: Measured) -> None:
        """Describe the trials and sessions of one family on one target."""
        plan, index = measured.plan, measured.index
        places = [measured.name_of(trial) for trial in measured.trials]
        for trial, place in zip(measured.trials, places, strict=True):
            self._folder(place, f"Trial {trial.short}, all its files")
        for place, session in measured.sessions.items():
            told = "order, events, hosts before and after, the study as it was declared"
            self._folder(place, f"Session {session['uuid'][:8]}: {told}")
        discarded = {entry["uuid"]: entry["why"] for entry in index["discarded"]}
        for uuid, trials in _by_session(measured).items():
            self._session(measured, uuid, trials)
        for trial in measured.trials:
            self._trial(measured, trial, discarded.get(trial.record.uuid))
        within = {name for place in (*places, *measured.sessions) for name in self._files.names_below(place)}
        loose = [name for name in self._files.names_below(measured.folder) if name not in within]
        parts = [*self._files.named(loose), *(to(f"{place}/") for place in (*measured.sessions, *places))]
        name = f"{registry.get(plan.family_name).title} on {plan.target}: {counted(measured)}"
        self.folders.append(self._graph.add(to(f"{measured.folder}/")["@id"], "Dataset", name=name, hasPart=parts))

    def _folder(self, place: str, name: str) -> Reference:
        return self._graph.add(to(f"{place}/")["@id"], "Dataset", name=name, hasPart=self._files.below(place))

    def _session(self, measured: Measured, uuid: str, trials: list[StoredTrial]) -> None:
        plan = measured.plan
        place = next((place for place, session in measured.sessions.items() if session["uuid"] == uuid), None)
        record = measured.sessions[place] if place else {}
        lost = "" if place else "; its own record was lost when its controlling process ended"
        self._graph.add(
            step(plan.family_name),
            "HowToStep",
            name=f"Measure {plan.family_name}: one session per target",
            position=self._positions[plan.family_name],
            workExample=[self._instrument(plan.family_name, digest) for digest in self._instruments[plan.family_name]],
        )
        action = self._graph.add(
            fragment("session", uuid),
            "ControlAction",
            name=f"Session of {plan.family_name} on {plan.target}{lost}",
            startTime=record.get("started") or min(trial.record.started for trial in trials),
            endTime=record.get("finished") or max(trial.record.finished for trial in trials),
            instrument={"@id": step(plan.family_name)},
            object=[{"@id": fragment("trial", trial.record.uuid)} for trial in trials],
            subjectOf=to(f"{place}/") if place else None,
        )
        self.sessions.append(action)
        self.actions.append(action)

    def _trial(self, measured: Measured, trial: StoredTrial, discarded: str | None) -> None:
        record = trial.record
        said = [f"Position {record.position} in its block; {record.status}"]
        if record.imported_from:
            said = [f"Imported from {record.imported_from}: how it was run is not known"]
        said += [f"discarded by hand: {discarded}"] if discarded else []
        found = measured.disturbance_of(trial)
        said += [f"disturbed: {disturbed.told(found)}"] if found else []
        standing = measured.index.get("disturbance", {}).get("repeated", {}).get(record.uuid)
        said += [f"set aside: trial {standing[:8]} replaces it"] if standing else []
        said += [f"commands: {', '.join(c.label for c in record.commands)}"] if record.commands else []
        levels = [
            self._graph.add(fragment("level", f"{factor}={level}"), "PropertyValue", name=factor, value=level)
            for factor, level in record.levels.items()
        ]
        instrument = (
            self._imported_tool(trial) if record.imported_from else self._instrument(record.family, record.instrument)
        )
        action = self._graph.add(
            fragment("trial", record.uuid),
            "CreateAction",
            name=f"Trial {trial.short}: {record.case}, block {record.block} on {record.target}",
            description="; ".join(said),
            startTime=record.started,
            endTime=record.finished,
            instrument=instrument,
            agent=self._authors,
            location=[self._host(host) for host in dict.fromkeys(record.roles.values())],
            object=[to(STUDY_FILE), *levels],
            result=to(f"{measured.name_of(trial)}/"),
            actionStatus=STATUS[record.status == "ok"],
            error=None if record.status == "ok" else f"{record.status}: {record.cause or 'no cause recorded'}",
        )
        self.actions.append(action)
        place = measured.name_of(trial)
        self.actions += [self._command(place, trial, number) for number in range(len(record.commands))]

    def _command(self, place: str, trial: StoredTrial, number: int) -> Reference:
        command = trial.record.commands[number]
        fine = command.state in ("exited", "ended") and not command.exit_status and command.signal is None
        ending = f"signal {command.signal}" if command.signal else f"exit status {command.exit_status}"
        return self._graph.add(
            fragment("command", trial.record.uuid, str(number + 1)),
            "CreateAction",
            name=f"{command.tool.name} ({command.label}) of trial {trial.short}, as {command.role} on {command.host}",
            description=shlex.join(command.argv),
            startTime=_moment(command.started),
            endTime=_moment(command.finished),
            instrument=self._tool(command.tool),
            agent=self._authors,
            location=self._host(command.host),
            result=self._left_by(place, command),
            actionStatus=STATUS[fine],
            error=None if fine else f"{command.state}, {ending}",
        )

    def _left_by(self, place: str, command: CommandRecord) -> list[Reference]:
        """The files that a command left: in the trial's folder, or below its label if there are several commands."""
        if command.label != "command":
            return self._files.below(f"{place}/{command.label}")
        own = self._files.named(f"{place}/{name}" for name in ("stdout", "stderr", "supervisor.json"))
        return own + self._files.below(f"{place}/files")

    # -- with what, and where ----------------------------------------------------------------------

    def _instrument(self, family: str, digest: str) -> Reference:
        """The measuring code of a family, in one version."""
        place = f"src/ of this crate holds {'it' if self._packed.get(family) == digest else 'another version of it'}"
        return self._known_tool(
            fragment("instrument", family, digest[:12]),
            name=f"benchstudy's measuring code of {family}",
            softwareVersion=digest[:12],
            sha256=digest,
            description=f"All code that decides what is executed on a host, by name and content; {place}",
        )

    def _tool(self, tool: ToolRecord) -> Reference:
        return self._known_tool(
            fragment("tool", tool.name, (tool.sha256 or tool.version or "unknown")[:12]),
            name=tool.name,
            softwareVersion=tool.version,
            sha256=tool.sha256,
            description=f"{tool.path} on the host" if tool.path else None,
        )

    def _imported_tool(self, trial: StoredTrial) -> Reference:
        verified = trial.record.verified
        name, version = verified.get("tool") or "unknown tool", verified.get("tool_version")
        return self._known_tool(fragment("tool", name, version or "unknown"), name=name, softwareVersion=version)

    def _known_tool(self, identifier: str, /, **properties: Any) -> Reference:
        self._tools[identifier] = self._graph.add(identifier, "SoftwareApplication", **properties)
        return self._tools[identifier]

    def _host(self, name: str) -> Reference:
        """A machine, with the facts that the latest session recorded."""
        facts = [
            self._graph.add(fragment("host", name, fact), "PropertyValue", name=fact, value=value)
            for fact, value in sessions.host_lines(self._facts.get(name))
        ]
        identifier = fragment("host", name)
        return self._graph.add(identifier, "IndividualProduct", name=f"Host {name}", additionalProperty=facts)


def _moment(written: str) -> str:
    """A time in one form for consumers of crates: hosts write Z for UTC, and everything else here writes +00:00."""
    return f"{written.removesuffix('Z')}+00:00" if written.endswith("Z") else written


def _latest_facts(contents: Contents) -> dict[str, Any]:
    """The facts of each host at the start of the last session that recorded them."""
    found = [session for measured in contents.measured for session in measured.index["sessions"]]
    latest: dict[str, Any] = {}
    for session in sorted(found, key=lambda session: session["started"]):
        latest |= {
            host: environment["before"] for host, environment in session["hosts"].items() if environment.get("before")
        }
    return latest


def _measured_here(measured: Measured) -> list[StoredTrial]:
    return [trial for trial in measured.trials if trial.record.imported_from is None]


def _by_session(measured: Measured) -> dict[str, list[StoredTrial]]:
    """The trials that were not imported, by session, in the order of measuring."""
    in_time = sorted(_measured_here(measured), key=lambda trial: (trial.record.started, trial.record.uuid))
    return grouped((trial.record.session, trial) for trial in in_time)
