"""Which of XLA's tables of functions the core uses. TensorFlow's comes from a function that is
found by its name alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hvdlite.core import engine

# As TensorFlow 2.17 has it: 64 bytes, no version, and then pointers to functions.
_EARLIER = "{64, 0, (size_t)crash, (size_t)crash, (size_t)crash, (size_t)crash, (size_t)crash}"
_NEWER = "{192, 0, 24, 0, 1 /* major 1 */, (size_t)crash, (size_t)crash, (size_t)crash}"

_LIBRARY = """
#include <stddef.h>
#include <stdlib.h>
static void crash(void) { abort(); }
const void* _ZN3xla3ffi12GetXlaFfiApiEv(void) {
  static size_t table[24];
  const size_t given[24] = %s;
  for (int i = 0; i < 24; ++i) table[i] = given[i];
  return table;
}
"""

_ASK = """
import ctypes, sys
theirs = ctypes.CDLL(sys.argv[1])
register = ctypes.CDLL(sys.argv[2]).hvdlite_xla_register_in_tensorflow
register.restype = ctypes.c_char_p
print(register(b"hvdlite").decode())
"""


@pytest.mark.parametrize("table", [_EARLIER, _NEWER], ids=["of TensorFlow 2.17", "of the future"])
def test_a_table_that_is_laid_out_otherwise_is_left_alone(table: str, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "table.c", tmp_path / "libtensorflow_cc.so.2"
    source.write_text(_LIBRARY % table)
    shared = ("-shared", "-fPIC", "-w", "-Wl,-soname,libtensorflow_cc.so.2")
    subprocess.run([compiler, *shared, "-o", library, source], check=True)
    ask = [sys.executable, "-c", _ASK, str(library), engine.library("libhvdlite_xla.so")]
    done = subprocess.run(ask, capture_output=True, text=True)
    assert done.stdout == (
        "the XLA of this version of TensorFlow does not offer custom calls (2.18 and later do)\n"
    ), done
