"""The thirty questions of a credible report, answered from the study's own data, each with a link to the evidence."""

from dataclasses import replace

from benchstudy.model.questions import TITLES

# These modules are imported only for the questions that they define.
from benchstudy.report.checklist import claims, method, numbers  # noqa: F401
from benchstudy.report.checklist.model import QUESTIONS, Answer
from benchstudy.report.study.studyfacts import StudyFacts


def answered(facts: StudyFacts) -> list[tuple[str, Answer]]:
    """Answer every question from the study's data. Returns pairs (title of the question, answer)."""
    reasons = {entry.question: entry.reason for entry in facts.study.acknowledge if entry.question is not None}
    return [(title, _acknowledged(QUESTIONS[title](facts), reasons.get(title, ""))) for title in TITLES]


def _acknowledged(answer: Answer, reason: str) -> Answer:
    """The answer as "acknowledged" if it is not satisfied and the study gives a reason. Other reasons are ignored."""
    if answer.status != "not satisfied" or not reason:
        return answer
    return replace(answer, status="acknowledged", reason=reason)
