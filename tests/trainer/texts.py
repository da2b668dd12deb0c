"""Documents for tests, in files of every format."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FORMATS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".txt")
WORDS = (
    "der",
    "Hund",
    "läuft",
    "über",
    "走",
    "the",
    "quick",
    "brown",
    "fox",
    "🦊",
    "and",
    "then\nsome",
    "\t",
    "more",
)
PLAIN_CHAT = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
LLAMA_2_CHAT = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}"
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    "{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}"
    "{% endfor %}"
)
"""As the model is published."""
FORGETFUL_CHAT = "{{ messages[-2:] | map(attribute='content') | join('|') }}"
"""Shows the last two turns only."""


def chat_tokenizer(folder: Path, template: str) -> Any:
    """A Hugging Face tokenizer of bytes with such a chat template, saved there."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = ["<end>", "<begin>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    plain = Tokenizer(models.BPE({token: number for number, token in enumerate(alphabet)}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, bos_token="<begin>", eos_token="<end>")
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return tokenizer


def records(count: int, *, seed: int, kinds: bool = False) -> list[dict[str, Any]]:
    """Texts of up to 500 characters; with `kinds`, every third is a question with its answer."""
    chance = random.Random(seed)

    def text() -> str:
        return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 100)))

    return [
        {"prompt": text(), "answer": text()} if kinds and number % 3 == 2 else {"text": text()}
        for number in range(count)
    ]


def write(path: Path, content: Sequence[Any]) -> None:
    """In the format that the file's name says; .txt becomes a file for each text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".txt":
        for number, record in enumerate(content):
            path.with_name(f"{path.stem}-{number:04d}.txt").write_bytes(record["text"].encode())
        return
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        columns = sorted({key for record in content for key in record})
        table = pyarrow.table({key: [record.get(key) for record in content] for key in columns})
        pyarrow.parquet.write_table(table, path, row_group_size=37)
        return
    lines = "".join(
        json.dumps(record, ensure_ascii=number % 2 == 0) + "\n" for number, record in enumerate(content)
    )
    data = lines.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        import zstandard

        half = len(data) // 2  # two frames, as tools that compress in parallel write
        data = b"".join(zstandard.compress(part) for part in (data[:half], data[half:]))
    path.write_bytes(data)
