"""flux run: it tells each process its number by FLUX_TASK_RANK and FLUX_JOB_SIZE."""

from __future__ import annotations

from recipes import Insert, Limits, Several

_SOURCES = "hvdlite/launch/environment/sources.py"
_DISCOVERY = "hvdlite/launch/environment/discovery.py"
_UNIT = "tests/unit/test_environment.py"
_PAGE = "docs/guides/launching.md"

CHANGES = (
    Several((
        Insert(
            _SOURCES,
            'PMIX = Pmix("PMIx", ("PMIX_RANK", ""), (("PMIX_RANK",),))\n',
            '''FLUX = Source(
    "flux run",
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    (("FLUX_TASK_RANK",), ("FLUX_JOB_SIZE",)),
    needs=("FLUX_JOB_ID", "FLUX_JOB_NNODES"),
)
''',
        ),
        Insert(_SOURCES, "SOURCES = (HVDLITE, HOROVOD, TORCHRUN, OPEN_MPI, MVAPICH, HYDRA, ",
               "FLUX, "),
    )),
    Several((
        Insert(_DISCOVERY, "from hvdlite.launch.environment.sources import (\n", "    FLUX,\n"),
        Insert(
            _DISCOVERY,
            "    if source is TORCHRUN:\n        return _with_torchrun(environ, here)\n",
            '''    if source is FLUX:
        if environ["FLUX_JOB_NNODES"] != "1":
            raise ValueError(f"flux run on several hosts needs {_RENDEZVOUS}=host:port.")
        return OnThisHost(_facts(environ, "FLUX_JOB_ID"))
''',
        ),
    )),
    Insert(
        "hvdlite/base/variables.py",
        "    PMI_RANK PMI_SIZE PMIX_HOSTNAME PMIX_NAMESPACE PMIX_RANK\n",
        "    FLUX_TASK_RANK FLUX_JOB_SIZE FLUX_JOB_ID FLUX_JOB_NNODES\n",
    ),
    Insert(
        _UNIT,
        'JSRUN = _places("JSM_NAMESPACE_")\n',
        '''

def test_flux_run() -> None:
    flux = variables("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4 FLUX_JOB_ID=f23 FLUX_JOB_NNODES=1")
    me = discover(flux)
    assert (me.rank, me.size, me.launcher) == (1, 4, "flux run") and me.on_one_host
    with pytest.raises(ValueError, match="several hosts needs HVDLITE_RENDEZVOUS"):
        discover(flux | {"FLUX_JOB_NNODES": "2"})

''',
    ),
    Insert(
        "tests/multiprocess/test_launchers.py",
        "# --- torchrun\n",
        '''

def test_flux_run(job: Job) -> None:
    flux = {"FLUX_TASK_RANK": "{rank}", "FLUX_JOB_SIZE": "2", "FLUX_JOB_NNODES": "1"}
    end_well(*ranks(job, 2, job.script(TWICE), flux | {"FLUX_JOB_ID": "f23"}))
    expect_places(job, on_one_host(2))

''',
    ),
    Several((
        Insert(
            _PAGE,
            "| `JSM_NAMESPACE_*` | through one broadcast of MPI | mpi4py |\n",
            "| `flux run python train.py` | `FLUX_TASK_RANK` … | on one host at a socket | nothing "
            "|\n",
        ),
        Insert(
            _PAGE,
            "| mpirun, mpiexec | you and root | all who can read or join the job's MPI traffic |\n",
            "| flux run | you and root | – |\n",
        ),
    )),
    Limits(),
    Insert("CHANGELOG.md", "## Unreleased\n\n", "- Ranks of `flux run` find each other.\n"),
)  # fmt: skip
