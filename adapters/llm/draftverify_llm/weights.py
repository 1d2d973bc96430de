"""From the word `weights` in a config to files: a catalogue name, a local directory or file, or a hub id."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from draftverify.errors import ResourceError
from draftverify_llm.cache import Report, WeightsProgress, building, locked, log_progress, root
from draftverify_llm.catalogue import CATALOGUE
from draftverify_llm.download import download
from draftverify_llm.requirements import need

FORMAT = 2
"""Raised when the conversion changes, so that an older cache is converted again."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]  # no pickled weights, no code


def resolve(weights: str, report: Report | None = None) -> Path:
    """The files that `weights` names, downloaded first where they are not here.

    Args:
        weights: a catalogue name, the path of a model directory (config.json and safetensors) or of a .gguf
            file, or a hub id "owner/name".
        report: told about a download's progress; by default the log is.

    Returns:
        A model directory or a .gguf file.

    Raises:
        ResourceError: nothing of that name can be found or fetched.
        CorruptDownloadError: what arrived is not what the catalogue means.
    """
    path = on_disk(weights)
    if path is not None:
        return path
    return download(CATALOGUE[weights], report) if weights in CATALOGUE else _from_hub(weights)


def on_disk(weights: str) -> Path | None:
    """The files of `weights` that is a path; None of what is to be fetched, a catalogue name or a hub id.

    Raises:
        ResourceError: it is none of these; nothing is fetched to find out.
    """
    if weights in CATALOGUE:
        return None
    path = Path(weights).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return path.resolve()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ResourceError(f"{path} is no model directory: it has no config.json. {_choices()}")
        return path.resolve()
    if path.exists():
        raise ResourceError(f"{path} is neither a .gguf file nor a model directory. {_choices()}")
    if _HUB_ID.fullmatch(weights) and path.suffix != ".gguf":
        return None
    near = difflib.get_close_matches(weights, CATALOGUE, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ResourceError(f"no model {weights!r} is known, and no such file is there.{hint} {_choices()}")


def gguf_file(weights: str, report: Report | None = None) -> Path:
    """The GGUF file that `weights` names, for llama.cpp.

    Raises:
        ResourceError: as `resolve`, or what it names is not a GGUF file.
    """
    path = resolve(weights, report)
    if path.is_dir():
        raise ResourceError(
            f"{weights!r} is a model directory, and llama.cpp reads .gguf files; use llm.local for it"
        )
    return path


def torch_directory(weights: str, report: Report | None = None) -> Path:
    """The directory that transformers loads for `weights`; a GGUF file is converted once, into the user cache.

    The weights are stored as float32, since that alone holds every dequantised value of a GGUF file exactly: a
    4-bit weight is a half-precision scale times a small integer, plus an offset, which neither bfloat16 nor
    float16 can hold. Loading in a smaller type rounds then, and only then. A catalogue entry may say otherwise
    (`CatalogueEntry.stored`).

    Args:
        weights: as `resolve` takes it.
        report: told about progress; by default the log is.

    Raises:
        ResourceError: as `resolve`, or a package that the conversion needs is missing, or the file cannot be read.
    """
    path = resolve(weights, report)
    if path.is_dir():
        return path
    entry = CATALOGUE.get(weights)
    if entry is not None:
        name, source, end_tokens, stored = entry.name, entry.sha256, entry.end_tokens, entry.stored
    else:
        stat = path.stat()
        source = hashlib.sha256(f"{path}|{stat.st_size}|{stat.st_mtime_ns}".encode()).hexdigest()
        name, end_tokens = f"{re.sub(r'[^A-Za-z0-9.-]+', '-', path.stem).strip('.-')}-{source[:12]}", ()
        stored = "float32"
    stamp = {"format": FORMAT, "source": source}
    final = root() / "weights" / name / "torch"
    if _made(final) == stamp:
        return final
    with locked(name):
        if _made(final) == stamp:
            return final
        (report or log_progress())(WeightsProgress(name, "convert", 0, path.stat().st_size))
        with building(name, "torch") as work:
            _convert(path, work / "result", end_tokens, stored)
            (work / "result" / "draftverify.json").write_text(json.dumps(stamp), encoding="utf-8")
    return final


def load_transformers(
    weights: str, device: str, auto: str, dtype: str = "auto", *, extra: str = "llm"
) -> tuple[Any, Any]:
    """A model in eval mode on its device, and its tokenizer, downloaded first where needed.

    Args:
        weights: as `resolve` takes it.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".
        auto: the transformers class that loads it.
        dtype: the name of torch's type to compute in; "auto" is the one in which the weights are stored.
        extra: which of the distribution's extras brings the packages.

    Raises:
        ResourceError: the weights, a package or the device is missing, the model is of another kind, or a part of it
            is not in the weights.
    """
    need("torch", "transformers", doing=f"loading {weights}", extra=extra)
    directory = torch_directory(weights)
    import torch
    import transformers

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet_transformers():
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(directory), **local)
            model, report = getattr(transformers, auto).from_pretrained(
                str(directory), dtype=dtype, use_safetensors=True, output_loading_info=True, **local
            )
        model = model.to(device).eval()
    # transformers and torch raise many kinds for files and devices that they cannot use
    except Exception as error:
        raise ResourceError(
            f"{weights} could not be loaded from {directory} as {auto} on {device} ({type(error).__name__}: {error})"
        ) from error
    # A pooler is of no use to an encoder, and many a one is saved without it.
    missing = sorted(name for name in report["missing_keys"] if auto != "AutoModel" or "pooler" not in name)
    if missing:
        raise ResourceError(
            f"{weights} is no {auto}: its weights lack {', '.join(missing[:4])}{' …' if missing[4:] else ''}, which "
            f"would be random numbers; its config names {', '.join(model.config.architectures or ['no architecture'])}"
        )
    return model, tokenizer


def _made(directory: Path) -> Any:
    try:
        return json.loads((directory / "draftverify.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _convert(gguf: Path, out: Path, end_tokens: Sequence[str], stored: str) -> None:
    need("torch", "transformers", "gguf", "accelerate", doing=f"converting {gguf.name}")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True, "trust_remote_code": False}
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **where)
            model: Any = AutoModelForCausalLM.from_pretrained(
                str(gguf.parent), dtype=getattr(torch, stored), **where
            )
    except Exception as error:  # transformers raises anything at all on a file that it cannot read
        raise ResourceError(
            f"{gguf} cannot be read as a GGUF model ({type(error).__name__}: {error})"
        ) from error
    _restore_splits(tokenizer, gguf)
    ends = [tokenizer.convert_tokens_to_ids(token) for token in end_tokens]
    if ends:
        model.generation_config.eos_token_id = ends
    # The weights are plain numbers from here on; the mark of the format they came from would block saving.
    del model.config.quantization_config
    model.hf_quantizer = None
    with quiet_transformers():
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)


def _restore_splits(tokenizer: Any, gguf: Path) -> None:
    """What the file says of cutting a text up, and transformers' reader leaves out.

    Without it "a  3" (digits, SmolLM) and "  a" (the space that SentencePiece puts before every text and after every
    special token, Llama) become other ids than the model was trained on, and than llama.cpp makes of them.
    """
    from gguf import GGUFReader
    from tokenizers import normalizers, pre_tokenizers

    reader, backend = GGUFReader(str(gguf)), tokenizer.backend_tokenizer
    splitter, model, prefix = (
        field.contents() if (field := reader.get_field(f"tokenizer.ggml.{name}")) is not None else None
        for name in ("pre", "model", "add_space_prefix")
    )
    if splitter == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
    if (
        model == "llama"
        and prefix is not False
        and isinstance(backend.pre_tokenizer, pre_tokenizers.Metaspace)
    ):
        # Metaspace adds the space once, and not where a text begins with one.
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        backend.pre_tokenizer = None


def _from_hub(hub_id: str) -> Path:
    need("huggingface_hub", doing=f"fetching {hub_id}")
    from huggingface_hub import snapshot_download

    try:
        path = Path(snapshot_download(hub_id, allow_patterns=_HUB_FILES))
    # Every transport has exceptions of its own; all mean that the model is not here.
    except Exception as error:
        twin = next((entry for entry in CATALOGUE.values() if entry.hub_id.lower() == hub_id.lower()), None)
        instead = (
            f"The catalogue has this model ({twin.quantisation}): weights: {twin.name}."
            if twin
            else _choices()
        )
        raise ResourceError(
            f"{hub_id} is neither a local path nor to be had from the model hub "
            f"({type(error).__name__}: {_first_line(error)}). {instead}"
        ) from error
    if not any(path.glob("*.safetensors")):
        raise ResourceError(
            f"{hub_id} has no safetensors files, and pickled weights are not loaded. {_choices()}"
        )
    return path


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]


def _choices() -> str:
    return (
        f"Give a catalogue name ({', '.join(CATALOGUE)}), a directory with config.json and safetensors, "
        "a .gguf file, or a hub id such as owner/name."
    )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No advice and no progress bars from transformers while its loaders run (the GGUF reader's bar stays)."""
    from transformers.utils import logging as quiet

    logging: Any = quiet
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
