"""Everything that a job file may say, typed and strict.

A job file is YAML. Unknown or misspelt keys, wrong types, duplicate keys and contradictions are all reported at
once, each with its path. Importing this module costs no torch: a wrong file fails in a second.
"""

from trainer.config.checkpoint import S3, Checkpoint
from trainer.config.data import Batch, Data, DataSource, Evaluate, Shuffle
from trainer.config.files import load
from trainer.config.job import FIXED, Job, changed, free
from trainer.config.model import FAMILIES, Model, RopeScaling
from trainer.config.optimiser import Optimiser, Schedule
from trainer.config.parallel import TILE, Parallel, Precision, Recompute
from trainer.config.section import Section
from trainer.config.watching import Limits, Metrics, Profile, Watch

__all__ = [
    "FAMILIES", "FIXED", "S3", "TILE", "Batch", "Checkpoint", "Data", "DataSource", "Evaluate", "Job", "Limits",
    "Metrics", "Model", "Optimiser", "Parallel", "Precision", "Profile", "Recompute", "RopeScaling", "Schedule",
    "Section", "Shuffle", "Watch", "changed", "free", "load",
]  # fmt: skip
