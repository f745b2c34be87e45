// Library: the functions of this process's NCCL that hvdlite calls. They are found by name in
// libnccl.so.2; nothing is linked.
//
// The declarations are our own, of NCCL's stable C interface (compared with nccl.h of 2.32).
// Frameworks bring NCCL as a wheel and load it themselves. A library that is already loaded is
// preferred, so that a process has one NCCL.
//
// Thread-safety: an immutable value. Failure: Check() makes a Status of what a function returns.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "device/driver.h"

namespace hvdlite::comm::nccl {

using Comm = void*;  // ncclComm_t

struct UniqueId {
  char bytes[128];
};

// The numbers are NCCL's.
enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};
enum RedOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };

// The beginning of ncclConfig_t. NCCL reads `size` bytes, and of these the fields that `version`
// knew. For 2.14 that is only `blocking`, so this means the same to every NCCL.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // undefined: NCCL decides
};
static_assert(sizeof(Config) == 24);

// The version of PyTorch 2.1. Every function called here is older.
constexpr int kOldestVersion = 21800;

struct Library {
#define HVDLITE_NCCL(returns, name, parameters) returns(*name) parameters = nullptr;
#include "comm/nccl/functions.def"
#undef HVDLITE_NCCL
  const char* (*GetLastError)(Comm) = nullptr;  // null in an NCCL without it
  int version = 0;                              // 22803 for 2.28.3
  int cuda = 0;                                 // 13: it was built for CUDA 13; 0: unknown
  std::string origin;  // where it was found, for messages: "loaded by the framework"

  // Returns OK for kSuccess, and for kInProgress, which every function on a communicator may
  // return. Otherwise the error says what hvdlite was doing and what NCCL reports about `comm`,
  // which may be null. It is kPeerLost when NCCL blames the network or another process, without
  // saying which; otherwise kIo.
  Status Check(Result result, std::string_view doing, Comm comm) const;
};

// "2.28.3"
std::string VersionText(int version);

// The major version of CUDA that a library was built for. It is known if the library lies in a
// Python package that names it, such as nvidia-nccl-cu13; otherwise 0. The library itself does not
// tell.
int CudaOfPackage(const std::string& library_file);

struct Places {
  std::string wanted;  // HVDLITE_NCCL_LIBRARY: this and no other
  // folders of Python's packages, separated by ':', where the nvidia-nccl wheel may be
  std::string wheel;
  std::string file = "libnccl.so.2";  // its name, in the wheel and elsewhere
};

// Tries, in this order, the wanted library; the one that the process has already, if PyTorch has
// loaded it; the wheel's; the system's. kUnsupported says why there is none: not installed, too
// old, lacks a function.
Status Load(const Places& places, std::shared_ptr<const Library>* library);

}  // namespace hvdlite::comm::nccl
