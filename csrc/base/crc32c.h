// CRC-32C (Castagnoli's polynomial): the check word of frames. Every error of one to three bits in
// a frame, and every burst of up to 32 bits, changes it.
//
// Thread-safety: all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvdlite {

// Of the bytes before, whose check word is `crc` (0: there are none), and of these.
uint32_t Crc32c(uint32_t crc, const void* data, size_t bytes);

// The ways to compute it that this processor has, the quickest last. All give the same.
struct Crc32cWay {
  const char* name;
  uint32_t (*compute)(uint32_t crc, const void* data, size_t bytes);
};
std::vector<Crc32cWay> Crc32cWays();

}  // namespace hvdlite
