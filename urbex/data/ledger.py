"""Keeps account of what a preparation left out, mended or found odd, rule by rule.

Benchmarks arrive partly broken. Every record that is not used as it came is in the
ledger under one rule; the report lists them all, and a strict run stops at the first
that is nobody's intention.
"""

import dataclasses
from collections.abc import Iterable

from urbex.core.errors import UserError


@dataclasses.dataclass(frozen=True)
class Rule:
  """Why a record is in the ledger.

  Attributes:
    title: what was found, in the plural.
    action: what became of the records: "dropped", "kept", "mended" or "absent".
    fault: whether a strict run stops at it; False where the protocol wants it so.
  """

  title: str
  action: str
  fault: bool = True


RULES = {
  "wrong-segment": Rule("objects on the lists of wrong segments", "dropped", False),
  "duplicate": Rule("descriptions that repeat a row of their scene", "dropped", False),
  "ambiguous": Rule("descriptions with the words of another object", "dropped", False),
  "too-short": Rule("descriptions too short to tell objects apart", "dropped", False),
  "too-long": Rule("descriptions longer than any agent should read", "dropped"),
  "empty": Rule("empty descriptions", "dropped"),
  "malformed": Rule("records with a missing or unreadable field", "dropped"),
  "repeated-key": Rule("records whose key another record has", "kept"),
  "no-box": Rule("objects that are described and have no box", "dropped"),
  "class-differs": Rule("descriptions of another class than the object's", "dropped"),
  "bad-box": Rule("boxes without a positive, finite size", "dropped"),
  "outside": Rule("boxes far outside their cloud", "dropped"),
  "odd-size": Rule("boxes of a size unlike their class", "kept", False),
  "points-differ": Rule("boxes that their own points do not fill", "kept"),
  "bad-points": Rule("objects with point numbers that the cloud lacks", "mended"),
  "no-cloud": Rule("scenes with annotations and no usable cloud", "dropped"),
  "no-annotations": Rule("clouds of scenes without annotations", "dropped", False),
  "unreadable": Rule("damaged files", "dropped"),
  "absent": Rule("files that are not there", "absent", False),
  "two-of-a-name": Rule("files of which there are two", "dropped", False),
}


@dataclasses.dataclass(frozen=True)
class Finding:
  """One record in the ledger: the rule, where the record is and what it holds."""

  rule: str
  where: str
  what: str


class Ledger:
  """Findings in the order they were made."""

  def __init__(self, strict: bool = False):
    """Starts empty; a strict ledger raises at the first fault."""
    self.findings: list[Finding] = []
    self._strict = strict

  def note(self, rule: str, where: str, what: str) -> None:
    """Adds a finding.

    Raises:
      UserError: the ledger is strict and the rule is a fault.
    """
    if self._strict and RULES[rule].fault:
      raise UserError(
        f"{where}: {what}; mend the file, or let such records be "
        f"{RULES[rule].action} and listed with --config.strict=False"
      )
    self.findings.append(Finding(rule, where, what))

  def count(self, rule: str) -> int:
    """Returns how many findings a rule has."""
    return sum(finding.rule == rule for finding in self.findings)

  def markdown(self, most: int = 10) -> str:
    """Returns the findings as Markdown: every rule counted, its first ones listed."""
    parts = []
    for rule, about in RULES.items():
      found = [f for f in self.findings if f.rule == rule]
      if found:
        parts.append(f"**{len(found)} {about.title}: {about.action}.**\n")
        parts.append("\n".join(_lines(found, most)) + "\n")
    return "\n".join(parts) or "Nothing: every record was used as it came.\n"

  def rows(self) -> list[dict[str, str]]:
    """Returns every finding as a JSON object."""
    return [dataclasses.asdict(finding) for finding in self.findings]


def _lines(found: list[Finding], most: int) -> Iterable[str]:
  for finding in found[:most]:
    yield f"- `{finding.where}`: {finding.what}"
  if len(found) > most:
    yield f"- … and {len(found) - most} more in `findings.jsonl`"
