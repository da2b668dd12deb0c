"""The phases of a run: join, data, model, newest checkpoint, training loop, summary.

Every phase ends with a vote (votes.py): if it fails anywhere, all processes end with that one reason.
"""

from __future__ import annotations

import time

import torch

from trainer import building, exits, float8, flops, loop, mesh, ranks, versions
from trainer import optimiser as optimisers
from trainer.checkpoint.saving import Saver
from trainer.checkpoint.sharded import Checkpoints
from trainer.checkpoint.storage import Place
from trainer.checkpoint.where import storage
from trainer.config import Job
from trainer.data import opening
from trainer.data.ahead import Ahead
from trainer.report import Report
from trainer.signals import Stop
from trainer.summary import Summary
from trainer.watch import Watch

ROLL_CALL_SECONDS = 5.0
"""How long to wait for the others to say that they are alive, after a step broke off."""


def run(job: Job, stop: Stop) -> int:
    """Train as the job says, from wherever an earlier start left off; returns the exit status."""
    here = ranks.join(job.limits)
    status = phases(job, here, stop)
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
        data = opening.opened(job, here, layout, folders)
        model, per_token, parameters = building.build(job, here, layout)
        opening.check(job, folders, data, model.config.vocab_size)
        optimiser = optimisers.build(model, job.optimiser)
        report = Report(job, here, per_token, peak_flops(job, here))
    place = Place(here.rank, here.world, here.local_rank, here.local_world)
    checkpoints = Checkpoints(storage(job, place), job, here, model, optimiser, report.say)
    with here.control.phase("loading the newest checkpoint", limit):
        step = checkpoints.load_newest()

    unigram = data.unigram_entropy
    if job.precision.float8 != "none" and (names := float8.left_out(model)):
        report.say(f"precision.float8: sides not divisible, left out in every block: {', '.join(names)}")
    for line in unlocked:
        report.say(f"warning: {line}")
    report.started(step, parameters=parameters, sequences=data.training.windows, unigram_entropy=unigram)
    pin = here.device.type == "cuda"
    training = Ahead(data.training, job.batch.sequences, job.seed, last=job.steps, pin=pin)
    state = loop.Run(
        job, here, layout, model, optimiser, training, data.held_out,
        Saver(job, checkpoints, report, step), report, Watch(job.watch, report.say), stop, step,
    )  # fmt: skip
    stop.listen()
    if not _trained(state):
        report.ended(state.step, f"stopped on request; the newest checkpoint is of step {state.saver.newest}")
        return exits.TERMINATED
    with here.control.phase("writing the summary", limit):
        if here.leader:
            Summary.of(
                job, report, unigram_entropy=unigram, world=here.world, seconds=time.time() - began
            ).write(job.output)
    report.ended(state.step, "finished")
    return exits.FINISHED


def _trained(run: loop.Run) -> bool:
    """`loop.train`, with an error that says who is missing when a collective breaks off."""
    try:
        return loop.train(run)
    except exits.Failure:
        raise
    except Exception as error:
        step = run.step + 1
        missing = run.ranks.control.roll_call(f"step {step}", ROLL_CALL_SECONDS)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        absent = f"no answer from {', '.join(missing)}" if missing else "all processes answer"
        raise exits.Failure(
            f"step {step} broke off in {run.clock.current or 'the loop'}: {reason}; {absent}"
        ) from error


def peak_flops(job: Job, here: ranks.Ranks) -> float | None:
    if job.metrics.peak_tflops:
        return job.metrics.peak_tflops * 1e12
    return flops.peak(torch.cuda.get_device_name(here.device)) if here.device.type == "cuda" else None
