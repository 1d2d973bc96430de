"""A surrogate that learns from the log: a teacher's answers train the student that drafts for it in the next run."""

from draftverify_distilled.student import Student, StudentTraining
from draftverify_distilled.teacher import Network, Starts, Surprise, Teacher

__all__ = ["Network", "Starts", "Student", "StudentTraining", "Surprise", "Teacher"]
