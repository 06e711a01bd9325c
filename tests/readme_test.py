"""The README says what is there."""

import re

from tests.support.file_tree import README, ROOT, replaced
from urbex import config_files

TEXT = README.read_text(encoding="utf-8")


def test_the_file_tree_is_up_to_date():
  assert replaced(TEXT) == TEXT, "run: python -m tests.support.file_tree"


def test_commands_name_configs_and_scripts_that_exist():
  named = set(re.findall(r"--config=([a-z_/0-9]+)", TEXT))
  assert named <= set(config_files.names())
  for script in re.findall(r"bash (launch/[a-z_]+\.sh)", TEXT):
    assert (ROOT / script).is_file()


def test_links_lead_somewhere():
  for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
    assert (ROOT / target).exists(), target
