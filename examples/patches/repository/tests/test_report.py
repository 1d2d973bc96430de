from pathlib import Path

from ledger.account import Account
from ledger.report import export, largest, lines

REPORT = Path(__file__).parents[1] / "var" / "report.txt"


def test_largest(account):
    assert largest([Account(), account]) == 1000


def test_largest_of_none():
    assert largest([]) == 0


def test_lines(account):
    assert lines({"ada": account}) == ["ada\t10.00"]


def test_export_writes_in_place(account):
    assert REPORT.read_text() == "nobody\t0.00\n"
    export({"ada": account}, REPORT)
    assert REPORT.read_text() == "ada\t10.00\n"
