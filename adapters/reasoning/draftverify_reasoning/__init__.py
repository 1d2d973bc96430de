"""Reasoning: solutions sampled and judged whole or step by step, the answers in them, and problems to try them on."""

from draftverify_reasoning.answered import Answered, UntilAnswered
from draftverify_reasoning.answers import Form, extract, normalised, number, same
from draftverify_reasoning.outside import AnswerMatches, GymScorer, GymSolved, KnownAnswer
from draftverify_reasoning.process import ProcessVerifier, StepScorer
from draftverify_reasoning.recorded import RecordedScore, RecordedSolutions
from draftverify_reasoning.reward_model import RewardModel
from draftverify_reasoning.sample import SolutionSampler
from draftverify_reasoning.scoring import StepwiseSolution
from draftverify_reasoning.self_refine import SelfRefine
from draftverify_reasoning.solutions import answer_of, solution, spelled_answer
from draftverify_reasoning.steps import Steps
from draftverify_reasoning.tasks import Gym, Problems
from draftverify_reasoning.training import VerifierTraining
from draftverify_reasoning.verifier import TrainedVerifier

__all__ = [
    "AnswerMatches",
    "Answered",
    "Form",
    "Gym",
    "GymScorer",
    "GymSolved",
    "KnownAnswer",
    "Problems",
    "ProcessVerifier",
    "RecordedSolutions",
    "RecordedScore",
    "RewardModel",
    "SolutionSampler",
    "SelfRefine",
    "StepScorer",
    "Steps",
    "StepwiseSolution",
    "TrainedVerifier",
    "UntilAnswered",
    "VerifierTraining",
    "answer_of",
    "extract",
    "normalised",
    "number",
    "same",
    "solution",
    "spelled_answer",
]
