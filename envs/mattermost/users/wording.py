"""Words that users write, and what a client asks for while somebody types."""

from __future__ import annotations

import random

_TEXT = """
about after answer before branch build change check close customer deploy draft error file first follow found
great issue later latest link list log meeting merge message minute morning next note number open order page plan
please point question quick ready reason release report request result review running second seen server should
simple small start status step still system team test thanks think thread time today tomorrow update version week
where which while working
"""
WORDS = _TEXT.split()
_SENTENCE = (3, 24)  # words of a post


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(*_SENTENCE)))


def typed(word: str) -> list[str]:
    """What a client asks for while the word is typed: after two letters, and in the end."""
    return [word[:2], word] if len(word) > 2 else [word]
