#include "engine/queue/inbox.h"

#include <string_view>
#include <unordered_set>

#include "engine/list.h"

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
  const Request& request = raw->request;
  if (!in_lists_.empty() && in_lists_.count(request.name) > 0) return Duplicate(request);
  const auto [place, is_fresh] = outstanding_.try_emplace(request.name, std::move(entry));
  if (!is_fresh) return Duplicate(request);
  if (request.names != nullptr) {
    for (size_t i = 0; i < request.names->size(); ++i) {
      const std::string& name = (*request.names)[i];
      const bool fresh = outstanding_.count(name) == 0 &&
                         in_lists_.try_emplace(name, Found{raw, static_cast<int>(i)}).second;
      if (fresh) continue;
      const Request taken = InList(request, i);
      ForgetLocked(*raw);
      outstanding_.erase(place);
      return Duplicate(taken);
    }
  }
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
        names.insert(entry->request.name).second && !IsTakenLocked(entry->request.name);
    if (!fresh) return Duplicate(entry->request);
  }
  for (auto& entry : entries) HVDLITE_RETURN_IF_ERROR(AddLocked(std::move(entry)));
  waiting_.store(submitted_.size(), std::memory_order_seq_cst);
  return Status::Ok();
}

std::string Inbox::DefaultName(const std::string& kind) {
  MutexLock lock(mutex_);
  return DefaultNameLocked(kind);
}

std::string Inbox::DefaultNameLocked(const std::string& kind) {
  return "noname." + std::to_string(unnamed_[kind]++);
}

void Inbox::GiveDefaultName(Entry* entry) {
  MutexLock lock(mutex_);
  auto kept = outstanding_.extract(entry->request.name);
  const std::string kind(Name(entry->request.kind));
  entry->request.name = kind + "." + DefaultNameLocked(kind);
  kept.key() = entry->request.name;
  outstanding_.insert(std::move(kept));
}

void Inbox::RestartDefaultNames() {
  MutexLock lock(mutex_);
  unnamed_.clear();
}

void Inbox::Fetch(std::vector<Entry*>* out) {
  MutexLock lock(mutex_);
  out->insert(out->end(), submitted_.begin(), submitted_.end());
  submitted_.clear();
  waiting_.store(0, std::memory_order_seq_cst);
}

Entry* Inbox::Find(const std::string& name) {
  MutexLock lock(mutex_);
  const auto found = outstanding_.find(name);
  return found == outstanding_.end() ? nullptr : found->second.get();
}

bool Inbox::IsTakenLocked(const std::string& name) const {
  return outstanding_.count(name) > 0 || (!in_lists_.empty() && in_lists_.count(name) > 0);
}

// Of a list that is not outstanding yet: only names that are its own.
void Inbox::ForgetLocked(const Entry& entry) {
  if (entry.request.names == nullptr) return;
  for (const std::string& name : *entry.request.names) {
    const auto found = in_lists_.find(name);
    if (found != in_lists_.end() && found->second.entry == &entry) in_lists_.erase(found);
  }
}

Inbox::Found Inbox::FindTensor(const std::string& name) {
  MutexLock lock(mutex_);
  if (const auto found = outstanding_.find(name); found != outstanding_.end())
    return {found->second.get(), -1};
  if (const auto found = in_lists_.find(name); found != in_lists_.end()) return found->second;
  size_t i = 0;
  const auto group = outstanding_.find(GroupOf(name, &i));
  if (group == outstanding_.end()) return {};
  const Request& list = group->second->request;
  const bool has_it =
      list.is_list() && list.names == nullptr && i < list.group_size && NameInList(list, i) == name;
  return has_it ? Found{group->second.get(), static_cast<int>(i)} : Found{};
}

void Inbox::Complete(Entry* entry, Status status) {
  std::unique_ptr<Entry> ended;
  {
    MutexLock lock(mutex_);
    const auto found = outstanding_.find(entry->request.name);
    ended = std::move(found->second);
    outstanding_.erase(found);
    ForgetLocked(*ended);
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
    in_lists_.clear();
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
