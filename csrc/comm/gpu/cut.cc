#include "comm/gpu/cut.h"

#include <algorithm>
#include <utility>

#include "comm/layout.h"

namespace hvdlite::comm::gpu {

namespace {

size_t Length(const std::vector<Cursor>& stretches) {
  size_t bytes = 0;
  for (const Cursor& stretch : stretches) bytes += stretch.end - stretch.at;
  return bytes;
}

}  // namespace

Cut::Cut(const Batch& batch, int me, int members, size_t room)
    : kind_(batch.kind), element_(SizeOf(batch.dtype)) {
  if (batch.adasum) {
    CutWhole(batch, room);
  } else if (in_place()) {
    CutStraight(batch, me, room);
  } else {
    CutBlocks(batch, me, members, room);
  }
}

bool Cut::in_place() const {
  return ResultOf(kind_) == Result::kSame;
}

void Cut::CutWhole(const Batch& batch, size_t room) {
  source_ = Inputs(batch);
  target_ = Outputs(batch);
  whole_.push_back(0);
  first_.push_back(0);
  size_t filled = 0;
  for (size_t i = 0; i < batch.pieces.size(); ++i) {
    const size_t bytes = static_cast<size_t>(batch.pieces[i].count) * element_;
    if (filled > 0 && filled + bytes > room) {
      first_.push_back(i);
      filled = 0;
    }
    filled += bytes;
    largest_ = std::max(largest_, filled);
    whole_.push_back(whole_.back() + bytes);
  }
  rounds_ = whole_.back() == 0 ? 0 : first_.size();
  first_.push_back(batch.pieces.size());
}

void Cut::CutStraight(const Batch& batch, int me, size_t room) {
  source_ = Inputs(batch);
  target_ = Outputs(batch);
  const Cursor all{0, source_.size()};
  all_ = {all.end};
  part_ = std::max(room / element_ * element_, element_);
  rounds_ = (all.end + part_ - 1) / part_;
  largest_ = std::min(part_, all.end);
  const bool rooted = Has(batch.kind, kRooted);
  if (!rooted || me == batch.root) give_ = {all};
  // The root of a broadcast may have no output, or the input itself.
  bool takes = !rooted || me != batch.root;
  for (const Piece& piece : batch.pieces)
    takes |= piece.output != nullptr && piece.output != piece.input;
  if (takes) take_ = {all};
}

void Cut::CutBlocks(const Batch& batch, int me, int members, size_t room) {
  const Result result = ResultOf(batch.kind);
  const auto n = static_cast<size_t>(members);
  all_.assign(result == Result::kExchanged ? n * n : n, 0);
  Layout in, out;
  if (result == Result::kExchanged) {
    in = SentBlocks(batch, members, me);
    out = ReceivedBlocks(batch, members, me);
  } else if (result == Result::kGathered) {
    in = OwnBlock(batch, members, me, /*outputs=*/false);
    out = AllBlocks(batch, members, /*outputs=*/true);
  } else {
    in = AllBlocks(batch, members, /*outputs=*/false);
    out = OwnBlock(batch, members, me, /*outputs=*/true);
  }
  give_ = result == Result::kGathered ? std::vector<Cursor>{in.Block(me)} : BlocksOf(in.begin);
  take_ = result == Result::kShared ? std::vector<Cursor>{out.Block(me)} : BlocksOf(out.begin);
  for (const Piece& piece : batch.pieces) {
    for (size_t i = 0; i < all_.size(); ++i)
      all_[i] += static_cast<size_t>(piece.counts[i]) * element_;
  }
  const size_t longest = *std::max_element(all_.begin(), all_.end());
  part_ = std::max(room / static_cast<size_t>(members) / element_ * element_, element_);
  rounds_ = (longest + part_ - 1) / part_;
  largest_ = std::min(part_, longest) * static_cast<size_t>(members);
  source_ = std::move(in.flat);
  target_ = std::move(out.flat);
}

Round Cut::At(size_t round) const {
  Round result;
  if (!whole_.empty()) {
    const size_t begin = first_[round];
    const size_t end = first_[round + 1];
    result.give = result.take = {{whole_[begin], whole_[end]}};
    for (size_t i = begin; i < end; ++i) {
      result.pieces.emplace_back();
      result.pieces.back().count = static_cast<int64_t>((whole_[i + 1] - whole_[i]) / element_);
    }
  } else {
    for (const Cursor& block : give_) result.give.push_back(Chunk(block, round, part_));
    for (const Cursor& block : take_) result.take.push_back(Chunk(block, round, part_));
    Piece piece;
    for (size_t length : all_) {
      const Cursor part = Chunk({0, length}, round, part_);
      piece.counts.push_back(static_cast<int64_t>((part.end - part.at) / element_));
    }
    if (in_place()) {
      piece.count = piece.counts[0];
      piece.counts.clear();
    }
    result.pieces.push_back(std::move(piece));
  }
  result.give_bytes = Length(result.give);
  result.take_bytes = Length(result.take);
  return result;
}

}  // namespace hvdlite::comm::gpu
