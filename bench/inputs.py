"""What all contenders share: tokens, initial weights, sizes.

    python -m bench.inputs FOLDER SIZES.json

The text is the language reference that comes with Python; the tokenizer is trained on it. The windows of each step
are written out in the order in which our trainer takes them, so every contender sees the same batches.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Sizes:
    """One model and one batch."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int
    sequence: int
    sequences: int
    """In one step, over all processes."""
    micro: int
    """Sequences that a process puts through at a time: sequences / processes, so nobody accumulates."""
    learning_rate: float = 1e-3
    seed: int = 17

    @property
    def tokens(self) -> int:
        """Targets of one step."""
        return self.sequences * self.sequence


@dataclass(frozen=True)
class Inputs:
    folder: Path
    sizes: Sizes

    @classmethod
    def read(cls, folder: Path) -> Inputs:
        return cls(folder, Sizes(**json.loads((folder / "sizes.json").read_text())))

    @property
    def weights(self) -> Path:
        """Hugging Face folder of the initial weights."""
        return self.folder / "weights"

    @property
    def prepared(self) -> Path:
        """Token shards, as our trainer prepares them."""
        return self.folder / "prepared"

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer"

    def windows(self) -> Any:
        """(steps x sequences, sequence + 1) int32, in the order of training."""
        import numpy as np

        return np.load(self.folder / "windows.npy")


def make(folder: Path, sizes: Sizes, steps: int) -> None:
    """Fill `folder` with all of the above."""
    import numpy as np
    import torch
    from transformers.models.llama.modeling_llama import LlamaForCausalLM

    from trainer import model as models
    from trainer.config import Model
    from trainer.data import batches, prepare, shards

    inputs = Inputs(folder, sizes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sizes.json").write_text(json.dumps(asdict(sizes)))
    train_tokenizer(inputs.tokenizer, sizes.vocabulary)
    prepare.prepare("python-documentation", str(inputs.tokenizer), 0.0, inputs.prepared)

    stream = shards.Stream(inputs.prepared, shards.read_index(inputs.prepared), shards.TRAIN)
    reader = batches.Batches(stream, sizes.sequence, rank=0, world=1, micro=sizes.sequences)
    taken = [
        torch.cat([micro.inputs, micro.targets[:, -1:]], dim=1).numpy()
        for step in range(1, steps + 1)
        for micro in reader.step(step, sizes.sequences, sizes.seed)
    ]
    np.save(folder / "windows.npy", np.concatenate(taken).astype(np.int32))

    torch.manual_seed(sizes.seed)
    shape = Model(
        vocabulary=sizes.vocabulary, hidden=sizes.hidden, layers=sizes.layers, heads=sizes.heads,
        kv_heads=sizes.kv_heads, feed_forward=sizes.feed_forward, sequence=sizes.sequence,
    )  # fmt: skip
    model = LlamaForCausalLM(models.shape(shape)).float()
    models.initialise(model, shape.initial_deviation, sizes.seed)
    model.save_pretrained(inputs.weights)


def train_tokenizer(folder: Path, vocabulary: int) -> None:
    """Byte-level BPE over Python's language reference, as a Hugging Face folder."""
    from pydoc_data.topics import topics

    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<pad>", "</s>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator([topics[name] for name in sorted(topics)], trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>").save_pretrained(
        folder
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]), Sizes(**json.loads(sys.argv[2])), int(sys.argv[3]))
