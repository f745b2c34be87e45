// How an error travels through a framework's runtime, which knows nothing of ours: as a text that
// begins with the name of the Python exception and the rank to blame. hvdlite/adapter/failures.py
// makes the exception from it again.
#pragma once

#include <string>

#include "api/hvdlite.h"

namespace hvdlite::ingraph {

inline const char* ExceptionName(hvdlite_code code) {
  switch (code) {
    case HVDLITE_INVALID_ARGUMENT: return "ValueError";
    case HVDLITE_NOT_INITIALIZED: return "NotInitializedError";
    case HVDLITE_MISMATCH: return "MismatchError";
    case HVDLITE_PEER_LOST: return "PeerLostError";
    case HVDLITE_SHUT_DOWN: return "ShutDownError";
    case HVDLITE_TIMEOUT: return "TimeoutError";
    case HVDLITE_UNSUPPORTED: return "NotImplementedError";
    case HVDLITE_DUPLICATE_NAME: return "DuplicateNameError";
    default: return "HorovodInternalError";
  }
}

// The last error of this thread.
inline std::string DescribeFailure(hvdlite_code code) {
  const int32_t peer = hvdlite_last_error_peer();
  const std::string who = peer < 0 ? "" : " (rank " + std::to_string(peer) + ")";
  return "hvdlite." + std::string(ExceptionName(code)) + who + ": " + hvdlite_last_error();
}

}  // namespace hvdlite::ingraph
