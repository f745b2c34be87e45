// Scratch: the memory of a communicator's encoded and sparse allreduces (compressed/). It grows to
// the largest batch and stays, so that no operation pays for fresh pages.
#pragma once

#include <cstdint>
#include <vector>

namespace hvdlite::comm {

struct Scratch {
  std::vector<char> sent;      // my encoded contributions: the others' shares, then my own
  std::vector<char> received;  // theirs to my share, one member after the other
  std::vector<char> results;   // the encoded sums of all shares, one member after the other
  std::vector<float> sums;     // of my share, where sums travel back
  std::vector<float> values;   // a few decoded floats
  std::vector<char> whole;     // whole tensors, packed, and all contributions to my block of them
};

// At least so many elements of the memory.
template <typename T>
T* GrowTo(int64_t size, std::vector<T>* memory) {
  if (memory->size() < static_cast<size_t>(size)) memory->resize(static_cast<size_t>(size));
  return memory->data();
}

}  // namespace hvdlite::comm
