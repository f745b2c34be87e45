// Barrier by dissemination: in step s each member sends to the member 2^s after it and receives
// from the member 2^s before it.
//
//   a member knows of 2 members after step 0, of 4 after step 1, of 2^(s+1) after step s
//
// Cost: log2 n steps (rounded up) of one byte. Any number of members.
#include <memory>

#include "comm/net/algorithms.h"
#include "comm/net/steps.h"

namespace hvdlite::comm::net {

std::unique_ptr<Work> DisseminationBarrier(Wire* wire) {
  const int n = wire->size();
  auto steps = std::make_unique<Steps>(wire);
  struct Token {
    char out = 1;
    char in = 0;
    Flat sent{&out, 1};
    Flat received{&in, 1};
  };
  const Token* token = steps->Keep(std::make_unique<Token>());
  for (int distance = 1; distance < n; distance *= 2) {
    steps->Exchange({(wire->me() + distance) % n, &token->sent, {0, 1}},
                    {(wire->me() + n - distance) % n, &token->received, {0, 1}});
  }
  return steps;
}

}  // namespace hvdlite::comm::net
