"""Evaluation: data sets, scorers with confidence intervals, baselines."""

from .eval_case import EvalCase, read_cases, sample, stored_cases
from .eval_report import Change, EvalReport, ScoreSummary, TrialReport
from .evaluate import evaluate
from .intervals import Interval, bootstrap, interval, wilson
from .judge import Grade, Judge
from .scorers import SCORERS, Score, Scorer, Trial, calls, completed, contains, exact, same_json, usual_scorers

__all__ = [
    "SCORERS",
    "Change",
    "EvalCase",
    "EvalReport",
    "Grade",
    "Interval",
    "Judge",
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
    "read_cases",
    "same_json",
    "sample",
    "stored_cases",
    "usual_scorers",
    "wilson",
]
