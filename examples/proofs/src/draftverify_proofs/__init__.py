"""Programs over bit vectors: enumeration drafts them, one NumPy pass refutes most, z3 proves what is left."""

from draftverify_proofs.enumeration import Enumeration
from draftverify_proofs.metrics import Agrees, StepsSaved
from draftverify_proofs.programs import Program, parse, run
from draftverify_proofs.verifiers import Proved, Tested

__all__ = ["Agrees", "Enumeration", "Program", "Proved", "StepsSaved", "Tested", "parse", "run"]
