"""The families there are: each module here that defines a `FAMILY` is one. Nothing has to be registered."""

import importlib
import pkgutil
from functools import cache

from benchstudy.families.base import Family


@cache
def _all() -> dict[str, Family]:
    found = {}
    for module in pkgutil.iter_modules(__path__):
        family = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FAMILY", None)
        if family is not None:
            found[family.name] = family
    return found


def names() -> list[str]:
    return sorted(_all())


def get(name: str) -> Family:
    return _all()[name]
