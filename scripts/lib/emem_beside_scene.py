"""Measures emem for bench_scene.py, in an environment of its own: emem_beside_scene.py DIRECTORY SECONDS COUNT.

Prints one figure a line as the measuring program of the scene graph does. Nothing is embedded: every observation
and entity comes without a vector, and the provider that gives none is used.
"""

import random
import sys
import time
from pathlib import Path

import numpy
from emem.config import SpatioTemporalMemoryConfig
from emem.store import MemoryStore
from emem.types import EntityNode, ObservationNode

CLASSES = ("cup", "bowl", "bottle", "book", "box", "ball", "can", "plate")
COLORS = ("red", "blue", "green")
PER_ROOM, ROOM = 25, 5.0
BATCH = 1000


def resident():
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def each(budget, work):
    """Repeats for a time; returns seconds of one."""
    begin, count = time.perf_counter(), 0
    while True:
        work()
        count += 1
        spent = time.perf_counter() - begin
        if spent >= budget:
            return spent / count


class Building:
    """Things in a building, as many to a square metre as in the other program."""

    def __init__(self, count):
        """Fix the size of the building and the seed."""
        self.side = (-(-count // PER_ROOM)) ** 0.5 * ROOM
        self.random = random.Random(1)

    def place(self):
        """Return a place in it."""
        return numpy.array([self.random.random() * self.side, self.random.random() * self.side, 0.8])

    def observations(self, numbers):
        """Return sightings of things, one a second."""
        return [
            ObservationNode(
                text=f"{COLORS[n % 3]} {CLASSES[n % 8]}",
                coordinates=self.place(),
                timestamp=float(n + 1),
                confidence=0.9,
                metadata={"color": COLORS[n % 3]},
            )
            for n in numbers
        ]

    def entity(self, n, name):
        """Return a thing."""
        return EntityNode(
            name=f"{CLASSES[n % 8]}_{n}",
            coordinates=self.place(),
            last_seen=float(n + 1),
            first_seen=float(n + 1),
            confidence=0.9,
            entity_type=CLASSES[n % 8],
            metadata={"color": COLORS[n % 3]},
            id=name,
        )


def config(directory, name):
    """Return a configuration whose files lie in a directory; in memory without a name."""
    return SpatioTemporalMemoryConfig(
        db_path=str(directory / f"{name}.sqlite") if name else ":memory:",
        hnsw_path=str(directory / f"{name or 'memory'}.hnsw"),
        hnsw_max_elements=10,
    )


def fill(store, building, count):
    """Add things in batches."""
    for begin in range(0, count, BATCH):
        store.add_observations_batch(building.observations(range(begin, min(begin + BATCH, count))))


def main(directory, budget, count):
    """Measure one size."""
    directory = Path(directory)
    tell = lambda name, value: print(f"{count}\t{name}\t{value}", flush=True)  # noqa: E731
    building = Building(count)
    store = MemoryStore(config(directory, None))
    before, begin = resident(), time.perf_counter()
    fill(store, building, count)
    tell("insert_rate", count / (time.perf_counter() - begin))
    tell("bytes_per_object", (resident() - before) / count)
    tell("nearest_s", each(budget, lambda: store.spatial_nearest(building.place(), k=5)))
    tell("region_s", each(budget, lambda: store.spatial_query(building.place(), 2.0, n_results=10)))

    def minute():
        start = building.random.randrange(max(1, count - 60))
        store.temporal_query(time_range=(start + 1.0, start + 61.0), n_results=10)

    tell("time_range_s", each(budget, minute))
    # Things that move are its entities; as many of them as there are things.
    moving = MemoryStore(config(directory, None))
    known = min(count, 10_000)
    for n in range(known):
        moving.add_entity(building.entity(n, f"e{n}"))
    for begin in range(known, count, BATCH):
        moving.add_observations_batch(building.observations(range(begin, min(begin + BATCH, count))))

    def move():
        n = building.random.randrange(known)
        moving.update_entity(building.entity(n, f"e{n}"))

    tell("move_rate", 1 / each(budget * 2, move))
    moving._db.close()

    durable = MemoryStore(config(directory, "durable"))
    fill(durable, building, count)
    number = [count]

    def batch():
        durable.add_observations_batch(building.observations(range(number[0], number[0] + BATCH)))
        number[0] += BATCH

    tell("durable_rate", BATCH / each(budget * 2, batch))
    durable._db.close()
    begin = time.perf_counter()
    again = MemoryStore(config(directory, "durable"))
    # Its size has grown by what was written for the rate.
    tell("reload_s", (time.perf_counter() - begin) * count / number[0])
    again._db.close()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
