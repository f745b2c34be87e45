"""The grain of the house: docs/decisions/0017-rooms.md. `scripts/house` prints what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest
import rooms

# Numbers that may only fall, as scripts/house counts them.
# 421 files and 58,950 lines, 6 of 1,400 for the core through ctypes, 45 lines for threads that
# wait for one handle, one for JAX 0.12, 130 for what torch's own tests found and for a backend of
# one device, 3 files of 475 lines for groups whose members the program chooses, 1 of 35 for the
# session of a member, and 9 of 1,975 for loops that go on in place (Keras' has 545), 25 for a rank
# that `--check-build` kills, 75 for steps that are compiled before ranks wait for them, 40 for
# groups that a program makes beside the default one, 1 of 165 for who has not come to NCCL,
# and 60 for allreduces in place that start and end in one native call, 20 for loops that count
# their epochs themselves, 20 for what older versions of Keras do otherwise and for quiet ends,
# 75 for imports that wait until a rank needs them, and 200 for lists, plans and the buckets of
# DistributedDataParallel.
FILES = 442
LINES = 63_865
ROOT_ROOMS = 20  # the 20th: transformers, for the Trainer of Hugging Face
ROOMS_OF_COMM = 26

# Horovod has a module of this name, and programs import it by way of the alias.
HOROVODS = {
    "hvdlite.ray.elastic_v2",
    "hvdlite.ray.strategy",
    "hvdlite.ray.utils",
    "hvdlite.spark.keras.estimator",
    "hvdlite.spark.lightning.estimator",
    "hvdlite.tensorflow.sync_batch_norm",
    "hvdlite.tensorflow.util",
    "hvdlite.torch.elastic.sampler",
    "hvdlite.torch.elastic.state",
    "hvdlite.torch.mpi_lib_v2",
    "hvdlite.torch.sync_batch_norm",
}
# Modules that would be a section of their only importer. This list may only become shorter.
CLOSETS = HOROVODS | {
    "hvdlite.adapter.compression.powersgd",  # a compressor is a file
    "hvdlite.adapter.hooks.momenta",  # its importer has 500 lines without it
    "hvdlite.jax.optimizer",  # a DistributedOptimizer is a file in each framework
    "hvdlite.tensorflow.by_kernel",  # beside by_xla and by_numpy
    "hvdlite.tensorflow.elastic.keras_state",  # one state for each module that is imported late
    "hvdlite.tensorflow.elastic.state",
    "hvdlite.torch.ddp",  # the hook that programs import
}


def test_the_house_has_no_more_files_lines_and_rooms_than_it_had() -> None:
    modules = rooms.modules()
    assert len(modules) > 200  # or nothing was looked at
    assert len(modules) <= FILES
    assert sum(map(rooms.lines, modules.values())) <= LINES
    assert len(rooms.root_rooms()) <= ROOT_ROOMS, rooms.root_rooms()


def test_a_module_is_a_room_of_its_own_or_a_section_of_another_one() -> None:
    closets = set(rooms.closets())
    assert closets <= CLOSETS, f"fold these into what imports them: {sorted(closets - CLOSETS)}"
    assert closets >= CLOSETS, f"take these off the list: {sorted(CLOSETS - closets)}"


def test_what_makes_a_module_a_room() -> None:
    assert rooms.is_entry_point("hvdlite.launch.agent")  # `python -m` over ssh
    assert rooms.is_entry_point("hvdlite.data.compute_worker")  # a page tells users to run it
    assert not rooms.is_entry_point("hvdlite.core.collectives")
    assert rooms.is_decider("hvdlite.launch.plan")
    assert not rooms.is_decider("hvdlite.launch.cli")
    assert "hvdlite.core.collectives" in rooms.importers()["hvdlite.core.engine"]


@pytest.mark.parametrize(
    ("folder", "names"),
    rooms.packages().items(),
    ids=[str(folder.relative_to(rooms.ROOT)) for folder in rooms.packages()],
)
def test_a_package_has_a_map(folder: Path, names: list[str]) -> None:
    assert rooms.without_a_map(folder, names) == ""


def test_a_map_that_lacks_a_module_or_names_another_one_is_found(tmp_path: Path) -> None:
    head = '"""A folder.\n\none    START HERE: text\ntwo    text\n"""\n'
    (tmp_path / "__init__.py").write_text(head)
    assert rooms.without_a_map(tmp_path, ["one", "three", "two"]) == "its map differs in ['three']"
    assert rooms.without_a_map(tmp_path, ["one", "two"]) == ""  # too few to need one
    (tmp_path / "__init__.py").write_text(head.replace("START HERE: ", "") + "")
    assert rooms.without_a_map(tmp_path, ["one", "two"]) == ""
    (tmp_path / "__init__.py").write_text('"""A folder."""\n')
    assert rooms.without_a_map(tmp_path, ["one", "three", "two"]) == "has no map"


def test_a_class_name_has_one_meaning_in_a_folder() -> None:
    assert rooms.classes_of_one_name() == []


def test_the_rooms_of_comm_do_not_include_one_another_in_a_circle() -> None:
    assert rooms.upward_includes() == []
    assert 10 < len(rooms.rooms_of_comm()) <= ROOMS_OF_COMM, sorted(rooms.rooms_of_comm())
