"""Puts a PDF of the converter in a fixed order, because the converter's own order changes at random."""

import re

_REFERENCE = re.compile(rb"\b(\d+) 0 R\b")
# Entries of a resource dictionary, such as "/fo1 60 0 R", one per line; content streams refer to these names.
_RESOURCES = re.compile(rb"(?:^ */[a-z]+\d+ \d+ 0 R\n)+", re.MULTILINE)
_RESOURCE = re.compile(rb" */([a-z]+)(\d+) ")


def in_fixed_order(pdf: bytes) -> bytes:
    """The same document, with resources sorted by name and objects numbered in the order of their first reference.

    `pdf` is as svg2pdf writes it, with a plain cross-reference table and a direct length in each stream's dictionary.
    Raises ValueError for anything else.
    """
    bodies = {number: _sorted_resources(body) for number, body in _objects(pdf).items()}
    trailer = pdf[pdf.rindex(b"trailer") : pdf.rindex(b"startxref")]
    order: dict[int, int] = {}
    waiting = [int(found) for found in reversed(_REFERENCE.findall(trailer))]
    while waiting:
        number = waiting.pop()
        if number not in order:
            order[number] = len(order) + 1
            waiting += [int(found) for found in reversed(_REFERENCE.findall(_head(bodies[number])))]

    def renumbered(text: bytes) -> bytes:
        return _REFERENCE.sub(lambda match: b"%d 0 R" % order[int(match[1])], text)

    # svg2pdf writes 1.7 and uses nothing newer than 1.4. pdfLaTeX warns of each figure above 1.5.
    out, offsets = bytearray(pdf[: pdf.index(b"\n\n") + 1].replace(b"%PDF-1.7", b"%PDF-1.5", 1)), []
    for number in order:
        head = _head(bodies[number])
        offsets.append(len(out))
        out += b"\n%d 0 obj\n%s%s\nendobj\n" % (order[number], renumbered(head), bodies[number][len(head) :])
    size = len(order) + 1
    table = b"".join(b"%010d 00000 n\r\n" % (offset + 1) for offset in offsets)
    end = renumbered(re.sub(rb"/Size \d+", b"/Size %d" % size, trailer))
    return bytes(out) + b"\nxref\n0 %d\n0000000000 65535 f\r\n%s%sstartxref\n%d\n%%%%EOF" % (
        size,
        table,
        end,
        len(out) + 1,
    )


def _objects(pdf: bytes) -> dict[int, bytes]:
    """The content of each object, found by the cross-reference table, because a stream may contain any bytes."""
    start = int(pdf[pdf.rindex(b"startxref") :].split()[1])
    if not pdf.startswith(b"xref\n0 ", start):
        raise ValueError("a PDF without a plain cross-reference table")
    lines = pdf[start : pdf.rindex(b"trailer")].splitlines()[3:]
    offsets = sorted(int(line.split()[0]) for line in lines if line.endswith(b" n"))
    found = {}
    for begin, end in zip(offsets, [*offsets[1:], start], strict=True):
        framed = re.fullmatch(rb"(\d+) 0 obj\n(.*)\nendobj\s*", pdf[begin:end], re.DOTALL)
        if framed is None:
            raise ValueError(f"no object at byte {begin} of a PDF, although its cross-reference table has one")
        found[int(framed[1])] = framed[2]
    return found


def _head(body: bytes) -> bytes:
    """An object without the contents of its stream, if it has one."""
    return body.partition(b"\nstream\n")[0]


def _sorted_resources(body: bytes) -> bytes:
    def in_order(match: re.Match[bytes]) -> bytes:
        lines = sorted(match[0].splitlines(keepends=True), key=_by_name)
        return b"".join(lines)

    head = _head(body)
    return _RESOURCES.sub(in_order, head) + body[len(head) :]


def _by_name(line: bytes) -> tuple[bytes, int]:
    match = _RESOURCE.match(line)
    assert match is not None, "only lines that fit are sorted"
    return match[1], int(match[2])
