// Members of every communicator that carries encoded and sparse allreduces, as threads: in one
// host's memory, over links, and on several hosts with several members each.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/carrier_counts.h"
#include "comm/compressed/encoded_allreduce.h"
#include "comm/compressed/sparse_allreduce.h"
#include "comm/self/communicator.h"
#include "hierarchical_world.h"

namespace hvdlite::comm::net_testing {

inline std::unique_ptr<Work> StartEither(Communicator* communicator, const Batch& batch, int me,
                                         int members) {
  return batch.sparse ? compressed::StartSparse(communicator, batch, me, members)
                      : compressed::StartEncoded(communicator, batch, me, members);
}

class EncodedWorld {
 public:
  // Runs `batch(member)` on all members at once.
  using BatchOf = std::function<const Batch&(int)>;

  EncodedWorld() = default;
  virtual ~EncodedWorld() = default;
  EncodedWorld(const EncodedWorld&) = delete;
  EncodedWorld& operator=(const EncodedWorld&) = delete;

  virtual int size() const = 0;
  virtual void Allreduce(const BatchOf& batch) = 0;
  // Of all members together.
  virtual const CarrierCounts& carrier_counts() const { return carrier_counts_; }

 protected:
  CarrierCounts carrier_counts_;
};

class OverNothing final : public EncodedWorld {
 public:
  OverNothing() { self_.CountIn(&carrier_counts_); }
  int size() const override { return 1; }
  void Allreduce(const BatchOf& batch) override {
    const auto work = StartEither(&self_, batch(0), 0, 1);
    Progress progress = Progress::kSome;
    while (progress == Progress::kSome) progress = work->Advance();
    EXPECT_EQ(progress, Progress::kDone);
  }

 private:
  self::Communicator self_;
};

class OverShm final : public EncodedWorld {
 public:
  explicit OverShm(int members) : world_(members, 4096) {
    for (int m = 0; m < members; ++m) world_.communicator(m).CountIn(&carrier_counts_);
  }
  int size() const override { return world_.size(); }
  void Allreduce(const BatchOf& batch) override {
    world_.Run([&](int m) {
      const auto work = StartEither(&world_.communicator(m), batch(m), m, size());
      world_.Drive(m, work.get(), m * 10);
    });
  }

 private:
  shm_testing::ShmWorld world_;
};

class OverNet final : public EncodedWorld {
 public:
  explicit OverNet(int members) : world_(members) {
    for (int m = 0; m < members; ++m) world_.member(m)->CountIn(&carrier_counts_);
  }
  int size() const override { return world_.size(); }
  void Allreduce(const BatchOf& batch) override {
    const auto statuses = world_.Run([&](int m, Communicator* communicator) {
      const auto work = StartEither(communicator, batch(m), m, size());
      return Drive(communicator, work.get());
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  }

 private:
  NetWorld world_;
};

class OverHosts final : public EncodedWorld {
 public:
  explicit OverHosts(const std::vector<int>& host_of) : world_(host_of) {}
  int size() const override { return world_.size(); }
  void Allreduce(const BatchOf& batch) override {
    const auto statuses = world_.Run([&](int m, Communicator* communicator) {
      const auto work = StartEither(communicator, batch(m), m, size());
      return Drive(communicator, work.get());
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  }
  const CarrierCounts& carrier_counts() const override { return world_.carrier_counts(); }

 private:
  HierarchicalWorld world_;
};

}  // namespace hvdlite::comm::net_testing
