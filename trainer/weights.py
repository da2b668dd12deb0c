"""Weights from and to Hugging Face folders.

Loading goes straight from safetensors into each process's shards: no process ever holds the whole model.

    python -m trainer.weights --config JOB.yaml --output FOLDER [--step N] [--dtype bfloat16] [--overwrite]

exports a checkpoint to a folder that `AutoModelForCausalLM.from_pretrained` loads. It needs one process and the
memory of one file of the result, not of the model. The folder is filled under a hidden name beside it, and put in
place when it is complete; what a killed export leaves of that is removed by the next one into the same folder.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

from trainer import config, exits
from trainer.checkpoint.commits import Damaged
from trainer.checkpoint.sharded import reasons
from trainer.checkpoint.where import storage
from trainer.config import Job
from trainer.data.shards import read_index
from trainer.folders import filled, ready
from trainer.model import architecture, shape, tied
from trainer.precision import DTYPES

FILE_BYTES = 4 << 30
"""Of one file of an export, at most (unless a single tensor is larger)."""
PREFIX = "model."
"""Of the model's part in a checkpoint."""


COMPANIONS = (
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*.json",
    "vocab.txt",
    "merges.txt",
    "*.tiktoken",
    "sentencepiece*",
    "spiece.model",
    "chat_template*",
    "generation_config.json",
    "LICENSE*",
    "LICENCE*",
    "NOTICE*",
    "USE_POLICY*",
)
"""What makes a Hugging Face folder complete besides weights and `config.json`. Licences ask to travel along."""


def load(model: nn.Module, folder: Path, group: dist.ProcessGroup | None = None) -> None:
    """Fill a sharded model from the safetensors of a Hugging Face folder, whatever their dtype.

    Raises exits.Failure, with status CONFIG unless another try can help.
    """
    state = get_model_state_dict(model)
    if tied(model):
        state.pop("lm_head.weight", None)  # such folders hold the shared matrix once
    try:
        dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(folder)), process_group=group)
    except dcp.api.CheckpointException as error:  # no Exception: would pass by everything that handles one
        io_failed = any(
            isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)
            for cause, _ in error.failures.values()
        )
        raise exits.Failure(
            f"model.huggingface {folder} cannot be loaded: {reasons(error)}",
            exits.RETRY if io_failed else exits.CONFIG,
        ) from error
    if tied(model):
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    set_model_state_dict(model, state)


def export(
    reader: Any,
    hf_config: Any,
    folder: Path,
    dtype: torch.dtype,
    file_bytes: int = FILE_BYTES,
    *,
    job: Job | None = None,
    overwrite: bool = False,
) -> list[str]:
    """Make a Hugging Face folder of a checkpoint's model, from DCP's reader of it, with the companions that a job
    names; returns the names of weight files and companions.

    The folder is complete or as it was before. Raises exits.Failure if it holds something, unless `overwrite` says
    that all of it is to be replaced.
    """
    with filled(folder, overwrite=overwrite) as new:
        files = _write_model(reader, hf_config, new, dtype, file_bytes)
        return files if job is None else [*files, *add_companions(job, new)]


def _write_model(reader: Any, hf_config: Any, folder: Path, dtype: torch.dtype, file_bytes: int) -> list[str]:
    """Weights and `config.json`; returns the names of the weight files. Tensors are read, cast and written a file at a
    time."""
    from safetensors.torch import save_file

    entries = reader.read_metadata().state_dict_metadata
    sizes = {
        name: entry.size
        for name, entry in sorted(entries.items())
        if name.startswith(PREFIX) and isinstance(entry, TensorStorageMetadata)
    }
    if hf_config.tie_word_embeddings:
        sizes.pop(f"{PREFIX}lm_head.weight", None)
    groups = list(_grouped(sizes, dtype.itemsize, file_bytes))
    placed: dict[str, str] = {}
    for number, names in enumerate(groups, start=1):
        file = (
            f"model-{number:05d}-of-{len(groups):05d}.safetensors" if len(groups) > 1 else "model.safetensors"
        )
        tensors = {name: torch.empty(sizes[name]) for name in names}
        dcp.load(_nested(tensors), storage_reader=reader, no_dist=True)
        plain = {name.removeprefix(PREFIX): tensor.to(dtype).contiguous() for name, tensor in tensors.items()}
        save_file(plain, folder / file, metadata={"format": "pt"})
        placed |= dict.fromkeys(plain, file)
    hf_config.dtype = dtype
    hf_config.architectures = [
        architecture(hf_config.model_type)
    ]  # other programs than transformers ask for it
    hf_config.save_pretrained(folder)
    if len(groups) > 1:
        total = sum(size.numel() for size in sizes.values()) * dtype.itemsize
        index = {"metadata": {"total_size": total}, "weight_map": placed}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    return sorted(set(placed.values()))


def add_companions(job: Job, folder: Path) -> list[str]:
    """Copy tokenizer, chat template, generation settings and licences into an export; returns the files' names.

    They come from the folder that the run started from, or else from its tokenizer's.
    """
    if job.model.huggingface is not None:
        source = job.model.huggingface
    else:
        prepared = job.data.prepared or (job.data.sources[0].prepared if job.data.sources else None)
        name = read_index(prepared).tokenizer if prepared else job.data.tokenizer
        if name == "byt5":
            from transformers.models.byt5.tokenization_byt5 import ByT5Tokenizer

            return sorted(Path(file).name for file in ByT5Tokenizer().save_pretrained(folder))
        source = Path(name)
    found = {path for pattern in COMPANIONS for path in source.glob(pattern) if path.is_file()}
    for path in found:
        shutil.copyfile(path, folder / path.name)
    return sorted(path.name for path in found)


def _grouped(sizes: dict[str, torch.Size], width: int, limit: int) -> Iterator[list[str]]:
    names: list[str] = []
    filled = 0
    for name, size in sizes.items():
        amount = size.numel() * width
        if names and filled + amount > limit:
            yield names
            names, filled = [], 0
        names.append(name)
        filled += amount
    if names:
        yield names


def _nested(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """As the checkpoint was saved: the model's tensors under "model"."""
    return {PREFIX.removesuffix("."): {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.weights", description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True, type=Path, help="job file of the run")
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=c", help="override one value of it"
    )
    parser.add_argument("--output", required=True, type=Path, help="folder to make, or an empty one")
    parser.add_argument("--step", type=int, help="checkpoint to export; by default the newest")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bfloat16")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace the folder, and all that it holds, once the new one is complete",
    )
    options = parser.parse_args()
    try:
        job = config.load(options.config, options.set)
        ready(options.output, overwrite=options.overwrite)
        store = storage(job)
        found = {saved.step: saved for saved in reversed(store.saved())}
        step = options.step if options.step is not None else max(found, default=None)
        if step is None or step not in found:
            known = ", ".join(map(str, sorted(found, reverse=True))) or "none"
            raise exits.Failure(f"{store}: no checkpoint of step {step}; there are: {known}", exits.CONFIG)
        try:
            commit = store.read_commit(found[step])
            store.verify(found[step], commit)
            reader = store.reader(found[step], commit)
            files = export(
                reader,
                shape(job.model),
                options.output,
                DTYPES[options.dtype],
                job=job,
                overwrite=options.overwrite,
            )
        except Damaged as damage:
            raise exits.Failure(f"{store}: step {step} is damaged: {damage}", exits.CONFIG) from damage
        except dcp.api.CheckpointException as error:
            raise exits.Failure(f"{store}: step {step} cannot be read: {reasons(error)}") from error
    except exits.Failure as failure:
        print(failure, file=sys.stderr)
        return failure.status
    except OSError as error:  # of the storage: a full disk, no right to write there
        print(error, file=sys.stderr)
        return exits.RETRY
    print(f"step {step} of {job.name}: {', '.join(files)} in {options.output}")
    if not any(name.startswith(("tokenizer", "vocab", "spiece")) for name in files):
        print(f"warning: no tokenizer was found to complete {options.output} with", file=sys.stderr)
    return exits.FINISHED


if __name__ == "__main__":
    sys.exit(main())
