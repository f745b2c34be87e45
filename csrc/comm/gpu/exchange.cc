#include "comm/gpu/exchange.h"

#include <utility>

namespace hvdlite::comm::gpu {

Exchange::Exchange(comm::Communicator* host, int members, std::string mine)
    : mine_(std::move(mine)), all_(mine_.size() * static_cast<size_t>(members), '\0') {
  batch_.kind = OpKind::kAllgather;
  Piece piece;
  piece.input = mine_.data();
  piece.output = all_.data();
  piece.counts.assign(static_cast<size_t>(members), static_cast<int64_t>(mine_.size()));
  batch_.pieces.push_back(std::move(piece));
  work_ = host->Start(batch_);
}

}  // namespace hvdlite::comm::gpu
