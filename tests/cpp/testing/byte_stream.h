// Bytes that go through a transport in random pieces.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "transport/transport.h"

namespace hvdlite::testing {

inline std::string Letters(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Sends the text and receives it, offering and asking for up to `most` bytes more at a time.
inline void ExpectToArrive(const std::string& sent, size_t most, std::mt19937* random,
                           transport::Transport* sender, transport::Transport* receiver) {
  std::string got(sent.size(), '\0');
  size_t out = 0, in = 0, offered = 0, asked = 0;
  for (int turn = 0; in < sent.size(); ++turn) {
    ASSERT_LT(turn, 10000000);
    if (out == offered) offered = std::min(sent.size(), out + 1 + (*random)() % most);
    if (in == asked) asked = std::min(sent.size(), in + 1 + (*random)() % most);
    size_t moved = 0;
    ASSERT_TRUE(sender->TrySend(sent.data() + out, offered - out, &moved).ok());
    out += moved;
    ASSERT_TRUE(receiver->TryReceive(got.data() + in, asked - in, &moved).ok());
    in += moved;
  }
  ASSERT_EQ(got, sent);
}

}  // namespace hvdlite::testing
