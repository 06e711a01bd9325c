"""One append-only record of an episode: every token, and who wrote it.

A policy token is a token that was appended with its behaviour log-probability;
nothing else is. Text is tokenised when it enters and never again: what the trainer
scores is what the policy wrote, id for id.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from urbex.core import seeds
from urbex.data.records import Query
from urbex.env.episode import Observation
from urbex.env.facts import EpisodeFacts, StopReason
from urbex.model import chat
from urbex.model.positions import image_positions, text_positions
from urbex.rollout.encoder import Encoder, Image, Run


@dataclasses.dataclass(frozen=True)
class Job:
  """One rollout to make: which query, and where it stands in the run's randomness."""

  scene_id: str
  query: Query
  seed: int
  step: int
  question: int
  rollout: int

  @property
  def episode_seed(self) -> int:
    """Of the episode: a group's share their noise, so that their prompts are one."""
    return seeds.seed32(self.seed, "environment", self.step, self.question)


@dataclasses.dataclass(frozen=True)
class Limits:
  """What one episode may hold; all of it is checked before anything is appended.

  Attributes:
    max_tokens: of the whole row, prompt included.
    max_images: of the whole row.
    max_turn_tokens: that the policy may write in one turn, its <|im_end|> included.
  """

  max_tokens: int = 1024
  max_images: int = 9
  max_turn_tokens: int = 128


@dataclasses.dataclass(frozen=True, eq=False)
class Trajectory:
  """A finished record; arrays are read-only views.

  Attributes:
    ids_T: int32.
    position_3T: int32 T, H, W positions.
    policy_T: bool, written by the policy.
    logp_T: float32 behaviour log-probability; 0 where the policy wrote nothing (and
      where an expert did).
    turn_T: int32 assistant turn; what leads up to a turn counts to it.
    image_T: int32 index into `images`, −1 for text.
    offset_T: int32 which of the image's tokens; 0 for text.
    images: in order of appearance.
    texts: what the policy wrote, turn by turn, as the environment read it.
    stop_reason: why it ended.
    facts: the episode's, None for text without an environment.
    job: what was asked for, None outside a rollout.
    version: of the weights that wrote it.
    temperature: it was sampled at; 0 for greedy.
  """

  ids_T: np.ndarray
  position_3T: np.ndarray
  policy_T: np.ndarray
  logp_T: np.ndarray
  turn_T: np.ndarray
  image_T: np.ndarray
  offset_T: np.ndarray
  images: tuple[Image, ...]
  texts: tuple[str, ...]
  stop_reason: StopReason | None = None
  facts: EpisodeFacts | None = None
  job: Job | None = None
  version: int = 0
  temperature: float = 1.0

  @property
  def n_tokens(self) -> int:
    """Tokens of the row."""
    return len(self.ids_T)

  @property
  def valid(self) -> bool:
    """False when the environment, not the policy, failed."""
    return self.facts is None or self.facts.valid


class TrajectoryBuilder:
  """Grows one trajectory: prompt, then policy and observation in turn.

  Attributes:
    length: tokens so far.
    cursor: the next free M-RoPE position; with `length`, all the state a row has.
    images: so far.
  """

  def __init__(self, encoder: Encoder, limits: Limits):
    self.encoder, self.limits = encoder, limits
    self.length = 0
    self.cursor = 0
    self.images: list[Image] = []
    self._turn = 0
    self._closed = True
    self._texts: list[str] = []
    size = limits.max_tokens
    self.ids_T = np.zeros(size, np.int32)
    self.position_3T = np.zeros((3, size), np.int32)
    self.policy_T = np.zeros(size, bool)
    self.logp_T = np.zeros(size, np.float32)
    self.turn_T = np.zeros(size, np.int32)
    self.image_T = np.full(size, -1, np.int32)
    self.offset_T = np.zeros(size, np.int32)

  @property
  def room(self) -> int:
    """Tokens the policy may write in the turn that is open."""
    left = self.limits.max_tokens - self.length
    return max(0, min(left, self.limits.max_turn_tokens))

  def start(
    self, system: str, tools: Sequence[dict[str, Any]], observation: Observation
  ) -> bool:
    """Writes the system turn, the first observation and the assistant's header.

    Returns:
      False, with nothing written, when it leaves no room for a reply.
    """
    if self.length:
      raise RuntimeError("the trajectory has begun")
    runs = self.encoder.rendered(chat.render_system(system, tools))
    return self._append_turn(runs, chat.render_user, observation)

  def append_runs(self, runs: Sequence[Run]) -> bool:
    """Writes runs that somebody else composed, as nobody's turn.

    Returns:
      False, with nothing written, when it leaves no room for a reply.
    """
    return self._append(runs, self._turn)

  def append_observation(self, observation: Observation) -> bool:
    """Ends the policy's turn and writes what it is shown, whole or not at all.

    A turn that was cut off gets the <|im_end|> it lacks, as template text.

    Returns:
      False, with nothing written, when it leaves no room for a reply.
    """
    ending = chat.assistant_close()
    if not self._closed:
      ending = "<|im_end|>" + ending
    runs = self.encoder.rendered(ending)
    return self._append_turn(runs, chat.render_tool_response, observation)

  def append_policy(self, ids: Sequence[int], logps: Sequence[float]) -> str:
    """Writes tokens of the policy with the log-probabilities it gave them.

    Returns:
      What the environment reads: the decoded turn without <|im_end|>.

    Raises:
      ValueError: there is no room for them, or an id has no log-probability.
    """
    ids_T = np.asarray(ids, np.int32)
    if len(ids_T) != len(logps) or not 0 < len(ids_T) <= self.room:
      raise ValueError(
        f"{len(ids_T)} policy tokens with {len(logps)} log-probabilities; want as "
        f"many, from 1 to {self.room}"
      )
    span = slice(self.length, self.length + len(ids_T))
    self._write(Run(ids_T))
    self.policy_T[span] = True
    self.logp_T[span] = logps
    self._closed = bool(ids_T[-1] == self.encoder.tokenizer.im_end)
    text = self.encoder.tokenizer.decode(ids_T[:-1] if self._closed else ids_T)
    self._texts.append(text)
    return text

  def append_expert(self, text: str) -> bool:
    """Writes a demonstration, to be imitated, as the policy's turn.

    Returns:
      False, with nothing written, when it does not fit.
    """
    ids = [*self.encoder.text(text).tolist(), self.encoder.tokenizer.im_end]
    if len(ids) > self.room:
      return False
    self.append_policy(ids, [0.0] * len(ids))
    return True

  def trajectory(self, **facts: Any) -> Trajectory:
    """Returns what was written; `facts` are `Trajectory`'s fields after `texts`."""
    arrays = {}
    for name in ("ids", "policy", "logp", "turn", "image", "offset"):
      arrays[f"{name}_T"] = getattr(self, f"{name}_T")[: self.length]
    arrays["position_3T"] = self.position_3T[:, : self.length]
    for name, array in arrays.items():
      arrays[name] = array.view()
      arrays[name].flags.writeable = False
    return Trajectory(
      **arrays, images=tuple(self.images), texts=tuple(self._texts), **facts
    )

  def _append_turn(self, runs: list[Run], render, observation: Observation) -> bool:
    parts = [chat.IMAGE] * len(observation.views)
    if observation.text:
      parts.append(observation.text)
    images = tuple(self.encoder.image(view.image) for view in observation.views)
    text = render(parts) + chat.assistant_open()
    runs = runs + self.encoder.rendered(text, images)
    return self._append(runs, self._turn + (self.length > 0))

  def _append(self, runs: Sequence[Run], turn: int) -> bool:
    length = self.length + sum(len(run.ids_T) for run in runs)
    n_images = len(self.images) + sum(run.image is not None for run in runs)
    if length >= self.limits.max_tokens or n_images > self.limits.max_images:
      return False
    self._turn = turn
    for run in runs:
      self._write(run)
    self._closed = False
    return True

  def _write(self, run: Run) -> None:
    count = len(run.ids_T)
    span = slice(self.length, self.length + count)
    if run.image is None:
      position_3T, self.cursor = text_positions(self.cursor, count)
    else:
      position_3T, self.cursor = image_positions(
        self.cursor, run.image.grid, run.image.merge
      )
      self.image_T[span] = len(self.images)
      self.offset_T[span] = np.arange(count)
      self.images.append(run.image)
    self.ids_T[span] = run.ids_T
    self.position_3T[:, span] = position_3T
    self.turn_T[span] = self._turn
    self.length += count
