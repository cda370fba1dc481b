"""Where things lie below the project's folder: one function for each path. Imports the standard library only, because
setup/shipped_parts.py reads it before anything is installed.
"""

import os
from pathlib import Path

SESSION_INDEX = "session.json"
PUBLISHED = "data/published"
# The software beside the package itself; folders as a whole. Wheels and crates contain it.
SOFTWARE = ("LICENSE", "Makefile", "pyproject.toml", "requirements.lock", "envs", "notebooks", "setup", "workflow")
# The documentation that `benchstudy docs` shows. Wheels contain it.
DOCUMENTS = ("docs/*.md", "docs/families/*.md", "config/README.md")
# Its place in a wheel, within the package, laid out as in a checkout.
SHIPPED = "_shipped"
PACKAGE = Path(__file__).parents[1]


def project_root(start: Path | None = None) -> Path:
    """The nearest folder, from `start` (default: here) upwards, that holds workflow/Snakefile."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "workflow" / "Snakefile").is_file():
            return folder
    raise FileNotFoundError(
        f"no workflow/Snakefile in {here} or above it: run this in a project; `benchstudy init` makes one"
    )


def is_installed() -> bool:
    """Whether this package was installed from a wheel, which carries all it needs, not from a checkout or crate."""
    return (PACKAGE / SHIPPED).is_dir()


def shipped() -> Path:
    """The folder with the workflow, notebooks, systems, setup and published figures that come with this package."""
    return PACKAGE / SHIPPED if is_installed() else PACKAGE.parents[1]


def snakefile() -> Path:
    """The file that the Snakefile of a user's own project includes."""
    return shipped() / "workflow" / "Snakefile"


def is_whole(root: Path) -> bool:
    """Whether a project contains the workflow, as checkouts and unpacked crates do; then it uses nothing that ships."""
    return (root / "workflow" / "scripts").is_dir()


def places(root: Path, part: str) -> list[Path]:
    """Where a part such as `envs` or `notebooks/published.ipynb` lies: the project's own first, then what ships."""
    tops = [root] if is_whole(root) else [root, shipped()]
    return [top / part for top in tops if (top / part).exists()]


def nearest(root: Path, part: str) -> Path:
    """The first of its `places`; if it is nowhere, its place in the project."""
    return next(iter(places(root, part)), root / part)


def family_raw(root: Path, study: str, target: str, family: str) -> Path:
    """Where the raw files of a family on a target lie."""
    return root / "data" / "raw" / study / target / family


def session_index(root: Path, study: str, target: str, family: str) -> Path:
    """The list of all trials of a family on a target, derived from them."""
    return family_raw(root, study, target, family) / SESSION_INDEX


def provision_facts(root: Path, study: str, target: str, family: str) -> Path:
    """What the hosts of a target have for a family."""
    return root / "data" / "provision" / study / target / f"{family}.json"


def published(root: Path) -> Path:
    """Figures that others published: the project's own folder, else the one that ships."""
    return nearest(root, PUBLISHED)


# In the folder of a study's reports.
STUDY_SUMMARY = "study.json"
METHODS = ("methods.md", "methods.tex")
CITATIONS = ("CITATION.cff", "citation.bib")


def reports(root: Path) -> Path:
    """Published output: pages with their figures and tables. Only jobs write there."""
    return root / "reports"


def with_first_page(root: Path, study: str) -> list[Path]:
    """What one job makes of a whole study: its first page, what goes with it, and the zip file of all its reports."""
    own = ("index.html", STUDY_SUMMARY, *METHODS, *CITATIONS)
    return [*(reports(root) / study / name for name in own), reports(root) / f"{study}.zip"]


def first_pages(root: Path) -> list[Path]:
    """The first page of each study of the project that has one and tells the list of studies what was found."""
    pages = (summary.with_name("index.html") for summary in reports(root).glob(f"*/{STUDY_SUMMARY}"))
    return sorted(page for page in pages if page.exists())


def crate(root: Path, study: str) -> Path:
    """The crate of a study."""
    return reports(root) / f"{study}.crate.zip"


def comparisons(root: Path) -> Path:
    """Pages that compare two studies."""
    return reports(root) / "comparisons"


def local_state(root: Path) -> Path:
    """Keys, sockets and logs of this machine only; git ignores it."""
    return root / ".benchstudy"


# What a command's jobs are told of their study, wherever they run: its name and the SHA-256 of the frozen file.
FROZEN_STUDY = "BENCHSTUDY_FROZEN_STUDY"
_FROZEN = "frozen"


def declared_study(root: Path, study: str) -> Path:
    """A study as it was declared: for a job of a command, when that began; else when a command last worked on it."""
    name, _, sha256 = os.environ.get(FROZEN_STUDY, "").partition("/")
    if name == study:
        return frozen_study(root, study, sha256)
    return local_state(root) / "studies" / study / "declared.json"


def frozen_study(root: Path, study: str, sha256: str) -> Path:
    """What a command's jobs are told; named by the SHA-256 of the file, and never changed."""
    return local_state(root) / "studies" / study / _FROZEN / f"{sha256}.json"


def is_frozen(path: Path) -> bool:
    """Whether it is such a file."""
    return path.parent.name == _FROZEN and path.parents[2].name == "studies"


def declared_sessions(root: Path, study: str) -> Path:
    """The index of each of its sessions, one per line: with a thousand hosts they do not fit on a command line."""
    return local_state(root) / "studies" / study / "sessions.txt"


def confirmation_log(root: Path, study: str) -> Path:
    """Which of its sessions could not be held, and which raw files were altered, as the last command found."""
    return root / "logs" / "confirm_sessions" / f"{study}.log"


def in_use(root: Path, study: str) -> Path:
    """Locked by the command that works on a study; says what that command uses."""
    return local_state(root) / "studies" / study / "command.json"


def controller_beat(root: Path, study: str) -> Path:
    """Renewed by the command that works on a study, for jobs that run on other machines."""
    return local_state(root) / "studies" / study / "command.beat"


def progress(root: Path, study: str) -> Path:
    """The progress of each running session of a study."""
    return local_state(root) / "studies" / study / "progress"


# Cached facts of a raw store: files when they were last compared, and what was read from its trials.
CONFIRMED, READ = "confirmed", "read"


def remembered(store: Path, what: str) -> Path | None:
    """The cache for a family's raw folder; derived. None if that folder is not in a project."""
    if [folder.name for folder in store.parents[2:4]] != ["raw", "data"]:
        return None
    root, study = store.parents[4], store.parents[1].name
    return local_state(root) / "studies" / study / what / store.parent.name / f"{store.name}.json"


def parts(root: Path, study: str, family: str) -> Path:
    """The parsed data of each session of a family, one folder each; derived."""
    return local_state(root) / "studies" / study / "parts" / family


def beside(root: Path, study: str) -> Path:
    """What ran on this machine beside the study's trials because the user allowed it."""
    return local_state(root) / "studies" / study / "beside.jsonl"


def unfinished_page(root: Path, study: str, page: str) -> Path:
    """Exists while a page is being remade: until then the page there is the previous one."""
    return local_state(root) / "studies" / study / "unfinished" / page


def only_page(root: Path, study: str) -> Path:
    """A study's first page with links for `reports/index.html`, which it is while no other study has reports."""
    return local_state(root) / "studies" / study / "only.html"


# Made of a study, beside its pages. No family has such a name.
FIRST_PAGE, CRATE = "index.html", "crate.zip"


def made(root: Path, study: str, what: str) -> Path:
    """How the files of a page, of the FIRST_PAGE or of the CRATE were when they were made; derived."""
    return local_state(root) / "studies" / study / "made" / f"{what}.json"


def made_tables(tables: Path) -> Path:
    """The same of a folder of tables, in which it lies."""
    return tables / ".made.json"


def read_for_tables(tables: Path) -> Path:
    """How the indexes of the sessions were when the tables were made of them."""
    return tables / ".read.json"


def made_list(root: Path) -> Path:
    """The same of the list of all studies."""
    return local_state(root) / "studies" / ".list.json"


def tried(root: Path, study: str) -> Path:
    """A separate root for trial runs that are not results and no input of anything."""
    return local_state(root) / "tried" / study


def vega_bundle(root: Path, version: str) -> Path:
    """The script that draws figures in pages; making it takes seconds."""
    return local_state(root) / "cache" / f"vega-{version}.js"


def loopback_state(root: Path) -> Path:
    """Keys and state of the SSH servers that stand for loopback hosts."""
    return local_state(root) / "loopback"
