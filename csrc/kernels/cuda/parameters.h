// What kernels are launched with: shared by the host's code and the device's, so of built-in types
// only.
//
// A list of tensors travels in the launch's own parameters, of which every device takes 4 KiB: no
// table to copy, to keep, or to wait for. It is cut into pieces of equal size, one block for each,
// so that a list of one huge tensor and a hundred tiny ones keeps the whole device busy.
#pragma once

namespace hvdlite::kernels::cuda {

constexpr unsigned kThreads = 256;
constexpr int kPieceBytes = 32 * 1024;
constexpr int kEntries = 128;  // of a list

struct MoveList {
  struct Entry {
    const void* from;
    void* to;
    long long elements;
  };
  Entry entries[kEntries];
  // Ascending: entry i has the pieces from first_piece[i] to before first_piece[i + 1].
  unsigned first_piece[kEntries];
  int count;
  int divide;  // whether `first` divides
  double first;
  double second;
};
static_assert(sizeof(MoveList) <= 4096, "more than a launch can carry");

// For Adasum. Three sums for each piece of each pair, and then for each pair: a.b, a.a, b.b.
struct PairList {
  struct Entry {
    void* a;
    const void* b;
    long long elements;
  };
  Entry entries[kEntries];
  unsigned first_piece[kEntries + 1];  // the last one is the number of all pieces
  int count;
  int swapped;     // for the combination: the sums are b.a, b.b, a.a
  double* pieces;  // 3 for each piece
  double* pairs;   // 3 for each entry
};
static_assert(sizeof(PairList) <= 4096, "more than a launch can carry");

}  // namespace hvdlite::kernels::cuda
