#include "comm/shm/fast_in_place.h"

#include <cstring>

#include "comm/shm/in_place.h"

namespace hvdlite::comm::shm {

FastInPlace::~FastInPlace() {
  if (!lends_) return;
  if (accepted_ && !AllFinished()) {
    GiveUp();
  } else {
    shared_.peers->own()->EndLending();
  }
}

void FastInPlace::GiveUp() {
  shared_.peers->own()->Retire();
  shared_.peers->own()->EndLending();
  lends_ = false;
}

bool FastInPlace::Lend(void* tensor) {
  pool::Segment* const own = shared_.peers->own();
  if (own == nullptr) return false;
  own->BeginLending();
  lends_ = true;
  mine_ = shared_.peers->Lend(tensor, bytes_);
  return mine_ >= 0;
}

void FastInPlace::Offer() {
  memcpy(exchange_.Tensor(exchange_.me(), sizeof(mine_)), &mine_, sizeof(mine_));
}

Status FastInPlace::Accept() {
  accepted_ = true;
  for (int m = 0; m < exchange_.members(); ++m) {
    int64_t place = -1;
    memcpy(&place, exchange_.Tensor(m, sizeof(place)), sizeof(place));
    const int local = shared_.local_ranks[static_cast<size_t>(m)];
    tensors_.push_back(shared_.peers->At(local, place, bytes_));
    if (tensors_.back() == nullptr) return PeerAddresses::OutsideItsMemory(local);
  }
  return Status::Ok();
}

void FastInPlace::Reduce(const kernels::ReduceSpec& spec) {
  const int members = exchange_.members();
  const size_t begin = ShareBegin(bytes_, members, exchange_.me());
  const size_t end = ShareBegin(bytes_, members, exchange_.me() + 1);
  for (char*& tensor : tensors_) tensor += begin;
  const std::vector<const void*> sources(tensors_.begin(), tensors_.end());
  kernels::Reduce(spec, tensors_[0], tensors_[1], sources.data(), members,
                  static_cast<int64_t>((end - begin) / SizeOf(spec.dtype)));
  for (size_t m = 2; m < tensors_.size(); ++m) memcpy(tensors_[m], tensors_[0], end - begin);
  exchange_.Finish();
}

}  // namespace hvdlite::comm::shm
