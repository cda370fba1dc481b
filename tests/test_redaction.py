"""Secrets are removed from what tools wrote, whatever its size."""

import tracemalloc

from benchstudy.measuring.state import SessionState
from benchstudy.model.study import parse_study

MIB = 1 << 20


def test_secrets_are_removed_from_a_file_without_reading_it_whole(tmp_path, monkeypatch):
    study = parse_study(
        {
            "study": "s",
            "hosts": {"alpha": {"address": "nobody@192.0.2.1"}},
            "targets": {"here": {"roles": {"sut": "alpha"}}},
            "families": {"fio": {}},
        }
    )
    state = SessionState("session", study.session("here", "fio"), {}, tmp_path / "session", print)
    monkeypatch.setenv("KEY", 'one"key')
    monkeypatch.setenv("LONGER", 'one"key-and-more')
    state.secret("KEY"), state.secret("LONGER")
    large, clean, empty = (tmp_path / "trial" / name for name in ("large", "clean", "empty"))
    large.parent.mkdir()
    empty.touch()
    clean.write_text("nothing secret")
    (tmp_path / "trial" / "link").symlink_to("large")
    with large.open("wb") as file:
        file.write(b'one"key-and-more, one"key')
        file.seek(64 * MIB)
        file.write(b'{"key": "one\\"key"}')
    unchanged = clean.stat()
    tracemalloc.start()
    state.redact_files(large.parent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MIB
    with large.open("rb") as file:
        assert file.read(100).rstrip(b"\0").decode() == "«redacted», «redacted»"
        file.seek(-30, 2)
        assert file.read().lstrip(b"\0").decode() == '{"key": "«redacted»"}'
    assert (tmp_path / "trial" / "link").is_symlink() and (clean.read_text(), empty.read_text()) == (
        "nothing secret",
        "",
    )
    assert clean.stat() == unchanged
    assert sorted(path.name for path in large.parent.iterdir()) == ["clean", "empty", "large", "link"]
