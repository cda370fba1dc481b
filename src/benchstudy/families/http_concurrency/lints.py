"""Lints for the output of HTTP load generators."""

from benchstudy.lints import words
from benchstudy.lints.model import Found, Material, rule
from benchstudy.model.family import UNKNOWN

_UNEQUAL = 2  # times the shortest response of an endpoint


@rule(
    "keep-alive-none",
    "warning",
    why="Without keep-alive, each request opens its own connection. This may cost more than the response, and uses up "
    "ports.",
    action="Make the server send a length or use HTTP/1.1, or publish the figures as those of new connections.",
)
def keep_alive_none(material: Material) -> Found:
    for group in material.groups:
        # ab prints the figure only if keep-alive was requested.
        kept = group.figures.get("keepalive_requests")
        if kept is not None and kept.value == 0:
            yield group.where, "keep-alive was requested (-k), but 0 requests were kept alive"


@rule(
    "unequal-responses",
    "warning",
    why="The servers do not do the same work: a longer response takes longer to make, to copy and to check. Requests "
    "per second and latencies compare the responses as much as the servers.",
    action="Have all servers send the same content, and declare its `length` in `expect`. Or compare transfer rates.",
    of="measured",
)
def unequal_responses(material: Material) -> Found:
    for endpoint, groups in material.by(lambda group: group.levels.get("endpoint", UNKNOWN)):
        if endpoint == UNKNOWN:  # imported, and perhaps not the same one
            continue
        lengths = [(group.value("document_length"), group.levels.get("server", UNKNOWN)) for group in groups]
        sent = sorted((length, server) for length, server in lengths if length)
        if sent and sent[-1][0] > _UNEQUAL * sent[0][0]:
            (least, shortest), (most, longest) = sent[0], sent[-1]
            yield endpoint, f"{longest} sends {words.size(most)} per response, and {shortest} {words.size(least)}"
