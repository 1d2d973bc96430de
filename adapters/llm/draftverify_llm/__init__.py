"""Text models: a catalogue of weights and the cache that holds them, models run here, models behind a server."""

from draftverify_llm.catalogue import CATALOGUE, CatalogueEntry
from draftverify_llm.endpoint import Endpoint
from draftverify_llm.family import family_of_config, family_of_weights
from draftverify_llm.generate import Sample
from draftverify_llm.identity import model_identity
from draftverify_llm.judge import Judge
from draftverify_llm.llama_cpp import LlamaCpp
from draftverify_llm.local import LocalModel
from draftverify_llm.pairwise_judge import PairwiseJudge
from draftverify_llm.recorded_judge import RecordedJudge
from draftverify_llm.requirements import need
from draftverify_llm.text import Completion, Message, TextModel, read_sampling, reads_sampling
from draftverify_llm.weights import gguf_file, quiet_transformers, resolve, torch_directory

__all__ = [
    "CATALOGUE",
    "CatalogueEntry",
    "Completion",
    "Endpoint",
    "Judge",
    "LlamaCpp",
    "LocalModel",
    "Message",
    "PairwiseJudge",
    "RecordedJudge",
    "Sample",
    "TextModel",
    "family_of_config",
    "family_of_weights",
    "gguf_file",
    "model_identity",
    "need",
    "quiet_transformers",
    "read_sampling",
    "reads_sampling",
    "resolve",
    "torch_directory",
]
