"""The researcher: a sub-agent that answers one question from sources."""

from __future__ import annotations

from ..errors import LimitReason
from ..orchestrator.agent import AgentConfig
from ..orchestrator.journal.data_policy import DataPolicy, ToolData
from ..orchestrator.outcome import Continue, NextStep
from ..orchestrator.run import RunContext

_PROMPT = """\
You are a researcher. You answer one question from sources, for a colleague who writes the report.

- Search first, with several different queries in one turn. Then read the best pages. Follow up where a page points on.
- Say only what the pages say. Put the source's id behind each sentence: [s0123456789abcdef0123456789abcdef]. Cite only
  what you have read.
- Where sources disagree, say so. Where they do not answer, say that in one sentence, and what you searched.
- Answer in 3 to 10 sentences. No introduction, no list of sources."""

_ENOUGH = "Stop searching. Answer now from the pages that you have read, and say what they leave open."


class ResearcherAgent(AgentConfig[None]):
    """An agent that searches, reads, follows up, and answers one question with citations.

    It does not advance the content index, always has its tools, and stores everything except its search history.
    """

    name = "researcher"
    prompt = _PROMPT
    tool_call_limit = 16
    enable_global_context_update = False

    def should_send_tools(self, run: RunContext[None]) -> bool:
        """Return True: the researcher may search until it answers."""
        return True

    def on_limit(self, run: RunContext[None], reason: LimitReason) -> NextStep:
        """Take one last step in which the researcher must answer."""
        return Continue(prompt=_ENOUGH, tool_choice="none")

    def get_data_policy(self) -> DataPolicy:
        """Keep everything in full except the search history, which is useful only during the research."""
        never = ToolData(arguments="drop", results="drop")
        return DataPolicy(tools={"search_history": never}, keep_whole_results=True)
