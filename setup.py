"""Builds the native core with CMake and packs it beside the Python files. See CMakeLists.txt for
what is built.

The wheel depends on no framework, no MPI, no CUDA and no NCCL: one build serves every version of
all of them.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
# scripts/wheels: a folder with libraries and modules for many Pythons, for which platform they are,
# and the bill of materials.
NATIVES, PLATFORM, BILL = (
    os.environ.get(f"HVDLITE_WHEEL_{name}") for name in ("NATIVES", "PLATFORM", "BILL")
)
MODULE = f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"


def _why_not() -> str:
    """What has to be installed before the core can be compiled. Asked first: below the output of
    CMake and pip the reason is hard to find."""
    asked = os.environ.get("CXX", "").split()[:1]
    compilers = asked or ["c++", "g++", "clang++"]
    if not any(map(shutil.which, compilers)):
        return (
            f"hvdlite needs a C++ compiler, and there is no {' or '.join(compilers)}: install g++ "
            "11 or newer (Debian and Ubuntu: apt-get install g++; Fedora and RHEL: dnf install "
            "gcc-c++; conda: conda install gxx), and try again."
        )
    if shutil.which("cmake") is None:
        return "hvdlite needs CMake to build (pip install cmake, or install it with your system)"
    return ""


class CMakeBuild(build_ext):
    """One CMake build for everything in csrc/; the "extension" only tells setuptools that the wheel
    is not pure."""

    def build_extension(self, ext: Extension) -> None:
        if NATIVES:
            folder = Path(self.build_lib, "hvdlite")
            folder.mkdir(parents=True, exist_ok=True)
            for native in Path(NATIVES).glob("*.so"):
                shutil.copy2(native, folder)
            return
        if why_not := _why_not():
            raise SystemExit(why_not)
        import pybind11

        # One build folder per Python, kept: whoever installs again waits for what has changed only.
        build = ROOT / "build" / f"native-{sys.implementation.cache_tag}"
        package = Path(self.get_ext_fullpath(ext.name)).parent.resolve()
        build.mkdir(parents=True, exist_ok=True)
        configure = [
            *("cmake", "-S", str(ROOT), "-B", str(build)),
            "-DCMAKE_BUILD_TYPE=" + os.environ.get("HVDLITE_BUILD_TYPE", "Release"),
            f"-DPython3_EXECUTABLE={sys.executable}",
            f"-DHVDLITE_MODULES={MODULE}={sysconfig.get_path('include')}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            f"-DCMAKE_INSTALL_PREFIX={package.parent}",
            "-DCMAKE_INSTALL_MESSAGE=NEVER",
            "--no-warn-unused-cli",
        ]
        ninja = shutil.which("ninja")
        if ninja:
            # Said each time: the one of the last build may have been in an isolated environment
            # that is gone.
            configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(build), "--parallel", jobs], check=True)
        subprocess.run(["cmake", "--install", str(build)], check=True)
        if getattr(self, "editable_mode", False):
            self._copy_libraries(package)

    def copy_extensions_to_source(self) -> None:  # build_ext --inplace
        super().copy_extensions_to_source()
        self._copy_libraries(Path(self.build_lib) / "hvdlite")

    @staticmethod
    def _copy_libraries(package: Path) -> None:
        for library in package.glob("libhvdlite*.so"):
            shutil.copy2(library, ROOT / "hvdlite")


class Wheel(bdist_wheel):
    """One for every Python, if the libraries and modules are there already."""

    def run(self) -> None:
        # Before setuptools names each file that it copies: the reason is then the second line of
        # what pip shows, and not the seven-hundredth.
        if not NATIVES and (why_not := _why_not()):
            raise SystemExit(why_not)
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", PLATFORM) if NATIVES and PLATFORM else super().get_tag()

    def write_wheelfile(self, wheelfile_base: str, *arguments: str) -> None:
        super().write_wheelfile(wheelfile_base, *arguments)
        if BILL:
            folder = Path(wheelfile_base, "sboms")
            folder.mkdir(exist_ok=True)
            shutil.copy(BILL, folder)


setup(
    ext_modules=[Extension("hvdlite._core", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "bdist_wheel": Wheel},
)
