// SHA-256, HMAC-SHA-256, a comparison in constant time and random bytes, for the handshake.
//
// They are implemented here so that no job depends on finding the right libcrypto at run time. They
// are as fast as plain C (a few hundred MB/s), which is enough for nonces and proofs, not for
// tensors. Thread-safety: pure functions; a Sha256 object belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace hvdlite {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void Update(const void* data, size_t bytes);
  void Update(std::string_view text) { Update(text.data(), text.size()); }
  // Ends the message; the object must not be used afterwards.
  Digest Finish();

 private:
  void Compress(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_{};
  uint64_t total_ = 0;  // bytes so far; total_ % 64 of them wait in block_
};

Digest HmacSha256(std::string_view key, std::string_view message);

// Takes the same time wherever the first difference is, so that timing tells an attacker nothing.
bool EqualInConstantTime(const void* a, const void* b, size_t bytes);

// Fills `data` from the kernel's generator. Fails only if getrandom(2) does (seccomp, very old
// kernels).
Status RandomBytes(void* data, size_t bytes);

}  // namespace hvdlite
