"""What is left out is counted and listed; a strict run stops instead."""

import pytest

from urbex.core.errors import UserError
from urbex.data.ledger import Ledger


def test_findings_are_counted_and_listed_by_rule():
  ledger = Ledger()
  for number in range(3):
    ledger.note("bad-box", f"a[{number}]", "object 0 is 0 x 1 x 1 m")
  assert ledger.count("bad-box") == 3
  assert ledger.count("empty") == 0
  text = ledger.markdown(most=2)
  assert "**3 boxes without a positive, finite size: dropped.**" in text
  assert text.count("- `a[") == 2
  assert "and 1 more" in text


def test_an_empty_ledger_says_so():
  assert "every record was used" in Ledger().markdown()


def test_strict_stops_at_faults_and_not_at_what_the_protocol_drops():
  ledger = Ledger(strict=True)
  ledger.note("duplicate", "a[0]", "again")
  with pytest.raises(UserError, match=r"a\[1\]: object 0 is flat; mend the file"):
    ledger.note("bad-box", "a[1]", "object 0 is flat")
  assert len(ledger.findings) == 1
