"""What a question of the checklist and its answer are; each question is answered from the study's own data.

An answer is "satisfied", "not satisfied", or "does not apply" with the reason. What is not satisfied and stays so,
because the study says why (`acknowledge`), is "acknowledged": it is counted apart and is never satisfied, so that no
doubt is smoothed over. The questions stand in the order in which they are put; what they ask is in docs/reports.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchstudy.model import questions
from benchstudy.report.study.studyfacts import StudyFacts

Status = Literal["satisfied", "not satisfied", "acknowledged", "does not apply"]


@dataclass(frozen=True)
class Answer:
    """`text` for a reader; `href` leads to the evidence, from the study's first page; `reason` is the study's own."""

    status: Status
    text: str
    href: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Question:
    """`title` is what is asked for, in a few words; `answer` finds out."""

    title: str
    answer: Callable[[StudyFacts], Answer]


_QUESTIONS: dict[str, Question] = {}


def question(title: str) -> Callable[[Callable[[StudyFacts], Answer]], Callable[[StudyFacts], Answer]]:
    """Makes a question of a function; where it stands says the list of titles."""

    def register(answer: Callable[[StudyFacts], Answer]) -> Callable[[StudyFacts], Answer]:
        assert title in questions.TITLES, f"{title} is not on the list"
        _QUESTIONS[title] = Question(title, answer)
        return answer

    return register


def satisfied_if(condition: bool, text: str, href: str = "") -> Answer:
    return Answer("satisfied" if condition else "not satisfied", text, href)


def does_not_apply(text: str) -> Answer:
    return Answer("does not apply", text)


def asked() -> list[Question]:
    """Those of all modules that were imported, in the order of the list."""
    return [_QUESTIONS[title] for title in questions.TITLES if title in _QUESTIONS]
