// The messages that the two ends of a new link exchange after the handshake
// (docs/how-it-works/wire.md, "Links"). All fields are u32, little-endian.
//
//   client  LinkHello, 24 bytes: which link this is
//   server  LinkWelcome, 8 bytes: sent when the connection is claimed; all later bytes belong to
//           collectives
//
// The welcome tells a client that it has reached the rank it meant. An address that several hosts
// have (a bridge of containers) may lead to another rank of the same job. That rank closes the
// connection instead.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace hvdlite::transport::tcp {

constexpr size_t kLinkHelloBytes = 24;
constexpr size_t kLinkWelcomeBytes = 8;
constexpr uint32_t kLinkProtocol = 4;

struct LinkHello {
  uint32_t group = 0;  // the process set
  uint32_t from = 0;   // global ranks
  uint32_t to = 0;
  uint32_t stream = 0;  // numbers the links of two ranks that use several interfaces

  auto operator<=>(const LinkHello&) const = default;
};

template <size_t kBytes>
void PutU32s(std::array<uint32_t, kBytes / 4> values, std::array<uint8_t, kBytes>* to) {
  for (size_t i = 0; i < kBytes; ++i) (*to)[i] = static_cast<uint8_t>(values[i / 4] >> (i % 4 * 8));
}

template <size_t kBytes>
std::array<uint32_t, kBytes / 4> GetU32s(const std::array<uint8_t, kBytes>& from) {
  std::array<uint32_t, kBytes / 4> values{};
  for (size_t i = 0; i < kBytes; ++i)
    values[i / 4] |= static_cast<uint32_t>(from[i]) << (i % 4 * 8);
  return values;
}

inline std::array<uint8_t, kLinkHelloBytes> Encode(const LinkHello& hello) {
  std::array<uint8_t, kLinkHelloBytes> bytes{};
  PutU32s<kLinkHelloBytes>({kLinkProtocol, hello.group, hello.from, hello.to, hello.stream, 0},
                           &bytes);
  return bytes;
}

// Returns false for anything but a hello of this protocol.
inline bool Decode(const std::array<uint8_t, kLinkHelloBytes>& bytes, LinkHello* hello) {
  const auto values = GetU32s<kLinkHelloBytes>(bytes);
  *hello = {values[1], values[2], values[3], values[4]};
  return values[0] == kLinkProtocol && values[5] == 0;
}

// Tells the client which rank it has reached.
inline std::array<uint8_t, kLinkWelcomeBytes> EncodeWelcome(const LinkHello& hello) {
  std::array<uint8_t, kLinkWelcomeBytes> bytes{};
  PutU32s<kLinkWelcomeBytes>({hello.to, hello.from}, &bytes);
  return bytes;
}

}  // namespace hvdlite::transport::tcp
