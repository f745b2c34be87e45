// From agreed responses to a batch that a communicator can perform: looks up this rank's tensors,
// allocates results whose size only the agreement told, and stands in with zeros where this rank
// has joined.
#pragma once

#include "engine/process_set.h"

namespace hvdlite::engine {

// Fills running->batch, entries and scratch. running->responses are complete (slots already looked
// up). Fails with kIo when there is no memory. A lack of memory on the GPU is noted in
// running->batch.obstacle.
Status Prepare(ProcessSet* set, Running* running, comm::gpu::Card* card);

}  // namespace hvdlite::engine
