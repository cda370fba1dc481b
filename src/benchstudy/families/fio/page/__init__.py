"""Tables and figures of the family fio."""
