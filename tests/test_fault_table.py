"""Every fault has a test, every mark names a fault, and docs/faults.md names the existing tests."""

import fault_table
from conftest import CHECKOUT

PAGE = CHECKOUT / "docs" / "faults.md"


def test_every_fault_has_a_test_and_every_mark_names_a_fault():
    named = [number for numbers in fault_table.marked().values() for number in numbers]
    assert set(named) == set(fault_table.faults())


def test_the_page_has_every_fault_and_exactly_the_marked_tests():
    text = PAGE.read_text()
    assert text == fault_table.table(fault_table.results_in(text)), "run `make faults`"
