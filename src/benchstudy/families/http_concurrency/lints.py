"""Lints for the output of HTTP load generators."""

from benchstudy.lints.model import Found, Material, rule


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
