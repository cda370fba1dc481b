"""Finds dangling references between services when the study is read, not after an hour of measuring."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from benchstudy.model.names import most_like, nearest
from benchstudy.model.services import PLACEHOLDER, Service, needed


def dangling(
    family: str,
    services: Mapping[str, Service],
    roles_by_target: Mapping[str, Mapping[str, str]],
    runs_on: str | None = None,
    trial_names: Sequence[str] = (),
    own_roles: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """One line per dangling reference in a family's services, with the field in front and what to write.

    `roles_by_target`: role to host, of each target that the family is measured on. `runs_on` and `trial_names` are
    those of Family, `own_roles` are those of its block.
    """
    found = [
        f"families.{family}.services.{name}.{text}"
        for name, service in services.items()
        for text in _of_service(name, service, services, trial_names)
    ]
    wanted = {
        **({runs_on: ""} if runs_on else {}),
        **{role: f".{entry}" for entry, role in own_roles.items()},
        **{service.role: f".services.{name}" for name, service in services.items()},
    }
    for target, roles in roles_by_target.items():
        for role, entry in wanted.items():
            if role not in roles:
                who = f"families.{family}{entry}"
                hint = nearest(role, roles)
                # Nobody asks for another role than sut, so the target is wrong.
                if role == "sut" and (like := most_like(role, roles)):
                    hint = f'is it misspelt as "{like}"?'
                found.append(f"targets.{target}.roles: {who} needs the role {role!r}: {hint}")
    return found


def unfilled(
    where: str, texts: Iterable[str], name: str, services: Mapping[str, Service], also: Sequence[str] = ()
) -> Iterator[str]:
    """One line per placeholder in a family's texts that the service `name` cannot fill, with the field in front.

    `also`: placeholders that a trial fills besides.
    """
    known = [*_values(services[name], services), *also]
    for given in dict.fromkeys(match for text in texts for match in PLACEHOLDER.findall(text)):
        if given not in known:
            yield f"{where}: service {name} has no {{{{{given}}}}}: {nearest(given, known)}"


def _of_service(
    name: str, service: Service, services: Mapping[str, Service], trial_names: Sequence[str]
) -> Iterator[str]:
    for other in service.needs:
        if other not in services:
            yield f"needs: no service {other!r}: {nearest(other, services)}"
    if name in needed(services, service.needs):
        yield f"needs: {name} needs itself, through {', '.join(service.needs)}"
    if service.ready.tcp is not None and service.ready.tcp not in service.ports:
        fix = nearest(service.ready.tcp, service.ports) if service.ports else f"write ports: [{service.ready.tcp}]"
        yield f"ready.tcp: no port {service.ready.tcp!r} in ports: {fix}"
    for file in service.files:
        if not file or file.startswith("/") or ".." in file.split("/"):
            yield f"files: {file!r} must be a path below the service's own folder"
    known = _values(service, services)
    for key, texts in texts_of(service).items():
        for given in dict.fromkeys(match for text in texts for match in PLACEHOLDER.findall(text)):
            owner, dot, _ = given.partition(".")
            if given not in known and not (dot and owner in trial_names):
                yield f"{key}: {{{{{given}}}}} is not available here: {_hint(given, known, service, services)}"


def _hint(given: str, known: list[str], service: Service, services: Mapping[str, Service]) -> str:
    owner = next((other for other in services if given.startswith(f"{other}.")), None)
    if owner is not None and owner not in service.needs:
        return f"add {owner} to its needs"
    return nearest(given, known)


def texts_of(service: Service) -> dict[str, list[str]]:
    """All texts that may hold placeholders, by key."""
    ready = (service.ready.http, service.ready.mount, service.ready.file)
    return {
        "files": list(service.files.values()),
        "setup": [text for command in service.setup for text in command],
        "argv": list(service.argv),
        "env": list(service.env.values()),
        "ready": [text for text in ready if text is not None],
        "stop": list(service.stop or ()),
    }


def _values(service: Service, services: Mapping[str, Service]) -> list[str]:
    """The placeholders that `agent/service.py` can fill."""
    values = ["tools", *own_values(service), *(f"library.{name}" for name in service.libraries)]
    for other in service.needs:
        if other in services:
            values += (f"{other}.{value}" for value in own_values(services[other]))
    return values


def own_values(service: Service) -> list[str]:
    """The placeholders for what a service has itself; others write its name before them."""
    secrets = (*service.secrets, *service.secret_env)
    return ["dir", "bind", *(f"port.{name}" for name in service.ports), *(f"secret.{name}" for name in secrets)]
