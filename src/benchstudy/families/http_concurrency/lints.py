"""Rules on what generators of HTTP requests print."""

from benchstudy.lints.model import Found, Material, rule


@rule(
    "keep-alive-none",
    "warning",
    why="Each request then opened a connection of its own, which may cost more than the answer, and uses up ports.",
    action="Let the server answer with a length or HTTP/1.1, or publish the figures as those of new connections.",
)
def keep_alive_none(material: Material) -> Found:
    for group in material.groups:
        # ab prints the figure only where keep-alive was asked for.
        kept = group.figures.get("keepalive_requests")
        if kept is not None and kept.value == 0:
            yield group.where, "connections were to be kept alive (-k), and 0 requests were"
