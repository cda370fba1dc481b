"""Random I/O by fio, and a thousand small files."""
