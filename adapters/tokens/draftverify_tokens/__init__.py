"""Speculative decoding of language models: a target that verifies, and what may draft for it."""

from draftverify_tokens.cascade import Confidence, WholeAnswer
from draftverify_tokens.decoder import DRAFTERS, Decoder, generate, stream
from draftverify_tokens.dflash import DFlash
from draftverify_tokens.draft_model import DraftModel
from draftverify_tokens.draft_tree import DraftTree
from draftverify_tokens.drafter_training import DrafterTraining
from draftverify_tokens.eagle import Eagle
from draftverify_tokens.first_of import FirstOf
from draftverify_tokens.forced import Forced
from draftverify_tokens.generation import Generation, TextStream
from draftverify_tokens.history import History
from draftverify_tokens.medusa import Medusa
from draftverify_tokens.models import TokenModel
from draftverify_tokens.mtp import Mtp
from draftverify_tokens.no_draft import NoDraft
from draftverify_tokens.other_tokenizer import OtherTokenizer
from draftverify_tokens.prompt_lookup import PromptLookup
from draftverify_tokens.sampling import Sampling, check_settings, probabilities, read_settings
from draftverify_tokens.stopping import Stop
from draftverify_tokens.suffix import Suffix
from draftverify_tokens.target import Hidden, Target, hidden_states
from draftverify_tokens.text import Detokeniser, stream_text

__all__ = [
    "DRAFTERS", "Confidence", "DFlash", "Decoder", "Detokeniser", "DraftModel", "DraftTree",
    "DrafterTraining", "Eagle", "FirstOf", "Forced", "Generation", "Hidden", "History", "Medusa", "Mtp", "NoDraft",
    "OtherTokenizer", "PromptLookup", "Sampling", "Stop", "Suffix", "Target", "TextStream", "TokenModel", "WholeAnswer",
    "check_settings", "generate", "hidden_states", "probabilities", "read_settings", "stream",
    "stream_text",
]  # fmt: skip
