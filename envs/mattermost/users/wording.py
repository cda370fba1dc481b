"""The words that users write, and how they type them letter by letter."""

from __future__ import annotations

import random
from collections.abc import Iterator

_TEXT = """
about after answer before branch build change check close customer deploy draft error file first follow found
great issue later latest link list log meeting merge message minute morning next note number open order page plan
please point question quick ready reason release report request result review running second seen server should
simple small start status step still system team test thanks think thread time today tomorrow update version week
where which while working
"""
WORDS = _TEXT.split()
_WORDS_OF_A_POST, _WORDS_OF_AN_ANSWER = 68, 46  # maximum; the minimum is one
_MISTYPED = 0.15  # share of the letters, except for the last


def sentence(chance: random.Random, *, answer: bool = False) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, _WORDS_OF_AN_ANSWER if answer else _WORDS_OF_A_POST)))


def typed(chance: random.Random, word: str) -> Iterator[str]:
    """Yield the text after each letter of a word. Sometimes a wrong letter follows, which the next one replaces."""
    for end in range(1, len(word) + 1):
        yield word[:end]
        if end < len(word) and chance.random() < _MISTYPED:
            yield word[:end] + "a"
