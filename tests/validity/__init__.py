"""Judges of requests: what a vendor's API would refuse, said before anything is sent.

One module for each wire format (`anthropic`, `responses`, `chat`, `google`), with three functions alike:

- `schema_problems(body)`: against the request types that the vendor publishes with its SDK, made strict;
- `rule_problems(body)`: against what the vendor says in words, or only in its error messages. It reads a body whose
  form is right;
- `problems(body)`: the form, and where the form is right, the rules. An empty list means: nothing to refuse.

`judge.problems(request)` asks all four about one `ModelRequest`, as each provider would be sent it.

Each rule is a function whose docstring names the source. Where an API is known to be more lenient than its own
documentation, the recorded traffic decides: every recorded request that was answered passes.
"""
