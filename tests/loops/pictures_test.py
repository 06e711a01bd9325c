import numpy as np

from tests.support.loop_policy import ENV
from urbex.baselines.expert import Expert
from urbex.baselines.policy import run_episode
from urbex.core import seeds
from urbex.env.episode import Episode
from urbex.loops import pictures


def strip(scene, actions):
  return pictures.search_strip(scene, ENV, scene.queries[0], actions, seed=0)


def has(image, colour):
  return bool((image == np.array(colour, np.uint8)).all(axis=-1).any())


def test_shows_every_view_with_target_choice_and_answer(scenes):
  scene = scenes["alpha"]
  expert = Expert(scene, scene.queries[0], ENV, seeds.generator(0))
  played = run_episode(expert, Episode(scene, ENV), scene.queries[0])
  image = strip(scene, played.texts)
  first = strip(scene, played.texts[:1])
  assert image.shape[0] == pictures.HEIGHT_PX + pictures.CAPTION_PX
  assert image.shape[1] > 2 * first.shape[1]
  for colour in (pictures.TARGET, pictures.CHOSEN, pictures.ANSWERED):
    assert has(image, colour)
  assert has(first, pictures.TARGET) and not has(first, pictures.ANSWERED)


def test_junk_is_drawn_as_nothing(scenes):
  junk = ["", "<answer>{", '<tool_call>{"name": "zoom_in"}</tool_call>']
  alone = strip(scenes["alpha"], [])
  np.testing.assert_array_equal(strip(scenes["alpha"], junk), alone)


def test_captions_have_letters_beyond_ascii():
  font = pictures._font()
  missing = bytes(font.getmask("\U0010ffff"))
  assert bytes(font.getmask("ä")) != missing
  assert bytes(font.getmask("Ж")) != missing
