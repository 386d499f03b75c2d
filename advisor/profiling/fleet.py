"""The same plan over a Ray cluster: one actor per device, blocks handed out, lost workers replaced. Needs ray.

Devices of one kind (same backend and name) share one plan and one result folder, so a fleet's output looks like a
single machine's; the `worker` column says which device measured a row.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections import deque
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from advisor.profiling.device import Device, DeviceLostError, ProfilingError
from advisor.profiling.plan import Block, Plan, make_plan
from advisor.profiling.results import ResultFolder, State, build_meta, status_of
from advisor.profiling.runner import Outcome, make_context, run_block

TRIES = 3
"""Times a block is handed out before it is given up. [-]"""


class Worker:
    """Lives in one Ray process on one device. Measures the blocks it is given."""

    def __init__(self, wanted: str, seed: int) -> None:
        self.wanted, self.seed = wanted, seed
        self.context: Any = None
        self.device: Device | None = None

    def describe(self) -> Device:
        """The device this worker owns (Ray shows it only its own accelerator)."""
        from advisor.profiling.device import pick_device

        if self.device is None:
            self.device = pick_device(self.wanted)
        return self.device

    def measure(self, plan: Plan, block: Block, index: int) -> tuple[str, list[dict[str, Any]], str, float]:
        """(status, rows, message, seconds) of one block."""
        if self.context is None:
            own = replace(plan, device=self.describe())
            self.context = make_context(own, lambda: False, float("inf"))
        self.context.rng = np.random.default_rng([self.seed, index])
        start = time.monotonic()
        if self.context.copy_bytes_per_s is None and block.op != "bandwidth":
            # Copy bandwidth of this very device, which other blocks are held against.
            first = next((own for own in plan.blocks if own.op == "bandwidth"), None)
            if first is not None:
                run_block(first, self.context)
        status, rows, message = run_block(block, self.context)
        return status, rows, message, time.monotonic() - start

    def process(self) -> int:
        """Process number of this worker on its node. [-]"""
        return os.getpid()

    def facts(self) -> dict[str, Any]:
        """Software and driver on the worker's node."""
        from advisor.profiling.device import driver_facts

        return driver_facts(self.describe())


@dataclass
class Member:
    """One actor and what it is doing."""

    name: str
    resources: dict[str, float]
    wanted: str
    actor: Any
    device: Device | None = None


def slots(nodes: list[dict[str, Any]], requested: str) -> list[tuple[str, dict[str, float], str]]:
    """(worker name, Ray resources that pin it to its node, device to pick) for each device of the cluster.

    `requested`: auto (accelerators where a node has them, else its CPU), cpu, or cuda/rocm.
    """
    free = []
    for node in sorted((node for node in nodes if node.get("Alive")), key=lambda node: node["NodeID"]):
        resources = node.get("Resources", {})
        own = next((key for key in resources if key.startswith("node:") and "internal" not in key), None)
        pin = {own: 0.001} if own else {}
        gpus = int(resources.get("GPU", 0))
        label = str(node["NodeID"])[:8]
        if requested != "cpu" and gpus:
            free += [(f"{label}/gpu{index}", pin | {"GPU": 1.0}, "auto") for index in range(gpus)]
        elif requested in ("auto", "cpu") and resources.get("CPU", 0) >= 1:
            free.append((f"{label}/cpu", pin | {"CPU": 1.0}, "cpu"))
    return free


class Fleet:
    """Hands a plan's blocks to the workers of one kind of device."""

    def __init__(self, ray: Any, members: list[Member], plan: Plan, folder: ResultFolder, show: Any) -> None:
        self.ray, self.members, self.plan, self.folder, self.show = ray, members, plan, folder, show
        self.state = State(plan.hash, started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self.tries: dict[str, int] = {}

    def run(self) -> Outcome:
        """Measure all blocks. A block of a lost worker goes to another one."""
        began = time.monotonic()
        self.folder.start()
        queue = deque(enumerate(self.plan.blocks))
        idle = deque(self.members)
        pending: dict[Any, tuple[Member, int, Block]] = {}
        while queue or pending:
            while queue and idle:
                member, (index, block) = idle.popleft(), queue.popleft()
                self.tries[block.name] = self.tries.get(block.name, 0) + 1
                pending[self.start(member, index, block)] = (member, index, block)
            if not pending:
                break  # nobody is left to do the rest
            done, _ = self.ray.wait(list(pending), num_returns=1)
            member, index, block = pending.pop(done[0])
            alive, again = self._take(done[0], member, block)
            if again and self.tries[block.name] < TRIES:
                queue.append((index, block))
            elif again:
                self._store(block, "error", [], f"lost its worker {TRIES} times", 0.0)
            if alive:
                idle.append(member)
            self.state.elapsed_s = time.monotonic() - began
        return self._close()

    def start(self, member: Member, index: int, block: Block) -> Any:
        """Hand a block to a worker. Returns Ray's reference to the result."""
        return member.actor.measure.remote(self.plan, block, index)

    def _take(self, result: Any, member: Member, block: Block) -> tuple[bool, bool]:
        """Store a block's result. (worker usable, block to be measured again)."""
        try:
            status, rows, message, seconds = self.ray.get(result)
        except (self.ray.exceptions.RayActorError, self.ray.exceptions.RayTaskError) as error:
            lost = isinstance(error, self.ray.exceptions.RayActorError) or isinstance(
                getattr(error, "cause", None), DeviceLostError
            )
            if not lost:
                self._store(block, "error", [], _lines(error)[-1][:300], 0.0)
                return True, False
            self.show(f"{member.name} was lost while measuring {block.name}; starting another")
            return self._replace(member), True
        for row in rows:
            row["worker"] = member.name
        self._store(block, status, rows, message, seconds)
        return True, False

    def _replace(self, member: Member) -> bool:
        """A new actor for a lost one, on the same node where that is still there."""
        self.ray.kill(member.actor)
        try:
            member.actor = start_actor(self.ray, member.resources, member.wanted, self.plan.seed)
            self.ray.get(member.actor.describe.remote(), timeout=60)
        except Exception as error:
            self.show(f"{member.name} cannot be replaced: {type(error).__name__}")
            return False
        return True

    def _store(self, block: Block, status: str, rows: list[dict[str, Any]], message: str, seconds: float) -> None:
        if rows:
            self.folder.append(rows)
        self.state.record(block, status, len(rows), message, seconds)
        self.show(f"{len(self.state.blocks)}/{len(self.plan.blocks)} {block.name}: {status} {message}".rstrip())

    def _close(self) -> Outcome:
        status, reasons = status_of(self.plan, self.state.blocks, self.folder)
        name = self.folder.compress_if_large()
        facts: dict[str, Any] = {}
        for member in self.members:
            try:
                facts[member.name] = self.ray.get(member.actor.facts.remote(), timeout=60)
            except Exception as error:
                facts[member.name] = {"lost": type(error).__name__}
        meta = build_meta(self.plan, self.state, self.folder, status, reasons, name, facts)
        meta["device"].pop("clocks_at_end", None)  # this process sits elsewhere and cannot see the workers' clocks
        self.folder.write_meta(meta)
        return Outcome(status, tuple(reasons), str(self.folder.path), self.state.n_rows, self.state.elapsed_s)


def start_actor(ray: Any, resources: dict[str, float], wanted: str, seed: int) -> Any:
    """A Worker as a Ray actor with the given resources."""
    custom = {key: value for key, value in resources.items() if key not in ("CPU", "GPU")}
    options = {"num_cpus": resources.get("CPU", 0), "num_gpus": resources.get("GPU", 0), "resources": custom}
    return ray.remote(Worker).options(**options, max_restarts=0).remote(wanted, seed)


def _connect(address: str) -> Any:
    """Ray, connected. The package travels along, so a node needs only torch and numpy."""
    try:
        import ray
    except ImportError as error:
        raise ProfilingError("--ray needs the package ray; install it here and on the cluster") from error
    if not ray.is_initialized():
        try:
            # This package alone travels: the rest of the repository may hold gigabytes of the user's data.
            with tempfile.TemporaryDirectory() as bundle:
                source, target = Path(__file__).parent, Path(bundle) / "advisor" / "profiling"
                target.mkdir(parents=True)
                for path in source.glob("*.py"):
                    shutil.copy(path, target / path.name)
                environment = {"working_dir": bundle}
                ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ProfilingError(f"no Ray cluster at {address}: {_lines(error)[0]}") from error
    return ray


def _lines(error: Exception) -> list[str]:
    return str(error).splitlines() or [type(error).__name__]


def run_on_ray(
    address: str, preset: str, out_dir: Path, *, device: str = "auto", only: list[str] | None = None, seed: int = 0
) -> list[Outcome]:
    """Measure a preset on every kind of device of a Ray cluster, a folder each. Raises ProfilingError."""
    ray = _connect(address)
    members = [
        Member(name, resources, device_name, start_actor(ray, resources, device_name, seed))
        for name, resources, device_name in slots(ray.nodes(), device)
    ]
    if not members:
        raise ProfilingError(f"the cluster at {address} has no node with a free {device} device")
    for member in members:
        member.device = ray.get(member.actor.describe.remote(), timeout=300)
    kinds: dict[tuple[str, str], list[Member]] = {}
    for member in members:
        if member.device is not None:
            kinds.setdefault((member.device.backend, member.device.name), []).append(member)
    outcomes = []
    for (backend, name), group in kinds.items():
        first = group[0].device
        if first is None:
            continue
        plan = make_plan(preset, first, only=only or (), seed=seed)
        slug = "-".join(re.findall(r"[^\W_]+", f"{backend}-{name}".lower()))
        folder = out_dir if len(kinds) == 1 else out_dir / slug
        if not ResultFolder(folder).is_empty():
            raise ProfilingError(f"{folder} already holds results; choose another --output")
        print(f"{len(group)} workers\n{plan.describe()}", file=sys.stderr, flush=True)
        fleet = Fleet(ray, group, plan, ResultFolder(folder), lambda text: print(text, file=sys.stderr, flush=True))
        outcomes.append(fleet.run())
    for member in members:
        ray.kill(member.actor)
    return outcomes


def run_fleet(options: argparse.Namespace) -> int:
    """Run the command with `--ray ADDRESS`: 0 when all is complete, else 3. Raises ProfilingError."""
    if options.out is None:
        raise ProfilingError("give --output DIRECTORY for the results")
    if options.resume or options.plan:
        raise ProfilingError("--ray cannot be combined with --resume or --plan")
    outcomes = run_on_ray(
        options.ray, options.preset, options.out, device=options.device, only=options.only, seed=options.seed
    )
    for outcome in outcomes:
        print(
            json.dumps(asdict(outcome)) if options.json else f"{outcome.status}: {outcome.rows} rows, {outcome.out_dir}"
        )
    return 0 if all(outcome.status == "complete" for outcome in outcomes) else 3
