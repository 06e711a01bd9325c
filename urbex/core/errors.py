"""The exceptions whose messages are written for the person at the keyboard."""


class UserError(Exception):
  """Reports bad input in one line a person can act on.

  The message names the file and record, the value found, the value wanted and what
  to do. The launcher prints it without a traceback and exits with status 2; every
  other exception is our own bug and keeps its traceback.
  """


class NoSpaceError(UserError):
  """Says that the disk is full: no fault of what was being read."""
