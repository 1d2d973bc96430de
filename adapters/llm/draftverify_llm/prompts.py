"""The prompts of judges: files with fields, filled so that no text that is judged can step out of its place.

A text stands between an opening and a closing tag with the same code, `<answer A 5f3c9a1b>`. The code is derived from
the texts and occurs in none of them, so that none can close its tag or open another. What models take for the end of a
turn (`<|im_end|>`, `[/INST]`, …) is spelled apart in a text, since servers read it wherever it stands; so is a verdict
in double brackets. That keeps the texts apart; it does not keep a model from being persuaded by what one of them says.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from draftverify import ConfigError
from draftverify.values import utf8

SHIPPED = Path(__file__).parent / "judge_prompts"
"""The prompts that come with the package: copy one, change it, and name it as `prompt`."""

_FIELD = re.compile(r"\{\{(?P<plain>\w+)\}\}|\{(?P<name>[A-Za-z_]\w*)\}")
"""A word in braces; in doubled ones it is text, and so is anything else in braces."""
_TURNS = re.compile(
    r"<[|｜][^<>|｜\n]{1,64}[|｜]>|</?s>|<(?:bos|eos|(?:start|end)_of_(?:turn|text|utterance))>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\]|<</?SYS>>"
    r"|\[\[(?i:yes|no|[a-z]|\d)\]\]"
)
"""What ends a turn; and a verdict in brackets, which a judge might quote."""
_LARGEST = 100_000
"""Characters of a prompt file; a larger one is something else."""


def read_prompts(
    files: Sequence[Path], fields: Sequence[str], optional: Sequence[str] = ()
) -> tuple[str, ...]:
    """The prompts' text, checked.

    Args:
        files: UTF-8.
        fields: each must stand in each prompt exactly once, in braces.
        optional: fields that may.

    Raises:
        ConfigError: a file cannot be read, lacks a field, has it twice, or has a word in braces that is none.
    """
    prompts = []
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"the prompt cannot be read: {why}", where=str(file), path="prompt") from error
        if fault := _fault(text, fields, optional):
            raise ConfigError(fault, where=str(file), path="prompt")
        prompts.append(text)
    return tuple(prompts)


def _fault(text: str, fields: Sequence[str], optional: Sequence[str]) -> str:
    """What is wrong with a prompt; "" where nothing is."""
    if len(text) > _LARGEST:
        return f"the prompt has {len(text):,} characters; at most {_LARGEST:,} are read"
    names = [match["name"] for match in _FIELD.finditer(text) if match["name"]]
    listed = " and ".join(f"{{{name}}}" for name in fields)
    for name in fields:
        if names.count(name) != 1:
            times = names.count(name)
            return f"{{{name}}} stands in the prompt {times} times; {listed} must each stand there once"
    for name in names:
        if name not in fields and name not in optional:
            return (
                f"{{{name}}} is no field of this prompt, which has {listed}; as a text it is {{{{{name}}}}}"
            )
    return ""


def filled_prompt(
    prompt: str,
    texts: Mapping[str, tuple[str, str]],
    plain: Mapping[str, str] = {},
    *,
    after: Mapping[str, str] = {},
) -> str:
    """A prompt with its texts in their places.

    Args:
        prompt: as it was read.
        texts: by field, what the tag calls the text ("answer A"), and the text; half of a surrogate pair, which no
            request can carry, becomes its escape.
        plain: by field, words of the judge's own, which need no tag.
        after: by field, what follows its text.
    """
    code = _code([text for _, text in texts.values()])

    def field(match: re.Match[str]) -> str:
        if match["plain"]:
            return f"{{{match['plain']}}}"
        if match["name"] in plain:
            return plain[match["name"]]
        name, text = texts[match["name"]]
        ending = after.get(match["name"], "")
        return f"<{name} {code}>\n{_TURNS.sub(apart, utf8(text))}\n</{name} {code}>{ending}"

    return _FIELD.sub(field, prompt)  # one pass: braces in a text are the text's


def apart(mark: re.Match[str]) -> str:
    """A mark of a model's, such as `<|im_end|>`, as text that looks like it and is none: `< |im_end|>`."""
    return f"{mark[0][:1]} {mark[0][1:]}"


def _code(texts: Sequence[str]) -> str:
    """Eight hexadecimal digits that occur in none of the texts; the same in whatever order they come."""
    count = 0
    while True:
        salted = "\0".join([*sorted(texts), str(count)])
        code = hashlib.sha256(salted.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        if not any(code in text.lower() for text in texts):
            return code
        count += 1
