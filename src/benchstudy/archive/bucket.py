"""The door to S3: objects below a prefix, written once and compared with the SHA-256 that they are named by."""

import base64
import hashlib
import io
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import IO, Any, TypeVar

from benchstudy.model.errors import BenchstudyError

# Requests under way at once: small objects wait for answers most of the time.
REQUESTS = 16
_ATTEMPTS, _SILENT_S = 6, 60
# What S3 takes in one request. Of more it would tell a checksum of checksums, which is no object's name.
LARGEST = 5 << 30
_CHUNK = 1 << 20
_URL = re.compile(r"s3://([a-z0-9][a-z0-9._-]{1,254})(?:/(.*))?")
_DONE, _EXISTS, _BEING_WRITTEN = 200, 412, 409
_TELLING = (400, 409, 412, 501)
# For what somebody else is writing.
_PATIENCE_S = 30
_MARK = "benchstudy-archive.json"
_MARKED = b'{"benchstudy archive": 1}\n'

_KEYS = "look at AWS_PROFILE, or at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_RIGHTS = "these credentials may not do this; they need s3:ListBucket, s3:GetObject, and to push s3:PutObject"
_EXPIRED = "the session of these credentials is over; log in again, such as with `aws sso login`"
_AGAIN = "run the same command again: it goes on from here"
# By the code of an answer. Texts of servers are not repeated, because they may quote what they were given.
_WAYS = {
    "NoSuchBucket": "there is no such bucket; make it, or name another",
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "403"), _RIGHTS),
    **dict.fromkeys(("ExpiredToken", "InvalidToken", "RequestExpired", "TokenRefreshRequired"), _EXPIRED),
    **dict.fromkeys(
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "XAdminUserNotFound"), f"unknown credentials; {_KEYS}"
    ),
    **dict.fromkeys(("PermanentRedirect", "AuthorizationHeaderMalformed", "301"), "another region; set AWS_REGION"),
    "RequestTimeTooSkewed": "this machine's clock and the server's differ; synchronise it",
}
Item = TypeVar("Item")
Result = TypeVar("Result")


class ArchiveError(BenchstudyError):
    """The archive cannot be used, and no other object of it either."""


class DamagedObject(BenchstudyError):
    """One object is not what its name says."""


@dataclass(frozen=True)
class Stored:
    """What a server says of an object. `sha256`: in hexadecimal; None where it tells none."""

    size: int
    when: datetime
    sha256: str | None = None


class Bucket:
    """What lies below `s3://bucket/prefix`. Nothing here overwrites or deletes. Raises ArchiveError in all methods."""

    def __init__(self, url: str, endpoint_url: str | None = None):
        match = _URL.fullmatch(url)
        if match is None:
            raise ArchiveError(f"{url}: no archive's address: write s3://BUCKET/PREFIX")
        self.url, self._bucket = url.rstrip("/"), match[1]
        prefix = (match[2] or "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        # Whether the server keeps to `If-None-Match: *`. One that does not is asked for each object before it is sent.
        self.is_conditional = False
        # Whether it compares what arrives with the SHA-256 that is sent along.
        self.compares = True
        with self._in_words():
            try:
                self._client = _client(endpoint_url)
            except ValueError:
                raise ArchiveError("the server's address is none; write http://HOST:PORT") from None

    def open_to_write(self) -> None:
        """Mark it as an archive, and find out what the server does for us. Writes nothing else."""
        sha256 = hashlib.sha256(_MARKED).hexdigest()
        # One that takes a wrong checksum repeats it to whoever asks later: it is told none, so that it tells none.
        self.compares = self._put(_MARK, _MARKED, "0" * 64, if_absent=True) != _DONE
        self._put(_MARK, _MARKED, sha256, if_absent=True)
        self.is_conditional = self._put(_MARK, _MARKED, sha256, if_absent=True) == _EXISTS
        if self.told(_MARK) is None:  # it refuses whatever has a condition
            self._put(_MARK, _MARKED, sha256)

    def require(self) -> None:
        """Raises ArchiveError where nothing was ever pushed to."""
        if _MARK not in self.objects(_MARK):
            raise ArchiveError(f"{self.url}: no archive: nothing was pushed there yet, or the prefix is another one")

    def objects(self, below: str) -> dict[str, Stored]:
        """By their names from the prefix on."""
        with self._in_words():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + below
            )
            found = (entry for page in pages for entry in page.get("Contents", ()))
            return {e["Key"].removeprefix(self._prefix): Stored(e["Size"], e["LastModified"]) for e in found}

    def told(self, name: str) -> Stored | None:
        """By the server, of one object; None where it has none."""
        from botocore.exceptions import ClientError

        with self._in_words():
            try:
                found = self._client.head_object(Bucket=self._bucket, Key=self._prefix + name, ChecksumMode="ENABLED")
            except ClientError as error:
                if _status(error) == 404:
                    return None
                raise
        return Stored(found["ContentLength"], found["LastModified"], _hex(found.get("ChecksumSHA256")))

    def put_if_absent(self, name: str, content: IO[bytes] | bytes, sha256: str) -> bool:
        """Whether it was absent. Somebody else who pushes the same may be first: its name says that it is the same."""
        if not self.is_conditional and self.told(name) is not None:
            return False
        status = self._put(name, content, sha256, if_absent=self.is_conditional)
        if status == _EXISTS or (status == _BEING_WRITTEN and self._appears(name)):
            return False
        if status != _DONE:
            raise ArchiveError(f"{self.url}/{name}: the server refused it ({status}); {_AGAIN}")
        return True

    def _put(self, name: str, content: IO[bytes] | bytes, sha256: str, *, if_absent: bool = False) -> int:
        """The status of the answer: _DONE, or of a refusal that says something of the object or of the server."""
        from botocore.exceptions import ClientError

        file = io.BytesIO(content) if isinstance(content, bytes) else content
        more = {"IfNoneMatch": "*"} if if_absent else {}
        if self.compares:
            more["ChecksumSHA256"] = base64.b64encode(bytes.fromhex(sha256)).decode()
        # What every server compares with what arrives. Names rest on SHA-256 alone.
        more["ContentMD5"] = base64.b64encode(digest_of(file, hashlib.md5(usedforsecurity=False))).decode()
        with self._in_words():
            try:
                self._client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=file, **more)
            except ClientError as error:
                if _status(error) in _TELLING and _code(error) not in _WAYS:
                    return _status(error)
                raise
        return _DONE

    def _appears(self, name: str) -> bool:
        for _ in range(_PATIENCE_S):
            if self.told(name):
                return True
            time.sleep(1)
        return False

    def get(self, name: str, into: IO[bytes], first: int | None = None) -> str:
        """Write an object, or its `first` bytes, to an empty file, and give their SHA-256.

        Raises DamagedObject where it is gone.
        """
        from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError

        part = {} if first is None else {"Range": f"bytes=0-{first - 1}"}
        with self._in_words():
            for attempt in count(1):
                try:
                    found = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name, **part)
                except ClientError as error:
                    if _status(error) == 404 and _code(error) not in _WAYS:
                        raise DamagedObject(f"{self.url}/{name}: is gone") from None
                    raise
                try:
                    return _copied(found["Body"], into)
                except (HTTPClientError, IncompleteReadError):
                    # An answer that was cut off says nothing of the object; boto3 asks again only before it begins.
                    if attempt == _ATTEMPTS:
                        raise
                into.seek(0)
                into.truncate()
        raise AssertionError("it counts for ever")

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        from botocore import exceptions as known
        from urllib3.exceptions import HTTPError

        try:
            yield
        except known.ClientError as error:
            code = _code(error)
            way = _WAYS.get(code) or f"the server answered {_status(error)} {code}; {_AGAIN}"
            raise ArchiveError(f"{self.url}: {way}") from None
        except (known.NoCredentialsError, known.PartialCredentialsError, known.ProfileNotFound):
            raise ArchiveError(f"{self.url}: no credentials; {_KEYS}") from None
        except (known.TokenRetrievalError, known.SSOError, known.CredentialRetrievalError):
            raise ArchiveError(f"{self.url}: {_EXPIRED}") from None
        except known.ParamValidationError:
            raise ArchiveError(f"{self.url}: no name of a bucket, or not of S3") from None
        except (known.ConnectionError, known.HTTPClientError, known.IncompleteReadError, HTTPError) as error:
            where = f" at {self._client.meta.endpoint_url}" if hasattr(self, "_client") else ""
            raise ArchiveError(
                f"{self.url}: no server answers{where}, or not to the end ({type(error).__name__}); look at "
                f"--endpoint-url and the network, and {_AGAIN}"
            ) from None
        except known.BotoCoreError as error:
            raise ArchiveError(f"{self.url}: {type(error).__name__}; look at AWS_* and --endpoint-url") from None


def _client(endpoint_url: str | None) -> Any:
    from boto3.session import Session
    from botocore.config import Config

    given = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if "@" in (given or ""):
        raise ArchiveError("the address of the server holds credentials: leave them to AWS_*")
    settings = Config(
        max_pool_connections=REQUESTS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        connect_timeout=10,
        read_timeout=_SILENT_S,
        # What is fetched is hashed here, and there are servers that tell the whole object's checksum of a part.
        response_checksum_validation="when_required",
        # A server of one's own rarely has a name for each bucket.
        s3={"addressing_style": "path"} if given else None,
    )
    return Session().client("s3", endpoint_url=endpoint_url, config=settings)


def _copied(body: Any, into: IO[bytes]) -> str:
    """The SHA-256 of what came."""
    digest = hashlib.sha256()
    try:
        for piece in body.iter_chunks(_CHUNK):
            digest.update(piece)
            into.write(piece)
    finally:
        body.close()
    return digest.hexdigest()


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))[:64]


def _hex(checksum: str | None) -> str | None:
    """Of a whole object; a checksum of checksums, which ends in the number of parts, says nothing of it."""
    return base64.b64decode(checksum).hex() if checksum and "-" not in checksum else None


def digest_of(file: IO[bytes], digest: "hashlib._Hash") -> bytes:
    """Of all that is in a file, which can be read from its beginning again."""
    file.seek(0)
    while piece := file.read(_CHUNK):
        digest.update(piece)
    file.seek(0)
    return digest.digest()


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """What `work` gives for each, in the order in which they are done. The first that raises ends the others."""
    pool = ThreadPoolExecutor(REQUESTS)
    try:
        for done in as_completed([pool.submit(work, item) for item in items]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)
