"""`benchstudy init`: makes a new project: a first study, its notebooks, a Makefile and a CI example.

The workflow, the systems and everything else that ships stay in the package, so upgrading the package upgrades every
project. Only files that people edit are copied. Templates are real studies, found by listing `project/studies`.
"""

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchstudy import __version__
from benchstudy.model import hints, paths, registry
from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.model.errors import BenchstudyError, StudyError
from benchstudy.model.files import as_json, is_taken
from benchstudy.model.names import nearest
from benchstudy.model.output import add_json, print_json
from benchstudy.model.studyfile import parse_study
from benchstudy.model.yamltext import read_yaml

_PROJECT = Path(__file__).with_name("project")
# Needs only what every machine has.
_DEFAULT = "command"
# Copied unchanged: Snakemake looks for the first here, and people add to the second.
_COPIED = ("workflow/profiles", paths.PUBLISHED)
# Beside the study: editors use it to check the study and to explain each key.
_SCHEMA = "study.schema.json"
# These keep empty folders in git.
_KEEPS = ("data/raw/.gitkeep", "reports/.gitkeep")


def templates() -> dict[str, Path]:
    """The studies that a project may start from, by name."""
    return {path.stem: path for path in sorted((_PROJECT / "studies").glob("*.yaml"))}


def add_command(commands: Any) -> None:
    """`benchstudy init FOLDER [--from TEMPLATE] [--dry-run]`."""
    listed = "\n".join(f"  {name:12} {_about(path)}" for name, path in templates().items())
    init = commands.add_parser(
        "init",
        help="make a new project with a small study, notebooks and a Makefile",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"templates:\n{listed}",
    )
    init.add_argument("folder", type=Path, metavar="FOLDER", help="the folder to make; the study gets its name")
    init.add_argument(
        "--from",
        dest="template",
        metavar="TEMPLATE",
        default=_DEFAULT,
        help="template to start from (default: %(default)s)",
    )
    init.add_argument("--dry-run", action="store_true", help="list the files that would be written, and write nothing")
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
    print(f"{folder}: new project with the study {own}, from the template {arguments.template}. Next:")
    print(f"  {hints.cd(folder)}")
    print(f"  make report          # measure and write reports/index.html; without make: {hints.snakemake()}")
    print(f"  benchstudy plan      # what that will do and how long it takes; edit {own} to ask your own question")
    return 0


def project_files(folder: Path, template: str) -> dict[str, bytes]:
    """The files of the project at `folder`: path to content. Writes nothing.

    Raises BenchstudyError for an unknown template, a folder that is not empty, and a name that a study cannot have.
    """
    from benchstudy.model.schema import study_schema  # slow, and other commands do not need it

    known = templates()
    if template not in known:
        raise BenchstudyError(f"no template {template!r}: {nearest(template, known)}")
    if is_taken(folder):
        raise BenchstudyError(f"{folder}: exists and is not an empty folder; name a new one")
    name = folder.resolve().name
    line = yaml.safe_dump({"study": name}).strip()  # quoted if YAML would take it for a number
    text = re.sub("(?m)^study: .*$", lambda _: line, known[template].read_text(encoding="utf-8"), count=1)
    text = f"# yaml-language-server: $schema={_SCHEMA}\n{text}"
    try:
        study = parse_study(read_yaml(text))
    except (StudyError, yaml.YAMLError) as error:
        raise BenchstudyError(f"{folder}: the study gets the folder's name, which is refused: {error}") from error
    facts = {"@VERSION@": __version__, "@STUDY@": name}
    schema = as_json(study_schema(Catalogue())).encode()
    files = {str(hints.EMBEDDED): text.encode(), f"{hints.EMBEDDED.parent}/{_SCHEMA}": schema}
    files |= dict.fromkeys(_KEEPS, b"")
    files |= {name: _filled(path, facts) for name, path in _below(_PROJECT / "files")}
    for part in _COPIED:
        files |= {f"{part}/{name}": path.read_bytes() for name, path in _below(paths.shipped() / part)}
    for family in study.families:
        notebook = registry.notebook(family, paths.shipped())
        files[f"notebooks/{family}.ipynb"] = notebook.read_bytes()
    return files


def _below(top: Path) -> Iterator[tuple[str, Path]]:
    """Files by their names in a project. `dot-` stands for a dot that tools in this repository would react to."""
    for path in sorted(top.rglob("*")):
        if path.is_file():
            yield re.sub(r"(^|/)dot-", r"\1.", path.relative_to(top).as_posix()), path


def _filled(path: Path, facts: Mapping[str, str]) -> bytes:
    text = path.read_text(encoding="utf-8")
    for name, value in facts.items():
        text = text.replace(name, value)
    return text.encode()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files or none: write them to a temporary folder, then move them into place."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    apart = Path(tempfile.mkdtemp(prefix=".init-", dir=folder))
    try:
        for name, content in files.items():
            (apart / name).parent.mkdir(parents=True, exist_ok=True)
            (apart / name).write_bytes(content)
            if content.startswith(b"#!"):  # whoever may read it may start it
                mode = (apart / name).stat().st_mode
                (apart / name).chmod(mode | (mode & 0o444) >> 2)
        for entry in sorted(apart.iterdir()):
            entry.rename(folder / entry.name)
    except BaseException as error:
        shutil.rmtree(folder if made else apart, ignore_errors=True)
        if isinstance(error, OSError) and not error.filename:  # a write names no file, and the disk may be another one
            error.filename = str(folder)
        raise
    apart.rmdir()
