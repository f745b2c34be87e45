// Makes a batch that a communicator can perform from agreed responses. It looks up this rank's
// tensors, allocates results whose size only the agreement determines, and uses zeros for a joined
// rank.
#pragma once

#include <map>
#include <memory>

#include "engine/process_set.h"

namespace hvdlite::engine {

// For each producing stream, the event after its work so far. Each is recorded once per call of the
// user.
using ProducerEvents = std::map<device::Stream, device::EventPtr>;

// Makes an entry with a handle from a submission, in the caller's thread. For a tensor on a GPU it
// allocates the result if its shape is known. So a lack of memory fails this call alone.
Status MakeEntry(const ProcessSet& set, comm::gpu::Card* card, Submission submission, bool patient,
                 ProducerEvents* produced_by, std::unique_ptr<Entry>* entry);

// How the members' tensors are combined.
kernels::ReduceSpec ReductionOf(const Request& request, int members);

// Fills running->batch, entries and scratch. running->responses are complete (slots are already
// looked up). Fails with kIo when there is no memory. A lack of memory on the GPU is recorded in
// running->batch.obstacle.
Status Prepare(ProcessSet* set, Running* running, comm::gpu::Card* card);

// The request for one tensor of the batch, as if it travelled alone.
Request RequestOfPiece(const Running& running, size_t piece);

}  // namespace hvdlite::engine
