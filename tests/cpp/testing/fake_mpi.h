// FakeMpi: an MPI for ranks that are threads of one process, so that the sanitizers see what is
// done with it.
//
// As unhelpful as MPI may be: a message lies about until its receiver's Irecv, what is not small
// has not left before that, requests complete at a later question than they could, in an order that
// follows from the seed alone, and handles are numbers that mean nothing outside. Everything is
// under one lock.
//
//   FakeMpi mpi(3, {.seed = 7});
//   access.library = mpi.library(); access.communicator = mpi.world(rank);
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "comm/mpi/library.h"

namespace hvdlite::testing {

struct FakeMpiOptions {
  uint32_t seed = 1;
  double delay = 0.3;        // the chance that a request which could complete does not yet
  size_t eager_bytes = 256;  // messages up to this size leave at once
  int fail_rank = -1;        // whose calls fail ...
  int fail_after = 1 << 30;  // ... after so many
  bool finalized = false;
};

class FakeMpi {
 public:
  using Handle = comm::mpi::Handle;
  static constexpr int kErrorCode = 17;

  FakeMpi(int size, FakeMpiOptions options = {}) : options_(options), random_(options.seed) {
    std::vector<int> all(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) all[static_cast<size_t>(r)] = r;
    for (int r = 0; r < size; ++r) worlds_.push_back(NewComm(/*context=*/0, all, r));
    auto table = std::make_shared<comm::mpi::Library>();
#define HVDLITE_MPI(name, parameters) table->name = &FakeMpi::name;
#include "comm/mpi/functions.def"
#undef HVDLITE_MPI
    Handle next = 1000;
#define HVDLITE_MPI(name) table->name = next++;
#include "comm/mpi/handles.def"
#undef HVDLITE_MPI
    table->in_place = reinterpret_cast<void*>(1);
    library_ = table;
    current_ = this;
  }
  // Who still waits for members that never came gives up.
  ~FakeMpi() {
    std::unique_lock<std::mutex> lock(mutex_);
    over_ = true;
    came_.notify_all();
    came_.wait(lock, [this] { return waiting_ == 0; });
    current_ = nullptr;
  }
  FakeMpi(const FakeMpi&) = delete;

  std::shared_ptr<const comm::mpi::Library> library() const { return library_; }
  Handle world(int rank) const { return worlds_[static_cast<size_t>(rank)]; }
  // Communicators made and not freed; the world's do not count.
  int open_communicators() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return open_;
  }
  int largest_count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return largest_;
  }

 private:
  struct Comm {
    int context;
    std::vector<int> ranks;  // of the world
    int me;
    int collectives = 0;

    size_t member() const {
      return static_cast<size_t>(std::find(ranks.begin(), ranks.end(), me) - ranks.begin());
    }
  };
  struct Group {
    std::vector<int> ranks;
  };
  // A send or a receive; the sender's bytes are copied when they leave.
  struct Message {
    char* data;
    size_t bytes;
    std::vector<char> copy;
    bool left = false;
    bool taken = false;
  };
  using MessagePtr = std::shared_ptr<Message>;
  struct Collective {
    int joined = 0;
    std::vector<const char*> in;
    std::vector<char*> out;
    std::vector<char> result;
    bool done = false;
  };
  struct Request {
    int rank = 0;
    MessagePtr send, receive;
    std::shared_ptr<Collective> collective;
  };
  // context, from, to, tag
  using Way = std::tuple<int, int, int, int>;

  // --- what MPI's functions do; the lock is held

  Handle NewHandle() { return next_handle_ += 16; }
  Handle NewRequest(Request request) {
    const Handle handle = NewHandle();
    requests_[handle] = std::move(request);
    return handle;
  }
  Handle NewComm(int context, std::vector<int> ranks, int me) {
    const Handle handle = NewHandle();
    comms_[handle] = {context, std::move(ranks), me};
    return handle;
  }
  bool Fails(int rank) { return rank == options_.fail_rank && ++calls_ > options_.fail_after; }
  bool Delays() { return std::uniform_real_distribution<double>(0, 1)(random_) < options_.delay; }

  // Pairs sends and receives of one way, in their order.
  void Match(const Way& way) {
    auto& sends = sends_[way];
    auto& receives = receives_[way];
    while (!sends.empty() && !receives.empty()) {
      Message& from = *sends.front();
      Message& to = *receives.front();
      if (from.bytes > to.bytes) std::abort();
      memcpy(to.data, from.left ? from.copy.data() : from.data, from.bytes);
      from.left = to.taken = true;
      sends.pop_front();
      receives.pop_front();
    }
  }

  bool Complete(const Request& request) {
    if (request.send != nullptr) return request.send->left;
    if (request.receive != nullptr) return request.receive->taken;
    return request.collective->done;
  }

  Collective& Join(Handle comm, std::shared_ptr<Collective>* mine) {
    Comm& c = comms_.at(comm);
    auto& collective = collectives_[{c.context, c.collectives++}];
    if (collective == nullptr) {
      collective = std::make_shared<Collective>();
      collective->in.resize(c.ranks.size());
      collective->out.resize(c.ranks.size());
    }
    *mine = collective;
    ++collective->joined;
    return *collective;
  }

  template <typename T>
  static void Sum(const Collective& c, int count, bool product, char* result) {
    for (int i = 0; i < count; ++i) {
      T sum = product ? T(1) : T(0);
      for (const char* in : c.in) {
        T value;
        memcpy(&value, in + static_cast<size_t>(i) * sizeof(T), sizeof(T));
        sum = static_cast<T>(product ? sum * value : sum + value);
      }
      memcpy(result + static_cast<size_t>(i) * sizeof(T), &sum, sizeof(T));
    }
  }
  template <typename T>
  static void Extreme(const Collective& c, int count, bool least, char* result) {
    for (int i = 0; i < count; ++i) {
      T best{};
      for (size_t m = 0; m < c.in.size(); ++m) {
        T value;
        memcpy(&value, c.in[m] + static_cast<size_t>(i) * sizeof(T), sizeof(T));
        best = m == 0 ? value : least ? std::min(best, value) : std::max(best, value);
      }
      memcpy(result + static_cast<size_t>(i) * sizeof(T), &best, sizeof(T));
    }
  }
  template <typename T>
  void Reduce(Collective* c, int count, Handle op) {
    c->result.resize(static_cast<size_t>(count) * sizeof(T));
    const bool extreme = op == library_->MIN || op == library_->MAX;
    if (extreme) return Extreme<T>(*c, count, op == library_->MIN, c->result.data());
    Sum<T>(*c, count, op == library_->PROD, c->result.data());
  }
  void ReduceAs(Collective* c, int count, Handle type, Handle op) {
    const comm::mpi::Library& l = *library_;
    if (type == l.INT8_T) return Reduce<int8_t>(c, count, op);
    if (type == l.UINT8_T) return Reduce<uint8_t>(c, count, op);
    if (type == l.INT16_T) return Reduce<int16_t>(c, count, op);
    if (type == l.UINT16_T) return Reduce<uint16_t>(c, count, op);
    if (type == l.INT32_T) return Reduce<int32_t>(c, count, op);
    if (type == l.UINT32_T) return Reduce<uint32_t>(c, count, op);
    if (type == l.INT64_T) return Reduce<int64_t>(c, count, op);
    if (type == l.UINT64_T) return Reduce<uint64_t>(c, count, op);
    if (type == l.FLOAT) return Reduce<float>(c, count, op);
    if (type == l.DOUBLE) return Reduce<double>(c, count, op);
    std::abort();
  }

  // --- MPI's functions

#define HVDLITE_FAKE(rank_of)                          \
  FakeMpi& self = *current_;                           \
  const std::lock_guard<std::mutex> lock(self.mutex_); \
  const int rank = rank_of;                            \
  if (self.Fails(rank)) return kErrorCode

  static int Isend(const void* data, int count, Handle, int to, int tag, Handle comm,
                   Handle* request) {
    HVDLITE_FAKE(self.comms_.at(comm).me);
    self.largest_ = std::max(self.largest_, count);
    const Comm& c = self.comms_.at(comm);
    auto message = std::make_shared<Message>();
    message->data = static_cast<char*>(const_cast<void*>(data));
    message->bytes = static_cast<size_t>(count);
    if (message->bytes <= self.options_.eager_bytes) {
      message->copy.assign(message->data, message->data + count);
      message->left = true;
    }
    const Way way{c.context, rank, c.ranks[static_cast<size_t>(to)], tag};
    self.sends_[way].push_back(message);
    *request = self.NewRequest({rank, message, nullptr, nullptr});
    self.Match(way);
    return 0;
  }

  static int Irecv(void* data, int count, Handle, int from, int tag, Handle comm, Handle* request) {
    HVDLITE_FAKE(self.comms_.at(comm).me);
    const Comm& c = self.comms_.at(comm);
    auto message = std::make_shared<Message>();
    message->data = static_cast<char*>(data);
    message->bytes = static_cast<size_t>(count);
    const Way way{c.context, c.ranks[static_cast<size_t>(from)], rank, tag};
    self.receives_[way].push_back(message);
    *request = self.NewRequest({rank, nullptr, message, nullptr});
    self.Match(way);
    return 0;
  }

  static int Iallreduce(const void* in, void* out, int count, Handle type, Handle op, Handle comm,
                        Handle* request) {
    HVDLITE_FAKE(self.comms_.at(comm).me);
    self.largest_ = std::max(self.largest_, count);
    const Comm& c = self.comms_.at(comm);
    std::shared_ptr<Collective> mine;
    Collective& collective = self.Join(comm, &mine);
    const size_t me = c.member();
    collective.in[me] = static_cast<const char*>(in == self.library_->in_place ? out : in);
    collective.out[me] = static_cast<char*>(out);
    if (collective.joined == static_cast<int>(c.ranks.size())) {
      self.ReduceAs(&collective, count, type, op);
      for (char* each : collective.out)
        memcpy(each, collective.result.data(), collective.result.size());
      collective.done = true;
    }
    *request = self.NewRequest({rank, nullptr, nullptr, mine});
    return 0;
  }

  static int Ibcast(void* data, int count, Handle, int root, Handle comm, Handle* request) {
    HVDLITE_FAKE(self.comms_.at(comm).me);
    self.largest_ = std::max(self.largest_, count);
    const Comm& c = self.comms_.at(comm);
    std::shared_ptr<Collective> mine;
    Collective& collective = self.Join(comm, &mine);
    collective.out[c.member()] = static_cast<char*>(data);
    if (collective.joined == static_cast<int>(c.ranks.size())) {
      char* const source = collective.out[static_cast<size_t>(root)];
      for (char* each : collective.out) memmove(each, source, static_cast<size_t>(count));
      collective.done = true;
    }
    *request = self.NewRequest({rank, nullptr, nullptr, mine});
    return 0;
  }

  static int Ibarrier(Handle comm, Handle* request) {
    HVDLITE_FAKE(self.comms_.at(comm).me);
    std::shared_ptr<Collective> mine;
    Collective& collective = self.Join(comm, &mine);
    collective.done = collective.joined == static_cast<int>(self.comms_.at(comm).ranks.size());
    *request = self.NewRequest({rank, nullptr, nullptr, mine});
    return 0;
  }

  static int Test(Handle* request, int* done, void*) {
    HVDLITE_FAKE(self.requests_.count(*request) != 0 ? self.requests_.at(*request).rank : -1);
    if (self.requests_.count(*request) == 0) std::abort();  // completed before, or never there
    *done = self.Complete(self.requests_.at(*request)) && !self.Delays() ? 1 : 0;
    if (*done != 0) {
      self.requests_.erase(*request);
      *request = 0;
    }
    return 0;
  }

  struct Probed {
    size_t bytes;
  };
  static int Iprobe(int from, int tag, Handle comm, int* there, void* status) {
    HVDLITE_FAKE(self.comms_.at(comm).me);
    const Comm& c = self.comms_.at(comm);
    const auto& sends = self.sends_[{c.context, c.ranks[static_cast<size_t>(from)], rank, tag}];
    *there = !sends.empty() && !self.Delays() ? 1 : 0;
    const Probed found{sends.empty() ? 0 : sends.front()->bytes};
    memcpy(status, &found, sizeof(found));
    return 0;
  }
  static int Get_count(const void* status, Handle, int* count) {
    Probed found;
    memcpy(&found, status, sizeof(found));
    *count = static_cast<int>(found.bytes);
    return 0;
  }

  static int Cancel(Handle* request) {
    HVDLITE_FAKE(-1);
    static_cast<void>(rank);
    const auto found = self.requests_.find(*request);
    if (found == self.requests_.end() || found->second.receive == nullptr) return kErrorCode;
    for (auto& [way, receives] : self.receives_) {
      receives.erase(std::remove(receives.begin(), receives.end(), found->second.receive),
                     receives.end());
    }
    return 0;
  }
  static int Request_free(Handle* request) {
    HVDLITE_FAKE(-1);
    static_cast<void>(rank);
    self.requests_.erase(*request);
    *request = 0;
    return 0;
  }

  static int Comm_rank(Handle comm, int* out) {
    HVDLITE_FAKE(-1);
    static_cast<void>(rank);
    *out = static_cast<int>(self.comms_.at(comm).member());
    return 0;
  }
  static int Comm_size(Handle comm, int* out) {
    HVDLITE_FAKE(-1);
    static_cast<void>(rank);
    *out = static_cast<int>(self.comms_.at(comm).ranks.size());
    return 0;
  }
  static int Comm_group(Handle comm, Handle* group) {
    HVDLITE_FAKE(-1);
    static_cast<void>(rank);
    *group = self.NewHandle();
    self.groups_[*group] = {self.comms_.at(comm).ranks};
    return 0;
  }
  static int Group_incl(Handle group, int count, const int* ranks, Handle* made) {
    HVDLITE_FAKE(-1);
    static_cast<void>(rank);
    Group chosen;
    for (int i = 0; i < count; ++i)
      chosen.ranks.push_back(self.groups_.at(group).ranks[static_cast<size_t>(ranks[i])]);
    *made = self.NewHandle();
    self.groups_[*made] = chosen;
    return 0;
  }
  static int Group_free(Handle* group) {
    HVDLITE_FAKE(-1);
    static_cast<void>(rank);
    self.groups_.erase(*group);
    *group = 0;
    return 0;
  }
  static int Comm_create_group(Handle comm, Handle group, int tag, Handle* made) {
    FakeMpi& self = *current_;
    std::unique_lock<std::mutex> lock(self.mutex_);
    const int rank = self.comms_.at(comm).me;
    if (self.Fails(rank)) return kErrorCode;
    const std::vector<int> ranks = self.groups_.at(group).ranks;
    const auto key = std::make_tuple(self.comms_.at(comm).context, ranks, tag);
    auto& creation = self.creations_[key];
    if (creation.count++ == 0) creation.context = ++self.contexts_;
    const int context = creation.context;
    if (creation.count == static_cast<int>(ranks.size())) {
      self.creations_.erase(key);
      self.all_came_.push_back(context);
      self.came_.notify_all();
    }
    ++self.waiting_;
    self.came_.wait(lock, [&] {
      return self.over_ || std::find(self.all_came_.begin(), self.all_came_.end(), context) !=
                               self.all_came_.end();
    });
    --self.waiting_;
    if (self.over_) {
      self.came_.notify_all();
      return kErrorCode;
    }
    *made = self.NewComm(context, ranks, rank);
    ++self.open_;
    return 0;
  }
  static int Comm_set_errhandler(Handle, Handle) { return 0; }
  static int Comm_free(Handle* comm) {
    HVDLITE_FAKE(-1);
    static_cast<void>(rank);
    if (self.comms_.erase(*comm) != 1) std::abort();
    --self.open_;
    *comm = 0;
    return 0;
  }
  static int Error_string(int code, char* text, int* length) {
    const std::string words = "the fake MPI's error " + std::to_string(code);
    memcpy(text, words.c_str(), words.size() + 1);
    *length = static_cast<int>(words.size());
    return 0;
  }
  static int Finalized(int* yes) {
    *yes = current_ == nullptr || current_->options_.finalized ? 1 : 0;
    return 0;
  }
#undef HVDLITE_FAKE

  struct Creation {
    int count = 0;
    int context = 0;
  };

  // MPI is one per process, and its functions have no context.
  static inline FakeMpi* current_ = nullptr;

  const FakeMpiOptions options_;
  std::shared_ptr<const comm::mpi::Library> library_;
  std::vector<Handle> worlds_;

  std::mutex mutex_;
  std::condition_variable came_;
  std::mt19937 random_;
  int calls_ = 0;
  int open_ = 0;
  int waiting_ = 0;  // inside Comm_create_group
  bool over_ = false;
  int largest_ = 0;
  int contexts_ = 0;
  Handle next_handle_ = 1 << 20;
  std::map<Handle, Comm> comms_;
  std::map<Handle, Group> groups_;
  std::map<Handle, Request> requests_;
  std::map<Way, std::deque<MessagePtr>> sends_, receives_;
  std::map<std::pair<int, int>, std::shared_ptr<Collective>> collectives_;
  std::map<std::tuple<int, std::vector<int>, int>, Creation> creations_;
  std::vector<int> all_came_;
};

}  // namespace hvdlite::testing
