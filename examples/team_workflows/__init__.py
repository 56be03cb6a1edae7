r"""Three workflows of a team on real files, without a key: a review, an investigation and a release.

    concertino workflow run review-change HEAD~20..HEAD --app examples.team_workflows:make_runtime
    concertino workflow run investigate-incident logs --app examples.team_workflows:make_runtime
    concertino workflow run prepare-release 1.4.0 --app examples.team_workflows:make_runtime

They work in the current folder. The model follows rules; `make_team` takes a provider's model in its place.
"""

from .rules import RulesModel
from .runtime import make_runtime, make_team

__all__ = ["RulesModel", "make_runtime", "make_team"]
