"""The validator of RO-Crate profiles without network: it gets the one document that it would fetch in advance."""

import gzip
import io
from pathlib import Path

from requests import Request, Response, Session
from urllib3 import HTTPResponse

CONTEXT = Path(__file__).parent / "data" / "ro-crate" / "context-1.1.jsonld.gz"
ADDRESS = "https://w3id.org/ro/crate/1.1/context"


def problems(crate: Path, folder: Path, profile: str = "provenance-run-crate") -> tuple[list[str], int]:
    """(the unmet requirements of the profile, the number of checks). `folder`: for its cache."""
    # Imported here, because the import takes seconds and serves one test.
    from rocrate_validator import models, services

    _prepare_cache(folder / "cache")
    settings = services.ValidationSettings(
        rocrate_uri=str(crate),
        profile_identifier=profile,
        requirement_severity=models.Severity.REQUIRED,
        offline=True,
        cache_path=folder / "cache",
    )
    result = services.validate(settings)
    assert result.passed() == (not result.get_issues())
    return [str(issue.message) for issue in result.get_issues()], len(result.executed_checks)


def _prepare_cache(path: Path) -> None:
    from requests_cache import CachedSession

    content = gzip.decompress(CONTEXT.read_bytes())
    request = Session().prepare_request(Request("GET", ADDRESS))
    response = Response()
    response.status_code, response.url, response.request = 200, ADDRESS, request
    response.headers["Content-Type"] = "application/ld+json"
    response._content = content
    response.raw = HTTPResponse(io.BytesIO(content), response.headers, 200, preload_content=False)
    with CachedSession(str(path), backend="sqlite", expire_after=-1) as session:
        session.cache.save_response(response, cache_key=session.cache.create_key(request))
