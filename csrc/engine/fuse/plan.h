// Decides which ready operations form one batch. DECIDES; pure.
//
// Operations of the same kind, dtype, reduction, scale factors, codec and root are put into one
// batch until it holds `threshold` bytes. Others start another batch and do not stop the first from
// growing (look-ahead). In host memory, tensors that travel whole join encoded or sparse ones.
// Members of a group stay together whatever their size, but each tensor of an Adasum is a batch of
// its own. Only one member of the set runs this, so all members execute the same batches because
// they are told, not because they compute alike.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/message.h"

namespace hvdlite::engine {

struct FuseOptions {
  int64_t threshold = 128 << 20;  // bytes; 0 turns fusion off
  bool groups_alone = false;      // a group never shares a batch with others
};

// Indices into `ready`, batch by batch, in order of execution.
std::vector<std::vector<size_t>> Plan(const std::vector<AgreedPtr>& ready,
                                      const FuseOptions& options);

}  // namespace hvdlite::engine
