"""A chat as a value: its fields, and its repr, which may enter a log."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from concertino import Attachment, Chat, Resources, Scope, UserMessage
from concertino.errors import ConfigurationError


@pytest.mark.parametrize(
    ("field", "remedy"), [("temperature", "hook `build_request`"), ("modell", "see the fields of Chat")]
)
def test_a_field_that_a_chat_lacks_is_named_with_its_remedy(field: str, remedy: str) -> None:
    fields: dict[str, Any] = {field: 1}
    with pytest.raises(ConfigurationError, match=rf"Chat\({field}=...\): there is no such field; .*{remedy}"):
        Chat("x", **fields)
    with pytest.raises(ConfigurationError, match=field):
        dataclasses.replace(Chat("x"), **fields)


def test_a_chat_can_be_copied() -> None:
    chat = Chat("x", summary="y")
    assert copy.copy(chat) == copy.deepcopy(chat) == pickle.loads(pickle.dumps(chat)) == chat


def test_a_chat_shows_no_content() -> None:
    secret = "the merger"
    chat = Chat(
        secret,
        model="anthropic",
        history=[UserMessage(secret)],
        summary=secret,
        scope=Scope("acme", "ann"),
        system_prompt=secret,
        personalization=secret,
        memories=[secret],
        project_rules=secret,
        attachments=[Attachment(secret, secret)],
        few_shot={"m": [UserMessage(secret)]},
    )
    assert secret not in repr(chat)
    assert "model='anthropic', scope=Scope(tenant='acme', user='ann')" in repr(chat)


def test_resources_do_not_show_the_products_own_object() -> None:
    assert "secret-key" not in repr(Resources(deps={"key": "secret-key"}))
