"""Text models: a catalogue of weights and the cache that holds them, models run here, models behind a server."""

from draftverify_llm.catalogue import CATALOGUE, CatalogueEntry
from draftverify_llm.checkpoint import (
    held_out,
    load_checkpoint,
    optimiser_tensors,
    restore_optimiser,
    save_checkpoint,
)
from draftverify_llm.endpoint import Endpoint
from draftverify_llm.eval_mode import evaluating
from draftverify_llm.generate import Sample, fields_of, filled
from draftverify_llm.identity import model_identity
from draftverify_llm.jsonl import MISSING, read_rows, value_at
from draftverify_llm.judge import Judge
from draftverify_llm.judge_metric import JudgedAnswer
from draftverify_llm.judging import answer_text, question_text
from draftverify_llm.likelihood import Likelihood, sample_logprobs
from draftverify_llm.llama_cpp import LlamaCpp
from draftverify_llm.local import LocalModel
from draftverify_llm.pairwise_judge import PairwiseJudge
from draftverify_llm.pretrained import (
    Pretrained,
    by_length,
    label_place,
    label_scores,
    load_pretrained,
    readable,
    weights_identity,
)
from draftverify_llm.recorded_judge import RecordedJudge
from draftverify_llm.recordings import (
    RecordedSample,
    RecordedSamples,
    RecordedTask,
    find_recording,
    plain_prompt,
    read_recording,
    samples_drawn,
)
from draftverify_llm.requirements import check_least, need
from draftverify_llm.shared import Shared
from draftverify_llm.text import (
    BatchTextModel,
    Completion,
    Message,
    ModelTraits,
    TextModel,
    asking,
    before_stop,
    check_model,
    exchange_of,
    model_traits,
    read_sampling,
    reading_traits,
    sampling_traits,
)
from draftverify_llm.weights import gguf_file, resolve, torch_directory

__all__ = [
    "CATALOGUE", "MISSING", "BatchTextModel", "CatalogueEntry", "Completion", "Endpoint", "Judge",
    "JudgedAnswer", "Likelihood", "LlamaCpp", "LocalModel", "Message", "ModelTraits", "PairwiseJudge",
    "Pretrained", "RecordedJudge", "RecordedSample", "RecordedSamples", "RecordedTask", "Sample", "Shared",
    "TextModel", "answer_text", "asking", "before_stop", "by_length", "check_least", "check_model",
    "evaluating", "exchange_of", "fields_of", "filled", "find_recording", "gguf_file", "held_out",
    "label_place", "label_scores", "load_checkpoint", "load_pretrained", "model_identity", "model_traits",
    "need", "optimiser_tensors", "plain_prompt", "question_text", "read_recording", "read_rows",
    "read_sampling", "readable", "reading_traits", "resolve", "restore_optimiser", "sample_logprobs",
    "samples_drawn", "sampling_traits", "save_checkpoint", "torch_directory", "value_at",
    "weights_identity",
]  # fmt: skip
