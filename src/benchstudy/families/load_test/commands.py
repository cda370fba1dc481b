"""`benchstudy export`: keeps a window of a Prometheus in a file that a study can use as a source of load_test.

The file holds the server's answers. A trial fetches its samples with the same code.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchstudy.model.errors import BenchstudyError
from benchstudy.model.output import add_json, print_json
from benchstudy.model.parsing import ParseError
from benchstudy.model.rounding import plural
from benchstudy.model.units import parse_duration

if TYPE_CHECKING:
    from benchstudy.families.load_test.config import Source, Window
    from benchstudy.families.load_test.prometheus_raw import Section

_CASE = {"version": "exported", "database": "exported", "load": "exported"}


def add_commands(commands: Any) -> None:
    """`commands`: what argparse's add_subparsers gave."""
    told = "save a time window of a Prometheus server to a file, as a source for load_test"
    parser = commands.add_parser("export", help=told)
    parser.add_argument("file", type=Path, metavar="FILE", help="file to write, such as data/exports/v10.ndjson.gz")
    parser.add_argument(
        "--url", required=True, help="URL of the Prometheus server, as seen from this machine; without credentials"
    )
    parser.add_argument("--start", required=True, help='start of the window, with time zone: "2024-09-10T10:00:00Z"')
    parser.add_argument("--end", required=True, help="end of the window, with time zone")
    parser.add_argument("--select", default="", help='label matchers of the servers: {instance=~"app.*"}; default: all')
    parser.add_argument(
        "--select-hosts", default="", help="label matchers of the hosts' node_* metrics; default: --select"
    )
    parser.add_argument("--margin", default="60s", help="extra time before the start, for rates (default: %(default)s)")
    parser.add_argument("--scrape-interval", default="15s", help="scrape interval of the server (default: %(default)s)")
    parser.add_argument("--bearer-env", help="environment variable with a bearer token")
    parser.add_argument("--user", help="for basic authentication, with --password-env")
    parser.add_argument("--password-env", help="environment variable with the password")
    parser.add_argument("--ca-file", help="CA certificate for an https URL")
    parser.add_argument("--append", action="store_true", help="add the window to an existing file")
    add_json(parser)
    parser.set_defaults(command=_export)


def _export(arguments: argparse.Namespace) -> int:
    from benchstudy.families.load_test.config import Source, Window

    given = {name: getattr(arguments, name) for name in ("url", "bearer_env", "user", "password_env", "ca_file")}
    try:
        source = Source(name="exported", **{name: value for name, value in given.items() if value is not None})
        window = Window(
            **_CASE,
            start=arguments.start,
            end=arguments.end,
            select=arguments.select,
            select_hosts=arguments.select_hosts,
        )
        margin_s = _duration("--margin", arguments.margin)
        interval_s = _duration("--scrape-interval", arguments.scrape_interval)
    except ValueError as error:
        raise BenchstudyError(_first_message(error)) from error
    section = export_window(
        arguments.file, source, window, margin_s=margin_s, scrape_interval_s=interval_s, append=arguments.append
    )
    series = sum(section.metrics.values())
    if arguments.json:
        facts = {"file": str(arguments.file), "series": series, "samples": section.samples}
        print_json({**facts, "missing": section.missing, "problems": section.problems})
        return 0
    print(f"{arguments.file}: {series} series, {plural(section.samples, 'sample')}")
    for text in (*(["no series of " + ", ".join(section.missing)] if section.missing else []), *section.problems):
        print(f"  {text}")
    return 0


def _duration(option: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BenchstudyError(f"{option}: {error}") from error


def export_window(
    file: Path, source: "Source", window: "Window", *, margin_s: float, scrape_interval_s: float, append: bool = False
) -> "Section":
    """Fetch the window into `file`, which is written atomically, and return the new section.

    Raises BenchstudyError if the file exists already (without `append`), or if the Prometheus cannot be read.
    """
    from benchstudy.families.load_test.fetch import FILE, Span, server_of, spec_of
    from benchstudy.families.load_test.prometheus_raw import sections

    if file.exists() and not append:
        raise BenchstudyError(f"{file} exists already: name another file, or add to it with --append")
    start_s, end_s = window.start.timestamp(), window.end.timestamp()
    span = Span(start_s, end_s, margin_s, window.select, window.select_hosts, scrape_interval_s)
    server = server_of(source, _secret)
    if file.exists():
        try:
            sections(file)
        except ParseError as error:
            raise BenchstudyError(f"{file}: no whole export, so nothing is added to it: {error}") from error
    with _folder(file.parent), tempfile.TemporaryDirectory(dir=file.parent, prefix=".export-") as folder:
        fetched = Path(folder) / FILE
        _fetch(spec_of(server, span), {**server.env, **server.secret_env}, Path(folder))
        (section,) = sections(fetched)
        if file.exists():
            whole = Path(folder) / "whole"
            with whole.open("wb") as out:
                for part in (file, fetched):
                    with part.open("rb") as content:
                        shutil.copyfileobj(content, out)
            fetched = whole
        fetched.replace(file)
    return section


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make the folder for the block, and remove what was made if the block raises."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for place in made:
            with suppress(OSError):
                place.rmdir()
        raise


def _fetch(spec: Mapping[str, Any], env: Mapping[str, str], folder: Path) -> None:
    from benchstudy.families.load_test.family import FAMILY
    from benchstudy.hosts.agent_files import agent_sources, write_agent

    with tempfile.TemporaryDirectory(prefix="benchstudy-agent-") as agent:
        write_agent(Path(agent), agent_sources(FAMILY.extensions))
        done = subprocess.run(
            [sys.executable, "-I", "-S", agent, "prometheus:fetch"],
            input=json.dumps(spec) + "\n",
            env={**os.environ, **env},
            cwd=folder,
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        raise BenchstudyError(" ".join((done.stderr or done.stdout).split()))


def _secret(variable: str) -> str:
    found = os.environ.get(variable, "")
    if not found:
        raise BenchstudyError(f"the environment variable {variable} is not set: set it to the token or the password")
    return found


def _first_message(error: ValueError) -> str:
    """The first message of a model's error, without the given value, which may be a secret."""
    problems = getattr(error, "errors", None)
    if problems is None:
        return str(error)
    first = problems()[0]
    where = "".join(f"--{str(part).replace('_', '-')}: " for part in first["loc"])
    if not where and getattr(error, "title", "") == "Window":
        where = "--start, --end: "
    return f"{where}{first.get('ctx', {}).get('error') or first['msg']}"
