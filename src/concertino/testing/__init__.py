"""The test kit: what a user of the library needs to test agents, tools and adapters without a paid model."""

from .scripted import Answer, ScriptedModel, call

__all__ = ["Answer", "ScriptedModel", "call"]
