"""The commands of `benchstudy` that keep raw files in object storage: push, pull, archive verify."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchstudy.model import hints, paths
from benchstudy.model.errors import plain_line
from benchstudy.model.output import add_json, print_json, progress
from benchstudy.model.rounding import plural
from benchstudy.model.studyfile import load_study

if TYPE_CHECKING:
    from benchstudy.archive.bucket import Bucket

_ADDRESS = "s3://BUCKET/PREFIX; credentials and region come from AWS_* or AWS_PROFILE"


def add_commands(commands: Any, study_help: str) -> None:
    """Adds them to argparse's subcommands."""
    push = commands.add_parser(
        "push", help="send those raw files of a study that an archive in object storage does not have"
    )
    pull = commands.add_parser(
        "pull", help="fetch those raw files of a study that its tables need and this project does not have"
    )
    pull.add_argument("--all", action="store_true", help="also fetch what no table needs: logs, files of failed trials")
    archive = commands.add_parser("archive", help="compare each object of an archive with the SHA-256 in its name")
    archive.add_argument("action", choices=["verify"], help="the only thing to do with an archive itself")
    archive.add_argument("--read", action="store_true", help="fetch and hash every object instead of asking the server")
    for command, does in ((push, _push), (pull, _pull), (archive, _verify)):
        command.add_argument("archive", metavar="S3-ADDRESS", help=_ADDRESS)
        command.add_argument("--endpoint-url", metavar="URL", help="address of a server other than Amazon's")
        add_json(command)
        command.set_defaults(command=does)
    for command in (push, pull):
        command.add_argument("--study", type=Path, default=hints.EMBEDDED, metavar="STUDY", help=study_help)
        command.add_argument("--dry-run", action="store_true", help="print what would be done, and write nothing")


def _push(arguments: argparse.Namespace) -> int:
    from benchstudy.archive.push import push

    study = load_study(arguments.study)
    with progress("pushing") as advance:
        told = push(paths.project_root(), study, _bucket(arguments), advance, dry_run=arguments.dry_run)
    for line in told.left_out:
        print(f"left out a discarded trial: {plain_line(line)}", file=sys.stderr)
    if arguments.json:
        print_json(asdict(told))
        return 0
    would = "would send" if told.dry_run else "sent"
    folders = f"{plural(told.sent, 'folder')} of trials, sessions and looks"
    print(f"{would} {folders} ({told.bytes} B); the archive had {told.there} already")
    print(plural(len(told.manifests), "new manifest"))
    if told.conditional is False:
        print("this server overwrites objects even when asked not to, so push looked for each object before sending it")
    if told.compares is False:
        print("this server verifies no SHA-256: to check what it stored, use `benchstudy archive verify --read`")
    return 0


def _pull(arguments: argparse.Namespace) -> int:
    from benchstudy.archive.pull import pull

    study = load_study(arguments.study)
    with progress("pulling") as advance:
        told = pull(
            paths.project_root(), study, _bucket(arguments), advance, whole=arguments.all, dry_run=arguments.dry_run
        )
    if arguments.json:
        print_json(asdict(told))
        return 0
    would = "would fetch" if told.dry_run else "fetched"
    folders = f"{plural(told.fetched, 'folder')} of trials, sessions and looks"
    print(f"{would} {folders} ({told.bytes} B); this project had {told.here} already")
    if told.in_archive:
        print(f"only the archive has {plural(told.in_archive, 'file')} that no table needs; --all fetches these, too")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from benchstudy.archive.check import verify_archive

    with progress("comparing") as advance:
        told = verify_archive(_bucket(arguments), advance, read=arguments.read)
    for line in told.differences:
        print(plain_line(line), file=sys.stderr)
    if told.untold:
        print(
            f"the server gives no SHA-256 for {plural(told.untold, 'object')}, so only sizes were compared: add --read",
            file=sys.stderr,
        )
    if arguments.json:
        print_json(asdict(told))
    else:
        counted = f"{plural(told.objects, 'object')} ({told.bytes} B) in {plural(told.manifests, 'manifest')}"
        print(f"{counted}: {plural(len(told.differences), 'difference')}")
    return 1 if told.differences or told.untold else 0


def _bucket(arguments: argparse.Namespace) -> "Bucket":
    from benchstudy.archive.bucket import Bucket

    return Bucket(arguments.archive, arguments.endpoint_url)
