#include "engine/observe/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace hvdlite::engine {

Status TraceFile::Open(const std::string& path) {
  path_ = path;
  file_.Reset(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file_.valid())
    return Status::FromErrno("cannot write the timeline to '" + path + "'", errno);
  end_ = 2;
  if (Write("[\n]", 0)) return Status::Ok();
  return Status::FromErrno("cannot write the timeline to '" + path + "'", errno);
}

Status TraceFile::Append(std::string_view elements) {
  const auto bytes = static_cast<int64_t>(elements.size());
  if (end_ + bytes >= most_) {
    return Status::Io("the timeline '" + path_ + "' has reached " + std::to_string(most_ >> 20) +
                      " MB (HVDLITE_TIMELINE_MEGABYTES) and ends here; hvd.start_timeline() "
                      "begins another one");
  }
  if (Write(std::string(elements) + "]", end_)) {
    end_ += bytes;
    return Status::Ok();
  }
  const Status failed = Status::FromErrno(
      "the timeline '" + path_ + "' ends here, because it cannot be written any more", errno);
  // What a full disk has taken in part goes again, so the bracket has a place.
  if (ftruncate(file_.get(), end_) == 0) Write("]", end_);
  return failed;
}

bool TraceFile::Write(std::string_view text, int64_t at) const {
  return WriteAll(file_.get(), text.data(), text.size(), static_cast<size_t>(at));
}

}  // namespace hvdlite::engine
