"""Lets a policy answer a conversation: the step `generate`."""

import dataclasses
import math
from collections.abc import Iterator

from ml_collections import ConfigDict

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import check_ranges, section
from urbex.loops.talk import Dtype, Talk
from urbex.rollout.engine import Engine, Sampling
from urbex.rollout.split import weight_copier

# Tokens a program writes before the host looks at them.
PIECE = 32

# Room for an answer is made before it is written.
MAX_TOKENS = 1 << 16


@dataclasses.dataclass(frozen=True)
class GenerateSettings:
  """How an answer is drawn.

  Attributes:
    max_tokens: most tokens of the answer; 65,536 at most.
    temperature: 0 takes the likeliest token each time.
    seed: of the draws.
    dtype: of the weights and the computation.
  """

  max_tokens: int = 512
  temperature: float = 0.0
  seed: int = 0
  dtype: Dtype = "float32"

  def __post_init__(self):
    check_ranges("generate", self, max_tokens=(1, MAX_TOKENS), seed=(0, 2**31 - 1))
    if not 0 <= self.temperature < math.inf:
      raise UserError(
        f"generate.temperature: want 0 or more, found {self.temperature:g}"
      )


@dataclasses.dataclass(frozen=True)
class Key:
  """The answer's place in the seed's randomness."""

  seed: int
  step: int = 0
  question: int = 0
  rollout: int = 0


def generate_tokens(talk: Talk, settings: GenerateSettings) -> Iterator[list[int]]:
  """Yields the answer's ids in pieces, until <|im_end|> or max_tokens.

  Ids are drawn as a rollout draws them: among those a policy may write, with the
  cache, and keyed by their position, so that the pieces' length changes nothing.
  """
  conversation = talk.conversation
  prompt = None if conversation.text is None else conversation.prompt
  builder = talk.builder(talk.runs(prompt), room=settings.max_tokens)
  words = talk.encoder.tokenizer
  how = Sampling(
    allowed_V=talk.policy.allowed_V,
    end_id=words.im_end,
    max_turn_tokens=min(PIECE, settings.max_tokens),
    temperature=settings.temperature or 1.0,
    greedy=settings.temperature == 0,
  )
  params = talk.policy.params
  engine = Engine(weight_copier(params)(params), talk.policy.config, 1, how)
  engine.fill({0: (builder, Key(settings.seed))})
  while builder.room:
    ids_T, logp_T = engine.decode({0: builder})[0]
    builder.append_policy(ids_T, logp_T)
    yield ids_T.tolist()
    if ids_T[-1] == words.im_end:
      return
    engine.append({0: builder})


def generate(config: ConfigDict, run: Run | None = None) -> None:
  """The step `generate`: prints what the policy says next in a conversation.

  Where the conversation ends with the assistant's words, they are left out and
  printed beside the new ones.

  Args:
    config: `model`, `conversation`, `adapters` and the section generate.
    run: not used.

  Raises:
    UserError: the model, the conversation or a picture is wrong.
  """
  del run
  settings = section(config, "generate", GenerateSettings)
  talk = Talk.from_config(config, settings.dtype)
  ids, shown = [], ""
  for piece in generate_tokens(talk, settings):
    ids += piece
    text = talk.encoder.tokenizer.decode(ids)
    # The bytes of a letter may come in two pieces: show it when it is whole.
    whole = text.rstrip("\ufffd")
    print(whole[len(shown) :], end="", flush=True)
    shown = whole
  print(text[len(shown) :])
  print(f"generate: {len(ids)} tokens")
  if talk.conversation.reply:
    print(f"in the file: {talk.conversation.reply.strip()}")
