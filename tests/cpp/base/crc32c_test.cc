#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace hvdlite {
namespace {

// Bit by bit, as the definition has it.
uint32_t Slowly(const std::string& text) {
  uint32_t crc = ~0u;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
  }
  return ~crc;
}

std::string Noise(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST(Crc32c, has_the_values_of_rfc_3720) {
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending.push_back(c);
  for (const Crc32cWay& way : Crc32cWays()) {
    SCOPED_TRACE(way.name);
    EXPECT_EQ(way.compute(0, std::string(32, '\0').data(), 32), 0x8A9136AAu);
    EXPECT_EQ(way.compute(0, std::string(32, '\xff').data(), 32), 0x62A8AB43u);
    EXPECT_EQ(way.compute(0, ascending.data(), 32), 0x46DD794Eu);
    EXPECT_EQ(way.compute(0, "123456789", 9), 0xE3069283u);
  }
}

TEST(Crc32c, is_the_same_in_every_way_at_every_size_and_place) {
  for (const size_t bytes :
       {0,   1,   3,    7,    8,    15,    64,    255,   256,   511,   512,  513,
        767, 768, 3071, 3072, 6151, 32767, 32768, 33023, 33025, 65536, 70001}) {
    for (size_t place = 0; place < 9; ++place) {
      const std::string text = Noise(bytes + place, static_cast<uint32_t>(bytes));
      const uint32_t expected = Slowly(text.substr(place));
      for (const Crc32cWay& way : Crc32cWays()) {
        ASSERT_EQ(way.compute(0, text.data() + place, bytes), expected)
            << way.name << " of " << bytes << " at " << place;
      }
      ASSERT_EQ(Crc32c(0, text.data() + place, bytes), expected);
    }
  }
}

TEST(Crc32c, goes_on_where_it_stopped) {
  const std::string text = Noise(40000, 3);
  const uint32_t whole = Slowly(text);
  for (const Crc32cWay& way : Crc32cWays()) {
    for (const size_t cut : {0, 1, 100, 385, 2500, 32768, 39999, 40000}) {
      const uint32_t first = way.compute(0, text.data(), cut);
      ASSERT_EQ(way.compute(first, text.data() + cut, text.size() - cut), whole)
          << way.name << " cut at " << cut;
    }
  }
}

TEST(Crc32c, changes_with_every_bit) {
  const std::string text = Noise(600, 4);
  const uint32_t right = Crc32c(0, text.data(), text.size());
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string other = text;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ 1 << bit % 8);
    ASSERT_NE(Crc32c(0, other.data(), other.size()), right) << bit;
  }
}

}  // namespace
}  // namespace hvdlite
