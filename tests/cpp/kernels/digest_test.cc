#include "kernels/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "kernels/cpu/digest.h"
#include "kernels/cpu/dispatch.h"

namespace hvdlite::kernels {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes Random(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

// The definition, one word after the other.
uint64_t Plain(const Bytes& bytes) {
  uint32_t lanes[32];
  for (uint32_t i = 0; i < 32; ++i) lanes[i] = (i + 1) * 0x9E3779B1U;
  Bytes padded = bytes;
  padded.resize((bytes.size() + 127) / 128 * 128);
  for (size_t i = 0; i < padded.size() / 4; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, padded.data() + 4 * i, 4);
    const uint32_t mixed = lanes[i % 32] ^ word;
    lanes[i % 32] = (mixed ^ (mixed >> 15)) * 0x9E3779B1U;
  }
  uint64_t digest = 0;
  const auto absorb = [&](uint64_t word) {
    digest = (digest ^ word) * 0x9E3779B97F4A7C15U;
    digest ^= digest >> 32;
  };
  absorb(bytes.size());
  for (size_t i = 0; i < 32; i += 2) absorb(lanes[i] | uint64_t{lanes[i + 1]} << 32);
  return digest;
}

TEST(DigestTest, IsTheSameOnEveryInstructionSetAtEveryLengthAndAddress) {
  const Bytes source = Random(5000, 1);
  for (const cpu::KernelTable* table : cpu::SupportedTables()) {
    for (size_t length : {0, 1, 3, 4, 5, 63, 64, 127, 128, 129, 255, 256, 257, 1000, 4096, 4900}) {
      for (size_t offset : {0, 1, 7}) {
        const auto begin = source.begin() + static_cast<std::ptrdiff_t>(offset);
        const Bytes part(begin, begin + static_cast<std::ptrdiff_t>(length));
        EXPECT_EQ(cpu::Digest(*table, source.data() + offset, length), Plain(part))
            << table->name << " " << length << " " << offset;
      }
    }
  }
}

TEST(DigestTest, EachFlippedBitChangesIt) {
  Bytes bytes = Random(300, 2);
  std::set<uint64_t> seen = {Digest(bytes.data(), bytes.size())};
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto mask = static_cast<unsigned char>(1U << (bit % 8));
    bytes[bit / 8] ^= mask;
    seen.insert(Digest(bytes.data(), bytes.size()));
    bytes[bit / 8] ^= mask;
  }
  EXPECT_EQ(seen.size(), 8 * bytes.size() + 1);
}

// A multiplication leaves the highest bit where it is, so that two of them could cancel out.
TEST(DigestTest, TwoSignsOfTheSameLaneDoNotCancelOut) {
  std::vector<float> values(4096, 1.0F);
  const uint64_t before = Digest(values.data(), 4 * values.size());
  for (size_t first = 0; first < 4; ++first) {
    for (size_t second = first + 32; second < values.size(); second += 32) {
      values[first] = values[second] = -1.0F;
      EXPECT_NE(Digest(values.data(), 4 * values.size()), before) << first << " " << second;
      values[first] = values[second] = 1.0F;
    }
  }
}

TEST(DigestTest, TheOrderOfElementsAndTheLengthMatter) {
  std::vector<uint32_t> words(256);
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(i);
  const size_t bytes = 4 * words.size();
  const uint64_t before = Digest(words.data(), bytes);
  for (const size_t other : {1, 32, 255}) {
    std::swap(words[0], words[other]);
    EXPECT_NE(Digest(words.data(), bytes), before) << other;
    std::swap(words[0], words[other]);
  }
  const Bytes zeros(300);
  std::set<uint64_t> seen;
  for (size_t length = 0; length <= zeros.size(); ++length)
    seen.insert(Digest(zeros.data(), length));
  EXPECT_EQ(seen.size(), zeros.size() + 1);
}

TEST(DigestTest, ContentsThatDifferSlightlyDoNotCollide) {
  std::mt19937 random(3);
  std::vector<float> values(1000, 0.5F);
  std::set<uint64_t> seen;
  constexpr size_t kTimes = 100000;
  for (size_t i = 0; i < kTimes; ++i) {
    values[random() % values.size()] += 0x1p-20F;
    seen.insert(Digest(values.data(), 4 * values.size()));
  }
  EXPECT_EQ(seen.size(), kTimes);
}

}  // namespace
}  // namespace hvdlite::kernels
