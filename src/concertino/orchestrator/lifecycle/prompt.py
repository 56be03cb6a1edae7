"""Building the first messages of a run: the system prompt, what came before, and the user's message."""

from __future__ import annotations

from collections.abc import Iterable

from ...messages import ForcedTool, Message, SystemMessage, ToolChoice
from ...tools.registry import ToolRegistry
from ..agent import AgentConfig
from ..chat import Attachment, Chat

RAG_TOOL = "rag"
CHATBOT_TOOL = "chatbot"


def system_prompt(chat: Chat, config: AgentConfig[object], registry: ToolRegistry) -> str:
    """The agent's prompt, or what replaces it, and all that the product adds: rules of tools, user, project, files."""
    prompt = config.prompt or registry.base_prompt()
    if chat.system_prompt is not None and config.allow_prompt_override:
        prompt = chat.system_prompt
    sections = [
        prompt.strip(),
        _section("When to use which tool", _rules(registry)),
        _section("How the user wants to be answered", chat.personalization),
        _section("What is known of the user", "\n".join(f"- {memory}" for memory in chat.memories)),
        _section("Rules of this project", chat.project_rules),
        _section("Files that the user gave", _files(chat.attachments)),
    ]
    return "\n\n".join(section for section in sections if section)


def before_user_message(chat: Chat, model: str) -> list[Message]:
    """Examples for the models that want them, the history, and the summary of what came before it."""
    messages: list[Message] = [*chat.few_shot.get(model, ())]
    messages.extend(chat.history)
    if chat.summary:
        messages.append(SystemMessage(f"Summary of the conversation before this:\n{chat.summary}"))
    return messages


def first_tool_choice(chat: Chat, registry: ToolRegistry) -> ToolChoice:
    """The chatbot is forced when the user talks to one, else RAG when there are attachments."""
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
