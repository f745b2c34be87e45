// Floats of every width for tests of kernels.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "kernels/reference.h"

namespace hvdlite::kernels::reference {

inline Bytes Encode(DType dtype, const std::vector<double>& values) {
  Bytes data(values.size() * SizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const float narrow = static_cast<float>(values[i]);
    uint64_t bits = 0;
    switch (dtype) {
      case DType::kFloat16: bits = Half::Encode(narrow); break;
      case DType::kBFloat16: bits = Brain::Encode(narrow); break;
      case DType::kFloat32: std::memcpy(&bits, &narrow, sizeof(narrow)); break;
      default: std::memcpy(&bits, &values[i], sizeof(double)); break;
    }
    std::memcpy(data.data() + i * SizeOf(dtype), &bits, SizeOf(dtype));
  }
  return data;
}

// Ordinary numbers about 0.
inline Bytes Random(DType dtype, int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = normal(random);
  return Encode(dtype, values);
}

}  // namespace hvdlite::kernels::reference
