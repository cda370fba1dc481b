"""What a wheel contains besides modules, so that a user's own project needs no checkout. hatchling calls this.

An editable installation finds all of it in the checkout.
"""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShippedParts(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        paths = runpy.run_path(str(Path(self.root) / "src" / "benchstudy" / "model" / "paths.py"))
        documents = [file for pattern in paths["DOCUMENTS"] for file in Path(self.root).glob(pattern)]
        parts = (*paths["SOFTWARE"], paths["PUBLISHED"], *(str(file.relative_to(self.root)) for file in documents))
        build_data["force_include"] |= {part: f"benchstudy/{paths['SHIPPED']}/{part}" for part in parts}
