"""The thirty questions of a credible report, each answered from the study's own data, with the way to the evidence."""

from dataclasses import replace

# Imported for the questions they define.
from benchstudy.report.checklist import claims, method, numbers  # noqa: F401
from benchstudy.report.checklist.model import Answer, Question, Status, asked
from benchstudy.report.study.studyfacts import StudyFacts

__all__ = ["Answer", "Question", "Status", "answered", "questions"]


def questions() -> list[Question]:
    """All of them, in their order."""
    return asked()


def answered(facts: StudyFacts) -> list[tuple[str, Answer]]:
    """Each question's title with its answer."""
    reasons = {entry.question: entry.reason for entry in facts.study.acknowledge if entry.question is not None}
    return [(q.title, _acknowledged(q.answer(facts), reasons.get(q.title, ""))) for q in questions()]


def _acknowledged(answer: Answer, reason: str) -> Answer:
    """A reason for what is satisfied after all, or does not apply, is out of date and says nothing."""
    if answer.status != "not satisfied" or not reason:
        return answer
    return replace(answer, status="acknowledged", reason=reason)
