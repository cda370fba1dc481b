"""Measure whole objects of an S3 service through boto3, from a folder that the controller ships.

The client never retries by itself, so a measured time is that of one attempt. A transient failure (no answer, 5xx,
throttling) is classified, recorded, and retried after a pause outside the measured times. Any other failure ends the
trial. Messages never repeat text of the server, which may quote the key.
"""

import gc
import hashlib
import io
import json
import os
import sys
from contextlib import suppress
from time import monotonic, perf_counter_ns, sleep

from file_pattern import Pattern
from refused import Refused
from wall_clock import unix_ns

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
SIGNATURES = {"auto": None, "v4": "s3v4", "v2": "s3"}  # the names in botocore
# The environment carries the keys, because every user can read the arguments of a process.
ACCESS_KEY, SECRET_KEY = "BENCHSTUDY_S3_ACCESS_KEY", "BENCHSTUDY_S3_SECRET_KEY"
SESSION_TOKEN = "BENCHSTUDY_S3_SESSION_TOKEN"
REHEARSAL_BYTES = 4096
UPLOADED, HELD, RELEASE = (
    "uploaded",
    "held",
    "release",
)  # in the working folder of the process that holds an object for a session
CLEANED = "s3-cleaned"  # in the working folder: our prefix is clean


def perform(request, answer):
    if request["action"] == "clean" and os.path.exists(CLEANED):
        return  # the measuring process has already cleaned up
    if request["action"] == "hold" and os.fork():
        _stay_until_released()
    sys.path.insert(0, request["library"])
    if request["action"] == "check":
        os.environ.update(json.load(sys.stdin))
    bucket = _Bucket(request)
    answer["versions"], answer["client"] = bucket.versions, bucket.settings
    if request["action"] == "clean":
        answer["removed"] = bucket.clean()
        _release()
        return
    if request["action"] == "check":
        answer["finding"] = _check(bucket)
        return
    gc.disable()  # a collection would be part of a measured time
    answer["errors"] = []
    bucket.require(create=request["create_bucket"])
    if request["action"] == "hold":
        _upload_to_be_read(bucket, request, answer)
        return
    try:
        (_measure_writes if request["action"] == "write" else _measure_reads)(bucket, request, answer)
    finally:
        answer["removed"] = bucket.clean()
        if "problem" not in answer["removed"]:
            open(CLEANED, "x").close()


class ObjectSource(io.RawIOBase):
    """The bytes of one object, generated on read. Seekable."""

    def __init__(self, pattern, first_chunk, size):
        super().__init__()
        self._pattern, self._first, self.size = pattern, first_chunk, size
        self._position, self._filled = 0, None
        self.made_ns = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._position

    def seek(self, offset, whence=os.SEEK_SET):
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, target):
        begin = perf_counter_ns()
        chunk = self._pattern.chunk_bytes
        wanted = min(len(target), max(0, self.size - self._position))
        target, done = memoryview(target).cast("B"), 0
        while done < wanted:
            number, start = divmod(self._position, chunk)
            if self._filled != number:
                self._pattern.fill(self._first + number)
                self._filled = number
            piece = min(chunk - start, wanted - done)
            target[done : done + piece] = self._pattern.buffer[start : start + piece]
            done += piece
            self._position += piece
        self.made_ns += perf_counter_ns() - begin
        return done


class _Bucket:
    """One bucket, limited to our prefix."""

    def __init__(self, request):
        import boto3
        import botocore
        from boto3.s3.transfer import TransferConfig
        from botocore.config import Config

        self.versions = {"boto3": boto3.__version__, "botocore": botocore.__version__}
        self.name, self.prefix = request["bucket"], request["prefix"]
        if "benchstudy/" not in self.prefix or not self.prefix.endswith("/"):
            raise Refused("the prefix %r is not one of ours" % self.prefix)
        self.endpoint = request["endpoint_url"] or "Amazon S3"
        self.client = boto3.client(
            "s3",
            endpoint_url=request["endpoint_url"],
            region_name=request["region"],
            aws_access_key_id=os.environ.get(ACCESS_KEY),
            aws_secret_access_key=os.environ.get(SECRET_KEY),
            aws_session_token=os.environ.get(SESSION_TOKEN),
            config=Config(
                retries={"total_max_attempts": 1},
                connect_timeout=request["connect_timeout_s"],
                read_timeout=request["read_timeout_s"],
                max_pool_connections=max(10, request["max_concurrency"]),
                signature_version=SIGNATURES[request["signature"]],
                use_dualstack_endpoint=request["dualstack"],
                # Always set, because a variable or file on the host would decide otherwise.
                request_checksum_calculation=request["checksums"],
                response_checksum_validation=request["checksums"],
                s3={
                    "addressing_style": request["addressing_style"],
                    "payload_signing_enabled": request["sign_payload"],
                    "use_accelerate_endpoint": request["accelerate"],
                },
            ),
        )
        self.attempts = request["attempts"]
        self.transfer = TransferConfig(
            multipart_threshold=request["multipart_threshold"],
            multipart_chunksize=request["part_size"],
            use_threads=request["max_concurrency"] > 1,
            max_concurrency=request["max_concurrency"],
            num_download_attempts=1,  # otherwise it would retry parts within the measured time
        )
        self.threads = request["max_concurrency"] > 1

    @property
    def settings(self):
        """The settings of requests, as the client reports them."""
        made = self.client.meta.config
        return {
            "endpoint": self.client.meta.endpoint_url,
            "region": self.client.meta.region_name,
            "signature": made.signature_version,
            "checksums": made.request_checksum_calculation,
            "validation": made.response_checksum_validation,
            "s3": dict(made.s3 or {}),
            "dualstack": bool(made.use_dualstack_endpoint),
            "connect_timeout_s": made.connect_timeout,
            "read_timeout_s": made.read_timeout,
            "attempts": self.attempts,
            "multipart_threshold": self.transfer.multipart_threshold,
            "part_size": self.transfer.multipart_chunksize,
            "max_concurrency": self.transfer.max_request_concurrency,
            "connections": made.max_pool_connections,
        }

    def require(self, create):
        """Raise Refused, with a remedy, if the bucket is missing or not accessible."""
        try:
            self.client.head_bucket(Bucket=self.name)
            return
        except Exception as error:
            failure = classify(error)
        if failure["kind"] == "missing" and create:
            try:
                self.client.create_bucket(Bucket=self.name)
                return
            except Exception as error:
                failure = classify(error)
        raise Refused(self.explain(failure))

    def explain(self, failure):
        where = "bucket %s at %s" % (self.name, self.endpoint)
        text = {
            "connection": "%s: no connection, or a broken one: check that the server is up, and the address" % where,
            "timeout": "%s: no answer in time" % where,
            "throttled": "%s: the service asks for fewer requests" % where,
            "unavailable": "%s: the service failed" % where,
            "refused": "%s: the service refused the request%s" % (where, self._hint()),
            "missing": "%s: there is no such bucket or object: create the bucket, or correct its name" % where,
            "forbidden": "%s: access denied: check the key, its permissions and the clock" % where,
            "expired": "%s: the credentials have expired: renew them" % where,
            "no-credentials": "%s: no credentials: set access_key_env and secret_key_env, or give the host a role"
            % where,
        }
        status = " (HTTP %s, %s)" % (failure["status"], failure["code"]) if failure["status"] else ""
        return text.get(failure["kind"], "%s: %s" % (where, failure["kind"])) + status

    def _hint(self):
        # Many stores do not support the CRC32 that boto3 sends since 2025, and each reports that differently.
        sent = self.client.meta.config.request_checksum_calculation == "when_supported"
        return "; if the store does not support request checksums, set checksums: when_required" if sent else ""

    def put(self, key, source):
        self.client.upload_fileobj(source, self.name, key, Config=self.transfer)

    def get(self, key, buffer, each=None):
        """Stream an object through `buffer`. Returns its size and the time when the headers arrived."""
        answered = self.client.get_object(Bucket=self.name, Key=key)
        first, body, size = perf_counter_ns(), answered["Body"], 0
        view = memoryview(buffer)
        while True:
            got = body.readinto(view)
            if not got:
                break
            if each is not None:
                each(view[:got])
            size += got
        return size, first

    def get_in_parts(self, key, sink):
        self.client.download_fileobj(self.name, key, sink, Config=self.transfer)

    def delete(self, key):
        self.client.delete_object(Bucket=self.name, Key=key)

    def clean(self):
        """Remove objects and abandoned uploads below our prefix. Returns their numbers, and any problem."""
        removed = {"objects": 0, "uploads": 0}
        # Abandoned uploads first, because one that completes late creates an object.
        for name, step in (("uploads", self._abort_uploads), ("objects", self._delete_objects)):
            try:
                removed[name] = step()
            except Exception as error:
                failure = classify(error)
                if failure["code"] != "NoSuchUpload":  # some servers answer this if there is none
                    removed["problem"] = self.explain(failure)
        return removed

    def _abort_uploads(self):
        aborted = 0
        pages = self.client.get_paginator("list_multipart_uploads")
        for page in pages.paginate(Bucket=self.name, Prefix=self.prefix):
            for upload in page.get("Uploads", ()):
                if upload["Key"].startswith(self.prefix):
                    self.client.abort_multipart_upload(Bucket=self.name, Key=upload["Key"], UploadId=upload["UploadId"])
                    aborted += 1
        return aborted

    def _delete_objects(self):
        deleted = 0
        pages = self.client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.name, Prefix=self.prefix):
            for found in page.get("Contents", ()):
                if found["Key"].startswith(self.prefix):
                    self.delete(found["Key"])
                    deleted += 1
        return deleted


def classify(error):
    """Return kind, HTTP status and code of a failed call. Raises an error that is a defect of our own code."""
    from botocore import exceptions as known
    from urllib3.exceptions import HTTPError

    error = getattr(error, "last_exception", None) or error  # the error of a part, if a transfer gives up
    inner = error.__cause__ or error.__context__
    if not isinstance(error, (known.BotoCoreError, known.ClientError, HTTPError, OSError)) and isinstance(
        inner, (known.BotoCoreError, known.ClientError)
    ):
        error = inner
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return _classify_answer(response)
    for types, kind in (
        ((known.NoCredentialsError, known.PartialCredentialsError), "no-credentials"),
        ((known.ConnectTimeoutError, known.ReadTimeoutError, TimeoutError), "timeout"),
        (
            (
                known.ConnectionError,
                known.HTTPClientError,
                known.IncompleteReadError,
                known.ResponseStreamingError,
                HTTPError,
                OSError,
            ),
            "connection",
        ),
        # botocore passes on its own errors about a malformed answer, such as an invalid date.
        (
            (known.BotoCoreError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
            "client: " + type(error).__name__,
        ),
    ):
        if isinstance(error, types):
            return {"kind": kind, "status": None, "code": None}
    raise error


def _classify_answer(response):
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code = str(response.get("Error", {}).get("Code", ""))[:64]
    if code in ("ExpiredToken", "RequestExpired"):
        kind = "expired"
    elif status in (401, 403):
        kind = "forbidden"
    elif status == 404:
        kind = "missing"
    elif status in (429, 503) or code in ("SlowDown", "Throttling", "ThrottlingException"):
        kind = "throttled"
    elif status in (500, 502, 504):
        kind = "unavailable"
    else:
        kind = "refused"
    return {"kind": kind, "status": status, "code": code}


def _check(bucket):
    """Return the problem of a bucket, or None: an object is written, read and removed."""
    key = bucket.prefix + "check"
    try:
        bucket.require(create=False)
        try:
            bucket.put(key, io.BytesIO(bytes(REHEARSAL_BYTES)))
            bucket.get(key, bytearray(REHEARSAL_BYTES))
        finally:
            removed = bucket.clean()
        return removed.get("problem")
    except Refused as error:
        return str(error)
    except Exception as error:
        return bucket.explain(classify(error))


PASSING = ("timeout", "connection", "throttled", "unavailable")


def _attempt(bucket, answer, index, once):
    """Call `once` until it succeeds, and record each failure. Returns its result and the number of attempts."""
    pause = FIRST_PAUSE_S
    for attempt in range(1, bucket.attempts + 1):
        begun = monotonic()
        try:
            return once(), attempt
        except Refused:
            raise
        except Exception as error:
            failure = classify(error)
            answer["errors"].append(dict(failure, operation=index, attempt=attempt, duration_s=monotonic() - begun))
        if failure["kind"] not in PASSING:
            break
        if attempt < bucket.attempts:
            sleep(pause)
            pause = min(LONGEST_PAUSE_S, pause * 2)
    what = "preparation or verification" if index is None else "operation %d" % index
    raise Refused("%s, in attempt %d of %s" % (bucket.explain(failure), attempt, what))


def _measure_writes(bucket, request, answer):
    size, pattern = request["size"], Pattern(request["chunk"])
    _rehearse(bucket, pattern, answer)
    for index in range(request["operations"]):
        key = "%swrite-%d" % (bucket.prefix, index)
        first_chunk = index * pattern.chunks(size)

        def once(key=key, first_chunk=first_chunk):
            source = ObjectSource(pattern, first_chunk, size)
            begin = perf_counter_ns()
            bucket.put(key, source)
            duration = perf_counter_ns() - begin
            return {"began_ns": unix_ns(begin), "duration_ns": duration, "source_ns": source.made_ns}

        operation, attempts = _attempt(bucket, answer, index, once)
        answer["operations"].append(dict(operation, attempts=attempts))
        if index == 0 and request["verify"]:
            _verify(bucket, key, pattern.sha256(first_chunk, size), size, answer)
        _attempt(bucket, answer, index, lambda key=key: bucket.delete(key))


def _upload_to_be_read(bucket, request, answer):
    size, pattern = request["size"], Pattern(request["chunk"])
    try:
        _attempt(bucket, answer, None, lambda: bucket.put(request["key"], ObjectSource(pattern, 0, size)))
    except BaseException:
        bucket.clean()
        raise
    answer["sha256"] = pattern.sha256(0, size)
    with open(UPLOADED, "x") as file:
        json.dump({"sha256": answer["sha256"]}, file)


def _stay_until_released():
    """Wait for the child that uploads, then for `clean`. The process that stays must be small and idle."""
    os.mkfifo(RELEASE)
    _, ended = os.wait()
    if ended != 0:
        os._exit(1)
    os.rename(UPLOADED, HELD)
    open(RELEASE, "rb").close()  # blocks until `clean` writes
    os._exit(0)


def _release():
    with suppress(OSError):  # nothing is held here, or it has already ended
        os.close(os.open(RELEASE, os.O_WRONLY | os.O_NONBLOCK))


def _measure_reads(bucket, request, answer):
    size, pattern, key = request["size"], Pattern(request["chunk"]), request["key"]
    _rehearse(bucket, pattern, answer)
    buffer = bytearray(request["chunk"])
    for index in range(request["operations"]):

        def once():
            begin = perf_counter_ns()
            if bucket.threads:
                sink, first = _Counter(), None
                bucket.get_in_parts(key, sink)
                got = sink.size
            else:
                got, first = bucket.get(key, buffer)
            duration = perf_counter_ns() - begin
            if got != size:
                raise Refused("%s: received %d of %d bytes" % (key, got, size))
            first_byte = first and first - begin
            return {"began_ns": unix_ns(begin), "duration_ns": duration, "first_byte_ns": first_byte}

        operation, attempts = _attempt(bucket, answer, index, once)
        answer["operations"].append(dict(operation, attempts=attempts))
    if request["verify"]:
        with open(request["held"]) as file:
            _verify(bucket, key, json.load(file)["sha256"], size, answer)


class _Counter(io.RawIOBase):
    """A sink for downloaded parts. Seekable, so that parts need not wait for each other."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def writable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=os.SEEK_SET):
        return offset

    def tell(self):
        return 0

    def write(self, data):
        self.size += len(data)
        return len(data)


def _rehearse(bucket, pattern, answer):
    """Transfer a small object once, untimed, so that connection, TLS and loading of the client are not measured."""
    key = bucket.prefix + "rehearsal"
    _attempt(bucket, answer, None, lambda: bucket.put(key, ObjectSource(pattern, 0, REHEARSAL_BYTES)))
    _attempt(bucket, answer, None, lambda: bucket.get(key, bytearray(REHEARSAL_BYTES)))


def _verify(bucket, key, expected, size, answer):
    def once():
        digest = hashlib.sha256()
        got, _ = bucket.get(key, bytearray(1 << 20), digest.update)
        return got, digest.hexdigest()

    found, _ = _attempt(bucket, answer, None, once)
    if found != (size, expected):
        raise Refused("%s: read back, it is %d bytes with SHA-256 %s, not %d with %s" % (key, *found, size, expected))
    answer["verified"] = {"sha256": expected, "bytes": size}
