"""Database servers on a host that hold a data set: sets them up, queries and stops them.

Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

USER = "mattermost"
_UNPRIVILEGED = str(Path(__file__).with_name("unprivileged.sh"))
_READY_S = 60.0
_STEP_S = 3600.0
_TAIL = 1500


class Failed(Exception):
    """A step failed; the message names it and contains the end of its output."""


class Postgres:
    """A cluster in the folder `data`, which it creates. Trials restore a copy of the folder."""

    name = "postgres"

    def __init__(self, data: Path, log: Path, address: str, port: int, password: str):
        self.data, self.log, self.address, self.port = data, log, address, port
        self.environment = {**os.environ, "PGPASSWORD": password, "PGCONNECT_TIMEOUT": "5"}
        self.process: subprocess.Popen | None = None

    def create(self) -> None:
        secret = self.data.with_name("password")
        secret.touch(0o600)
        try:
            secret.write_text(self.environment["PGPASSWORD"])
            run(
                [
                    *("sh", _UNPRIVILEGED, "initdb", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"),
                    *("--text-search-config=english", "--auth=scram-sha-256", f"--username={USER}"),
                    *(f"--pwfile={secret}", f"--pgdata={self.data}"),
                ],
                "initdb",
            )
        finally:
            secret.unlink()
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write("host all all all scram-sha-256\n")  # the server under test may be on another host

    def __enter__(self) -> Postgres:
        # An incomplete data set does not need to survive a power failure.
        fast = (
            "fsync=off",
            "synchronous_commit=off",
            "full_page_writes=off",
            "max_wal_size=4GB",
            "max_connections=200",
        )
        settings = [f"listen_addresses={self.address}", f"port={self.port}", "unix_socket_directories=", *fast]
        options = [part for setting in settings for part in ("-c", setting)]
        self.process = start(["sh", _UNPRIVILEGED, "postgres", "-D", str(self.data), *options], self.log)
        wait_for(self._answers, self.process, self.log, "PostgreSQL")
        return self

    def __exit__(self, *_) -> None:
        end(self.process, signal.SIGINT)  # fast shutdown: does not wait for clients

    def _answers(self) -> bool:
        return _succeeds(self._client("postgres", "SELECT 1"), self.environment)

    def _client(self, database: str, sql: str) -> list[str]:
        where = ["-h", self.address, "-p", str(self.port), "-U", USER, "-d", database]
        return ["sh", _UNPRIVILEGED, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *where, "-c", sql]

    def ask(self, database: str, sql: str) -> list[str]:
        """Run SQL and return the lines of the answer."""
        return run(self._client(database, sql), "psql", self.environment).splitlines()

    def version(self) -> str:
        return self.ask("postgres", "SELECT split_part(version(), ' on ', 1)")[0]

    def create_database(self, name: str, copy_of: str | None = None) -> None:
        template = f" TEMPLATE {copy_of}" if copy_of else ""
        self.ask("postgres", f"CREATE DATABASE {name}{template}")

    def finish(self, database: str) -> None:
        """Collect statistics, and vacuum, so that this does not happen during a trial."""
        self.ask(database, "VACUUM (FREEZE, ANALYZE)")

    def source(self, database: str) -> dict[str, str]:
        """Environment variables by which the server under test reaches the database."""
        password = self.environment["PGPASSWORD"]
        address = f"postgres://{USER}:{password}@{self.address}:{self.port}/{database}"
        return {
            "MM_SQLSETTINGS_DRIVERNAME": "postgres",
            "MM_SQLSETTINGS_DATASOURCE": f"{address}?sslmode=disable&connect_timeout=10",
        }


class MariaDB:
    """A MariaDB server, with Postgres' interface. It is not MySQL, even if a server under test calls it so."""

    name = "mariadb"

    def __init__(self, data: Path, log: Path, address: str, port: int, password: str):
        self.data, self.log, self.address, self.port = data, log, address, port
        self.environment = {**os.environ, "MYSQL_PWD": password}
        self.process: subprocess.Popen | None = None
        self.ours = ["--user=root"] if os.geteuid() == 0 else []

    def create(self) -> None:
        options = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", *self.ours]
        run(["mariadb-install-db", *options, f"--datadir={self.data}"], "mariadb-install-db")
        password = self.environment["MYSQL_PWD"]
        first = self.data.with_name("first.sql")
        first.touch(0o600)
        try:
            first.write_text(
                f"CREATE USER {USER}@'%' IDENTIFIED BY '{password}';\n"
                f"GRANT ALL PRIVILEGES ON *.* TO {USER}@'%';\n"
                f"ALTER USER root@localhost IDENTIFIED BY '{password}';\n"
            )
            self._start(f"--init-file={first}")
            self.__exit__()
        finally:
            first.unlink()

    def __enter__(self) -> MariaDB:
        self._start("--innodb-flush-log-at-trx-commit=0")
        return self

    def _start(self, *options: str) -> None:
        # The socket's name is relative to the data folder: the kernel takes no longer path than 107 bytes.
        here = [f"--datadir={self.data}", "--socket=sql.sock", f"--pid-file={self.data}/sql.pid"]
        where = [f"--bind-address={self.address}", f"--port={self.port}"]
        argv = [_server("mariadbd"), "--no-defaults", *self.ours, *here, *where, *options]
        self.process = start(argv, self.log)
        wait_for(self._answers, self.process, self.log, "MariaDB")

    def __exit__(self, *_) -> None:
        end(self.process, signal.SIGTERM)

    def _answers(self) -> bool:
        return _succeeds(self._client("mysql", "SELECT 1"), self.environment)

    def _client(self, database: str, sql: str) -> list[str]:
        return [*self._program("mariadb"), "--batch", "--skip-column-names", database, "-e", sql]

    def _program(self, name: str) -> list[str]:
        return [name, "--no-defaults", "-h", self.address, "-P", str(self.port), "-u", USER]

    def ask(self, database: str, sql: str) -> list[str]:
        return run(self._client(database, sql), "mariadb", self.environment).splitlines()

    def version(self) -> str:
        return "MariaDB " + self.ask("mysql", "SELECT version()")[0]

    def create_database(self, name: str, copy_of: str | None = None) -> None:
        self.ask("mysql", f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        if copy_of is None:
            return
        dump = self.data.with_name("copy.sql")
        try:
            with dump.open("wb") as file:
                dumped = [*self._program("mariadb-dump"), "--single-transaction", copy_of]
                run(dumped, "mariadb-dump", self.environment, file)
            with dump.open("rb") as file:
                run([*self._program("mariadb"), name], "mariadb", self.environment, stdin=file)
        finally:
            dump.unlink()

    def finish(self, database: str) -> None:
        tables = self.ask(database, "SELECT table_name FROM information_schema.tables WHERE table_schema = database()")
        self.ask(database, "ANALYZE TABLE " + ", ".join(f"`{table}`" for table in tables))

    def source(self, database: str) -> dict[str, str]:
        password = self.environment["MYSQL_PWD"]
        address = f"{USER}:{password}@tcp({self.address}:{self.port})/{database}"
        return {
            "MM_SQLSETTINGS_DRIVERNAME": "mysql",
            "MM_SQLSETTINGS_DATASOURCE": f"{address}?charset=utf8mb4,utf8&writeTimeout=30s",
        }


KINDS = {kind.name: kind for kind in (Postgres, MariaDB)}


def _succeeds(argv: list[str], environment: dict[str, str]) -> bool:
    quiet = subprocess.DEVNULL
    return subprocess.run(argv, stdin=quiet, stdout=quiet, stderr=quiet, env=environment).returncode == 0


def run(argv: list[str], title: str, environment: dict | None = None, stdout=None, stdin=None) -> str:
    """Run a command and return its output. Raises Failed."""
    try:
        done = subprocess.run(
            argv,
            env=environment,
            stdin=stdin or subprocess.DEVNULL,
            stdout=stdout or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_STEP_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{title}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout or b"").decode(errors="replace").strip()
        raise Failed(f"{title} ended with status {done.returncode}: {said[-_TAIL:]}")
    return (done.stdout or b"").decode(errors="replace")


def start(argv: list[str], log: Path, environment: dict | None = None, folder: Path | None = None) -> subprocess.Popen:
    """Start a server in the background. Raises Failed if the program does not exist."""
    with log.open("ab") as said:
        try:
            return subprocess.Popen(
                argv, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise Failed(f"{argv[0]}: {error.strerror}") from error


def wait_for(answers, process: subprocess.Popen, log: Path, name: str) -> None:
    """Wait until `answers()`. Raises Failed with the log's end if the process ends before or takes too long."""
    deadline = time.monotonic() + _READY_S
    while not answers():
        ended = process.poll()
        if ended is not None or time.monotonic() > deadline:
            end(process, signal.SIGKILL)
            how = f"not ready within {_READY_S:.0f} s" if ended is None else f"ended with status {ended}"
            raise Failed(f"{name}: {how}: {tail(log)}")
        time.sleep(0.05)


def end(process: subprocess.Popen | None, number: int) -> None:
    if process is not None and process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(_READY_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tail(log: Path) -> str:
    return (log.read_bytes()[-_TAIL:].decode(errors="replace").strip() if log.exists() else "") or "it said nothing"


def _server(name: str) -> str:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin") or name
