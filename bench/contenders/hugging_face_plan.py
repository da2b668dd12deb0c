"""Hugging Face's Trainer with a model that `transformers` sharded itself when it loaded it."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.contenders.hugging_face import main

if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], plan=True)
