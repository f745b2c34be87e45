// The part of the DLPack ABI (https://dmlc.github.io/dlpack) that is needed to borrow a tensor.
// The declarations are our own: the standard fixes the layout, so no framework's header is needed.
#pragma once

#include <cstdint>

namespace hvdlite::bindings::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
// CUDA's legacy default stream, which has the same number in DLPack and CUDA.
constexpr int kLegacyStream = 1;
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  struct {
    int32_t type;
    int32_t id;
  } device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};

// The content of a capsule named "dltensor".
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

// The content of a capsule named "dltensor_versioned" (DLPack 1.x).
struct Versioned {
  struct {
    uint32_t major, minor;
  } version;
  void* context;
  void (*deleter)(Versioned*);
  uint64_t flags;
  Tensor tensor;
};
constexpr uint64_t kReadOnly = 1;

// The content of a capsule named "dlpack_exchange_api", an attribute of the tensor's type (DLPack
// 1.3). Its C functions need the interpreter lock and return 0, or -1 with Python's error set.
struct Exchange {
  struct {
    uint32_t major, minor;
  } version;
  void* older;
  void* allocate;
  int (*managed_from_object)(void* object, Versioned** out);
  int (*object_from_managed)(Versioned* managed, void** out);
  // May be null. Borrows: valid while the object is unchanged.
  int (*tensor_from_object)(void* object, Tensor* out);
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};

}  // namespace hvdlite::bindings::dlpack
