// Status: how everything below bindings/ reports failure. No exceptions cross these layers.
//
// An OK status is one null pointer, so it is cheap to return, to copy and to test. Thread-safety:
// immutable after construction; copies may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hvdlite {

// The order is part of the C ABI (api/hvdlite.h) and of the wire format: append only.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,  // the caller's mistake, seen on this rank alone  -> ValueError
  kNotInitialized = 2,   // init() has not been called                     -> NotInitializedError
  kMismatch = 3,         // ranks disagree about one operation             -> MismatchError
  kPeerLost = 4,         // a rank died, froze or left                     -> PeerLostError
  kShutDown = 5,         // this job is closing                            -> ShutDownError
  kTimeout = 6,          // a deadline passed                              -> TimeoutError
  kIo = 7,               // a system call failed (socket, mapping, file)  -> HorovodInternalError
  kUnsupported = 8,      // a legal request that nothing here implements   -> NotImplementedError
  kInternal = 9,         // our bug                                        -> HorovodInternalError
  kDuplicateName = 10,   // the name belongs to an operation in flight     -> DuplicateNameError
};
constexpr uint8_t kStatusCodeCount = 11;

const char* StatusCodeName(StatusCode code);

// Why a rank is lost. The order is part of the C ABI and of the wire format: append only.
enum class Cause : uint8_t {
  kUnknown = 0,
  kDied = 1,     // its process has ended without shutdown()
  kClosed = 2,   // it has closed its connection: its process has ended or given up
  kSilent = 3,   // it gives no sign of life
  kNetwork = 4,  // the network between two ranks
  kDamaged = 5,  // what comes from it has changed on the way
  kFailed = 6,   // it has said that it fails
  kEnded = 7,    // whoever started the job has ended it
};
constexpr uint8_t kCauseCount = 8;

class [[nodiscard]] Status {
 public:
  static constexpr int kNoPeer = -1;
  // More ranks are not kept.
  static constexpr size_t kMostRanks = 64;

  Status() = default;
  Status(StatusCode code, std::string message, int peer = kNoPeer)
      : Status(code, std::move(message), Cause::kUnknown,
               peer == kNoPeer ? std::vector<int>() : std::vector<int>{peer}) {}
  Status(StatusCode code, std::string message, Cause cause, std::vector<int> ranks)
      : rep_(std::make_shared<const Rep>(
            Rep{code, cause, AtMost(std::move(ranks)), std::move(message)})) {}

  static Status Ok() { return Status(); }
  static Status InvalidArgument(std::string m) {
    return {StatusCode::kInvalidArgument, std::move(m)};
  }
  static Status NotInitialized(std::string m) {
    return {StatusCode::kNotInitialized, std::move(m)};
  }
  static Status Mismatch(std::string m) { return {StatusCode::kMismatch, std::move(m)}; }
  static Status PeerLost(int peer, std::string m) {  // nobody knows why
    return {StatusCode::kPeerLost, std::move(m), peer};
  }
  static Status PeerLost(Cause cause, std::vector<int> ranks, std::string m) {
    return {StatusCode::kPeerLost, std::move(m), cause, std::move(ranks)};
  }
  static Status ShutDown(std::string m) { return {StatusCode::kShutDown, std::move(m)}; }
  static Status Timeout(std::string m) { return {StatusCode::kTimeout, std::move(m)}; }
  static Status Io(std::string m) { return {StatusCode::kIo, std::move(m)}; }
  static Status Unsupported(std::string m) { return {StatusCode::kUnsupported, std::move(m)}; }
  static Status Internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }
  static Status DuplicateName(std::string m) { return {StatusCode::kDuplicateName, std::move(m)}; }
  // `what: strerror(errno)`; pass errno explicitly so that a log line cannot change it in between.
  static Status FromErrno(const std::string& what, int error);

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  const std::string& message() const;
  // The global rank that caused the failure, or kNoPeer.
  int peer() const { return ranks().empty() ? kNoPeer : ranks().front(); }
  Cause cause() const { return rep_ ? rep_->cause : Cause::kUnknown; }
  // The global ranks concerned: the lost one; if the cause lies between two, the one that has
  // noticed it; then others that this one does not reach either.
  const std::vector<int>& ranks() const;
  std::string ToString() const;

 private:
  struct Rep {
    StatusCode code;
    Cause cause;
    std::vector<int> ranks;
    std::string message;
  };
  static std::vector<int> AtMost(std::vector<int> ranks) {
    if (ranks.size() > kMostRanks) ranks.resize(kMostRanks);
    return ranks;
  }
  std::shared_ptr<const Rep> rep_;
};

}  // namespace hvdlite

// Return early with the status of `expr` unless it is OK.
#define HVDLITE_RETURN_IF_ERROR(expr)                  \
  do {                                                 \
    ::hvdlite::Status hvdlite_status_ = (expr);        \
    if (!hvdlite_status_.ok()) return hvdlite_status_; \
  } while (false)
