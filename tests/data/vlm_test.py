"""The endpoint is asked once a question, and every way of failing is one line."""

import base64

import pytest

from tests.support.chat_server import said, serve
from urbex.core.errors import UserError
from urbex.data.vlm import Endpoint, EndpointSettings


@pytest.fixture
def server():
  with serve() as http:
    yield http


def endpoint(server, tmp_path, **more):
  url = f"http://127.0.0.1:{server.server_port}/v1/"
  settings = EndpointSettings(url=url, model="m", **more)
  server.waits = []
  return Endpoint(settings, tmp_path / "answers", server.waits.append)


CUT = b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{"


def test_a_question_goes_over_the_wire_once(server, tmp_path):
  first = endpoint(server, tmp_path)
  assert first.ask("what is it?", [b"jpeg"]) == "a red car"
  second = endpoint(server, tmp_path)
  assert second.ask("what is it?", [b"jpeg"]) == "a red car"
  assert (first.asked, second.asked, len(server.asked)) == (1, 0, 1)
  second.ask("what is it?", [b"other"])
  assert second.asked == 1
  path, _, body = server.asked[0]
  assert path == "/v1/chat/completions"
  picture, text = body["messages"][0]["content"]
  assert text == {"type": "text", "text": "what is it?"}
  data = picture["image_url"]["url"].removeprefix("data:image/jpeg;base64,")
  assert base64.b64decode(data) == b"jpeg"


def test_a_key_is_sent_from_its_variable_and_never_kept(server, tmp_path, monkeypatch):
  monkeypatch.setenv("SOME_KEY", "secret-word")
  endpoint(server, tmp_path, key_variable="SOME_KEY").ask("q", [])
  assert server.asked[0][1]["Authorization"] == "Bearer secret-word"
  kept = [f.read_text() for f in (tmp_path / "answers").rglob("*.json")]
  assert kept and "secret-word" not in "".join(kept)
  for broken in ("secret-word\n", "secr\u00e9t-word"):
    monkeypatch.setenv("SOME_KEY", broken)
    with pytest.raises(UserError, match=r"SOME_KEY holds no key") as refused:
      endpoint(server, tmp_path, key_variable="SOME_KEY").ask("third", [])
    assert "word" not in str(refused.value)
  monkeypatch.delenv("SOME_KEY")
  with pytest.raises(UserError, match=r"SOME_KEY is not set"):
    endpoint(server, tmp_path, key_variable="SOME_KEY").ask("other", [])


@pytest.mark.parametrize(
  ("reply", "message"),
  [
    ((500, b"out of memory"), "status 500: out of memory"),
    ((200, b"<html>"), "no chat completion"),
    ((200, b'{"choices": []}'), "no chat completion"),
    ((200, said(None)), "holds no text"),
    ((200, b"1" * 5000), "no chat completion"),
    ((200, b"[" * 200_000), "no chat completion"),
    ((None, b""), r"no answer .*closed connection.*; start the endpoint"),
    ((None, CUT), r"no answer \(IncompleteRead.*98 more"),
    ((None, b"SSH-2.0\r\n"), r"no answer .*SSH-2\.0"),
  ],
)
def test_a_bad_reply_is_one_line_and_is_not_kept(server, tmp_path, reply, message):
  server.reply = reply
  with pytest.raises(UserError, match=message) as error:
    endpoint(server, tmp_path).ask("q", [])
  assert "\n" not in str(error.value)
  assert not list(tmp_path.rglob("*.json"))


def test_nobody_at_the_address_is_one_line(tmp_path):
  settings = EndpointSettings(url="http://127.0.0.1:9/v1", timeout_s=2.0)
  with pytest.raises(UserError, match=r"no answer .*templates"):
    Endpoint(settings, tmp_path, lambda _: None).ask("q", [])


def test_what_may_pass_is_asked_again_ever_later(server, tmp_path):
  server.first = [(None, b""), (429, b"slow down"), (503, b"busy"), (None, CUT)]
  patient = endpoint(server, tmp_path, retries=4, retry_s=0.5)
  assert patient.ask("q", []) == "a red car"
  assert server.waits == [0.5, 1.0, 2.0, 4.0]
  assert (patient.asked, len(server.asked)) == (1, 5)


def test_it_gives_up_after_the_retries_and_at_once_where_none_helps(server, tmp_path):
  server.reply = (503, b"busy")
  with pytest.raises(UserError, match="status 503: busy"):
    endpoint(server, tmp_path, retries=2).ask("q", [])
  assert server.waits == [1.0, 2.0]
  for reply in ((400, b"no such model"), (200, b"<html>")):
    server.reply = reply
    with pytest.raises(UserError):
      endpoint(server, tmp_path).ask("q", [])
    assert not server.waits


@pytest.mark.parametrize("more", [{"retries": -1}, {"retry_s": float("nan")}])
def test_settings_out_of_range(more):
  with pytest.raises(UserError, match=r"endpoint\.retr.*: want 0 or more"):
    EndpointSettings(**more)
