"""Makes the lines of a data set for Mattermost's bulk import. The same sizes and seed give the same lines.

It runs on hosts with Python 3.9 and the standard library only. Of `random` it only uses `random()`, which returns the
same numbers in all versions of Python.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

EVERYBODYS_CHANNELS = ("town-square", "off-topic")  # every team has them from its creation on
_EMOJIS = ("+1", "heart", "tada", "eyes", "white_check_mark")
# Posts are from this period, 1 June to 31 August 2024, in milliseconds since 1970.
_BEGIN_MS, _END_MS = 1_717_200_000_000, 1_725_148_800_000
_WORDS = 2000
_JOINED_CHANNELS = 8  # number of its team's own channels that a user is in
_SECOND_TEAM = 0.3  # share of the users that are in two teams
_THREADS = 0.2  # share of the posts that have answers, up to _ANSWERS
_ANSWERS = 5
_REACTED = 0.1  # share of the posts that have reactions
_FRIENDS = 3  # number of direct conversations that a user has begun


@dataclass(frozen=True)
class Size:
    """Size of a data set. `channels`: per team, in addition to those of every team. `posts`: answers included."""

    users: int
    teams: int
    channels: int
    posts: int
    direct_posts: int
    seed: int

    def problems(self) -> list[str]:
        least = {"users": 2, "teams": 1, "channels": 0, "posts": 0, "direct_posts": 0}
        return [f"{name}: at least {value}, not {getattr(self, name)}" for name, value in least.items()
                if getattr(self, name) < value]  # fmt: skip


def username(number: int) -> str:
    return f"user-{number:05d}"


def password(seed: int) -> str:
    """All users' password, made from the seed. A random one would change the import file in each session."""
    return "Pw-" + hashlib.sha256(f"password {seed}".encode()).hexdigest()[:20]


def vocabulary(seed: int) -> list[str]:
    """The words of all posts, most frequent first."""
    dice = _Dice(seed)
    syllables = [a + b for a in "bdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "in", "or", "us")]
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        words["".join(dice.one_of(syllables) for _ in range(2 + dice.below(3)))] = None
    return list(words)


def lines(size: Size) -> Iterator[dict]:
    """The import's lines, in the order that it requires."""
    dice = _Dice(size.seed)
    words = vocabulary(size.seed)
    teams = [f"team-{number}" for number in range(1, size.teams + 1)]
    own_channels = [f"channel-{number:03d}" for number in range(1, size.channels + 1)]
    yield {"type": "version", "version": 1}
    for name in teams:
        yield _line("team", name=name, display_name=name.title(), type="O", allow_open_invite=True)
    for team in teams:
        for name in own_channels:
            yield _line("channel", team=team, name=name, display_name=name.title(), type="O")
    members: dict[tuple[str, str], list[str]] = {}
    for number in range(1, size.users + 1):
        yield _user(number, size, dice, teams, own_channels, members)
    # Channels with more members have more posts.
    places = sorted(place for place in members if members[place])
    yield from _posts(size, dice, words, places, members)
    pairs = _pairs(size, dice)
    for pair in pairs:
        yield _line("direct_channel", members=list(pair))
    for at in _times(size.direct_posts):
        pair = dice.one_of(pairs)
        yield _line("direct_post", channel_members=list(pair), user=dice.one_of(pair), message=_message(dice, words),
                    create_at=at)  # fmt: skip


def _user(
    number: int,
    size: Size,
    dice: _Dice,
    teams: list[str],
    own_channels: list[str],
    members: dict[tuple[str, str], list[str]],
) -> dict:
    """Make the line of a user and its memberships, which are also added to `members`."""
    name = username(number)
    joined = [teams[(number - 1) % len(teams)]]
    if len(teams) > 1 and dice.happens(_SECOND_TEAM):
        joined.append(teams[number % len(teams)])
    memberships = []
    for team in joined:
        channels = [*EVERYBODYS_CHANNELS, *dice.some_of(own_channels, _JOINED_CHANNELS)]
        for channel in channels:
            members.setdefault((team, channel), []).append(name)
        places = [{"name": channel, "roles": "channel_user"} for channel in channels]
        memberships.append({"name": team, "roles": "team_user", "channels": places})
    return _line(
        "user",
        username=name,
        email=f"{name}@benchstudy.invalid",
        password=password(size.seed),
        roles="system_user",
        teams=memberships,
        tutorial_step="999",
    )


def _posts(
    size: Size, dice: _Dice, words: list[str], places: list[tuple[str, str]], members: dict[tuple[str, str], list[str]]
) -> Iterator[dict]:
    times = list(_times(size.posts))
    reach = _Weighted(places, [len(members[place]) ** 2 for place in places])
    position = 0
    while position < size.posts:
        at = times[position]
        position += 1
        place = reach.one(dice)
        here = members[place]
        team, channel = place
        post = {"team": team, "channel": channel, "user": dice.one_of(here), "message": _message(dice, words),
                "create_at": at}  # fmt: skip
        if dice.happens(_THREADS):
            answers = times[position : position + 1 + dice.below(_ANSWERS)]
            position += len(answers)
            post["replies"] = [
                {"user": dice.one_of(here), "message": _message(dice, words), "create_at": later} for later in answers
            ]
        if dice.happens(_REACTED):
            who = dice.some_of(here, 1 + dice.below(3))
            post["reactions"] = [
                {"user": user, "emoji_name": dice.one_of(_EMOJIS), "create_at": at + 1000} for user in who
            ]
        yield {"type": "post", "post": post}


def _pairs(size: Size, dice: _Dice) -> list[tuple[str, str]]:
    pairs: dict[tuple[str, str], None] = {}
    for number in range(1, size.users + 1):
        for _ in range(_FRIENDS):
            other = 1 + dice.below(size.users)
            if other != number:
                pairs[(username(min(number, other)), username(max(number, other)))] = None
    return list(pairs) or [(username(1), username(2))]


def _times(count: int) -> Iterator[int]:
    """Yield `count` evenly spaced times. They strictly increase, so that the order of posts is unique."""
    return (_BEGIN_MS + index * (_END_MS - _BEGIN_MS) // max(count, 1) for index in range(count))


def _message(dice: _Dice, words: list[str]) -> str:
    """Make a mostly short message of 3 to some 40 words. As in a language, few words are frequent and most are rare."""
    length = 3 + int(38 * dice.random() ** 3)
    return " ".join(words[int(len(words) * dice.random() ** 3)] for _ in range(length))


def _line(kind: str, **content: object) -> dict:
    return {"type": kind, kind: content}


class _Dice:
    def __init__(self, seed: int):
        self.random = random.Random(seed).random

    def below(self, bound: int) -> int:
        return int(self.random() * bound)

    def happens(self, share: float) -> bool:
        return self.random() < share

    def one_of(self, choices):
        return choices[self.below(len(choices))]

    def some_of(self, choices: list[str], count: int) -> list[str]:
        """Choose `count` different ones, in their order; all if there are no more."""
        if count >= len(choices):
            return list(choices)
        picked: set[int] = set()
        while len(picked) < count:
            picked.add(self.below(len(choices)))
        return [choices[index] for index in sorted(picked)]


class _Weighted:
    def __init__(self, choices: list, weights: list[int]):
        self.choices, self.bounds = choices, []
        total = 0
        for weight in weights:
            total += weight
            self.bounds.append(total)

    def one(self, dice: _Dice):
        return self.choices[bisect_right(self.bounds, dice.below(self.bounds[-1]))]
