#include "comm/hierarchical/in_place.h"

#include <algorithm>
#include <cstring>

namespace hvdlite::comm::hierarchical {
namespace {

// Goes through the parts, a bounded number of elements in each call.
class Pass : public Work {
 public:
  explicit Pass(const InPlace& in_place)
      : in_place_(in_place), size_of_(SizeOf(in_place.reduce.dtype)) {}

  Progress Advance() final {
    if (part_ == in_place_.parts.size()) return End();
    const Part& part = in_place_.parts[part_];
    const int64_t count = std::min(
        part.count - done_, static_cast<int64_t>(shm::PeerAddresses::kBytesAtOnce / size_of_));
    if (count > 0) Do(part, done_, count);
    done_ += count;
    if (done_ == part.count) {
      ++part_;
      done_ = 0;
    }
    return Progress::kSome;
  }

 protected:
  // Of `count` elements of my part from `at` on.
  virtual void Do(const Part& part, int64_t at, int64_t count) = 0;
  virtual Progress End() = 0;

  const InPlace& in_place() const { return in_place_; }
  size_t size_of() const { return size_of_; }
  char* TensorOf(int member, const Part& part, int64_t at) const {
    return in_place_.addresses->Tensor(static_cast<size_t>(member), part.piece) +
           static_cast<size_t>(part.begin + at) * size_of_;
  }

 private:
  const InPlace& in_place_;
  const size_t size_of_;
  size_t part_ = 0;
  int64_t done_ = 0;
};

class Reduce final : public Pass {
 public:
  explicit Reduce(const InPlace& in_place)
      : Pass(in_place), sources_(static_cast<size_t>(in_place.addresses->members())) {}

 private:
  void Do(const Part& part, int64_t at, int64_t count) override {
    const int members = in_place().addresses->members();
    for (int m = 0; m < members; ++m) sources_[static_cast<size_t>(m)] = TensorOf(m, part, at);
    if (in_place().to_float) {
      kernels::ReduceToFloat(in_place().reduce, static_cast<float*>(part.sum) + at, sources_.data(),
                             members, count);
    } else {
      kernels::Reduce(in_place().reduce,
                      static_cast<char*>(part.sum) + static_cast<size_t>(at) * size_of(), nullptr,
                      sources_.data(), members, count);
    }
  }
  Progress End() override { return Progress::kDone; }

  std::vector<const void*> sources_;
};

class Spread final : public Pass {
 public:
  explicit Spread(const InPlace& in_place) : Pass(in_place) {}

 private:
  void Do(const Part& part, int64_t at, int64_t count) override {
    const char* const result =
        static_cast<const char*>(part.result) + static_cast<size_t>(at) * size_of();
    for (int m = 0; m < in_place().addresses->members(); ++m) {
      char* const tensor = TensorOf(m, part, at);
      if (tensor != result) memcpy(tensor, result, static_cast<size_t>(count) * size_of());
    }
  }
  Progress End() override {
    if (!returned_) in_place().addresses->Release();
    returned_ = true;
    return in_place().addresses->AllReleased() ? Progress::kDone : Progress::kNone;
  }

  bool returned_ = false;
};

}  // namespace

std::unique_ptr<Work> StartReduce(const InPlace& in_place) {
  return std::make_unique<Reduce>(in_place);
}

std::unique_ptr<Work> StartSpread(const InPlace& in_place) {
  return std::make_unique<Spread>(in_place);
}

}  // namespace hvdlite::comm::hierarchical
