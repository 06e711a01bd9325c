"""A replay's page stands alone, shows every step, and runs nothing a model wrote."""

import base64
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from tests.support.run_folder import HOSTILE, a_replay, png, write_run
from urbex.core.errors import UserError
from urbex.report.replay_page import write_page


class Page(HTMLParser):
  """Collects what a browser would see."""

  def __init__(self, html: str):
    super().__init__()
    self.tags, self.images, self.boxes, self.text, self._path = [], [], [], [], []
    self.feed(html)

  def handle_starttag(self, tag, attrs):
    attrs = dict(attrs)
    self.tags.append(tag)
    self._path.append(tag)
    if tag == "img":
      self.images.append(attrs["src"])
    if tag == "rect":
      numbers = (float(attrs[k]) for k in ("x", "y", "width", "height"))
      self.boxes.append((attrs["class"], *numbers))

  def handle_endtag(self, tag):
    if tag in self._path:
      while self._path.pop() != tag:
        pass

  def handle_data(self, data):
    if self._path[-1:] not in (["style"], ["script"]):
      self.text.append(data)


@pytest.fixture
def html(tmp_path):
  run = write_run(tmp_path)
  return write_page(run / "replays" / "car.json", tmp_path / "car.html").read_text()


def test_the_page_needs_nothing_else(html):
  page = Page(html)
  assert not re.search(r'(?:src|href)="(?!data:|#)', html)
  assert "http" not in html
  # G at the start, Z1 after the zoom, and Z1 once more beside the answer.
  shown = [base64.b64decode(src.split(",")[1]) for src in page.images]
  green, red = png((10, 200, 30)), png((200, 10, 30))
  assert shown == [green, red, red]


def test_every_step_shows_what_was_written_and_told(html):
  text = " ".join("".join(Page(html).text).split())
  for part in (
    "Start",
    "Step 1 · no known action (refused)",
    "Step 2 · zoom_in",
    "Step 3 · answer",
    "Z1: 90 m x 90 m",
    "IoU 0.250",
    "calls -0.100",
    "the red car & its <owner>",
  ):
    assert part in text


def test_boxes_lie_where_the_marks_say(html):
  boxes = Page(html).boxes
  assert ("target", 40.0, 50.0, 20.0, 20.0) in boxes
  assert ("chosen", 0.0, 0.0, 200.0, 200.0) in boxes
  assert ("answer", 100.0, 250.0, 200.0, 100.0) in boxes


def test_what_a_model_wrote_stays_text(html):
  page = Page(html)
  assert page.tags.count("script") == 1
  assert HOSTILE in "".join(page.text)
  assert "owner" not in page.tags


def test_a_missing_image_is_named(tmp_path):
  run = write_run(tmp_path)
  (run / "replays" / "car" / "Z1.png").unlink()
  with pytest.raises(UserError, match=r"Z1\.png: no such file"):
    write_page(run / "replays" / "car.json", tmp_path / "car.html")
  assert not (tmp_path / "car.html").exists()


@pytest.mark.browser
def test_a_browser_draws_it(tmp_path):
  run = write_run(tmp_path)
  page = write_page(run / "replays" / "car.json", tmp_path / "car.html")
  command = [
    shutil.which("chromium"),
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--user-data-dir={tmp_path / 'profile'}",
    "--virtual-time-budget=2000",
    "--dump-dom",
    page.as_uri(),
  ]
  done = subprocess.run(command, capture_output=True, text=True, timeout=60)
  # The script has run: it marks the first step.
  assert 'class="now"' in done.stdout
  assert a_replay()[0].scene_id in done.stdout
