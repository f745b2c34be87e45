#include "kernels/select.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/select.h"

namespace hvdlite::kernels {
namespace {

// Results from this size on are written past the caches, which other tensors use.
constexpr int64_t kStreamFrom = int64_t{1} << 18;  // elements

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
    uint64_t* const last = list_.get() + taken_ - 1;
    std::nth_element(list_.get(), last, list_.get() + args->found, std::greater<>());
    args->threshold = static_cast<int32_t>(*last >> 32);
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

void cpu::Select(const KernelTable& table, const Selection& selection) {
  SelectArgs args = {};
  args.gradient = selection.gradient;
  args.residual = selection.residual;
  args.velocity = selection.velocity;
  args.momentum = selection.momentum;
  args.nesterov = selection.nesterov;
  args.new_residual = selection.new_residual;
  args.new_velocity = selection.new_velocity;
  args.count = selection.count;
  args.stream = selection.count >= kStreamFrom;
  Candidates candidates(selection.taken, selection.count);
  candidates.NoteIn(&args);
  while (args.at < args.count) {
    table.select(&args);
    candidates.Drop(&args);
  }
  for (int64_t i = 0; i < selection.taken; ++i) {
    const int32_t position = candidates.PositionOf(i);
    selection.positions[i] = position;
    selection.values[i] = candidates.ValueOf(i);
    selection.new_residual[position] = 0;
    if (selection.velocity != nullptr && selection.masking) selection.new_velocity[position] = 0;
  }
}

void Select(const Selection& selection) {
  cpu::Select(cpu::ActiveTable(), selection);
}

bool Spread(const Pairs& pairs, float factor, int64_t count, float* output) {
  const auto is_outside = [count](int32_t at) { return at < 0 || at >= count; };
  const int32_t* const end = pairs.positions + pairs.count;
  if (std::any_of(pairs.positions, end, is_outside)) return false;
  std::memset(output, 0, static_cast<size_t>(count) * sizeof(float));
  for (int64_t i = 0; i < pairs.count; ++i) output[pairs.positions[i]] += pairs.values[i];
  if (factor == 1) return true;
  // In two passes, because a position that occurs twice is multiplied once.
  std::vector<float> sums(static_cast<size_t>(pairs.count));
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = output[pairs.positions[i]];
  for (size_t i = 0; i < sums.size(); ++i) output[pairs.positions[i]] = sums[i] * factor;
  return true;
}

}  // namespace hvdlite::kernels
