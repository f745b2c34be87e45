// Carries an error through a framework's runtime, which does not know hvdlite's errors, as a text.
// The text begins with the name of the Python exception and the rank that caused it.
// hvdlite/adapter/failures.py turns it into the exception again.
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

// Describes the last error of this thread.
inline std::string DescribeFailure(hvdlite_code code) {
  const int32_t peer = hvdlite_last_error_peer();
  const std::string who = peer < 0 ? "" : " (rank " + std::to_string(peer) + ")";
  return "hvdlite." + std::string(ExceptionName(code)) + who + ": " + hvdlite_last_error();
}

}  // namespace hvdlite::ingraph
