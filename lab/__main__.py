"""The local stack's commands: `python -m lab up | down | status | tools | env` (the Makefile calls them).

Exit codes: 0 done, 1 failed, 2 refused before anything was changed, 3 down (`status`), 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from lab.cli import interrupts
from lab.cli.errors import DOWN, FAILED, Interrupted, LabError
from lab.cli.output import columns, line
from lab.settings import Lab
from lab.toolchain.errors import ToolchainError

EXIT_CODES = "Exit codes: 0 done, 1 failed, 2 refused before anything was changed, 130 interrupted (^C)."

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="An AWS-and-EKS on one machine, with the stack `local` on it.",
    epilog='Example: python -m lab up && eval "$(python -m lab env)" && kubectl get nodes',
)
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

Json = Annotated[
    bool,
    typer.Option("--json", help="Print the result as one JSON object on standard output, and nothing else."),
]


def _examples(*commands: str) -> str:
    """The end of a command's help: one paragraph for each example, so that none is broken into two lines."""
    return "\n\n".join(("Examples:", *commands, EXIT_CODES))


@app.command(epilog=_examples("python -m lab up", "python -m lab up --json | jq .outputs"))
def up(as_json: Json = False) -> None:
    """Bring the local stack up, train on it, and say where the results are."""
    from lab.cli.up import up as bring_up

    report = bring_up(Lab.from_environment(), errors if as_json else console)
    if as_json:
        print(json.dumps({**asdict(report), "nothing_to_do": report.nothing_to_do}))
        return
    _show_outputs(report.outputs)
    if report.nothing_to_do:
        same = report.changes.get("same", 0)
        line(console, f"Nothing to do: {same} resources are as they should be, the job has run.")
    else:
        line(console, f"Up in {report.seconds:.0f} s.")
    if report.picture:
        line(console, f"Loss curve: {report.picture}")
    line(console, 'Next: `eval "$(make env)" && kubectl get pods -A`, `make status`, or `make down`')


@app.command(epilog=_examples("python -m lab down", "SHARDYARD_LAB=test python -m lab down --json"))
def down(as_json: Json = False) -> None:
    """Destroy the local stack, prove that nothing is left, and stop the lab. The cache stays."""
    from lab.cli.down import down as take_down

    report = take_down(Lab.from_environment(), errors if as_json else console)
    if as_json:
        print(json.dumps(asdict(report)))
    else:
        line(console, f"Down in {report.seconds:.0f} s: {report.deleted} resources deleted; {report.note}.")


@app.command(
    epilog=_examples("python -m lab status", "python -m lab status --json | jq .job", "watch make status")
)
def status(as_json: Json = False) -> None:
    """Show what runs, how far the job is, and what to type next. Exit code 3 when the lab is down."""
    from lab.cli.status import show
    from lab.cli.status import status as find

    found = find(Lab.from_environment())
    if as_json:
        print(json.dumps(found))
    else:
        show(found, console)
    if not found["up"]:
        raise typer.Exit(DOWN)


@app.command(epilog=_examples("python -m lab tools", "SHARDYARD_CACHE=/data/cache python -m lab tools"))
def tools(as_json: Json = False) -> None:
    """Build or fetch what the lab needs (toolchain and images), and start nothing."""
    from lab.cli.up import tools as ensure

    lab = Lab.from_environment()
    with interrupts.next_step("Interrupted. What is built is kept: the same command goes on from there."):
        ensure(lab, errors if as_json else console)
    if as_json:
        print(json.dumps({"cache": str(lab.cache), "bin": str(lab.bin)}))


@app.command(
    epilog=_examples('eval "$(python -m lab env)"', "python -m lab env --json | jq -r .AWS_ENDPOINT_URL")
)
def env(as_json: Json = False) -> None:
    """Print shell exports, so that pulumi, kubectl, aws and promtool talk to the lab."""
    from lab.cli.environment import exports, variables
    from lab.cli.status import why_down

    lab = Lab.from_environment()
    print(json.dumps(variables(lab)) if as_json else exports(lab))
    reason = why_down(lab)
    if reason:
        line(errors, f"warning: {reason}", "yellow")


def _show_outputs(outputs: dict[str, object]) -> None:
    rows = []
    for name, value in sorted(outputs.items()):
        text = value if isinstance(value, str) else json.dumps(value)
        rows.append((name, text if isinstance(value, str) or len(text) < 160 else text[:157] + "…"))
    columns(console, [("OUTPUT", "VALUE"), *rows])


def main() -> None:
    """Run a command; problems that it knows are printed without a traceback."""
    interrupts.install()
    try:
        app()
    except Interrupted as error:
        line(errors, str(error), "yellow")
        sys.exit(error.exit_code)
    except LabError as error:
        for problem in error.problems:
            _show_error(problem)
        sys.exit(error.exit_code)
    except ToolchainError as error:
        _show_error(str(error))
        sys.exit(FAILED)


def _show_error(problem: str) -> None:
    errors.print("[red]error:[/red]", end=" ")
    line(errors, problem)


if __name__ == "__main__":
    main()
