// Sources: pointers to one element of every member, for kernels::Reduce.
#pragma once

#include <cstddef>
#include <vector>

namespace hvdlite::comm::shm {

// Small sets need no allocation, and nearly all sets are small.
class Sources {
 public:
  explicit Sources(int n) : n_(n), many_(n > kFew ? static_cast<size_t>(n) : 0) {}
  const void*& operator[](int i) { return data()[i]; }
  const void** data() { return n_ > kFew ? many_.data() : few_; }

 private:
  static constexpr int kFew = 16;
  const int n_;
  const void* few_[kFew];
  std::vector<const void*> many_;
};

}  // namespace hvdlite::comm::shm
