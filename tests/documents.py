"""The documents of the repository that a person wrote."""

from conftest import CHECKOUT

_WRITTEN = ("README.md", "SECURITY.md", "benchmarks/README.md", "docs/**/*.md", "envs/*/README.md")
# Reports of the gallery have their tables as Markdown, too.
TEXTS = [path for written in _WRITTEN for path in sorted(CHECKOUT.glob(written)) if "report" not in path.parts]
