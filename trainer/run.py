"""The phases of a run: join, data, model, newest checkpoint, training loop, summary.

Every phase ends with a vote (votes.py): if it fails anywhere, all processes end with that one reason.
"""

from __future__ import annotations

import time

import torch

from trainer import (
    building,
    exits,
    flight,
    float8,
    flops,
    history,
    loop,
    memory,
    mesh,
    ranks,
    shapes,
    versions,
)  # fmt: skip
from trainer import model as models
from trainer import optimiser as optimisers
from trainer.checkpoint.saving import Saver
from trainer.checkpoint.sharded import Checkpoints
from trainer.checkpoint.storage import Place
from trainer.checkpoint.where import storage
from trainer.config import Job
from trainer.data import opening
from trainer.data.ahead import Ahead
from trainer.profiling import Profiler
from trainer.report import METRICS, Report
from trainer.signals import Stop
from trainer.stragglers import Compute
from trainer.summary import Summary
from trainer.votes import Lost
from trainer.watch import Watch


def run(job: Job, stop: Stop) -> int:
    """Train as the job says, from wherever an earlier start left off; returns the exit status."""
    records = job.output / "flight"
    flight.switch_on(records)
    here = ranks.join(job.limits)
    try:
        status = phases(job, here, stop)
    except Lost:
        flight.write(records, here.rank)
        raise
    ranks.leave()  # not after an error: taking leave of processes that are gone may take for ever
    return status


def phases(job: Job, here: ranks.Ranks, stop: Stop) -> int:
    """All of a run between joining the other processes and leaving them."""
    began = time.time()
    limit = job.limits.start_seconds
    with here.control.phase("preparing data", limit):
        folders = opening.folders(job, here)
    with here.control.phase("building the model", limit):
        unlocked = versions.differences()
        layout = mesh.layout(
            job.parallel, here.device.type, rank=here.rank, world=here.world, local_world=here.local_world
        )
        ranks.limit(layout.groups, limit)
        data = opening.opened(job, here, layout, folders)
        model, per_token, parameters = building.build(job, here, layout)
        opening.check(job, folders, data, model.config.vocab_size)
        optimiser = optimisers.build(model, job.optimiser)
        compute = Compute(models.blocks(model), here.device)
        report = Report(job, here, per_token, peak_flops(job, here), compute)
    place = Place(here.rank, here.world, here.local_rank, here.local_world)
    checkpoints = Checkpoints(storage(job, place), job, here, model, optimiser, report.say)
    with here.control.phase("loading the newest checkpoint", limit):
        step = checkpoints.load_newest()
        left_out = here.from_leader(lambda: history.left_out(job.output / METRICS))

    unigram = data.unigram_entropy
    if job.precision.float8 != "none" and (names := float8.left_out(model)):
        report.say(f"precision.float8: sides not divisible, left out in every block: {', '.join(names)}")
    if share := models.dropout(job.model):
        report.say(f"model.huggingface: attention_dropout {share:g} is not used: training is without dropout")
    for line in unlocked:
        report.say(f"warning: {line}")
    report.say(
        memory.expect(job, shapes.of(job.model), here.world, here.local_world, here.device.type).sentence()
    )
    report.started(step, parameters=parameters, sequences=data.training.windows, unigram_entropy=unigram)
    pin = here.device.type == "cuda"
    training = Ahead(data.training, job.batch.sequences, job.seed, last=job.steps, pin=pin)
    state = loop.Run(
        job, here, layout, model, optimiser, training, data.held_out,
        Saver(job, checkpoints, report, step), report, Watch(job.watch, report, left_out),
        Profiler(job, here, report.say), stop, step,
    )  # fmt: skip
    here.control.pulse.doing = lambda: state.place
    stop.listen()
    if not _trained(state):
        newest = state.saver.newest
        report.ended(
            state.step, f"stopped on request; the newest checkpoint is of step {newest}", state.clock
        )
        return exits.TERMINATED
    with here.control.phase("writing the summary", limit):
        if here.leader:
            Summary.of(
                job, report, unigram_entropy=unigram, world=here.world, seconds=time.time() - began
            ).write(job.output)
    report.ended(state.step, "finished", state.clock)
    return exits.FINISHED


def _trained(run: loop.Run) -> bool:
    """`loop.train`, with an error that says who failed or is missing when a step breaks off."""
    try:
        return loop.train(run)
    except exits.Failure as failure:
        run.report.failed(run.step, str(failure), failure.status)
        raise
    except Exception as error:
        lost = run.ranks.control.broke_off(f"after {run.step}", run.place, error)
        run.report.failed(run.step, str(lost), lost.status)
        raise lost from error


def peak_flops(job: Job, here: ranks.Ranks) -> float | None:
    if job.metrics.peak_tflops:
        return job.metrics.peak_tflops * 1e12
    return flops.peak(torch.cuda.get_device_name(here.device)) if here.device.type == "cuda" else None
