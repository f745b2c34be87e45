#include "base/status.h"

#include <cstring>

namespace hvdlite {

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kNotInitialized: return "not initialized";
    case StatusCode::kMismatch: return "mismatch";
    case StatusCode::kPeerLost: return "peer lost";
    case StatusCode::kShutDown: return "shut down";
    case StatusCode::kTimeout: return "timeout";
    case StatusCode::kIo: return "i/o error";
    case StatusCode::kUnsupported: return "unsupported";
    case StatusCode::kInternal: return "internal error";
    case StatusCode::kDuplicateName: return "duplicate name";
  }
  return "unknown";
}

Status Status::FromErrno(const std::string& what, int error) {
  char buffer[128];
  // The GNU strerror_r may return a static string instead of filling the buffer.
  return Io(what + ": " + strerror_r(error, buffer, sizeof(buffer)));
}

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

const std::vector<int>& Status::ranks() const {
  static const std::vector<int> none;
  return rep_ ? rep_->ranks : none;
}

std::string Status::ToString() const {
  return ok() ? "ok" : std::string(StatusCodeName(code())) + ": " + message();
}

}  // namespace hvdlite
