// NcclWorld: the members of an nccl::Communicator as threads of one process, over the fake
// driver and the fake NCCL; and GpuTrial, a Trial whose tensors lie on the members' GPUs, made
// by a stream of the user's and looked at by it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/nccl/communicator.h"
#include "comm/nccl/planner.h"
#include "kernels/cuda/image.h"
#include "net_case.h"
#include "testing/fake_cuda.h"
#include "testing/fake_nccl.h"
#include "testing/in_threads.h"
#include "testing/watchdog.h"

namespace hvdlite::comm::net_testing {

using device::EventPtr;
using device::Gpu;
using testing::Await;
using testing::FakeCuda;
using testing::FakeNccl;

// Not where neither nvcc nor NVRTC was there to compile them.
constexpr const char* kNoKernels =
    "this build has no GPU kernels: neither nvcc nor NVRTC was there";
inline bool HasKernels() {
  return !kernels::cuda::Images().empty();
}

// The fakes are late, each in another way with each seed.
inline void BeLate(uint32_t seed) {
  fake_nccl_set("seed", seed);
  fake_nccl_set("delay_us", seed % 2 == 0 ? 3000 : 100);
  fake_nccl_set("background", static_cast<long>(seed % 3) * 50);
  fake_cuda_set("seed", seed);
  fake_cuda_set("delay_us", seed % 3 == 0 ? 2000 : 20);
}

// One rank. `user` is the same device with a stream of its own, as a framework has one.
struct NcclMember {
  std::shared_ptr<Gpu> gpu;
  std::shared_ptr<Gpu> user;
  std::unique_ptr<nccl::Channels> channels;
  std::unique_ptr<nccl::Communicator> communicator;

  void Abort() {
    communicator->BeginAbort();
    communicator->EndAbort(Deadline::After(nccl::kAbortPatience));
  }
};

// Members are placed on hosts in turns ("abab"), as a launcher may place them; all on one:
// reductions go by no grid.
struct NcclShape {
  std::string hosts;
  bool kernels = HasKernels();
};

class NcclWorld {
 public:
  explicit NcclWorld(int size, bool kernels = HasKernels())
      : NcclWorld({std::string(static_cast<size_t>(size), 'a'), kernels}) {}
  explicit NcclWorld(const NcclShape& shape) : watchdog_(300), hosts_(shape.hosts) {
    Open(static_cast<int>(shape.hosts.size()));
    std::vector<Status> met = Run([this](int r, NcclMember&) {
      HVDLITE_RETURN_IF_ERROR(Begin(r));
      return AwaitReady(r);
    });
    for (const Status& status : met) EXPECT_EQ(status.ToString(), Status::Ok().ToString());
    for (int r = 0; r < size(); ++r) {
      const nccl::Context context{r, size(), shape.kernels, GridOf(r)};
      member(r).communicator =
          std::make_unique<nccl::Communicator>(std::move(member(r).channels), context);
    }
  }
  // Without communicators: for tests of how they come about.
  static std::unique_ptr<NcclWorld> Bare(int size) {
    std::unique_ptr<NcclWorld> world(new NcclWorld(nullptr));
    world->hosts_.assign(static_cast<size_t>(size), 'a');
    world->Open(size);
    return world;
  }
  // All at once: to take leave of NCCL takes all members.
  ~NcclWorld() { Destroy(); }
  // As long as that takes: by itself none waits longer than some seconds for the others, before it
  // aborts.
  void ShutDown() {
    const Deadline deadline = Deadline::AfterSeconds(60 * testing::Patience());
    for (const Status& left : Run([&](int, NcclMember& member) {
           return member.communicator->ShutDown(deadline)
                      ? Status::Ok()
                      : Status::Timeout("no leave could be taken");
         })) {
      EXPECT_TRUE(left.ok()) << left.ToString();
    }
  }
  void Destroy() {
    InThreads(members_.size(), [&](size_t i) {
      members_[i].communicator.reset();
      members_[i].channels.reset();
    });
  }

  int size() const { return static_cast<int>(members_.size()); }
  NcclMember& member(int i) { return members_[static_cast<size_t>(i)]; }

  nccl::Grid GridOf(int i) const {
    Topology topology;
    for (int m = 0; m < size(); ++m) topology.ranks.push_back(m);
    std::string names;
    for (int m = 0; m < size(); ++m) {
      size_t host = names.find(hosts_[static_cast<size_t>(m)]);
      if (host == std::string::npos) {
        host = names.size();
        names += hosts_[static_cast<size_t>(m)];
        topology.hosts.emplace_back();
      }
      topology.host_of.push_back(static_cast<int>(host));
      topology.local_of.push_back(static_cast<int>(topology.hosts[host].size()));
      topology.hosts[host].push_back(m);
    }
    return nccl::MakeGrid(topology, i, /*wanted=*/true);
  }
  Status Begin(int i) {
    const nccl::Grid grid = GridOf(i);
    std::vector<nccl::CommSpec> specs = {{ids_[0][0], i, size()}};
    if (grid.used) {
      specs.push_back({ids_[1][static_cast<size_t>(grid.first_of_host)], grid.place, grid.places});
      specs.push_back({ids_[2][static_cast<size_t>(grid.first_of_place)], grid.host, grid.hosts});
    }
    return nccl::Channels::Begin(library_, member(i).gpu, specs, &member(i).channels);
  }
  Status AwaitReady(int i) {
    for (bool ready = false;;) {
      const Status status = member(i).channels->Poll(&ready);
      if (!status.ok() || ready) return status;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  std::vector<Status> Run(const std::function<Status(int, NcclMember&)>& body) {
    std::vector<Status> statuses(members_.size());
    InThreads(members_.size(),
              [&](size_t i) { statuses[i] = body(static_cast<int>(i), members_[i]); });
    return statuses;
  }

 private:
  explicit NcclWorld(std::nullptr_t) : watchdog_(60) {}
  void Open(int size) {
    members_.resize(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) {
      member(r).gpu = cuda_.Open(r % 2);
      member(r).user = cuda_.Open(r % 2);
    }
    for (auto& ids : ids_) {
      ids.resize(members_.size());
      for (nccl::UniqueId& id : ids) EXPECT_TRUE(nccl::NewUniqueId(*library_, &id).ok());
    }
  }

  const testing::Watchdog watchdog_;
  FakeCuda cuda_;
  FakeNccl nccl_;
  const std::shared_ptr<const nccl::Library> library_ = FakeNccl::library();
  std::string hosts_;
  // by Among, of each member that may be the first of a communicator
  std::array<std::vector<nccl::UniqueId>, 3> ids_;
  std::vector<NcclMember> members_;
};

// How many elements a member gives and gets.
inline int64_t InputElements(const Batch& batch, const Piece& piece, int me, int size) {
  const auto count = [&](int i) { return piece.counts[static_cast<size_t>(i)]; };
  int64_t sum = 0;
  switch (batch.kind) {
    case OpKind::kAllreduce: return piece.count;
    case OpKind::kBroadcast: return me == batch.root ? piece.count : 0;
    case OpKind::kAllgather: return count(me);
    case OpKind::kReducescatter:
      for (int m = 0; m < size; ++m) sum += count(m);
      return sum;
    default:
      for (int m = 0; m < size; ++m) sum += count(me * size + m);
      return sum;
  }
}
inline int64_t OutputElements(const Batch& batch, const Piece& piece, int me, int size) {
  const auto count = [&](int i) { return piece.counts[static_cast<size_t>(i)]; };
  int64_t sum = 0;
  switch (batch.kind) {
    case OpKind::kAllreduce:
    case OpKind::kBroadcast: return piece.count;
    case OpKind::kReducescatter: return count(me);
    case OpKind::kAllgather:
      for (int m = 0; m < size; ++m) sum += count(m);
      return sum;
    default:
      for (int m = 0; m < size; ++m) sum += count(m * size + me);
      return sum;
  }
}

// One member's side of a Trial. Its batch is the Trial's, with device memory in place of the
// host's.
class GpuTrial {
 public:
  // Puts the production of the inputs on the user's stream.
  GpuTrial(const Batch& host, NcclMember* member, int me, int size)
      : member_(*member), batch_(host) {
    const size_t element = SizeOf(host.dtype);
    batch_.device = {DeviceKind::kCuda, member_.gpu->ordinal()};
    for (Piece& piece : batch_.pieces) {
      const auto in = static_cast<size_t>(InputElements(host, piece, me, size)) * element;
      const auto out = static_cast<size_t>(OutputElements(host, piece, me, size)) * element;
      const bool same = piece.input == piece.output;
      const void* const host_input = piece.input;
      void* const host_output = piece.output;
      if (host_input != nullptr) piece.input = CopyIn(host_input, in);
      if (host_output != nullptr)
        piece.output = same ? const_cast<void*>(piece.input) : OnDevice(out);
      if (host_output != nullptr) copies_.push_back({piece.output, Pinned(out), host_output, out});
    }
    EventPtr ready;
    EXPECT_TRUE(member_.user->Record(member_.user->stream(), &ready).ok());
    batch_.ready = {ready};
  }

  // What a test that fails has left on the streams still uses the tensors.
  ~GpuTrial() {
    for (const auto& gpu : {member_.gpu, member_.user}) {
      EventPtr idle;
      if (gpu->Record(gpu->stream(), &idle).ok()) (void)Await(idle);
    }
  }
  GpuTrial(const GpuTrial&) = delete;

  const Batch& batch() const { return batch_; }
  // Puts the consumption on the user's stream.
  void Consume(const EventPtr& finished) {
    EXPECT_TRUE(finished->MakeWait(member_.user->stream()).ok());
    for (const Copy& copy : copies_)
      EXPECT_TRUE(member_.user->CopyOut(copy.pinned, copy.device, copy.bytes).ok());
    EXPECT_TRUE(member_.user->Record(member_.user->stream(), &consumed_).ok());
  }
  bool Consumed() {
    bool fired = false;
    EXPECT_TRUE(consumed_->Query(&fired).ok());
    return fired;
  }
  // Into the Trial, which checks it.
  Status Finish() {
    HVDLITE_RETURN_IF_ERROR(Await(consumed_));
    for (const Copy& copy : copies_) std::memcpy(copy.host, copy.pinned, copy.bytes);
    return Status::Ok();
  }

 private:
  struct Copy {
    const void* device;
    void* pinned;
    void* host;
    size_t bytes;
  };
  void* OnDevice(size_t bytes) {
    buffers_.emplace_back();
    EXPECT_TRUE(member_.user->OnDevice(bytes, &buffers_.back()).ok());
    return buffers_.back()->data();
  }
  void* Pinned(size_t bytes) {
    buffers_.emplace_back();
    EXPECT_TRUE(member_.user->Pinned(bytes, &buffers_.back()).ok());
    return buffers_.back()->data();
  }
  void* CopyIn(const void* host, size_t bytes) {
    void* const pinned = Pinned(bytes);
    void* const device = OnDevice(bytes);
    std::memcpy(pinned, host, bytes);
    EXPECT_TRUE(member_.user->CopyIn(device, pinned, bytes).ok());
    return device;
  }

  NcclMember& member_;
  Batch batch_;
  std::vector<std::unique_ptr<Gpu::Buffer>> buffers_;
  std::vector<Copy> copies_;
  EventPtr consumed_;
};

inline Status DriveGpu(NcclMember* member, Work* work) {
  const Deadline deadline = Deadline::After(MemberPatience());
  while (true) {
    const Progress progress = work->Advance();
    if (progress == Progress::kDone) return Status::Ok();
    if (progress == Progress::kFailed) return work->status();
    if (deadline.Passed()) return Status::Timeout("watchdog: no progress in time");
    const Status status = member->communicator->Look();
    if (!status.ok()) return status;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// Turns a work that is not done at once, until it is or fails, or until the engine would have heard
// that it must end.
inline Status StartAndDrive(NcclMember* member, const Batch& batch, EventPtr* finished) {
  const auto work = member->communicator->Start(batch);
  const Status status = DriveGpu(member, work.get());
  *finished = work->finished();
  return status;
}

inline Case Sum(int members, std::vector<int64_t> sizes, uint32_t seed = 1) {
  Case c;
  c.members = members;
  c.sizes = std::move(sizes);
  c.seed = seed;
  return c;
}

// As RunCases, with several batches on their way through the device at a time. What NCCL cannot is
// left out; returns how many it can.
inline size_t RunGpuCases(NcclWorld* world, const std::vector<Case>& all) {
  constexpr size_t kInFlight = 4;
  std::vector<Case> cases;
  std::vector<std::unique_ptr<Trial>> trials;
  for (const Case& c : all) {
    auto trial = std::make_unique<Trial>(c);
    std::string why;
    if (!world->member(0).communicator->Can(trial->batch(0), &why)) continue;
    trials.push_back(std::move(trial));
    cases.push_back(c);
  }
  const std::vector<Status> statuses = world->Run([&](int me, NcclMember& member) {
    std::deque<std::unique_ptr<GpuTrial>> in_flight;
    for (size_t i = 0; i < trials.size(); ++i) {
      in_flight.push_back(
          std::make_unique<GpuTrial>(trials[i]->batch(me), &member, me, world->size()));
      const auto work = member.communicator->Start(in_flight.back()->batch());
      const Status status = DriveGpu(&member, work.get());
      if (!status.ok()) return Status(status.code(), cases[i].ToString() + ": " + status.message());
      in_flight.back()->Consume(work->finished());
      if (in_flight.size() < kInFlight) continue;
      HVDLITE_RETURN_IF_ERROR(in_flight.front()->Finish());
      in_flight.pop_front();
    }
    for (const auto& trial : in_flight) HVDLITE_RETURN_IF_ERROR(trial->Finish());
    return Status::Ok();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  for (const auto& trial : trials) {
    for (int member = 0; member < world->size(); ++member) {
      const std::string difference = trial->Check(member);
      EXPECT_EQ(difference, "");
      if (!difference.empty()) return trials.size();
    }
  }
  return trials.size();
}

}  // namespace hvdlite::comm::net_testing
