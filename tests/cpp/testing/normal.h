// Random numbers, normally distributed about 0.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace hvdlite::testing {

inline std::vector<float> Normal(size_t count, unsigned seed, float sigma = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, sigma);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace hvdlite::testing
