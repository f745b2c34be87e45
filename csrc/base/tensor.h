// TensorView: where a tensor's bytes are and what they mean. It borrows the memory: the code that
// submits an operation keeps the memory alive until the operation's handle is done.
#pragma once

#include "base/dtype.h"
#include "base/shape.h"

namespace hvdlite {

enum class DeviceKind : uint8_t { kHost = 0, kCuda = 1 };

struct Device {
  DeviceKind kind = DeviceKind::kHost;
  int32_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

struct TensorView {
  void* data = nullptr;  // contiguous, row-major; may be null when there are no elements
  DType dtype = DType::kFloat32;
  Shape shape;
  Device device;

  int64_t elements() const { return NumElements(shape); }
  size_t bytes() const { return static_cast<size_t>(elements()) * SizeOf(dtype); }
};

}  // namespace hvdlite
