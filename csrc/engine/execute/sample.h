// A digest of a part of a result that all members of a process set should have alike.
#pragma once

#include <cstdint>
#include <optional>

#include "comm/batch.h"

namespace hvdlite::engine {

// Of an allreduce in host memory that is done; nothing of another batch. `number` picks the tensor
// and the place in it, so members that pass the same number take the same sample. At most 1 KiB is
// read. All samples with a NaN have the same digest, because the bits of a NaN may differ.
std::optional<uint64_t> DigestOfSample(const comm::Batch& batch, uint64_t number);

}  // namespace hvdlite::engine
