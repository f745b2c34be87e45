// Which parameters of a property a run takes: all, unless HVDLITE_TEST_TIER is quick or commit
// (tests/conformance/tier.py).
#pragma once

#include <cstdlib>
#include <string_view>
#include <vector>

namespace hvdlite::testing {

// `besides`: what has found nothing so far that `always` did not.
template <typename T>
std::vector<T> InTier(std::vector<T> always, const std::vector<T>& besides) {
  const char* const tier = getenv("HVDLITE_TEST_TIER");
  if (tier == nullptr || std::string_view(tier) == "all")
    always.insert(always.end(), besides.begin(), besides.end());
  return always;
}

}  // namespace hvdlite::testing
