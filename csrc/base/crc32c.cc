#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#define HVDLITE_SSE42 "sse4.2,crc32"  // clang counts these instructions apart
#else
#define HVDLITE_SSE42 "sse4.2"
#endif
#define HVDLITE_CRC_TARGET __attribute__((target(HVDLITE_SSE42)))
#define HVDLITE_FOLD_TARGET __attribute__((target(HVDLITE_SSE42 ",avx512f,vpclmulqdq")))
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#if defined(__clang__)
#define HVDLITE_CRC_TARGET __attribute__((target("crc")))
#else
#define HVDLITE_CRC_TARGET __attribute__((target("+crc")))
#endif
#endif

namespace hvdlite {
namespace {

// Polynomials are reflected: the highest bit of a word is the coefficient of x^0.
constexpr uint32_t kCastagnoli = 0x82F63B78;

constexpr uint32_t TimesX(uint32_t a) {
  return (a & 1) != 0 ? (a >> 1) ^ kCastagnoli : a >> 1;
}

constexpr uint32_t TimesXPower(uint32_t a, size_t power) {
  for (size_t i = 0; i < power; ++i) a = TimesX(a);
  return a;
}

using BytesTable = std::array<std::array<uint32_t, 256>, 4>;

// A table that appends `bytes` bytes of 0 to a word a. The new word is the sum of four entries, one
// for each byte of a.
constexpr BytesTable MakeShift(size_t bytes) {
  BytesTable table{};
  uint32_t power = TimesXPower(uint32_t{1} << 31, 8 * bytes);
  for (size_t bit = 32; bit-- > 0; power = TimesX(power)) {
    for (size_t value = 0; value < 256; ++value) {
      if ((value >> bit % 8 & 1) != 0) table[bit / 8][value] ^= power;
    }
  }
  return table;
}

inline uint32_t Shift(const BytesTable& table, uint32_t a) {
  return table[0][a & 255] ^ table[1][a >> 8 & 255] ^ table[2][a >> 16 & 255] ^ table[3][a >> 24];
}

uint32_t ByTable(uint32_t crc, const void* data, size_t bytes) {
  static constexpr BytesTable kOne = MakeShift(1), kFour = MakeShift(4);
  const auto* at = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; bytes >= 4; bytes -= 4, at += 4) {
    uint32_t word;
    memcpy(&word, at, 4);
    crc = Shift(kFour, crc ^ word);
  }
  for (; bytes > 0; --bytes, ++at) crc = crc >> 8 ^ kOne[0][(crc ^ *at) & 255];
  return ~crc;
}

#if defined(HVDLITE_CRC_TARGET)

HVDLITE_CRC_TARGET inline uint64_t Step(uint64_t crc, const unsigned char* at) {
  uint64_t word;
  memcpy(&word, at, 8);
#if defined(__x86_64__)
  return _mm_crc32_u64(crc, word);
#else
  return __crc32cd(static_cast<uint32_t>(crc), word);
#endif
}

HVDLITE_CRC_TARGET inline uint32_t StepByte(uint32_t crc, unsigned char byte) {
#if defined(__x86_64__)
  return _mm_crc32_u8(crc, byte);
#else
  return __crc32cb(crc, byte);
#endif
}

// The instruction takes three cycles, but one can begin in each cycle. So three stretches are
// computed at a time and combined afterwards.
template <size_t kStretch>
HVDLITE_CRC_TARGET inline uint64_t ThreeAtATime(uint64_t a, const unsigned char** at,
                                                size_t* bytes) {
  static constexpr BytesTable kShift = MakeShift(kStretch);
  for (; *bytes >= 3 * kStretch; *bytes -= 3 * kStretch, *at += 3 * kStretch) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < kStretch; i += 8) {
      a = Step(a, *at + i);
      b = Step(b, *at + kStretch + i);
      c = Step(c, *at + 2 * kStretch + i);
    }
    const uint32_t two = Shift(kShift, static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    a = Shift(kShift, two) ^ static_cast<uint32_t>(c);
  }
  return a;
}

HVDLITE_CRC_TARGET uint32_t StateByInstruction(uint32_t crc, const unsigned char* at,
                                               size_t bytes) {
  uint64_t a = ThreeAtATime<1024>(crc, &at, &bytes);
  a = ThreeAtATime<128>(a, &at, &bytes);
  for (; bytes >= 8; bytes -= 8, at += 8) a = Step(a, at);
  auto state = static_cast<uint32_t>(a);
  for (; bytes > 0; --bytes, ++at) state = StepByte(state, *at);
  return state;
}

uint32_t ByInstruction(uint32_t crc, const void* data, size_t bytes) {
  return ~StateByInstruction(~crc, static_cast<const unsigned char*>(data), bytes);
}

#endif

#if defined(__x86_64__)

// The product of two reflected 64-bit words, read as one of 128 bits, has one factor x too many:
// hence the - 1. The 32 bits of the constant stand for the lowest powers of its word.
constexpr uint64_t FoldBy(size_t bits) {
  return static_cast<uint64_t>(TimesXPower(uint32_t{1} << 31, bits - 1)) << 32;
}

// Carries each 16 bytes 256 bytes forward and adds them to the bytes there: (low x^64 + high)
// x^2048 = low (x^2112 mod P) + high (x^2048 mod P). The bytes that remain in the end have the same
// remainder as the whole input.
HVDLITE_FOLD_TARGET uint32_t ByFolding(uint32_t crc, const void* data, size_t bytes) {
  constexpr size_t kStep = 256;
  // A processor that has not used its wide registers for a while runs slowly for the first
  // microseconds with them.
  constexpr size_t kWorthIt = 32 << 10;
  const auto* at = static_cast<const unsigned char*>(data);
  if (bytes < kWorthIt) return ~StateByInstruction(~crc, at, bytes);
  constexpr auto kLow = static_cast<long long>(FoldBy(8 * kStep + 64)),
                 kHigh = static_cast<long long>(FoldBy(8 * kStep));
  const __m512i by = _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
  __m512i lanes[4];
  for (size_t i = 0; i < 4; ++i) lanes[i] = _mm512_loadu_si512(at + 64 * i);
  const __m128i before = _mm_cvtsi32_si128(static_cast<int>(~crc));
  lanes[0] = _mm512_xor_si512(lanes[0], _mm512_inserti32x4(_mm512_setzero_si512(), before, 0));
  for (at += kStep, bytes -= kStep; bytes >= kStep; at += kStep, bytes -= kStep) {
    for (size_t i = 0; i < 4; ++i) {
      const __m512i low = _mm512_clmulepi64_epi128(lanes[i], by, 0x00);
      const __m512i high = _mm512_clmulepi64_epi128(lanes[i], by, 0x11);
      lanes[i] = _mm512_ternarylogic_epi64(low, high, _mm512_loadu_si512(at + 64 * i),
                                           0x96);  // the sum of the three
    }
  }
  alignas(64) unsigned char left[kStep];
  for (size_t i = 0; i < 4; ++i) _mm512_store_si512(left + 64 * i, lanes[i]);
  return ~StateByInstruction(StateByInstruction(0, left, kStep), at, bytes);
}

#endif

bool HasInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & (1 << 7)) != 0;  // HWCAP_CRC32
#else
  return false;
#endif
}

}  // namespace

std::vector<Crc32cWay> Crc32cWays() {
  std::vector<Crc32cWay> ways = {{"table", ByTable}};
#if defined(HVDLITE_CRC_TARGET)
  if (HasInstruction()) ways.push_back({"instruction", ByInstruction});
#endif
#if defined(__x86_64__)
  if (HasInstruction() && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("vpclmulqdq")) {
    ways.push_back({"folding", ByFolding});
  }
#endif
  return ways;
}

uint32_t Crc32c(uint32_t crc, const void* data, size_t bytes) {
  static const auto compute = Crc32cWays().back().compute;
  return compute(crc, data, bytes);
}

}  // namespace hvdlite
