"""The repr of what a run is given: it may enter a log."""

from __future__ import annotations

from concertino import Attachment, Chat, Resources, Scope, UserMessage


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
