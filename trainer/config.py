"""Everything that a job file may say, typed and strict.

A job file is YAML. Unknown or misspelt keys, wrong types, duplicate keys and contradictions are all reported at
once, each with its path. Importing this module costs no torch: a wrong file fails in a second.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from trainer import exits, objects

Positive = Annotated[int, Field(gt=0, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]
Seconds = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


FAMILIES = ("llama", "mistral", "qwen2")
"""By the names that `transformers` gives them (model_type)."""


class Section(BaseModel):
    """A part of the job file: frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RopeScaling(Section):
    """Llama 3.1's stretched rotary positions; the names and defaults are those of the published models."""

    factor: Annotated[float, Field(ge=1)] = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_sequence: Positive = 8192


class Model(Section):
    """A model of the Llama family by its shape, or a Hugging Face folder with `config.json` and safetensors."""

    family: Literal["llama", "mistral", "qwen2"] = "llama"
    """qwen2 has biases at query, key and value; mistral may have a sliding window."""
    vocabulary: Positive | None = None
    hidden: Positive | None = None
    layers: Positive | None = None
    heads: Positive | None = None
    kv_heads: Positive | None = None
    feed_forward: Positive | None = None
    sequence: Positive
    """Tokens in one training sequence."""
    rope_theta: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    sliding_window: Positive | None = None
    """mistral only: tokens that attention sees at most, itself included."""
    tied_embeddings: bool = False
    norm_epsilon: float = 1e-5
    initial_deviation: float = 0.02
    """Standard deviation of freshly drawn weights."""
    huggingface: Path | None = None
    """Folder to read shape and weights from; excludes the shape's own keys."""

    @model_validator(mode="after")
    def _shape_or_folder(self) -> Self:
        shape = ("vocabulary", "hidden", "layers", "heads", "kv_heads", "feed_forward")
        given = [name for name in shape if getattr(self, name) is not None]
        if self.huggingface is not None:
            defaults = type(self).model_fields
            given += [name for name in DETAILS if getattr(self, name) != defaults[name].default]
            if given:
                raise ValueError(f"huggingface already says {', '.join(given)}: give one or the other")
            return self
        missing = [name for name in shape if name not in given]
        if missing:
            raise ValueError(f"missing {', '.join(missing)} (or give huggingface: FOLDER)")
        assert self.hidden and self.heads and self.kv_heads
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is not a multiple of heads {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if self.sliding_window and self.family != "mistral":
            raise ValueError(f"sliding_window is for mistral, not for {self.family}")
        return self


DETAILS = ("family", "rope_theta", "rope_scaling", "sliding_window", "tied_embeddings", "norm_epsilon")
"""Keys of a model that a Hugging Face folder decides by itself, as it does its sizes."""


class Shuffle(Section):
    """How far apart sequences are mixed. Blocks are taken in random order, and the sequences of some are mixed."""

    block: Positive = 1 << 22
    """Tokens that lie together in the data, and are read together."""
    blocks: Positive = 64
    """Blocks whose sequences are mixed with one another; data of up to twice as many is mixed as a whole."""


class DataSource(Section):
    """One of several sources."""

    prepared: Annotated[str, Field(min_length=1)]
    """Folder or `s3://bucket/prefix` with `index.json` and token shards."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Its share of the sequences, against the weights of the others."""


class Data(Section):
    """Where tokens come from: what `trainer.data.prepare` filled, or a text that is prepared at the first start."""

    prepared: Annotated[str, Field(min_length=1)] | None = None
    """Folder or `s3://bucket/prefix` with `index.json` and token shards."""
    sources: tuple[DataSource, ...] = ()
    """Several of those, mixed by weight. All must be of one tokenizer."""
    source: Annotated[str, Field(min_length=1)] | None = None
    """Text to prepare under the output folder: `python-documentation`, the reference that Python's standard library
    carries (`pydoc_data.topics`, PSF licence), or a folder or `s3://bucket/prefix` of texts
    (trainer/data/readers.py)."""
    tokenizer: str = "byt5"
    """`byt5` (UTF-8 bytes; no files needed) or a Hugging Face tokenizer folder."""
    held_out: Fraction = 0.05
    """Share of the documents that is kept away from training."""
    shuffle: Shuffle = Shuffle()
    cache: Path | None = None
    """Folder on a local disk for what is read from S3: a few blocks of each source, or all if `download`; by default
    one for temporary files."""
    download: bool = False
    """Copy all data from S3 into the cache before the first step."""
    verify: bool = False
    """Compare all shards with their checksums at every start; their sizes always are."""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if sum((self.prepared is not None, self.source is not None, bool(self.sources))) != 1:
            raise ValueError("give exactly one of prepared, sources and source")
        if self.download and self.cache is None:
            raise ValueError("download needs cache: FOLDER, with room for all of the data")
        return self


class Batch(Section):
    """The batch of one optimiser step, whatever the number of processes; they split it among themselves."""

    sequences: Positive
    """Sequences in one step, over all processes."""
    micro: Positive
    """Sequences that one process puts through the model at a time; more than that are accumulated."""


class Parallel(Section):
    """How the model and its optimiser are spread over the processes."""

    tensor: Positive = 1
    """Processes, of one node, that split every matrix and the tokens between matrices among themselves. They have
    the same sequences; `strategy` spreads what each of them holds over the others."""
    context: Positive = 1
    """Processes that share the tokens of each sequence, for sequences too long for one. Around attention they exchange
    tokens for heads."""
    strategy: Literal["FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD"] = "FULL_SHARD"
    shard_size: Positive | None = None
    """HYBRID_SHARD only: processes that share one copy of the model, tensor groups and all; by default those of one
    node."""
    prefetch: Count = 1
    """Blocks whose parameters are gathered ahead of the one that computes (1 is FSDP's own habit)."""
    accumulate: Literal["sharded", "whole"] = "sharded"
    """Gradients between the passes of one step: `sharded` adds each pass to this process's shard (and copies of the
    model exchange theirs after the last pass only); `whole` reduces nothing before the last pass, for the memory of
    the whole gradient on each process."""
    cpu_offload: bool = False
    """Keep parameters, gradients and optimiser state in the host's memory."""

    @model_validator(mode="after")
    def _shard_size_needs_hybrid(self) -> Self:
        if self.shard_size is not None and self.strategy != "HYBRID_SHARD":
            raise ValueError("shard_size is for HYBRID_SHARD")
        if self.shard_size is not None and self.shard_size % self.tensor:
            raise ValueError(f"shard_size {self.shard_size} is not a multiple of tensor {self.tensor}")
        return self

    def misfits(self, sizes: Mapping[str, int | None], *, tied: bool) -> list[str]:
        """What of a model (`sizes` by the names of Model's keys) cannot be split as asked for, a line each."""
        groups = {
            f"parallel.{name} {size}": size
            for name in ("tensor", "context")
            if (size := getattr(self, name)) > 1
        }
        both = dict.fromkeys(
            ("heads", "kv_heads", "sequence"), (" x ".join(groups), self.tensor * self.context)
        )
        problems = []
        if tied and self.tensor > 1:
            problems.append(
                f"parallel.tensor {self.tensor}: model.tied_embeddings: embedding and output layer are split along "
                "different sides"
            )
        for key, size in sizes.items():
            name, parts = both.get(key, (f"parallel.tensor {self.tensor}", self.tensor))
            if size is not None and size % parts:
                problems.append(f"{name}: does not divide model.{key} {size}")
        return problems


class Precision(Section):
    """Arithmetic of the passes; the parameters that the optimiser keeps are always float32."""

    compute: Literal["float32", "bfloat16"] = "bfloat16"
    reduce: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic in which gradients of different processes are added."""
    float8: Literal["none", "tensorwise", "rowwise"] = "none"
    """Matrix products of the blocks in float8 (H100 and newer): `tensorwise` is the fastest, `rowwise` more exact."""

    @model_validator(mode="after")
    def _float8_gives_bfloat16(self) -> Self:
        if self.float8 != "none" and self.compute != "bfloat16":
            raise ValueError("float8 needs compute: bfloat16, which is what its products come out as")
        return self


class Recompute(Section):
    """Activation checkpointing: what the forward pass does not keep and the backward pass computes again."""

    mode: Literal["none", "full", "selective"] = "none"
    """`full` keeps only the input of a block; `selective` also the results of attention and every second matmul."""
    every: Positive = 1
    """Treat every Nth block, leave the others alone."""


class Optimiser(Section):
    """AdamW, with the gradient clipped by its global norm."""

    learning_rate: Annotated[float, Field(gt=0)] = 3e-4
    beta1: Fraction = 0.9
    beta2: Fraction = 0.95
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    """For matrices; norms and biases are never decayed."""
    clip: Annotated[float, Field(gt=0)] | None = 1.0


class Schedule(Section):
    """Linear warm-up, then half a cosine down to a floor at the last step."""

    warmup: Count = 0
    """Steps."""
    floor: Fraction = 0.1
    """Share of the peak rate that the last step has."""


class S3(Section):
    """How S3 is spoken to when checkpoints go there."""

    staging: Path | None = None
    """Folder on each node, with room for that node's share of a checkpoint, that is uploaded from; by default under
    the system's folder for temporary files (a node's NVMe in a pod)."""
    part_mib: Annotated[int, Field(ge=5, le=5120, strict=True)] = 64
    """Size of one part of an upload, in MiB."""
    requests_per_second: Annotated[float, Field(gt=0)] = 1000.0
    """Of all nodes together. S3 serves 3,500 writes a second and partition, fewer while a new one warms up."""
    threads: Positive = 8
    """Parts that one node sends at the same time, each held in memory."""
    patience_seconds: Seconds = 120
    """How long one request is tried again while S3 is busy or out of reach."""


class Checkpoint(Section):
    """When to save, where to, and what to keep. The last step and a termination always save."""

    storage: str | None = None
    """`s3://bucket/prefix`: checkpoints go below PREFIX/NAME there (NAME of the job), and not below `output`.
    `${VARIABLE}` in it is taken from the environment."""
    s3: S3 = S3()

    every: Count = 0
    """Steps between two saves; 0 saves at the end only."""
    minutes: Seconds | None = None
    """Also save when this much time has passed."""
    keep: Positive = 2
    """Newest checkpoints to keep."""
    keep_every: Positive | None = None
    """Also keep each one whose step is a multiple of this."""
    asynchronous: bool = False
    """Write in the background while training goes on."""

    @field_validator("storage")
    @classmethod
    def _address(cls, storage: str | None) -> str | None:
        if storage is None:
            return None
        expanded = os.path.expandvars(storage)
        if "$" in expanded:
            raise ValueError(f"{storage!r} names a variable that the environment does not have")
        objects.parse(expanded)
        return expanded

    @model_validator(mode="after")
    def _s3_needs_storage(self) -> Self:
        if self.storage is None and self.s3 != S3():
            raise ValueError(
                "s3 says how to reach storage, and there is none: give storage: s3://bucket/prefix"
            )
        return self


class Evaluate(Section):
    """Loss on held-out text."""

    every: Count = 0
    """Steps between two evaluations; 0 evaluates at the end only."""
    sequences: Count = 64
    """Sequences to read; 0 switches evaluation off."""


class Profile(Section):
    """A window of steps that torch.profiler records."""

    begin: Positive = Field(alias="from")
    """First step of the window; `from` in the job file."""
    steps: Annotated[int, Field(gt=0, le=50, strict=True)] = 3
    """A trace grows by megabytes with every step."""


class Metrics(Section):
    """What is reported, and where."""

    every: Positive = 10
    """Steps between two log lines."""
    port: Annotated[int, Field(ge=0, le=65535)] | None = 9400
    """Prometheus port of each node's first process; null for none, 0 for any free one."""
    address: str | None = None
    """Address to listen on; by default every one inside a Kubernetes pod and loopback elsewhere."""
    peak_tflops: Annotated[float, Field(gt=0)] | None = None
    """Dense peak of one device for the MFU; by default from the table of known devices."""
    tensorboard: bool = False
    """Also write event files for TensorBoard."""
    profile: Profile | None = None
    """Record these steps with torch.profiler; at any other time SIGUSR1 asks for it."""


class Watch(Section):
    """What counts as a run gone wrong."""

    non_finite: Literal["stop", "skip", "roll_back"] = "stop"
    """A gradient that is not finite: end the job, leave the batch out, or go back to the last checkpoint and then
    leave it out."""
    non_finite_limit: Positive = 10
    """Batches that may be left out in one run before it stops."""
    spike: Annotated[float, Field(gt=1)] | None = None
    """Warn when the loss exceeds this multiple of its running median."""
    straggler: Annotated[float, Field(gt=1)] | None = 1.5
    """Warn when one process computes, or waits for data, this many times as long as the median of the others."""


class Limits(Section):
    """Bounds on waiting. A process that waits longer says for whom and ends."""

    start_seconds: Seconds = 600
    """Any phase before the first step, and the first step (kernels are compiled, pages are cold)."""
    collective_seconds: Seconds = 120
    """One collective operation after the first step."""
    save_seconds: Seconds = 900
    """One checkpoint."""
    stop_seconds: Positive = 120
    """From SIGTERM to the end of a process that doesn't end by itself, on torch 2.15 and later (30 s before). Time to
    finish a step and save; keep it below the pod's grace period."""
    threads: Positive | None = None
    """CPU threads of one process; by default its share of the CPUs that its cgroup may use."""


class Job(Section):
    """One job file."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    output: Path
    """Folder for checkpoints, metrics and the summary; the same for all processes and all restarts."""
    seed: Count = 0
    steps: Positive
    model: Model
    data: Data
    batch: Batch
    parallel: Parallel = Parallel()
    precision: Precision = Precision()
    recompute: Recompute = Recompute()
    compile: bool = False
    """torch.compile, block by block."""
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = Schedule()
    checkpoint: Checkpoint = Checkpoint()
    evaluate: Evaluate = Evaluate()
    metrics: Metrics = Metrics()
    watch: Watch = Watch()
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        problems = []
        if self.schedule.warmup >= self.steps:
            problems.append(f"schedule.warmup {self.schedule.warmup} leaves nothing of {self.steps} steps")
        if self.watch.non_finite == "roll_back" and not (self.checkpoint.every or self.checkpoint.minutes):
            problems.append("watch.non_finite roll_back needs checkpoint.every or checkpoint.minutes")
        if self.evaluate.every and not self.evaluate.sequences:
            problems.append("evaluate.every has no evaluate.sequences to read")
        if self.compile and self.parallel.context > 1:
            problems.append("compile: what parallel.context exchanges around attention is not compiled")
        shape = ("hidden", "heads", "kv_heads", "feed_forward", "vocabulary", "sequence")
        problems += self.parallel.misfits(
            {key: getattr(self.model, key) for key in shape}, tied=self.model.tied_embeddings
        )
        patience = self.checkpoint.s3.patience_seconds
        if self.checkpoint.storage and 2 * patience > self.limits.save_seconds:
            problems.append(
                f"checkpoint.s3.patience_seconds {patience:g} must be at most half of limits.save_seconds "
                f"{self.limits.save_seconds:g}"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def digest(self) -> str:
        """Hex SHA-256 of everything that the job says."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


FIXED = ("seed", "model", "data", "batch", "optimiser")
"""Sections that a run keeps from its first step to its last. The others may change between two starts."""
FREE = ("data.cache", "data.download", "data.verify")
"""Keys in those sections that change nothing in the numbers."""


def free() -> list[str]:
    """The sections that may change."""
    return [name for name in Job.model_fields if name not in (*FIXED, "name", "output")]


def changed(recorded: dict[str, Any], job: Job) -> list[str]:
    """What differs from `recorded` (an earlier `Job.model_dump(mode="json")`) in the fixed sections, one line each."""
    now = job.model_dump(mode="json")
    return [
        f"{path}: was {was!r}, is {present!r}"
        for section in FIXED
        for path, was, present in _differences(section, recorded.get(section), now[section])
        if path not in FREE
    ]


def _differences(path: str, was: Any, present: Any) -> Iterable[tuple[str, Any, Any]]:
    if isinstance(was, dict) and isinstance(present, dict):
        for key in sorted({*was, *present}):
            yield from _differences(f"{path}.{key}", was.get(key), present.get(key))
    elif was != present:
        yield path, was, present


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice, of which plain YAML silently keeps the last."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is given twice", key_node.start_mark
            )
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(path: Path, overrides: Iterable[str] = ()) -> Job:
    """The job that a file describes, with `a.b=c` overrides applied (values are YAML).

    Raises exits.Failure with status CONFIG, naming every problem at once.
    """
    problems: list[str] = []
    document: Any = {}
    try:
        document = yaml.load(path.read_text(), _StrictLoader)
    except OSError as error:
        problems.append(f"cannot be read: {error.strerror}")
    except yaml.YAMLError as error:
        problems.append(f"is not valid YAML: {error}")
    else:
        if not isinstance(document, dict):
            problems.append("must be a mapping of sections")
    if not problems:
        for override in overrides:
            problem = _apply(document, override)
            if problem:
                problems.append(problem)
        try:
            job = Job.model_validate(document)
        except ValidationError as error:
            problems += [_sentence(dict(detail)) for detail in error.errors()]
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise exits.Failure(f"{path}: {len(problems)} problem(s)\n{lines}", exits.CONFIG)
    return job


def _apply(document: dict[str, Any], override: str) -> str | None:
    """Write one `a.b=c` into the document; returns what is wrong with it, if anything."""
    path, equals, text = override.partition("=")
    if not equals or not all(path.split(".")):
        return f"--set {override}: expected a.b=value"
    try:
        value = yaml.load(text, _StrictLoader)
    except yaml.YAMLError as error:
        return f"--set {override}: {error}"
    *parents, last = path.split(".")
    for parent in parents:
        below = document.setdefault(parent, {})
        if not isinstance(below, dict):
            return f"--set {override}: {parent} is not a section"
        document = below
    document[last] = value
    return None


def _sentence(detail: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in detail["loc"])
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        message = "unknown key"
    elif detail["type"] == "missing":
        message = "is required"
    elif detail["type"] != "value_error":
        message = f"{message} (got {detail['input']!r})"
    return f"{path}: {message}" if path else message
