// Reads a call frame of XLA's FFI: tensors, attributes, and the exact error text. Everything
// borrows from the frame, which outlives the call.
#pragma once

#include <string>
#include <string_view>

#include "api/hvdlite.h"
#include "ingraph/xla_ffi.h"

namespace hvdlite::ingraph {

inline const ffi::Buffer& BufferAt(const ffi::Buffers& buffers, int64_t i) {
  return *static_cast<const ffi::Buffer*>(buffers.elements[i]);
}

// A tensor, as if in host memory. Its dtype is -1 if it cannot be communicated.
hvdlite_tensor TensorOf(const ffi::Buffer& buffer);

// Writes kind, op, process_set, root, prescale and postscale to *operation. Returns false if one is
// missing or has another type.
bool ReadAttributes(const ffi::Attributes& given, hvdlite_operation* operation, std::string* name);

// The attribute's value in the frame, or null if there is none of this name and type.
const void* FindAttribute(const ffi::Attributes& given, std::string_view name,
                          ffi::AttributeType type);

// The codec of an operation and how many residuals it has; false: it has no codec.
bool ReadCodec(const ffi::Attributes& given, hvdlite_operation* operation, int32_t* residuals);

}  // namespace hvdlite::ingraph
