#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdlite {
namespace {

std::string Hex(const Digest& digest) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : digest) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string Hash(std::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return Hex(hash.Finish());
}

// FIPS 180-4 / NIST's example values.
TEST(Sha256, HashesTheExamplesOfTheStandard) {
  EXPECT_EQ(Hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Hash("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqk"
                 "lmnopqrlmn"
                 "opqrsmno"
                 "pqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(Hash(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotCareHowTheMessageIsCut) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i);
  for (size_t length : {0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 300}) {
    for (size_t piece : {1, 3, 63, 64, 65, 300}) {
      Sha256 hash;
      for (size_t i = 0; i < length; i += piece)
        hash.Update(text.data() + i, std::min(piece, length - i));
      EXPECT_EQ(Hex(hash.Finish()), Hash(text.substr(0, length)))
          << length << " in pieces of " << piece;
    }
  }
}

// RFC 4231, test cases 1 to 4, 6 and 7 (5 is about truncation).
TEST(HmacSha256, ComputesTheExamplesOfTheRfc) {
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string key;
  for (char c = 1; c <= 25; ++c) key += c;
  EXPECT_EQ(Hex(HmacSha256(key, std::string(50, '\xcd'))),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(Hex(HmacSha256(std::string(131, '\xaa'),
                           "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(Hex(HmacSha256(std::string(131, '\xaa'),
                           "This is a test using a larger than block-size key and a larger than "
                           "block-size data. The "
                           "key needs to be hashed before being used by the HMAC algorithm.")),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(EqualInConstantTime, SeesADifferenceInAnyByte) {
  Digest a{};
  EXPECT_TRUE(EqualInConstantTime(a.data(), a.data(), a.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    Digest b = a;
    b[i] = 0x80;
    EXPECT_FALSE(EqualInConstantTime(a.data(), b.data(), a.size())) << i;
  }
  EXPECT_TRUE(EqualInConstantTime(nullptr, nullptr, 0));
}

TEST(RandomBytes, AreDifferentEachTime) {
  Digest a{};
  Digest b{};
  ASSERT_TRUE(RandomBytes(a.data(), a.size()).ok());
  ASSERT_TRUE(RandomBytes(b.data(), b.size()).ok());
  EXPECT_NE(a, b);
  EXPECT_NE(a, Digest{});
  EXPECT_TRUE(RandomBytes(nullptr, 0).ok());
}

}  // namespace
}  // namespace hvdlite
