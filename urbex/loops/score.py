"""Says how likely a policy finds every token of a conversation: the step `score`."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from urbex.core import files
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.core.types import Params
from urbex.loops.talk import Dtype, Talk
from urbex.model.check import check_tokens
from urbex.model.config import ModelConfig
from urbex.model.qwen3_vl import logits
from urbex.model.tokenizer import Tokenizer
from urbex.rollout.batch import Batch, collate
from urbex.rollout.scoring import batch_hidden

# Positions whose logits are held at once.
CHUNK = 256


@dataclasses.dataclass(frozen=True)
class ScoreSettings:
  """How a conversation is scored.

  Attributes:
    dtype: of the weights and the computation.
    out: a JSONL file to write the table to as well; "" is none.
  """

  dtype: Dtype = "float32"
  out: str = ""


class Scores(NamedTuple):
  """Of each token given those before it, [T], natural logarithms.

  logp: of the token itself. best: the likeliest id. best_logp: of that. The first
  token is given nothing: nan, −1 and nan.
  """

  logp: np.ndarray
  best: np.ndarray
  best_logp: np.ndarray


@functools.partial(jax.jit, static_argnames="config")
def _scores(params: Params, config: ModelConfig, batch: Batch):
  hidden_BTD = batch_hidden(params, config, batch)

  def one(pair):
    hidden_D, following = pair
    log_V = jax.nn.log_softmax(logits(params, config, hidden_D))
    return log_V[following], jnp.argmax(log_V), jnp.max(log_V)

  following_T = jnp.asarray(batch.ids_BT)[0, 1:]
  return jax.lax.map(one, (hidden_BTD[0, :-1], following_T), batch_size=CHUNK)


def score_tokens(talk: Talk) -> tuple[np.ndarray, Scores]:
  """Returns the ids of the whole conversation, and how likely each one is.

  The distribution is the model's own: the softmax over all rows of its vocabulary,
  at temperature 1.

  Raises:
    UserError: an id or a placeholder does not fit the model or the pictures.
  """
  builder = talk.builder(talk.runs(talk.conversation.text), room=1)
  config = talk.policy.config
  batch = collate([builder.trajectory()], config)
  places = max((g.layout.valid_UP.shape[1] for g in batch.groups), default=0)
  places = places // config.vision.merge**2 * batch.slot_BI.shape[1]
  check_tokens(batch.tokens, config, places, str(talk.path))
  count = builder.length
  logp, best, best_logp = jax.device_get(_scores(talk.policy.params, config, batch))
  scores = Scores(
    np.concatenate([[np.nan], logp[: count - 1]]),
    np.concatenate([[-1], best[: count - 1]]),
    np.concatenate([[np.nan], best_logp[: count - 1]]),
  )
  return builder.ids_T[:count].copy(), scores


def assistant_tokens(ids_T: np.ndarray, words: Tokenizer) -> np.ndarray:
  """Returns bool [T]: what the assistant said, its <|im_end|> included."""
  mask_T = np.zeros(len(ids_T), bool)
  for start in np.flatnonzero(ids_T == words.im_start) + 1:
    ends_N = start + np.flatnonzero(ids_T[start:] == words.im_end)
    end = int(ends_N[0]) + 1 if len(ends_N) else len(ids_T)
    # The header may be one token or several; the words begin on the next line.
    header = ""
    while start < end and "\n" not in header:
      header += words.decode(ids_T[start : start + 1].tolist())
      start += 1
    mask_T[start:end] = header.startswith("assistant\n")
  return mask_T


def rows(talk: Talk, ids_T: np.ndarray, scores: Scores) -> Iterable[dict[str, Any]]:
  """Yields a JSON row for every token but the placeholders of pictures."""
  words = talk.encoder.tokenizer
  said_T = assistant_tokens(ids_T, words)
  for place, (token, logp, best, best_logp) in enumerate(zip(ids_T, *scores)):
    if token == words.image_pad:
      continue
    yield {
      "position": place,
      "assistant": bool(said_T[place]),
      "id": int(token),
      "text": words.decode([int(token)]),
      "logp": None if place == 0 else float(logp),
      "best_id": None if place == 0 else int(best),
      "best_text": None if place == 0 else words.decode([int(best)]),
      "best_logp": None if place == 0 else float(best_logp),
    }


def _print(table: list[dict[str, Any]]) -> None:
  print("    at      id  log p     token, and where another is likelier, that one")
  last = -1
  for row in table:
    if row["position"] > last + 1:
      print(f"{'':14}  {row['position'] - last - 1} tokens of a picture")
    last = row["position"]
    logp = "" if row["logp"] is None else f"{row['logp']:.4f}"
    line = f"{last:>6}{row['id']:>8}{logp:>10} {'*' if row['assistant'] else ' '} "
    line += repr(row["text"])
    if row["best_id"] not in (None, row["id"]):
      line += f"   ({row['best_text']!r} {row['best_logp']:.4f})"
    print(line)
  scored = [row for row in table if row["logp"] is not None]
  for name, chosen in (
    ("assistant (*)", [row for row in scored if row["assistant"]]),
    ("all text", scored),
  ):
    total = sum(row["logp"] for row in chosen)
    mean = f", {total / len(chosen):.4f} a token" if chosen else ""
    print(f"{name}: {len(chosen)} tokens, log p {total:.4f}{mean}")


def score(config: ConfigDict, run: Run | None = None) -> None:
  """The step `score`: prints the log-probability of a conversation's every token.

  Args:
    config: `model`, `conversation`, `adapters` and the section score.
    run: not used.

  Raises:
    UserError: the model, the conversation or a picture is wrong.
  """
  del run
  settings = section(config, "score", ScoreSettings)
  talk = Talk.from_config(config, settings.dtype)
  table = list(rows(talk, *score_tokens(talk)))
  _print(table)
  if settings.out:
    files.write_jsonl(settings.out, table)
    print(f"score: {settings.out}")
