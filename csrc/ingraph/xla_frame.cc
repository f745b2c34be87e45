#include "ingraph/xla_frame.h"

#include <cstring>

namespace hvdlite::ingraph {
namespace {

int32_t DTypeOf(ffi::DataType dtype) {
  switch (dtype) {
    case ffi::kPred: return HVDLITE_BOOL;
    case ffi::kS8: return HVDLITE_INT8;
    case ffi::kS16: return HVDLITE_INT16;
    case ffi::kS32: return HVDLITE_INT32;
    case ffi::kS64: return HVDLITE_INT64;
    case ffi::kU8: return HVDLITE_UINT8;
    case ffi::kU16: return HVDLITE_UINT16;
    case ffi::kU32: return HVDLITE_UINT32;
    case ffi::kU64: return HVDLITE_UINT64;
    case ffi::kF16: return HVDLITE_FLOAT16;
    case ffi::kBF16: return HVDLITE_BFLOAT16;
    case ffi::kF32: return HVDLITE_FLOAT32;
    case ffi::kF64: return HVDLITE_FLOAT64;
    default: return -1;
  }
}

template <typename T>
bool ReadScalar(const ffi::Attributes& given, std::string_view name, ffi::DataType dtype, T* out) {
  const auto* scalar = static_cast<const ffi::Scalar*>(FindAttribute(given, name, ffi::kScalar));
  if (scalar == nullptr || scalar->dtype != dtype) return false;
  memcpy(out, scalar->value, sizeof(T));
  return true;
}

}  // namespace

hvdlite_tensor TensorOf(const ffi::Buffer& buffer) {
  static char nothing;  // an empty tensor may have no address
  hvdlite_tensor tensor{};
  tensor.data = buffer.data != nullptr ? buffer.data : &nothing;
  tensor.dtype = DTypeOf(buffer.dtype);
  tensor.ndim = static_cast<int32_t>(buffer.rank);
  tensor.shape = buffer.dims;
  return tensor;
}

const void* FindAttribute(const ffi::Attributes& given, std::string_view name,
                          ffi::AttributeType type) {
  for (int64_t i = 0; i < given.count; ++i) {
    const std::string_view found(given.names[i]->data, given.names[i]->size);
    if (found == name) return given.types[i] == type ? given.values[i] : nullptr;
  }
  return nullptr;
}

bool ReadAttributes(const ffi::Attributes& given, hvdlite_operation* operation, std::string* name) {
  const auto* text = static_cast<const ffi::ByteSpan*>(FindAttribute(given, "name", ffi::kString));
  if (text == nullptr) return false;
  name->assign(text->data, text->size);
  return ReadScalar(given, "kind", ffi::kS32, &operation->kind) &&
         ReadScalar(given, "op", ffi::kS32, &operation->op) &&
         ReadScalar(given, "process_set", ffi::kS32, &operation->process_set) &&
         ReadScalar(given, "root", ffi::kS64, &operation->root) &&
         ReadScalar(given, "prescale", ffi::kF64, &operation->prescale) &&
         ReadScalar(given, "postscale", ffi::kF64, &operation->postscale);
}

bool ReadCodec(const ffi::Attributes& given, hvdlite_operation* operation, int32_t* residuals) {
  int64_t seed = 0;
  if (!ReadScalar(given, "codec", ffi::kS32, &operation->codec) ||
      !ReadScalar(given, "codec_parameter", ffi::kF64, &operation->codec_parameter) ||
      !ReadScalar(given, "codec_seed", ffi::kS64, &seed) ||
      !ReadScalar(given, "residuals", ffi::kS32, residuals)) {
    return false;
  }
  operation->codec_seed = static_cast<uint64_t>(seed);
  return true;
}

}  // namespace hvdlite::ingraph
