// NCCL's C interface, as far as the fake has it, written down once more: from nccl.h, not from
// csrc/comm/nccl, so that a mistake there is not made here.
#pragma once

#include <climits>
#include <cstddef>

namespace fake_nccl {

enum Result : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum Type : int {
  ncclInt8,
  ncclUint8,
  ncclInt32,
  ncclUint32,
  ncclInt64,
  ncclUint64,
  ncclFloat16,
  ncclFloat32,
  ncclFloat64,
  ncclBfloat16,
};
constexpr int kTypes = 10;
constexpr size_t kTypeSizes[kTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

enum Op : int { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg };
constexpr int kOps = 5;

struct UniqueId {
  char internal[128];
};

struct Config {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cgaClusterSize;
};
constexpr unsigned kMagic = 0xcafebeef;

}  // namespace fake_nccl
