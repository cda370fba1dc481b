"""`benchstudy init`: a project of one's own: a study to begin with, its notebooks, a Makefile and an example for CI.

The workflow, the systems and what else ships stay in the package, so that an upgrade of it upgrades every project. What
is copied is what people edit. Templates are real studies, found by listing `project/studies`.
"""

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchstudy import __version__
from benchstudy.model import hints, paths, registry
from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import as_json
from benchstudy.model.names import check_name, nearest
from benchstudy.model.output import add_json, print_json
from benchstudy.model.study import load_study

_PROJECT = Path(__file__).with_name("project")
# Needs nothing that is not there on any machine.
_DEFAULT = "command"
# Copied as they are, because Snakemake finds the one and people add to the other.
_COPIED = ("workflow/profiles", paths.PUBLISHED)
# Beside the study: editors check it by that, and show what each key means.
_SCHEMA = "study.schema.json"
# What keeps empty folders in git.
_KEEPS = ("data/raw/.gitkeep", "reports/.gitkeep")


def templates() -> dict[str, Path]:
    """The studies that a project may begin with, by name."""
    return {path.stem: path for path in sorted((_PROJECT / "studies").glob("*.yaml"))}


def add_command(commands: Any) -> None:
    """`benchstudy init FOLDER [--from TEMPLATE] [--dry-run]`."""
    listed = "\n".join(f"  {name:12} {_about(path)}" for name, path in templates().items())
    init = commands.add_parser(
        "init",
        help="make a project of your own: a small study, notebooks, a Makefile",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"templates:\n{listed}",
    )
    init.add_argument("folder", type=Path, metavar="FOLDER", help="is made; the study gets its name")
    init.add_argument("--from", dest="template", metavar="TEMPLATE", default=_DEFAULT, help="default: %(default)s")
    init.add_argument("--dry-run", action="store_true", help="list what would be written, and write nothing")
    add_json(init)
    init.set_defaults(command=_init)


def _about(template: Path) -> str:
    """Its first line, which is a comment."""
    return template.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def _init(arguments: argparse.Namespace) -> int:
    folder = arguments.folder
    files = project_files(folder, arguments.template)
    own = hints.EMBEDDED
    if not arguments.dry_run:
        _write(folder, files)
    if arguments.json:
        written = [str(folder / name) for name in sorted(files)]
        print_json({"study": str(folder / own), "template": arguments.template, "files": written})
        return 0
    if arguments.dry_run:
        print(*(folder / name for name in sorted(files)), sep="\n")
        return 0
    print(f"{folder}: a project with the study {own}, from the template {arguments.template}. Next:")
    print(f"  cd {folder}")
    print(f"  make report          # measures, ends with reports/index.html; without make: {hints.snakemake()}")
    print(f"  benchstudy plan      # what that will do, and how long it takes; edit {own} to what you want to know")
    return 0


def project_files(folder: Path, template: str) -> dict[str, bytes]:
    """What the project at `folder` is made of: path to content. Nothing is written.

    Raises BenchstudyError for an unknown template, a folder with something in it, and a name that no study may have.
    """
    from benchstudy.model.schema import study_schema  # of no use to other commands, and slow

    known = templates()
    if template not in known:
        raise BenchstudyError(f"no template {template!r}: {nearest(template, known)}")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise BenchstudyError(f"{folder}: is there, and is no empty folder; name a new one")
    try:
        study = check_name(folder.resolve().name)
    except ValueError as error:
        raise BenchstudyError(f"{folder}: the study gets the folder's name, and {error}") from error
    text = re.sub("(?m)^study: .*$", f"study: {study}", known[template].read_text(encoding="utf-8"), count=1)
    text = f"# yaml-language-server: $schema={_SCHEMA}\n{text}"
    facts = {"@VERSION@": __version__, "@STUDY@": study}
    schema = as_json(study_schema(Catalogue())).encode()
    files = {str(hints.EMBEDDED): text.encode(), f"{hints.EMBEDDED.parent}/{_SCHEMA}": schema}
    files |= dict.fromkeys(_KEEPS, b"")
    files |= {name: _filled(path, facts) for name, path in _below(_PROJECT / "files")}
    for part in _COPIED:
        files |= {f"{part}/{name}": path.read_bytes() for name, path in _below(paths.shipped() / part)}
    for family in load_study(known[template]).families:
        notebook = registry.notebook(family, paths.shipped())
        files[f"notebooks/{family}.ipynb"] = notebook.read_bytes()
    return files


def _below(top: Path) -> Iterator[tuple[str, Path]]:
    """Files by their names in a project: `dot-` stands for what tools of this repository would take for their own."""
    for path in sorted(top.rglob("*")):
        if path.is_file():
            yield re.sub(r"(^|/)dot-", r"\1.", path.relative_to(top).as_posix()), path


def _filled(path: Path, facts: Mapping[str, str]) -> bytes:
    text = path.read_text(encoding="utf-8")
    for name, value in facts.items():
        text = text.replace(name, value)
    return text.encode()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """All of them or none: they are written apart, and then moved to where they belong."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    apart = Path(tempfile.mkdtemp(prefix=".init-", dir=folder))
    try:
        for name, content in files.items():
            (apart / name).parent.mkdir(parents=True, exist_ok=True)
            (apart / name).write_bytes(content)
        for entry in sorted(apart.iterdir()):
            entry.rename(folder / entry.name)
    except BaseException:
        shutil.rmtree(folder if made else apart, ignore_errors=True)
        raise
    apart.rmdir()
