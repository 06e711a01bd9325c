"""Rows that would read the wrong row of a table, each refused with its place."""

import numpy as np
import pytest

from tests.support import qwen3_vl_cases as cases
from urbex.core.errors import UserError
from urbex.model.check import check_tokens
from urbex.model.config import ModelConfig

CONFIG = ModelConfig.from_dict(cases.config_dict())
PLACES = 3 * 12


def given():
  tokens = cases.inputs(cases.CASES["one_image"], CONFIG).tokens
  return tokens._replace(
    ids_BT=tokens.ids_BT.copy(), image_index_BT=tokens.image_index_BT.copy()
  )


def test_every_case_passes():
  for case in cases.CASES.values():
    check_tokens(cases.inputs(case, CONFIG).tokens, CONFIG, PLACES)


def test_padding_may_hold_anything():
  tokens = given()
  tokens.ids_BT[1] = -7
  tokens.image_index_BT[2] = 999
  check_tokens(tokens, CONFIG, PLACES)


def test_what_is_out_of_range_is_named_with_its_place():
  for column, number, message in (
    (2, 96, r"row 0, token 2: id 96; want 0\.\.95$"),
    (1, -1, r"row 0, token 1: id -1; want 0\.\.95$"),
    (2, cases.IMAGE, r"row 0, token 2: image_pad 90 without an image feature"),
  ):
    tokens = given()
    tokens.ids_BT[0, column] = number
    with pytest.raises(UserError, match=message):
      check_tokens(tokens, CONFIG, PLACES)


def test_more_placeholders_than_features():
  first = int(np.flatnonzero(given().ids_BT[0] == cases.IMAGE)[0])
  with pytest.raises(UserError, match=r"feature 5; there are 5 \(1 such\)|there are 5"):
    check_tokens(given(), CONFIG, 5)
  with pytest.raises(UserError, match=rf"token {first}: image feature 0; there are 0"):
    check_tokens(given(), CONFIG, 0)


def test_a_feature_at_a_token_of_text_and_a_negative_position():
  tokens = given()
  tokens.image_index_BT[0, 0] = 0
  with pytest.raises(UserError, match="token 0: image feature 0 at a token of text"):
    check_tokens(tokens, CONFIG, PLACES)
  tokens = given()
  position_3BT = tokens.position_3BT.copy()
  position_3BT[1, 0, 3] = -1
  with pytest.raises(UserError, match="token 3: position -1"):
    check_tokens(tokens._replace(position_3BT=position_3BT), CONFIG, PLACES)
