"""Reading a run's record back."""

from __future__ import annotations

import json
from pathlib import Path

from trainer import history
from trainer.plot import caption, draw


def test_an_interrupted_run_is_one_curve(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [
        {"event": "start", "step": 0, "world": 2, "unigram_entropy": 3.26},
        *(
            {"event": "step", "step": step, "loss": 5.0 - step / 10, "tokens_per_second": 900.0 + step}
            for step in range(1, 9)
        ),
        {"event": "held_out", "step": 8, "loss": 4.4},
        {"event": "start", "step": 5, "world": 1, "unigram_entropy": 3.26},
        {"event": "step", "step": 6, "loss": 1.0, "tokens_per_second": 800.0},
    ]
    path.write_text(
        "\n".join(map(json.dumps, lines[:9])) + '\n{"event": "st\n' + "\n".join(map(json.dumps, lines[9:]))
    )
    run = history.read(path)
    assert list(run.losses) == [1, 2, 3, 4, 5, 6], "steps that a restart threw away are gone"
    assert run.losses[6] == 1.0
    assert run.held_out == {}
    assert [start["step"] for start in run.starts] == [0, 5]

    draw(run, caption(run, "test"), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "after 6 steps, started 2 times" in caption(run, "test")
