"""Asks a model behind an OpenAI-compatible endpoint, once a question."""

import base64
import dataclasses
import json
import math
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException, InvalidURL
from pathlib import Path

from urbex.core.errors import UserError
from urbex.data.answers import Answers


@dataclasses.dataclass(frozen=True)
class EndpointSettings:
  """Where the model is.

  Attributes:
    url: up to and without /chat/completions, e.g. "http://localhost:8000/v1".
    model: its name there.
    key_variable: the environment variable that holds the key; "" sends none.
    timeout_s: of one answer.
    max_tokens: of one answer.
    retries: how often a question is sent again after a connection that broke, or a
      status of 429 or 500 and more.
    retry_s: waited before the first of them; twice as long before each next.
  """

  url: str = "http://localhost:8000/v1"
  model: str = "Qwen3-VL-4B-Instruct"
  key_variable: str = ""
  timeout_s: float = 120.0
  max_tokens: int = 256
  retries: int = 4
  retry_s: float = 1.0

  def __post_init__(self):
    if self.retries < 0:
      raise UserError(f"endpoint.retries: want 0 or more, found {self.retries}")
    if not 0 <= self.retry_s < math.inf:
      raise UserError(f"endpoint.retry_s: want 0 or more, found {self.retry_s:g}")


class Endpoint:
  """Asks one model; `asked` counts the questions that went over the wire."""

  def __init__(
    self,
    settings: EndpointSettings,
    cache: Path,
    wait: Callable[[float], None] = time.sleep,
  ):
    """Takes the folder that answers are kept in, and what waits some seconds."""
    self._settings, self._answers, self._wait = settings, Answers(cache), wait
    self.asked = 0

  def ask(self, text: str, jpegs: Sequence[bytes]) -> str:
    """Returns the model's answer to a text and pictures.

    Raises:
      UserError: no answer, an error status, or an answer of another shape.
    """
    body = self._body(text, jpegs)
    answer = self._answers.find(body)
    if answer is None:
      answer = self._post(body)
      self.asked += 1
      self._answers.keep(body, answer, self._settings.model)
    return answer

  def _body(self, text: str, jpegs: Sequence[bytes]) -> bytes:
    pictures = [
      {
        "type": "image_url",
        "image_url": {
          "url": "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()
        },
      }
      for jpeg in jpegs
    ]
    value = {
      "model": self._settings.model,
      "max_tokens": self._settings.max_tokens,
      "temperature": 0,
      "messages": [
        {"role": "user", "content": [*pictures, {"type": "text", "text": text}]}
      ],
    }
    return json.dumps(value, sort_keys=True).encode()

  def _post(self, body: bytes) -> str:
    settings = self._settings
    url = settings.url.rstrip("/") + "/chat/completions"
    headers = {"Content-Type": "application/json"}
    if settings.key_variable:
      key = os.environ.get(settings.key_variable)
      if not key:
        raise UserError(
          f"config.endpoint.key_variable: {settings.key_variable} is not set; export "
          "it, or set key_variable to '' for an endpoint without a key"
        )
      if not (key.isascii() and key.isprintable()):
        raise UserError(
          f"config.endpoint.key_variable: {settings.key_variable} holds no key: "
          "a line end or another character that no header carries is in it"
        )
      headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url, body, headers)
    for retry in range(settings.retries + 1):
      try:
        with urllib.request.urlopen(request, timeout=settings.timeout_s) as reply:
          data = reply.read()
        break
      except (OSError, HTTPException, ValueError) as error:
        if retry == settings.retries or not _may_pass(error):
          raise UserError(f"{url}: {_what_failed(error)}") from error
      self._wait(settings.retry_s * 2**retry)
    return _answer(url, data)


def _may_pass(error: Exception) -> bool:
  """Tells whether the same question may be answered a little later."""
  if isinstance(error, urllib.error.HTTPError):
    return error.code == 429 or error.code >= 500
  if isinstance(error, urllib.error.URLError):
    return isinstance(error.reason, OSError)  # else the address itself is wrong
  return isinstance(error, OSError | HTTPException) and not isinstance(
    error, InvalidURL
  )


def _what_failed(error: Exception) -> str:
  if isinstance(error, urllib.error.HTTPError):
    try:
      detail = error.read(200).decode("utf-8", "replace")
    except (OSError, HTTPException):
      detail = ""
    return f"status {error.code}: {' '.join(detail.split())}"
  # What a server said instead of HTTP is quoted: it may hold any character.
  reason = repr(error) if isinstance(error, HTTPException) else str(error)
  reason = str(getattr(error, "reason", reason))[:200]
  return (
    f"no answer ({reason}); start the endpoint, name another with "
    "--config.endpoint.url=URL, or use --config.expressions.source=templates"
  )


def _answer(url: str, data: bytes) -> str:
  try:
    text = json.loads(data)["choices"][0]["message"]["content"]
  except (ValueError, RecursionError, LookupError, TypeError) as error:
    raise UserError(
      f"{url}: the answer is no chat completion: {data[:80]!r}"
    ) from error
  if not isinstance(text, str):
    raise UserError(f"{url}: the answer holds no text: {data[:80]!r}")
  return text
