#include "comm/communicator.h"

#include "comm/encoded_allreduce.h"
#include "comm/exchanges.h"
#include "comm/sparse_allreduce.h"

namespace hvdlite::comm {

std::unique_ptr<Exchanges> Communicator::StartExchanges() {
  return std::make_unique<OneByOne>(this);
}

std::unique_ptr<Work> Communicator::StartEncoded(const Batch& batch, int me, int members) {
  return EncodedAllreduce(this, &encoded_, carried_, batch, me, members);
}

std::unique_ptr<Work> Communicator::StartSparse(const Batch& batch, int me, int members) {
  return SparseAllreduce(this, &encoded_, carried_, batch, me, members);
}

}  // namespace hvdlite::comm
