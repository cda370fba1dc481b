"""Plain explanations of messages from servers and generators about a wrong setup."""

import re

_KNOWN: tuple[tuple[str, str], ...] = (
    (
        r"no space left on device|disk quota exceeded|error writing file .*errcode: 28|is full",
        "the disk of the log's directory or database is full",
    ),
    (
        r"too many connections|error 1040|max_user_connections",
        "the database has too few connections (max_connections): a server with antispam opens one per leaf in flight; "
        "allow thousands of connections, or fewer leaves in flight",
    ),
    (
        r"access denied for user|error 1045|error 1044|error 1698",
        "the database refused the server: check user, password and privileges of the connection string",
    ),
    (r"unknown database|error 1049", "the database of the log does not exist: create it in the setup of the store"),
    (
        r"(dial tcp .*|mysql.*|database.*|spanner.*)connect(ion)?:? (connection )?refused|can't connect to .*server",
        "the database does not answer at the address of the connection string",
    ),
    (
        r"begins or ends with white space|ends with a newline",
        "a key file holds more than the key, such as a trailing newline: write it with printf %s, not echo",
    ),
    (
        r"malformed (verifier|signer)|unknown (verifier|signer) algorithm",
        "a key cannot sign a log: check that the file holds the whole key, and no trailing newline",
    ),
    (
        r"does not verify with the public key|no verifiable signature|unverified note|couldn't verify|failed to verify",
        "the public key belongs to another log: the checkpoint does not verify",
    ),
    (r"address already in use", "another program uses the port"),
    (r"too many open files", "a process cannot open enough files for its connections: raise ulimit -n"),
    (r"no such host|name or service not known", "a host name in an address or connection string is unknown"),
)


def explain(*texts: str) -> str | None:
    """Return the first known cause that one of the texts matches; None without a match."""
    for pattern, cause in _KNOWN:
        if any(re.search(pattern, text, re.IGNORECASE) for text in texts):
            return cause
    return None


def explained(error: str) -> str:
    """Return `error` after its known cause, if it has one."""
    cause = explain(error)
    return error if cause is None or error.startswith(cause) else f"{cause}: {error}"
