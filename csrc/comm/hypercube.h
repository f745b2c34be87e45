// Hypercube: each member's partners for vector halving with distance doubling, as Adasum uses it.
//
//   step 0: partner me ^ 1, keep one half        members 0..3 of 8 elements
//   step 1: partner me ^ 2, keep one quarter     0: [0,4) then [0,2)   1: [4,8) then [4,6)
//   ...                                          2: [0,4) then [2,4)   3: [4,8) then [6,8)
//
// The lower partner keeps the lower half. Members beyond the largest power of two take no part in
// the steps: member `core + i` sends its vector to member i before them, and gets the result from
// it afterwards.
#pragma once

#include <bit>
#include <vector>

#include "comm/flat.h"

namespace hvdlite::comm {

struct Halving {
  int partner;
  bool lower;   // this member's number is below its partner's
  Cursor keep;  // in bytes
  Cursor give;
};

struct Hypercube {
  Hypercube(int me, int members, size_t bytes, size_t element)
      : core(static_cast<int>(std::bit_floor(static_cast<unsigned>(members)))) {
    if (me >= core) {
      host = me - core;
      return;
    }
    if (me + core < members) guest = me + core;
    kept = {0, bytes};
    for (int distance = 1; distance < core; distance *= 2) {
      const bool lower = (me & distance) == 0;
      const size_t middle = kept.at + (kept.end - kept.at) / element / 2 * element;
      const Cursor low{kept.at, middle};
      const Cursor high{middle, kept.end};
      kept = lower ? low : high;
      halvings.push_back({me ^ distance, lower, kept, lower ? high : low});
    }
  }

  int core;        // the power of two
  int host = -1;   // if this member is beyond: the member that takes its vector
  int guest = -1;  // the member whose vector this member takes
  std::vector<Halving> halvings;
  Cursor kept;  // what this member finishes, after all halvings
};

}  // namespace hvdlite::comm
