"""What every job script of the workflow does around its one call: the study, the log file, a clear way to fail."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from benchstudy.measuring.progress import log_to
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.study import Study, parse_study


def script_job(snakemake: Any) -> AbstractContextManager[tuple[Path, Study]]:
    """`job` for what Snakemake hands to a `script:`."""
    log_file = snakemake.log.get("text") or (snakemake.log[0] if snakemake.log else None)
    return job(snakemake.config, Path(log_file) if log_file else None)


@contextmanager
def job(declared: Mapping[str, Any], log_file: Path | None) -> Iterator[tuple[Path, Study]]:
    """The project's folder and the study. An error the user can mend ends the job with its message, no traceback."""
    undo = log_to(log_file)
    try:
        yield Path.cwd(), parse_study(declared)
    except BenchstudyError as error:
        logging.getLogger("benchstudy").error("%s", error)
        sys.exit(1)
    except KeyboardInterrupt:
        logging.getLogger("benchstudy").error("interrupted")
        sys.exit(130)
    finally:
        undo()
