"""The test kit: a scripted model, HTTP recordings and fault injection, to test agents without a paid model."""

from .case import CassetteError
from .cassettes import Cassette, cassette, recording, replaying
from .scripted import Answer, ScriptedModel, call

__all__ = ["Answer", "Cassette", "CassetteError", "ScriptedModel", "call", "cassette", "recording", "replaying"]
