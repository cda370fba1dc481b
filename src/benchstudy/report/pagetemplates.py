"""The templates of pages, and what all pages share."""

from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from benchstudy.lints.model import SEVERITIES
from benchstudy.report import human
from benchstudy.report.texts import as_html, unbroken


def template_text(name: str) -> str:
    """The text of a template file."""
    return resources.files("benchstudy.report").joinpath("templates", name).read_text(encoding="utf-8")


def page_style() -> Markup:
    """The style sheet as markup for a page."""
    return Markup(template_text("page.css"))


def render(name: str, **values: Any) -> str:
    """Render a template. Texts are escaped, `Markup` is not. Raises UndefinedError if a value is missing."""
    return _environment().get_template(name).render(**values)


@cache  # with the templates that it has compiled
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template_text), autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["coded"] = lambda text: Markup(as_html(text))
    environment.filters["whole"] = unbroken
    environment.filters["noun"] = human.noun
    environment.globals["severities"] = SEVERITIES
    return environment
