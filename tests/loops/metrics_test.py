import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from urbex.loops import metrics

# Four 10 m squares in a row; ids are out of order on purpose.
BOXES = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [60, 0, 70, 10]])
IDS = ["d", "b", "c", "a"]


def turn(tool="zoom_in", valid=True, contains=False):
  return {"tool": tool, "valid": valid, "contains_target": contains}


def row(iou=0.0, rank=None, answered=True, target="t", turns=(), **more):
  return {
    "scene_id": "s",
    "query_id": "q",
    "sample": 0,
    "target_id": target,
    "category": "Car",
    "valid": True,
    "stop_reason": "answered" if answered else "out_of_turns",
    "iou": iou,
    "rank": {rule: rank for rule in metrics.RULES},
    "reward": iou,
    "answered": answered,
    "n_calls": len(turns),
    "turns": list(turns),
    "seconds": {"total": 2.0},
  } | more


class TestTargetRank:
  def test_ranks_by_overlap(self):
    answer = (22.0, 0.0, 32.0, 10.0)
    assert metrics.target_rank(answer, BOXES, IDS, "b") == 1
    assert metrics.target_rank(answer, BOXES, IDS, "c") == 2  # centre 18 m away

  def test_nearer_centre_breaks_a_tie_of_no_overlap(self):
    answer = (31.0, 0.0, 33.0, 10.0)  # centre 32: b at 7 m, c at 13 m, d at 27 m
    ranks = [metrics.target_rank(answer, BOXES, IDS, i) for i in ("b", "c", "d", "a")]
    assert ranks == [1, 2, 3, 4]

  def test_smaller_id_breaks_a_tie_of_distance(self):
    answer = (34.0, 0.0, 36.0, 10.0)  # centre 35: b and c at 10 m, d and a at 30 m
    ranks = [metrics.target_rank(answer, BOXES, IDS, i) for i in ("b", "c", "a", "d")]
    assert ranks == [1, 2, 3, 4]

  def test_positive_rule_bars_what_does_not_overlap(self):
    answer = (22.0, 0.0, 32.0, 10.0)
    assert metrics.target_rank(answer, BOXES, IDS, "b", "iou_positive") == 1
    assert metrics.target_rank(answer, BOXES, IDS, "c", "iou_positive") is None

  def test_every_instance_competes_not_ten_of_them(self):
    many = np.array([[i, 0, i + 1, 1] for i in range(50)], float)
    ids = [str(i) for i in range(50)]
    assert metrics.target_rank((0.0, 0.0, 1.0, 1.0), many, ids, "49") == 50

  def test_no_answer_has_no_rank(self):
    assert metrics.target_rank(None, BOXES, IDS, "a") is None

  def test_unknown_rule_is_refused(self):
    with pytest.raises(ValueError, match="giou"):
      metrics.target_rank((0.0, 0.0, 1.0, 1.0), BOXES, IDS, "a", "giou")


class TestCiou:
  def test_equal_boxes_give_one(self):
    assert metrics.ciou_row((0, 0, 10, 10), BOXES)[0] == 1.0

  def test_hand_worked(self):
    # Apart: IoU 0, centres 20 m apart, enclosing box 30 by 10, same aspect.
    apart = metrics.ciou_row((0, 0, 10, 10), BOXES)[1]
    assert apart == pytest.approx(-400 / 1000, abs=1e-12)
    # Same centre, half the height: IoU 1/2, v = 4/π² (atan 1 − atan 2)².
    v = 4 / np.pi**2 * (np.arctan(1) - np.arctan(2)) ** 2
    flat = metrics.ciou_row((0, 2.5, 10, 7.5), BOXES)[0]
    assert flat == pytest.approx(0.5 - v / (0.5 + v) * v, abs=1e-12)

  @settings(max_examples=50, deadline=None)
  @given(st.tuples(*[st.floats(-50, 50)] * 2), st.tuples(*[st.floats(0, 50)] * 2))
  def test_never_above_iou(self, corner, size):
    box = (*corner, corner[0] + size[0], corner[1] + size[1])
    overlap = metrics.boxes.iou_matrix([box], BOXES)[0]
    ciou = metrics.ciou_row(box, BOXES)
    assert np.isfinite(ciou).all()
    assert (ciou <= overlap + 1e-12).all() and (ciou > -2).all()


class TestScore:
  rows = (
    row(0.6, 1, turns=[turn("landmark_query"), turn(contains=True), turn("answer")]),
    row(0.3, 1, turns=[turn(contains=True), turn(contains=False), turn("answer")]),
    row(0.1, 3, turns=[turn("none", valid=False), turn("answer")]),
    row(0.0, None, answered=False),
  )
  overall = metrics.score(rows)["overall"]

  @pytest.mark.parametrize(
    ("name", "value"),
    [
      ("iou", 1.0 / 4),
      ("hit@1", 2 / 4),
      ("hit@3", 3 / 4),
      ("hit@1_iou0.25", 2 / 4),
      ("hit@1_iou0.5", 1 / 4),
      ("acc@0.25", 2 / 4),
      ("acc@0.5", 1 / 4),
      ("precision@0.25", 2 / 3),
      ("f1@0.25", 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)),
      ("answered", 3 / 4),
      ("contains_target", 1 / 4),  # the last zoom counts, not any zoom
      ("valid_actions", 7 / 8),
      ("calls", 8 / 4),
      ("calls_zoom_in", 3 / 4),
      ("calls_none", 1 / 4),
    ],
  )
  def test_by_hand(self, name, value):
    assert self.overall[name]["value"] == pytest.approx(value, abs=1e-6)

  def test_faults_leave_the_scores_and_are_counted(self):
    faulty = [*self.rows, row(0.0, None, answered=False, valid=False)]
    scores = metrics.score(faulty)
    assert scores["faults"] == 1
    assert scores["overall"]["iou"] == self.overall["iou"]
    assert scores["stop_reasons"] == {"answered": 3, "out_of_turns": 2}

  def test_scores_by_category(self):
    scores = metrics.score([*self.rows, row(1.0, 1, category="Building")])
    assert scores["by_category"]["Building"]["iou"]["value"] == 1.0
    assert scores["by_category"]["Car"]["iou"]["value"] == 0.25

  def test_no_row_gives_nulls(self):
    scores = metrics.score([])
    assert scores["overall"]["iou"] == {"value": None, "low": None, "high": None}

  def test_seconds(self):
    rows = [row(seconds={"model": s, "tools": 1.0}) for s in (1.0, 2.0, 9.0)]
    table = metrics.score(rows)["seconds"]
    assert table["model"]["median"] == 2.0 and table["model"]["mean"] == 4.0

  def test_seconds_have_the_interval_of_any_score(self):
    """Whole targets are drawn: many queries about one object are one sample."""
    times = [1.0, 2.0, 9.0, 4.0]
    rows = [
      row(s / 10, target=str(s), seconds={"total": s}) for s in times for _ in range(20)
    ]
    scores = metrics.score(rows)
    total, iou = scores["seconds"]["total"], scores["overall"]["iou"]
    assert total["mean"] == 4.0
    assert total["low"] == pytest.approx(10 * iou["low"], abs=1e-4)
    assert total["high"] == pytest.approx(10 * iou["high"], abs=1e-4)
    # One object in four took 9 s: a draw often has none, or two.
    assert total["low"] < 2.5 and total["high"] > 6.5


class TestCompare:
  def test_pairs_by_query_whatever_the_order(self):
    first = [row(0.1, query_id="a"), row(0.5, query_id="b"), row(0.9, query_id="c")]
    second = [row(0.6, query_id="b"), row(0.2, query_id="a")]
    difference = metrics.compare(first, second)["iou"]
    assert difference["value"] == pytest.approx(0.1)

  def test_equal_policies_differ_by_nothing(self):
    rows = [row(x / 10, query_id=str(x), target=str(x)) for x in range(9)]
    zero = {"value": 0.0, "low": 0.0, "high": 0.0}
    assert metrics.compare(rows, rows)["iou"] == zero
