"""Evaluation: data sets, scorers with confidence intervals, baselines."""

from .eval_case import EvalCase, read_cases, sample, stored_cases
from .eval_report import Change, EvalReport, ScoreSummary, TrialReport
from .evaluate import evaluate
from .intervals import Interval, bootstrap, interval, wilson
from .judge import Grade, Judge
from .pytest_file import pytest_file
from .recorded_model import Divergence
from .replayed_run import ReplayReport, RunFigures, replay_run
from .scorers import SCORERS, Score, Scorer, Trial, calls, completed, contains, exact, same_json, usual_scorers

__all__ = [
    "SCORERS",
    "Change",
    "Divergence",
    "EvalCase",
    "EvalReport",
    "Grade",
    "Interval",
    "Judge",
    "ReplayReport",
    "RunFigures",
    "Score",
    "ScoreSummary",
    "Scorer",
    "Trial",
    "TrialReport",
    "bootstrap",
    "calls",
    "completed",
    "contains",
    "evaluate",
    "exact",
    "interval",
    "pytest_file",
    "read_cases",
    "replay_run",
    "same_json",
    "sample",
    "stored_cases",
    "usual_scorers",
    "wilson",
]
