"""Random I/O with fio, and a thousand small files."""
