"""The start of a conversation: the system prompt, the messages before the user's, and the first tool choice."""

from __future__ import annotations

from collections.abc import Iterable

from ...messages import ForcedTool, Message, SystemMessage, ToolChoice
from ...tools.registry import ToolRegistry
from ..agent import AgentConfig
from ..chat import Attachment, Chat

RAG_TOOL = "rag"
CHATBOT_TOOL = "chatbot"


def system_prompt(chat: Chat, config: AgentConfig[object], registry: ToolRegistry) -> str:
    """Return the agent's prompt or its replacement, followed by the rules of tools, user, project and files."""
    prompt = config.prompt or registry.base_prompt()
    if chat.system_prompt is not None and config.allow_prompt_override:
        prompt = chat.system_prompt
    sections = [
        prompt.strip(),
        _section("When to use which tool", _rules(registry)),
        _section("How the user wants to be answered", chat.personalization),
        _section("Facts about the user", "\n".join(f"- {memory}" for memory in chat.memories)),
        _section("Rules of this project", chat.project_rules),
        _section("Files that the user attached", _files(chat.attachments)),
    ]
    return "\n\n".join(section for section in sections if section)


def before_user_message(chat: Chat, model: str) -> list[Message]:
    """Return the model's examples, the history, and the summary of the conversation before it."""
    messages: list[Message] = [*chat.few_shot.get(model, ())]
    messages.extend(chat.history)
    if chat.summary:
        messages.append(SystemMessage(f"Summary of the conversation before this:\n{chat.summary}"))
    return messages


def first_tool_choice(chat: Chat, registry: ToolRegistry) -> ToolChoice:
    """Force the chatbot if the user addresses one, else RAG if there are attachments."""
    if chat.chatbot_id and CHATBOT_TOOL in registry:
        return ForcedTool(CHATBOT_TOOL)
    if chat.attachments and RAG_TOOL in registry:
        return ForcedTool(RAG_TOOL)
    return "auto"


def _section(title: str, text: str) -> str:
    return f"# {title}\n{text.strip()}" if text.strip() else ""


def _rules(registry: ToolRegistry) -> str:
    return "\n".join(f"- {tool.name}: {tool.selection_rule}" for tool in registry.all() if tool.selection_rule)


def _files(attachments: Iterable[Attachment]) -> str:
    return "\n".join(f"- {file.name}: {file.description}".rstrip(": ") for file in attachments)
