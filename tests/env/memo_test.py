import gc
import threading
import weakref

from tests.support.toy_scene import ToyScene
from urbex.env.memo import Memo, memo_of


def test_makes_once_and_forgets_the_least_recently_used():
  memo, made = Memo(max_bytes=30), []

  def get(key):
    return memo.get(key, lambda: made.append(key) or key, lambda value: 10)

  for key in ("a", "b", "c", "a", "d", "a", "b"):
    assert get(key) == key
  # "d" pushed "b" out, because "a" had been used since.
  assert made == ["a", "b", "c", "d", "b"]
  assert memo.n_bytes == 30


def test_what_is_larger_than_the_memo_is_made_but_not_held():
  memo = Memo(max_bytes=5)
  memo.get("small", lambda: 1, lambda value: 5)
  assert memo.get("large", lambda: 2, lambda value: 6) == 2
  assert memo.n_bytes == 5


def test_threads_share_one_value():
  memo, barrier, values = Memo(), threading.Barrier(4), []

  def work():
    barrier.wait()
    for key in range(50):
      values.append((key, memo.get(key, lambda: object(), lambda value: 1)))

  threads = [threading.Thread(target=work) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert len(set(values)) == 50
  assert memo.n_bytes == 50


def test_a_scene_has_one_memo_that_goes_with_it():
  scene = ToyScene()
  memo = memo_of(scene)
  assert memo_of(scene) is memo and memo_of(ToyScene()) is not memo
  gone = weakref.ref(memo)
  del memo, scene
  gc.collect()
  assert gone() is None
