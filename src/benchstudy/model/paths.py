"""Where things lie below the project's folder: one function for each path. Imports the standard library only, because
setup/shipped_parts.py reads it before anything is installed.
"""

from pathlib import Path

SESSION_INDEX = "session.json"
PUBLISHED = "data/published"
# The software beside the package itself; folders whole. A wheel carries it, and so does a crate.
SOFTWARE = ("LICENSE", "Makefile", "pyproject.toml", "requirements.lock", "envs", "notebooks", "setup", "workflow")
# Where a wheel has it, within the package, laid out as a checkout is.
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
    """Whether this package came as a wheel, which carries all that it needs; else it lies in a checkout or a crate."""
    return (PACKAGE / SHIPPED).is_dir()


def shipped() -> Path:
    """The folder with the workflow, notebooks, systems, setup and published figures that come with this package."""
    return PACKAGE / SHIPPED if is_installed() else PACKAGE.parents[1]


def snakefile() -> Path:
    """What the Snakefile of a project of one's own includes."""
    return shipped() / "workflow" / "Snakefile"


def is_whole(root: Path) -> bool:
    """Whether a project has the workflow in it, as a checkout and an unpacked crate do; then it takes nothing else."""
    return (root / "workflow" / "scripts").is_dir()


def places(root: Path, part: str) -> list[Path]:
    """Where a part such as `envs` or `notebooks/published.ipynb` lies: the project's own first, then what ships."""
    tops = [root] if is_whole(root) else [root, shipped()]
    return [top / part for top in tops if (top / part).exists()]


def nearest(root: Path, part: str) -> Path:
    """The first of its `places`; where the project would have it, when it is nowhere."""
    return next(iter(places(root, part)), root / part)


def family_raw(root: Path, study: str, target: str, family: str) -> Path:
    return root / "data" / "raw" / study / target / family


def session_index(root: Path, study: str, target: str, family: str) -> Path:
    """The list of all trials of a family on a target, derived from them."""
    return family_raw(root, study, target, family) / SESSION_INDEX


def provision_facts(root: Path, study: str, target: str, family: str) -> Path:
    """What the hosts of a target have for a family."""
    return root / "data" / "provision" / study / target / f"{family}.json"


def published(root: Path) -> Path:
    return nearest(root, PUBLISHED)


def reports(root: Path) -> Path:
    """What is published: pages, with their figures and tables. Only jobs write there."""
    return root / "reports"


def crate(root: Path, study: str) -> Path:
    return reports(root) / f"{study}.crate.zip"


def comparisons(root: Path) -> Path:
    """Pages of two studies."""
    return reports(root) / "comparisons"


def local_state(root: Path) -> Path:
    """Keys, sockets and logs of this machine only; git ignores it."""
    return root / ".benchstudy"


def declared_study(root: Path, study: str) -> Path:
    """A study as it was declared when a command last worked on it: what that command's jobs are told."""
    return local_state(root) / "studies" / study / "declared.json"


def declared_sessions(root: Path, study: str) -> Path:
    """The index of each of its sessions, a line each: of a thousand hosts too many for a job's command line."""
    return local_state(root) / "studies" / study / "sessions.txt"


def in_use(root: Path, study: str) -> Path:
    """Locked by the command that works on a study, and says what it uses."""
    return local_state(root) / "studies" / study / "command.json"


def controller_beat(root: Path, study: str) -> Path:
    """Renewed by the command that works on a study, for jobs that run on other machines."""
    return local_state(root) / "studies" / study / "command.beat"


def progress(root: Path, study: str) -> Path:
    """How far each session of a study is that is being held."""
    return local_state(root) / "studies" / study / "progress"


# What is remembered of a raw store: files when they were compared last, and what was read of its trials.
CONFIRMED, READ = "confirmed", "read"


def remembered(store: Path, what: str) -> Path | None:
    """Of a family's raw folder; derived. None where that lies in no project."""
    if [folder.name for folder in store.parents[2:4]] != ["raw", "data"]:
        return None
    root, study = store.parents[4], store.parents[1].name
    return local_state(root) / "studies" / study / what / store.parent.name / f"{store.name}.json"


def parts(root: Path, study: str, family: str) -> Path:
    """What was parsed of each session of a family, a folder each; derived."""
    return local_state(root) / "studies" / study / "parts" / family


def beside(root: Path, study: str) -> Path:
    """Who computed on this machine beside the study's trials, because somebody said that it may be so."""
    return local_state(root) / "studies" / study / "beside.jsonl"


def unfinished_page(root: Path, study: str, page: str) -> Path:
    """There from the moment on in which a page is made anew until that is done: what lies there is the one before."""
    return local_state(root) / "studies" / study / "unfinished" / page


def tried(root: Path, study: str) -> Path:
    """A root of its own, below which trials lie that were only tried: no result, and no input of anything."""
    return local_state(root) / "tried" / study


def vega_bundle(root: Path, version: str) -> Path:
    """The script that draws figures in pages, which takes seconds to make."""
    return local_state(root) / "cache" / f"vega-{version}.js"


def loopback_state(root: Path) -> Path:
    return local_state(root) / "loopback"
