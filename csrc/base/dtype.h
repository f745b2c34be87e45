// Element types that tensors may have. The numbers travel on the wire and through the C ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hvdlite {

enum class DType : uint8_t {
  kBool = 0,
  kUInt8 = 1,
  kInt8 = 2,
  kUInt16 = 3,
  kInt16 = 4,
  kUInt32 = 5,
  kInt32 = 6,
  kUInt64 = 7,
  kInt64 = 8,
  kFloat16 = 9,
  kBFloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
};
constexpr int kDTypeCount = 13;

constexpr size_t SizeOf(DType dtype) {
  constexpr size_t sizes[kDTypeCount] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  return sizes[static_cast<int>(dtype)];
}

constexpr std::string_view Name(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {
      "bool",   "uint8", "int8",    "uint16",   "int16",   "uint32", "int32",
      "uint64", "int64", "float16", "bfloat16", "float32", "float64"};
  return names[static_cast<int>(dtype)];
}

constexpr bool IsFloating(DType dtype) {
  return dtype >= DType::kFloat16;
}
constexpr bool IsValidDType(uint8_t raw) {
  return raw < kDTypeCount;
}

}  // namespace hvdlite
