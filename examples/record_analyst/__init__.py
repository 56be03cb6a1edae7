r"""A worker over 336,776 flights: it plans queries by rules, without a key, and marks flights for review.

    pip install 'concertino[cli,examples]'
    concertino worker run record-analyst "Which carrier has the highest average departure delay in February?" \
        --app examples.record_analyst:make_runtime --tenant atlantic

Two tenants, `atlantic` and `meridian`, have disjoint carriers in the same tables. With a model of a provider
(`make_runtime` takes one), the same worker answers any question that its tools can answer.
"""

from .planner import PATTERNS, RulesModel
from .records import TENANTS, connect, load
from .runtime import make_runtime

__all__ = ["PATTERNS", "TENANTS", "RulesModel", "connect", "load", "make_runtime"]
