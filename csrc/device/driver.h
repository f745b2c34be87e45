// Driver: the functions of this machine's CUDA driver that hvdlite calls. They are found by name in
// libcuda.so.1. Nothing is linked, so one wheel serves machines with and without a GPU.
//
// All frameworks of a process share the driver and each device's primary context. hvdlite creates
// no context of its own and never touches a device of which it was given no tensor.
//
// Thread-safety: an immutable value; the driver's functions may be called from any thread. Failure:
// Check() makes a Status of what a function returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hvdlite::device {

// Handles have the types of the driver's ABI: pointers, or numbers where cuda.h has numbers.
using Address = uint64_t;  // CUdeviceptr
inline Address AsAddress(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}
using Context = void*;
using Module = void*;
using Function = void*;
// CUstream. As in CUDA, 0 is the legacy default stream, and 1 and 2 name the legacy and the
// per-thread one explicitly.
using Stream = void*;
using RawEvent = void*;
using DeviceNumber = int;
using RawPool = void*;

struct Uuid {
  char bytes[16];
};

// CUmemPoolProps, with the values that mean plain memory of one device.
struct PoolProps {
  int kind = 1;       // CU_MEM_ALLOCATION_TYPE_PINNED, the only type
  int shared_by = 0;  // not shared with other processes
  int place = 1;      // CU_MEM_LOCATION_TYPE_DEVICE
  DeviceNumber device = 0;
  void* of_windows = nullptr;
  char reserved[64] = {};
};
static_assert(sizeof(PoolProps) == 88);

struct Driver {
#define HVDLITE_CUDA(name, symbol, parameters) int(*name) parameters = nullptr;
#include "device/functions.def"
#undef HVDLITE_CUDA
  int version = 0;  // 13000 for CUDA 13.0

  // Returns OK for CUDA_SUCCESS, otherwise kIo with `doing` and the driver's description.
  Status Check(int code, std::string_view doing) const;
};

// What the functions return.
constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 2;
constexpr int kNotReady = 600;

// Loads the driver and initialises it. `library` is a name for dlopen; the knob's default is
// libcuda.so.1. kUnsupported says why there is no usable driver: not installed, no device, too old.
Status LoadDriver(const std::string& library, std::shared_ptr<const Driver>* driver);

}  // namespace hvdlite::device
