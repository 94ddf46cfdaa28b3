"""What not every release and every profile can do: logprobs, JSON, tools, reasoning."""

import json
import math

import pytest

from dflash_kit.smoke import features
from dflash_kit.smoke.features import Support

# Every answer that follows it is short, so that none is cut.
SCHEMA = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "green", "blue"]},
        "warm": {"type": "boolean"},
    },
    "required": ["colour", "warm"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
TOOL_TOKENS, THOUGHT_TOKENS = 512, 2048
TAGS = ("<think>", "</think>")


def only_choice(answer):
    return answer["choices"][0]


@pytest.mark.check("logprobs")
def test_logprobs(check, engine, known, declared):
    def probe():
        answer = engine.chat(known.longest.prompt, 8, logprobs=True, top_logprobs=2)
        tokens = (only_choice(answer).get("logprobs") or {}).get("content") or []
        wanted = answer["usage"]["completion_tokens"]
        if len(tokens) != wanted:
            return [f"logprobs of {len(tokens)} tokens, {wanted} were generated"]
        chosen = [token["logprob"] for token in tokens]
        best = [max(top["logprob"] for top in token["top_logprobs"]) for token in tokens]
        if not all(math.isfinite(value) and value <= 0 for value in chosen):
            return [f"logprobs {chosen}"]
        # Greedy: what was chosen is the most probable.
        close = all(math.isclose(*pair, abs_tol=1e-3) for pair in zip(chosen, best, strict=True))
        return [] if close else [f"chosen {chosen}, most probable {best}"]

    features.judge(check, declared("logprobs"), probe)


@pytest.mark.check("json-schema")
def test_json_schema(check, engine, suite, declared, arguments):
    support = declared("json-schema")
    if not support.why and arguments.get("grammar-backend") == "none":
        why = f"profile {suite.profile}: grammar-backend is none"
        support = Support(support.release, why)

    def probe():
        schema = {"name": "choice", "schema": SCHEMA, "strict": True}
        form = {"type": "json_schema", "json_schema": schema}
        answer = engine.chat("Choose a colour.", TOOL_TOKENS, response_format=form)
        text = only_choice(answer)["message"]["content"] or ""
        return [] if follows_schema(text) else [f"not by the schema: {text[:80]!r}"]

    features.judge(check, support, probe)


def follows_schema(text):
    try:
        value = json.loads(text)
    except ValueError:
        return False
    colours = SCHEMA["properties"]["colour"]["enum"]
    return (
        isinstance(value, dict)
        and value.keys() == SCHEMA["properties"].keys()
        and value["colour"] in colours
        and isinstance(value["warm"], bool)
    )


def wrong_call(kind, reasons, calls):
    """What is wrong with an answer that should be one call of the tool for Paris."""
    if reasons != ["tool_calls"] or len(calls) != 1:
        return [f"{kind}: {len(calls)} calls, finish reasons {reasons}"]
    name, arguments = calls[0]["name"], calls[0]["arguments"]
    try:
        right = name == "get_weather" and "paris" in json.loads(arguments)["city"].lower()
    except (ValueError, KeyError, TypeError, AttributeError):
        right = False
    return [] if right else [f"{kind}: {name}({arguments})"]


def probe_tools(engine, choice):
    prompt = "What is the weather in Paris? Use the tool."
    options = {
        "tools": [TOOL],
        "tool_choice": choice,
        "chat_template_kwargs": {"thinking": False},
    }
    whole = only_choice(engine.chat(prompt, TOOL_TOKENS, **options))
    calls = [call["function"] for call in whole["message"].get("tool_calls") or []]
    stream = engine.chat_stream(prompt, TOOL_TOKENS, **options)
    return wrong_call("whole", [whole["finish_reason"]], calls) + wrong_call(
        "streamed", stream.finish_reasons, list(stream.calls.values())
    )


def expect_argument(check, suite, arguments, name):
    """Skip what the profile does not set up."""
    if name not in arguments:
        check.skip(f"profile {suite.profile} sets no {name}")


@pytest.mark.check("tools")
def test_tools(check, engine, suite, declared, arguments):
    expect_argument(check, suite, arguments, "tool-call-parser")
    features.judge(check, declared("tools"), lambda: probe_tools(engine, "auto"))


@pytest.mark.check("tools-required")
def test_tools_required(check, engine, suite, declared, arguments):
    expect_argument(check, suite, arguments, "tool-call-parser")
    features.judge(check, declared("tools-required"), lambda: probe_tools(engine, "required"))


@pytest.mark.check("reasoning")
def test_reasoning(check, engine, suite, declared, arguments):
    expect_argument(check, suite, arguments, "reasoning-parser")
    prompt = "What is 17 + 25? Answer with the number alone."

    def probe():
        whole = only_choice(engine.chat(prompt, THOUGHT_TOKENS))["message"]
        stream = engine.chat_stream(prompt, THOUGHT_TOKENS)
        return wrong_thought(
            "whole", whole.get("reasoning_content") or "", whole["content"] or ""
        ) + wrong_thought("streamed", "".join(stream.reasoning), stream.text)

    features.judge(check, declared("reasoning"), probe)


def wrong_thought(kind, thought, text):
    problems = []
    if not thought.strip() or not text.strip():
        problems.append(f"{kind}: {len(thought)} characters of reasoning, {len(text)} of answer")
    if any(tag in thought + text for tag in TAGS):
        problems.append(f"{kind}: a tag of the reasoning is left in the text")
    return problems
