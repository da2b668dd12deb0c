"""One measurement of one library, in a process of its own.

    python -m bench.loaders FOLDER ours|webdataset|litdata write|prepare|load|resume

Prints one line of JSON: tokens with seconds and CPU seconds, or seconds alone, or a note why there is no figure.
`prepare` turns texts (the Python files of the standard library) into what the library reads, with one tokenizer for
all. `load` reads random tokens, shuffled, as batches of int64 inputs and targets. Imports are not counted.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.tokens import index, random_shards, random_tokens

VOCABULARY = 4096
SEQUENCE, BATCH = 2048, 8
TOKENS = 1 << 26
"""Random ones, to load from: 128 MiB."""
LOADED = 1 << 26
"""Tokens that one measurement of loading takes."""
SHARD = 1 << 23
FAR = 10**12
"""Tokens before the position to resume at."""
TEXTS = 400
"""Files of the standard library to prepare."""
Batch = tuple[torch.Tensor, torch.Tensor]


def measured(body: Callable[[], Any]) -> dict[str, float]:
    """Seconds, and CPU seconds of this process and its children."""
    began, cpu = time.perf_counter(), _cpu()
    body()
    return {"seconds": time.perf_counter() - began, "cpu_seconds": _cpu() - cpu}


def _cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def make(folder: Path) -> None:
    """Texts, a tokenizer, and random tokens."""
    from bench.inputs import train_tokenizer

    train_tokenizer(folder / "tokenizer", VOCABULARY)
    library = Path(sysconfig.get_path("stdlib"))
    files = sorted(library.glob("*.py")) + sorted(library.glob("[a-r]*/*.py"))
    (folder / "texts").mkdir()
    with (folder / "texts/texts.jsonl").open("w") as out:
        for path in files[:TEXTS]:
            out.write(json.dumps({"text": path.read_text(errors="replace")}) + "\n")
    np.save(folder / "random.npy", random_tokens(VOCABULARY, TOKENS).astype(np.uint16))


def texts(folder: Path) -> list[str]:
    with (folder / "texts/texts.jsonl").open() as lines:
        return [json.loads(line)["text"] for line in lines]


def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder / "tokenizer", local_files_only=True)


def counted(batches: Iterator[Batch]) -> None:
    """Take LOADED tokens."""
    for inputs, targets in islice(batches, LOADED // (BATCH * SEQUENCE)):
        assert inputs.shape == targets.shape == (BATCH, SEQUENCE) and inputs.dtype == torch.int64


class Ours:
    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, folder / "ours"

    def write(self) -> None:
        random_shards(self._made, VOCABULARY, TOKENS, SHARD)

    def prepare(self) -> int:
        from trainer.data import prepare

        out = self._folder / "ours-prepared"
        made = prepare.prepare(self._folder / "texts", str(self._folder / "tokenizer"), 0.0, out)
        return made.splits["train"].tokens

    def _batches(self, folder: Path) -> Any:
        from trainer.data import batches, shards

        stream = shards.Stream(folder, shards.read_index(folder), "train")
        return batches.Batches(stream, SEQUENCE, rank=0, world=1, micro=BATCH)

    def load(self) -> Iterator[Batch]:
        reader = self._batches(self._made)
        step = 0
        while True:
            step += 1
            for micro in reader.step(step, BATCH, 0):
                yield micro.inputs, micro.targets

    def resume(self) -> dict[str, float]:
        """A stream of 10^12 tokens and more, in 1,100 files with holes: they take no room on the disk."""
        from trainer.data import shards

        far = self._folder / "far"
        if not far.exists():
            far.mkdir()
            size, made = 10**9, []
            for number in range(1100):
                name = f"train-{number:05d}.tokens"
                with (far / name).open("wb") as file:
                    file.truncate(2 * size)
                made.append(shards.Shard(name, size, "0" * 64))
            index(far, made, VOCABULARY)
        return measured(lambda: self._batches(far).step(FAR // (BATCH * SEQUENCE) + 1, BATCH, 0))


class Webdataset:
    """Packed windows in tar files, one .npy of uint16 each: what its documentation advises for many small samples."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, folder / "webdataset"

    def _write(self, folder: Path, windows: Iterator[Any]) -> None:
        import webdataset

        folder.mkdir(exist_ok=True)
        with webdataset.ShardWriter(
            str(folder / "%05d.tar"), maxcount=SHARD // SEQUENCE, verbose=0
        ) as writer:
            for number, window in enumerate(windows):
                writer.write({"__key__": f"{number:09d}", "npy": window})

    def write(self) -> None:
        tokens = np.load(self._folder / "random.npy")
        starts = range(0, TOKENS - SEQUENCE, SEQUENCE)
        self._write(self._made, (tokens[start : start + SEQUENCE + 1] for start in starts))

    def prepare(self) -> int:
        total = 0
        encode = tokenizer(self._folder)

        def windows() -> Iterator[Any]:
            nonlocal total
            rest = np.zeros(0, dtype=np.uint16)
            for text in texts(self._folder):
                numbers = [*encode.encode(text, add_special_tokens=False), encode.eos_token_id]
                total += len(numbers)
                rest = np.concatenate([rest, np.array(numbers, dtype=np.uint16)])
                while len(rest) > SEQUENCE:
                    yield rest[: SEQUENCE + 1]
                    rest = rest[SEQUENCE:]

        self._write(self._folder / "webdataset-prepared", windows())
        return total

    def load(self) -> Iterator[Batch]:
        import webdataset

        urls = sorted(map(str, self._made.glob("*.tar")))
        dataset = webdataset.WebDataset(urls, shardshuffle=len(urls), seed=0, nodesplitter=None)
        rows = dataset.repeat().shuffle(1000).decode().to_tuple("npy").map_tuple(_widened)
        for (batch,) in rows.batched(BATCH, partial=False):
            tokens = torch.as_tensor(batch)
            yield tokens[:, :-1], tokens[:, 1:]

    def resume(self) -> dict[str, Any]:
        """Its maintainers call exact resume out of scope: what remains is reading up to there."""
        rate = LOADED / measured(lambda: counted(self.load()))["seconds"]
        return {
            "note": f"not offered; reading on to there would take {FAR / rate / 3600:,.0f} h at the rate above"
        }


def _widened(window: Any) -> Any:
    return window.astype(np.int64)


class Litdata:
    """Its own layout for language models: TokensLoader over chunks that `optimize` wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, folder / "litdata"

    def _write(self, folder: Path, pieces: Callable[[Any], Any], inputs: list[Any]) -> None:
        import litdata

        shutil.rmtree(folder, ignore_errors=True)
        litdata.optimize(
            fn=pieces, inputs=inputs, output_dir=str(folder), num_workers=1,
            chunk_size=SHARD // 8 // (SEQUENCE + 1) * (SEQUENCE + 1),
            item_loader=litdata.TokensLoader(block_size=SEQUENCE + 1), verbose=False, start_method="fork",
        )  # fmt: skip

    def write(self) -> None:
        file = str(self._folder / "random.npy")
        self._write(self._made, _Slices(file), list(range(TOKENS // SHARD)))

    def prepare(self) -> int:
        out = self._folder / "litdata-prepared"
        self._write(out, _Encoded(tokenizer(self._folder)), texts(self._folder))
        index = json.loads((out / "index.json").read_text())
        return sum(chunk["dim"] for chunk in index["chunks"])

    def _loader(self) -> Any:
        import litdata

        dataset = litdata.StreamingDataset(
            str(self._made),
            item_loader=litdata.TokensLoader(block_size=SEQUENCE + 1),
            shuffle=True,
            drop_last=True,
        )
        return litdata.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=0)

    def load(self) -> Iterator[Batch]:
        loader = self._loader()
        while True:
            for batch in loader:
                tokens = batch.long()
                yield tokens[:, :-1], tokens[:, 1:]

    def resume(self) -> dict[str, float]:
        """The state of a loader, moved to the epoch and place of that position."""
        loader = self._loader()
        next(iter(loader))
        state = loader.state_dict()
        rows = TOKENS // (SEQUENCE + 1)
        epoch, place = divmod(FAR // SEQUENCE // BATCH * BATCH, rows // BATCH * BATCH)
        state["dataset"]["current_epoch"] = state["current_epoch"] = epoch + 1
        state["dataset"]["num_samples_yielded"] = place
        state["dataset"]["sample_in_epoch"] = place

        def there() -> None:
            fresh = self._loader()
            fresh.load_state_dict(state)
            next(iter(fresh))

        return measured(there)


class _Slices:
    def __init__(self, file: str) -> None:
        self._file = file

    def __call__(self, number: int) -> Iterator[torch.Tensor]:
        part = np.load(self._file, mmap_mode="r")[number * SHARD : (number + 1) * SHARD]
        yield torch.from_numpy(part.astype(np.uint16))


class _Encoded:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> Iterator[torch.Tensor]:
        numbers = [*self._tokenizer.encode(text, add_special_tokens=False), self._tokenizer.eos_token_id]
        yield torch.tensor(numbers, dtype=torch.uint16)


def answer(folder: Path, library: str, what: str) -> dict[str, Any]:
    if library == "make":
        make(folder)
        return {}
    reader: Any = {"ours": Ours, "webdataset": Webdataset, "litdata": Litdata}[library](folder)
    if what == "write":
        reader.write()
        return {}
    if what == "resume":
        found: dict[str, Any] = reader.resume()
        return found
    if what == "load":
        return {"tokens": LOADED, **measured(lambda: counted(reader.load()))}
    shutil.rmtree(folder / f"{library}-prepared", ignore_errors=True)
    tokens: list[int] = []
    tokenizer(folder)  # imports, once, before the clock starts
    return {**measured(lambda: tokens.append(reader.prepare())), "tokens": tokens[0]}


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    print("\n" + json.dumps(answer(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
