// Ranks: a whole job in one process. RunRanks starts one engine per rank, each in a thread of its
// own, over a store in memory, lets the given function play that rank, and shuts all engines down
// together.
//
//   RunRanks({.size = 3}, [](Rank& me) {
//     std::vector<float> x(5, 1);
//     ASSERT_TRUE(me.Do(Allreduce("x", x, &x)).ok());
//   });
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/half.h"
#include "engine/engine.h"
#include "rendezvous/memory_store.h"
#include "testing/fake_mpi.h"
#include "testing/watchdog.h"

namespace hvdlite::testing {

using engine::Engine;
using engine::HandlePtr;
using engine::Request;
using engine::Submission;

template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kUInt8;
  if constexpr (std::is_same_v<T, int8_t>) return DType::kInt8;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  return DType::kFloat64;
}

template <typename T>
TensorView View(const std::vector<T>& values, Shape shape = {}) {
  TensorView view;
  view.data = const_cast<T*>(values.data());
  view.dtype = DTypeOf<T>();
  view.shape = shape.empty() ? Shape{static_cast<int64_t>(values.size())} : std::move(shape);
  return view;
}

inline Submission Ask(OpKind kind, const std::string& name, TensorView input, TensorView output) {
  Submission s;
  s.request.kind = kind;
  s.request.name = name;
  s.request.dtype = input.dtype;
  s.request.shape = input.shape;
  s.input = std::move(input);
  s.output = std::move(output);
  return s;
}

template <typename T>
Submission Allreduce(const std::string& name, const std::vector<T>& in, std::vector<T>* out,
                     ReduceOp op = ReduceOp::kSum) {
  Submission s = Ask(OpKind::kAllreduce, name, View(in), View(*out));
  s.request.op = op;
  return s;
}
template <typename T>
Submission Broadcast(const std::string& name, std::vector<T>* values, int root) {
  Submission s = Ask(OpKind::kBroadcast, name, View(*values), View(*values));
  s.request.root = root;
  return s;
}
// The result is in the handle.
template <typename T>
Submission Allgather(const std::string& name, const std::vector<T>& in, Shape shape = {}) {
  return Ask(OpKind::kAllgather, name, View(in, std::move(shape)), {});
}
template <typename T>
Submission Alltoall(const std::string& name, const std::vector<T>& in,
                    std::vector<int64_t> splits) {
  Submission s = Ask(OpKind::kAlltoall, name, View(in), {});
  s.request.splits = std::move(splits);
  return s;
}
template <typename T>
Submission Reducescatter(const std::string& name, const std::vector<T>& in, Shape shape = {}) {
  return Ask(OpKind::kReducescatter, name, View(in, std::move(shape)), {});
}
inline Submission Nothing(OpKind kind, const std::string& name) {
  Submission s;
  s.request.kind = kind;
  s.request.dtype = DType::kUInt8;
  s.request.name = name;
  s.request.cacheable = kind <= OpKind::kReducescatter;
  return s;
}
inline Submission Barrier(const std::string& name = "barrier") {
  return Nothing(OpKind::kBarrier, name);
}
inline Submission Join() {
  return Nothing(OpKind::kJoin, "join");
}
inline Submission AddSet(const std::string& name, std::vector<int64_t> ranks) {
  Submission s = Nothing(OpKind::kAddProcessSet, name);
  s.request.splits = std::move(ranks);
  return s;
}
inline Submission RemoveSet(const std::string& name, int id) {
  Submission s = Nothing(OpKind::kRemoveProcessSet, name);
  s.request.root = id;
  return s;
}

// The result that the library allocated, as a vector.
template <typename T>
std::vector<T> Output(const HandlePtr& handle) {
  const T* data = static_cast<const T*>(handle->output.data);
  return std::vector<T>(data, data + handle->output.elements());
}

struct RanksOptions {
  int size = 2;
  Config config = {};
  std::vector<std::vector<int>> process_sets = {};
  // More than 1: ranks pretend to sit on so many hosts, dealt out in turns, and reach each other
  // over TCP.
  int hosts = 1;
  // Tensors go over a FakeMpi: between the hosts, or on one host because HVDLITE_CPU_OPERATIONS
  // says so.
  bool mpi = false;
  // Each rank has memory that it shares with the others of its host.
  bool pool = false;
  double limit_seconds = 60;
  // False: each rank calls Shutdown itself, or the engine is destroyed without it.
  bool shutdown = true;
};

// One rank, inside the function that plays it.
class Rank {
 public:
  Rank(int rank_number, int size_of_job) : rank(rank_number), size(size_of_job) {}
  const int rank;
  const int size;
  std::unique_ptr<pool::Segment> segment;  // with RanksOptions::pool
  std::unique_ptr<Engine> engine;

  // What this rank is about to do: the watchdog shows it.
  void At(const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    at_ = text;
  }
  std::string at() {
    std::lock_guard<std::mutex> lock(mutex_);
    return at_;
  }

  // Null, and a failure of the test, if it is refused.
  HandlePtr Submit(Submission submission, int set = 0, bool will_wait = false) {
    At("submit " + submission.request.name);
    HandlePtr handle;
    const Status status = engine->Submit(set, std::move(submission), will_wait, &handle);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return status.ok() ? handle : nullptr;
  }
  // Waits as long as it takes, in slices as Python does.
  Status Wait(const HandlePtr& handle, Nanos slice = 100 * kMillisecond) {
    if (handle == nullptr) return Status::Internal("was not submitted");
    while (!engine->Wait(*handle, slice)) {
    }
    return handle->status();
  }
  // Never waits, never works: only looks, as hvd.poll() does.
  Status Poll(const HandlePtr& handle) {
    if (handle == nullptr) return Status::Internal("was not submitted");
    while (!handle->done()) usleep(200);
    return handle->status();
  }
  // Blocking call.
  Status Do(Submission submission, int set = 0, HandlePtr* handle = nullptr) {
    At("do " + submission.request.name);
    HandlePtr made;
    const Status status = engine->Submit(set, std::move(submission), /*will_wait=*/true, &made);
    if (!status.ok()) return status;
    if (handle != nullptr) *handle = made;
    return Wait(made);
  }

 private:
  std::mutex mutex_;
  std::string at_ = "start";
};

// When the first rank of a job left. What was promised before then happens, unless that takes
// longer than the engine's grace, as where a rank, or the machine, stands still meanwhile.
class Departure {
 public:
  // Each rank, before it leaves.
  void Begin() {
    Nanos nobody = 0;
    since_.compare_exchange_strong(nobody, MonotonicNow());
  }
  // Half of it: an engine may have looked at its clock a little before it heard of the departure.
  bool GraceIsOver() const { return since_ != 0 && MonotonicNow() - since_ >= kGrace / 2; }

 private:
  static constexpr Nanos kGrace = 2 * kSecond;  // of engine/cycle.cc and engine/negotiate/decide.cc
  std::atomic<Nanos> since_{0};
};

inline Status StartEngine(const RanksOptions& options, int rank, const std::string& prefix,
                          rendezvous::Store* store, std::unique_ptr<Engine>* engine,
                          const FakeMpi* mpi = nullptr, pool::Segment* gradients = nullptr) {
  engine::EngineOptions o;
  o.gradients = gradients;
  o.rank = rank;
  o.size = options.size;
  o.store_prefix = prefix;
  o.config = options.config;
  if (options.hosts > 1) o.config.host_id = "pretended-" + std::to_string(rank % options.hosts);
  o.process_sets = options.process_sets;
  if (mpi != nullptr) {
    o.mpi.library = mpi->library();
    o.mpi.communicator = mpi->world(rank);
    o.mpi.name = "the fake MPI";
    if (options.hosts == 1) o.config.cpu_operations = "mpi";
  }
  return Engine::Start(o, store, engine);
}

inline void RunRanks(const RanksOptions& options, const std::function<void(Rank&)>& play) {
  rendezvous::MemoryStore store;
  FakeMpi mpi(options.size);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < options.size; ++r) ranks.push_back(std::make_unique<Rank>(r, options.size));
  const Watchdog watchdog(options.limit_seconds, [&] {
    std::string hint;
    for (const auto& rank : ranks)
      hint += "rank " + std::to_string(rank->rank) + ": " + rank->at() + "\n";
    return hint;
  });
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&options, &store, &mpi, &play, me = rank.get()] {
      if (options.pool) {
        constexpr size_t kRoom = size_t{16} << 20;
        ASSERT_TRUE(pool::Segment::Create(nullptr, kRoom, &me->segment).ok());
        me->segment->Limit(kRoom);
      }
      const Status started = StartEngine(options, me->rank, "job/", &store, &me->engine,
                                         options.mpi ? &mpi : nullptr, me->segment.get());
      ASSERT_TRUE(started.ok()) << started.ToString();
      play(*me);
      if (options.shutdown && me->engine != nullptr) {
        me->At("shutdown");
        // Some tests make their job fail.
        (void)me->engine->Shutdown(Deadline::AfterSeconds(30 * Patience()));
      }
      me->At("over");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hvdlite::testing
