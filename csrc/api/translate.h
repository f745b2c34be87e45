// Converts between the structs of hvdlite.h and the engine's. Stateless.
#pragma once

#include "api/hvdlite.h"
#include "engine/engine.h"

namespace hvdlite::api {

Status ReadOptions(const hvdlite_init_options& in, engine::EngineOptions* out);
// From now on the secret is that of the generation, if the job is elastic.
void EnterGeneration(const hvdlite_generation* in, engine::EngineOptions* out);

// Converts everything but the name. Checks what this rank alone can check.
Status Describe(engine::Engine* engine, const hvdlite_operation& operation,
                engine::Submission* submission);

// Wraps a caller's C callbacks.
engine::Completion ToCompletion(const hvdlite_completion& asked);
// Whether the submission may have a callback. A callback has no stream that could wait for a GPU.
Status CheckTold(const engine::Submission& submission);

// The result of a handle that is done and OK. Points into the handle.
hvdlite_result ToResult(const engine::Handle& handle);

}  // namespace hvdlite::api
