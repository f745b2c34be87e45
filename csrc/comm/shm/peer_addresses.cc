#include "comm/shm/peer_addresses.h"

#include <cstring>
#include <string>

namespace hvdlite::comm::shm {

PeerAddresses::PeerAddresses(Region* region, const SharedTensors& shared, const Batch& batch)
    : region_(region),
      step_(region->next_step++),
      shared_(shared),
      batch_(batch),
      offsets_(batch.pieces.size() * Members()) {}

PeerAddresses::~PeerAddresses() {
  if (!lends_) return;
  if (!AllReleased()) shared_.peers->own()->Retire();
  StopLending();
}

size_t PeerAddresses::BytesOf(size_t piece) const {
  return static_cast<size_t>(batch_.pieces[piece].count) * SizeOf(batch_.dtype);
}

Progress PeerAddresses::Ask() {
  if (!published_) {
    if (step_ >= Region::kSlots && !region_->AllReached(Flag::kOut, step_ + 1 - Region::kSlots))
      return Progress::kNone;
    PublishMine();
    published_ = true;
    return Progress::kSome;
  }
  if (!region_->AllReached(Flag::kIn, step_ + 1)) return Progress::kNone;
  status_ = ReadAll();
  return status_.ok() ? Progress::kDone : Progress::kFailed;
}

void PeerAddresses::StopLending() {
  shared_.peers->own()->EndLending();
  lends_ = false;
}

void PeerAddresses::PublishMine() {
  lends_ = shared_.peers->own() != nullptr;
  if (lends_) shared_.peers->own()->BeginLending();
  int64_t* const mine = TableOf(static_cast<size_t>(region_->me()));
  bool lent = false;
  for (size_t i = 0; i < batch_.pieces.size(); ++i) {
    const Piece& piece = batch_.pieces[i];
    const bool in_place = piece.input == piece.output && piece.count > 0;
    mine[i] = in_place ? shared_.peers->Lend(piece.output, BytesOf(i)) : -1;
    lent |= mine[i] >= 0;
  }
  if (lends_ && !lent) StopLending();
  memcpy(region_->Slot(region_->me(), step_), mine, batch_.pieces.size() * sizeof(int64_t));
  region_->Post(Flag::kIn, step_ + 1);
}

// Reads all tables, once.
Status PeerAddresses::ReadAll() {
  const size_t bytes = batch_.pieces.size() * sizeof(int64_t);
  for (size_t m = 0; m < Members(); ++m) {
    if (static_cast<int>(m) == region_->me()) continue;
    memcpy(TableOf(m), region_->Slot(static_cast<int>(m), step_), bytes);
  }
  region_->Post(Flag::kOut, step_ + 1);
  for (size_t i = 0; i < batch_.pieces.size(); ++i) {
    if (!Shares(i)) continue;
    any_ = true;
    for (size_t m = 0; m < Members(); ++m) {
      if (Tensor(m, i) != nullptr) continue;
      return OutsideItsMemory(shared_.local_ranks[m]);
    }
  }
  if (lends_ && !any_) StopLending();
  return Status::Ok();
}

Status PeerAddresses::OutsideItsMemory(int local_rank) {
  return Status::Internal("local rank " + std::to_string(local_rank) +
                          " named a tensor outside its shared memory; do all ranks run the same "
                          "version of hvdlite?");
}

bool PeerAddresses::Shares(size_t piece) const {
  for (size_t m = 0; m < Members(); ++m) {
    if (offsets_[m * batch_.pieces.size() + piece] < 0) return false;
  }
  return true;
}

char* PeerAddresses::Tensor(size_t member, size_t piece) const {
  return shared_.peers->At(shared_.local_ranks[member],
                           offsets_[member * batch_.pieces.size() + piece], BytesOf(piece));
}

}  // namespace hvdlite::comm::shm
