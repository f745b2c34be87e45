// Flat: the tensors of a batch seen as one long array of bytes, without copying them together.
//
//   piece 0      piece 1 (empty)   piece 2
//   |-- 10 B --||------------ 4 KiB ------------|
//   0          10                             4106     offsets in the Flat
//
// Algorithms cut this array anywhere and never ask where a tensor ends; Walk() finds the memory.
// Runs may begin at multiples of an alignment; no run holds the bytes between. The memory is
// borrowed. A run's pointer may be null if no algorithm accesses it (blocks that belong to another
// member).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace hvdlite::comm {

class Flat {
 public:
  Flat() = default;
  Flat(void* data, size_t bytes) { Add(data, bytes); }

  // Runs keep their index: the i-th Add() is run i, even when it is empty.
  void Add(const void* data, size_t bytes, size_t align = 1) {
    Align(align);
    runs_.push_back({static_cast<char*>(const_cast<void*>(data)), size_, size_ + bytes});
    size_ += bytes;
  }
  void Align(size_t align) { size_ = (size_ + align - 1) / align * align; }
  void Reserve(size_t runs) { runs_.reserve(runs); }
  size_t size() const { return size_; }

  // The memory at offset `at`, which lies in a run. *bytes is how far it reaches without a break.
  char* At(size_t at, size_t* bytes) const {
    const Run& run = runs_[RunAt(at)];
    *bytes = run.end - at;
    return run.data == nullptr ? nullptr : run.data + (at - run.begin);
  }
  char* At(size_t at) const {
    size_t ignored;
    return At(at, &ignored);
  }
  size_t BeginOf(size_t run) const { return runs_[run].begin; }

  // The run that holds offset `at`. If several runs begin at the same offset, only the last has
  // bytes.
  size_t RunAt(size_t at) const {
    if (runs_.size() == 1) return 0;
    const auto after =
        std::upper_bound(runs_.begin(), runs_.end(), at,
                         [](size_t offset, const Run& run) { return offset < run.begin; });
    return static_cast<size_t>(after - runs_.begin()) - 1;
  }

  // Calls visit(memory, offset, bytes) for each contiguous stretch of [begin, end), in order.
  template <typename Visit>
  void Walk(size_t begin, size_t end, Visit visit) const {
    if (begin >= end) return;
    for (size_t i = RunAt(begin); i < runs_.size() && runs_[i].begin < end; ++i) {
      const Run& run = runs_[i];
      const size_t from = std::max(begin, run.begin);
      const size_t stop = std::min(end, run.end);
      if (from >= stop) continue;
      visit(run.data == nullptr ? nullptr : run.data + (from - run.begin), from, stop - from);
    }
  }

 private:
  struct Run {
    char* data;
    size_t begin;
    size_t end;
  };

  std::vector<Run> runs_;
  size_t size_ = 0;
};

// A stretch of a Flat, and a position in it.
struct Cursor {
  size_t at = 0;
  size_t end = 0;
  bool done() const { return at >= end; }
};

// Copies `bytes` from one Flat to another, which may be cut differently. Skips stretches that are
// the same memory in both, and stretches without memory in the target.
inline void Copy(const Flat& source, size_t from, const Flat& target, size_t to, size_t bytes) {
  target.Walk(to, to + bytes, [&](char* place, size_t at, size_t count) {
    if (place == nullptr) return;
    const size_t begin = from + (at - to);
    source.Walk(begin, begin + count, [&](const char* data, size_t where, size_t part) {
      char* const here = place + (where - begin);
      if (here != data) std::memcpy(here, data, part);
    });
  });
}

// Copies a stretch of a Flat into one piece of memory, unless it already lies there.
inline void CopyOut(const Flat& flat, Cursor stretch, char* memory) {
  flat.Walk(stretch.at, stretch.end, [&](const char* data, size_t at, size_t bytes) {
    char* const here = memory + (at - stretch.at);
    if (here != data) std::memcpy(here, data, bytes);
  });
}

// Where part `i` of `parts` begins when `units` are divided evenly. The first units % parts parts
// get one more.
inline size_t PartBegin(size_t units, int parts, int i) {
  const auto n = static_cast<size_t>(parts);
  const auto k = static_cast<size_t>(i);
  return units / n * k + std::min(units % n, k);
}

}  // namespace hvdlite::comm
