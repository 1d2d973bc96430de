"""Where programs come from: text models, recordings, and mutation of a program that fails."""

from draftverify_code.generators.mutate import Mutate
from draftverify_code.generators.recorded import RecordedPrograms
from draftverify_code.generators.sample import SamplePrograms

__all__ = ["Mutate", "RecordedPrograms", "SamplePrograms"]
