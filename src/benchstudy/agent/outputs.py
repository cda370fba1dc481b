"""Copies what a command writes to files, up to a cap: through a pipe, or from a terminal of its own."""

from __future__ import annotations

import os


def tail_of(path: str, most: int, since: int = 0) -> str:
    """The last bytes of a file, `most` at most, of those after the first `since`. Raises OSError."""
    with open(path, "rb") as file:
        start = max(since, os.fstat(file.fileno()).st_size - most)
        file.seek(start)
        text = file.read(most).decode("utf-8", "replace")
    return whole(text) if start > since else text


def whole(text: str) -> str:
    """A text whose beginning is cut off, from its next line on, or else from its next word: what is left of a secret
    would not be known as one.
    """
    lines = text.partition("\n")[2]
    return lines if lines.strip() else "".join(text.split(None, 1)[1:])


class Copy:
    """One output stream: copied to a file up to a cap; the rest is read and dropped."""

    def __init__(self, path: str, cap: int, ends: tuple[int, int] | None = None):
        """`ends`: (read, write) descriptors; a pipe when None."""
        self.read_fd, self.write_fd = ends or os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.read_fd, False)
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.cap, self.seen, self.written = cap, 0, 0
        self.failure: OSError | None = None

    def pump(self) -> bool:
        """Read what is available; False once every writer is gone."""
        try:
            data = os.read(self.read_fd, 1 << 16)
        except BlockingIOError:
            return True
        self.seen += len(data)
        wanted = memoryview(data)[: max(0, self.cap - self.written)]
        try:
            while wanted and self.failure is None:
                done = os.write(self.file, wanted)
                self.written += done
                wanted = wanted[done:]
        except OSError as error:  # keep reading when the disk is full, or the command would hang on its pipe
            self.failure = error
        return bool(data)

    @property
    def truncated(self) -> bool:
        return self.seen > self.written

    def close_writer(self) -> None:
        os.close(self.write_fd)

    def close(self) -> None:
        os.close(self.read_fd)
        os.close(self.file)


class TerminalCopy(Copy):
    """A terminal of `rows` by `columns`: what is drawn on it is copied as is, with its control sequences."""

    def __init__(self, path: str, cap: int, rows: int, columns: int):
        import fcntl  # every command would pay for this import, and few need a terminal
        import struct
        import termios

        ends = os.openpty()
        fcntl.ioctl(ends[1], termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        super().__init__(path, cap, ends)

    def close_writer(self) -> None:
        """Kept open: a terminal hangs up when nobody has it open, and later output would be lost."""

    def close(self) -> None:
        os.close(self.write_fd)
        super().close()
