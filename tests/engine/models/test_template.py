"""L6: chat prompts equal transformers' ids; templates that are missing or raise are refused with a hint."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import Refused
from engine.models.loaded import LoadedModel
from engine.models.resolve import load_model
from engine.models.template import ChatTemplate, chat_ids
from tests.models_factory import CHAT_TEMPLATE, tiny_hf_model

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "the quick <b>fox</b> é"},
    {"role": "assistant", "content": "jumps"},
    {"role": "user", "content": "over?\n"},
]
WITH_BOS = "{{ bos_token }}" + CHAT_TEMPLATE
MODERN = (
    "{{ bos_token }}{%- for message in messages %}\n"
    "    {%- if loop.index0 == 3 %}{% break %}{% endif %}\n"
    "    {%- if message.role == 'assistant' %}{% generation %}{{ message.content | trim }}{% endgeneration %}\n"
    "    {%- else %}[{{ message.role }}] {{ message | tojson }}{{ eos_token }}{% endif %}\n"
    "{%- endfor %}{% set ns = namespace(seen=0) %}{% for tool in tools or [] %}{% set ns.seen = ns.seen + 1 %}"
    "{{ tool | tojson(indent=2) }}{% endfor %}{{ ns.seen }}\n"
)
TOOLS: list[dict[Any, Any]] = [
    {"type": "function", "function": {"name": "look", "description": "<look> é", "parameters": {}}}
]


def model_with(path: Path, **settings: object) -> LoadedModel:
    directory = tiny_hf_model(path, "llama")
    file = directory / "tokenizer_config.json"
    stated = json.loads(file.read_text(encoding="utf-8")) | settings
    file.write_text(json.dumps({key: value for key, value in stated.items() if value is not None}), encoding="utf-8")
    return load_model(str(directory))


@pytest.mark.parametrize("template", [CHAT_TEMPLATE, WITH_BOS, MODERN])
@pytest.mark.parametrize("add_generation_prompt", [True, False])
def test_ids_equal_transformers(tmp_path: Path, template: str, add_generation_prompt: bool) -> None:
    from transformers import AutoTokenizer

    loaded = model_with(tmp_path, chat_template=template, add_bos_token=True)
    theirs = AutoTokenizer.from_pretrained(str(tmp_path))
    cases: list[Any] = [None, TOOLS]
    for tools in cases:
        wanted = theirs.apply_chat_template(
            CHAT, tokenize=True, return_dict=False, tools=tools, add_generation_prompt=add_generation_prompt
        )
        assert chat_ids(loaded.tokenizer, loaded.template, CHAT, add_generation_prompt, tools) == wanted


def test_the_start_token_is_there_once(tmp_path: Path) -> None:
    loaded = model_with(tmp_path, chat_template="{{ bos_token }}{{ messages[0].content }}", add_bos_token=True)
    ids = chat_ids(loaded.tokenizer, loaded.template, [{"role": "user", "content": "the"}])
    assert ids.count(1) == 1
    assert loaded.template is not None
    assert loaded.tokenizer.encode(loaded.template.render([{"role": "user", "content": "the"}])) == ids


def test_default_model_equals_transformers(default_model: LoadedModel) -> None:
    """The ids were taken from transformers' apply_chat_template on the same file."""
    ids = chat_ids(default_model.tokenizer, default_model.template, [{"role": "user", "content": "hi"}])
    system = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182]
    assert ids == [*system, 2, 198, 1, 4093, 198, 6004, 2, 198, 1, 520, 9531, 198]


def test_no_template_is_refused_with_a_hint(tmp_path: Path) -> None:
    directory = tiny_hf_model(tmp_path, "llama")
    file = directory / "tokenizer_config.json"
    file.write_text(json.dumps({"eos_token": "<|im_end|>"}), encoding="utf-8")
    loaded = load_model(str(directory))
    assert loaded.template is None
    with pytest.raises(Refused, match=r"no chat template.*/v1/completions"):
        chat_ids(loaded.tokenizer, loaded.template, CHAT)
    assert loaded.tokenizer.encode("the quick")


def test_a_raising_template_is_refused_with_its_own_words() -> None:
    template = ChatTemplate(
        "{% if messages[0].role == 'system' %}{{ raise_exception('No system role!') }}{% endif %}ok"
    )
    assert template.render([{"role": "user", "content": "x"}]) == "ok"
    with pytest.raises(Refused, match=r"No system role!.*/v1/completions"):
        template.render(CHAT)


@pytest.mark.parametrize(
    "source",
    [
        "{% for message in messages %}",
        "{{ messages[0]['content'] + 1 }}",
        "{{ messages[9].content }}",
        "{{ undefined_thing.attribute }}",
        "{{ 1 // 0 }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{% for i in range(1000000000) %}x{% endfor %}",
    ],
)
def test_broken_and_hostile_templates_are_refused(source: str) -> None:
    with pytest.raises(Refused):
        ChatTemplate(source).render(CHAT)


@pytest.mark.parametrize(
    ("stated", "file", "wanted"),
    [
        ("text", None, "text"),
        ([{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}], None, "plain"),
        ([{"name": "rag", "template": "first"}], None, "first"),
        ("text", "from the file", "from the file"),
        (None, "from the file", "from the file"),
    ],
)
def test_where_templates_are_found(tmp_path: Path, stated: object, file: str | None, wanted: str) -> None:
    tiny_hf_model(tmp_path, "llama")
    if file is not None:
        (tmp_path / "chat_template.jinja").write_text(file, encoding="utf-8")
    settings = {"chat_template": stated} if stated is not None else {}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    template = load_model(str(tmp_path)).template
    assert template is not None
    assert template.render(CHAT) == wanted
    if isinstance(stated, list) and len(stated) == 2:
        assert template.render(CHAT, tools=TOOLS) == "tools"


def test_switches_of_the_model_reach_the_template() -> None:
    template = ChatTemplate("{% if enable_thinking is defined and not enable_thinking %}<quiet>{% endif %}")
    assert template.render(CHAT) == ""
    assert template.render(CHAT, variables={"enable_thinking": False}) == "<quiet>"
