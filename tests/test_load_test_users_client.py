"""What a client of Mattermost's simulated users remembers, and what users type: their own modules, without a server."""

import importlib
import random
import shutil
import sys
from types import SimpleNamespace

import pytest

from benchstudy.model import registry


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """One of the users' modules by name, from the files that a load host gets. They need no Locust."""
    sent = tmp_path_factory.mktemp("sent")
    for name, path in registry.get("load_test").libraries()["load-users"]().items():
        (sent / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, sent / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(sent)
        yield lambda name: importlib.import_module(f"load_users.mattermost.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "load_users"]:
        del sys.modules[name]


def test_a_client_knows_what_it_was_told_last(module):
    """As in the original: a repeated entry takes another place, so fewer entries are known than there are places."""
    recent = module("memory").Recent(3)
    for key in ("a", "b", "a", "a", "c"):
        recent.put(key, key.upper())
    assert sorted(recent) == ["a", "c"]
    recent.forget("c")
    assert (recent.get("a"), recent.get("c"), "b" in recent, len(recent)) == ("A", None, False, 1)


def test_a_post_that_was_deleted_is_not_kept_and_nothing_is_asked_of_it(module):
    """The server tells clients that ask for news about deleted ones."""

    def post(name, deleted_ms):
        said = {"channel_id": "c", "user_id": "u", "root_id": "", "message": "words", "create_at": 1, "type": ""}
        return {**said, "id": name, "delete_at": deleted_ms}

    memory = module("memory").Memory()
    told = {"order": ["gone", "there"], "posts": {"there": post("there", 0), "gone": post("gone", 5)}}
    assert [learned.id for learned in memory.learn_posts(told)] == ["there"]
    assert list(memory.posts) == ["there"]


def test_after_a_reload_another_channel_is_not_the_one_the_user_is_in(module):
    told = [{"id": name, "type": "O", "team_id": "t", "name": name} for name in ("here", "there")]
    session = module("session").Session(None, None, None, None, random.Random(1), None)

    def load() -> None:
        session.memory.learn_channels(told)
        session.memory.joined.update(channel["id"] for channel in told)

    load()
    session.channel = session.memory.channels["here"]
    session.forget()
    load()
    assert [channel.id for channel in module("actions")._joined(session)] == ["there"]


@pytest.mark.parametrize("scoped", ["true", "false"])
def test_a_client_tells_what_its_user_looks_at_where_the_server_sends_events_by_that(module, scoped):
    session = module("session").Session(None, None, None, None, random.Random(1), None)
    session.settings = {"FeatureFlagWebSocketEventScope": scoped}
    told = []
    session._socket = SimpleNamespace(tell=lambda action, data: told.append((action, data)))
    session.tell_shown(channel_id="c")
    session.tell_thread_shown("d")
    in_list, beside = ({"thread_channel_id": "d", "is_thread_view": view} for view in (True, False))
    presence = [("presence", data) for data in ({"channel_id": "c"}, in_list, beside)]
    assert told == (presence if scoped == "true" else [])


def test_a_word_is_typed_letter_by_letter(module):
    asked = list(module("wording").typed(random.Random(3), "abcdefgh"))
    rightly = [part for part in asked if "abcdefgh".startswith(part)]
    assert rightly == ["abcdefgh"[:end] for end in range(1, 9)]
    # A wrong letter is behind what was typed so far, and disappears with the next one.
    assert all(part[:-1] in rightly and part.endswith("a") for part in asked if part not in rightly)
