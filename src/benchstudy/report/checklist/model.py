"""Questions and answers of the checklist.

An answer is "satisfied", "not satisfied", or "does not apply" with the reason. If a question is not satisfied and the
study gives a reason (`acknowledge`), the answer is "acknowledged". These answers are counted separately, and never
as satisfied, so that no doubt is hidden. docs/reports.md says what each question asks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchstudy.model import questions
from benchstudy.report.study.studyfacts import StudyFacts

Status = Literal["satisfied", "not satisfied", "acknowledged", "does not apply"]


@dataclass(frozen=True)
class Answer:
    """An answer: its `status`, a `text` for the reader, and links.

    `href` leads from the study's first page to the evidence. `reason` is what the study acknowledges.
    """

    status: Status
    text: str
    href: str = ""
    reason: str = ""


# By the title of a question, the function that answers it from a study's data: those of all imported modules.
QUESTIONS: dict[str, Callable[[StudyFacts], Answer]] = {}


def question(title: str) -> Callable[[Callable[[StudyFacts], Answer]], Callable[[StudyFacts], Answer]]:
    """Turn a function into the question `title`. Its position follows from `questions.TITLES`, which must have it."""

    def register(answer: Callable[[StudyFacts], Answer]) -> Callable[[StudyFacts], Answer]:
        assert title in questions.TITLES, f"{title} is not on the list"
        QUESTIONS[title] = answer
        return answer

    return register


def does_not_apply(text: str) -> Answer:
    """The answer "does not apply", with the reason as `text`."""
    return Answer("does not apply", text)
