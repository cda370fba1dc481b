"""The only access to S3: objects below a prefix, written once and compared with the SHA-256 in their names."""

import base64
import hashlib
import io
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count, islice
from queue import SimpleQueue
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from benchstudy.model.errors import BenchstudyError

# Concurrent requests: transfers of small objects mostly wait for answers.
REQUESTS = 16
# Enough that all of them are busy while a pull makes what arrived durable.
_AHEAD = 16 * REQUESTS
_ATTEMPTS, _SILENT_S = 6, 60
# The most that S3 takes in one request. A multipart upload would get a checksum of checksums, not the SHA-256.
LARGEST = 5 << 30
_CHUNK = 1 << 20
_URL = re.compile(r"s3://([^/]+)(?:/(.*))?")
# What no server takes. Old buckets may be longer than 63 characters, and some servers allow underscores.
_NO_BUCKET = re.compile(r".{,2}|.{256,}|.*[^a-z0-9._-].*|[^a-z0-9].*|.*[^a-z0-9]|.*[.][.].*|\d+([.]\d+){3}", re.DOTALL)
_NAMES = (
    "a bucket's name has 3 to 63 small letters, digits, dots and hyphens, begins and ends with a letter or digit, has "
    "no two dots in a row, and is no IP address"
)
_DONE, _EXISTS, _BEING_WRITTEN = 200, 412, 409
_TELLING = (400, 409, 412, 501)
# Seconds to wait for an object that another process is writing.
_PATIENCE_S = 30
_MARK = "benchstudy-archive.json"
_MARKED = b'{"benchstudy archive": 1}\n'
_REPEATS = "benchstudy-archive-repeats-any-sha256.json"  # there is one if the server does

_KEYS = "look at AWS_PROFILE, or at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_RIGHTS = "these credentials lack permissions: they need s3:ListBucket and s3:GetObject, and s3:PutObject to push"
_EXPIRED = "these credentials have expired; log in again, for example with `aws sso login`"
_AGAIN = "run the same command again: it continues from here"
# By error code. The server's own texts are not printed, because they may quote credentials.
_WAYS = {
    "NoSuchBucket": "no such bucket; create it, or name another",
    "InvalidBucketName": f"the server refuses the name of the bucket: {_NAMES}",
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "403"), _RIGHTS),
    **dict.fromkeys(("ExpiredToken", "InvalidToken", "RequestExpired", "TokenRefreshRequired"), _EXPIRED),
    **dict.fromkeys(
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "XAdminUserNotFound"), f"unknown credentials; {_KEYS}"
    ),
    **dict.fromkeys(("PermanentRedirect", "AuthorizationHeaderMalformed", "301"), "wrong region; set AWS_REGION"),
    "RequestTimeTooSkewed": "this machine's clock and the server's differ; synchronise it",
}
Item = TypeVar("Item")
Result = TypeVar("Result")


class ArchiveError(BenchstudyError):
    """The archive cannot be used at all."""


class DamagedObject(BenchstudyError):
    """The content of one object does not match its name."""


@dataclass(frozen=True)
class Stored:
    """What a server says about an object. `sha256`: in hexadecimal, or None if the server gives none."""

    size: int
    when: datetime
    sha256: str | None = None


class Bucket:
    """The objects below `s3://bucket/prefix`. No method overwrites or deletes; all of them may raise ArchiveError."""

    def __init__(self, url: str, endpoint_url: str | None = None):
        match = _URL.fullmatch(url)
        if match is None:
            raise ArchiveError(
                f"{url}: not the address of an archive: write s3://BUCKET/PREFIX, the bucket in small letters"
            )
        if _NO_BUCKET.fullmatch(match[1]):
            raise ArchiveError(f"S3-ADDRESS: {url}: {match[1]!r} cannot be a bucket: {_NAMES}")
        self.url, self._bucket = url.rstrip("/"), match[1]
        prefix = (match[2] or "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        # Whether the server honours `If-None-Match: *`. If it does not, push looks for each object before sending it.
        self.is_conditional = False
        # Whether it compares what arrives with the SHA-256 that is sent along.
        self.compares = True
        with self._in_words():
            try:
                self._client = _client(endpoint_url)
            except ValueError:
                name, _ = _endpoint(endpoint_url)
                raise ArchiveError(f"{name}: not the address of a server; write http://HOST:PORT") from None

    def open_to_write(self) -> None:
        """Mark it as an archive, and find out which checks the server makes. Writes nothing else."""
        sha256 = hashlib.sha256(_MARKED).hexdigest()
        # A server that accepts a wrong checksum would also report it later, so it is sent none. Where the marker exists
        # already, the server may refuse it without a look at the checksum: then the first push has recorded the answer.
        answer = self._put(_MARK, _MARKED, "0" * 64, if_absent=True)
        exists = answer in (_EXISTS, _BEING_WRITTEN)
        self.compares = self.told(_REPEATS) is None if exists else answer != _DONE
        if answer == _DONE and self.told(_REPEATS) is None:
            self._put(_REPEATS, _MARKED, sha256)
        self._put(_MARK, _MARKED, sha256, if_absent=True)
        self.is_conditional = self._put(_MARK, _MARKED, sha256, if_absent=True) == _EXISTS
        if self.told(_MARK) is None:  # it refuses every request with a condition
            self._put(_MARK, _MARKED, sha256)

    def require(self) -> None:
        """Raises ArchiveError if nothing was ever pushed here."""
        if _MARK not in self.objects(_MARK):
            raise ArchiveError(f"{self.url}: no archive: nothing was pushed there yet, or the prefix is wrong")

    def objects(self, below: str) -> dict[str, Stored]:
        """By their names, without the prefix."""
        with self._in_words():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + below
            )
            found = (entry for page in pages for entry in page.get("Contents", ()))
            return {e["Key"].removeprefix(self._prefix): Stored(e["Size"], e["LastModified"]) for e in found}

    def told(self, name: str) -> Stored | None:
        """What the server says about one object; None if it has no such object."""
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
        """Whether it was absent. Another push may store the object first: the same name means the same content."""
        if not self.is_conditional and self.told(name) is not None:
            return False
        status = self._put(name, content, sha256, if_absent=self.is_conditional)
        if status == _EXISTS or (status == _BEING_WRITTEN and self._appears(name)):
            return False
        if status != _DONE:
            raise ArchiveError(f"{self.url}/{name}: the server refused this object ({status}); {_AGAIN}")
        return True

    def _put(self, name: str, content: IO[bytes] | bytes, sha256: str, *, if_absent: bool = False) -> int:
        """The status of the answer: _DONE, or a refusal that says something about the object or the server."""
        from botocore.exceptions import ClientError

        file = io.BytesIO(content) if isinstance(content, bytes) else content
        more = {"IfNoneMatch": "*"} if if_absent else {}
        if self.compares:
            more["ChecksumSHA256"] = base64.b64encode(bytes.fromhex(sha256)).decode()
        # Every server verifies MD5. Names are made from SHA-256 alone.
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

    def get(self, name: str, into: IO[bytes], size: int, *, part: bool = False) -> str:
        """Write an object of `size` bytes, or with `part` its first `size` ones, to an empty file.

        Returns the SHA-256 of what arrived. Raises DamagedObject if the object is gone, or sends more than that.
        """
        from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError

        ranged = {"Range": f"bytes=0-{size - 1}"} if part else {}
        with self._in_words():
            for attempt in count(1):
                try:
                    found = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name, **ranged)
                except ClientError as error:
                    if _status(error) == 404 and _code(error) not in _WAYS:
                        raise DamagedObject(f"{self.url}/{name}: is gone") from None
                    raise
                try:
                    return _copied(found["Body"], into, size, f"{self.url}/{name}")
                except (HTTPClientError, IncompleteReadError):
                    # A truncated answer does not mean a damaged object; boto3 retries only before the body begins.
                    if attempt == _ATTEMPTS:
                        raise
                into.seek(0)
                into.truncate()
        raise AssertionError("the loop does not end")

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
            raise ArchiveError(f"{self.url}: {_WAYS['InvalidBucketName']}") from None
        except (known.ConnectionError, known.HTTPClientError, known.IncompleteReadError, HTTPError) as error:
            where = f" at {self._client.meta.endpoint_url}" if hasattr(self, "_client") else ""
            raise ArchiveError(
                f"{self.url}: no server answers{where}, or its answer broke off ({type(error).__name__}); check "
                f"--endpoint-url and the network, and {_AGAIN}"
            ) from None
        except known.BotoCoreError as error:
            raise ArchiveError(f"{self.url}: {type(error).__name__}; check AWS_* and --endpoint-url") from None


def _endpoint(option: str | None) -> tuple[str, str]:
    """What names the server's address, and the address; "" if nothing does."""
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if option is None and os.environ.get(name):
            return name, os.environ[name]
    return "--endpoint-url", option or ""


def _client(endpoint_url: str | None) -> Any:
    from boto3.session import Session
    from botocore.config import Config

    name, given = _endpoint(endpoint_url)
    if "@" in given:
        raise ArchiveError(f"{name}: contains credentials; put them into AWS_* instead")
    place = urlsplit(given)
    try:
        place.port  # noqa: B018  # reading it checks it
    except ValueError:
        raise ArchiveError(f"{name}: the port in {given} is not valid; write one from 1 to 65535") from None
    if given and place.scheme not in ("http", "https"):
        raise ValueError(given)  # as boto3 does for what is no address
    settings = Config(
        max_pool_connections=REQUESTS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        connect_timeout=10,
        read_timeout=_SILENT_S,
        # Fetched content is hashed here. boto3 must not: some servers send the whole object's checksum with a part.
        response_checksum_validation="when_required",
        # A server of your own rarely has a host name per bucket.
        s3={"addressing_style": "path"} if given else None,
    )
    return Session().client("s3", endpoint_url=endpoint_url, config=settings)


def _copied(body: Any, into: IO[bytes], size: int, where: str) -> str:
    """Copy the body. Returns the SHA-256 of what arrived. Raises DamagedObject if that is more than `size` bytes."""
    digest, left = hashlib.sha256(), size
    try:
        for piece in body.iter_chunks(_CHUNK):
            left -= len(piece)
            if left < 0:
                raise DamagedObject(f"{where}: altered: it has more than its {size} B")
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
    """The SHA-256 of a whole object; None for a checksum of checksums, which ends in the number of parts."""
    return base64.b64decode(checksum).hex() if checksum and "-" not in checksum else None


def digest_of(file: IO[bytes], digest: "hashlib._Hash") -> bytes:
    """The digest of a whole file. The file is rewound afterwards."""
    file.seek(0)
    while piece := file.read(_CHUNK):
        digest.update(piece)
    file.seek(0)
    return digest.digest()


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The result of `work` for each item, in the order of completion. The first exception ends the others.

    No more than _AHEAD items wait or have a result that nobody took: a fleet has a hundred thousand of them.
    """
    pool, left, done = ThreadPoolExecutor(REQUESTS), iter(items), SimpleQueue[Future[Result]]()

    def begin(most: int) -> int:
        begun = [pool.submit(work, item) for item in islice(left, most)]
        for future in begun:
            future.add_done_callback(done.put)
        return len(begun)

    try:
        under_way = begin(_AHEAD)
        while under_way:
            ended = done.get()
            under_way += begin(1) - 1
            yield ended.result()
    finally:
        pool.shutdown(cancel_futures=True)
