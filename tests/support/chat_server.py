"""A local OpenAI-compatible endpoint whose replies a test sets."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer


def said(text: str | None) -> bytes:
  """Returns a chat completion."""
  return json.dumps({"choices": [{"message": {"content": text}}]}).encode()


@contextlib.contextmanager
def serve() -> Iterator[HTTPServer]:
  """Yields a server that keeps what it was `asked`.

  It answers with each of its `first` replies once, then always with its `reply`: a
  status and a body, or None and all bytes that it sends before it hangs up.
  """

  class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
      body = self.rfile.read(int(self.headers["Content-Length"]))
      http.asked.append((self.path, dict(self.headers), json.loads(body)))
      status, data = http.first.pop(0) if http.first else http.reply
      if status is not None:
        self.send_response(status)
        self.end_headers()
      self.wfile.write(data)

    def log_message(self, *_):
      pass

  http = HTTPServer(("127.0.0.1", 0), Handler)
  http.asked, http.first, http.reply = [], [], (200, said("a red car"))
  thread = threading.Thread(target=http.serve_forever, daemon=True)
  thread.start()
  try:
    yield http
  finally:
    http.shutdown()
    http.server_close()
