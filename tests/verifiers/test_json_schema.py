"""`json_schema`: it agrees with jsonschema itself, tells places, and fetches nothing."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import Check, ConfigError, Pipeline, Proposal, generator
from draftverify.checks.verifiers import JsonSchema
from draftverify.kit import Subject, make_context, parametrize_with_checks
from draftverify.rules import First

INVOICE = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "pattern": "^[A-Z]+-[0-9]+$"},
        "due": {"type": "string", "format": "date"},
        "total": {"type": "number", "exclusiveMinimum": 0},
        "lines": {"type": "array", "items": {"enum": ["goods", "freight"]}, "minItems": 1},
    },
    "required": ["number", "total"],
    "additionalProperties": False,
}


def check(schema: Any, item: Any) -> Check:
    """The check of one item."""
    (found,) = JsonSchema(schema).verify(make_context("any"), Proposal.alternatives([item])).checks
    return found


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ('{"number": "A-1", "total": 3}', "", ""),
        (' {"number": "A-1", "total": 0.5, "due": "2024-02-29", "lines": ["freight"]}\n', "", ""),
        ('{"number": "A-1"}', "required", "$: 'total' is a required property"),
        ('{"number": "A-1", "total": "3"}', "type", "$.total: '3' is not of type 'number'"),
        ('{"number": "a1", "total": 3}', "pattern", "$.number: 'a1' does not match '^[A-Z]+-[0-9]+$'"),
        ('{"number": "A-1", "total": 0}', "exclusiveMinimum", "$.total: 0 is less than or equal to the minimum of 0"),
        ('{"number": "A-1", "total": 1, "lines": ["goods", "tax"]}', "enum", "$.lines[1]: 'tax' is not one of"),
        ('{"number": "A-1", "total": 1, "vat": 2}', "additionalProperties", "$: Additional properties are not allowed"),
        ('{"number": "A-1", "total": 1, "due": "2023-02-29"}', "format", "$.due: '2023-02-29' is not a 'date'"),
        ("[]", "type", "$: [] is not of type 'object'"),
        ("Here you are: {}", "json", 'Expecting value (line 1, column 1: "Here you are: {}")'),
        ('{"number": "A-1", "total": 3', "json", "Expecting ',' delimiter (its end)"),
        ('{"number": "A-1", "total": 3} Thank you.', "json", 'Extra data (line 1, column 31: "Thank you.")'),
        ('{"number": "A-1", "total": NaN}', "json", "NaN is no number of JSON"),
        ("", "json", "Expecting value (its end)"),
    ],
)  # fmt: skip
def test_what_is_said_of_an_answer(text: str, reason: str, said: str) -> None:
    """The JSON path and what was expected there, in words that a model can use."""
    found = check(INVOICE, text)
    assert (found.verdict, found.reason) == ("reject" if reason else "pass", reason)
    assert said in found.feedback
    assert found.score == (None if reason == "json" else -1.0 if reason else 0.0)


def test_several_places_are_told_and_counted() -> None:
    """In the order of their paths; five of them, and how many more."""
    found = check(INVOICE, '{"number": 1, "total": "x", "lines": []}')
    assert found.score == -3.0
    assert [line.split(":")[0] for line in found.feedback.splitlines()] == ["$.lines", "$.number", "$.total"]
    many = check({"items": {"type": "string"}}, list(range(9)))
    assert many.feedback.splitlines()[-1] == "… and 4 more"
    assert many.score == -9.0


def test_of_alternatives_the_nearest_is_told() -> None:
    """Not that none of three schemas fits; and a value that is quoted whole is cut."""
    branches = [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "null"}]
    assert check({"anyOf": branches}, {"a": "x"}).feedback == "$.a: 'x' is not of type 'integer'"
    long = check({"type": "null"}, ["word"] * 500).feedback
    assert long.endswith('breaks type: "null"')
    assert len(long) < 300


def test_values_need_no_text() -> None:
    """What a generator made is checked as it is; a text inside is a text."""
    assert check(INVOICE, {"number": "A-1", "total": 3}).verdict == "pass"
    assert check({"items": {"type": "string"}}, ["3"]).verdict == "pass"


others = "additionalProperties"
plain = st.recursive(
    st.sampled_from(
        [{"type": "integer"}, {"type": "string"}, {"const": 1}, {"enum": ["a", None]}, {"minimum": 1}, {}]
    ),
    lambda inner: (
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("ab"), inner), "required": st.just(["a"])})
        | st.fixed_dictionaries({"items": inner, "maxItems": st.just(2)})
        | st.fixed_dictionaries({"items": inner, "uniqueItems": st.just(True)})
        | st.fixed_dictionaries(
            {"patternProperties": st.fixed_dictionaries({"a|b": inner}), others: st.just(False)}
        )
        | st.fixed_dictionaries({"not": inner})
        | st.lists(inner, min_size=1, max_size=2).map(lambda each: {"anyOf": each})
        | st.lists(inner, min_size=1, max_size=2).map(lambda each: {"oneOf": each, "$defs": {"x": each[0]}})
    ),
    max_leaves=4,
)  # fmt: skip
schemas = plain | plain.map(lambda each: {"$defs": {"x": each}, "items": {"$ref": "#/$defs/x"}})
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(["", "a", "bb"]) | st.just(0.5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


@given(schemas, values)
def test_it_agrees_with_jsonschema(schema: Any, value: Any) -> None:
    """Verdict and count, for the value and for its text."""
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(value))
    for item in (json.dumps(value, indent=1), *([] if isinstance(value, str) else [value])):
        found = check(schema, item)
        assert found.verdict == ("reject" if errors else "pass")
        assert found.score == -float(len(errors))
        assert len(found.feedback.splitlines()) >= min(len(errors), 1)


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties", "maxProperties"])
def test_a_name_that_a_model_wrote_takes_a_pattern_no_time_without_end(
    keyword: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a text: it is a timeout, whichever keyword comes to the name first; and patterns still name properties."""
    monkeypatch.setattr("draftverify.checks.verifiers.json_schema.SECONDS", 0.05)
    slow = {keyword: False if keyword != "maxProperties" else 9, "patternProperties": {"^(a|a)*$": {}}}
    assert check(slow, {"a" * 40 + "!": 1}).verdict == "timeout"
    named = {
        keyword: slow[keyword],
        "patternProperties": {"^x": {"type": "integer"}},
        "properties": {"b": {}},
    }
    assert check(named, {"x1": 1, "b": "s"}).verdict == "pass"
    assert check(named, {"x1": "s"}).feedback == "$.x1: 's' is not of type 'integer'"


def test_a_long_list_is_looked_through_once_for_equal_items() -> None:
    """Not each item beside each other: 20,000 of them would take minutes. True is not 1, and 1.0 is."""
    long, start = [{"a": [place]} for place in range(20_000)], perf_counter()
    assert check({"uniqueItems": True}, long).verdict == "pass"
    assert perf_counter() - start < 30
    assert check({"uniqueItems": True}, [*long, {"a": [3.0]}]).verdict == "reject"
    assert check({"uniqueItems": True}, [[1], [True], [], {}, ["1"]]).verdict == "pass"


@pytest.mark.parametrize(
    ("schema", "item", "error"),
    [
        ({"$ref": "#/$defs/missing"}, "1", "_WrappedReferencingError"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "1", "_WrappedReferencingError"),
        ({"$ref": "#"}, "1", "RecursionError"),
    ],
)
def test_a_check_that_fails_is_no_rejection(schema: Any, item: str, error: str) -> None:
    """References that lead nowhere, out of the schema, or round in a circle."""
    found = check(schema, item)
    assert (found.verdict, found.reason) == ("error", error)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "it is nested too deep"),
        ("[" * 101 + "]" * 101, "it is nested too deep"),
        ('{"a": [' * 60 + "]}" * 60, "it is nested too deep"),
        ("9" * 5000, "a number in it is too long"),
        ("-" + "9" * 5000, "a number in it is too long"),
        ("[1e999]", "1e999 is beyond the numbers that can be read"),
        ("1" + "0" * 400 + ".5", "is beyond the numbers that can be read"),
    ],
)
def test_what_a_model_writes_without_end_is_rejected(text: str, said: str) -> None:
    """It is the answer that is broken, and not the checker; a long number is not quoted whole."""
    found = check({}, text)
    assert (found.verdict, found.reason, found.score) == ("reject", "json", None)
    assert said in found.feedback
    assert len(found.feedback) < 300


def test_a_deep_document_is_checked_to_its_end() -> None:
    """A hundred lists within each other are taken, by a schema that refers to itself too."""
    tree = {"type": "array", "items": {"$ref": "#"}}
    assert check(tree, "[" * 100 + "]" * 100).verdict == "pass"
    assert check(tree, "[" * 99 + "1" + "]" * 99).verdict == "reject"
    assert check({}, "[" + "[], " * 300 + "{}]").verdict == "pass"


def test_a_number_that_is_too_large_for_multiple_of_is_rejected() -> None:
    """Of a value too; the place cannot be told."""
    for item in ("9" * 400, int("9" * 400), float("inf")):
        found = check({"multipleOf": 0.1}, item)
        assert (found.verdict, found.reason, found.score) == ("reject", "multipleOf", None)
        assert "too large" in found.feedback


def test_a_place_where_nothing_is_allowed() -> None:
    """The schema `false`, below and at the top."""
    found = check({"properties": {"a": False}}, {"a": 1})
    assert (found.verdict, found.reason, found.score) == ("reject", "false", -1.0)
    assert found.feedback == "$: nothing is allowed where 1 stands"
    long = check({"properties": {"a": False}}, {"a": "word" * 500})
    assert long.reason == "false"
    assert long.feedback.startswith('$: nothing is allowed where "wordword')
    assert len(long.feedback) < 200
    assert check(False, {}).reason == "false"


def test_half_a_surrogate_pair_can_be_told_of() -> None:
    """Feedback is text that can be written down, whatever the answer holds."""
    found = check({"type": "integer"}, '"\\ud800"')
    assert found.verdict == "reject"
    found.feedback.encode()


@pytest.mark.parametrize(
    ("schema", "path", "message"),
    [
        ({"properties": {"a": {"type": "objekt"}}}, "verifier.schema.properties.a.type", "no JSON schema: 'objekt'"),
        ({"required": "a"}, "verifier.schema.required", "'a' is not of type 'array'"),
        ({"$schema": 5}, "verifier.schema.$schema", "$schema is 5"),
        ({"$schema": ["x"]}, "verifier.schema.$schema", "$schema is [\"x\"]"),
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_refused_with_its_place(schema: Any, path: str, message: str) -> None:
    """Before the first task."""
    with pytest.raises(ConfigError) as caught:
        Pipeline(generator(lambda c, n: ["a"]), JsonSchema(schema), First()).open()
    assert caught.value.path == path
    assert message in caught.value.message


def test_the_schema_may_stand_in_a_file(tmp_path: Path) -> None:
    """It is read once; a file that is missing or broken is named."""
    file = tmp_path / "invoice.json"
    file.write_text(json.dumps(INVOICE))
    part = JsonSchema(file)
    part.open()
    file.unlink()
    assert part.verify(make_context("any"), Proposal.alternatives(["{}"])).checks[0].verdict == "reject"
    with pytest.raises(ConfigError, match=r"invoice\.json: schema: the schema cannot be read: No such file"):
        JsonSchema(file).open()
    file.write_text("{")
    with pytest.raises(ConfigError, match="the schema is no JSON: Expecting"):
        JsonSchema(file).open()


def test_an_older_draft_is_read_as_such() -> None:
    """`$schema` says which: in draft 4 exclusiveMinimum is a truth value."""
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    assert [check(old, item).verdict for item in ("1", "2")] == ["reject", "pass"]


@parametrize_with_checks(
    [
        Subject(
            JsonSchema(
                {"type": "object", "required": ["a"], "dependentSchemas": {"b": {"$ref": "#/missing"}}}
            ),
            proposals=[
                Proposal.alternatives(['{"a": 1}', "{}", "x", {"a": 2}, '{"a": 3}']),
                Proposal.chain(['{"a": 1}', "{}"]),
            ],
            poison=['{"a": 1, "b": 2}'],
        )
    ]
)
def test_conformance(component: Any, check: Any) -> None:
    """It keeps the contract."""
    check(component)
