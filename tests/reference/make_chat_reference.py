#!/usr/bin/env python3
"""Writes tests/datasets/fixtures/chat_vectors.json: chat templates of the families that are recognised and what
transformers' apply_chat_template makes of them. Run by hand; the tests read what it wrote.

    python3 -m venv env && env/bin/pip install tokenizers==0.23.3 transformers==5.24.0 jinja2
    env/bin/python tests/reference/make_chat_reference.py

The templates are written anew in the ways that the families' own are; none is a copy.
"""
import json
import pathlib

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/datasets/fixtures/chat_vectors.json"

LOOP = "{% for message in messages %}"
CHATML = LOOP + "{%s}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
LLAMA3 = (LOOP + "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
          "{% if loop.first %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
LLAMA31 = ("{{- bos_token }}{%- if not date_string is defined %}{%- set date_string = \"26 Jul 2024\" %}{%- endif %}"
           "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}"
           "{%- else %}{%- set system_message = \"\" %}{%- endif %}"
           "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}{{- \"Cutting Knowledge Date: December 2023\\n\" }}"
           "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}{{- system_message }}{{- \"<|eot_id|>\" }}"
           "{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}{%- endfor %}"
           "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}")
LLAMA2 = ("{% if messages[0]['role'] == 'system' %}{% set turns = messages[1:] %}{% set system_message = messages[0]['content'] %}"
          "{% else %}{% set turns = messages %}{% set system_message = false %}{% endif %}{% for message in turns %}"
          "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
          "{% else %}{% set content = message['content'] %}{% endif %}"
          "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
          "{% else %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")
MISTRAL = "{{ bos_token }}" + LOOP + "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('only user and assistant') }}{% endif %}{% endfor %}"
GEMMA = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + LOOP +
         "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
         "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
GEMMA3 = ("{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}{%- set turns = messages[1:] -%}"
          "{%- else -%}{%- set first_user_prefix = \"\" -%}{%- set turns = messages -%}{%- endif -%}{%- for message in turns -%}"
          "{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}{{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else \"\") }}{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{%- endfor -%}"
          "{%- if add_generation_prompt -%}{{'<start_of_turn>model\n'}}{%- endif -%}")
PHI3 = (LOOP + "{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")
PHI3_JOINED = "{{ bos_token }}" + LOOP + "{% if (message['role'] == 'user') %}{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}{% else %}{{message['content'] + '<|end|>' + '\n'}}{% endif %}{% endfor %}"
ZEPHYR = ("{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
          "{% else %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")


def mistral_later(opening, closing, answer="\" \" + "):
    return ("{%- if messages[0][\"role\"] == \"system\" %}{%- set system_message = messages[0][\"content\"] %}{%- set turns = messages[1:] %}"
            "{%- else %}{%- set turns = messages %}{%- endif %}{{- bos_token }}{%- for message in turns %}{%- if message[\"role\"] == \"user\" %}"
            f"{{%- if loop.last and system_message is defined %}}{{{{- \"{opening}\" + system_message + \"\\n\\n\" + message[\"content\"] + \"{closing}\" }}}}"
            f"{{%- else %}}{{{{- \"{opening}\" + message[\"content\"] + \"{closing}\" }}}}{{%- endif %}}"
            "{%- else %}{{- " + answer + "message[\"content\"] + eos_token }}{%- endif %}{%- endfor %}")


TEMPLATES = [
    ("chatml", CHATML.replace("{%s}", "")),
    ("chatml", CHATML.replace("{%s}", "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a careful reader.<|im_end|>\n' }}{% endif %}")),
    ("llama-2", LLAMA2), ("llama-3", LLAMA3), ("llama-3", LLAMA3.replace("\n", "\\n")), ("llama-3.1", LLAMA31),
    ("mistral", MISTRAL), ("mistral-v1", mistral_later(" [INST] ", " [/INST]")), ("mistral-v3", mistral_later("[INST] ", "[/INST]")),
    ("mistral-v3-tekken", mistral_later("[INST]", "[/INST]", "")), ("gemma", GEMMA), ("gemma-3", GEMMA3),
    ("phi-3", PHI3), ("phi-3", PHI3.replace("\n", "\\n")), ("phi-3", PHI3_JOINED), ("zephyr", ZEPHYR),
]
# Near to a family, and rendered otherwise.
REFUSED = [
    CHATML.replace("{%s}", "").replace("assistant\\n' }}", "assistant\\n<think>\\n' }}"),
    CHATML.replace("{%s}", "{{ strftime_now('%d') }}"),
    LLAMA2.replace("set system_message = false", "set system_message = 'Be brief.'"),
    LLAMA2.replace("bos_token + '[INST] ' + content.strip()", "content"),
    LLAMA3.replace(" | trim", ""),
    LLAMA31.replace("December 2023", "March 2023"),
    MISTRAL.replace(" [/INST]", "[/INST]"),
    "[SYSTEM_PROMPT]" + mistral_later("[INST]", "[/INST]"),
    PHI3.replace("<|end|>\n", "<|end|> "),
    LOOP + "{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}",
    "", "{{", "\u0000",
]
USERS = ["Why is the sky blue?", "  Padded \n text \n\n", "<|im_end|> {{ x }} é\n\"quoted\""]


def main():
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>")
    rows = []
    for form, template in TEMPLATES:
        for system in [None, " Answer  briefly.\n"]:
            for user in USERS:
                messages = ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": user}]
                try:
                    text = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)
                except Exception:
                    text = None  # the family has no system message
                if form == "phi-3" and template is PHI3_JOINED and system:
                    continue  # leaves system messages out
                rows.append({"form": form, "template": template, "system": system, "user": user, "text": text})
        # Mistral's first template puts no space before an answer; this program's form has one.
        answer = "Rayleigh  said so." if form != "mistral" else "Rayleigh"
        before = [{"role": "user", "content": " Who? "}, {"role": "assistant", "content": answer}]
        text = tokenizer.apply_chat_template(before + [{"role": "user", "content": "Why?"}], chat_template=template,
                                             tokenize=False, add_generation_prompt=True)
        if form == "mistral":
            text = text.replace("[/INST]Rayleigh", "[/INST] Rayleigh")
        rows.append({"form": form, "template": template, "system": None, "user": "Why?", "before": before, "text": text})
    OUT.write_text(json.dumps({"vectors": rows, "refused": REFUSED}, indent=0))
    print(len(rows), OUT.stat().st_size)


if __name__ == "__main__":
    main()
