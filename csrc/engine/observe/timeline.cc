#include "engine/observe/timeline.h"

#include <cerrno>
#include <chrono>

#include "base/thread.h"

namespace hvdlite::engine {
namespace {

// What comes within this is written at once. A job that is killed loses so much.
constexpr Nanos kGather = 20 * kMillisecond;

std::string Quote(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char escape[8];
      snprintf(escape, sizeof(escape), "\\u%04x", c);
      out += escape;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

std::string Microseconds(Nanos span) {
  char text[32];
  snprintf(text, sizeof(text), "%.3f", static_cast<double>(span) / 1000.0);
  return text;
}

}  // namespace

Status Timeline::Start(const std::string& path, bool mark_cycles, int rank) {
  MutexLock life(life_mutex_);
  MutexLock lock(mutex_);
  if (on_) return Status::InvalidArgument("the timeline is being written already; call stop_timeline() first");
  file_ = fopen(path.c_str(), "w");
  if (file_ == nullptr) return Status::FromErrno("cannot write the timeline to '" + path + "'", errno);
  started_ = MonotonicNow();
  processes_.clear();
  pending_.clear();
  first_ = true;
  stopping_ = false;
  const auto epoch =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch());
  Append("{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"name\": \"rank " + std::to_string(rank) +
         "\", \"start_time_since_epoch_in_micros\": " + std::to_string(epoch.count()) + "}}");
  Append("{\"name\": \"process_sort_index\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"sort_index\": 0}}");
  mark_cycles_ = mark_cycles;
  on_ = true;
  writer_ = std::thread([this] { Write(); });
  return Status::Ok();
}

void Timeline::Stop() {
  MutexLock life(life_mutex_);
  {
    MutexLock lock(mutex_);
    if (!on_) return;
    on_ = false;
    stopping_ = true;
    changed_.NotifyAll();
  }
  writer_.join();
}

void Timeline::Write() {
  NameThisThread("hvdlite-trace");
  fputs("[\n]", file_);
  for (bool last = false; !last;) {
    std::string events;
    {
      MutexLock lock(mutex_);
      while (pending_.empty() && !stopping_) changed_.WaitFor(mutex_, kSecond);
      if (!stopping_) changed_.WaitFor(mutex_, kGather);
      events.swap(pending_);
      last = stopping_;
    }
    if (events.empty()) continue;
    // Overwrites the closing bracket, and closes again.
    fseek(file_, -1, SEEK_END);
    fwrite(events.data(), 1, events.size(), file_);
    fputc(']', file_);
    fflush(file_);
  }
  fclose(file_);
}

void Timeline::Append(const std::string& event) {
  if (pending_.empty()) changed_.NotifyAll();
  pending_ += first_ ? "" : ",\n";
  pending_ += event;
  first_ = false;
}

int Timeline::Process(const std::string& tensor) {
  const auto [found, fresh] = processes_.try_emplace(tensor, static_cast<int>(processes_.size()) + 1);
  if (fresh) {
    const std::string pid = std::to_string(found->second);
    Append("{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": " + pid + ", \"args\": {\"name\": " + Quote(tensor) +
           "}}");
    Append("{\"name\": \"process_sort_index\", \"ph\": \"M\", \"pid\": " + pid + ", \"args\": {\"sort_index\": " + pid +
           "}}");
  }
  return found->second;
}

void Timeline::Event(const std::string& tensor, char kind, const std::string& name, Nanos now,
                     const std::string& more) {
  if (!on_) return;
  std::string event = "{\"ph\": \"";
  event += kind;
  event += "\", \"pid\": " + std::to_string(Process(tensor)) + ", \"tid\": 0, \"ts\": " + Microseconds(now - started_);
  if (!name.empty()) event += ", \"name\": " + Quote(name);
  Append(event + more + "}");
}

void Timeline::Begin(const std::string& tensor, const std::string& phase, Nanos now) {
  MutexLock lock(mutex_);
  Event(tensor, 'B', phase, now, "");
}

void Timeline::End(const std::string& tensor, Nanos now, const std::string& args) {
  MutexLock lock(mutex_);
  Event(tensor, 'E', "", now, args.empty() ? "" : ", \"args\": " + args);
}

void Timeline::Mark(const std::string& tensor, const std::string& what, Nanos now) {
  MutexLock lock(mutex_);
  Event(tensor, 'X', what, now, ", \"dur\": 0");
}

void Timeline::MarkCycle(Nanos now) {
  MutexLock lock(mutex_);
  if (on_)
    Append("{\"ph\": \"i\", \"name\": \"CYCLE_START\", \"s\": \"g\", \"pid\": 0, \"ts\": " +
           Microseconds(now - started_) + "}");
}

}  // namespace hvdlite::engine
