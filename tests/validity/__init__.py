"""Judges of requests: problems that a vendor's API would refuse, found before anything is sent.

One module for each wire format (`anthropic`, `responses`, `chat`, `google`), with three functions alike:

- `schema_problems(body)`: against the request types that the vendor publishes with its SDK, made strict;
- `rule_problems(body)`: against the vendor's documentation and error messages. It reads a body
  with a valid form;
- `problems(body)`: the form and, if it is valid, the rules. An empty list is an accepted request.

`judge.problems(request)` asks all four about one `ModelRequest`.

Each rule is a function whose docstring names the source. Where an API is known to be more lenient than its own
documentation, the recorded traffic decides: every recorded request that was answered passes.
"""
