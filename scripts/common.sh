# Shared by the scripts in this folder: sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# With the seconds since the script began.
say() { printf '\n==> %s s: %s\n' "$SECONDS" "$*"; }
die() {
  printf '\n%s: %s\n' "$0" "$*" >&2
  exit 1
}

# What has been compiled in one build folder is not compiled again in another one, where ccache is
# installed.
use_ccache() {
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
  fi
}
use_ccache

# A virtual environment of our own (.venv, or $HVDLITE_VENV), unless one is active already.
use_environment() {
  if [[ -z "${VIRTUAL_ENV:-}" ]]; then
    local venv="${HVDLITE_VENV:-.venv}"
    if [[ ! -x "$venv/bin/python" ]]; then
      say "creating a virtual environment in $venv"
      python3 -m venv "$venv" || die "python3 -m venv failed. On Debian: apt-get install python3-venv"
    fi
    # shellcheck disable=SC1091
    source "$venv/bin/activate"
  fi
  python -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "hvdlite needs Python 3.10 or newer, this is $(python -V)"
}

# Debian's packages are installed only where this says so (root only).
wants_debian() { [[ -n "${HVDLITE_SYSTEM_PACKAGES:-}" ]]; }

# install_debian PACKAGE...   where that is allowed; elsewhere nothing happens, and what needs them
#                             finds them missing.
install_debian() {
  [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null || return 0
  say "installing $*"
  timeout 120 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq "$@" >/dev/null ||
    say "could not install $* (or not in time): what needs it is skipped"
}

# install_system_packages TIER   what suites of that tier need besides Python's packages
install_system_packages() {
  local wanted=(libgtest-dev iproute2 nftables openssh-server)
  [[ "$1" == all ]] && wanted+=(libjemalloc2 libtcmalloc-minimal4 slurmctld slurmd slurm-client munge prometheus chromium valgrind default-jre-headless clang-14 libclang-rt-14-dev openmpi-bin libopenmpi-dev mpich libmpich-dev)
  # Another Node.js than Debian's is at odds with Debian's npm.
  [[ "$1" != all ]] || command -v npm >/dev/null || wanted+=(nodejs npm)
  install_debian "${wanted[@]}"
}

# setup.py says the same, but after pip has fetched what it builds with.
need_compiler() {
  command -v "${CXX:-g++}" >/dev/null || die "no C++ compiler. Install g++ 11 or newer (Debian: apt-get install g++)"
}

# requirements build | EXTRA   what pyproject.toml asks for to build, or with that extra; one a line
requirements() {
  python - "$1" <<'PYTHON'
import sys
try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
extras = project["project"]["optional-dependencies"]
print(*(project["build-system"]["requires"] if sys.argv[1] == "build" else extras[sys.argv[1]]), sep="\n")
PYTHON
}

# install_requirements build | EXTRA
install_requirements() {
  local wanted
  mapfile -t wanted < <(requirements "$1")
  ((${#wanted[@]})) || die "pyproject.toml has no '$1'"
  python -m pip install --quiet --disable-pip-version-check "${wanted[@]}" || die "cannot install ${wanted[*]}"
}

# install_hvdlite EXTRA...   in place, so that Python finds the core in this folder as well as
#                            elsewhere, with what pyproject.toml's extras ask for
# The compiler works in the foreground, where its progress is seen, while pip fetches.
install_hvdlite() {
  need_compiler
  ! wants_debian || command -v ccache >/dev/null || install_debian ccache
  use_ccache
  # The tools stay: in pip's isolated environments each build finds them, and pybind11's headers, in
  # another place, and compiles anew.
  install_requirements build
  say "fetching what is needed (${*:-nothing more}), and compiling: two minutes the first time"
  local each fetching
  (for each in "$@"; do install_requirements "$each"; done) &
  fetching=$!
  trap 'kill "$fetching" 2>/dev/null || true' EXIT
  python setup.py --quiet build_ext --inplace || die "the core could not be compiled: see above"
  # After the core, what else is to be compiled: $alongside.
  [[ -z "${alongside:-}" ]] || $alongside
  wait "$fetching" || die "pip could not install what hvdlite needs: see above"
  trap - EXIT
  python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e .
}
