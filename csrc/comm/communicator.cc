#include "comm/communicator.h"

#include "comm/encoded_allreduce.h"

namespace hvdlite::comm {

std::unique_ptr<Work> Communicator::StartEncoded(const Batch& batch, int me, int members) {
  return EncodedAllreduce(this, &encoded_, carried_, batch, me, members);
}

}  // namespace hvdlite::comm
