// Collectives of messages between each two members.
//
//   direct     phase 0: each member sends its part of a block to the block's owner, which sums them
//              phase 1: the owner sends the sum to all (not in a reducescatter)
//   one-shot   the same, where each member owns everything, and no phase 1: for small tensors
//   pairwise   nothing is summed: each member sends its own part to each receiver
//
// In place (output = input) the first two are safe: phase 1 begins when phase 0 has ended,
// including its sends, so a result overwrites only bytes that have been sent.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "comm/layout.h"
#include "comm/mpi/algorithms.h"
#include "comm/reduction.h"

namespace hvdlite::comm::mpi {

namespace {

constexpr int kContribution = 1;
constexpr int kResult = 2;
constexpr int kBlock = 3;

size_t RoundsFor(size_t bytes, size_t chunk) {
  return (bytes + chunk - 1) / chunk;
}

// The i-th peer of `me`. Each member begins with another peer.
int Other(const Channel& channel, int i) {
  return (channel.me() + 1 + i) % channel.size();
}

size_t Widest(const std::vector<Cursor>& blocks) {
  size_t widest = 0;
  for (const Cursor& block : blocks) widest = std::max(widest, block.end - block.at);
  return widest;
}

class Direct final : public Rounds {
 public:
  // Each member sums one of `blocks`.
  Direct(const Context& context, Reduction reduction, std::vector<Cursor> blocks, bool tell_all)
      : Rounds(context.slots, RoundsFor(Widest(blocks), ChunkOf(blocks, context.chunk)),
               tell_all ? 2 : 1),
        channel_(*context.channel),
        reduction_(std::move(reduction)),
        chunk_(ChunkOf(blocks, context.chunk)),
        blocks_(std::move(blocks)) {
    const size_t at_once = std::min(kDepth, RoundsFor(Widest(blocks_), chunk_));
    for (size_t slot = 0; slot < at_once; ++slot) contributions_[slot].resize(blocks_.size());
  }

 protected:
  Status Post(size_t round, int phase, Slot* slot) override {
    return phase == 0 ? Contribute(round, slot) : Tell(round, slot);
  }

  void Finish(size_t round, int phase, Slot*) override {
    const Cursor mine = Part(channel_.me(), round);
    if (phase == 0)
      reduction_.Reduce(channel_.me(), contributions_[round % kDepth], mine.at, mine.end);
  }

 private:
  Cursor Part(int member, size_t round) const {
    return Chunk(blocks_[static_cast<size_t>(member)], round, chunk_);
  }

  // With two rounds, overlapping would gain less than a second message costs: 4 MiB on two ranks
  // took a fifth longer.
  static size_t ChunkOf(const std::vector<Cursor>& blocks, size_t chunk) {
    const size_t widest = Widest(blocks);
    return widest <= 2 * chunk ? std::max<size_t>(widest, 1) : chunk;
  }

  Status Contribute(size_t round, Slot* slot) {
    const Cursor mine = Part(channel_.me(), round);
    for (int i = 0; i + 1 < channel_.size(); ++i) {
      const int from = Other(channel_, channel_.size() - 2 - i);
      char* const place = slot->Memory(mine.end - mine.at);
      contributions_[round % kDepth][static_cast<size_t>(from)] = place;
      HVDLITE_RETURN_IF_ERROR(slot->ReceiveInto(place, mine.end - mine.at, from, kContribution));
    }
    for (int i = 0; i + 1 < channel_.size(); ++i) {
      const int to = Other(channel_, i);
      HVDLITE_RETURN_IF_ERROR(slot->Send(reduction_.in(), Part(to, round), to, kContribution));
    }
    return Status::Ok();
  }

  Status Tell(size_t round, Slot* slot) {
    const Cursor mine = Part(channel_.me(), round);
    const char* const result = mine.done() ? nullptr : slot->Gather(reduction_.out(), mine);
    for (int i = 0; i + 1 < channel_.size(); ++i) {
      const int from = Other(channel_, channel_.size() - 2 - i);
      HVDLITE_RETURN_IF_ERROR(slot->Receive(reduction_.out(), Part(from, round), from, kResult));
    }
    for (int i = 0; i + 1 < channel_.size(); ++i) {
      HVDLITE_RETURN_IF_ERROR(
          slot->SendFrom(result, mine.end - mine.at, Other(channel_, i), kResult));
    }
    return Status::Ok();
  }

  const Channel& channel_;
  const Reduction reduction_;
  const size_t chunk_;
  const std::vector<Cursor> blocks_;
  std::array<std::vector<const char*>, kDepth> contributions_;  // by slot, by member
};

class Pairwise final : public Rounds {
 public:
  // `give`: the stretch of `source` for each member. `take`: the place in `target` of each member's
  // stretch. The own entries are copied.
  Pairwise(const Context& context, Flat source, std::vector<Cursor> give, Flat target,
           std::vector<Cursor> take)
      : Rounds(context.slots, RoundsFor(std::max(Widest(give), Widest(take)), context.chunk), 1),
        context_(context),
        channel_(*context.channel),
        source_(std::move(source)),
        target_(std::move(target)),
        give_(std::move(give)),
        take_(std::move(take)) {}

 protected:
  Status Post(size_t round, int, Slot* slot) override {
    for (int i = 0; i + 1 < channel_.size(); ++i) {
      const int from = Other(channel_, channel_.size() - 2 - i);
      HVDLITE_RETURN_IF_ERROR(slot->Receive(target_, Part(take_, from, round), from, kBlock));
    }
    Cursor last;
    const char* data = nullptr;
    for (int i = 0; i + 1 < channel_.size(); ++i) {
      const int to = Other(channel_, i);
      const Cursor part = Part(give_, to, round);
      if (part.done()) continue;
      // An allgather sends the same stretch to all, so it is copied together only once.
      if (data == nullptr || part.at != last.at || part.end != last.end)
        data = slot->Gather(source_, part);
      last = part;
      HVDLITE_RETURN_IF_ERROR(slot->SendFrom(data, part.end - part.at, to, kBlock));
    }
    return Status::Ok();
  }

  void Finish(size_t round, int, Slot*) override {
    const Cursor from = Part(give_, channel_.me(), round);
    const Cursor to = Part(take_, channel_.me(), round);
    Copy(source_, from.at, target_, to.at, to.end - to.at);
  }

 private:
  Cursor Part(const std::vector<Cursor>& blocks, int member, size_t round) const {
    return Chunk(blocks[static_cast<size_t>(member)], round, context_.chunk);
  }

  const Context context_;
  const Channel& channel_;
  const Flat source_;
  const Flat target_;
  const std::vector<Cursor> give_;
  const std::vector<Cursor> take_;
};

}  // namespace

std::unique_ptr<Work> OneShotAllreduce(const Context& context, const Batch& batch) {
  Reduction reduction(batch);
  const std::vector<Cursor> all(static_cast<size_t>(context.channel->size()),
                                Cursor{0, reduction.in().size()});
  return std::make_unique<Direct>(context, std::move(reduction), all, /*tell_all=*/false);
}

std::unique_ptr<Work> DirectAllreduce(const Context& context, const Batch& batch) {
  return std::make_unique<Direct>(context, Reduction(batch),
                                  BlocksOf(EvenBlocks(batch, context.channel->size())),
                                  /*tell_all=*/true);
}

std::unique_ptr<Work> DirectReducescatter(const Context& context, const Batch& batch) {
  const int me = context.channel->me();
  const int size = context.channel->size();
  Layout in = AllBlocks(batch, size, /*outputs=*/false);
  Layout out = OwnBlock(batch, size, me, /*outputs=*/true);
  return std::make_unique<Direct>(
      context, Reduction(batch, std::move(in.flat), std::move(out.flat)), BlocksOf(in.begin),
      /*tell_all=*/false);
}

std::unique_ptr<Work> PairwiseAllgather(const Context& context, const Batch& batch) {
  const int me = context.channel->me();
  const int size = context.channel->size();
  Layout in = OwnBlock(batch, size, me, /*outputs=*/false);
  Layout out = AllBlocks(batch, size, /*outputs=*/true);
  std::vector<Cursor> give(static_cast<size_t>(size), in.Block(me));
  return std::make_unique<Pairwise>(context, std::move(in.flat), std::move(give),
                                    std::move(out.flat), BlocksOf(out.begin));
}

std::unique_ptr<Work> PairwiseAlltoall(const Context& context, const Batch& batch) {
  const int me = context.channel->me();
  const int size = context.channel->size();
  Layout sent = SentBlocks(batch, size, me);
  Layout received = ReceivedBlocks(batch, size, me);
  return std::make_unique<Pairwise>(context, std::move(sent.flat), BlocksOf(sent.begin),
                                    std::move(received.flat), BlocksOf(received.begin));
}

}  // namespace hvdlite::comm::mpi
