"""One long-lived group of processes that runs many jobs: starting Python and torch costs more than training.

    python -m torch.distributed.run … -m tests.trainer.group JOBS.json

JOBS.json is a list of job files, or of {"job": file, "failing": {rank: phase}}. Statuses go to JOBS.json.statuses.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trainer import config, exits, ranks
from trainer.files import write_atomically
from trainer.run import phases
from trainer.signals import Stop


def main(listing: Path) -> None:
    files = [Path(name) for name in json.loads(listing.read_text())]
    stop = Stop()
    here = ranks.join(config.load(files[0]).limits)
    statuses: dict[str, list[object]] = {}
    for file in files:
        try:
            statuses[file.stem] = [phases(config.load(file), here, stop), ""]
        except exits.Failure as failure:
            statuses[file.stem] = [failure.status, str(failure)]
    write_atomically(listing.with_suffix(f".rank{here.rank}"), json.dumps(statuses))
    ranks.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
