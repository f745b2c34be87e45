// From agreed responses to a batch that a communicator can perform: looks up this rank's tensors,
// allocates results whose size only the agreement told, and stands in with zeros where this rank
// has joined.
#pragma once

#include <map>
#include <memory>

#include "engine/process_set.h"

namespace hvdlite::engine {

// For each producing stream: the event behind its work so far, recorded once per call of the
// user's.
using ProducerEvents = std::map<device::Stream, device::EventPtr>;

// From what a caller asks for to an entry with a handle, in the caller's thread. For a tensor on a
// GPU it allocates the result if its shape is known, so that a lack of memory fails this call
// alone.
Status MakeEntry(const ProcessSet& set, comm::gpu::Card* card, Submission submission, bool patient,
                 ProducerEvents* produced_by, std::unique_ptr<Entry>* entry);

// Fills running->batch, entries and scratch. running->responses are complete (slots already looked
// up). Fails with kIo when there is no memory. A lack of memory on the GPU is noted in
// running->batch.obstacle.
Status Prepare(ProcessSet* set, Running* running, comm::gpu::Card* card);

}  // namespace hvdlite::engine
