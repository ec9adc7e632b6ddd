"""What users and producers of input do: they ask, look at a halt, add partitions, and write."""

from __future__ import annotations

from random import Random

from kcontrol.core.model import CheckpointRequest, Desired, DesiredMode, InputDesired, Resume, SkipRequest
from tests.simulation.live_layout import ENDLESS_MS, asked, to_follow
from tests.simulation.specs import PIPELINE
from tests.simulation.world import World


class Users:
    """Everybody outside of the pipeline's processes, and whether they have got what they asked for."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.requests = 0

    def want(self, mode: DesiredMode) -> None:
        """The user's wish."""
        self.requests += 1
        self.world.append(Desired(PIPELINE, mode, f"r{self.requests}"))

    def ask_for_checkpoint(self) -> None:
        """The user's request."""
        self.requests += 1
        committed = self.world.asked[f"r{self.requests}"] = len(self.world.boundaries)
        self.world.append(CheckpointRequest(PIPELINE, f"r{self.requests}", committed))

    def resume(self) -> None:
        """The user has looked at the halt."""
        self.requests += 1
        self.world.append(Resume(PIPELINE, f"r{self.requests}"))

    def pick_partition(self) -> tuple[int, int]:
        """A random input, by index, and one of its partitions."""
        index = int(self.random.random() * len(self.world.input_ends))
        return index, int(self.random.random() * len(self.world.input_ends[index]))

    def input_arrives(self) -> None:
        """In one partition."""
        index, partition = self.pick_partition()
        self.world.input_ends[index][partition] += 1 + int(self.random.random() * 3)

    def add_partition(self, index: int) -> None:
        """The topic of an input gets one more."""
        self.world.input_ends[index].append(0)
        self.world.input_earliest[index].append(0)

    def pause_input(self, index: int, paused: bool) -> None:
        """The user's wish about one input."""
        self.requests += 1
        self.world.append(
            InputDesired(PIPELINE, self.world.spec.inputs[index].name, paused, f"r{self.requests}")
        )

    def skip(self, index: int, partition: int, to: int) -> None:
        """The user has looked at the log, and wants the next step to begin elsewhere."""
        self.requests += 1
        name, begin = self.world.spec.inputs[index].name, self.world.committed(index, partition)
        self.world.append(
            SkipRequest(PIPELINE, name, partition, begin, to, "user", self.world.now_ms, f"r{self.requests}")
        )

    def skip_what_has_expired(self) -> None:
        """All that keeps a step from being made."""
        for index, offsets in enumerate(self.world.input_earliest):
            for partition, earliest in enumerate(offsets):
                if earliest > self.world.committed(index, partition):
                    self.skip(index, partition, earliest)

    def must_stay_halted(self) -> bool:
        """Whether keyed partitions were added that no step may read."""
        world = self.world
        names = [item.name for index, item in enumerate(world.spec.inputs) if world.has_grown(index)]
        return world.is_keyed_apart and any(not world.is_paused(name) for name in names)

    def all_committed(self) -> bool:
        """Whether all input that is not paused is committed, requests about inputs are noted, and the last
        step is saved if it should be. A change of the layout for which somebody never comes is still asked for, and may keep
        the checkpoint that is to be copied for it."""
        world = self.world
        for index, (item, ends) in enumerate(zip(world.spec.inputs, world.input_ends, strict=True)):
            if not world.is_paused(item.name) and ends != [
                world.committed(index, p) for p in range(len(ends))
            ]:
                return False
        request = asked(world)
        if to_follow(world) is not None or not self._all_noted():
            return False
        return self._all_saved() if request is None else request.timeout_ms == ENDLESS_MS

    def _all_noted(self) -> bool:
        status = self.world.view.status()
        newest = max((wishes[-1][0] for wishes in self.world.wishes.values() if wishes), default=-1)
        return status is not None and status.inputs_offset >= newest

    def _all_saved(self) -> bool:
        """Whether the last step has a checkpoint, and the last request for one its answer."""
        world = self.world
        request, status = world.view.checkpoint_request(), world.view.status()
        if request is not None and (
            status is None or request.request_id not in [one.request_id for one in status.answers]
        ):
            return False
        newest = world.checkpoints[-1].step if world.checkpoints else 0
        is_reset = bool(world.boundaries) and world.boundaries[-1].reset is not None
        return not world.spec.checkpoint.location or is_reset or newest == len(world.boundaries)
