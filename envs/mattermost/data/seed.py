"""Makes a data set in a database, once per session: `python3 seed.py FOLDER --database postgres …`, see --help.

The oldest release fills its database with its own bulk import. Each later release gets a copy of it and migrates it.
So all releases have the same rows, and each has its own tables. FOLDER contains:

    data/            the database server's folder, with a database for each release; trials restore a copy of it
    accounts.json    the accounts, and the numbers of rows

It runs on hosts with Python 3.9 and the standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path

import content
import databases
from databases import Failed
from mattermost import ADMIN, Release

# The service that runs this has it in its environment.
DATABASE_PASSWORD = "DATABASE_PASSWORD"
_SETTLE_S = 600.0
_UNDONE = "SELECT count(*) FROM {jobs} WHERE status IN ('pending', 'in_progress')"
_IN_CHANNELS = "SELECT count(*) FROM {posts} WHERE type = '' AND channelid IN (SELECT id FROM {channels} WHERE type = "
_COUNTED = {
    "users": "SELECT count(*) FROM {users} WHERE username LIKE 'user-%'",
    "teams": "SELECT count(*) FROM {teams}",
    "channels": "SELECT count(*) FROM {channels} WHERE type = 'O'",
    "direct_channels": "SELECT count(*) FROM {channels} WHERE type = 'D'",
    "posts": _IN_CHANNELS + "'O')",
    "direct_posts": _IN_CHANNELS + "'D')",
    "reactions": "SELECT count(*) FROM {reactions}",
}


def main() -> int:
    options = _options()
    folder = Path(options.folder).resolve()
    try:
        _make(options, folder)
    except (Failed, OSError) as error:
        print(f"the data set could not be made: {error}", file=sys.stderr)
        return 1
    return 0


def _make(options: argparse.Namespace, folder: Path) -> None:
    size = content.Size(
        options.users, options.teams, options.channels, options.posts, options.direct_posts, options.seed
    )
    if size.problems():
        raise Failed("; ".join(size.problems()))
    clock = _Clock()
    work = folder / "work"
    work.mkdir()
    releases = [Release(text, work, options.url) for text in options.release]
    for release in releases:
        release.prepare()
    file, sha256 = _write_import(size, work / "import.jsonl")
    clock.lap("content")
    kind = databases.KINDS[options.database]
    database = kind(
        folder / "data", work / "database.log", options.address, options.port, os.environ[DATABASE_PASSWORD]
    )
    database.create()
    clock.lap("database")
    with database:
        first, *others = releases
        database.create_database(first.database)
        source = database.source(first.database)
        if options.importer:
            first.import_by(options.importer, file, source)
        with first.running(source, jobs=options.settle or not options.importer):
            if not options.importer:
                first.import_by_job(file, content.password(size.seed))
            clock.lap("import")
            _settle(options, database, first)
        for release in others:
            database.create_database(release.database, first.database)
            with release.running(database.source(release.database), jobs=options.settle):
                _settle(options, database, release)
        clock.lap("first starts")
        found = {release.name: _counts(database, release.database) for release in releases}
        _require_same(size, found)
        for release in releases:
            database.finish(release.database)
        version = database.version()
    # Flush to disk now, so that nothing is written while trials run.
    os.sync()
    clock.lap("completion")
    accounts = {
        "schema": 1,
        "password": content.password(size.seed),
        "admin": None if options.importer else ADMIN,
        "users": [{"username": content.username(number)} for number in range(1, size.users + 1)],
        "words": content.vocabulary(size.seed)[:200],
        "counts": found[releases[0].name],
        "seed": size.seed,
        "import_sha256": sha256,
        "database": version,
        "databases": {release.name: release.database for release in releases},
        "seconds": clock.laps,
    }
    shutil.rmtree(work)
    (folder / "accounts.json").write_text(json.dumps(accounts) + "\n")


def _settle(options: argparse.Namespace, database, release: Release) -> None:
    """With --settle: wait for the jobs that a release runs by itself after its first start."""
    deadline = time.monotonic() + _SETTLE_S
    while options.settle and _number(database, release.database, _UNDONE) > 0:
        if time.monotonic() > deadline:
            raise Failed(f"release {release.name} has unfinished jobs {_SETTLE_S:.0f} s after its first start")
        time.sleep(0.5)


def _write_import(size: content.Size, path: Path) -> tuple[Path, str]:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for line in content.lines(size):
            text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
            digest.update(text)
            file.write(text)
    return path, digest.hexdigest()


def _counts(database, name: str) -> dict[str, int]:
    return {what: _number(database, name, sql) for what, sql in _COUNTED.items()}


def _number(database, name: str, sql: str) -> int:
    """Query a number. Tables are in braces, because `Users` and `users` differ in MariaDB, but not in Postgres."""
    tables = {table.lower(): table for table in ("Users", "Teams", "Channels", "Posts", "Reactions", "Jobs")}
    return int(database.ask(name, sql.format(**tables))[0])


def _require_same(size: content.Size, found: dict[str, dict[str, int]]) -> None:
    """Raise Failed if a release's counts differ from the requested ones or from the first release's."""
    wanted = {"users": size.users, "teams": size.teams, "posts": size.posts, "direct_posts": size.direct_posts}
    for release, counts in found.items():
        expected = {**next(iter(found.values())), **wanted}
        wrong = [
            f"{counts[what]} {what} and not {number}" for what, number in expected.items() if counts[what] != number
        ]
        if wrong:
            raise Failed(f"release {release} holds {', '.join(wrong)}")


class _Clock:
    def __init__(self):
        self.laps: dict[str, float] = {}
        self.before = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = round(now - self.before, 2)
        self.before = now
        print(f"{name}: {self.laps[name]:.2f} s", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Makes a data set in a database, once per session.")
    parser.add_argument("folder", help="an existing folder, for data/ and accounts.json")
    parser.add_argument("--database", required=True, choices=sorted(databases.KINDS))
    parser.add_argument("--address", required=True, help="address at which the database listens meanwhile")
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--url", required=True, help="URL of a server under test, as in its settings")
    parser.add_argument(
        "--release",
        required=True,
        action="append",
        metavar="NAME=PROGRAM",
        help="a server under test, the oldest first; later ones migrate what it has written",
    )
    parser.add_argument(
        "--importer", help="program that fills the first release's database; default: the release's own job"
    )
    parser.add_argument(
        "--settle",
        action="store_true",
        help="wait until each release has finished the jobs that it begins within half a minute of its first start; "
        "otherwise they run during the trials",
    )
    for name in ("users", "teams", "channels", "posts", "direct-posts"):
        parser.add_argument(f"--{name}", required=True, type=int)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
