"""Workers: agents that are defined by data and three prompts, and work in passes."""

from .decision import WorkerDecision, decision_type, read_decision
from .definition import EnrichmentContext, LoopConfig, PreEnrichment, WorkerContext, WorkerDefinition
from .definition_file import load_worker, load_workers
from .worker_agent import WorkerAgent
from .worker_state import EXIT_CONDITIONS, WorkerState

__all__ = [
    "EXIT_CONDITIONS",
    "EnrichmentContext",
    "LoopConfig",
    "PreEnrichment",
    "WorkerAgent",
    "WorkerContext",
    "WorkerDecision",
    "WorkerDefinition",
    "WorkerState",
    "decision_type",
    "load_worker",
    "load_workers",
    "read_decision",
]
