#include "engine/queue/inbox.h"

#include <string_view>
#include <unordered_set>

namespace hvdlite::engine {
namespace {

Status Duplicate(const Request& request) {
  return Status::DuplicateName(
      "Duplicate tensor name: " + Shown(request) +
      " is still outstanding on this rank. Wait for it with synchronize(), or give this "
      "one another name. (The first operation is not affected.)");
}

}  // namespace

Status Inbox::AddLocked(std::unique_ptr<Entry> entry) {
  Entry* const raw = entry.get();
  if (!outstanding_.try_emplace(raw->request.name, std::move(entry)).second)
    return Duplicate(raw->request);
  if (raw->request.kind == OpKind::kJoin) joining_ = true;
  submitted_.push_back(raw);
  return Status::Ok();
}

Status Inbox::Submit(std::unique_ptr<Entry> entry) {
  MutexLock lock(mutex_);
  if (closed_) return reason_;
  if (joining_) {
    return Status::InvalidArgument("this rank has called join() and cannot submit '" +
                                   entry->request.name + "' before join() has returned");
  }
  HVDLITE_RETURN_IF_ERROR(AddLocked(std::move(entry)));
  waiting_.store(submitted_.size(), std::memory_order_seq_cst);
  return Status::Ok();
}

Status Inbox::SubmitGroup(std::vector<std::unique_ptr<Entry>> entries) {
  MutexLock lock(mutex_);
  if (closed_) return reason_;
  if (joining_)
    return Status::InvalidArgument(
        "this rank has called join() and cannot submit a group before it has returned");
  std::unordered_set<std::string_view> names;
  for (const auto& entry : entries) {
    const bool fresh =
        names.insert(entry->request.name).second && outstanding_.count(entry->request.name) == 0;
    if (!fresh) return Duplicate(entry->request);
  }
  for (auto& entry : entries) HVDLITE_RETURN_IF_ERROR(AddLocked(std::move(entry)));
  waiting_.store(submitted_.size(), std::memory_order_seq_cst);
  return Status::Ok();
}

std::string Inbox::DefaultName(const std::string& kind) {
  MutexLock lock(mutex_);
  return "noname." + std::to_string(unnamed_[kind]++);
}

void Inbox::RestartDefaultNames() {
  MutexLock lock(mutex_);
  unnamed_.clear();
}

void Inbox::Fetch(std::vector<Entry*>* out) {
  MutexLock lock(mutex_);
  out->swap(submitted_);
  submitted_.clear();
  waiting_.store(0, std::memory_order_seq_cst);
}

Entry* Inbox::Find(const std::string& name) {
  MutexLock lock(mutex_);
  const auto found = outstanding_.find(name);
  return found == outstanding_.end() ? nullptr : found->second.get();
}

void Inbox::Complete(Entry* entry, Status status) {
  std::unique_ptr<Entry> ended;
  {
    MutexLock lock(mutex_);
    const auto found = outstanding_.find(entry->request.name);
    ended = std::move(found->second);
    outstanding_.erase(found);
    if (ended->request.kind == OpKind::kJoin) joining_ = false;
  }
  ended->handle->Complete(std::move(status));
}

std::vector<HandlePtr> Inbox::Close(const Status& reason) {
  std::unordered_map<std::string_view, std::unique_ptr<Entry>> ended;
  {
    MutexLock lock(mutex_);
    if (!closed_) reason_ = reason;
    closed_ = true;
    ended.swap(outstanding_);
    submitted_.clear();
    waiting_.store(0, std::memory_order_seq_cst);
  }
  std::vector<HandlePtr> handles;
  for (auto& [name, entry] : ended) {
    entry->handle->Complete(reason);
    handles.push_back(std::move(entry->handle));
  }
  return handles;
}

}  // namespace hvdlite::engine
