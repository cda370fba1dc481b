"""What servers and generators say when something is set up wrongly, in a person's words."""

import re
from collections.abc import Iterable

_KNOWN: tuple[tuple[str, str], ...] = (
    (
        r"no space left on device|disk quota exceeded|error writing file .*errcode: 28|is full",
        "the disk of the log's directory or database is full",
    ),
    (
        r"too many connections|error 1040|max_user_connections",
        "the database has too few connections (max_connections): a server with antispam opens one for every leaf under "
        "way; give the database thousands, or the generator fewer leaves under way",
    ),
    (
        r"access denied for user|error 1045|error 1044|error 1698",
        "the database refused the server: user, password or rights of the connection string",
    ),
    (r"unknown database|error 1049", "the database of the log does not exist: the store's setup makes it"),
    (
        r"(dial tcp .*|mysql.*|database.*|spanner.*)connect(ion)?:? (connection )?refused|can't connect to .*server",
        "the database does not answer where the connection string says",
    ),
    (
        r"begins or ends with white space|ends with a newline",
        "a key file holds more than the key, such as a newline at its end (printf %s writes none, echo does)",
    ),
    (
        r"malformed (verifier|signer)|unknown (verifier|signer) algorithm",
        "a key is none that a log can be signed with: is it whole, and without a newline at the end of its file?",
    ),
    (
        r"does not verify with the public key|no verifiable signature|unverified note|couldn't verify|failed to verify",
        "the public key is not that of this log: its checkpoint does not verify",
    ),
    (r"address already in use", "the port is taken by another program"),
    (r"too many open files", "a process may not open enough files for its connections (ulimit -n)"),
    (r"no such host|name or service not known", "a host name in an address or connection string is not known"),
)


def explain(*texts: str) -> str | None:
    """The first known cause that a text tells of; None when there is none."""
    for pattern, cause in _KNOWN:
        if any(re.search(pattern, text, re.IGNORECASE) for text in texts):
            return cause
    return None


def explained(error: str, further: Iterable[str] = ()) -> str:
    """`error` with its known cause before it, which `error` itself or the `further` texts tell."""
    cause = explain(error, *further)
    return error if cause is None or error.startswith(cause) else f"{cause}: {error}"
