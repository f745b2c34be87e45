#include "kernels/select.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/select.h"
#include "kernels/greatest.h"
#include "kernels/stream.h"

namespace hvdlite::kernels {
namespace {

// What is taken lies scattered over memory: so many elements are fetched into the cache ahead.
constexpr int64_t kFetchedAhead = 16;
// What a Selector does at a time. A multiple of every stride, so that stretches stay aligned.
constexpr int64_t kStretch = int64_t{1} << 16;  // elements
// A Selector clears the gradient after so many elements, while the second cache still has them. A
// multiple of every stride, too.
constexpr int64_t kClearedEvery = int64_t{1} << 13;  // elements

// The candidates of a Selection. Where there are more than twice as many as are taken, the
// smaller half is dropped, and what is not greater than the rest is noted no more.
class Candidates {
 public:
  Candidates(int64_t taken, int64_t count)
      : taken_(taken),
        room_(std::min(2 * taken, count) + cpu::kSelectStride),
        list_(std::make_unique_for_overwrite<uint64_t[]>(static_cast<size_t>(room_))) {}

  void NoteIn(cpu::SelectArgs* args) {
    args->threshold = -1;  // none has been taken, and 0 is greater
    args->candidates = list_.get();
    args->found = 0;
    args->room = room_;
  }

  // Afterwards those to be taken come first.
  void Drop(cpu::SelectArgs* args) {
    args->threshold = static_cast<int32_t>(KeepGreatest(list_.get(), args->found, taken_) >> 32);
    args->found = taken_;
  }

  int32_t PositionOf(int64_t i) const {
    return static_cast<int32_t>(~(list_[static_cast<size_t>(i)] >> 1) & cpu::kSelectMagnitude);
  }
  float ValueOf(int64_t i) const {
    const uint64_t candidate = list_[static_cast<size_t>(i)];
    const auto bits = static_cast<uint32_t>(candidate >> 32 | (candidate & 1) << 31);
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

 private:
  const int64_t taken_;
  const int64_t room_;
  const std::unique_ptr<uint64_t[]> list_;
};

}  // namespace

class Selector::State {
 public:
  State(const cpu::KernelTable& table, const Selection& selection)
      : table_(table), selection_(selection), candidates_(selection.taken, selection.count) {
    args_.gradient = selection.gradient;
    args_.residual = selection.residual;
    args_.velocity = selection.velocity;
    args_.momentum = selection.momentum;
    args_.nesterov = selection.nesterov;
    args_.new_residual = selection.new_residual;
    args_.new_velocity = selection.new_velocity;
    args_.stream = selection.count >= kStreamFrom;
    candidates_.NoteIn(&args_);
  }

  bool Step(int64_t stretch) {
    const int64_t end = std::min(selection_.count, args_.at + stretch);
    do {
      const int64_t begin = args_.at;
      args_.count = std::min(end, begin + kClearedEvery);
      table_.select(&args_);
      if (selection_.cleared != nullptr) Clear(selection_.cleared + begin, args_.at - begin);
    } while (args_.at < end && HasRoom());
    const bool done = args_.at == selection_.count;
    if (done || !HasRoom()) candidates_.Drop(&args_);
    if (done) Write();
    return done;
  }

 private:
  static void Clear(float* at, int64_t count) {
    // GCC makes a slow loop of std::fill.
    std::memset(at, 0, static_cast<size_t>(count) * sizeof(float));
  }

  bool HasRoom() const { return args_.found + cpu::kSelectStride <= args_.room; }

  void Write() const {
    for (int64_t i = 0; i < selection_.taken; ++i) {
      if (i + kFetchedAhead < selection_.taken) Fetch(candidates_.PositionOf(i + kFetchedAhead));
      const int32_t position = candidates_.PositionOf(i);
      selection_.positions[i] = position;
      selection_.values[i] = candidates_.ValueOf(i);
      selection_.new_residual[position] = 0;
      if (forgets_) selection_.new_velocity[position] = 0;
    }
  }

  void Fetch(int32_t position) const {
    __builtin_prefetch(selection_.new_residual + position, /*written=*/1);
    if (forgets_) __builtin_prefetch(selection_.new_velocity + position, /*written=*/1);
  }

  const cpu::KernelTable& table_;
  const Selection selection_;
  const bool forgets_ = selection_.velocity != nullptr && selection_.masking;
  Candidates candidates_;
  cpu::SelectArgs args_ = {};
};

Selector::Selector(const Selection& selection)
    : state_(std::make_unique<State>(cpu::ActiveTable(), selection)) {}
Selector::~Selector() = default;

bool Selector::Step() {
  return state_->Step(kStretch);
}

void cpu::Select(const KernelTable& table, const Selection& selection, int64_t stretch) {
  Selector::State state(table, selection);
  while (!state.Step(stretch)) {
  }
}

void Select(const Selection& selection) {
  cpu::Select(cpu::ActiveTable(), selection, selection.count);
}

bool AreInside(const Pairs& pairs, int64_t count) {
  return std::all_of(pairs.positions, pairs.positions + pairs.count,
                     [count](int32_t at) { return at >= 0 && at < count; });
}

void AddPairs(const std::vector<Pairs>& lists, float factor, float* zeros) {
  int64_t count = 0;
  for (const Pairs& pairs : lists) {
    count += pairs.count;
    for (int64_t i = 0; i < pairs.count; ++i) {
      if (i + kFetchedAhead < pairs.count)
        __builtin_prefetch(zeros + pairs.positions[i + kFetchedAhead], /*written=*/1);
      zeros[pairs.positions[i]] += pairs.values[i];
    }
  }
  if (factor == 1) return;
  // In two passes, because a position that occurs twice is multiplied once.
  std::vector<float> sums;
  sums.reserve(static_cast<size_t>(count));
  for (const Pairs& pairs : lists)
    for (int64_t i = 0; i < pairs.count; ++i) sums.push_back(zeros[pairs.positions[i]]);
  size_t next = 0;
  for (const Pairs& pairs : lists)
    for (int64_t i = 0; i < pairs.count; ++i) zeros[pairs.positions[i]] = sums[next++] * factor;
}

}  // namespace hvdlite::kernels
