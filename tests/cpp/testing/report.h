// Reads the engine's reports, which are JSON.
#pragma once

#include <cstdint>
#include <string>

namespace hvdlite::testing {

// The number behind a key; -1 if there is none.
inline int64_t NumberIn(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\": ");
  return at == std::string::npos ? -1 : std::stoll(json.substr(at + key.size() + 4));
}

}  // namespace hvdlite::testing
