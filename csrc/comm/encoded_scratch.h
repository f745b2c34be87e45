// EncodedScratch: the memory of a communicator's encoded allreduces. It grows to the largest batch
// and stays, so that no operation pays for fresh pages.
#pragma once

#include <vector>

namespace hvdlite::comm {

struct EncodedScratch {
  std::vector<char> sent;      // my encoded contributions: the others' shares, then my own
  std::vector<char> received;  // theirs to my share, one member after the other
  std::vector<char> results;   // the encoded sums of all shares, one member after the other
  std::vector<float> sums;     // of my share, where sums travel back
  std::vector<float> values;   // a few decoded floats
};

}  // namespace hvdlite::comm
