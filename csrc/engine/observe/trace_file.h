// TraceFile: a file with a JSON array that grows and is complete after each Append, so that a job
// that dies leaves a file that can be read.
//
// Thread-safety: one thread at a time. Blocking: as long as the disk does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/status.h"

namespace hvdlite::engine {

class TraceFile {
 public:
  // `most_bytes`: how large the file may become.
  explicit TraceFile(int64_t most_bytes) : most_(most_bytes) {}

  // Makes the file, or empties it. kIo names it.
  Status Open(const std::string& path);
  // `elements`: some, with commas between them and, except for the first time, before them. If
  // they find no place, the file keeps what it has, and the failure says why.
  Status Append(std::string_view elements);
  void Close() { file_.Reset(); }

 private:
  bool Write(std::string_view text, int64_t at) const;

  const int64_t most_;
  std::string path_;
  Fd file_;
  int64_t end_ = 0;  // where the closing bracket is
};

}  // namespace hvdlite::engine
