// CRC-32C (Castagnoli's polynomial): the check word of frames. It changes with every error of one
// to three bits in a frame, and with every burst of up to 32 bits.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvdlite {

// Extends `crc`, the check word of the bytes before (0: there are none), by these bytes.
uint32_t Crc32c(uint32_t crc, const void* data, size_t bytes);

// The implementations that this processor can run, the quickest last. All return the same result.
struct Crc32cWay {
  const char* name;
  uint32_t (*compute)(uint32_t crc, const void* data, size_t bytes);
};
std::vector<Crc32cWay> Crc32cWays();

}  // namespace hvdlite
