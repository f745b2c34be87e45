#include "engine/meeting.h"

#include <algorithm>
#include <utility>

namespace hvdlite::engine {
namespace {

// After a few rounds in vain, fewer and fewer operations are offered: a member always does
// something else, for example writes a timeline. Both members know the same rounds and rest at the
// same time.
constexpr int kInVain = 4;
constexpr int kLongestRest = 64;

}  // namespace

bool Meeting::MayOffer() {
  if (end_ != End::kNoOffer) return false;
  if (rest_ == 0) return true;
  --rest_;
  return false;
}

void Meeting::Offer(const Part& part) {
  part_ = part;
  end_ = End::kOpen;
  abandoned_ = false;
  mine_ = Said::kOffer;
  EndIfBothHaveSpoken({their_tensor_.data(), their_tensor_.size()});
}

void Meeting::Decline() {
  mine_ = Said::kDecline;
  EndIfBothHaveSpoken({});
}

bool Meeting::Heard(Topic topic, std::string_view tensor, Nanos now) {
  if (theirs_ != Said::kNothing || tensor.size() > kMostBytes) return false;
  theirs_ = Said::kOffer;
  their_topic_ = topic;
  heard_at_ = now;
  if (mine_ == Said::kNothing) {
    their_tensor_.assign(tensor.begin(), tensor.end());
  } else {
    EndIfBothHaveSpoken(tensor);
  }
  return true;
}

bool Meeting::HeardDecline() {
  if (theirs_ != Said::kNothing || mine_ == Said::kNothing) return false;
  theirs_ = Said::kDecline;
  EndIfBothHaveSpoken({});
  return true;
}

void Meeting::EndIfBothHaveSpoken(std::string_view theirs) {
  if (mine_ == Said::kNothing || theirs_ == Said::kNothing) return;
  const bool offered = mine_ == Said::kOffer;
  const bool performed = offered && theirs_ == Said::kOffer && their_topic_ == part_.topic &&
                         theirs.size() == part_.bytes;
  mine_ = theirs_ = Said::kNothing;
  in_vain_ = performed ? 0 : in_vain_ + 1;
  if (in_vain_ >= kInVain) rest_ = std::min(1 << std::min(in_vain_ - kInVain, 10), kLongestRest);
  if (!offered) return;
  if (performed && !abandoned_) {
    const void* tensors[2] = {part_.input, part_.input};
    tensors[1 - me_] = theirs.data();
    kernels::Reduce(part_.reduction, part_.output, nullptr, tensors, 2,
                    static_cast<int64_t>(part_.bytes / SizeOf(part_.reduction.dtype)));
  }
  end_ = performed ? End::kPerformed : End::kVoid;
  if (abandoned_) end_ = End::kNoOffer;
}

Meeting::End Meeting::TakeEnd() {
  return std::exchange(end_, End::kNoOffer);
}

void Meeting::Abandon() {
  if (end_ == End::kOpen) {
    abandoned_ = true;
  } else {
    end_ = End::kNoOffer;
  }
}

}  // namespace hvdlite::engine
