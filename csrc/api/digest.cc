// The C function of hvdlite.h that compares replicas.
#include "kernels/digest.h"

#include "api/hvdlite.h"

uint64_t hvdlite_digest(const void* data, int64_t bytes) {
  return hvdlite::kernels::Digest(data, static_cast<size_t>(bytes));
}
