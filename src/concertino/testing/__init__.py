"""The test kit: what a user of the library needs to test agents, tools and adapters without a paid model."""

from .case import CassetteError
from .cassettes import Cassette, cassette, recording, replaying
from .scripted import Answer, ScriptedModel, call

__all__ = ["Answer", "Cassette", "CassetteError", "ScriptedModel", "call", "cassette", "recording", "replaying"]
