"""The thirty questions of a credible report, each answered from the study's own data, with the way to the evidence.

An answer is "satisfied", "not satisfied", or "does not apply" with the reason. What is not satisfied and stays so,
because the study says why (`acknowledge`), is "acknowledged": it is counted apart and is never satisfied, so that no
doubt is smoothed over. The questions stand in the order in which they are put; what they ask is in docs/reports.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from benchstudy import thirty
from benchstudy.report.studyfacts import StudyFacts

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


_QUESTIONS: list[Question] = []


def question(title: str) -> Callable[[Callable[[StudyFacts], Answer]], Callable[[StudyFacts], Answer]]:
    """Makes a question of a function, behind those there are."""

    def register(answer: Callable[[StudyFacts], Answer]) -> Callable[[StudyFacts], Answer]:
        assert thirty.TITLES[len(_QUESTIONS)] == title, f"{title} is not the next one of the list"
        _QUESTIONS.append(Question(title, answer))
        return answer

    return register


def satisfied_if(condition: bool, text: str, href: str = "") -> Answer:
    return Answer("satisfied" if condition else "not satisfied", text, href)


def does_not_apply(text: str) -> Answer:
    return Answer("does not apply", text)


def questions() -> list[Question]:
    """All of them, in their order."""
    # Imported for the questions they define, in the order of the list.
    from benchstudy.report import checklist_numbers, checklist_method, checklist_claims  # noqa: F401, I001

    return list(_QUESTIONS)


def answered(facts: StudyFacts) -> list[tuple[str, Answer]]:
    """Each question's title with its answer."""
    reasons = {entry.question: entry.reason for entry in facts.study.acknowledge if entry.question is not None}
    return [(q.title, _acknowledged(q.answer(facts), reasons.get(q.title, ""))) for q in questions()]


def _acknowledged(answer: Answer, reason: str) -> Answer:
    """A reason for what is satisfied after all, or does not apply, is out of date and says nothing."""
    if answer.status != "not satisfied" or not reason:
        return answer
    return replace(answer, status="acknowledged", reason=reason)
